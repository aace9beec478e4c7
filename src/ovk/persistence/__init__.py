"""Save a model to one file, load it back, look inside without loading.

A file is a safetensors container (any safetensors reader opens its arrays) whose metadata hold a JSON
manifest:

    format    the number of this format, now 1
    ovk       the release that wrote the file
    value     the model as a tree: names of public classes, constructor arguments, state, plain values
    arrays    dtype, shape, memory order and digest of every array that the tree mentions

`load` builds classes that are registered in the process (all of ovk's, all subclasses of its `Parameters`, a fixed list
of scikit-learn's transformers, and those passed to `register`) and nothing else: it never unpickles or evaluates, and
never imports what a file names. A file with one changed bit, or cut short, or of another kind, raises `CorruptFile`;
digests find accidents, they do not prove who wrote a file. `save` replaces the file as a whole, or leaves the old one.

How the format evolves. It is frozen at 0.1.0: from then on every release reads the files of all earlier ones (golden
files in ``tests/persistence``). What an old reader would not understand, such as a new tag in the tree, raises the
number by one. The two metadata entries ``ovk.manifest`` and ``ovk.blake2b`` and the manifest's ``format`` and ``ovk``
stay as they are for good: by them an old release recognises a newer file. A file stores every
parameter, so a default may change. Private classes have no names in files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from ovk.base import register, short
from ovk.persistence import container
from ovk.persistence.container import Container, remove_leftovers, replacing, sync_folder
from ovk.persistence.errors import ChangedClass, CorruptFile, NewerFormat, NotSavable, UnknownClass
from ovk.persistence.tree import Reader, Writer

__all__ = [
    "ChangedClass",
    "CorruptFile",
    "NewerFormat",
    "NotSavable",
    "UnknownClass",
    "inspect",
    "load",
    "register",
    "save",
]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write a model, fitted or not, to one file.

    The old file stays whole until the new one is complete on the disk, whatever happens in between.

    Parameters
    ----------
    model : an estimator, kernel, operator, ..., or a plain value or container of such
    path : where to; no extension is added

    Raises
    ------
    NotSavable
        for what cannot be written as data, such as a function; the message says where in the model it is.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk import OVKRidge, load, save
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = os.path.join(folder.name, "ridge.ovk")
    >>> save(OVKRidge(alpha=0.1), path)
    >>> load(path)
    OVKRidge(alpha=0.1)
    >>> save(OVKRidge(alpha=max), path)
    Traceback (most recent call last):
    ovk.persistence.errors.NotSavable: OVKRidge.alpha cannot be saved: it is a function, ...
    >>> folder.cleanup()
    """
    name = os.fspath(path)
    writer = Writer()
    try:
        value = writer(model, type(model).__name__)
    except RecursionError as error:
        raise NotSavable("model is nested too deeply to be saved; flatten it") from error
    with replacing(name) as file:
        container.write(file, value, writer.arrays, writer.specs)


def load(path: str | os.PathLike[str]) -> Any:
    """Read what `save` wrote.

    Parameters
    ----------
    path : a file written by `save`, by this release or an earlier one

    Raises
    ------
    CorruptFile
        if the file is damaged or of another kind.
    UnknownClass
        if it holds a class that nothing imported so far has defined.
    ChangedClass
        if a class does not take the parameters that the file has for it.
    NewerFormat
        if it was written by a later release that changed the format.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "values.ovk")
    ...     save({"weights": np.arange(3.0), "names": ("a", "b")}, path)
    ...     load(path)
    {'weights': array([0., 1., 2.]), 'names': ('a', 'b')}
    """
    with _opened(path) as file:
        return _read(file, Reader(file.read, lambda builder, *parts: builder(*parts)))


def inspect(path: str | os.PathLike[str]) -> Contents:
    """What is in a file: class, parameters, arrays. Nothing is built, and the arrays are not read.

    Parameters
    ----------
    path : a file written by `save`; its classes need not be imported

    Returns
    -------
    contents : prints as a short table
        Its attributes are `class_name`, `parameters` and `state` of the model, `value`, which is what `load` would
        return with descriptions in the place of objects and arrays, `arrays`, and the `version` of ovk and the `format`
        of the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk import OVKRidge, save
    >>> from ovk.persistence import inspect
    >>> model = OVKRidge(alpha=0.1).fit([[0.0], [1.0]], [[1.0, 2.0], [3.0, 4.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "ridge.ovk")
    ...     save(model, path)
    ...     contents = inspect(path)
    >>> contents.class_name, contents.parameters["alpha"], contents.state["X_fit_"]
    ('batch.OVKRidge', 0.1, <array (2, 1) float64>)
    >>> print(contents)
    batch.OVKRidge (ovk ..., format 1)
      alpha = 0.1
      ...
    """
    with _opened(path) as file:
        arrays = {
            name: StoredArray(name, spec.shape, spec.dtype.newbyteorder("="), spec.nbytes)
            for name, spec in file.specs.items()
        }
        value = _read(file, Reader(arrays.__getitem__, lambda _, *parts: StoredObject(*parts)))
        return Contents(file.version, file.format, value, tuple(arrays.values()))


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
    """What a file holds. Printed, it is a short table."""

    version: str  # the release of ovk that wrote the file
    format: int
    value: Any  # with `StoredObject` and `StoredArray` for objects and arrays
    arrays: tuple[StoredArray, ...]  # in the order of the file

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


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Container]:
    name = os.fspath(path)
    mode = os.stat(name).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"path: {name!r} is a folder; give the file that was saved")
    if not stat.S_ISREG(mode):  # opening a pipe would block
        raise CorruptFile(f"path: {name!r} is a device or a pipe; give the file that was saved")
    with open(name, "rb") as file:
        yield Container(file, os.fstat(file.fileno()).st_size, name)


def _read(file: Container, reader: Reader) -> Any:
    try:
        value = reader(file.value, "value")
        if unused := file.specs.keys() - reader.used:
            raise ValueError(f"arrays that nothing refers to: {sorted(unused)}")
    except CorruptFile:
        raise
    except (UnknownClass, ChangedClass) as error:
        error.add_note(f"while reading {reader.where} of {file.path!r}, written by ovk {file.version}")
        raise
    except Exception as error:
        # Whatever a tree that we did not write runs into, here or in a constructor, says the same about the
        # file.
        place = f"at {reader.where}, written by ovk {file.version}" if reader.where else f"ovk {file.version}"
        raise file.corrupt(f"{type(error).__name__}: {error} ({place})") from error
    return value
