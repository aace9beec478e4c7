"""What commands print: results on standard output, everything else on standard error."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from rich import box
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
from rich.table import Table
from rich.text import Text

from ovk.app.sessions import ColumnRow, SessionProgress, doubts, fault_lines, hints
from ovk.app.tables import UNUSED, Preparation, Records

#: Most names of columns in one line.
MOST = 50

#: Results. (No emoji: `:b:` may be part of a column's name.)
out = Console(soft_wrap=True, highlight=False, emoji=False, width=None if sys.stdout.isatty() else 120)

#: Progress, remarks and errors.
err = Console(stderr=True, soft_wrap=True, highlight=False, emoji=False)


def table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> None:
    """Print a table; the first `words` columns hold words, the others numbers."""
    shown = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    for k, name in enumerate(columns):
        shown.add_column(_text(name), justify="left" if k < words else "right", overflow="fold")
    for row in rows:
        shown.add_row(*map(_text, row))
    out.print(shown)


def _text(cell: str) -> Text:
    """A cell as data: square brackets are no markup, and control characters do not reach the terminal.

    >>> _text("y [kg]\\x1b[2J").plain
    'y [kg][2J'
    """
    return Text("".join(letter for letter in cell if letter.isprintable()))


def print_sentence(sentence: str) -> None:
    """Print a sentence that may hold names of columns."""
    out.print(_text(sentence))


def print_columns(readings: Mapping[str, str], targets: Sequence[str] = ()) -> None:
    """Say how the columns of a table are read, inputs and outputs apart, those that are read alike in one line."""
    for outputs in (False, True):
        alike: dict[str, list[str]] = {}
        for name, reading in readings.items():
            if (name in targets) == outputs:
                alike.setdefault(reading, []).append(name)
        lead = "output" if outputs else "input"
        for reading, names in alike.items():
            unused = reading.startswith(UNUSED)
            what = "" if unused else f"{lead}{'s' if len(names) > 1 else ''} "
            out.print(_text(f"{what}{', '.join(names[:MOST])}{_more(names)}: {reading}"))


def _more(names: Sequence[str]) -> str:
    return f" and {len(names) - MOST} more (all with --json)" if len(names) > MOST else ""


def print_bad_rows(bad: int, rows: int, faults: Sequence[tuple[int, str]], warn: float) -> None:
    """Say how many rows had unreadable cells, and which; as a warning on standard error if they are many."""
    if not bad:
        return
    console = err if bad > warn * rows else out
    share = f"{bad / max(rows, 1):.1%} of {rows:,} rows" if bad > warn * rows else f"{bad:,} of {rows:,} rows"
    style = "yellow" if console is err else ""
    lead = "warning: " if console is err else ""
    console.print(_text(f"{lead}{share} had unreadable cells (row 1 is the first row of data):"), style=style)
    for line in fault_lines(bad, faults):
        console.print(_text(f"  {line}"), style=style)


def print_observed(columns: Iterable[ColumnRow]) -> None:
    """Say of which outputs values are missing, and how many."""
    shares = [f"{name} {seen:.0%}" for name, role, seen, *_ in columns if role == "output" and seen < 0.995]
    if shares:
        out.print(_text(f"share of the values observed: {', '.join(shares)}"))


def print_remarks(preparation: Preparation, columns: Iterable[ColumnRow] = (), *, table: bool = False) -> None:
    """Say on standard error which columns may not be what they are read as; `table` if groups can be left out."""
    for remark in doubts(preparation, columns):
        err.print(_text(f"warning: {remark}"), style="yellow")
    for remark in hints(preparation, table=table):
        err.print(_text(f"hint: {remark}"))


def faults_json(faults: Sequence[tuple[int, str]]) -> list[dict[str, Any]]:
    """The first faults, as `--json` prints them."""
    return [{"row": row, "fault": fault} for row, fault in faults[:10]]


def number(value: float) -> str:
    """A number with four digits.

    >>> number(0.123456), number(float("nan"))
    ('0.1235', '-')
    """
    return "-" if math.isnan(value) else f"{value:.4g}"


def percent(share: float) -> str:
    """A share as a percentage.

    >>> percent(0.905), percent(float("nan"))
    ('90%', '-')
    """
    return "-" if math.isnan(share) else f"{share:.0%}"


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
        total = None if records.part_read() is None else 1.0
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
        """Say how far it is."""
        self.rows = reached.rows
        rate = reached.rows / max(time.perf_counter() - self._start, 1e-9)
        text = f"{reached.session.offset:,} rows, {rate:,.0f} a second, safe up to row {reached.saved:,}"
        self._progress.update(self._task, completed=self._records.part_read() or 0.0, description=text)


@contextmanager
def announced(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal; elsewhere, such as in a log, a line for each text that the function inside is given."""
    if not err.is_terminal:
        yield lambda now: err.print(f"{now}...", markup=False)
        return
    with err.status(escape(text)) as status:
        yield lambda now: status.update(escape(now))
