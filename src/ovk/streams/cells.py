"""Numbers out of cells: texts, or whatever JSON and Parquet hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ovk._validation import Array
from ovk.streams.tables import MISSING

Mask = npt.NDArray[np.bool_]


class Read(NamedTuple):
    """What cells hold.

    Attributes
    ----------
    values : (n, k) numbers, nan where there is none
    bad : (n,) whether a cell is there that cannot be read
    """

    values: Array
    bad: Mask


def is_missing(cell: Any) -> bool:
    """Whether a cell says that nothing was measured.

    >>> [is_missing(cell) for cell in (None, "", " NA ", "?", "null", float("nan"), "0", 0)]
    [True, True, True, True, True, True, False, False]
    """
    if cell is None:
        return True
    if isinstance(cell, str):
        return cell.strip().lower() in MISSING
    return isinstance(cell, float) and cell != cell


def read_numbers(cells: Sequence[Any], decimal: str = ".") -> Read:
    """The numbers of a column. Infinity is no measurement.

    >>> values, bad = read_numbers(["1.5", "?", "abc", "inf"])
    >>> values.ravel(), bad
    (array([1.5, nan, nan, nan]), array([False, False,  True,  True]))
    """
    if decimal == ",":
        cells = [cell.replace(",", ".") if isinstance(cell, str) else cell for cell in cells]
    bad = np.zeros(len(cells), dtype=bool)
    try:
        values = np.fromiter(map(float, cells), np.float64, len(cells))
    except (TypeError, ValueError, OverflowError):
        # Something is missing, or no number: one by one.
        numbers = []
        for i, cell in enumerate(cells):
            try:
                numbers.append(float(cell))
            except (TypeError, ValueError, OverflowError):
                numbers.append(np.nan)
                bad[i] = not is_missing(cell)
        values = np.array(numbers, dtype=np.float64)
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
        bad |= infinite
    return Read(values[:, None], bad)
