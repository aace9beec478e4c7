"""Results on standard output; progress, warnings and one-sentence errors on standard error; exit codes."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from errno import EDQUOT, EFBIG, ENOSPC
from pathlib import Path
from typing import Any, Self

import numpy as np
from rich.console import Console
from rich.live import Live
from rich.text import Text

from ovk.app.sessions import SessionMismatchError, SessionProgress, Summary
from ovk.app.tables import BrokerError, Records, StreamLostError
from ovk.base import progress_line, progress_to
from ovk.evaluation import printable
from ovk.persistence import (
    ChangedClassError,
    CorruptFileError,
    NewerFormatError,
    StoredArray,
    StoredObject,
    UnknownClassError,
)

# No emoji: `:b:` may be part of a column name.
out = Console(soft_wrap=True, highlight=False, emoji=False, width=None if sys.stdout.isatty() else 120)

err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def show(text: str, console: Console = out, **options: Any) -> None:
    """Print a line without interpreting markup or control characters."""
    console.print(printable(text), markup=False, **options)


def publish(
    summary: Summary, files: Mapping[str, Path | str | None], title: str, warn_bad: float, *, as_json: bool
) -> None:
    """Write the report, if `files` has one, and print the summary and the `files` as text or JSON.

    Print a warning if the share of rows with unreadable cells exceeds `warn_bad`.
    """
    if files["report"] is not None:
        from ovk.app.report import report

        report(summary, files["report"], title=title)
    if as_json:
        print_json({**summary.facts, "model_file": files["model"], "report": files["report"]})
        return
    many = summary.n_bad > warn_bad * summary.n_rows
    for i, line in enumerate(summary.bad_row_lines()):
        lead = "warning: " if many and i == 0 else ""
        show(f"{lead}{line}", err if many else out, style="yellow" if many else None)
    for warning in summary.warnings:
        show(f"warning: {warning}", err, style="yellow")
    for line in summary.lines():
        show(line)
    for what, path in files.items():
        if path:
            show(f"{what}: {path}")


def print_json(content: Any) -> None:
    print(json.dumps(plain(content), indent=2, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as types of JSON; numbers that are not finite are None.

    >>> plain({"a": np.array([1.0, np.nan]), "b": np.int64(3)})
    {'a': [1.0, None], 'b': 3}
    """
    if isinstance(value, StoredObject):
        value = {"class": value.class_name, **value.parameters, **value.state}
    if isinstance(value, StoredArray):
        value = {"array": value.name, "shape": value.shape, "dtype": value.dtype}
    if isinstance(value, Mapping):
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


#: Seconds between two lines of progress if standard error is not a terminal.
LINE_INTERVAL = 10.0


