"""What commands print: results on standard output; progress, warnings and errors on standard error. Exit codes.

Nobody should meet a traceback who did not ask for one: errors are one sentence.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    Progress,
    SpinnerColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ovk.app.sessions import OtherSession, SessionProgress, Summary
from ovk.app.tables import BrokerError, Records, StreamLost
from ovk.evaluation import printable
from ovk.persistence import ChangedClass, CorruptFile, NewerFormat, UnknownClass

#: Results. (No emoji: `:b:` may be part of a column's name.)
out = Console(soft_wrap=True, highlight=False, emoji=False, width=None if sys.stdout.isatty() else 120)

#: Progress, warnings and errors.
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def show(text: str, console: Console = out, **options: Any) -> None:
    """Print a line as data: square brackets are no markup, and control characters do not reach the terminal."""
    console.print(printable(text), markup=False, **options)


def print_summary(summary: Summary, warn_bad: float, written: Mapping[str, Path | str | None]) -> None:
    """Print a summary as text, warnings on standard error, and the files that were `written`.

    Rows with unreadable cells are a warning if their share is above `warn_bad`.
    """
    many = summary.n_bad > warn_bad * summary.n_rows
    for i, line in enumerate(summary.bad_row_lines()):
        if not many:
            show(line)
            continue
        if i == 0:
            share = f"{summary.n_bad / max(summary.n_rows, 1):.1%} of {summary.n_rows:,} rows"
            line = f"warning: {share}{line[line.index(' had') :]}"
        show(line, err, style="yellow")
    for warning in summary.warnings:
        show(f"warning: {warning}", err, style="yellow")
    for line in summary.lines():
        show(line)
    for what, path in written.items():
        if path:
            show(f"{what}: {path}")


def print_json(content: Any) -> None:
    """Print one JSON object; what is not a number is null."""
    print(json.dumps(plain(content), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """Arrays, tuples and numbers of NumPy as JSON knows them.

    >>> plain({"a": np.array([1.0, np.nan]), "b": np.int64(3)})
    {'a': [1.0, None], 'b': 3}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


# How far a run is.


class Bar(Progress):
    """A progress bar on standard error if somebody is looking, else nothing."""

    def __init__(self, *columns: Any) -> None:
        super().__init__(*columns, console=err, transient=True, disable=not err.is_terminal)

    def stop(self) -> None:
        # rich 13 ends a bar that nobody has seen with an empty line.
        if not self.disable:
            super().stop()


class ProgressDisplay:
    """How far it is and how long it will take, on standard error, if somebody is looking."""

    def __init__(self, records: Records) -> None:
        self.rows, self._records = 0, records
        columns: list[Any] = [SpinnerColumn(), TextColumn("{task.description}")]
        total = None if records.fraction_read() is None else 1.0
        if total is not None:
            columns += [BarColumn(), TaskProgressColumn(), TextColumn("left"), TimeRemainingColumn(compact=True)]
        self._progress = Bar(*columns, TimeElapsedColumn())
        self._task = self._progress.add_task("warming up", total=total)
        self._start = time.perf_counter()

    def __enter__(self) -> ProgressDisplay:
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._progress.stop()

    def show(self, reached: SessionProgress) -> None:
        self.rows = reached.rows
        rate = reached.rows / max(time.perf_counter() - self._start, 1e-9)
        text = f"{reached.session.offset:,} rows, {rate:,.0f} a second, safe up to row {reached.saved:,}"
        self._progress.update(self._task, completed=self._records.fraction_read() or 0.0, description=text)


@contextmanager
def announced(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal; elsewhere, such as in a log, a line for each text that the function inside is given."""
    if not err.is_terminal:
        yield lambda now: err.print(f"{now}...", markup=False)
        return
    with err.status(escape(text)) as status:
        yield lambda now: status.update(escape(now))


# Errors as one sentence and an exit code.

#: Set this environment variable to see where an error came from.
TRACEBACK_VARIABLE = "OVK_TRACEBACK"


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


#: What loading a model file raises.
MODEL_ERRORS = (ChangedClass, CorruptFile, NewerFormat, UnknownClass)


def _code(error: BaseException, code: Exit) -> Exit:
    if isinstance(error, OtherSession) or (isinstance(error, BrokerError) and not isinstance(error, StreamLost)):
        return Exit.USAGE
    return Exit.MODEL if isinstance(error, MODEL_ERRORS) else code


def explain(error: BaseException) -> tuple[str, Exit]:
    """The sentence for an error, and the exit code."""
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, Failure):
        return str(error), error.code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, ImportError):
        return sentence(error), Exit.PACKAGE
    if isinstance(error, MODEL_ERRORS):
        return sentence(error), Exit.MODEL
    if isinstance(error, MemoryError):
        return "there is not enough memory: use fewer columns or a smaller --block", Exit.DATA
    if isinstance(error, (OSError, ValueError)):
        return sentence(error), Exit.DATA
    return (
        f"{type(error).__name__}: {sentence(error)}; this is an error of ovk: please report it with the output of the "
        f"same command when the environment variable {TRACEBACK_VARIABLE} is set",
        Exit.FAILED,
    )


def sentence(error: BaseException) -> str:
    """The message on one line; for errors of the system the file first."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
        return f"{text}: check the path" if isinstance(error, FileNotFoundError) else text
    # Functions name their argument first, which nobody has given here.
    return " ".join(str(error).removeprefix("path: ").split()) or type(error).__name__
