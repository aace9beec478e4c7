"""Rows of requests, read from JSON, tensors of the Open Inference Protocol (version 2) and MLflow's frames.

Tensors are in the JSON, or follow it as bytes (binary tensor extension).
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isinf, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from ovk.app.serve.access import RequestError
from ovk.app.sessions import csv_line
from ovk.base import Array, closest_names, quoted

#: A column: (n,) numbers, nan where missing, or a list of JSON scalars.
Cells = Array | list[Any]

#: NumPy's names of the protocol's numeric datatypes, in the byte order of the wire.
NUMBERS = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip

#: The forms of an MLflow request, of which it has exactly one.
MLFLOW_FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")

_LENGTH = struct.Struct("<I")


@dataclass(frozen=True)
class RequestRows:
    """Rows of a request: named columns, or an unnamed matrix (n, k) of numbers."""

    names: tuple[str, ...] | None
    columns: tuple[Cells, ...]
    matrix: Array | None = None

    @classmethod
    def of_matrix(cls, matrix: Array) -> RequestRows:
        return cls(None, (), np.ascontiguousarray(matrix, dtype=np.float64))

    @classmethod
    def named(cls, names: Sequence[str], columns: Sequence[Cells]) -> RequestRows:
        return cls(tuple(names), tuple(columns))

    def __len__(self) -> int:
        if self.matrix is not None:
            return len(self.matrix)
        return len(self.columns[0]) if self.columns else 0

    @property
    def nbytes(self) -> int:
        if self.matrix is not None:
            return self.matrix.nbytes + 200
        return 200 + sum(c.nbytes if isinstance(c, np.ndarray) else 80 * len(c) for c in self.columns)

    def numbers(self, names: Sequence[str] | None, width: int, what: str) -> Array:
        """(n, width) the columns of these names, or all columns in order if the rows or `names` have no names."""
        if self.matrix is not None:
            matrix = self.matrix
        else:
            columns = self.columns
            if names is not None:
                advice = ": send null for unknown values" if what == "targets" else ""
                columns = tuple(self.column(name, advice) for name in names)
            matrix = np.column_stack([as_numbers(column, what) for column in columns]) if columns else np.empty((0, 0))
        if matrix.shape[1] != width:
            raise RequestError(400, f"{what} must have {width} columns, got {matrix.shape[1]}")
        return matrix

    def column(self, name: str, advice: str = "") -> Cells:
        """A column by name; the error for a missing one contains `advice`."""
        names = self.names or ()
        if name not in names:
            found = quoted(names) or "unnamed columns"
            close = closest_names([name], names)
            meant = f"; rename {close[name]!r} to {name!r}?" if close else ""
            raise RequestError(400, f"column {name!r} is missing{advice}; the request has {found}{meant}")
        return self.columns[names.index(name)]

    def labels(self) -> list[Any]:
        """The cells of the only column, as class labels."""
        width = len(self.columns) if self.matrix is None else self.matrix.shape[1]
        if width != 1:
            raise RequestError(400, f"targets must be one column of labels, got {width} columns")
        cells = self.columns[0] if self.matrix is None else self.matrix[:, 0]
        return cells if isinstance(cells, list) else list(cells.tolist())

    def with_names(self, names: Sequence[str]) -> RequestRows:
        """The rows as named columns; `names` are for a matrix."""
        if self.matrix is None:
            return self
        if self.matrix.shape[1] != len(names):
            found = f"{self.matrix.shape[1]} unnamed columns"
            raise RequestError(400, f"inputs must have the {len(names)} columns {', '.join(names)}, got {found}")
        return RequestRows.named(names, list(self.matrix.T))

    def encode(self) -> bytes:
        """A line of JSON, then the numbers."""
        if self.matrix is not None:
            return json.dumps({"shape": self.matrix.shape}).encode() + b"\n" + self.matrix.astype("<f8").tobytes()
        cells = [None if isinstance(column, np.ndarray) else column for column in self.columns]
        head = {"names": self.names, "rows": len(self), "cells": cells}
        numbers = [column.astype("<f8").tobytes() for column in self.columns if isinstance(column, np.ndarray)]
        return json.dumps(head).encode() + b"\n" + b"".join(numbers)

    @classmethod
    def decode(cls, content: bytes) -> RequestRows:
        end = content.index(b"\n")
        head = json.loads(content[:end])
        numbers = np.frombuffer(content, dtype="<f8", offset=end + 1).astype(np.float64)
        if "shape" in head:
            return cls.of_matrix(numbers.reshape(head["shape"]))
        stored = iter(numbers.reshape(-1, head["rows"])) if len(numbers) else iter(())
        return cls.named(head["names"], [next(stored) if cells is None else cells for cells in head["cells"]])


def as_numbers(cells: Any, what: str) -> Array:
    """(n,) numbers, nan where missing. Rejects infinity."""
    if not isinstance(cells, np.ndarray):
        if strange := set(map(type, cells)) - {int, float, type(None)}:
            cell = next(cell for cell in cells if type(cell) in strange)
            raise RequestError(400, f"{what} must contain numbers or null, got {str(cell)[:40]!r}")
        try:
            cells = np.array(cells, dtype=np.float64)  # None becomes nan
        except OverflowError:
            raise RequestError(400, f"{what} must contain numbers in the range of doubles") from None
    numbers: Array = cells
    if np.isinf(numbers).any():
        raise RequestError(400, f"{what} must contain numbers in the range of doubles, got infinity")
    return numbers


def _flat(values: list[Any]) -> list[Any]:
    while values and type(values[0]) is list and set(map(type, values)) == {list}:
        values = list(chain.from_iterable(values))
    return values


class TensorSpec(NamedTuple):
    """An input or output tensor of a model; the shape has -1 for the number of rows."""

    name: str
    datatype: str
    shape: list[int]
    columns: list[str]

    def metadata(self) -> dict[str, Any]:
        name, datatype, shape, columns = self
        return {"name": name, "datatype": datatype, "shape": shape, "parameters": {"columns": columns}}


def read_tensors(given: Any, binary: memoryview, what: str) -> tuple[RequestRows, memoryview]:
    """The rows in a list of tensors, and the rest of the binary data.

    One tensor with several columns is a matrix; tensors with one column each are named columns.
    """
    if not isinstance(given, list) or not given or not all(isinstance(tensor, dict) for tensor in given):
        raise RequestError(400, f"{what} must be a list of tensors")
    names: list[str] = []
    columns: list[Cells] = []
    for tensor in given:
        name = tensor.get("name")
        if not isinstance(name, str) or not name or len(name) > 200:
            raise RequestError(400, f"{what} must have names of at most 200 characters")
        values, binary = _read_tensor(tensor, f"tensor {name[:60]!r}", binary)
        if isinstance(values, np.ndarray) and values.ndim == 2:
            if values.shape[1] == 1:
                values = values[:, 0]
            elif len(given) == 1:
                return RequestRows.of_matrix(values), binary
            else:
                found = values.shape[1]
                raise RequestError(400, f"tensor {name!r} must have one column, as one of several, got {found}")
        names.append(name)
        columns.append(values)
    if len(set(names)) < len(names):
        raise RequestError(400, f"{what} must have distinct names")
    if len({len(column) for column in columns}) > 1:
        raise RequestError(400, f"{what} must have the same number of rows")
    return RequestRows.named(names, columns), binary


def _read_tensor(tensor: Mapping[str, Any], label: str, binary: memoryview) -> tuple[Cells, memoryview]:
    """Numbers (n,) or (n, k), or a list of cells; and the rest of the binary data."""
    shape, datatype = tensor.get("shape"), tensor.get("datatype")
    if not (
        isinstance(shape, list)
        and 1 <= len(shape) <= 2
        and all(type(size) is int and 0 <= size < 1 << 40 for size in shape)
    ):
        raise RequestError(400, f"{label}: shape must be one or two integers, got {str(shape)[:60]}")
    size = prod(shape)
    if not isinstance(datatype, str) or (datatype not in NUMBERS and datatype != "BYTES"):
        allowed = f"{', '.join(NUMBERS)}, BYTES"
        raise RequestError(400, f"{label}: datatype must be one of {allowed}, got {str(datatype)[:20]}")
    if datatype == "BYTES" and len(shape) == 2 and shape[1] != 1:
        raise RequestError(400, f"{label}: a BYTES tensor must have one column, got shape {shape}")
    parameters, data = tensor.get("parameters"), tensor.get("data")
    length = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    values: Cells
    if length is not None:
        if type(length) is not int or not 0 <= length <= len(binary):
            raise RequestError(400, f"{label}: binary_data_size must be an integer up to {len(binary)}")
        values, binary = _from_bytes(binary[:length], datatype, size, label), binary[length:]
    elif not isinstance(data, list):
        raise RequestError(400, f"{label} has neither data nor binary_data_size")
    else:
        values = _flat(data)
        if datatype == "BOOL" and set(map(type, values)) <= {bool, int}:
            values = list(map(int, values))
        if datatype != "BYTES":
            values = as_numbers(values, label)
        elif {list, dict} & set(map(type, values)):
            raise RequestError(400, f"{label}: data of a BYTES tensor must be strings or null")
        if len(values) != size:
            raise RequestError(400, f"{label}: shape {shape} requires {size} values, got {len(values)}")
    return (values.reshape(shape) if isinstance(values, np.ndarray) else values), binary


def _from_bytes(content: memoryview, datatype: str, size: int, label: str) -> Cells:
    if datatype != "BYTES":
        kind = np.dtype(NUMBERS[datatype])
        if len(content) != size * kind.itemsize:
            raise RequestError(400, f"{label} must have {size * kind.itemsize} bytes, got {len(content)}")
        return as_numbers(np.frombuffer(content, dtype=kind).astype(np.float64), label)
    cells: list[str] = []
    offset = 0
    while offset + 4 <= len(content) and len(cells) <= size:
        (length,) = _LENGTH.unpack_from(content, offset)
        offset += 4
        if offset + length > len(content):
            break
        try:
            cells.append(str(content[offset : offset + length], "utf-8"))
        except UnicodeDecodeError:
            raise RequestError(400, f"{label} must be valid UTF-8") from None
        offset += length
    if offset != len(content) or len(cells) != size:
        raise RequestError(400, f"{label}: the binary data must contain {size} strings")
    return cells


def write_tensors(
    outputs: Sequence[tuple[TensorSpec, npt.NDArray[Any]]], binary: Mapping[str, bool]
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Tensors for a response, and the bytes of the binary ones. orjson writes missing and infinite values as null.

    The column names of a matrix are one string of CSV: the protocol allows only strings, numbers and booleans there.
    """
    described, buffers = [], []
    for (name, datatype, _, columns), values in outputs:
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(values.shape)}
        if values.ndim == 2:
            tensor["parameters"] = {"columns": csv_line(columns)[:-1]}
        if binary.get(name, False):
            content = _to_bytes(values, datatype)
            tensor.setdefault("parameters", {})["binary_data_size"] = len(content)
            buffers.append(content)
        else:
            tensor["data"] = values.reshape(-1).tolist()
        described.append(tensor)
    return described, buffers


