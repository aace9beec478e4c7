"""Tensors of the Open Inference Protocol, version 2: in JSON, or as bytes behind the JSON (binary tensor extension)."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import StringIO
from itertools import chain
from math import floor, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk.app.serve.access import RequestRefused
from ovk.app.serve.rows import Cells, RequestRows, as_matrix, as_numbers, finite_or_missing, only_plain
from ovk.app.serve.served_models import Outputs, ServedModel, TensorSpec
from ovk.intervals import rows_needed

#: Datatypes of numbers, as NumPy writes them on the wire.
NUMBERS = {
    "BOOL": "?", "UINT8": "u1", "UINT16": "<u2", "UINT32": "<u4", "UINT64": "<u8",
    "INT8": "i1", "INT16": "<i2", "INT32": "<i4", "INT64": "<i8", "FP16": "<f2", "FP32": "<f4", "FP64": "<f8",
}  # fmt: skip
#: Most levels of nesting in the JSON of a request.
DEPTH = 16

_LENGTH = struct.Struct("<I")


def parse_json(content: bytes) -> dict[str, Any]:
    """The JSON object of a request; NaN and Infinity are no JSON.

    >>> parse_json(b'{"a": [1, null]}')
    {'a': [1, None]}
    """
    try:
        value = _DECODER.decode(content.decode("utf-8"))
    except RequestRefused:
        raise
    except RecursionError:
        raise RequestRefused(400, f"the JSON is nested more than {DEPTH} levels deep") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise RequestRefused(400, f"the body is not JSON: {str(error)[:100]}") from None
    if not isinstance(value, dict):
        raise RequestRefused(400, f"the body must be a JSON object, got {type(value).__name__}")
    if _deeper(value, DEPTH):
        raise RequestRefused(400, f"the JSON is nested more than {DEPTH} levels deep")
    return value


def _refuse_constant(word: str) -> Any:
    raise RequestRefused(400, f"the body holds {word}, which JSON does not know: write null for a missing value")


#: Made once: `json.loads` with an option makes one for each call.
_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _deeper(value: Any, levels: int) -> bool:
    """Whether objects and lists stand in each other more than `levels` deep."""
    nested = [value]
    for _ in range(levels):
        parts = list(chain.from_iterable(one.values() if type(one) is dict else one for one in nested))
        # Nearly all of them are numbers, which their kinds tell without a loop.
        if not {list, dict} & set(map(type, parts)):
            return False
        nested = [part for part in parts if type(part) is list or type(part) is dict]
    return True


def split_body(content: bytes, json_length: str | None) -> tuple[dict[str, Any], memoryview]:
    """The JSON of a request, and the bytes of binary tensors behind it.

    Parameters
    ----------
    json_length : the header Inference-Header-Content-Length, None where there are no binary tensors
    """
    if json_length is None:
        return parse_json(content), memoryview(b"")
    if not (json_length.isascii() and json_length.isdigit()) or int(json_length[:12]) > len(content):
        raise RequestRefused(
            400, f"Inference-Header-Content-Length must be a number up to {len(content)}, got {json_length[:20]!r}"
        )
    size = int(json_length)
    return parse_json(content[:size]), memoryview(content)[size:]


def read_tensors(given: Any, binary: memoryview, what: str) -> tuple[RequestRows, memoryview]:
    """The rows of a list of tensors, and what is left of the binary data.

    One tensor of two dimensions is a matrix; tensors of one column each are columns with names.
    """
    if not isinstance(given, list) or not given or not all(isinstance(tensor, dict) for tensor in given):
        raise RequestRefused(400, f"{what} must be a list of tensors")
    read: list[tuple[str, Cells | npt.NDArray[Any]]] = []
    for tensor in given:
        name = tensor.get("name")
        if not isinstance(name, str) or not name or len(name) > 200:
            raise RequestRefused(400, f"each of {what} needs a name")
        values, binary = _read_tensor(tensor, name, binary)
        read.append((name, values))
    if len(read) == 1 and isinstance(read[0][1], np.ndarray) and read[0][1].ndim == 2 and read[0][1].shape[1] != 1:
        return RequestRows.of_matrix(read[0][1]), binary
    columns: list[Cells] = []
    for name, values in read:
        if isinstance(values, np.ndarray) and values.ndim == 2:
            if values.shape[1] != 1:
                raise RequestRefused(
                    400, f"tensor {name!r} has {values.shape[1]} columns; several tensors have one each"
                )
            values = values[:, 0]
        columns.append(values)
    names = [name for name, _ in read]
    if len(set(names)) < len(names):
        raise RequestRefused(400, f"two of {what} have the same name")
    if len({len(column) for column in columns}) > 1:
        raise RequestRefused(400, f"{what} have different numbers of rows")
    return RequestRows.named(names, columns), binary


def _read_tensor(
    tensor: Mapping[str, Any], name: str, binary: memoryview
) -> tuple[Cells | npt.NDArray[Any], memoryview]:
    """Numbers (n,) or (n, k), or cells; and the binary data behind."""
    label = f"tensor {name[:60]!r}"
    shape, datatype = tensor.get("shape"), tensor.get("datatype")
    if not (
        isinstance(shape, list)
        and 1 <= len(shape) <= 2
        and all(type(size) is int and 0 <= size < 1 << 40 for size in shape)
    ):
        raise RequestRefused(400, f"{label}: shape must be one or two whole numbers, got {str(shape)[:60]}")
    size = prod(shape)
    if datatype not in NUMBERS and datatype != "BYTES":
        raise RequestRefused(
            400, f"{label}: datatype must be one of {', '.join(NUMBERS)}, BYTES, got {str(datatype)[:20]}"
        )
    parameters = tensor.get("parameters")
    length = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if length is not None:
        if type(length) is not int or not 0 <= length <= len(binary):
            raise RequestRefused(400, f"{label}: binary_data_size must be a number up to {len(binary)}")
        return _from_bytes(binary[:length], datatype, shape, size, label), binary[length:]
    data = tensor.get("data")
    if not isinstance(data, list):
        raise RequestRefused(400, f"{label} has neither data nor binary_data_size")
    if datatype == "BYTES":
        cells = _flat(data)
        if len(cells) != size:
            raise RequestRefused(400, f"{label}: shape {shape} needs {size} values, found {len(cells)}")
        return _only_column(cells, shape, label), binary
    if not only_plain(data):
        numbers = as_numbers(_flat(data), label)  # names what is no number
    else:
        numbers = as_matrix(data, label).reshape(-1)
    if len(numbers) != size:
        raise RequestRefused(400, f"{label}: shape {shape} needs {size} values, found {len(numbers)}")
    return numbers.reshape(shape), binary


def _from_bytes(
    content: memoryview, datatype: str, shape: list[int], size: int, label: str
) -> Cells | npt.NDArray[Any]:
    if datatype == "BYTES":
        cells: list[str] = []
        place = 0
        while place + 4 <= len(content) and len(cells) <= size:
            (length,) = _LENGTH.unpack_from(content, place)
            place += 4
            if place + length > len(content):
                break
            try:
                cells.append(str(content[place : place + length], "utf-8"))
            except UnicodeDecodeError:
                raise RequestRefused(400, f"{label} holds bytes that are not UTF-8") from None
            place += length
        if place != len(content) or len(cells) != size:
            raise RequestRefused(400, f"{label}: the binary data do not hold {size} strings")
        return _only_column(cells, shape, label)
    kind = np.dtype(NUMBERS[datatype])
    if len(content) != size * kind.itemsize:
        raise RequestRefused(400, f"{label}: shape {shape} needs {size * kind.itemsize} bytes, found {len(content)}")
    numbers = np.frombuffer(content, dtype=kind).astype(np.float64).reshape(shape)
    return finite_or_missing(numbers, label)


def _only_column(cells: list[Any], shape: list[int], label: str) -> list[Any]:
    if len(shape) == 2 and shape[1] != 1:
        raise RequestRefused(400, f"{label}: a tensor of BYTES is one column, got shape {shape}")
    return cells


def _flat(data: list[Any]) -> list[Any]:
    """The values of nested lists, row by row."""
    if any(isinstance(value, list) for value in data):
        return [cell for value in data for cell in (_flat(value) if isinstance(value, list) else [value])]
    if any(isinstance(value, dict) for value in data):
        raise RequestRefused(400, "tensors hold numbers, texts and nulls, found an object")
    return data


def write_tensors(
    outputs: Sequence[tuple[TensorSpec, npt.NDArray[Any]]], binary: Mapping[str, bool]
) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Tensors for a reply, and the bytes of those that are wanted as such.

    What is missing or infinite is null in JSON. A matrix says what its columns are called: in one text, since
    parameters of the protocol are texts, numbers and truth values.
    """
    described, buffers = [], []
    for (name, datatype, _, columns), values in outputs:
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(values.shape)}
        if values.ndim == 2:
            tensor["parameters"] = {"columns": csv_line(tuple(columns))}
        if binary.get(name, False):
            content = _to_bytes(values, datatype)
            tensor.setdefault("parameters", {})["binary_data_size"] = len(content)
            buffers.append(content)
        else:
            tensor["data"] = plain_list(values.reshape(-1))
        described.append(tensor)
    return described, buffers


