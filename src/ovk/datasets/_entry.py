"""What is known about one data set."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DataFile:
    """One file below the data folder, and the sha256 of its bytes."""

    path: str
    sha256: str


def sums(folder: str, text: str) -> tuple[DataFile, ...]:
    """The files of a text written by ``sha256sum`` in `folder`: a checksum and a name on each line.

    >>> sums("wine", "76c3f809  winequality-white.csv")
    (DataFile(path='wine/winequality-white.csv', sha256='76c3f809'),)
    """
    lines = (line.split() for line in text.strip().splitlines())
    return tuple(DataFile(f"{folder}/{name}", sha256) for sha256, name in lines)


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
        samples, inputs, outputs = self.shape
        sizes = f"{samples} samples, {inputs} inputs, {outputs} output" + "s" * (outputs != 1)
        return (
            f"{self.title}\n"
            f"{sizes}\n"
            f"Source: {self.publisher} ({self.obtain})\n"
            f"Cite: {self.citation}\n"
            f"Terms: {self.terms}"
        )
