"""Reproductions of published results: published and reproduced numbers, data and settings."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from reproduce.code_digest import digest


@dataclass(frozen=True)
class Row:
    """One number of a table.

    Attributes
    ----------
    name : the measured quantity
    ours : the reproduced number, None if there is only a published one
    published : the published number, None if there is none
    setting : conditions of the reproduction
    """

    name: str
    ours: float | None
    published: float | None = None
    setting: str = ""


@dataclass(frozen=True)
class Result:
    """A reproduced table or figure.

    Attributes
    ----------
    title : its title
    measure : the quantity, and whether small or large is good
    data : the data used
    rows : the table
    remarks : method, and differences from the publication
    seconds : running time
    figures : matplotlib figures by name
    code : digest of the code that made it, None if it is not known
    """

    title: str
    measure: str
    data: str
    rows: list[Row]
    remarks: list[str] = field(default_factory=list)
    seconds: float = 0.0
    figures: Mapping[str, Any] = field(default_factory=dict)
    code: str | None = None

    def __getitem__(self, name: str) -> float:
        """Our number for the row of that name."""
        for row in self.rows:
            if row.name == name and row.ours is not None:
                return row.ours
        raise KeyError(name)

    def to_markdown(self) -> str:
        """The table as Markdown.

        >>> print(Result("A table", "error, small is good", "made up", [Row("ours", 0.25, 0.3)]).to_markdown())
        ## A table
        <BLANKLINE>
        error, small is good; data: made up; 0.0 s
        <BLANKLINE>
        | | published | ours | setting |
        |---|---:|---:|---|
        | ours | 0.3 | 0.25 | |
        """
        lines = [f"## {self.title}", "", f"{self.measure}; data: {self.data}; {self.seconds:.1f} s", ""]
        lines += ["| | published | ours | setting |", "|---|---:|---:|---|"]
        for row in self.rows:
            numbers = ["" if number is None else f"{number:.4g}" for number in (row.published, row.ours)]
            lines.append("| " + " | ".join([row.name, *numbers, row.setting]).rstrip() + " |")
        if self.remarks:
            lines += ["", *(f"- {remark}" for remark in self.remarks)]
        return "\n".join(lines)

    def to_json(self) -> str:
        """The table as JSON."""
        content = {key: value for key, value in asdict(self).items() if key != "figures"}
        return json.dumps(content, indent=2)

    def save(self, directory: Path, name: str) -> list[Path]:
        """Write the table as Markdown and JSON, and the figures as PNG."""
        directory.mkdir(parents=True, exist_ok=True)
        written = [directory / f"{name}.md", directory / f"{name}.json"]
        written[0].write_text(self.to_markdown() + "\n", encoding="utf-8")
        written[1].write_text(self.to_json() + "\n", encoding="utf-8")
        for label, figure in self.figures.items():
            path = directory / f"{name}-{label}.png"
            figure.savefig(path, dpi=150, bbox_inches="tight")
            written.append(path)
        return written


Reproduction = Callable[..., Result]


@dataclass(frozen=True)
class Entry:
    """A registered reproduction."""

    name: str
    paper: str
    run: Reproduction


_ENTRIES: dict[str, Entry] = {}


def reproduction(name: str, paper: str) -> Callable[[Reproduction], Reproduction]:
    """Register a function ``run(data_home=None) -> Result`` under a name."""

    def register(function: Reproduction) -> Reproduction:
        if name in _ENTRIES:
            raise ValueError(f"there is a reproduction named {name!r} already")
        _ENTRIES[name] = Entry(name, paper, function)
        return function

    return register


def names() -> list[str]:
    """Names of all reproductions.

    >>> import reproduce
    >>> "jura" in reproduce.names()
    True
    """
    return sorted(_ENTRIES)


def entry(name: str) -> Entry:
    """The reproduction of that name."""
    if name not in _ENTRIES:
        raise ValueError(f"there is no reproduction named {name!r}; there are {', '.join(names())}")
    return _ENTRIES[name]


def run(name: str, data_home: str | Path | None = None, **options: Any) -> Result:
    """Run a reproduction, time it and note the digest of its code.

    Parameters
    ----------
    name : one of `names()`
    data_home : directory of the data sets; the variable ``OVK_DATA`` by default
    """
    found = entry(name)
    code = digest(found.run.__module__)
    start = time.perf_counter()
    result = found.run(data_home=data_home, **options)
    return replace(result, seconds=time.perf_counter() - start, code=code)


def stale(directory: Path) -> dict[str, str]:
    """Names of the results in a directory that the present code did not make, and why.

    >>> stale(Path("a directory without results"))
    {}
    """
    found = {}
    for name in names():
        path = directory / f"{name}.json"
        if path.is_file():
            code = json.loads(path.read_text(encoding="utf-8")).get("code")
            if code is None:
                found[name] = "its code is not known: it ran before digests were stored"
            elif code != digest(entry(name).run.__module__):
                found[name] = "its code has changed"
    return found
