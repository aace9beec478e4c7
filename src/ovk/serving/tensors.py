"""Tensors of the Open Inference Protocol, version 2: in JSON, or as bytes behind the JSON (binary tensor extension)."""

from __future__ import annotations

import csv
import json
import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from io import StringIO
from itertools import chain
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from ovk.serving.contenders import TensorSpec
from ovk.serving.errors import RequestRefused
from ovk.serving.rows import Cells, RequestRows, as_matrix, as_numbers, finite_or_missing, only_plain

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
