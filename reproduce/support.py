"""Shared by several reproductions: types, progress on a terminal, the data directory, checks."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
PathLike = str | os.PathLike[str]
RandomState = int | np.integer[Any] | np.random.Generator | np.random.RandomState | None
#: The result of a loader: a Bunch or a pair (data, target). scikit-learn is untyped, so any attribute passes.
Loaded: TypeAlias = Any

Item = TypeVar("Item")


def ticker(label: str, total: int) -> Callable[[], None]:
    """A function to call after each of `total` steps, which shows the progress on a terminal.

    >>> tick = ticker("folds", 2)
    >>> tick()
    """
    done = 0

    def tick() -> None:
        nonlocal done
        done += 1
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[2K{label}: {done} of {total}" + "\n" * (done == total))
            sys.stderr.flush()

    return tick


def track(items: Sequence[Item], label: str) -> Iterator[Item]:
    """Iterate over `items`, showing the progress on a terminal.

    >>> list(track([1, 2, 3], "counting"))
    [1, 2, 3]
    """
    tick = ticker(label, len(items))
    for item in items:
        yield item
        tick()


def data_directory(data_home: str | os.PathLike[str] | None) -> Path:
    """The directory given, or the one named by the variable ``OVK_DATA``, or the current one.

    >>> data_directory("somewhere").name
    'somewhere'
    """
    return Path(data_home or os.environ.get("OVK_DATA") or ".").expanduser()


def check_int(value: Any, name: str, *, least: int = 1) -> int:
    """`value` as an int, if it is a whole number of at least `least`.

    >>> check_int(3, "size")
    3
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise ValueError(f"{name} must be an integer >= {least}, got {value!r}")
    return int(value)


def positive(value: Any, name: str, *, zero: bool = False) -> float:
    """`value` as a float, if it is a finite number above (or at) zero.

    >>> positive(1, "noise")
    1.0
    """
    if isinstance(value, bool) or not isinstance(value, Real) or not np.isfinite(float(value)) or value < 0:
        raise ValueError(f"{name} must be a finite number {'>=' if zero else '>'} 0, got {value!r}")
    if value == 0 and not zero:
        raise ValueError(f"{name} must be positive and finite, got {value!r}")
    return float(value)