@lru_cache(maxsize=256)
def csv_line(names: tuple[str, ...]) -> str:
    """Names as a line of CSV, in quotes where they hold a comma.

    >>> csv_line(("kitchen", "a, b"))
    'kitchen,"a, b"'
    """
    line = StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def plain_list(values: npt.NDArray[Any]) -> Any:
    """Nested lists, with None for what is no finite number.

    >>> plain_list(np.array([[1.0, np.inf]]))
    [[1.0, None]]
    """
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        some: npt.NDArray[Any] = values.astype(object)
        some[~np.isfinite(values)] = None
        return some.tolist()
    return values.tolist()


def _to_bytes(values: npt.NDArray[Any], datatype: str) -> bytes:
    if datatype != "BYTES":
        return values.astype(NUMBERS[datatype]).tobytes()
    words = [str(value).encode() for value in values.reshape(-1).tolist()]
    return b"".join(_LENGTH.pack(len(word)) + word for word in words)


# Rows as MLflow's scoring protocol writes them, and rows as plain lists or records.

#: The forms of a request, exactly one of which must be there.
FORMS = ("dataframe_split", "dataframe_records", "instances", "inputs")


def read_frame(body: dict[str, Any]) -> RequestRows:
    """The rows of a request to ``/invocations``.

    >>> read_frame({"dataframe_split": {"columns": ["a", "b"], "data": [[1, "x"], [2, None]]}}).columns[1]
    ['x', None]
    """
    found = [form for form in FORMS if form in body]
    if len(found) != 1:
        raise RequestRefused(400, f"the body must hold one of {', '.join(FORMS)}, found {', '.join(found) or 'none'}")
    value = body[found[0]]
    if found[0] == "dataframe_split":
        if not isinstance(value, dict) or not isinstance(value.get("data"), list):
            raise RequestRefused(400, "dataframe_split must hold columns and data")
        names = value.get("columns")
        if names is None:
            return read_rows(value["data"], "data")
        return _of_lists(_names(names), value["data"])
    if found[0] == "inputs" and isinstance(value, dict):
        return _of_columns(value)
    return read_rows(value, found[0])