class Display:
    """Progress on standard error: on a terminal one line that changes, otherwise a line every ten seconds.

    The line shows `text`, the share `done` if it is known, and the time since `start` by `time.monotonic`.
    """

    def __init__(self, text: str, done: float | None = None) -> None:
        self.text, self.done, self.start = text, done, time.monotonic()
        #: The share that an earlier run has done.
        self.before = 0.0
        self._ended = threading.Event()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if err.is_terminal:
            self._live = Live(console=err, transient=True, get_renderable=self._drawn, refresh_per_second=8)
            self._live.start()
        else:
            threading.Thread(target=self._print_lines, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._live is not None:
            self._live.stop()

    def _drawn(self) -> Text:
        sign = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[int(8 * time.monotonic()) % 10]
        return Text(f"{sign} {self._text(err.width - 3)}", no_wrap=True)

    def _words(self) -> str:
        return self.text

    def _text(self, width: int = 0) -> str:
        return printable(progress_line(self._words(), self.done, time.monotonic() - self.start, width, self.before))

    def _print_lines(self) -> None:
        while not self._ended.wait(LINE_INTERVAL):
            show(self._text(), err)


#: Seconds without rows after which the progress line reports that a followed stream is waiting.
MIN_SECONDS_IDLE = 2.0


class ProgressDisplay(Display):
    """Progress of a stream: rows, rows per second and the last checkpoint."""

    def __init__(self, records: Records) -> None:
        super().__init__("waiting for the first rows" if records.waits else "warming up")
        self.rows, self._records, self._last = 0, records, self.start

    def show(self, reached: SessionProgress) -> None:
        self.rows, self._last, self.done = reached.rows, time.monotonic(), self._records.fraction_read()
        self.before = (self.done or 0.0) * (1.0 - reached.rows / max(reached.session.offset, 1))
        rate = reached.rows / max(self._last - self.start, 1e-9)
        self.text = f"{reached.session.offset:,} rows, {rate:,.0f} rows/s, saved up to row {reached.saved:,}"

    def _words(self) -> str:
        idle = self._records.waits and self.rows and time.monotonic() - self._last >= MIN_SECONDS_IDLE
        return f"{self.text}, waiting for new rows" if idle else self.text


@contextmanager
def announced(text: str) -> Iterator[Callable[[str], None]]:
    """A function that shows a message; progress bars of the block appear in its place.

    If standard error is not a terminal, a message is also printed immediately.
    """
    display = Display(text)
    start = display.start

    def announce(now: str) -> None:
        nonlocal text
        text = display.text = now
        if not err.is_terminal:
            show(f"{now}...", err)

    def update(label: str, done: float | None, since: float) -> None:
        display.text, display.done, display.start = (label, done, since) if label else (text, None, start)

    with progress_to(update), display:
        yield announce


#: Environment variable that enables tracebacks.
TRACEBACK_VARIABLE = "OVK_TRACEBACK"

#: Errors of loading a model file.
MODEL_ERRORS = (ChangedClassError, CorruptFileError, NewerFormatError, UnknownClassError)


class Exit(IntEnum):
    """Exit codes, explained in the docstring of `ovk.app.cli`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA = 3
    MODEL = 4
    PACKAGE = 5
    INTERRUPTED = 130
    TERMINATED = 143


class CommandError(Exception):
    """An error with a message for the user and an exit code."""

    def __init__(self, message: str, code: Exit = Exit.USAGE) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def exit_code_on_error(code: Exit) -> Iterator[None]:
    """A block whose errors end the command with this exit code."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        if isinstance(error, (SessionMismatchError, BrokerError)) and not isinstance(error, StreamLostError):
            code = Exit.USAGE
        elif isinstance(error, MODEL_ERRORS):
            code = Exit.MODEL
        raise CommandError(sentence(error), code) from error


def explain(error: BaseException) -> tuple[str, Exit]:
    """The message for an error, and the exit code."""
    if os.environ.get(TRACEBACK_VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, CommandError):
        return str(error), error.code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, ImportError):
        return sentence(error), Exit.PACKAGE
    if isinstance(error, MODEL_ERRORS):
        return sentence(error), Exit.MODEL
    if isinstance(error, MemoryError):
        return "out of memory: use fewer columns or a smaller --block", Exit.DATA
    if isinstance(error, (OSError, ValueError)):
        return sentence(error), Exit.DATA
    return (
        f"{type(error).__name__}: {sentence(error)}; this is a bug in ovk: set the environment variable "
        f"{TRACEBACK_VARIABLE}=1, run the command again, and report its output",
        Exit.FAILED,
    )


def sentence(error: BaseException) -> str:
    """The message on one line; for system errors the file name comes first."""
    if isinstance(error, OSError) and error.strerror and (error.filename or error.errno in (ENOSPC, EFBIG, EDQUOT)):
        # What is written without a name is the output.
        text = f"{error.filename or 'standard output'}: {error.strerror[0].lower()}{error.strerror[1:]}"
        return f"{text}; check the path" if isinstance(error, FileNotFoundError) else text
    # Some functions name their argument first, which is not an option.
    return " ".join(str(error).removeprefix("path: ").split()) or type(error).__name__
