"""Names of columns that are asked for, among those that a table has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from ovk.streams.tables import quoted


def find_columns(wanted: Iterable[str], names: Sequence[str], label: str) -> None:
    """Refuse names that are not, or not only once, among the columns of a table."""
    wanted = list(wanted)
    check_present(wanted, names, label)
    counts = Counter(names)
    for name in wanted:
        if counts[name] > 1:
            raise ValueError(f"column {name!r} stands {counts[name]} times in {label}: give each its own name")


def check_present(wanted: Sequence[str], names: Sequence[str], label: str) -> None:
    """Refuse names that are not among the columns of a table, all at once, with those that may be meant instead.

    >>> check_present(["HNR", "RPDE"], ["NHR", "rpde"], "t.csv")
    Traceback (most recent call last):
    ValueError: there are no columns 'HNR', 'RPDE' in t.csv: did you mean 'NHR' for 'HNR' and 'rpde' for 'RPDE'?
    >>> check_present(["NHR", "HNR"], ["NHR", "hz"], "t.csv")
    Traceback (most recent call last):
    ValueError: there is no column 'HNR' in t.csv: its columns are 'NHR', 'hz'
    >>> check_present(["b"], ["a:b"], "t")
    Traceback (most recent call last):
    ValueError: there is no column 'b' in t: its only column is 'a:b'; separate cells by commas, semicolons, tabs or |
    """
    missing = list(dict.fromkeys(name for name in wanted if name not in names))
    if not missing:
        return
    meant = _meant(missing, [name for name in names if name not in wanted])
    hint = f"its columns are {quoted(names)}"
    if len(names) == 1 and all(name in names[0] for name in missing):
        hint = f"its only column is {quoted(names)}; separate cells by commas, semicolons, tabs or |"
    elif len(missing) == len(meant) == 1:
        hint = f"did you mean {meant[missing[0]]!r}?"
    elif len(meant) == len(missing):
        hint = f"did you mean {_pairs(meant)}?"
    elif meant:
        hint = f"did you mean {_pairs(meant)}? Its columns are {quoted(names)}"
    what = f"is no column {missing[0]!r}" if len(missing) == 1 else f"are no columns {quoted(missing)}"
    raise ValueError(f"there {what} in {label}: {hint}")


def _pairs(meant: dict[str, str]) -> str:
    *first, last = [f"{found!r} for {name!r}" for name, found in meant.items()]
    return f"{', '.join(first)} and {last}" if first else last


def _meant(missing: Sequence[str], free: Sequence[str]) -> dict[str, str]:
    """Names that nobody else asks for by the missing ones that they are close to, each once, whatever their case."""
    left = {name.casefold(): name for name in reversed(free)}
    found = {name: left.pop(name.casefold()) for name in missing if name.casefold() in left}
    for name in missing:
        if name not in found and (close := get_close_matches(name.casefold(), left, 1)):
            found[name] = left.pop(close[0])
    return {name: found[name] for name in missing if name in found}
