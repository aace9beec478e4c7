"""Errors of saving and loading."""

from __future__ import annotations


class NotSavable(TypeError):
    """The model contains an object that cannot be saved; the message states where it is and what to do.

    See Also
    --------
    save, register

    Examples
    --------
    >>> import ovk
    >>> ovk.save({"f": lambda x: x}, "never-written.ovk")
    Traceback (most recent call last):
    ovk.persistence.errors.NotSavable: dict['f'] cannot be saved: it is a function, ...
    """


class CorruptFile(ValueError):
    """The file is damaged, truncated, or was not written by `ovk.save`.

    See Also
    --------
    load, inspect

    Examples
    --------
    >>> import tempfile
    >>> import ovk
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     ovk.load(file.name)
    Traceback (most recent call last):
    ovk.persistence.errors.CorruptFile: ... is damaged or was not written by ovk.save: it has 0 bytes; ...
    """


class UnknownClass(ValueError):
    """The file contains an object of a class that is not registered in this process.

    See Also
    --------
    register, load

    Examples
    --------
    >>> from ovk.persistence import UnknownClass
    >>> raise UnknownClass("the file contains an object of class 'mine.Kernel', which is not registered")
    Traceback (most recent call last):
    ovk.persistence.errors.UnknownClass: the file contains an object of class 'mine.Kernel', which is not registered
    """


class ChangedClass(ValueError):
    """The file contains an object whose class no longer has the parameters in the file.

    See Also
    --------
    load

    Examples
    --------
    >>> from ovk.persistence import ChangedClass
    >>> raise ChangedClass("kernels.Gaussian: no parameter 'width', which the file has")
    Traceback (most recent call last):
    ovk.persistence.errors.ChangedClass: kernels.Gaussian: no parameter 'width', which the file has
    """


class NewerFormat(ValueError):
    """A later release wrote the file in a format that this release cannot read.

    See Also
    --------
    load

    Examples
    --------
    >>> from ovk.persistence import NewerFormat
    >>> raise NewerFormat("'model.ovk' has file format 2; this is ovk 0.1.0, which reads formats up to 1")
    Traceback (most recent call last):
    ovk.persistence.errors.NewerFormat: 'model.ovk' has file format 2; this is ovk 0.1.0, which reads formats up to 1
    """
