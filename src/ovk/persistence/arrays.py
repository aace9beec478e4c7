"""numpy's and scipy's values: arrays, scalars, sparse matrices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ovk.persistence.codec import Codec, Json, Reader, Writer
from ovk.persistence.storage import SAVED_DTYPES, Spec, parse_dtype

SCALARS = {np.dtype(code).type for code in np.typecodes["All"]} - {np.object_, np.void}
SPARSE = {
    kind.__name__: kind
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix, sparse.coo_array,
                 sparse.coo_matrix)
}  # fmt: skip


def _encode_array(value: npt.NDArray[Any], writer: Writer) -> Json:
    if value.dtype.kind != "O":
        return writer.array(value)
    # Labels and column names are object arrays of strings. Each element goes its own way.
    return {"shape": list(value.shape), "items": writer.items(value.flat)}


def _decode_array(payload: Any, reader: Reader) -> Any:
    if isinstance(payload, str):
        return reader.array(payload)
    shape, items = _fields(payload, "shape", "items")
    values = reader.items(items)
    if math.prod(_shape(shape)) != len(values):
        raise ValueError(f"{len(values)} elements for the shape {shape}")
    array = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        array[i] = value
    return array.reshape(shape)


def _encode_scalar(value: np.generic, writer: Writer) -> Json:
    if isinstance(value, np.str_):  # numpy would drop trailing NULs of these two
        return {"str_": str.__str__(value)}
    if isinstance(value, np.bytes_):
        return {"bytes_": value.hex()}
    array = np.asarray(value)
    spec = Spec.from_array(array)
    if spec is None:
        writer.refuse(f"is a number of dtype {array.dtype}", f"convert it to {SAVED_DTYPES}")
    return {spec.dtype.str: bytes(spec.to_bytes(array)).hex()}


def _decode_scalar(payload: Any, reader: Reader) -> Any:
    ((name, text),) = payload.items()
    if type(text) is not str:
        raise TypeError("a scalar is written as text")
    if name == "str_":
        return np.str_(text)
    if name == "bytes_":
        return np.bytes_(bytes.fromhex(text))
    dtype, raw = parse_dtype(name), bytes.fromhex(text)
    if dtype is None or dtype.kind in "US" or name[0] == ">" or len(raw) != dtype.itemsize:
        raise ValueError(f"a scalar of dtype {name!r} in {len(raw)} bytes")
    if dtype.kind == "b" and raw[0] > 1:
        raise ValueError("a boolean that is neither 0 nor 1")
    return np.frombuffer(raw, dtype=dtype).astype(dtype.newbyteorder("="))[0]


def _encode_sparse(value: Any, writer: Writer) -> Json:
    names = ("coords", "data") if value.format == "coo" else ("indptr", "indices", "data")
    parts = writer.entries({name: getattr(value, name) for name in names})
    return {"kind": type(value).__name__, "shape": [int(size) for size in value.shape], **parts}


def _decode_sparse(payload: Any, reader: Reader) -> Any:
    kind, shape = payload["kind"], tuple(_shape(payload["shape"]))
    if kind not in SPARSE:
        raise ValueError(f"the sparse format {kind!r}")
    parts = reader.entries({name: part for name, part in payload.items() if name != "kind" and name != "shape"})
    return reader.build(kind, {"shape": shape, **parts}, {}, _build_sparse)


def _build_sparse(name: str, parts: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    kind = SPARSE[name]
    if issubclass(kind, (sparse.coo_array, sparse.coo_matrix)):
        shape, coords, data = _fields(parts, "shape", "coords", "data")
        indices = list(coords)
    else:
        shape, indptr, index, data = _fields(parts, "shape", "indptr", "indices", "data")
        indices = [index, indptr]
    if data.dtype.kind not in "biuf" or any(part.dtype.kind != "i" for part in indices):
        raise TypeError("a sparse matrix of something other than numbers")
    if issubclass(kind, (sparse.coo_array, sparse.coo_matrix)):
        return kind((data, tuple(indices)), shape=shape)  # compares the coordinates with the shape
    matrix = kind((data, *indices), shape=shape)
    # scipy's compiled loops trust the indices: one out of range would read foreign memory.
    matrix.check_format(full_check=True)
    return matrix


def _fields(payload: Any, *names: str) -> list[Any]:
    """The values of a payload that has exactly these names."""
    if set(payload) != set(names):
        raise ValueError(f"the entries {sorted(payload)} where {list(names)} belong")
    return [payload[name] for name in names]


def _shape(sizes: Any) -> list[int]:
    if not isinstance(sizes, list) or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError(f"the shape {sizes!r}")
    return sizes


CODECS = (
    Codec("array", (np.ndarray, np.memmap), _encode_array, _decode_array),
    # All of numpy's scalars: those that cannot be stored get their own message.
    Codec("scalar", tuple(SCALARS), _encode_scalar, _decode_scalar),
    Codec("sparse", tuple(SPARSE.values()), _encode_sparse, _decode_sparse),
)
