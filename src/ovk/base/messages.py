"""Names and values in messages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any

#: Maximum number of names in a message, and how many precede the ellipsis if there are more.
MAX_NAMES, NAMES_BEFORE_ELLIPSIS = 12, 10


def quoted(names: Iterable[Any]) -> str:
    found = [repr(name) for name in names]
    return ", ".join(found if len(found) <= MAX_NAMES else [*found[:NAMES_BEFORE_ELLIPSIS], "...", found[-1]])


def short(value: Any, most: int = 80) -> str:
    """The repr of a value, cut off after `most` characters."""
    try:
        text = repr(value)
    except ValueError:  # an integer with too many digits to print
        text = f"an integer of about {int(value.bit_length() * 0.30103):,} digits"
    return text if len(text) <= most else f"{text[:most]}..."


def closest_names(wanted: Sequence[str], known: Iterable[str]) -> dict[str, str]:
    """The closest known name for each wanted name, ignoring case; each known name is used once."""
    left = {name.casefold(): name for name in reversed(list(known))}
    found = {name: left.pop(name.casefold()) for name in wanted if name.casefold() in left}
    for name in wanted:
        if name not in found and (close := get_close_matches(name.casefold(), left, 1)):
            found[name] = left.pop(close[0])
    return {name: found[name] for name in wanted if name in found}
