"""Names of classes that a file may ask `ovk.load` to build, and nothing else."""

from __future__ import annotations

_CLASSES: dict[str, type] = {}


def public_name(cls: type) -> str:
    """Name under which a class is written to files: its room and its own name, not the file it lives in.

    `ovk.kernels.stationary.Gaussian` is written as ``kernels.Gaussian``, so that moving a class between the files of
    a room does not break saved models. Classes from outside keep their full module path.
    """
    module = cls.__module__.split(".")
    if module[0] == "ovk":
        return f"{module[1]}.{cls.__qualname__}"
    return f"{cls.__module__}.{cls.__qualname__}"


def register(cls: type) -> type:
    """Allow `ovk.load` to build `cls`. Redefining a class under the same name replaces it."""
    _CLASSES[public_name(cls)] = cls
    return cls


def lookup(name: str) -> type | None:
    """The class registered under `name`, or None."""
    return _CLASSES.get(name)
