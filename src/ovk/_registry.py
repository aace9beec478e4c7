"""Names of classes that a file may ask `ovk.load` to build, and nothing else."""

from __future__ import annotations

_CLASSES: dict[str, type] = {}


def public_name(cls: type) -> str:
    """Name under which a class is written to files: its room and its own name, not the file it lives in.

    `ovk.kernels.stationary.Gaussian` is written as ``kernels.Gaussian``, so that moving a class between the files of
    a room does not break saved models. Classes from outside keep their full module path.
    """
    package, *rooms = cls.__module__.split(".")
    if package == "ovk" and rooms:
        return f"{rooms[0]}.{cls.__qualname__}"
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
    """The class registered under `name`, or None."""
    return _CLASSES.get(name)
