"""Interrupting a learner at any of its inner calls."""

import sys
from inspect import CO_GENERATOR
from pathlib import Path

import ovk

HOME = str(Path(ovk.__file__).parent)


def counts(frame, event):
    """Whether a function of the library is entered, other than one whose errors Python ignores.

    Python enters a generator once more to close it before its end, so only those of context managers count.
    """
    code = frame.f_code
    if event != "call" or not code.co_filename.startswith(HOME) or code.co_name == "__del__":
        return False
    return not code.co_flags & CO_GENERATOR or frame.f_back.f_code.co_filename.endswith("contextlib.py")


class Interruption(KeyboardInterrupt):
    """Ctrl-C, told apart from a real one."""


def count_calls(action):
    """How many functions of the library ``action()`` enters."""
    seen = 0

    def watch(frame, event, argument):
        nonlocal seen
        if counts(frame, event):
            seen += 1

    sys.setprofile(watch)
    try:
        action()
    finally:
        sys.setprofile(None)
    return seen


def interrupt(action, number, error=Interruption):
    """Run ``action()`` and raise `error` when it enters the function of the library with this number.

    Returns whether the error came out.
    """
    seen = 0

    def watch(frame, event, argument):
        nonlocal seen
        if counts(frame, event):
            seen += 1
            if seen == number:
                sys.setprofile(None)
                raise error

    sys.setprofile(watch)
    try:
        action()
    except error:
        return True
    finally:
        sys.setprofile(None)
    return False
