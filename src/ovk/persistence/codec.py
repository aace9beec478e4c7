"""Walk a value and its tree: `Writer` turns the first into the second, a `Reader` the second into the first.

The tree is JSON. None, booleans, strings, lists, finite floats and integers of up to 64 bits stand for
themselves; everything else is an object of one entry, ``{tag: payload}``, and a `Codec` knows what its tag
means.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import dataclass
from types import NoneType
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ovk.base import short
from ovk.persistence.container import SAVED_DTYPES, Spec
from ovk.persistence.errors import NotSavable

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"

THEMSELVES = {NoneType, bool, int, float, str}  # types of what stands for itself, once it has been parsed
DEPTH = 100  # of nesting. What is written can be read again within Python's recursion limit.


@dataclass(frozen=True)
class Codec:
    """One tag: the types written under it (exactly these, not their subclasses), and the two directions."""

    tag: str
    types: tuple[type, ...]
    encode: Callable[[Any, Writer], Json]
    decode: Callable[[Any, Reader], Any]


class Writer:
    """Turns values into trees, and collects the arrays that the trees refer to.

    Parameters
    ----------
    codecs : how tagged values are written
    fallback : what handles types that no codec lists
    """

    def __init__(self, codecs: Iterable[Codec], fallback: Codec) -> None:
        self._codecs = {kind: codec for codec in codecs for kind in codec.types}
        self._fallback = fallback
        self._steps: list[str] = []
        self._open: set[int] = set()
        self._names: dict[int, str] = {}
        self._shared: dict[int, tuple[int, Any]] = {}
        self.arrays: dict[str, npt.NDArray[Any]] = {}
        self.specs: dict[str, Spec] = {}

    def __call__(self, value: Any, step: str) -> Json:
        """The tree of `value`; `step` leads to it from the value around it: ``.name`` or ``[3]``."""
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value  # type: ignore[no-any-return]
        if (kind is float and math.isfinite(value)) or (kind is int and -(2**63) <= value < 2**63):
            return value  # type: ignore[no-any-return]
        self._steps.append(step)
        if id(value) in self._open:
            self.refuse("contains itself", "break the cycle")
        if len(self._steps) > DEPTH:
            self.refuse(f"lies more than {DEPTH} levels deep", "flatten what surrounds it")
        self._open.add(id(value))
        node: Json
        if kind is list:
            node = self.items(value)
        else:
            codec = self._codecs.get(kind, self._fallback)
            node = {codec.tag: codec.encode(value, self)}
        self._open.remove(id(value))
        self._steps.pop()
        return node

    def items(self, values: Iterable[Any]) -> list[Json]:
        """The trees of several values, in their order."""
        return [self(value, f"[{i}]") for i, value in enumerate(values)]

    def entries(self, values: Mapping[str, Any]) -> dict[str, Json]:
        """The trees of named values."""
        return {name: self(value, f".{name}") for name, value in values.items()}

    def array(self, array: npt.NDArray[Any]) -> str:
        """The name under which `array` will stand in the file; an array that occurs twice has one name."""
        if id(array) in self._names:
            return self._names[id(array)]
        spec = Spec.from_array(array)
        if spec is None:
            self.refuse(f"is an array of dtype {array.dtype}", f"convert it to {SAVED_DTYPES}")
        name, repeats = self._where(), 1
        while name in self.arrays:
            repeats += 1
            name = f"{self._where()}#{repeats}"
        # Holding the array also keeps its id from being given to another one.
        self._names[id(array)], self.arrays[name], self.specs[name] = name, array, spec
        return name

    def number_of_shared(self, value: Any) -> int | None:
        """The number of a value that several objects share, if it has been written before; None the first time."""
        if id(value) in self._shared:
            return self._shared[id(value)][0]
        self._shared[id(value)] = len(self._shared), value
        return None

    def refuse(self, what: str, cure: str) -> NoReturn:
        """Raise the error for the value at hand."""
        raise NotSavable(f"{self._where()} cannot be saved: it {what}; {cure}")

    def _where(self) -> str:
        return "".join(self._steps)


class Reader(ABC):
    """Turns trees into values. What arrays and objects become is for the subclass to say.

    A tree that makes no sense raises an error of any kind: the caller reports it as a damaged file, at
    `where`.
    """

    def __init__(self, codecs: Iterable[Codec]) -> None:
        self._codecs = {codec.tag: codec for codec in codecs}
        self._steps: list[str | int] = []
        self._arrays: dict[str, Any] = {}
        self.shared: list[Any] = []  # what `Writer.number_of_shared` numbered, in the same order

    def __call__(self, node: Any, step: str | int) -> Any:
        """The value of the tree `node`; `step` leads to it: ``.name``, or a number in a list."""
        if type(node) in THEMSELVES:
            return node
        self._steps.append(step)
        if len(self._steps) > DEPTH:
            raise ValueError(f"more than {DEPTH} levels of nesting")
        if type(node) is list:
            value: Any = self.items(node)
        else:
            if len(node) != 1:
                raise ValueError(f"{len(node)} tags for one value")
            ((tag, payload),) = node.items()
            if tag not in self._codecs:
                raise ValueError(f"unknown tag {tag!r}")
            value = self._codecs[tag].decode(payload, self)
        self._steps.pop()
        return value

    def items(self, nodes: Any) -> list[Any]:
        """The values of several trees."""
        if not isinstance(nodes, list):
            raise TypeError("a list is missing")
        return [node if type(node) in THEMSELVES else self(node, i) for i, node in enumerate(nodes)]

    def entries(self, nodes: Any) -> dict[str, Any]:
        """The values of named trees."""
        if not isinstance(nodes, dict):
            raise TypeError("named entries are missing")
        return {name: self(node, f".{name}") for name, node in nodes.items()}

    def array(self, name: str) -> Any:
        """The array of that name: one object, however often it is asked for, so a small file stays small."""
        if name not in self._arrays:
            self._arrays[name] = self.read_array(name)
        return self._arrays[name]

    @property
    def used(self) -> Set[str]:
        """Names of the arrays that were asked for."""
        return self._arrays.keys()

    @property
    def where(self) -> str:
        """The way to the value that is being read."""
        return "".join(f"[{step}]" if isinstance(step, int) else step for step in self._steps)

    @abstractmethod
    def read_array(self, name: str) -> Any:
        """Get the array of that name."""

    @abstractmethod
    def build(self, name: str, parts: Mapping[str, Any], state: Mapping[str, Any], builder: Builder) -> Any:
        """An object of class `name`, from its parts and its fitted state; `builder` builds it where it is wanted."""


Builder: TypeAlias = Callable[[str, Mapping[str, Any], Mapping[str, Any]], Any]


# What `inspect` finds in a file: the same tree, with descriptions in place of arrays and objects.


@dataclass(frozen=True)
class StoredArray:
    """An array in a file: its name there, shape, dtype and bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int

    def __repr__(self) -> str:
        return f"<array {self.shape} {self.dtype}>"


