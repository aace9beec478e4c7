"""Estimators in service: numbers or labels out of rows of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ovk._transactions import Transactional
from ovk._types import Array
from ovk.evaluation import RollingConformal
from ovk.evaluation.conformal.rolling import LEVEL
from ovk.evaluation.learners import OnlineLearner
from ovk.online import AutoStream
from ovk.serving.contenders import Contender, Outputs, TensorSpec
from ovk.serving.errors import RequestRefused
from ovk.serving.rows import RequestRows, listed, rows_differ
from ovk.serving.scores import Outcome


@runtime_checkable
class _ServedProbabilities(Protocol):
    def predict_proba(self, X: Any, /) -> Any: ...


@dataclass
class EstimatorContender(Contender):
    """An estimator, which takes rows of numbers and learns if it is an online learner."""

    @property
    def learns(self) -> bool:  # type: ignore[override]
        kind: Any = type(self.model)
        return _learns(kind)

    def inputs(self) -> list[TensorSpec]:
        return [_matrix_spec(self.model)]

    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        X = self._X(rows)
        if targets is not None and len(self.targets(targets)) != len(X):
            raise RequestRefused(400, rows_differ(rows, targets))

    def _X(self, rows: RequestRows) -> Array:
        """(n, p) inputs without missing values."""
        if rows.names is None:
            # The way of every request with a matrix, which need not know what the columns are called.
            known, p = None, int(self.model.n_features_in_)
        else:
            spec = _matrix_spec(self.model)
            p = spec.shape[1]
            # A matrix of one column is a column with the name of the tensor.
            known = None if p == 1 and rows.names == (spec.name,) else spec.columns
            if known and not hasattr(self.model, "feature_names_in_") and not set(known) <= set(rows.names):
                raise RequestRefused(400, _unknown_names(rows.names, known))
        X = rows.numbers(known, p, "inputs")
        if np.isnan(X).any():
            raise RequestRefused(400, "inputs hold missing values, which this model does not take")
        return X

    def _predict_then_learn(self, X: Array, y: Any) -> tuple[Any, Any]:
        """A model that has learned the rows, if it learns at all, and what was predicted for them."""
        if not self.learns:
            return self.model, self.model.predict(X)
        model = self.model._fork()
        return model, model.predict_then_learn(X, y)


@dataclass
class RegressorContender(EstimatorContender, kind="regressor"):
    """An estimator of numbers, which learns if it is an online learner.

    Attributes
    ----------
    intervals : the last errors, for intervals
    names : names of the outputs
    """

    intervals_of_service = True

    intervals: RollingConformal = field(default_factory=lambda: RollingConformal(LEVEL, window=2000))
    names: list[str] = field(default_factory=list)

    @property
    def outputs(self) -> list[str]:
        return self.names

    @property
    def window(self) -> int:
        return self.intervals.window

    def _with_std(self) -> bool:
        kind: Any = type(self.model)
        return _takes_std(kind)

    def targets(self, targets: RequestRows) -> Array:
        return targets.numbers(self.names, len(self.names), "targets")

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        X = self._X(rows)
        shape = (len(X), len(self.names))
        if "std" in wanted:
            mean, std = self.model.predict(X, return_std=True)
            found: Outputs = {"mean": _as_shape(mean, shape), "std": _as_shape(std, shape)}
        else:
            found = {"mean": _as_shape(self.model.predict(X), shape)}
        if wanted & {"lower", "upper"}:
            half = self.intervals.half_widths(level, len(self.names))
            found |= {"lower": found["mean"] - half, "upper": found["mean"] + half}
        return found

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[Contender, Outcome]:
        X, Y = self._X(rows), self.targets(targets)
        model, F = self._predict_then_learn(X, Y[:, 0] if getattr(self.model, "single_output_", False) else Y)
        F = _as_shape(F, Y.shape)
        # Not those of `regions_then_learn`, which are brought up to date now and then: these are what is served.
        half = np.broadcast_to(self.intervals.half_widths(LEVEL, len(self.names)), Y.shape)
        intervals = self.intervals._fork()
        intervals.regions_then_learn(F, Y)
        return replace(self, model=model, intervals=intervals), Outcome(F, half, Y)


@dataclass
class ClassifierContender(EstimatorContender, kind="classifier"):
    """An estimator of labels, which learns if it is an online learner."""

    labels = True

    @property
    def outputs(self) -> list[str]:
        return ["label"]

    @property
    def classes(self) -> npt.NDArray[Any]:
        """The labels there are."""
        classes: npt.NDArray[Any] = np.asarray(self.model.classes_)
        return classes

    def gives(self) -> dict[str, TensorSpec]:
        kind = {"i": "INT64", "u": "INT64", "f": "FP64", "b": "BOOL"}.get(self.classes.dtype.kind, "BYTES")
        found = {"label": TensorSpec("label", kind, [-1], ["label"])}
        if isinstance(self.model, _ServedProbabilities):
            columns = [str(label) for label in self.classes.tolist()]
            found["probability"] = TensorSpec("probability", "FP64", [-1, len(columns)], columns)
        return found

    def _labels(self, targets: RequestRows) -> npt.NDArray[Any]:
        known = {str(label): k for k, label in enumerate(self.classes.tolist())}
        codes = []
        for cell in targets.labels():
            code = known.get(str(cell), known.get(str(int(cell)) if isinstance(cell, float) and cell % 1 == 0 else ""))
            if code is None:
                allowed = ", ".join(list(known)[:20])
                raise RequestRefused(400, f"targets hold the label {str(cell)[:40]!r}, which is none of {allowed}")
            codes.append(code)
        return np.array(codes, dtype=np.intp)

    def targets(self, targets: RequestRows) -> Array:
        return self._labels(targets)[:, None].astype(np.float64)

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        X = self._X(rows)
        found: Outputs = {"label": np.asarray(self.model.predict(X))}
        if "probability" in wanted:
            found["probability"] = np.asarray(self.model.predict_proba(X), dtype=np.float64)
        return found

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[Contender, Outcome]:
        X, codes = self._X(rows), self._labels(targets)
        model, labels = self._predict_then_learn(X, self.classes[codes])
        # A row that the model skipped has no answer.
        answered = np.array([label is not None for label in labels.tolist()], dtype=bool)
        F = np.full((len(labels), 1), np.nan)
        # Classes of a stream are in the order in which they appeared.
        code = {label: k for k, label in enumerate(self.classes.tolist())}
        F[answered, 0] = [code[label] for label in labels[answered].astype(self.classes.dtype).tolist()]
        return replace(self, model=model), Outcome(F, np.full(F.shape, np.nan), codes[:, None].astype(np.float64))


@cache
def _learns(estimator: Any) -> bool:
    """Whether an estimator of that class learns from a stream, each call wholly or not at all."""
    return issubclass(estimator, Transactional) and issubclass(estimator, OnlineLearner)


@cache
def _takes_std(estimator: Any) -> bool:
    """Whether an estimator of that class tells standard deviations."""
    # AutoStream knows the word only to say what to use instead.
    return "return_std" in signature(estimator.predict).parameters and not issubclass(estimator, AutoStream)


def _matrix_spec(model: Any) -> TensorSpec:
    p = int(model.n_features_in_)
    names = getattr(model, "feature_names_in_", None)
    columns = [f"x{j}" for j in range(p)] if names is None else [str(name) for name in names]
    return TensorSpec("X", "FP64", [-1, p], columns)


def _unknown_names(names: Sequence[str], known: Sequence[str]) -> str:
    """That a model without names of its own cannot tell which column is which, in words."""
    return (
        f"this model was fitted without column names: send each row as a list of {len(known)} numbers, in the order in "
        f"which it was fitted, or name them {listed(known)}; the request has {listed(map(repr, names))}"
    )


def _as_shape(values: Any, shape: tuple[int, ...]) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(shape)
