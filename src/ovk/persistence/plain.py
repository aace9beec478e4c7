"""Python's own values."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from types import NoneType
from typing import Any

import numpy as np

from ovk.persistence.codec import Codec, Json, Reader, Writer

SIMPLE = (NoneType, bool, int, float, complex, str, bytes, np.generic)


def _text(payload: Any) -> str:
    if type(payload) is not str:
        raise TypeError(f"{payload!r} where a string belongs")
    return payload


def _integer(payload: Any, reader: Reader) -> int:
    # Base 16 takes linear time; Python refuses long decimals because they do not.
    value = int(_text(payload), 16)
    if hex(value) != payload:
        raise ValueError("an integer in an unusual spelling")
    return value


def _float(payload: Any, reader: Reader) -> float:
    return {"inf": float("inf"), "-inf": float("-inf"), "nan": float("nan")}[payload]


def _complex(payload: Any, reader: Reader) -> complex:
    real, imaginary = reader.items(payload)
    if type(real) is not float or type(imaginary) is not float:
        raise TypeError("a complex number needs two floats")
    return complex(real, imaginary)


def _decode_bytes(payload: Any, reader: Reader) -> bytes:
    return base64.b64decode(_text(payload), validate=True)


def _encode_dict(value: dict[Any, Any], writer: Writer) -> Json:
    for key in value:
        _require_simple(key, "a key", writer)
    return [[writer(key, "[key]"), writer(item, f"[{_short(key)}]")] for key, item in value.items()]


def _decode_dict(payload: Any, reader: Reader) -> dict[Any, Any]:
    pairs = [(reader(key, "[key]"), reader(item, f"[{_short(key)}]")) for key, item in payload]
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a key stands twice")
    return result


def _encode_set(value: set[Any] | frozenset[Any], writer: Writer) -> Json:
    for item in value:
        _require_simple(item, "an element", writer)
    # A set of strings is iterated in another order by each process: sorted, the same model gives the same
    # file.
    return sorted(writer.items(value), key=json.dumps)


def _decode_set(kind: Callable[[list[Any]], Any]) -> Callable[[Any, Reader], Any]:
    def decode(payload: Any, reader: Reader) -> Any:
        items = reader.items(payload)
        result = kind(items)
        if len(result) != len(items):
            raise ValueError("an element stands twice")
        return result

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


def _short(key: Any) -> str:
    try:
        text = repr(key)
    except ValueError:  # an integer with more digits than Python prints
        text = f"<{type(key).__name__}>"
    return text if len(text) <= 40 else f"{text[:18]}...{text[-18:]}"


def _decode_range(payload: Any, reader: Reader) -> range:
    start, stop, step = reader.items(payload)
    return range(start, stop, step)


def _decode_slice(payload: Any, reader: Reader) -> slice:
    start, stop, step = reader.items(payload)
    return slice(start, stop, step)


CODECS = (
    Codec("int", (int,), lambda value, writer: hex(value), _integer),
    Codec("float", (float,), lambda value, writer: repr(value), _float),
    Codec("complex", (complex,), lambda value, writer: writer.items((value.real, value.imag)), _complex),
    Codec("bytes", (bytes,), lambda value, writer: base64.b64encode(value).decode("ascii"), _decode_bytes),
    Codec("tuple", (tuple,), lambda value, writer: writer.items(value), lambda p, r: tuple(r.items(p))),
    Codec("dict", (dict,), _encode_dict, _decode_dict),
    Codec("set", (set,), _encode_set, _decode_set(set)),
    Codec("frozenset", (frozenset,), _encode_set, _decode_set(frozenset)),
    Codec("range", (range,), lambda v, w: w.items((v.start, v.stop, v.step)), _decode_range),
    Codec("slice", (slice,), lambda v, w: w.items((v.start, v.stop, v.step)), _decode_slice),
)
