"""Numbers out of cells: texts, or whatever JSON and Parquet hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ovk.base.types import Array, Mask

#: How a missing number may be spelled, in small letters.
MISSING = {"", "nan", "na", "n/a", "<na>", "?", "null", "none"}


class ParsedColumn(NamedTuple):
    """What cells hold.

    Attributes
    ----------
    values : (n, k) numbers, nan where there is none
    bad : (n,) whether a cell is there that cannot be read
    """

    values: Array
    bad: Mask


def is_missing_cell(cell: Any) -> bool:
    """Whether a cell says that nothing was measured.

    >>> [is_missing_cell(cell) for cell in (None, "", " NA ", "?", "null", float("nan"), "0", 0)]
    [True, True, True, True, True, True, False, False]
    """
    return str(cell).strip().lower() in MISSING


#: What may stand between groups of three digits whatever the decimal mark is: spaces and apostrophes.
_SPACES = " \u00a0\u202f'\u2019"

#: An exponent, as in 4.2e-05.
_EXPONENT = r"(?:[eE][+-]?\d+)?"

#: Numbers whose digits stand in groups of three, by their decimal mark: 1,234,567.5 and 1.234.567,5.
GROUPED = {
    decimal: re.compile(
        rf"[+-]?[1-9]\d{{0,2}}(?P<group>[{other}{_SPACES}])\d{{3}}(?:(?P=group)\d{{3}})*(?:[{decimal}]\d*)?{_EXPONENT}"
    )
    for decimal, other in ((".", ","), (",", "."))
}

#: Numbers with a decimal comma: 1,5 and ,5 and 4,2e-05.
DECIMAL_COMMA = re.compile(rf"[+-]?(?:\d+,\d*|,\d+){_EXPONENT}")


def bare(cell: str) -> str:
    """A cell without spaces around it and a percent sign behind it, its minus that of a keyboard.

    >>> bare(" \u22125 % ")
    '-5'
    """
    return cell.strip().removesuffix("%").rstrip().replace("\u2212", "-")


def tells_groups(text: str, decimal: str) -> bool:
    """Whether a number can be read only with groups of three digits: 1,234.5 and 1,234,567 and 1 234, but not 1,234.

    >>> [tells_groups(text, ".") for text in ("1,234.5", "1,234,567", "1 234", "1,234")]
    [True, True, True, False]
    """
    found = GROUPED[decimal].fullmatch(text)
    if found is None:
        return False
    return decimal in text or found["group"] in _SPACES or text.count(found["group"]) > 1


def plain_number(cell: str, decimal: str = ".", *, grouped: bool = False) -> str:
    """A number as Python spells it: without a percent sign or groups of digits, and with a decimal point.

    >>> plain_number("12 %"), plain_number("1,234.50", grouped=True), plain_number("1.234,5", ",", grouped=True)
    ('12', '1234.50', '1234.5')
    >>> plain_number("4,21e-05", ",")
    '4.21e-05'
    """
    text = bare(cell)
    if grouped and (found := GROUPED[decimal].fullmatch(text)):
        text = text.replace(found["group"], "")
    return text.replace(",", ".") if decimal == "," else text


def _parse(cells: Sequence[Any]) -> tuple[Array, Mask]:
    """(n,) numbers, infinite ones too, nan where there is none; and (n,) whether a cell there is no number."""
    bad = np.zeros(len(cells), dtype=bool)
    try:
        return np.fromiter(map(float, cells), np.float64, len(cells)), bad
    except (TypeError, ValueError, OverflowError):
        # Something is missing, or no number: one by one.
        numbers = []
        for i, cell in enumerate(cells):
            try:
                numbers.append(float(cell))
            except (TypeError, ValueError, OverflowError):
                numbers.append(np.nan)
                bad[i] = not is_missing_cell(cell)
        return np.array(numbers, dtype=np.float64), bad


def read_numbers(cells: Sequence[Any], decimal: str = ".", *, grouped: bool = False) -> ParsedColumn:
    """The numbers of a column; 12% is 12. Infinity is no measurement.

    Parameters
    ----------
    decimal : "." or ","
    grouped : whether digits may stand in groups of three, as in 1,234.50

    >>> values, bad = read_numbers(["1.5", "?", "abc", "inf", "12%"])
    >>> values.ravel(), bad
    (array([ 1.5,  nan,  nan,  nan, 12. ]), array([False, False,  True,  True, False]))
    """
    values, bad = (None, None) if grouped or decimal == "," else _parse(cells)
    if values is None or bad is None or bad.any():
        values, bad = _parse([plain_number(c, decimal, grouped=grouped) if isinstance(c, str) else c for c in cells])
    infinite = np.isinf(values)
    if infinite.any():
        values[infinite] = np.nan
        bad |= infinite
    return ParsedColumn(values[:, None], bad)


def require_numbers(cells: Any, name: str, label: str, place: Callable[[int], str]) -> Array:
    """(n,) numbers of the column `name` of the table `label`; a cell that is none is refused with its `place`.

    >>> require_numbers(["1.5", "?", "abc"], "x", "t.csv", "line {}".format)
    Traceback (most recent call last):
    ValueError: column 'x' of t.csv holds 'abc' in line 2, which is not a number: leave the column out (features=, targets=), or encode it as numbers
    """  # noqa: E501
    if isinstance(cells, np.ndarray) and cells.dtype.kind in "biuf":
        return np.asarray(cells, dtype=np.float64)
    values, bad = _parse(cells)
    if bad.any():
        i = int(bad.argmax())
        raise ValueError(
            f"column {name!r} of {label} holds {cells[i]!r} in {place(i)}, which is not a number: "
            "leave the column out (features=, targets=), or encode it as numbers"
        )
    return values
