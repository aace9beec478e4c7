"""Python's own values."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from reprlib import repr as short
from types import NoneType
from typing import Any

import numpy as np

from ovk.persistence.codec import Codec, Json, Reader, Writer

SIMPLE = (NoneType, bool, int, float, str, bytes, np.generic)
DIGITS = 1000  # of an integer: Python cannot even print one of 5,000
#: Keys of a dict or elements of a set that may share a hash. Python compares each of them with all others, so that a
#: file with n such keys would take time n^2; numbers and tuples that do are easily made.
COLLISIONS = 100


def _text(payload: Any) -> str:
    if type(payload) is not str:
        raise TypeError(f"{short(payload)} where a string belongs")
    return payload


def _encode_int(value: int, writer: Writer) -> Json:
    if abs(value) >= 10**DIGITS:
        writer.refuse(f"is an integer of more than {DIGITS:,} digits", "keep it as text or as an array of its digits")
    return hex(value)


def _decode_int(payload: Any, reader: Reader) -> int:
    # Base 16 takes linear time; Python refuses long decimals because they do not.
    value = int(_text(payload), 16)
    if abs(value) >= 10**DIGITS:
        raise ValueError(f"an integer of more than {DIGITS:,} digits")
    if hex(value) != payload:
        raise ValueError("an integer in an unusual spelling")
    return value


def _decode_float(payload: Any, reader: Reader) -> float:
    return {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}[payload]


def _decode_bytes(payload: Any, reader: Reader) -> bytes:
    return base64.b64decode(_text(payload), validate=True)


def _encode_dict(value: dict[Any, Any], writer: Writer) -> Json:
    for key in value:
        _require_simple(key, "a key", writer)
    _require_apart(list(value), writer)
    return [[writer(key, "[key]"), writer(item, f"[{_short(key)}]")] for key, item in value.items()]


def _decode_dict(payload: Any, reader: Reader) -> dict[Any, Any]:
    pairs = [(reader(key, "[key]"), reader(item, _step(key))) for key, item in payload]
    _check_distinct([key for key, _ in pairs])
    return dict(pairs)


def _encode_set(value: set[Any] | frozenset[Any], writer: Writer) -> Json:
    for item in value:
        _require_simple(item, "an element", writer)
    _require_apart(list(value), writer)
    # A set of strings is iterated in another order by each process: sorted, the same model gives the same
    # file.
    return sorted(writer.items(value), key=json.dumps)


def _decode_set(kind: Callable[[list[Any]], Any]) -> Callable[[Any, Reader], Any]:
    def decode(payload: Any, reader: Reader) -> Any:
        items = reader.items(payload)
        _check_distinct(items)
        return kind(items)

    return decode


def _require_simple(value: Any, what: str, writer: Writer) -> None:
    if isinstance(value, (tuple, frozenset)):
        for item in value:
            _require_simple(item, what, writer)
    elif not isinstance(value, SIMPLE):
        writer.refuse(
            f"has {what} of type {type(value).__name__}",
            "use numbers, strings, bytes or tuples of them there",
        )


def _require_apart(keys: Sequence[Hashable], writer: Writer) -> None:
    if _collide(keys):
        writer.refuse(
            f"has more than {COLLISIONS} keys or elements of the same hash",
            "use strings, or other numbers",
        )


def _check_distinct(keys: Sequence[Hashable]) -> None:
    if _collide(keys):
        raise ValueError(f"more than {COLLISIONS} keys of the same hash")
    if len(set(keys)) != len(keys):
        raise ValueError("a key or an element stands twice")


def _collide(keys: Sequence[Hashable]) -> bool:
    """Whether a table of these keys would be slow. The hashes themselves are small numbers, which do not collide."""
    return len(keys) > COLLISIONS and max(Counter(map(hash, keys)).values()) > COLLISIONS


def _step(node: Any) -> str:
    """The way to the entry of a dict, from the tree of its key; a large tree is not printed at every level of it."""
    return "[...]" if isinstance(node, (list, dict)) else f"[{_short(node)}]"


def _short(key: Any) -> str:
    text = repr(key)
    return text if len(text) <= 40 else f"{text[:18]}...{text[-18:]}"


CODECS = (
    Codec("int", (int,), _encode_int, _decode_int),
    Codec("float", (float,), lambda value, writer: repr(value), _decode_float),
    Codec("bytes", (bytes,), lambda value, writer: base64.b64encode(value).decode("ascii"), _decode_bytes),
    Codec("tuple", (tuple,), lambda value, writer: writer.items(value), lambda p, r: tuple(r.items(p))),
    Codec("dict", (dict,), _encode_dict, _decode_dict),
    Codec("set", (set,), _encode_set, _decode_set(set)),
    Codec("frozenset", (frozenset,), _encode_set, _decode_set(frozenset)),
)
