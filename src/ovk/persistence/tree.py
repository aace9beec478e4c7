"""Conversion between values and JSON trees, by `Writer` and `Reader`.

None, booleans, strings, lists, finite floats and 64-bit integers are stored as they are; any other value is an object
with one entry, ``{tag: payload}``, which the `Codec` of the tag encodes and decodes.
"""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial
from reprlib import repr as short
from types import NoneType
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import BitGenerator, Generator, RandomState, SeedSequence
from scipy import sparse

from ovk.persistence.container import SAVED_DTYPES, Spec, parse_dtype
from ovk.persistence.errors import NotSavableError
from ovk.persistence.objects import build_object, describe

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
#: Builds an object from its class name, its parameters or parts, and its fitted state.
Builder: TypeAlias = Callable[[str, Mapping[str, Any], Mapping[str, Any]], Any]

JSON_SCALARS = {NoneType, bool, int, float, str}
MAX_DEPTH = 100  # of nesting, so that files can be read within Python's recursion limit


@dataclass(frozen=True)
class Codec:
    tag: str
    types: tuple[type, ...]  # exactly these, not their subclasses
    encode: Callable[[Any, Writer], Json]
    decode: Callable[[Any, Reader], Any]


class Writer:
    """Converts values to trees, and collects their arrays."""

    def __init__(self) -> None:
        self._steps: list[str] = []
        self._open: set[int] = set()
        self._names: dict[int, str] = {}
        self._shared: dict[int, tuple[int, Any]] = {}
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.specs: dict[str, Spec] = {}

    def __call__(self, value: Any, step: str) -> Json:
        """The tree of `value`, which is the part `step` of the value around it: ``.name`` or ``[3]``."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value  # type: ignore[no-any-return]
        if (kind is float and math.isfinite(value)) or (kind is int and -(2**63) <= value < 2**63):
            return value  # type: ignore[no-any-return]
        self._steps.append(step)
        if id(value) in self._open:
            self.reject("contains itself", "break the cycle")
        if len(self._steps) > MAX_DEPTH:
            self.reject(f"is nested more than {MAX_DEPTH} levels deep", "flatten the model")
        self._open.add(id(value))
        node: Json
        if kind is list:
            node = self.items(value)
        else:
            codec = BY_TYPE.get(kind, OBJECT)
            node = {codec.tag: codec.encode(value, self)}
        self._open.remove(id(value))
        self._steps.pop()
        return node

    def items(self, values: Iterable[Any]) -> list[Json]:
        return [self(value, f"[{i}]") for i, value in enumerate(values)]

    def entries(self, values: Mapping[str, Any]) -> dict[str, Json]:
        return {name: self(value, f".{name}") for name, value in values.items()}

    def array(self, array: npt.NDArray[Any]) -> str:
        """The name of `array` in the file; an array that occurs twice has one name."""
        if id(array) in self._names:
            return self._names[id(array)]
        spec = Spec.from_array(array)
        if spec is None:
            self.reject(f"is an array of dtype {array.dtype}", f"convert it to {SAVED_DTYPES}")
        name, repeats = self._where(), 1
        while name in self.arrays:
            repeats += 1
            name = f"{self._where()}#{repeats}"
        # The reference to the array keeps its id from being reused.
        self._names[id(array)], self.arrays[name], self.specs[name] = name, array, spec
        return name

    def number_of_shared(self, value: Any) -> int | None:
        """The number of a shared value that was written before; None the first time."""
        if id(value) in self._shared:
            return self._shared[id(value)][0]
        self._shared[id(value)] = len(self._shared), value
        return None

    def reject(self, what: str, advice: str) -> NoReturn:
        """Raise the error for the current value."""
        raise NotSavableError(f"{self._where()} cannot be saved: it {what}; {advice}")

    def _where(self) -> str:
        return "".join(self._steps)


class Reader:
    """Converts trees to values.

    An invalid tree raises any exception, which the caller reports as a corrupt file, at `where`. `read_array` returns
    the array of a name or its description; `build` returns an object, by calling its first argument with the others, or
    a description.
    """

    def __init__(
        self,
        read_array: Callable[[str], Any],
        build: Callable[[Builder, str, Mapping[str, Any], Mapping[str, Any]], Any],
    ) -> None:
        self._read_array = read_array
        self.build = build
        self._steps: list[str | int] = []
        self._arrays: dict[str, Any] = {}
        self.shared: list[Any] = []  # what `Writer.number_of_shared` numbered, in the same order

    def __call__(self, node: Any, step: str | int) -> Any:
        """The value of the tree `node`; `step` leads to it: ``.name``, or a number in a list."""
        if type(node) in JSON_SCALARS:
            return node
        self._steps.append(step)
        if len(self._steps) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} levels of nesting")
        if type(node) is list:
            value: Any = self.items(node)
        else:
            if len(node) != 1:
                raise ValueError(f"{len(node)} tags for one value")
            ((tag, payload),) = node.items()
            if tag not in BY_TAG:
                raise ValueError(f"unknown tag {tag!r}")
            value = BY_TAG[tag].decode(payload, self)
        self._steps.pop()
        return value

    def items(self, nodes: Any) -> list[Any]:
        if not isinstance(nodes, list):
            raise TypeError(f"{short(nodes)} instead of a list")
        return [node if type(node) in JSON_SCALARS else self(node, i) for i, node in enumerate(nodes)]

    def entries(self, nodes: Any) -> dict[str, Any]:
        if not isinstance(nodes, dict):
            raise TypeError(f"{short(nodes)} instead of named entries")
        return {name: self(node, f".{name}") for name, node in nodes.items()}

    def array(self, name: str) -> Any:
        """The array of that name, read once."""
        if name not in self._arrays:
            self._arrays[name] = self._read_array(name)
        return self._arrays[name]

    @property
    def used(self) -> Set[str]:
        """Names of the arrays that were read."""
        return self._arrays.keys()

    @property
    def where(self) -> str:
        """The path to the current value."""
        return "".join(f"[{step}]" if isinstance(step, int) else step for step in self._steps)


# Python's own values.

SIMPLE_TYPES = (NoneType, bool, int, float, str, bytes, np.generic)
FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
MAX_DIGITS = 1000  # of an integer; Python does not print integers of 5,000
#: Maximum number of dict keys or set elements with the same hash: a malicious file with n such keys would need n^2
#: comparisons.
MAX_COLLISIONS = 100


def _text(payload: Any) -> str:
    if type(payload) is not str:
        raise TypeError(f"{short(payload)} instead of a string")
    return payload


def _encode_int(value: int, writer: Writer) -> Json:
    if abs(value) >= 10**MAX_DIGITS:
        writer.reject(f"is an integer of more than {MAX_DIGITS:,} digits", "store it as a string or an array of digits")
    return hex(value)


def _decode_int(payload: Any, reader: Reader) -> int:
    # Base 16 takes linear time, unlike long decimals.
    value = int(_text(payload), 16)
    if abs(value) >= 10**MAX_DIGITS:
        raise ValueError(f"an integer of more than {MAX_DIGITS:,} digits")
    if hex(value) != payload:
        raise ValueError("an integer in a non-standard notation")
    return value


def _decode_bytes(payload: Any, reader: Reader) -> bytes:
    return base64.b64decode(_text(payload), validate=True)


def _encode_dict(value: dict[Any, Any], writer: Writer) -> Json:
    for key in value:
        _require_simple(key, "a key", writer)
    _require_distinct_hashes(list(value), writer)
    return [[writer(key, "[key]"), writer(item, f"[{short(key)}]")] for key, item in value.items()]


def _decode_dict(payload: Any, reader: Reader) -> dict[Any, Any]:
    steps = ["[...]" if isinstance(key, (list, dict)) else f"[{short(key)}]" for key, _ in payload]
    pairs = [(reader(key, "[key]"), reader(item, step)) for (key, item), step in zip(payload, steps, strict=True)]
    _check_distinct([key for key, _ in pairs])
    return dict(pairs)


def _encode_set(value: set[Any] | frozenset[Any], writer: Writer) -> Json:
    for item in value:
        _require_simple(item, "an element", writer)
    _require_distinct_hashes(list(value), writer)
    # The order of a set of strings depends on the process: sort it, so that equal models give equal files.
    return sorted(writer.items(value), key=json.dumps)


def _decode_set(kind: Callable[[list[Any]], Any], payload: Any, reader: Reader) -> Any:
    items = reader.items(payload)
    _check_distinct(items)
    return kind(items)


def _require_simple(value: Any, what: str, writer: Writer) -> None:
    if isinstance(value, (tuple, frozenset)):
        for item in value:
            _require_simple(item, what, writer)
    elif not isinstance(value, SIMPLE_TYPES):
        writer.reject(f"has {what} of type {type(value).__name__}", "use numbers, strings, bytes or tuples of them")


def _require_distinct_hashes(keys: Sequence[Hashable], writer: Writer) -> None:
    if _collide(keys):
        what = f"has more than {MAX_COLLISIONS} keys or elements with the same hash"
        writer.reject(what, "use strings, or other numbers")


def _check_distinct(keys: Sequence[Hashable]) -> None:
    if _collide(keys):
        raise ValueError(f"more than {MAX_COLLISIONS} keys with the same hash")
    if len(set(keys)) != len(keys):
        raise ValueError("a duplicate key or element")


def _collide(keys: Sequence[Hashable]) -> bool:
    """Whether a dict of these keys would be slow."""
    return len(keys) > MAX_COLLISIONS and max(Counter(map(hash, keys)).values()) > MAX_COLLISIONS


# Values of NumPy and SciPy: arrays, scalars, sparse matrices.

SCALARS = {np.dtype(code).type for code in np.typecodes["All"]} - {np.object_, np.void}
SPARSE = {
    kind.__name__: kind
    for kind in (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.csc_matrix, sparse.coo_array,
                 sparse.coo_matrix)
}  # fmt: skip


def _encode_array(value: npt.NDArray[Any], writer: Writer) -> Json:
    if value.dtype.kind != "O":
        return writer.array(value)
    # Labels and column names are object arrays of strings.
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
    if isinstance(value, np.str_):  # NumPy would drop trailing NULs of these two
        return {"str_": str.__str__(value)}
    if isinstance(value, np.bytes_):
        return {"bytes_": value.hex()}
    array = np.asarray(value)
    spec = Spec.from_array(array)
    if spec is None:
        writer.reject(f"is a number of dtype {array.dtype}", f"convert it to {SAVED_DTYPES}")
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
    if dtype is None or dtype.kind in "US" or len(raw) != dtype.itemsize:
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
    return reader.build(_build_sparse, kind, {"shape": shape, **parts}, {})


def _build_sparse(name: str, parts: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    kind = SPARSE[name]
    if issubclass(kind, (sparse.coo_array, sparse.coo_matrix)):
        shape, coords, data = _fields(parts, "shape", "coords", "data")
        indices = list(coords)
    else:
        shape, indptr, index, data = _fields(parts, "shape", "indptr", "indices", "data")
        indices = [index, indptr]
    if data.dtype.kind not in "biuf" or any(part.dtype.kind != "i" for part in indices):
        raise TypeError("a sparse matrix that does not contain numbers")
    if issubclass(kind, (sparse.coo_array, sparse.coo_matrix)):
        return kind((data, tuple(indices)), shape=shape)  # compares the coordinates with the shape
    matrix = kind((data, *indices), shape=shape)
    # SciPy's compiled loops do not check indices: one out of range would read arbitrary memory.
    matrix.check_format(full_check=True)
    return matrix


def _fields(payload: Any, *names: str) -> list[Any]:
    """The values of a payload with exactly these names."""
    if set(payload) != set(names):
        raise ValueError(f"the entries {sorted(payload)} instead of {list(names)}")
    return [payload[name] for name in names]


def _shape(sizes: Any) -> list[int]:
    if not isinstance(sizes, list) or any(type(size) is not int or size < 0 for size in sizes):
        raise ValueError(f"the shape {sizes!r}")
    return sizes


# Random generators continue after loading where they stopped. A generator that two objects share remains shared.

BIT_GENERATORS: dict[str, type[BitGenerator]] = {
    name: getattr(np.random, name) for name in ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
}
MAX_POOL_SIZE = 1024  # NumPy's default is 4; the size in the file determines how much memory is allocated


def _encode_random(value: Generator | RandomState, writer: Writer) -> Json:
    if (number := writer.number_of_shared(value)) is not None:
        return number
    bits = value.bit_generator if isinstance(value, Generator) else value._bit_generator
    if type(bits) not in BIT_GENERATORS.values():
        writer.reject(f"draws from {type(bits).__name__}", f"use one of {', '.join(BIT_GENERATORS)}")
    if isinstance(value, RandomState):
        return writer.entries({"state": value.get_state(legacy=False)})
    seed = bits.seed_seq
    # The seed determines the children that `spawn` creates.
    return writer.entries({"state": bits.state, "seed": seed.state if type(seed) is SeedSequence else None})


def _decode_random(kind: type, payload: Any, reader: Reader) -> Any:
    if type(payload) is int:
        return dict(enumerate(reader.shared))[payload]  # a list would accept -1
    name = f"numpy.random.{kind.__name__}"
    reader.shared.append(reader.build(_build_random, name, reader.entries(payload), {}))
    return reader.shared[-1]


def _build_random(name: str, parts: Mapping[str, Any], _: Mapping[str, Any]) -> Generator | RandomState:
    legacy, state = name == "numpy.random.RandomState", parts["state"]
    seed = None if legacy else parts["seed"]
    if seed is not None and not (type(seed["pool_size"]) is int and 4 <= seed["pool_size"] <= MAX_POOL_SIZE):
        raise ValueError(f"a seed with a pool of {seed['pool_size']!r}")
    bits = BIT_GENERATORS[state["bit_generator"]](0 if seed is None else SeedSequence(**seed))
    _check_positions(state)
    if legacy:
        random = RandomState(bits)
        random.set_state(state)
        _check_same(random.get_state(legacy=False), state)
        return random
    bits.state = state
    _check_same(bits.state, state)
    return Generator(bits)


def _check_positions(state: Mapping[str, Any]) -> None:
    """Check positions in buffers, at which NumPy reads memory without a check."""
    position, end = 0, 0
    if state["bit_generator"] == "MT19937":
        position, end = state["state"]["pos"], 624
    if state["bit_generator"] == "Philox":
        position, end = state["buffer_pos"], 4
    if type(position) is not int or not 0 <= position <= end:
        raise ValueError(f"a random state at the position {position!r}, beyond {end}")


def _check_same(found: Any, wanted: Any) -> None:
    """Accept only states that NumPy returns unchanged, as it checks little itself."""
    if isinstance(found, dict) and isinstance(wanted, dict) and found.keys() == wanted.keys():
        for name in found:
            _check_same(found[name], wanted[name])
    elif isinstance(found, np.ndarray) and isinstance(wanted, np.ndarray):
        if found.dtype != wanted.dtype or not np.array_equal(found, wanted):
            raise ValueError("an invalid random state")
    elif type(found) is not type(wanted) or found != wanted:
        raise ValueError("an invalid random state")


# Objects of registered classes, and of scikit-learn's on the list.


def _encode_object(value: Any, writer: Writer) -> Json:
    name, parameters, state = describe(value, writer.reject)
    return {"class": name, "parameters": writer.entries(parameters), "state": writer.entries(state)}


def _decode_object(payload: Any, reader: Reader) -> Any:
    name, parameters, state = _fields(payload, "class", "parameters", "state")
    return reader.build(build_object, _text(name), reader.entries(parameters), reader.entries(state))


OBJECT = Codec("object", (), _encode_object, _decode_object)
CODECS = (
    Codec("int", (int,), _encode_int, _decode_int),
    Codec("float", (float,), lambda value, writer: repr(value), lambda p, r: FLOATS[p]),
    Codec("bytes", (bytes,), lambda value, writer: base64.b64encode(value).decode("ascii"), _decode_bytes),
    Codec("tuple", (tuple,), lambda value, writer: writer.items(value), lambda p, r: tuple(r.items(p))),
    Codec("dict", (dict,), _encode_dict, _decode_dict),
    Codec("set", (set,), _encode_set, partial(_decode_set, set)),
    Codec("frozenset", (frozenset,), _encode_set, partial(_decode_set, frozenset)),
    Codec("array", (np.ndarray, np.memmap), _encode_array, _decode_array),
    # All NumPy scalars, so that those that cannot be stored have a specific message.
    Codec("scalar", tuple(SCALARS), _encode_scalar, _decode_scalar),
    Codec("sparse", tuple(SPARSE.values()), _encode_sparse, _decode_sparse),
    Codec("generator", (Generator,), _encode_random, partial(_decode_random, Generator)),
    Codec("random_state", (RandomState,), _encode_random, partial(_decode_random, RandomState)),
    OBJECT,
)
BY_TYPE = {kind: codec for codec in CODECS for kind in codec.types}
BY_TAG = {codec.tag: codec for codec in CODECS}
