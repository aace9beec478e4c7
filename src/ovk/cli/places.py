"""Where commands write: what would fail after hours, or destroy what is read, is refused at once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ovk.cli.errors import Exit, Failure
from ovk.persistence import ChangedClass, CorruptFile, NewerFormat, UnknownClass, inspect

#: Endings of a page.
PAGE = (".html", ".htm")


def check_place(
    path: Path | None,
    option: str = "--out",
    *,
    models: Iterable[Path | None] = (),
    reads: Iterable[Path | str | None] = (),
) -> None:
    """Refuse a place that cannot be written to, or where a file lies that the command needs.

    Parameters
    ----------
    path : where to write; None for nowhere
    option : that names it
    models : files of models that the command reads or writes
    reads : other files that it reads
    """
    if path is None:
        return
    if path.is_dir():
        raise Failure(f"{option} {path} is a folder: name a file in it", Exit.USAGE)
    if not path.absolute().parent.is_dir():
        raise Failure(f"there is no folder {path.absolute().parent} for {option}: make it first", Exit.USAGE)
    for others, what in (
        (models, "the file of the model: give the other file"),
        (reads, "the file that is read: give"),
    ):
        if any(other is not None and _same(path, Path(other)) for other in others):
            raise Failure(f"{option} {path} is {what} another name", Exit.USAGE)


def check_model_place(path: Path | None, option: str = "--save") -> None:
    """Refuse to replace a file that is no model: it may be the only copy of the data."""
    check_place(path, option)
    if path is None or not path.exists() or not path.stat().st_size:
        return
    try:
        inspect(path)
    except (ChangedClass, NewerFormat, UnknownClass):
        return
    except CorruptFile as error:
        raise Failure(
            f"{path} is there and is not a model of ovk: give another name to {option}", Exit.USAGE
        ) from error


def check_report_place(path: Path | None, *models: Path | None) -> None:
    """Refuse a name that is not one of a page, and find out whether there is a library to draw with."""
    if path is None:
        return
    check_place(path, "--report", models=models)
    if path.suffix.lower() not in ("", *PAGE):
        raise Failure(f"--report {path} must end in .html, since it is a page; `ovk plot` draws pictures", Exit.USAGE)
    from ovk.plotting.display import pyplot

    pyplot()


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()
