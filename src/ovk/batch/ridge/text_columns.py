"""Columns of text that are not categories: numbers, percentages and dates written as text, and names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence

#: Part of the cells that must look like numbers or dates.
AGREEMENT = 0.9

#: Share of different words among the cells from which on they are names, and cells from which on that is asked.
NAMES, ENOUGH = 0.8, 20

#: A number with a decimal mark, groups of three digits, an exponent or a percent sign. Whole numbers may be codes.
_NUMBER = re.compile(
    r"[+-]?(?:\d{1,3}(?:[., ]\d{3})+(?:[.,]\d*)?|\d+[.,]\d*|[.,]\d+|\d+(?=\s*%)|\d+(?=[eE]))(?:[eE][+-]?\d+)?\s*%?"
)
_WHOLE = re.compile(r"[+-]?\d+")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}(?:[T ]+\d{1,2}:\d{2}.*)?")

#: How a missing value may be spelled, in small letters.
_MISSING = {"", "nan", "na", "n/a", "<na>", "?", "-", "null", "none"}


def check_categories(words: Sequence[str], name: object) -> None:
    """Refuse a column of text that holds numbers or dates, and warn about one of names.

    >>> check_categories(["71.6%", "60%", "n/a"], "humidity")
    Traceback (most recent call last):
    ...
    ValueError: column 'humidity' of X holds numbers written as text, such as '71.6%': make numbers of them (strip percent signs and thousands separators), or read the file with ovk.streams.read_table, which does that; if they are categories, give the column the type category
    >>> check_categories(["red", "blue", "red"], "colour")
    """  # noqa: E501
    present = [text for word in words if (text := word.strip()).lower() not in _MISSING]
    dates = [text for text in present if _DATE.fullmatch(text)]
    numbers = [text for text in present if _NUMBER.fullmatch(text) and not _DATE.fullmatch(text)]
    whole = [text for text in present if _WHOLE.fullmatch(text)]
    enough = AGREEMENT * len(present)
    category = "if they are categories, give the column the type category"
    if dates and len(dates) >= enough:
        raise ValueError(
            f"column {name!r} of X holds dates written as text, such as {dates[0]!r}: turn them into numbers, such as "
            "days since the first one, or leave the column out; ovk.streams.read_table makes the time of day, of the "
            f"week and of the year of them; {category}"
        )
    if numbers and len(numbers) + len(whole) >= enough:
        raise ValueError(
            f"column {name!r} of X holds numbers written as text, such as {numbers[0]!r}: make numbers of them (strip "
            "percent signs and thousands separators), or read the file with ovk.streams.read_table, which does that; "
            f"{category}"
        )
    different = len(set(present))
    if len(present) >= ENOUGH and different > NAMES * len(present):
        warnings.warn(
            f"column {name!r} of X holds {different} different words in {len(present)} rows, such as {present[0]!r}: "
            "they look like names, of which nothing can be learned; leave the column out",
            UserWarning,
            stacklevel=2,
        )
