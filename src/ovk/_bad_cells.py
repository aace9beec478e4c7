"""Errors that name the cell of a table that is not a number."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

#: What to do about a cell that is no number among many that are.
DIRTY = (
    "write nan for values that were not observed, and strip percent signs and thousands separators; "
    "ovk.streams.read_table does that for a file"
)


@contextmanager
def naming_bad_cells(values: Any, name: str) -> Iterator[None]:
    """Where turning a table into numbers fails, say which cell it was.

    >>> import pandas as pd
    >>> from ovk import OVKRidge
    >>> OVKRidge().fit(pd.DataFrame({"size": [1.0, 2.0], "colour": ["red", "blue"]}), [1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: X must hold numbers, but column 'colour' holds 'red' in row 0: encode the column as numbers, as with
    scikit-learn's OneHotEncoder, or leave it out (could not convert string to float: 'red')
    """
    refuse_odd_frames(values, name)
    try:
        yield
    except (TypeError, ValueError, OverflowError) as error:
        found = _first_bad_cell(values)
        if found is None:
            raise
        column, row, cell, cure = found
        where = "it" if column is None else f"column {column!r}"
        why = f"{cure} ({_short_text(str(error))})"
        message = f"{name} must hold numbers, but {where} holds {_short(cell)} in row {row}: {why}"
        # scikit-learn's own checks tell the two kinds of error apart.
        raise (TypeError if isinstance(error, TypeError) else ValueError)(message) from error


def refuse_odd_frames(values: Any, name: str) -> None:
    """Frames that have no cells yet, or two columns of one name, which nothing behind could tell apart.

    >>> import pandas as pd
    >>> from ovk import OVKRidge
    >>> OVKRidge().fit(pd.DataFrame([[1.0, 2.0], [3.0, 5.0]], columns=["a", "a"]), [1.0, 2.0])
    Traceback (most recent call last):
    ...
    ValueError: X has two columns named 'a': rename one of them, or pass the numbers alone (X.to_numpy())
    """
    if isinstance(values, np.ndarray):
        return
    if hasattr(values, "collect") and not hasattr(values, "__len__"):
        raise TypeError(f"{name} is a {type(values).__name__}, which has no rows yet: pass {name}.collect()")
    names = getattr(values, "columns", None)
    if names is not None and len(set(names)) < len(names):
        listed = list(names)
        twice = next(one for one in listed if listed.count(one) > 1)
        raise ValueError(
            f"{name} has two columns named {twice!r}: rename one of them, or pass the numbers alone ({name}.to_numpy())"
        )


def _first_bad_cell(values: Any) -> tuple[Any, int, Any, str] | None:
    """Column, row, content and cure of the first cell that is no number; None where none is found."""
    columns = getattr(values, "columns", None)
    if columns is not None:
        named = [(name, values[name]) for name in dict.fromkeys(columns)]
    else:
        # A series of objects has no columns either.
        plain = isinstance(values, (list, tuple)) or hasattr(values, "to_numpy")
        array = np.asarray(values, dtype=object) if plain else values
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "OUSMm" or array.ndim not in (1, 2):
            return None
        named = [(j if array.ndim == 2 else None, column) for j, column in enumerate(np.atleast_2d(array.T))]
    for name, column in named:
        if getattr(column, "ndim", 1) != 1:
            continue
        cells = np.asarray(column)
        if cells.dtype.kind in "biuf":
            continue
        every = cells.tolist() if cells.dtype.kind not in "Mm" else list(cells)
        for row, cell in enumerate(every):
            cure = _cure(cell)
            if cure is not None:
                return name, row, cell, DIRTY if isinstance(cell, str) and _mostly_numbers(every) else cure
    return None


def _cure(cell: Any) -> str | None:
    """What to do about a cell that is no number; None if it is one."""
    if isinstance(cell, (np.datetime64, np.timedelta64)) or hasattr(cell, "isoformat"):
        return "turn dates into numbers, such as days since the first one, or leave them out"
    try:
        float(cell)
    except OverflowError:
        return "it is too large for a number of 64 bits: rescale the column"
    except TypeError:
        return "leave such rows out, or fill them; a missing number is nan"
    except ValueError:
        return "encode the column as numbers, as with scikit-learn's OneHotEncoder, or leave it out"
    return None


def _mostly_numbers(cells: list[Any]) -> bool:
    """Whether more than half of the cells are numbers, written with percent signs or thousands separators perhaps.

    >>> _mostly_numbers(["71.6%", "1,200", "n/a"]), _mostly_numbers(["1", "red", "blue"])
    (True, False)
    """
    count = 0
    for cell in cells:
        try:
            float(str(cell).strip().removesuffix("%").replace(",", ""))
            count += 1
        except ValueError:
            continue
    return 2 * count > len(cells)


def _short(cell: Any) -> str:
    try:
        text = repr(cell)
    except ValueError:  # an integer of too many digits to be printed
        text = f"an integer of about {int(cell.bit_length() * 0.30103):,} digits"
    return _short_text(text)


def _short_text(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:60]}..."
