"""Learning calls that happen wholly or not at all, and reading beside them.

A learning call works on a fork of the learner, and at its end puts the fork's attributes into place by one assignment,
which Python does in one step. So an error, Ctrl-C or a lack of memory in the middle leaves the learner as it was, and
other threads see it as it is between two calls. Two rules make this work:

* What the attributes of a learner refer to is never changed in place. Private objects are copied first
  (`State._snapshot`); arrays are replaced, or written to behind the end that older copies see.
* A method that reads takes all attributes at once, from a copy of their dictionary (`reads_snapshot`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Concatenate, ParamSpec, Self, TypeVar

import numpy as np

from ovk.base.errors import named
from ovk.base.state import CopyOnWrite, snapshot_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T", bound="Transactional")


class Transactional(CopyOnWrite):
    """Mixin of learners whose calls happen wholly or not at all."""

    def _snapshot(self) -> Self:
        """The learner as it is now. It can go on by itself, for learning replaces what its attributes lead to."""
        other: Self = object.__new__(type(self))
        other.__dict__ = self.__dict__.copy()
        return other

    def _changes(self, name: str) -> bool:
        """Whether learning may change what this attribute holds: parameters stay the objects that were given."""
        return name.endswith("_") or name.startswith("_")

    @contextmanager
    def _transaction(self) -> Iterator[Self]:
        """A copy to work on, which this learner becomes if nothing goes wrong."""
        work = self._snapshot()
        # It was opened for the learner as it was before.
        work.__dict__.pop("_gate", None)
        for name, value in work.__dict__.items():
            if isinstance(value, (CopyOnWrite, list, dict)) and self._changes(name):
                work.__dict__[name] = snapshot_of(value)
        try:
            yield work
        except np.linalg.LinAlgError as error:
            raise named(error, self) from error
        # Read now, not before: a learning call within this one has put another dictionary into place.
        self.__dict__ = work.__dict__


def reads_snapshot(method: Callable[Concatenate[T, P], R]) -> Callable[Concatenate[T, P], R]:
    """Let a method see the learner as it is between two learning calls, whatever other threads do meanwhile."""

    @wraps(method)
    def wrapper(self: T, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(self._snapshot(), *args, **kwargs)

    return wrapper
