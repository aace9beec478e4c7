"""The table of all data sets, read from ``catalogue.toml``."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class DataFile:
    """One file below the data directory, and the sha256 of its bytes."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Dataset:
    """One data set: `shape` is (samples, inputs, outputs) of what its loader returns by default."""

    name: str
    title: str
    shape: tuple[int, int, int]
    files: tuple[DataFile, ...]
    publisher: str
    obtain: str
    citation: str
    terms: str

    @property
    def description(self) -> str:
        """The `DESCR` of the Bunch.

        >>> wine = Dataset("wine", "Wine", (4898, 11, 1), (), "UCI", "a page", "Cortez (2009)", "CC BY")
        >>> print(wine.description)
        Wine
        4898 samples, 11 inputs, 1 output
        Source: UCI (a page)
        Cite: Cortez (2009)
        Terms: CC BY
        """
        return (
            f"{self.title}\n"
            f"{self.sizes}\n"
            f"Source: {self.publisher} ({self.obtain})\n"
            f"Cite: {self.citation}\n"
            f"Terms: {self.terms}"
        )

    @property
    def sizes(self) -> str:
        """The shape in words."""
        samples, inputs, outputs = self.shape
        return f"{samples} samples, {inputs} inputs, {outputs} output" + "s" * (outputs != 1)

    def to_dict(self) -> dict[str, Any]:
        """The entry as plain values, without its checksums."""
        samples, inputs, outputs = self.shape
        return {
            "title": self.title,
            "samples": samples,
            "inputs": inputs,
            "outputs": outputs,
            "files": [file.path for file in self.files],
            "publisher": self.publisher,
            "obtain": self.obtain,
            "cite": self.citation,
            "terms": self.terms,
        }


def _read_catalogue() -> dict[str, Dataset]:
    table = tomllib.loads(files("reproduce.data").joinpath("catalogue.toml").read_text(encoding="utf-8"))
    return {name: _dataset(name, known, table["collections"]) for name, known in table["datasets"].items()}


def _dataset(name: str, known: dict[str, Any], collections: dict[str, dict[str, Any]]) -> Dataset:
    """The data set of one table of the file, completed by the table of the collection that it names."""
    own = dict(known)
    fields = {**collections.get(own.pop("collection", ""), {}), **own}
    shape, checksums = tuple(fields.pop("shape")), fields.pop("files")
    return Dataset(name=name, shape=shape, files=tuple(DataFile(*pair) for pair in checksums.items()), **fields)


CATALOGUE: dict[str, Dataset] = _read_catalogue()


def names_in(collection: str) -> tuple[str, ...]:
    """The names of the sets of a collection.

    >>> names_in("dream3")
    ('E1', 'E2', 'Y1', 'Y2', 'Y3')
    """
    prefix = f"{collection}/"
    return tuple(name.removeprefix(prefix) for name in CATALOGUE if name.startswith(prefix))


def member(collection: str, name: str) -> Dataset:
    """A set of a collection; the error for an unknown name lists the sets.

    >>> member("dream3", "E3")
    Traceback (most recent call last):
    ValueError: name must be one of 'E1', 'E2', 'Y1', 'Y2', 'Y3', got 'E3'
    """
    names = names_in(collection)
    if name not in names:
        raise ValueError(f"name must be one of {', '.join(map(repr, names))}, got {name!r}")
    return CATALOGUE[f"{collection}/{name}"]
