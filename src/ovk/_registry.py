"""Names of classes that a file may ask `ovk.load` to build, and nothing else."""

from __future__ import annotations

import importlib
from contextlib import suppress

#: Packages of ovk whose classes stand in files. Each is imported when a file first names one of its classes.
PACKAGES = (
    *("losses", "penalties", "schedules", "curves", "kernels", "operators", "ovkernels", "solvers", "features"),
    *("expansion", "batch", "online", "structured", "streams", "evaluation", "sessions", "serving"),
)

#: The package that registers classes of another library.
FOREIGN = {"sklearn": "kernels"}

_CLASSES: dict[str, type] = {}


def public_name(cls: type) -> str:
    """Name under which a class is written to files: its package and its own name, not the file it lives in.

    `ovk.kernels.stationary.Gaussian` is written as ``kernels.Gaussian``, so that moving a class between the files of
    a package does not break saved models. Classes from outside keep their full module path.
    """
    top, *packages = cls.__module__.split(".")
    if top == "ovk" and packages:
        return f"{packages[0]}.{cls.__qualname__}"
    return f"{cls.__module__}.{cls.__qualname__}"


def register(cls: type) -> type:
    """Allow `ovk.load` to build `cls`.

    Running a class's definition again replaces it; two classes of different modules cannot share a name.
    Subclasses of our own classes are registered by being defined.

    >>> from ovk.persistence import register
    >>> @register
    ... class Mine:
    ...     pass
    """
    name = public_name(cls)
    known = _CLASSES.get(name)
    if known is not None and known.__module__ != cls.__module__:
        raise ValueError(f"{cls.__module__} and {known.__module__} both define the class {name}: rename one of them")
    _CLASSES[name] = cls
    return cls


def lookup(name: str) -> type | None:
    """The class registered under `name`, or None. Its package, if on the fixed list, is imported first."""
    if name not in _CLASSES:
        top = name.split(".")[0]
        _import(FOREIGN.get(top, top))
    return _CLASSES.get(name)


def _import(package: str) -> None:
    # A package that needs another one which is not installed has no classes here.
    if package in PACKAGES:
        with suppress(ImportError):
            importlib.import_module(f"ovk.{package}")


def registered() -> list[type]:
    """All classes that a file may name."""
    for package in PACKAGES:
        _import(package)
    return list(_CLASSES.values())