def _to_bytes(values: npt.NDArray[Any], datatype: str) -> bytes:
    if datatype != "BYTES":
        return values.astype(NUMBERS[datatype]).tobytes()
    words = [str(value).encode() for value in values.reshape(-1).tolist()]
    return b"".join(_LENGTH.pack(len(word)) + word for word in words)


def read_rows(value: Any, what: str) -> RequestRows:
    """Rows given as a list of lists of numbers, or of records with column names."""
    if not isinstance(value, list):
        raise RequestError(400, f"{what} must be a list of rows")
    if not value:
        raise RequestError(400, f"{what} must contain at least one row")
    if isinstance(value[0], dict):
        names = value[0].keys()
        if not all(isinstance(record, dict) and record.keys() <= names for record in value):
            raise RequestError(400, f"{what}: all records must have the same columns")
        return _of_columns(list(names), [[record.get(name) for record in value] for name in names])
    # NumPy would convert strings to numbers.
    if set(map(type, _flat(value))) <= {int, float, type(None)}:
        try:
            matrix = np.array(value, dtype=np.float64)  # None becomes nan
        except (TypeError, ValueError, OverflowError):
            raise RequestError(400, f"{what} must be rows of numbers or nulls, all of the same length") from None
        if matrix.ndim > 2:
            raise RequestError(400, f"{what} must be rows of numbers, got {matrix.ndim} dimensions")
        return RequestRows.of_matrix(as_numbers(matrix if matrix.ndim == 2 else matrix[:, None], what))
    if all(isinstance(cell, (str, int, float)) or cell is None for cell in value):
        return RequestRows.named(["label"], [value])
    raise RequestError(400, f"{what} must be rows of numbers and nulls, or records with column names")


