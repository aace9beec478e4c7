"""Models in service: what a request asks of an estimator, or of a session or fitted table; and how well they do.

A served model never changes: `learned` gives another one, which has learned the rows. Whoever holds the old one can go
on predicting with it, and a call that fails leaves it as it was.
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

from ovk.app.serve.access import RequestRefused
from ovk.app.serve.protocol import RequestRows, TensorSpec, plain_list
from ovk.app.sessions import LearnedTable, Session
from ovk.app.tables import Batch, Prepared
from ovk.base import Array, Number, State, Transactional, quoted
from ovk.evaluation import CLASSIFICATION, DEFAULT_LEVEL, REGRESSION, OnlineLearner, RollingConformal, Task, rows_needed
from ovk.online import AutoStream

Outputs = dict[str, npt.NDArray[Any]]

#: Rows from whose errors the intervals of an estimator are made.
INTERVAL_ROWS = 2000


class Outcome(NamedTuple):
    """Rows with their outcomes, and what a model had predicted for them.

    Attributes
    ----------
    F : (n, d) predictions; (n, 1) codes of labels, nan where a row was skipped
    half : (n, d) half widths of the intervals of level 0.9 that were served before the rows were learned, infinite or
        nan where there were none
    Y : (n, d) outcomes, nan where unknown
    """

    F: Array
    half: Array
    Y: Array


@dataclass
class ServedModel(State, ABC):
    """An estimator, session or fitted table under a name."""

    name: str
    model: Any
    task: Task[Any]
    outputs: list[str]
    learns: bool
    #: Of how many last rows the errors are kept, from which intervals are made; 0 where that sets no limit.
    window: int = 0
    #: Requests that it could not learn.
    failures: int = 0

    _state_classes = {"task": Task}

    #: Whether its intervals begin with the first rows that are learned in service; others bring errors along.
    intervals_of_service = False

    @property
    @abstractmethod
    def classes(self) -> npt.NDArray[Any]:
        """(K,) the labels there are, none for numbers."""

    @abstractmethod
    def inputs(self) -> list[TensorSpec]: ...

    @abstractmethod
    def targets(self, targets: RequestRows) -> Array:
        """(n, d) outcomes as numbers, nan where unknown; of labels their codes."""

    @abstractmethod
    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        """Refuse rows that cannot be predicted, or learned with these targets."""

    @abstractmethod
    def half_widths(self, level: float) -> Array:
        """(d,) half widths of intervals, infinite where too few errors are known."""

    @abstractmethod
    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
        """A model that has learned the rows, and what this one predicted for them."""

    @abstractmethod
    def _predict(self, rows: RequestRows, wanted: frozenset[str]) -> Outputs:
        """The mean and, if wanted, its standard deviation; or the labels and, if wanted, their probabilities."""

    def _extra_output(self) -> str:
        """What it can tell besides the mean or the labels, "" for nothing."""
        return "" if self.task.numeric else "probability"

    def gives(self) -> dict[str, TensorSpec]:
        """The outputs that can be asked for, the one given by default first."""
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
        """Predictions by the names of outputs, with a level also the ends of intervals; and why ends are missing."""
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
        """A record for each row, or a number or label where there is one output; and why ends are missing."""
        values, note = self.columns(rows, level, learning=learning)
        found = {name: plain_list(column) for name, column in values.items()}
        if len(found) == 1:
            return list(*found.values()), note
        return [dict(zip(found, row, strict=True)) for row in zip(*found.values(), strict=True)], note

    def checked_level(self, level: Any) -> float:
        """How often an interval should hold the outcome, if the rows that the model keeps are enough for it."""
        if type(level) not in (int, float) or not 1e-6 <= level <= 1 - 1e-6:
            got = f"the text {level[:40]!r}: write it without quotes" if isinstance(level, str) else json.dumps(level)
            raise RequestRefused(400, f"level must be a number between 0 and 1, got {got[:80]}")
        if self.window and rows_needed(level) > self.window:
            highest = floor(1e4 * self.window / (self.window + 1)) / 1e4
            raise RequestRefused(
                400,
                f"intervals of level {level} need the errors of {rows_needed(level):,} rows, and only the last "
                f"{self.window:,} are kept: the highest level is {highest}",
            )
        return float(level)

    def missing_bounds(self, found: Outputs, level: float, *, learning: bool) -> str:
        """Why intervals have no ends, in one sentence; empty if they have. `learning` is whether rows are learned."""
        ends = [found[end] for end in ("lower", "upper") if end in found]
        if not any((np.isinf(end) & np.isfinite(found["mean"])).any() for end in ends):
            return ""
        if self.intervals_of_service and not learning:
            return (
                "this model has no intervals here: they are made from the errors of rows that are learned in service, "
                "and this service learns none"
            )
        return (
            f"ends of intervals are null where an output has too few known outcomes: level {level} needs "
            f"{rows_needed(level):,} of them"
        )

    def size(self) -> int:
        return _array_bytes(self.model, set())


def _check_lengths(rows: RequestRows, targets: RequestRows) -> None:
    if len(rows) != len(targets):
        (n, one), (m, other) = ((len(part), "" if len(part) == 1 else "s") for part in (rows, targets))
        raise RequestRefused(400, f"the request has {n} row{one} but {m} target{other}: each row needs its own")


def _array_bytes(value: Any, seen: set[int]) -> int:
    """Bytes of all arrays that an object leads to."""
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
    return sum(_array_bytes(item, seen) for item in items)


@dataclass
class ServedEstimator(ServedModel, kind="estimator"):
    """An estimator, which takes rows of numbers and learns if it is an online learner; `intervals` has its errors."""

    intervals: RollingConformal = field(default_factory=lambda: RollingConformal(DEFAULT_LEVEL, window=INTERVAL_ROWS))

    intervals_of_service = True

    @property
    def classes(self) -> npt.NDArray[Any]:
        return np.asarray([] if self.task.numeric else self.model.classes_)

    def inputs(self) -> list[TensorSpec]:
        p = int(self.model.n_features_in_)
        names = getattr(self.model, "feature_names_in_", None)
        columns = [f"x{j}" for j in range(p)] if names is None else [str(name) for name in names]
        return [TensorSpec("X", "FP64", [-1, p], columns)]

    def _extra_output(self) -> str:
        if not self.task.numeric:
            return "probability" if hasattr(self.model, "predict_proba") else ""
        kind: Any = type(self.model)
        return "std" if _takes_std(kind) else ""

    def check(self, rows: RequestRows, targets: RequestRows | None) -> None:
        self._X(rows)
        if targets is not None:
            self.targets(targets)
            _check_lengths(rows, targets)

    def _X(self, rows: RequestRows) -> Array:
        """(n, p) inputs without missing values."""
        known, p = None, int(self.model.n_features_in_)
        if rows.names is not None:
            [spec] = self.inputs()
            # A matrix of one column is a column with the name of the tensor.
            known = None if p == 1 and rows.names == (spec.name,) else spec.columns
            if known and not hasattr(self.model, "feature_names_in_") and not set(known) <= set(rows.names):
                raise RequestRefused(
                    400,
                    f"this model was fitted without column names: send each row as a list of {p} numbers, in the order "
                    f"in which it was fitted, or name them {quoted(known)}; the request has "
                    f"{quoted(rows.names)}",
                )
        X = rows.numbers(known, p, "inputs")
        if np.isnan(X).any():
            raise RequestRefused(400, "inputs hold missing values, which this model does not take")
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
                raise RequestRefused(400, f"targets hold the label {str(cell)[:40]!r}, which is none of {allowed}")
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

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
        X, Y = self._X(rows), self.targets(targets)
        y = Y[:, 0] if getattr(self.model, "single_output_", False) else Y
        if not self.task.numeric:
            y = self.classes[Y[:, 0].astype(np.intp)]
        # One that does not learn predicts only.
        model = self.model._snapshot() if self.learns else self.model
        found = model.predict_then_learn(X, y) if self.learns else model.predict(X)
        if not self.task.numeric:
            # A row that the model skipped has no answer. Classes of a stream are in the order in which they appeared.
            answered = np.array([label is not None for label in found.tolist()], dtype=bool)
            code = {label: k for k, label in enumerate(self.classes.tolist())}
            F = np.full(Y.shape, np.nan)
            F[answered, 0] = [code[label] for label in found[answered].astype(self.classes.dtype).tolist()]
            return replace(self, model=model), Outcome(F, np.full(F.shape, np.nan), Y)
        F = _as_shape(found, Y.shape)
        # Not those of `regions_then_learn`, which are brought up to date now and then: these are what is served.
        half = np.broadcast_to(self.half_widths(DEFAULT_LEVEL), Y.shape)
        intervals = self.intervals._snapshot()
        intervals.regions_then_learn(F, Y)
        return replace(self, model=model, intervals=intervals), Outcome(F, half, Y)


@cache
def _takes_std(estimator: Any) -> bool:
    # AutoStream knows the word only to say what to use instead.
    return "return_std" in signature(estimator.predict).parameters and not issubclass(estimator, AutoStream)


def _as_shape(values: Any, shape: tuple[int, ...]) -> Array:
    return np.asarray(values, dtype=np.float64).reshape(shape)


@dataclass
class ServedTable(ServedModel, kind="table"):
    """A session or a fitted table: columns with names, lags and scaling of its own."""

    @property
    def classes(self) -> npt.NDArray[Any]:
        return np.array([] if self.task.numeric else self.model.preparation.classes(), dtype=object)

    def _sources(self) -> list[str]:
        columns = self.model.preparation.columns_
        return list(dict.fromkeys(source for column in columns for source in column.sources()))

    def inputs(self) -> list[TensorSpec]:
        numbers = {column.name for column in self.model.preparation.columns_ if isinstance(column, Number)}
        return [TensorSpec(name, "FP64" if name in numbers else "BYTES", [-1], [name]) for name in self._sources()]

    def targets(self, targets: RequestRows) -> Array:
        if self.task.numeric:
            return targets.numbers(self.outputs, len(self.outputs), "targets")
        (label,) = self.model.preparation.fork().outputs_
        codes: Array = label.encode([targets.labels()]).values
        return codes

    def _batch(self, rows: RequestRows, targets: RequestRows | None) -> tuple[list[str], Batch]:
        """Rows as a session knows them, and the names of their columns."""
        sources = self._sources()
        named = rows.with_names(sources)
        for name in sources:
            named.column(name)
        columns: dict[str, Any] = dict(zip(named.names or (), named.columns, strict=True))
        if targets is not None:
            _check_lengths(rows, targets)
            outcomes = list(self.targets(targets).T) if self.task.numeric else [targets.labels()]
            # What stands in the inputs under the name of a target is not for the model to see.
            columns |= dict(zip(self.outputs, outcomes, strict=True))
        return list(columns), Batch(list(columns.values()), list(range(1, len(rows) + 1)), [])

    def _prepared(self, rows: RequestRows, targets: RequestRows | None) -> Prepared:
        """Inputs and outputs of the rows; the session stays as it is."""
        names, batch = self._batch(rows, targets)
        try:
            preparation = self.model.preparation.fork().bind(names, "the request", predict=targets is None)
            prepared: Prepared = preparation.prepare(batch)
        except (ValueError, TypeError, KeyError) as error:
            raise RequestRefused(400, str(error)) from error
        if prepared.bad:
            raise RequestRefused(400, self._bad_cell(names, batch))
        return prepared

    def _bad_cell(self, names: list[str], batch: Batch) -> str:
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

    def half_widths(self, level: float) -> Array:
        widths: Array = self.model.recent.widths(level)
        return widths

    def _predict(self, rows: RequestRows, wanted: frozenset[str]) -> Outputs:
        X = self._prepared(rows, None).chunk.X
        width = len(self.outputs) if self.task.numeric else len(self.classes)
        F: Array = self.model.predictor().outputs(X) if len(X) else np.empty((0, width))
        if self.task.numeric:
            return {"mean": F}
        return {"label": self.classes[F.argmax(axis=1)], "probability": F}

    def learned(self, rows: RequestRows, targets: RequestRows) -> tuple[ServedModel, Outcome]:
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
        new, Y = replace(self, model=model), self.targets(targets)
        if self.task.numeric:
            return new, Outcome(found.F, np.broadcast_to(self.half_widths(DEFAULT_LEVEL), found.F.shape), Y)
        F = np.asarray(found.codes, dtype=np.float64)[:, None]
        return new, Outcome(F, np.full(F.shape, np.nan), Y)


def as_served(model: Any, name: str) -> ServedModel:
    """A model that was loaded, ready to serve under that name."""
    if isinstance(model, LearnedTable):
        task, learns = CLASSIFICATION if model.settings.classify else REGRESSION, isinstance(model, Session)
        window = int(model.recent.size) if task.numeric and learns else 0
        return ServedTable(name, model, task, list(model.settings.targets), learns, window)
    kind = type(model).__name__
    if not callable(getattr(model, "predict", None)):
        raise ValueError(f"{name} holds a {kind}, which does not predict: give an estimator or a session")
    p, classify = getattr(model, "n_features_in_", None), is_classifier(model)
    if p is None or (classify and not hasattr(model, "classes_")):
        raise ValueError(f"{name} holds a {kind} that was not fitted to rows of numbers: fit it first")
    # One that learns in service does so wholly or not at all.
    learns = isinstance(model, Transactional) and isinstance(model, OnlineLearner)
    if classify:
        return ServedEstimator(name, model, CLASSIFICATION, ["label"], learns)
    # How many outputs there are nobody knows better than a prediction.
    F = np.asarray(model.predict(np.zeros((1, p))))
    if F.dtype.kind not in "fiub":
        raise ValueError(f"{name} holds a {kind}, whose predictions are no numbers: it cannot be served")
    outputs = ["y"] if F.size == 1 else [f"y{q}" for q in range(F.size)]
    return ServedEstimator(name, model, REGRESSION, outputs, learns, INTERVAL_ROWS)


# Errors of the last rows beside the baselines, coverage, and a curve of them.

#: Rows over which errors are averaged.
SCORED_ROWS = 1000

#: Rows of which the prediction and the outcome are shown.
SHOWN_ROWS = 30

#: Most points of the curve: when there are as many, every other one goes, and the next ones are twice as far apart.
MAX_POINTS = 240

#: Rows before there are warnings, and outcomes before there is one on coverage.
MIN_WARNING_ROWS = 200

#: Coverage of intervals of 90% outside of which there is a warning: of 200 outcomes, chance alone does not lead there.
MIN_COVERAGE, MAX_COVERAGE = 0.8, 0.97

#: Rows before the first point of the curve, and between two points at first.
CURVE_STEP = 20


@dataclass
class RollingScores(State):
    """Predictions and outcomes of the last rows, and a curve of errors, for each learner and each baseline.

    Numbers have squared errors; labels are written as codes, with an error of 0 or 1.

    Attributes
    ----------
    names : the learners, then the baselines
    recent : (m, names + 3, d) the last rows: the prediction under each name, then the prediction of the active model,
        the half width of its interval, and the outcome
    fresh : (k, learners + 3, d) rows that the baselines have not seen yet
    curve : (points, names, d) errors of the last rows before each point
    reached, step : for each point of the curve, how many rows there were; rows between two points
    rows, n_classes : rows and labels that the baselines have seen
    """

    outputs: list[str]
    task: Task[Any]
    names: list[str]
    baselines: list[Any]
    recent: Array
    fresh: Array
    curve: Array
    reached: list[int] = field(default_factory=list)
    step: int = CURVE_STEP
    rows: int = 0
    n_classes: int = 0

    _state_classes = {"task": Task}

    @classmethod
    def start(cls, learners: Sequence[str], outputs: Sequence[str], task: Task[Any]) -> RollingScores:
        baselines = [task.baseline(name) for name in task.default_baselines]
        names = [*learners, *(baseline.name for baseline in baselines)]
        recent, fresh, curve = (np.empty((0, k, len(outputs))) for k in (len(names) + 3, len(learners) + 3, len(names)))
        return cls(list(outputs), task, names, baselines, recent, fresh, curve)

    def updated(self, outcomes: Sequence[Outcome | None], active: int) -> RollingScores:
        """The scores after further rows: what each learner had predicted, None if it could not learn them.

        The active model is one of those that could. The rows are put aside until the next point of the curve is due:
        many requests of few rows do not pay for errors that nobody looks at.
        """
        best = outcomes[active]
        assert best is not None
        unknown = np.full(best.Y.shape, np.nan)
        predicted = [unknown if outcome is None else outcome.F for outcome in outcomes]
        fresh = np.concatenate([self.fresh, np.stack([*predicted, *best], axis=1)])
        new = self._replace(fresh=fresh)
        return new if len(fresh) < min(self.step, SCORED_ROWS) else new.up_to_date()

    def up_to_date(self) -> RollingScores:
        """The scores with the rows that were put aside."""
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
        """(d,) root of the mean squared error of the last rows, or the share of wrong labels, for each name."""
        # With the rows last, the loops of NumPy run over them: three times as fast.
        recent = np.ascontiguousarray(self.recent[-last:].T)
        F, Y = recent[:, :-3], recent[:, -1:]
        with np.errstate(over="ignore", invalid="ignore"):
            losses = (F - Y) ** 2 if self.task.numeric else np.where(np.isfinite(Y), F != Y, np.nan)
            mean = _mean(losses).T
        return dict(zip(self.names, np.sqrt(mean) if self.task.numeric else mean, strict=True))

    def _covered(self) -> Array:
        """(d, m) whether outcomes lay in the interval of the active model, nan where that is unknown."""
        F, half, Y = self.recent[:, -3:].T.swapaxes(0, 1)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isfinite(Y) & np.isfinite(half), np.abs(Y - F) <= half, np.nan)

    def coverage(self) -> Array:
        """(d,) share of the last outcomes within the intervals of level 0.9."""
        return _mean(self._covered())

    def last(self) -> Array:
        """(k, 3, d) prediction, half width and outcome of the last rows, of the active model."""
        return self.recent[-SHOWN_ROWS:, -3:]

    def warnings(self, active: str) -> list[str]:
        """What somebody should look at: errors that rise, a baseline that does better, intervals that miss."""
        found: list[str] = []
        if len(self.recent) < MIN_WARNING_ROWS:
            return found
        errors = self.errors()
        before, now = errors[active], self.errors(len(self.recent) // 5)[active]
        for q, output in enumerate(self.outputs):
            if now[q] > 1.5 * before[q]:
                found.append(f"{output}: the error of the last rows is {now[q] / before[q]:.1f} times the usual one")
            better = [one.name for one in self.baselines if errors[one.name][q] < before[q]]
            if better:
                found.append(f"{output}: {better[0]} does better than the model")
        known = np.isfinite(self._covered()).sum(axis=-1)
        for q, share in enumerate(self.coverage()):
            if known[q] < MIN_WARNING_ROWS or MIN_COVERAGE <= share <= MAX_COVERAGE:
                continue
            fault = "too narrow" if share < MIN_COVERAGE else "wider than they need to be"
            found.append(f"{self.outputs[q]}: intervals of 90% hold {share:.1%} of the outcomes, they are {fault}")
        return found


def _mean(values: Array) -> Array:
    """Mean over the last axis of what is known, nan where nothing is."""
    known = np.isfinite(values)
    count = known.sum(axis=-1)
    mean: Array = np.where(known, values, 0.0).sum(axis=-1) / np.where(count > 0, count, np.nan)
    return mean
