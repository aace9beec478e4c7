"""How far a run is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

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

from ovk.cli.output import err
from ovk.sessions import SessionProgress
from ovk.streams import Partitions, Records


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

    def __init__(self, records: Records | Partitions) -> None:
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
        text = f"{reached.offset:,} rows, {rate:,.0f} a second, safe up to row {reached.saved:,}"
        self._progress.update(self._task, completed=self._records.part_read() or 0.0, description=text)


@contextmanager
def announced(text: str) -> Iterator[Callable[[str], None]]:
    """A spinner on a terminal; elsewhere, such as in a log, a line for each text that the function inside is given."""
    if not err.is_terminal:
        yield lambda now: err.print(f"{now}...", markup=False)
        return
    with err.status(escape(text)) as status:
        yield lambda now: status.update(escape(now))
