"""Save models to files, load them, and inspect files without loading.

A file is a safetensors container, whose arrays any safetensors reader can open, with a JSON manifest:

    format    version of this format, now 1
    ovk       release that wrote the file
    value     the model as a tree: names of public classes, constructor arguments, state, plain values
    arrays    dtype, shape, memory order and digest of every array in the tree

`load` builds only registered classes: those of ovk, subclasses of its `Parameters`, a fixed list of scikit-learn
transformers, and classes passed to `register`. It never unpickles, evaluates, or imports what a file names. A file that
was truncated or changed in a single bit raises `CorruptFileError`; digests detect accidents, not forgery. `save`
replaces the whole file, or leaves the old one.

The format is frozen at 0.1.0: later releases read all earlier files. A change that older releases cannot read, such as
a new tag in the tree, increments ``format``. The metadata entries ``ovk.manifest`` and ``ovk.blake2b`` and the
manifest's ``format`` and ``ovk`` never change, so that old releases recognise newer files. Files store every parameter,
so defaults may change.
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
from ovk.persistence.container import Container, remove_leftovers, replacing, sync_directory
from ovk.persistence.errors import (
    ChangedClassError,
    CorruptFileError,
    NewerFormatError,
    NotSavableError,
    UnknownClassError,
)
from ovk.persistence.tree import Reader, Writer

__all__ = [
    "ChangedClassError",
    "CorruptFileError",
    "NewerFormatError",
    "NotSavableError",
    "UnknownClassError",
    "inspect",
    "load",
    "register",
    "save",
]


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Save a model, fitted or not, to a file.

    The old file remains complete until the new one is on disk.

    Parameters
    ----------
    model : object
        An estimator, kernel, operator, ..., or a plain value or container of such objects.
    path : str or path-like
        The file; no extension is added.

    Raises
    ------
    NotSavableError
        If the model contains an object that is not data, such as a function; the message states where.

    See Also
    --------
    load, inspect, register

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk import OVKRidge, load, save
    >>> directory = tempfile.TemporaryDirectory()
    >>> path = os.path.join(directory.name, "ridge.ovk")
    >>> save(OVKRidge(alpha=0.1), path)
    >>> load(path)
    OVKRidge(alpha=0.1)
    >>> save(OVKRidge(alpha=max), path)
    Traceback (most recent call last):
    ovk.persistence.errors.NotSavableError: OVKRidge.alpha cannot be saved: it is a function, ...
    >>> directory.cleanup()
    """
    name = os.fspath(path)
    writer = Writer()
    try:
        value = writer(model, type(model).__name__)
    except RecursionError as error:
        raise NotSavableError("model is nested too deeply; flatten it") from error
    with replacing(name) as file:
        container.write(file, value, writer.arrays, writer.specs)


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that `save` wrote.

    Loading never executes code from the file.

    Parameters
    ----------
    path : str or path-like
        A file that this release or an earlier one wrote.

    Returns
    -------
    object
        The model; it makes the same predictions as the saved one.

    Raises
    ------
    CorruptFileError
        If the file is damaged, or not a file of ovk.
    UnknownClassError
        If it contains an object of a class that is not registered in this process.
    ChangedClassError
        If a class does not have the parameters in the file.
    NewerFormatError
        If a later release with another format wrote it.

    See Also
    --------
    save, inspect, register

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "values.ovk")
    ...     save({"weights": np.arange(3.0), "names": ("a", "b")}, path)
    ...     load(path)
    {'weights': array([0., 1., 2.]), 'names': ('a', 'b')}
    """
    with _opened(path) as file:
        return _read(file, Reader(file.read, lambda builder, *parts: builder(*parts)))


def inspect(path: str | os.PathLike[str]) -> Contents:
    """Describe the contents of a file without building objects or reading arrays.

    Parameters
    ----------
    path : str or path-like
        A file that `save` wrote; its classes need not be registered.

    Returns
    -------
    Contents
        Prints as a short table. Its attributes are `class_name`, `parameters` and `state` of the model; `value`, the
        result of `load` with descriptions instead of objects and arrays; `arrays`; and the `version` of ovk and the
        `format` of the file.

    See Also
    --------
    load, save

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk import OVKRidge, save
    >>> from ovk.persistence import inspect
    >>> model = OVKRidge(alpha=0.1).fit([[0.0], [1.0]], [[1.0, 2.0], [3.0, 4.0]])
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     path = os.path.join(directory, "ridge.ovk")
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
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    nbytes: int

    def __repr__(self) -> str:
        return f"<array {self.shape} {self.dtype}>"


@dataclass(frozen=True, eq=False)
class StoredObject:
    class_name: str  # as registered
    parameters: Mapping[str, Any]
    state: Mapping[str, Any]  # fitted attributes

    def __repr__(self) -> str:
        return f"{self.class_name}({', '.join(f'{name}={value!r}' for name, value in self.parameters.items())})"


@dataclass(frozen=True, eq=False)
class Contents:
    version: str  # release of ovk that wrote the file
    format: int
    value: Any  # the model, with `StoredObject` and `StoredArray` instead of objects and arrays
    arrays: tuple[StoredArray, ...]  # in the order of the file

    @property
    def class_name(self) -> str:
        """Registered name of the model's class; the type's name for a plain value."""
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
        raise IsADirectoryError(f"path must be a saved file, got the directory {name!r}")
    if not stat.S_ISREG(mode):  # opening a pipe would block
        raise CorruptFileError(f"path must be a saved file, got the device or pipe {name!r}")
    with open(name, "rb") as file:
        yield Container(file, os.fstat(file.fileno()).st_size, name)


def _read(file: Container, reader: Reader) -> Any:
    try:
        value = reader(file.value, "value")
        if unused := file.specs.keys() - reader.used:
            raise ValueError(f"unused arrays {sorted(unused)}")
    except CorruptFileError:
        raise
    except (UnknownClassError, ChangedClassError) as error:
        error.add_note(f"while reading {reader.where} of {file.path!r}, written by ovk {file.version}")
        raise
    except Exception as error:
        # Any error from a tree that we did not write, here or in a constructor, means that the file is corrupt.
        place = f"at {reader.where}, written by ovk {file.version}" if reader.where else f"ovk {file.version}"
        raise file.corrupt(f"{type(error).__name__}: {error} ({place})") from error
    return value
