"""The body of a request: a JSON object, and bytes of tensors that may follow it."""

from __future__ import annotations

import json
from itertools import chain
from math import isinf
from typing import Any

import orjson

from ovk.app.serve.access import RequestRefused

#: Most levels of nesting in the JSON of a request.
MAX_DEPTH = 16


def split_body(content: bytes, json_length: str | None) -> tuple[dict[str, Any], memoryview]:
    """The JSON of a request and the binary tensors after it; `json_length` is the header with the JSON's length."""
    if json_length is None:
        return parse_json(content), memoryview(b"")
    if not (json_length.isascii() and json_length.isdigit()) or int(json_length[:12]) > len(content):
        raise RequestRefused(
            400, f"Inference-Header-Content-Length must be a number up to {len(content)}, got {json_length[:20]!r}"
        )
    size = int(json_length)
    return parse_json(content[:size]), memoryview(content)[size:]


def parse_json(content: bytes) -> dict[str, Any]:
    """The JSON object of a request. Refuses NaN, Infinity, numbers beyond doubles, and keys that occur twice.

    Integers beyond 64 bits become doubles.
    """
    try:
        value, distinct = orjson.loads(content), False
    except orjson.JSONDecodeError:
        value, distinct = _parse_slowly(content), True
    if not isinstance(value, dict):
        raise RequestRefused(400, f"the body must be a JSON object, got {type(value).__name__}")
    # orjson keeps the last of equal keys. With each key it drops, at least one colon is missing from what it has read.
    keys, colons = _count_keys(value, content), content.count(b":")
    distinct = distinct or keys == colons
    # Strings can contain colons too. If none is escaped, writing them again gives as many.
    if not distinct and (b"\\u003" in content or orjson.dumps(value).count(b":") != colons):
        _parse_slowly(content)
    return value


def _count_keys(value: dict[str, Any], content: bytes) -> int:
    """The number of keys in all objects. Refuses deep nesting."""
    # At most as many lists and objects: once all are found, nothing else needs to be looked at.
    keys, left = 0, content.count(b"[") + content.count(b"{")
    nested: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        keys += sum(len(one) for one in nested if type(one) is dict)
        left -= len(nested)
        if left <= 0:
            return keys
        items = chain.from_iterable(one.values() if type(one) is dict else one for one in nested)
        nested = [item for item in items if type(item) is list or type(item) is dict]
        if not nested:
            return keys
    raise too_deep()


def too_deep() -> RequestRefused:
    return RequestRefused(400, f"the JSON is nested more than {MAX_DEPTH} levels deep")


def _parse_slowly(content: bytes) -> Any:
    """The same with the standard library, which says what is wrong."""
    try:
        return _DECODER.decode(content.decode("utf-8"))
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise RequestRefused(400, f"the body is not JSON: {str(error)[:100]}") from None


def _refuse_constant(word: str) -> Any:
    raise RequestRefused(400, f"the body contains {word}, which is not valid JSON: use null for missing values")


def _integer(text: str) -> int | float:
    number = int(text) if len(text) < 21 else 1 << 64
    return number if -(1 << 63) <= number < 1 << 64 else _double(text)


def _double(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise RequestRefused(400, f"the body must contain numbers in the range of doubles, got {text[:20]}...")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise RequestRefused(400, f"the key {twice[:60]!r} occurs twice in an object: send it once")
    return found


_DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_int=_integer, parse_float=_double, object_pairs_hook=_distinct
)