def read_rows(value: Any, what: str) -> RequestRows:
    """Rows as a list of lists of numbers, or of records with the names of the columns.

    >>> read_rows([{"a": 1, "b": None}, {"a": 2, "b": 3}], "rows").names
    ('a', 'b')
    """
    if not isinstance(value, list):
        raise RequestRefused(400, f"{what} must be a list of rows")
    if not value:
        raise RequestRefused(400, f"{what} is an empty list: it must hold at least one row")
    if isinstance(value[0], dict):
        names = _names(list(value[0]))
        known = set(names)
        if not all(isinstance(record, dict) and record.keys() <= known for record in value):
            raise RequestRefused(400, f"{what}: all records must have the same columns")
        return _checked(names, [[record.get(name) for record in value] for name in names])
    if only_plain(value):
        return RequestRows.of_matrix(as_matrix(value, what))
    if all(isinstance(cell, (str, int, float)) or cell is None for cell in value):
        return RequestRows.named(["label"], [value])
    raise RequestRefused(400, f"{what} must be rows of numbers and nulls, or records with the names of the columns")


def _of_lists(names: list[str], data: list[Any]) -> RequestRows:
    if not all(isinstance(row, list) and len(row) == len(names) for row in data):
        raise RequestRefused(400, f"each row of data must be a list of {len(names)} values")
    return _checked(names, [list(column) for column in zip(*data, strict=True)] if data else [[] for _ in names])