@dataclass(frozen=True, eq=False)
class StoredObject:
    """An object in a file: its class's registered name, its parameters and its fitted attributes."""

    class_name: str
    parameters: Mapping[str, Any]
    state: Mapping[str, Any]

    def __repr__(self) -> str:
        return f"{self.class_name}({', '.join(f'{name}={value!r}' for name, value in self.parameters.items())})"


@dataclass(frozen=True, eq=False)
class Contents:
    """What a file holds. Printed, it is a short table.

    Attributes
    ----------
    version : the release of ovk that wrote the file
    format : the number of the file format
    value : what `load` would return, with `StoredObject` and `StoredArray` for objects and arrays
    arrays : all arrays in the order of the file
    """

    version: str
    format: int
    value: Any
    arrays: tuple[StoredArray, ...]

    @property
    def class_name(self) -> str:
        """Registered name of the model's class; of a plain value its type's name."""
        return self.value.class_name if isinstance(self.value, StoredObject) else type(self.value).__name__

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The model's constructor arguments; empty for a plain value."""
        return self.value.parameters if isinstance(self.value, StoredObject) else {}

    @property
    def state(self) -> Mapping[str, Any]:
        """The model's fitted attributes; empty for a plain value."""
        return self.value.state if isinstance(self.value, StoredObject) else {}

    def __str__(self) -> str:
        lines = [f"{self.class_name} (ovk {self.version}, format {self.format})"]
        lines += [f"  {name} = {short(value, 100)}" for name, value in {**self.parameters, **self.state}.items()]
        lines += [f"  {array.name}: {array.dtype} {array.shape}" for array in self.arrays]
        return "\n".join(lines)


class Description(Reader):
    """Reads a tree without reading its arrays or building its objects."""

    def __init__(self, codecs: Iterable[Codec], specs: Mapping[str, Spec]) -> None:
        super().__init__(codecs)
        self.arrays = {
            name: StoredArray(name, spec.shape, spec.dtype.newbyteorder("="), spec.nbytes)
            for name, spec in specs.items()
        }

    def read_array(self, name: str) -> StoredArray:
        return self.arrays[name]

    def build(self, name: str, parts: Mapping[str, Any], state: Mapping[str, Any], builder: Builder) -> StoredObject:
        return StoredObject(name, parts, state)
