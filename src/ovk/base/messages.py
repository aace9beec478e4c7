"""Names and values as messages show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

#: Most names that a message lists, and how many stand before the last one where there are more.
MAX_NAMES, FIRST_NAMES = 12, 10


def quoted(names: Iterable[Any]) -> str:
    """Names in quotes, not too many of them."""
    found = [repr(name) for name in names]
    return ", ".join(found if len(found) <= MAX_NAMES else [*found[:FIRST_NAMES], "...", found[-1]])


def short(value: Any, most: int = 80) -> str:
    """How Python writes a value, at most so many characters of it."""
    try:
        text = repr(value)
    except ValueError:  # an integer of too many digits to be printed
        text = f"an integer of about {int(value.bit_length() * 0.30103):,} digits"
    return text if len(text) <= most else f"{text[:most]}..."


def closest_names(wanted: Sequence[str], known: Iterable[str]) -> dict[str, str]:
    """For each name that is close to a known one, whatever its case, the known name; each is taken once."""
    left = {name.casefold(): name for name in reversed(list(known))}
    found = {name: left.pop(name.casefold()) for name in wanted if name.casefold() in left}
    for name in wanted:
        if name not in found and (close := get_close_matches(name.casefold(), left, 1)):
            found[name] = left.pop(close[0])
    return {name: found[name] for name in wanted if name in found}
