"""Python's own values."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from reprlib import repr as short
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.random import (
    MT19937,
    PCG64,
    PCG64DXSM,
    SFC64,
    BitGenerator,
    Generator,
    Philox,
    RandomState,
    SeedSequence,
)
from scipy import sparse

from ovk.persistence.codec import Builder, Codec, Json, Reader, Writer
from ovk.persistence.container import SAVED_DTYPES, Spec, parse_dtype

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
    return [[writer(key, "[key]"), writer(item, f"[{short(key)}]")] for key, item in value.items()]


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
    return "[...]" if isinstance(node, (list, dict)) else f"[{short(node)}]"


PLAIN_CODECS = (
    Codec("int", (int,), _encode_int, _decode_int),
    Codec("float", (float,), lambda value, writer: repr(value), _decode_float),
    Codec("bytes", (bytes,), lambda value, writer: base64.b64encode(value).decode("ascii"), _decode_bytes),
    Codec("tuple", (tuple,), lambda value, writer: writer.items(value), lambda p, r: tuple(r.items(p))),
    Codec("dict", (dict,), _encode_dict, _decode_dict),
    Codec("set", (set,), _encode_set, _decode_set(set)),
    Codec("frozenset", (frozenset,), _encode_set, _decode_set(frozenset)),
)


# numpy's and scipy's values: arrays, scalars, sparse matrices.

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


ARRAY_CODECS = (
    Codec("array", (np.ndarray, np.memmap), _encode_array, _decode_array),
    # All of numpy's scalars: those that cannot be stored get their own message.
    Codec("scalar", tuple(SCALARS), _encode_scalar, _decode_scalar),
    Codec("sparse", tuple(SPARSE.values()), _encode_sparse, _decode_sparse),
)


# Random generators, by the state of their bits: what they would have drawn next, they draw after loading.
#
# A generator that two objects draw from is one generator after loading, too.

BITS: dict[str, type[BitGenerator]] = {kind.__name__: kind for kind in (PCG64, PCG64DXSM, MT19937, Philox, SFC64)}
POOL_LIMIT = 1024  # numpy's default is 4; the pool is allocated from a number in the file


def _encode_generator(value: Generator, writer: Writer) -> Json:
    if (number := writer.number_of_shared(value)) is not None:
        return number
    seed = value.bit_generator.seed_seq
    return writer.entries(
        {
            "state": _supported(value.bit_generator, writer).state,
            # Without it the generator would draw the same numbers, but `spawn` other children.
            "seed": seed.state if type(seed) is SeedSequence else None,
        }
    )


def _encode_legacy(value: RandomState, writer: Writer) -> Json:
    if (number := writer.number_of_shared(value)) is not None:
        return number
    _supported(value._bit_generator, writer)
    return writer.entries({"state": value.get_state(legacy=False)})


def _supported(bits: BitGenerator, writer: Writer) -> BitGenerator:
    if type(bits) not in BITS.values():
        writer.refuse(f"draws from {type(bits).__name__}", f"use one of {', '.join(BITS)}")
    return bits


def _decode(name: str, build: Builder) -> Callable[[Any, Reader], Any]:
    def decode(payload: Any, reader: Reader) -> Any:
        if type(payload) is int:
            return reader.shared[payload]
        reader.shared.append(reader.build(name, reader.entries(payload), {}, build))
        return reader.shared[-1]

    return decode


def _build_generator(name: str, parts: Mapping[str, Any], state: Mapping[str, Any]) -> Generator:
    seed = parts["seed"]
    if seed is not None and not (type(seed["pool_size"]) is int and 4 <= seed["pool_size"] <= POOL_LIMIT):
        raise ValueError(f"a seed with a pool of {seed['pool_size']!r}")
    bits = BITS[parts["state"]["bit_generator"]](0 if seed is None else SeedSequence(**seed))
    _check_positions(parts["state"])
    bits.state = parts["state"]
    _check_same(bits.state, parts["state"])
    return Generator(bits)


def _build_legacy(name: str, parts: Mapping[str, Any], state: Mapping[str, Any]) -> RandomState:
    random = RandomState(BITS[parts["state"]["bit_generator"]](0))
    _check_positions(parts["state"])
    random.set_state(parts["state"])
    _check_same(random.get_state(legacy=False), parts["state"])
    return random


def _check_positions(state: Mapping[str, Any]) -> None:
    """numpy does not check these, and reads whatever memory lies at them."""
    position, end = 0, 0
    if state["bit_generator"] == "MT19937":
        position, end = state["state"]["pos"], 624
    if state["bit_generator"] == "Philox":
        position, end = state["buffer_pos"], 4
    if type(position) is not int or not 0 <= position <= end:
        raise ValueError(f"a random state at the position {position!r}, beyond {end}")


def _check_same(found: Any, wanted: Any) -> None:
    """numpy takes what it is given with few questions: accept only what it reports back unchanged."""
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        for name in found:
            _check_same(found[name], wanted[name])
    elif isinstance(found, np.ndarray) and isinstance(wanted, np.ndarray):
        if found.dtype != wanted.dtype or not np.array_equal(found, wanted):
            raise ValueError("a random state that numpy does not accept")
    elif type(found) is not type(wanted) or found != wanted:
        raise ValueError("a random state that numpy does not accept")


RANDOM_CODECS = (
    Codec("generator", (Generator,), _encode_generator, _decode("numpy.random.Generator", _build_generator)),
    Codec("random_state", (RandomState,), _encode_legacy, _decode("numpy.random.RandomState", _build_legacy)),
)