def _of_columns(columns: dict[str, Any]) -> RequestRows:
    names = _names(list(columns))
    lists = [value if isinstance(value, list) else [value] for value in columns.values()]
    # Tensors of one column, (n, 1), are columns.
    flat = [[c[0] if isinstance(c, list) and len(c) == 1 else c for c in column] for column in lists]
    if len({len(column) for column in flat}) > 1:
        raise RequestRefused(400, "inputs have different numbers of rows")
    return _checked(names, flat)


def _names(names: Any) -> list[str]:
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise RequestRefused(400, "columns must be a list of names")
    if len(set(names)) < len(names):
        raise RequestRefused(400, "two columns have the same name")
    return names


def _checked(names: list[str], lists: list[list[Any]]) -> RequestRows:
    """Columns whose cells are numbers, texts, truth values and nulls."""
    columns: list[Cells] = []
    for name, cells in zip(names, lists, strict=True):
        kinds = set(map(type, cells))
        if kinds <= {int, float, type(None)}:
            columns.append(as_numbers(cells, f"column {name[:60]!r}"))
        elif kinds <= {str, bool, int, float, type(None)}:
            columns.append(cells)
        else:
            raise RequestRefused(400, f"column {name[:60]!r} must hold numbers, texts or nulls")
    return RequestRows.named(names, columns)


# Predictions as records or lists, which is how MLflow's clients expect them.


def checked_level(level: Any, leader: ServedModel) -> float:
    """How often an interval should hold the outcome, if the rows that a model keeps are enough for it."""
    if isinstance(level, str):
        raise RequestRefused(
            400, f"level must be a number between 0 and 1, got the text {level[:40]!r}: write it without quotes"
        )
    if type(level) not in (int, float) or not 1e-6 <= level <= 1 - 1e-6:
        raise RequestRefused(400, f"level must be a number between 0 and 1, got {json.dumps(level)[:40]}")
    kept = leader.window
    if kept and rows_needed(level) > kept:
        highest = floor(1e4 * kept / (kept + 1)) / 1e4
        raise RequestRefused(
            400,
            f"intervals of level {level} need the errors of {rows_needed(level):,} rows, and only the last {kept:,} "
            f"are kept: the highest level is {highest}",
        )
    return float(level)


def missing_bounds(found: Outputs, level: float, leader: ServedModel, *, learning: bool = True) -> str:
    """Why intervals have no ends, in one sentence; empty if they have. `learning` is whether rows are learned."""
    for end in ("lower", "upper"):
        if end in found and (np.isinf(found[end]) & np.isfinite(found["mean"])).any():
            if leader.intervals_of_service and not learning:
                return (
                    "this model has no intervals here: they are made from the errors of rows that are learned in "
                    "service, and this service learns none"
                )
            return (
                f"ends of intervals are null where an output has too few known outcomes: level {level} needs "
                f"{rows_needed(level):,} of them"
            )
    return ""


def columns(leader: ServedModel, rows: RequestRows, level: Any = None, *, learning: bool = True) -> tuple[Outputs, str]:
    """Predictions by the names of outputs, with a level also the ends of their intervals; and why ends are missing."""
    wanted = frozenset() if level is None else frozenset({"lower", "upper"})
    asked = 0.9 if level is None else checked_level(level, leader)
    found = leader.predict(rows, wanted, asked)
    if leader.labels:
        return found, ""
    kinds = {"mean": "", "lower": " lower", "upper": " upper"}
    present = {kind: end for kind, end in kinds.items() if kind == "mean" or level is not None}
    named = {
        f"{name}{end}": found[kind][:, q] for kind, end in present.items() for q, name in enumerate(leader.outputs)
    }
    return named, missing_bounds(found, asked, leader, learning=learning) if level is not None else ""


def records(
    leader: ServedModel, rows: RequestRows, level: Any = None, *, learning: bool = True
) -> tuple[list[Any], str]:
    """A record for each row, or a number or label where there is one output; and why ends of intervals are missing."""
    values, note = columns(leader, rows, level, learning=learning)
    found = {name: plain_list(column) for name, column in values.items()}
    if len(found) == 1:
        return list(*found.values()), note
    return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)], note