def read_frame(body: dict[str, Any]) -> RequestRows:
    """The rows of a request to ``/invocations``."""
    found = [form for form in MLFLOW_FORMS if form in body]
    if len(found) != 1:
        forms = ", ".join(MLFLOW_FORMS)
        raise RequestError(400, f"the body must contain one of {forms}, got {', '.join(found) or 'none'}")
    form, value = found[0], body[found[0]]
    if form == "inputs" and isinstance(value, dict):
        # A tensor (n, 1) is a column.
        lists = [column if isinstance(column, list) else [column] for column in value.values()]
        cells = [[c[0] if isinstance(c, list) and len(c) == 1 else c for c in column] for column in lists]
        return _of_columns(list(value), cells)
    if form != "dataframe_split":
        return read_rows(value, form)
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise RequestError(400, "dataframe_split must contain columns and data")
    names, data = value.get("columns"), value["data"]
    if names is None:
        return read_rows(data, "data")
    if not isinstance(names, list) or not all(isinstance(row, list) and len(row) == len(names) for row in data):
        raise RequestError(400, "columns must be a list of names, and each row of data must have as many values")
    return _of_columns(names, [list(column) for column in zip(*data, strict=True)] if data else [[] for _ in names])


def _of_columns(names: list[Any], lists: list[list[Any]]) -> RequestRows:
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise RequestError(400, "column names must be distinct strings")
    if len({len(column) for column in lists}) > 1:
        raise RequestError(400, "columns must have the same number of rows")
    columns: list[Cells] = []
    for name, cells in zip(names, lists, strict=True):
        kinds = set(map(type, cells))
        if not kinds <= {str, bool, int, float, type(None)}:
            raise RequestError(400, f"column {name[:60]!r} must contain numbers, strings or nulls")
        columns.append(cells if kinds & {str, bool} else as_numbers(cells, f"column {name[:60]!r}"))
    return RequestRows.named(names, columns)


