"""What can go wrong when a model is written or read."""

from __future__ import annotations


class NotSavable(TypeError):
    """A value inside the model has no place in a file. The message says where it is and what to do.

    >>> import ovk
    >>> ovk.save({"f": lambda x: x}, "never-written.ovk")
    Traceback (most recent call last):
    ovk.persistence.errors.NotSavable: ...
    """


class CorruptFile(ValueError):
    """The file is damaged, cut short, or was not written by `ovk.save`.

    >>> import tempfile
    >>> import ovk
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     ovk.load(file.name)
    Traceback (most recent call last):
    ovk.persistence.errors.CorruptFile: ...
    """


class UnknownClass(ValueError):
    """The file holds an object of a class that is not registered in this process."""


class ChangedClass(ValueError):
    """The file holds an object whose class, as it is here, does not have the parameters it was saved with."""


class NewerFormat(ValueError):
    """The file was written by a later release, in a format that this one cannot read."""
