"""What `inspect` finds in a file: the same tree, with descriptions in place of arrays and objects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.persistence.codec import Builder, Codec, Reader
from ovk.persistence.storage import Spec


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
        lines += [f"  {name} = {_short(value)}" for name, value in {**self.parameters, **self.state}.items()]
        lines += [f"  {array.name}: {array.dtype} {array.shape}" for array in self.arrays]
        return "\n".join(lines)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:97]}..."


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