# The body of a request: a JSON object, and bytes of tensors that may follow it.

#: Maximum nesting depth of the JSON of a request.
MAX_DEPTH = 16


def split_body(content: bytes, json_length: str | None) -> tuple[dict[str, Any], memoryview]:
    """The JSON of a request and the binary tensors after it; `json_length` is the header with the JSON's length."""
    if json_length is None:
        return parse_json(content), memoryview(b"")
    if not (json_length.isascii() and json_length.isdigit()) or int(json_length[:12]) > len(content):
        allowed = f"a number up to {len(content)}"
        raise RequestError(400, f"Inference-Header-Content-Length must be {allowed}, got {json_length[:20]!r}")
    size = int(json_length)
    return parse_json(content[:size]), memoryview(content)[size:]


def parse_json(content: bytes) -> dict[str, Any]:
    """The JSON object of a request. Rejects NaN, Infinity, numbers beyond doubles, and keys that occur twice.

    Integers beyond 64 bits become doubles.
    """
    try:
        value, distinct = orjson.loads(content), False
    except orjson.JSONDecodeError:
        value, distinct = _parse_slowly(content), True
    if not isinstance(value, dict):
        raise RequestError(400, f"the body must be a JSON object, got {type(value).__name__}")
    # orjson keeps the last of several equal keys, so its result has fewer colons than the text if it dropped a key.
    keys, colons = _count_keys(value, content), content.count(b":")
    distinct = distinct or keys == colons
    # Strings can contain colons too. If none is escaped, writing them again gives as many.
    if not distinct and (b"\\u003" in content or orjson.dumps(value).count(b":") != colons):
        _parse_slowly(content)
    return value


def _count_keys(value: dict[str, Any], content: bytes) -> int:
    """The number of keys in all objects. Rejects deep nesting."""
    # An upper bound on the number of lists and objects: the search can stop once that many are found.
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


def too_deep() -> RequestError:
    return RequestError(400, f"the JSON is nested more than {MAX_DEPTH} levels deep")


def _parse_slowly(content: bytes) -> Any:
    """Parse with the standard library, whose errors describe the fault."""
    try:
        return _DECODER.decode(content.decode("utf-8"))
    except RecursionError:
        raise too_deep() from None
    except ValueError as error:
        raise RequestError(400, f"the body is not JSON: {str(error)[:100]}") from None


def _reject_constant(word: str) -> Any:
    raise RequestError(400, f"the body contains {word}, which is not valid JSON: use null for missing values")


def _integer(text: str) -> int | float:
    number = int(text) if len(text) < 21 else 1 << 64
    return number if -(1 << 63) <= number < 1 << 64 else _double(text)


def _double(text: str) -> float:
    number = float(text)
    if isinf(number):
        raise RequestError(400, f"the body must contain numbers in the range of doubles, got {text[:20]}...")
    return number


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in found if keys.count(key) > 1)
        raise RequestError(400, f"the key {twice[:60]!r} occurs twice in an object: send it once")
    return found


_DECODER = json.JSONDecoder(
    parse_constant=_reject_constant, parse_int=_integer, parse_float=_double, object_pairs_hook=_distinct
)
