"""Learners in service: what a request asks of a session, a stream learner, a classifier or a batch estimator.

A contender is never changed: `learned` gives another one, which has learned the rows. Whoever holds the old one can go
on predicting with it, and a call that fails leaves it as it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, singledispatch
from inspect import signature
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier

from ovk.app.serve.access import RequestRefused
from ovk.app.serve.rows import RequestRows, rows_differ
from ovk.app.serve.scores import Outcome
from ovk.app.sessions import LearnedTable, Session
from ovk.app.tables import Batch, Number, Preparation, Prepared
from ovk.base import Array, State, Transactional, quoted
from ovk.evaluation import LEVEL, OnlineLearner, RollingConformal
from ovk.online import AutoStream

Outputs = dict[str, npt.NDArray[Any]]


class TensorSpec(NamedTuple):
    """A tensor that a model takes or gives: its name, datatype of the protocol, shape with -1 for the rows, columns."""

    name: str
    datatype: str
    shape: list[int]
    columns: list[str]


@dataclass
class ServedModel(State, ABC):
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
    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
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


# Estimators in service: numbers or labels out of rows of numbers.


@runtime_checkable
class _ServedProbabilities(Protocol):
    def predict_proba(self, X: Any, /) -> Any: ...


@dataclass
class EstimatorContender(ServedModel):
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
        model = self.model._snapshot()
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

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
        X, Y = self._X(rows), self.targets(targets)
        model, F = self._predict_then_learn(X, Y[:, 0] if getattr(self.model, "single_output_", False) else Y)
        F = _as_shape(F, Y.shape)
        # Not those of `regions_then_learn`, which are brought up to date now and then: these are what is served.
        half = np.broadcast_to(self.intervals.half_widths(LEVEL, len(self.names)), Y.shape)
        intervals = self.intervals._snapshot()
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

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
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
        f"which it was fitted, or name them {quoted(known)}; the request has {quoted(names)}"
    )


def _as_shape(values: Any, shape: tuple[int, ...]) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(shape)


# Sessions and fitted tables in service: numbers or classes out of columns with names.


@dataclass
class TableContender(ServedModel, kind="table"):
    """A session or a fitted table: columns with names, lags and scaling of its own."""

    model: Any  # Session | TableModel

    @property
    def outputs(self) -> list[str]:
        return list(self.model.settings.targets)

    @property
    def learns(self) -> bool:  # type: ignore[override]
        return isinstance(self.model, Session)

    @property
    def window(self) -> int:
        return int(self.model.recent.size) if self.learns else 0

    def sources(self) -> list[str]:
        """Names of the columns that it reads."""
        columns = self.model.preparation.columns_
        return list(dict.fromkeys(source for column in columns for source in column.sources()))

    def inputs(self) -> list[TensorSpec]:
        numbers = {column.name for column in self.model.preparation.columns_ if isinstance(column, Number)}
        return [TensorSpec(name, "FP64" if name in numbers else "BYTES", [-1], [name]) for name in self.sources()]

    def targets(self, targets: RequestRows) -> Array:
        return targets.numbers(self.outputs, len(self.outputs), "targets")

    def _outcomes(self, targets: RequestRows) -> list[Any]:
        """The columns of the targets as a session reads them."""
        return list(self.targets(targets).T)

    def _batch(self, rows: RequestRows, targets: RequestRows | None) -> tuple[list[str], Batch]:
        """Rows as a session knows them, and the names of their columns."""
        sources = self.sources()
        named = rows.with_names(sources, "inputs")
        for name in sources:
            named.column(name)
        names = list(named.names or ())
        columns: list[Any] = list(named.columns)
        if targets is not None:
            if len(targets) != len(rows):
                raise RequestRefused(400, rows_differ(rows, targets))
            # What stands in the inputs under the name of a target is not for the model to see.
            pairs = [(n, c) for n, c in zip(names, columns, strict=True) if n not in self.outputs]
            names, columns = [n for n, _ in pairs] + self.outputs, [c for _, c in pairs] + self._outcomes(targets)
        return names, Batch(columns, list(range(1, len(rows) + 1)), [])

    def _prepared(self, rows: RequestRows, targets: RequestRows | None) -> Prepared:
        """Inputs and outputs of the rows; the session stays as it is."""
        names, batch = self._batch(rows, targets)
        preparation: Preparation = self.model.preparation.fork()
        try:
            prepared = preparation.bind(names, "the request", predict=targets is None).prepare(batch)
        except (ValueError, TypeError, KeyError) as error:
            raise RequestRefused(400, str(error)) from error
        if prepared.bad:
            raise RequestRefused(400, self._fault(names, batch))
        return prepared

    def _fault(self, names: list[str], batch: Batch) -> str:
        """Which cell of a batch cannot be read, and what it should be."""
        for column in self.model.preparation.columns_:
            cells = [batch.columns[names.index(source)] for source in column.sources()]
            for i in np.flatnonzero(column.encode(cells).bad)[:1].tolist():
                found, where = " ".join(str(part[i]) for part in cells)[:40], " and ".join(map(repr, column.sources()))
                kind = "number" if isinstance(column, Number) else "time"
                return f"{found!r} in row {batch.rows[i]}, column {where}, is not a {kind}"
        return "targets of the request cannot be read"

    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        self._prepared(rows, targets)

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        prepared, model = self._prepared(rows, None), self.model
        F = model.predictor().outputs(prepared.chunk.X) if prepared.rows else np.empty(prepared.chunk.Y.shape)
        if not wanted & {"lower", "upper"}:
            return {"mean": F}
        half = model.recent.widths(level)
        return {"mean": F, "lower": F - half, "upper": F + half}

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
        names, batch = self._batch(rows, targets)
        model: Any = self.model
        found: Any
        if isinstance(model, Session):
            model = model._snapshot()
            model.preparation = model.preparation.fork().bind(names, "the request")
            found = model.predict_then_learn(batch)
        else:
            found = model.predictor().bind(names, "the request").predict(batch)
        if len(found.rows) != len(batch.rows):
            raise ValueError("rows of the request cannot be read")
        return replace(self, model=model), Outcome(*self._predicted(found), self.targets(targets))

    def _predicted(self, found: Any) -> tuple[Array, Array]:
        """(n, d) predictions of a session, and half widths of the intervals that were served before."""
        return found.F, np.broadcast_to(self.model.recent.widths(LEVEL), found.F.shape)


@dataclass
class ClassTableContender(TableContender, kind="class table"):
    """A session or a fitted table whose target holds classes."""

    labels = True

    @property
    def window(self) -> int:
        return 0

    def gives(self) -> dict[str, TensorSpec]:
        columns = list(self.model.preparation.classes())
        return {
            "label": TensorSpec("label", "BYTES", [-1], ["label"]),
            "probability": TensorSpec("probability", "FP64", [-1, len(columns)], columns),
        }

    def targets(self, targets: RequestRows) -> Array:
        (label,) = self.model.preparation.fork().outputs_
        codes: Array = label.encode([targets.labels()]).values
        return codes

    def _outcomes(self, targets: RequestRows) -> list[Any]:
        return [targets.labels()]

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        prepared, labels = self._prepared(rows, None), np.array(self.model.preparation.classes(), dtype=object)
        P = self.model.predictor().outputs(prepared.chunk.X) if prepared.rows else np.empty((0, len(labels)))
        return {"label": labels[P.argmax(axis=1)], "probability": P}

    def _predicted(self, found: Any) -> tuple[Array, Array]:
        F = np.asarray(found.codes, dtype=np.float64)[:, None]
        return F, np.full(F.shape, np.nan)


# Which contender serves a model.


@singledispatch
def as_contender(model: Any, name: str) -> ServedModel:
    """A model that was loaded, ready to serve under that name."""
    if not callable(getattr(model, "predict", None)):
        raise ValueError(
            f"{name} holds a {type(model).__name__}, which does not predict: give an estimator or a session"
        )
    if is_classifier(model):
        if not hasattr(model, "classes_"):
            raise ValueError(f"{name} holds a {type(model).__name__} that was not fitted yet: fit it first")
        return ClassifierContender(name, model)
    p = getattr(model, "n_features_in_", None)
    if p is None:
        raise ValueError(f"{name} holds a {type(model).__name__} that was not fitted to rows of numbers: fit it first")
    # How many outputs there are nobody knows better than a prediction.
    F = np.asarray(model.predict(np.zeros((1, p))))
    if F.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} holds a {type(model).__name__}, whose predictions are no numbers: it cannot be served"
        )
    d = F.reshape(1, -1).shape[1]
    return RegressorContender(name, model, names=["y"] if d == 1 else [f"y{q}" for q in range(d)])


@as_contender.register(LearnedTable)
def _(model: LearnedTable, name: str) -> ServedModel:
    return (ClassTableContender if model.settings.classify else TableContender)(name, model)
