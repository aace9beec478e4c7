"""Errors of saving and loading."""

from __future__ import annotations


class NotSavableError(TypeError):
    """The model contains an object that cannot be saved; the message states where it is and what to do.

    See Also
    --------
    save, register

    Examples
    --------
    >>> import ovk
    >>> ovk.save({"f": lambda x: x}, "never-written.ovk")
    Traceback (most recent call last):
    ovk.persistence.errors.NotSavableError: dict['f'] cannot be saved: it is a function, ...
    """


class CorruptFileError(ValueError):
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
    ovk.persistence.errors.CorruptFileError: ... is damaged or was not written by ovk.save: it has 0 bytes; ...
    """


class UnknownClassError(ValueError):
    """The file contains an object of a class that is not registered in this process.

    See Also
    --------
    register, load

    Examples
    --------
    >>> from ovk.persistence import UnknownClassError
    >>> raise UnknownClassError("the file contains a 'mine.Kernel', which is not registered")
    Traceback (most recent call last):
    ovk.persistence.errors.UnknownClassError: the file contains a 'mine.Kernel', which is not registered
    """


class ChangedClassError(ValueError):
    """The file contains an object whose class no longer has the parameters in the file.

    See Also
    --------
    load

    Examples
    --------
    >>> from ovk.persistence import ChangedClassError
    >>> raise ChangedClassError("kernels.Gaussian: the file has an unknown parameter 'width'")
    Traceback (most recent call last):
    ovk.persistence.errors.ChangedClassError: kernels.Gaussian: the file has an unknown parameter 'width'
    """


class NewerFormatError(ValueError):
    """A later release wrote the file in a format that this release cannot read.

    See Also
    --------
    load

    Examples
    --------
    >>> from ovk.persistence import NewerFormatError
    >>> raise NewerFormatError("'model.ovk' has file format 2; ovk 0.1.0 reads formats up to 1")
    Traceback (most recent call last):
    ovk.persistence.errors.NewerFormatError: 'model.ovk' has file format 2; ovk 0.1.0 reads formats up to 1
    """
