"""Detectors of what is new, as anomaly detectors of river."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from river import base

from ovk._transactions import reads
from ovk.kernels import Gaussian
from ovk.online.first_order.novelty import NoveltyDetector
from ovk.online.river.adapter import Adapter


class RiverAnomalyDetector(Adapter, base.AnomalyDetector):
    """A `NoveltyDetector` as an anomaly detector of river.

    Parameters
    ----------
    model : `NoveltyDetector`
        Give its kernel a length scale: "median" would be that of a single example.

    Attributes
    ----------
    learner : the copy of `model` that learns

    Examples
    --------
    >>> from ovk import NoveltyDetector
    >>> from ovk.kernels import Gaussian
    >>> from ovk.online.river import RiverAnomalyDetector
    >>> model = RiverAnomalyDetector(NoveltyDetector(Gaussian(1.0), nu=0.1))
    >>> for k in range(200):
    ...     model.learn_one({"x": k % 10 / 10})
    >>> model.score_one({"x": 0.5}) < 0 < model.score_one({"x": 7.0}), model.is_new_one({"x": 7.0})
    (True, True)
    """

    _takes = "RiverAnomalyDetector"

    @classmethod
    def _example(cls) -> Any:
        return NoveltyDetector(Gaussian(1.0))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"model": NoveltyDetector(Gaussian(1.0), truncation=100)}

    def learn_one(self, x: dict[Any, Any]) -> None:
        """Learn from an example."""
        with self._transaction() as work:
            work._grow(x)
            work._learn(work._features.row(x))

    @reads
    def score_one(self, x: dict[Any, Any]) -> float:
        """How far f(x) lies below the threshold, positive for what is new; 0 before anything was learned."""
        row = self._features.row(x)
        return -float(self.learner.decision_function(row)[0]) if self._started else 0.0

    def is_new_one(self, x: dict[Any, Any]) -> bool:
        """Whether the example is new; nothing is, before anything was learned."""
        return self.score_one(x) > 0
