"""Errors as one sentence and an exit code. Nobody should meet a traceback who did not ask for one."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

from ovk.app.sessions import OtherSession
from ovk.app.tables import BrokerError, StreamLost
from ovk.persistence import ChangedClass, CorruptFile, NewerFormat, UnknownClass, inspect

#: Set this variable to see where an error came from.
VARIABLE = "OVK_TRACEBACK"


class Exit(IntEnum):
    """Exit codes; the package's docstring says what they mean."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA = 3
    MODEL = 4
    PACKAGE = 5
    INTERRUPTED = 130
    TERMINATED = 143


class Failure(Exception):
    """An error whose message is the sentence to show."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def exit_code_on_error(code: Exit) -> Iterator[None]:
    """Errors of the values met here are the fault of the data, or of the model file."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Failure(sentence(error), _code(error, code)) from error


def _code(error: BaseException, code: Exit) -> Exit:
    if isinstance(error, OtherSession) or (isinstance(error, BrokerError) and not isinstance(error, StreamLost)):
        return Exit.USAGE
    return Exit.MODEL if isinstance(error, (ChangedClass, CorruptFile, NewerFormat, UnknownClass)) else code


def explain(error: BaseException) -> tuple[str, Exit]:
    """The sentence for an error, and the exit code."""
    if os.environ.get(VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, Failure):
        return str(error), error.code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, ImportError):
        return sentence(error), Exit.PACKAGE
    if isinstance(error, (ChangedClass, CorruptFile, NewerFormat, UnknownClass)):
        return sentence(error), Exit.MODEL
    if isinstance(error, MemoryError):
        return "there is not enough memory: use fewer columns or a smaller --block", Exit.DATA
    if isinstance(error, (OSError, ValueError)):
        return sentence(error), Exit.DATA
    return (
        f"{type(error).__name__}: {sentence(error)}; this is an error of ovk: please report it with the output of the "
        f"same command when the environment variable {VARIABLE} is set",
        Exit.FAILED,
    )


def article(name: str) -> str:
    """A class with its article.

    >>> article("OVKRidge"), article("Session")
    ('an OVKRidge', 'a Session')
    """
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def sentence(error: BaseException) -> str:
    """The message on one line; for errors of the system the file first."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
        return f"{text}: check the path" if isinstance(error, FileNotFoundError) else text
    # Functions name their argument first, which nobody has given here.
    return " ".join(str(error).removeprefix("path: ").split()) or type(error).__name__


# Where commands write: what would fail after hours, or destroy what is read, is refused at once.

#: Endings of a page.
PAGE = (".html", ".htm")


def check_output_path(
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


def check_model_path(path: Path | None, option: str = "--save") -> None:
    """Refuse to replace a file that is no model: it may be the only copy of the data."""
    check_output_path(path, option)
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


def check_report_path(path: Path | None, *models: Path | None) -> None:
    """Refuse a name that is not one of a page, and find out whether there is a library to draw with."""
    if path is None:
        return
    check_output_path(path, "--report", models=models)
    if path.suffix.lower() not in ("", *PAGE):
        raise Failure(f"--report {path} must end in .html, since it is a page; `ovk plot` draws pictures", Exit.USAGE)
    from ovk.plotting import pyplot

    pyplot()


def _same(one: Path, other: Path) -> bool:
    """Whether two names are of one file."""
    try:
        return one.samefile(other)
    except OSError:
        return one.absolute() == other.absolute()
