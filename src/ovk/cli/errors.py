"""Errors as one sentence and an exit code. Nobody should meet a traceback who did not ask for one."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum

from ovk.persistence import ChangedClass, CorruptFile, NewerFormat, UnknownClass
from ovk.sessions import OtherSession
from ovk.streams import BrokerError, StreamLost

#: Set this variable to see where an error came from.
VARIABLE = "OVK_TRACEBACK"


class Exit(IntEnum):
    """Exit codes; the package's docstring says what they mean."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DATA = 3
    MODEL = 4
    PACKAGE = 5
    INTERRUPTED = 130
    TERMINATED = 143


class Failure(Exception):
    """An error whose message is the sentence to show."""

    def __init__(self, message: str, code: Exit) -> None:
        super().__init__(message)
        self.code = code


@contextmanager
def blaming(code: Exit) -> Iterator[None]:
    """Errors of the values met here are the fault of the data, or of the model file."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        if isinstance(error, BrokenPipeError):
            raise
        raise Failure(sentence(error), _code(error, code)) from error


def _code(error: BaseException, code: Exit) -> Exit:
    if isinstance(error, OtherSession) or (isinstance(error, BrokerError) and not isinstance(error, StreamLost)):
        return Exit.USAGE
    return Exit.MODEL if isinstance(error, (ChangedClass, CorruptFile, NewerFormat, UnknownClass)) else code


def explain(error: BaseException) -> tuple[str, Exit]:
    """The sentence for an error, and the exit code."""
    if os.environ.get(VARIABLE):
        traceback.print_exception(error)
    if isinstance(error, Failure):
        return str(error), error.code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", Exit.INTERRUPTED
    if isinstance(error, ImportError):
        return sentence(error), Exit.PACKAGE
    if isinstance(error, (ChangedClass, CorruptFile, NewerFormat, UnknownClass)):
        return sentence(error), Exit.MODEL
    if isinstance(error, MemoryError):
        return "there is not enough memory: use fewer columns or a smaller --block", Exit.DATA
    if isinstance(error, (OSError, ValueError)):
        return sentence(error), Exit.DATA
    return (
        f"{type(error).__name__}: {sentence(error)}; this is an error of ovk: please report it with the output of the "
        f"same command when the environment variable {VARIABLE} is set",
        Exit.FAILED,
    )


def article(name: str) -> str:
    """A class with its article.

    >>> article("OVKRidge"), article("Session")
    ('an OVKRidge', 'a Session')
    """
    return f"{'an' if name[0] in 'AEIO' else 'a'} {name}"


def sentence(error: BaseException) -> str:
    """The message on one line; for errors of the system the file first."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        text = f"{error.filename}: {error.strerror[0].lower()}{error.strerror[1:]}"
        return f"{text}: check the path" if isinstance(error, FileNotFoundError) else text
    # Functions name their argument first, which nobody has given here.
    return " ".join(str(error).removeprefix("path: ").split()) or type(error).__name__
