"""A progress bar that needs nothing but a terminal."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Self, TextIO, TypeVar

Item = TypeVar("Item")

#: What was asked for with `progress_shown`.
_asked: ContextVar[bool | None] = ContextVar("ovk_progress", default=None)


@contextmanager
def progress_shown(verbose: bool | None) -> Iterator[None]:
    """Bars inside are shown at once, wherever standard error goes (True), or never (False); None changes nothing."""
    token = _asked.set(_asked.get() if verbose is None else bool(verbose))
    try:
        yield
    finally:
        _asked.reset(token)


class ProgressBar:
    """Progress on standard error, shown only when the work has already taken a second and somebody is looking.

    Somebody is looking when the stream is a terminal; the variable ``OVK_PROGRESS`` set to ``0`` or ``1`` overrules.
    Inside `progress_shown` what is said there holds.

    >>> with ProgressBar("solving", total=3) as bar:
    ...     for _ in range(3):
    ...         bar.update()
    >>> bar.count
    3
    """

    PATIENCE = 1.0  # seconds before the bar appears
    INTERVAL = 0.1  # seconds between two drawings
    WIDTH = 28

    def __init__(self, label: str, total: int | None = None, stream: TextIO | None = None) -> None:
        self.label = label
        self.total = total
        self.count = 0
        self.stream = stream if stream is not None else sys.stderr
        self._start = self._drawn = time.monotonic()
        self._visible = False
        wish = os.environ.get("OVK_PROGRESS", "")
        self._wanted = wish == "1" or (wish != "0" and self.stream.isatty())
        self._patience = self.PATIENCE
        asked = _asked.get()
        if asked is not None:
            self._wanted, self._patience, self._drawn = asked, 0.0, self._start - self.INTERVAL

    def update(self, step: int = 1) -> None:
        """Say that `step` more units are done."""
        self.count += step
        now = time.monotonic()
        if self._wanted and now - self._start >= self._patience and now - self._drawn >= self.INTERVAL:
            self._drawn = now
            self._draw(now)

    def _draw(self, now: float) -> None:
        elapsed = now - self._start
        if self.total:
            done = min(self.count / self.total, 1.0)
            filled = round(done * self.WIDTH)
            left = elapsed / done - elapsed if done > 0 else float("inf")
            bar = "█" * filled + "░" * (self.WIDTH - filled)
            line = f"{self.label} {bar} {done:4.0%}  {_clock(elapsed)} gone, {_clock(left)} left"
        else:
            line = f"{self.label} {self.count:,}  {_clock(elapsed)}"
        self.stream.write("\r\x1b[2K" + line)
        self.stream.flush()
        self._visible = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._visible:
            self.stream.write("\r\x1b[2K")
            self.stream.flush()
            self._visible = False


def track(items: Iterable[Item], label: str, total: int | None = None) -> Iterator[Item]:
    """Go through `items` behind a progress bar.

    >>> [i for i in track([1, 2, 3], "counting")]
    [1, 2, 3]
    """
    if total is None and isinstance(items, Sized):
        total = len(items)
    with ProgressBar(label, total) as bar:
        for item in items:
            yield item
            bar.update()


def _clock(seconds: float) -> str:
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
