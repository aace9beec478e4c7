"""Learners in service: what a request asks of a session, a stream learner, a classifier or a batch estimator.

A contender is never changed: `learned` gives another one, which has learned the rows. Whoever holds the old one can go
on predicting with it, and a call that fails leaves it as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ovk._state import State
from ovk._types import Array
from ovk.serving.rows import RequestRows
from ovk.serving.scores import Outcome

Outputs = dict[str, npt.NDArray[Any]]


class TensorSpec(NamedTuple):
    """A tensor that a model takes or gives: its name, datatype of the protocol, shape with -1 for the rows, columns."""

    name: str
    datatype: str
    shape: list[int]
    columns: list[str]


@dataclass
class Contender(State, ABC):
    """A learner under a name.

    Attributes
    ----------
    name : what it is called on the page and in metrics
    model : the session or estimator
    failures : requests that it could not learn
    """

    name: str
    model: Any
    failures: int = 0

    #: Whether outputs are labels.
    labels = False
    #: Whether it learns at all.
    learns = True
    #: Whether its intervals begin with the first rows that are learned in service; others bring errors along.
    intervals_of_service = False

    @property
    def window(self) -> int:
        """Of how many last rows the errors are kept, from which intervals are made; 0 where that sets no limit."""
        return 0

    @property
    @abstractmethod
    def outputs(self) -> list[str]:
        """Names of the outputs."""

    @abstractmethod
    def inputs(self) -> list[TensorSpec]:
        """What it takes."""

    @abstractmethod
    def targets(self, targets: RequestRows) -> Array:
        """(n, d) outcomes as numbers, nan where unknown; for a classifier the codes of the labels."""

    @abstractmethod
    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        """Refuse rows that cannot be predicted, or learned with these targets."""

    @abstractmethod
    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        """The outputs of these names."""

    @abstractmethod
    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[Contender, Outcome]:
        """A contender that has learned the rows, and what this one predicted for them."""

    def gives(self) -> dict[str, TensorSpec]:
        """The outputs that can be asked for, the one given by default first."""
        d, columns = len(self.outputs), self.outputs
        names = ["mean", *(["std"] if self._with_std() else []), "lower", "upper"]
        return {name: TensorSpec(name, "FP64", [-1, d], columns) for name in names}

    def _with_std(self) -> bool:
        return False

    def size(self) -> int:
        """Bytes of the arrays that the model leads to."""
        return _array_bytes(self.model, set())


def _array_bytes(value: Any, seen: set[int]) -> int:
    """Bytes of all arrays that an object leads to."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, Mapping):
        return sum(_array_bytes(part, seen) for part in value.values())
    if isinstance(value, (list, tuple)):
        return sum(_array_bytes(part, seen) for part in value) if len(value) < 10_000 else 0
    if type(value).__module__.startswith("ovk"):
        return sum(_array_bytes(part, seen) for part in vars(value).values()) if hasattr(value, "__dict__") else 0
    return 0
