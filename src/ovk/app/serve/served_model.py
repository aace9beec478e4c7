"""Estimators, sessions and table models behind one interface for requests, and their rolling scores.

A served model is immutable: `learned` returns a new one. Predictions can use the old one meanwhile, and a failed call
changes nothing.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import signature
from math import floor
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.base import is_classifier

from ovk.app.serve.access import RequestError
from ovk.app.serve.protocol import RequestRows, TensorSpec
from ovk.app.sessions import LearnedTable, Session
from ovk.app.tables import Batch, Prepared
from ovk.base import Array, Number, State, Transactional, quoted
from ovk.evaluation import CLASSIFICATION, DEFAULT_LEVEL, REGRESSION, OnlineLearner, RollingConformal, Task, rows_needed
from ovk.online import AutoStream

Outputs = dict[str, npt.NDArray[Any]]

#: Number of recent errors from which the intervals of an estimator are computed.
INTERVAL_ROWS = 2000


class Outcome(NamedTuple):
    """Predictions for rows before they were learned, and their outcomes, each (n, d); (n, 1) codes for labels."""

    F: Array  # nan where a row was skipped
    half: Array  # half widths of the 90% intervals, infinite or nan where there were none
    Y: Array  # nan where unknown


@dataclass
class ServedModel(State, ABC):
    """An estimator, session or table model under a name."""

    name: str
    model: Any
    task: Task[Any]
    outputs: list[str]
    learns: bool
    #: Number of recent errors kept for intervals, which limits their level; 0 for no limit.
    window: int = 0
    #: Number of requests that it could not learn.
    failures: int = 0

    _state_classes = {"task": Task}

    #: Whether intervals use only errors from the service; other models also have errors from training.
    intervals_of_service = False

    @property
    @abstractmethod
    def classes(self) -> npt.NDArray[Any]:
        """(K,) class labels, none for regression."""

    @abstractmethod
    def input_specs(self) -> list[TensorSpec]: ...

    @abstractmethod
    def targets(self, targets: RequestRows) -> Array:
        """(n, d) outcomes as numbers or codes of labels, nan where unknown."""

    @abstractmethod
    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        """Reject rows that cannot be predicted, or learned with these targets."""

    @abstractmethod
    def half_widths(self, level: float) -> Array:
        """(d,) half widths of intervals, infinite where too few errors are known."""

    @abstractmethod
    def _learned(self, rows: RequestRows, targets: RequestRows, Y: Array) -> tuple[ServedModel, Array]:
        """A model that has learned the rows, and the predictions (n, d) of this one for them."""

    @abstractmethod
    def _predict(self, rows: RequestRows, wanted: frozenset[str]) -> Outputs:
        """The mean and, if wanted, its standard deviation; or the labels and, if wanted, their probabilities."""

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
        """A model that has learned the rows, and the predictions of this one for them."""
        Y = self.targets(targets)
        new, F = self._learned(rows, targets, Y)
        # The intervals as served; `regions_then_learn` updates its quantiles less often.
        half = self.half_widths(DEFAULT_LEVEL) if self.task.numeric else np.nan
        return new, Outcome(F, np.broadcast_to(half, Y.shape), Y)

    def _extra_output(self) -> str:
        """The optional output besides the mean or the labels, or ""."""
        return "" if self.task.numeric else "probability"

    def output_specs(self) -> dict[str, TensorSpec]:
        """The outputs that a request can name, the default one first."""
        extra = [self._extra_output()] if self._extra_output() else []
        if self.task.numeric:
            d, columns = len(self.outputs), self.outputs
            return {name: TensorSpec(name, "FP64", [-1, d], columns) for name in ["mean", *extra, "lower", "upper"]}
        kind = {"i": "INT64", "u": "INT64", "f": "FP64", "b": "BOOL"}.get(self.classes.dtype.kind, "BYTES")
        columns = [str(label) for label in self.classes.tolist()]
        probabilities = {name: TensorSpec(name, "FP64", [-1, len(columns)], columns) for name in extra}
        return {"label": TensorSpec("label", kind, [-1], ["label"]), **probabilities}

    def predict(self, rows: RequestRows, wanted: frozenset[str], level: float) -> Outputs:
        found = self._predict(rows, wanted)
        if self.task.numeric and wanted & {"lower", "upper"}:
            half = self.half_widths(level)
            found |= {"lower": found["mean"] - half, "upper": found["mean"] + half}
        return found

    def columns(self, rows: RequestRows, level: Any = None, *, learning: bool = True) -> tuple[Outputs, str]:
        """Predictions by output name, with a level also interval bounds; and why bounds are missing."""
        asked = DEFAULT_LEVEL if level is None else self.checked_level(level)
        wanted = frozenset() if level is None else frozenset({"lower", "upper"})
        found = self.predict(rows, wanted, asked)
        if not self.task.numeric:
            return found, ""
        ends = {"mean": "", "lower": " lower", "upper": " upper"}
        named = {
            f"{name}{ends[kind]}": found[kind][:, q]
            for kind in ends
            if kind in found
            for q, name in enumerate(self.outputs)
        }
        return named, self.missing_bounds(found, asked, learning=learning)

    def records(self, rows: RequestRows, level: Any = None, *, learning: bool = True) -> tuple[list[Any], str]:
        """A record for each row, or a value if there is one output; and why bounds are missing."""
        values, note = self.columns(rows, level, learning=learning)
        found = {name: column.tolist() for name, column in values.items()}
        if len(found) == 1:
            return list(*found.values()), note
        return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)], note

    def checked_level(self, level: Any) -> float:
        """The level of intervals, if the model keeps enough errors for it."""
        if type(level) not in (int, float) or not 1e-6 <= level <= 1 - 1e-6:
            got = f"the string {level[:40]!r}: write it without quotes" if isinstance(level, str) else json.dumps(level)
            raise RequestError(400, f"level must be a number between 0 and 1, got {got[:80]}")
        if self.window and rows_needed(level) > self.window:
            highest = floor(1e4 * self.window / (self.window + 1)) / 1e4
            raise RequestError(
                400,
                f"intervals of level {level} require the errors of {rows_needed(level):,} rows, and only the last "
                f"{self.window:,} are kept: the highest level is {highest}",
            )
        return float(level)

    def missing_bounds(self, found: Outputs, level: float, *, learning: bool) -> str:
        """Why interval bounds are missing, or "". `learning` is whether the service learns."""
        ends = [found[end] for end in ("lower", "upper") if end in found]
        if not any((np.isinf(end) & np.isfinite(found["mean"])).any() for end in ends):
            return ""
        if self.intervals_of_service and not learning:
            return (
                "this model has no intervals here: they are computed from rows learned in service, and this service "
                "does not learn"
            )
        return (
            f"interval bounds are null where an output has too few known outcomes: level {level} requires "
            f"{rows_needed(level):,}"
        )


def _check_lengths(rows: RequestRows, targets: RequestRows) -> None:
    if len(rows) != len(targets):
        (n, one), (m, other) = ((len(part), "" if len(part) == 1 else "s") for part in (rows, targets))
        raise RequestError(400, f"the request has {n} row{one} but {m} target{other}: send one target for each row")


def array_bytes(value: Any, seen: set[int]) -> int:
    """Bytes of all arrays that are reachable from an object."""
    if id(value) in seen:
        return 0
    seen.add(id(value))
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    items: Any = ()
    if isinstance(value, Mapping):
        items = value.values()
    elif isinstance(value, (list, tuple)):
        items = value if len(value) < 10_000 else ()
    elif type(value).__module__.startswith("ovk"):
        items = getattr(value, "__dict__", {}).values()
    return sum(array_bytes(item, seen) for item in items)


@dataclass
class ServedEstimator(ServedModel, kind="estimator"):
    """An estimator, which takes rows of numbers and learns if it is an online learner."""

    intervals: RollingConformal = field(default_factory=lambda: RollingConformal(DEFAULT_LEVEL, window=INTERVAL_ROWS))

    intervals_of_service = True

    @property
    def classes(self) -> npt.NDArray[Any]:
        return np.asarray([] if self.task.numeric else self.model.classes_)

    def input_specs(self) -> list[TensorSpec]:
        p = int(self.model.n_features_in_)
        names = getattr(self.model, "feature_names_in_", None)
        columns = [f"x{j}" for j in range(p)] if names is None else [str(name) for name in names]
        return [TensorSpec("X", "FP64", [-1, p], columns)]

    def _extra_output(self) -> str:
        if not self.task.numeric:
            return "probability" if hasattr(self.model, "predict_proba") else ""
        return "std" if _takes_std(type(self.model)) else ""  # type: ignore[arg-type]

    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        self._X(rows)
        if targets is not None:
            self.targets(targets)
            _check_lengths(rows, targets)

    def _X(self, rows: RequestRows) -> Array:
        """(n, p) inputs without missing values."""
        known, p = None, int(self.model.n_features_in_)
        if rows.names is not None:
            [spec] = self.input_specs()
            # A matrix with one column arrives as a column with the name of the tensor.
            known = None if p == 1 and rows.names == (spec.name,) else spec.columns
            if known and not hasattr(self.model, "feature_names_in_") and not set(known) <= set(rows.names):
                raise RequestError(
                    400,
                    f"this model was fitted without column names: send each row as a list of {p} numbers, in the order "
                    f"of fitting, or name them {quoted(known)}; the request has {quoted(rows.names)}",
                )
        X = rows.numbers(known, p, "inputs")
        if np.isnan(X).any():
            raise RequestError(400, "inputs contain missing values, which this model does not support")
        return X

    def targets(self, targets: RequestRows) -> Array:
        if self.task.numeric:
            return targets.numbers(self.outputs, len(self.outputs), "targets")
        known = {str(label): k for k, label in enumerate(self.classes.tolist())}
        codes = []
        for cell in targets.labels():
            code = known.get(str(cell), known.get(str(int(cell)) if isinstance(cell, float) and cell % 1 == 0 else ""))
            if code is None:
                allowed = ", ".join(list(known)[:20])
                raise RequestError(400, f"unknown label {str(cell)[:40]!r} in targets; labels are {allowed}")
            codes.append(code)
        return np.array(codes, dtype=np.float64)[:, None]

    def half_widths(self, level: float) -> Array:
        return self.intervals.half_widths(level, len(self.outputs))

    def _predict(self, rows: RequestRows, wanted: frozenset[str]) -> Outputs:
        X = self._X(rows)
        if not self.task.numeric:
            found: Outputs = {"label": np.asarray(self.model.predict(X))}
            if "probability" in wanted:
                found["probability"] = np.asarray(self.model.predict_proba(X), dtype=np.float64)
            return found
        shape = (len(X), len(self.outputs))
        if "std" in wanted:
            mean, std = self.model.predict(X, return_std=True)
            return {"mean": _as_shape(mean, shape), "std": _as_shape(std, shape)}
        return {"mean": _as_shape(self.model.predict(X), shape)}

    def _learned(self, rows: RequestRows, targets: RequestRows, Y: Array) -> tuple[ServedModel, Array]:
        X = self._X(rows)
        y = Y[:, 0] if getattr(self.model, "single_output_", False) else Y
        if not self.task.numeric:
            y = self.classes[Y[:, 0].astype(np.intp)]
        model = self.model._snapshot() if self.learns else self.model
        found = model.predict_then_learn(X, y) if self.learns else model.predict(X)
        if not self.task.numeric:
            # A row that the model skipped has no answer. Classes of a stream are in the order in which they appeared.
            answered = np.array([label is not None for label in found.tolist()], dtype=bool)
            code = {label: k for k, label in enumerate(self.classes.tolist())}
            F = np.full(Y.shape, np.nan)
            F[answered, 0] = [code[label] for label in found[answered].astype(self.classes.dtype).tolist()]
            return replace(self, model=model), F
        F = _as_shape(found, Y.shape)
        intervals = self.intervals._snapshot()
        intervals.regions_then_learn(F, Y)
        return replace(self, model=model, intervals=intervals), F


@cache
def _takes_std(estimator: Any) -> bool:
    # AutoStream accepts the argument only to name the alternative in an error.
    return "return_std" in signature(estimator.predict).parameters and not issubclass(estimator, AutoStream)


def _as_shape(values: Any, shape: tuple[int, ...]) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(shape)


@dataclass
class ServedTable(ServedModel, kind="table"):
    """A session or table model, which takes named columns."""

    @property
    def classes(self) -> npt.NDArray[Any]:
        return np.array([] if self.task.numeric else self.model.preparation.classes(), dtype=object)

    def _sources(self) -> list[str]:
        columns = self.model.preparation.columns_
        return list(dict.fromkeys(source for column in columns for source in column.sources()))

    def input_specs(self) -> list[TensorSpec]:
        numbers = {column.name for column in self.model.preparation.columns_ if isinstance(column, Number)}
        return [TensorSpec(name, "FP64" if name in numbers else "BYTES", [-1], [name]) for name in self._sources()]

    def targets(self, targets: RequestRows) -> Array:
        if self.task.numeric:
            return targets.numbers(self.outputs, len(self.outputs), "targets")
        (label,) = self.model.preparation.fork().outputs_
        return np.asarray(label.encode([targets.labels()]).values)

    def _batch(self, rows: RequestRows, targets: RequestRows | None) -> tuple[list[str], Batch]:
        """The column names, and the rows as a session reads them."""
        sources = self._sources()
        named = rows.with_names(sources)
        for name in sources:
            named.column(name)
        columns: dict[str, Any] = dict(zip(named.names or (), named.columns, strict=True))
        if targets is not None:
            _check_lengths(rows, targets)
            outcomes = list(self.targets(targets).T) if self.task.numeric else [targets.labels()]
            # An input with the name of a target must not reach the model.
            columns |= dict(zip(self.outputs, outcomes, strict=True))
        return list(columns), Batch(list(columns.values()), list(range(1, len(rows) + 1)), [])

    def _prepared(self, rows: RequestRows, targets: RequestRows | None) -> Prepared:
        names, batch = self._batch(rows, targets)
        try:
            preparation = self.model.preparation.fork().bind(names, "the request", predict=targets is None)
            prepared: Prepared = preparation.prepare(batch)
        except (ValueError, TypeError, KeyError) as error:
            raise RequestError(400, str(error)) from error
        for row, fault in prepared.bad:
            raise RequestError(400, f"row {row}: {fault.rpartition(' (')[0]}")
        return prepared

    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        self._prepared(rows, targets)

    def half_widths(self, level: float) -> Array:
        return np.asarray(self.model.recent.widths(level))

    def _predict(self, rows: RequestRows, wanted: frozenset[str]) -> Outputs:
        X = self._prepared(rows, None).chunk.X
        width = len(self.outputs) if self.task.numeric else len(self.classes)
        F: Array = self.model.predictor().outputs(X) if len(X) else np.empty((0, width))
        if self.task.numeric:
            return {"mean": F}
        return {"label": self.classes[F.argmax(axis=1)], "probability": F}

    def _learned(self, rows: RequestRows, targets: RequestRows, Y: Array) -> tuple[ServedModel, Array]:
        names, batch = self._batch(rows, targets)
        model: Any = self.model
        if self.learns:
            model = model._snapshot()
            model.preparation = model.preparation.fork().bind(names, "the request")
            found = model.predict_then_learn(batch)
        else:
            found = model.predictor().bind(names, "the request").predict(batch)
        if len(found.rows) != len(batch.rows):
            raise ValueError("rows of the request cannot be read")
        F = found.F if self.task.numeric else np.asarray(found.codes, dtype=np.float64)[:, None]
        return replace(self, model=model), F


def as_served(model: Any, name: str) -> ServedModel:
    if isinstance(model, LearnedTable):
        task, learns = CLASSIFICATION if model.settings.classify else REGRESSION, isinstance(model, Session)
        window = int(model.recent.size) if task.numeric and learns else 0
        return ServedTable(name, model, task, list(model.settings.targets), learns, window)
    kind = type(model).__name__
    if not callable(getattr(model, "predict", None)):
        raise ValueError(f"{name} contains a {kind}, which does not predict: serve an estimator or a session")
    p, classify = getattr(model, "n_features_in_", None), is_classifier(model)
    if p is None or (classify and not hasattr(model, "classes_")):
        raise ValueError(f"{name} contains a {kind} that is not fitted to rows of numbers: fit it first")
    # Learning in service must be atomic.
    learns = isinstance(model, Transactional) and isinstance(model, OnlineLearner)
    if classify:
        return ServedEstimator(name, model, CLASSIFICATION, ["label"], learns)
    # A prediction shows the number of outputs.
    F = np.asarray(model.predict(np.zeros((1, p))))
    if F.dtype.kind not in "fiub":
        raise ValueError(f"{name} contains a {kind}, whose predictions are not numbers: it cannot be served")
    outputs = ["y"] if F.size == 1 else [f"y{q}" for q in range(F.size)]
    return ServedEstimator(name, model, REGRESSION, outputs, learns, INTERVAL_ROWS)


#: Rows over which errors are averaged.
SCORED_ROWS = 1000

#: Rows whose prediction and outcome are shown.
SHOWN_ROWS = 30

#: Maximum points of the error curve: then every other one is dropped and the distance between points doubles.
MAX_POINTS = 240

#: Rows before there are warnings, and outcomes before there is a warning about coverage.
MIN_WARNING_ROWS = 200

#: Range of the coverage of 90% intervals without a warning; with 200 outcomes, chance alone does not leave it.
MIN_COVERAGE, MAX_COVERAGE = 0.8, 0.97

#: Initial number of rows, and least number of requests, between two points of the curve.
CURVE_STEP, REQUESTS_PER_POINT = 20, 4


@dataclass
class RollingScores(State):
    """Recent predictions and outcomes, and an error curve, for each learner and baseline; labels are codes."""

    outputs: list[str]
    task: Task[Any]
    names: list[str]  # the learners, then the baselines
    baselines: list[Any]
    #: (m, names + 3, d) by row: prediction under each name; prediction, half width and outcome of the active model.
    recent: Array
    fresh: Array  # (k, learners + 3, d) rows that the baselines have not seen yet
    curve: Array  # (points, names, d) recent errors at each point
    reached: list[int] = field(default_factory=list)  # number of rows at each point of the curve
    step: int = CURVE_STEP  # rows between two points
    rows: int = 0  # rows and labels that the baselines have seen
    n_classes: int = 0

    _state_classes = {"task": Task}

    @classmethod
    def start(cls, learners: Sequence[str], outputs: Sequence[str], task: Task[Any]) -> RollingScores:
        baselines = [task.baseline(name) for name in task.default_baselines]
        names = [*learners, *(baseline.name for baseline in baselines)]
        recent, fresh, curve = (np.empty((0, k, len(outputs))) for k in (len(names) + 3, len(learners) + 3, len(names)))
        return cls(list(outputs), task, names, baselines, recent, fresh, curve)

    def updated(self, outcomes: Sequence[Outcome | None], active: int) -> RollingScores:
        """The scores after further rows; the outcome of a learner is None if it could not learn them.

        The active model must have learned them. Rows are collected until the next point of the curve is due, so that
        most requests compute no errors.
        """
        best = outcomes[active]
        assert best is not None
        unknown = np.full(best.Y.shape, np.nan)
        predicted = [unknown if outcome is None else outcome.F for outcome in outcomes]
        fresh = np.concatenate([self.fresh, np.stack([*predicted, *best], axis=1)])
        new, due = self._replace(fresh=fresh), max(self.step, REQUESTS_PER_POINT * len(best.Y))
        return new if len(fresh) < min(due, SCORED_ROWS) else new.up_to_date()

    def up_to_date(self) -> RollingScores:
        """The scores including the collected rows."""
        if not len(self.fresh):
            return self
        new, Y = self._snapshot(), self.fresh[:, -1]
        if not self.task.numeric:
            new.n_classes = max(self.n_classes, 1, *(1 + Y[np.isfinite(Y)].astype(int)))
        Z = self.task.outputs(Y, range(new.n_classes))
        found = [self.task.compact(baseline.predict_then_learn(Z, Z)).reshape(Y.shape) for baseline in new.baselines]
        rows = np.concatenate([self.fresh[:, :-3], np.stack(found, axis=1), self.fresh[:, -3:]], axis=1)
        new.recent = np.concatenate([self.recent, rows])[-SCORED_ROWS:]
        new.rows, new.fresh = self.rows + len(Y), self.fresh[:0]
        if new.rows >= (self.reached[-1] if self.reached else 0) + self.step:
            new.curve = np.concatenate([self.curve, np.stack([*new.errors().values()])[None]])
            new.reached = [*self.reached, new.rows]
            if len(new.curve) >= MAX_POINTS:
                new.curve, new.reached, new.step = new.curve[1::2], new.reached[1::2], 2 * self.step
        return new

    def errors(self, last: int = SCORED_ROWS) -> dict[str, Array]:
        """(d,) RMSE, or error rate, of the last rows, by name."""
        # With rows as the last axis, NumPy's inner loops run over them: three times as fast.
        recent = np.ascontiguousarray(self.recent[-last:].T)
        F, Y = recent[:, :-3], recent[:, -1:]
        with np.errstate(over="ignore", invalid="ignore"):
            losses = (F - Y) ** 2 if self.task.numeric else np.where(np.isfinite(Y), F != Y, np.nan)
            mean = _mean(losses).T
        return dict(zip(self.names, np.sqrt(mean) if self.task.numeric else mean, strict=True))

    def _covered(self) -> Array:
        """(d, m) whether the interval of the active model contains the outcome, nan where unknown."""
        F, half, Y = self.recent[:, -3:].T.swapaxes(0, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isfinite(Y) & np.isfinite(half), np.abs(Y - F) <= half, np.nan)

    def coverage(self) -> Array:
        """(d,) share of recent outcomes in the 90% intervals."""
        return _mean(self._covered())

    def warnings(self, active: str) -> list[str]:
        """Sentences about rising errors, better baselines and intervals with wrong coverage."""
        found: list[str] = []
        if len(self.recent) < MIN_WARNING_ROWS:
            return found
        errors = self.errors()
        before, now = errors[active], self.errors(len(self.recent) // 5)[active]
        for q, output in enumerate(self.outputs):
            if now[q] > 1.5 * before[q]:
                found.append(f"{output}: the recent error is {now[q] / before[q]:.1f} times the usual error")
            better = [one.name for one in self.baselines if errors[one.name][q] < before[q]]
            if better:
                found.append(f"{output}: the baseline {better[0]!r} has a lower error than the model")
        known = np.isfinite(self._covered()).sum(axis=-1)
        for q, share in enumerate(self.coverage()):
            if known[q] < MIN_WARNING_ROWS or MIN_COVERAGE <= share <= MAX_COVERAGE:
                continue
            fault = "too narrow" if share < MIN_COVERAGE else "too wide"
            found.append(f"{self.outputs[q]}: 90% intervals contain {share:.1%} of the outcomes and are {fault}")
        return found


def _mean(values: Array) -> Array:
    """Mean of the finite values over the last axis, nan where there are none."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    return np.asarray(np.where(known, values, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan))
