"""Regression and classification: two subclasses of `Task`, which hold everything that differs between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from sklearn.base import ClassifierMixin

from ovk.base import Array, Labels, Mask, State, Times, missing_labels
from ovk.evaluation.baselines import Baseline, LastValue, Majority, NoChange, RefittedRidge, RunningMean
from ovk.evaluation.delayed import Incremental, OnlineClassifier, OnlineLearner
from ovk.evaluation.running import ratio
from ovk.online import CodedClassifier

# Scores of one learner, noted at checkpoints of the stream.

#: Checkpoints in each doubling of the number of rows: a curve has 160 points after a million rows.
PER_DOUBLING = 8

#: Probabilities are counted in so many bins for the area under the curve.
BINS = 4096

#: A probability counts as at least this in the log loss.
MIN_PROBABILITY = 1e-15

NO_MARKS: Times = np.empty(0, dtype=np.int64)


def checkpoints(start: int, stop: int) -> Times:
    """Checkpoints t with start < t <= stop: the whole numbers next above 2^(k/8), so more and more apart."""
    k = np.arange(PER_DOUBLING * int(max(stop, 1)).bit_length() + 1)
    t = np.unique(np.ceil(2.0 ** (k / PER_DOUBLING)).astype(np.int64))
    return t[(t > start) & (t <= stop)]


@dataclass
class RunningSum(State):
    """Sums of rows (d,) along the stream: `total` (d,) so far, and `points` (checkpoints, d) noted.

    Rows are added one after the other, so chunks of any sizes give the same bits.
    """

    total: Array
    points: Array

    @classmethod
    def empty(cls, d: int) -> RunningSum:
        return cls(np.zeros(d), np.empty((0, d)))

    def add(self, values: Array, marks: Times) -> None:
        """Add the rows of `values`, and note the sum after the first m of them for each m in `marks`."""
        sums = np.cumsum(np.vstack([self.total, values]), axis=0)
        self.total = sums[-1].copy()
        if len(marks):
            self.points = np.concatenate([self.points, sums[marks]])

    def note(self) -> None:
        self.points = np.vstack([self.points, self.total])

    def merge(self, other: RunningSum) -> None:
        self.total, self.points = self.total + other.total, self.points[:0]


@dataclass
class Scores(State, ABC):
    """How well one learner predicts, as sums over the rows of a stream, noted at checkpoints.

    `name` is what the learner is called in tables and plots, `seconds` the time it took, which is not saved.
    """

    name: str
    sums: RunningSum
    seconds: float = field(default=0.0, init=False)

    _state_classes = {"sums": RunningSum}

    @abstractmethod
    def add(self, F: Array, Y: Array, counted: Mask, marks: Times = NO_MARKS) -> None:
        """Add predictions F (n, d) of outputs Y (n, d), where `counted` (n, d), and note sums after `marks` rows."""

    @abstractmethod
    def fresh(self) -> Self:
        """Scores of the same learner before any row."""

    def note(self) -> None:
        """Make the present row a checkpoint."""
        self.sums.note()

    def merge(self, other: Self) -> None:
        """Add the sums of another stream. The checkpoints of the two were at other rows: what was noted is dropped."""
        self.sums.merge(other.sums)
        self.seconds += other.seconds


@dataclass
class RegressionScores(Scores, kind="regression"):
    """Errors of one learner: `sums` are (3 d) numbers of rows, squared and absolute errors, in units of the outputs."""

    def add(self, F: Array, Y: Array, counted: Mask, marks: Times = NO_MARKS) -> None:
        # An error of 1e200 squares to infinity, and so does its mean: that is the right answer.
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.where(counted, F - Y, 0.0)
            self.sums.add(np.hstack([counted, errors**2, np.abs(errors)]), marks)

    def fresh(self) -> RegressionScores:
        return RegressionScores(self.name, RunningSum.empty(len(self.sums.total)))

    @property
    def mse(self) -> Array:
        """(d,) mean squared error of each output."""
        return self._mean(self.sums.total, 1)

    @property
    def mae(self) -> Array:
        """(d,) mean absolute error of each output."""
        return self._mean(self.sums.total, 2)

    @property
    def counts(self) -> Array:
        """(checkpoints, d) predictions of each output that were tested by then."""
        return np.split(self.sums.points, 3, axis=-1)[0]

    @property
    def mse_curve(self) -> Array:
        """(checkpoints, d) mean squared error of all predictions so far."""
        return self._mean(self.sums.points, 1)

    @property
    def mae_curve(self) -> Array:
        """(checkpoints, d) mean absolute error of all predictions so far."""
        return self._mean(self.sums.points, 2)

    def _mean(self, sums: Array, which: int) -> Array:
        parts = np.split(sums, 3, axis=-1)
        return ratio(parts[which], parts[0])


@dataclass
class ClassScores(Scores, kind="classification"):
    """Hits and misses of one classifier: `sums` are the numbers of rows and of hits.

    `confusion` (K, K): how often each class (row) was predicted as each (column). `histogram` (K, 2, bins): how often
    each class came with each probability, without it (first) and with it. `log_losses`: the sum of -log of the
    probability of the class that came, nan for a classifier without probabilities.
    """

    confusion: Array
    histogram: Array
    log_losses: float = 0.0

    def add(self, F: Array, Y: Array, counted: Mask, marks: Times = NO_MARKS) -> None:
        self._grow(F.shape[1])
        rows = counted.any(axis=1)
        P, truth, guess = F[rows], Y[rows].argmax(axis=1), F[rows].argmax(axis=1)
        hits = np.zeros(len(F))
        hits[rows] = truth == guess
        self.sums.add(np.column_stack([rows, hits]), marks)
        # New arrays, since snapshots share the old ones.
        self.confusion = self.confusion.copy()
        np.add.at(self.confusion, (truth, guess), 1.0)
        if np.isnan(self.log_losses) or not len(P):
            return
        self.histogram = self.histogram.copy()
        self.log_losses -= float(np.log(np.maximum(P[np.arange(len(P)), truth], MIN_PROBABILITY)).sum())
        bins = np.minimum((P * BINS).astype(int), BINS - 1)
        for c in range(P.shape[1]):
            np.add.at(self.histogram[c], ((truth == c).astype(int), bins[:, c]), 1.0)

    def _grow(self, k: int) -> None:
        """Take further classes, which had the probability 0 in all rows so far."""
        known = len(self.confusion)
        if k > known:
            self.confusion = np.pad(self.confusion, (0, k - known))
            self.histogram = np.pad(self.histogram, ((0, k - known), (0, 0), (0, 0)))
            self.histogram[known:, 0, 0] = 0.0 if np.isnan(self.log_losses) else self.confusion.sum()

    def fresh(self) -> ClassScores:
        return CLASSIFICATION.scores(self.name, len(self.confusion), probabilities=not np.isnan(self.log_losses))

    def merge(self, other: ClassScores) -> None:
        super().merge(other)
        self.confusion = self.confusion + other.confusion
        self.histogram = self.histogram + other.histogram
        self.log_losses += other.log_losses

    @property
    def curve(self) -> Array:
        """(checkpoints,) accuracy of all predictions so far."""
        rows, hits = self.sums.points.T
        return np.asarray(hits / np.maximum(rows, 1.0))

    @property
    def accuracy(self) -> float:
        """Share of rows whose class was predicted."""
        return float(np.trace(self.confusion) / max(self.confusion.sum(), 1.0))

    @property
    def recall(self) -> Array:
        """(K,) of the rows of each class the share that was predicted as such; nan for one that never came."""
        return ratio(np.diagonal(self.confusion), self.confusion.sum(axis=1))

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls: every class counts alike, however rare."""
        recall = self.recall
        return float(np.nanmean(recall)) if np.isfinite(recall).any() else float("nan")

    @property
    def log_loss(self) -> float:
        """Mean of -log of the probability of the class that came."""
        return float(self.log_losses / max(self.confusion.sum(), 1.0))

    @property
    def kappa(self) -> float:
        """Cohen's kappa: accuracy above that of guesses with the same frequencies, 1 for no error."""
        n = max(self.confusion.sum(), 1.0)
        chance = float(self.confusion.sum(axis=0) @ self.confusion.sum(axis=1)) / n**2
        return (self.accuracy - chance) / (1.0 - chance) if chance < 1.0 else 0.0

    @property
    def auc(self) -> float:
        """Area under the ROC curve, one class against the rest, mean over the classes that came, to 1 / 4096."""
        if np.isnan(self.log_losses):
            return float("nan")
        areas = []
        for rest, own in self.histogram:
            if rest.sum() and own.sum():
                below = np.cumsum(rest) - 0.5 * rest
                areas.append(float(own @ below / (own.sum() * rest.sum())))
        return float(np.mean(areas)) if areas else float("nan")


class ScoreTable(NamedTuple):
    """Values (rows, columns) to show, nan where unknown.

    `largest`: for each row, whether the largest value is the best; empty where none is. `relative`: a further row for
    several outputs, its name and a value for each column.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Array
    largest: tuple[bool, ...] = ()
    relative: tuple[str, Array] | None = None

    def lines(self, max_rows: int | None = None) -> list[str]:
        """The table as lines of text, of at most `max_rows` rows; of classes these are the most frequent ones.

        >>> values = np.array([[0.25, 1.0], [3.0, np.nan], [0.5, 2.0]])
        >>> print("\\n".join(ScoreTable("errors", ("y", "z", "u"), ("model", "mean"), values).lines(2)))
        errors
            model   mean
        ----------------
        y    0.25      1
        z       3      -
        ... 1 more
        """
        rows = list(zip(self.rows, self.values.tolist(), strict=True))
        if max_rows is not None and len(rows) > max_rows and self.columns[0] == "rows":
            rows.sort(key=lambda row: -row[1][0])
        hidden = len(rows) - len(rows[:max_rows])
        rows = rows[:max_rows] + ([] if self.relative is None else [(self.relative[0], self.relative[1].tolist())])
        names = ["", *(printable(name) for name, _ in rows)]
        lines = [name.ljust(max(map(len, names))) for name in names]
        for k, heading in enumerate(self.columns):
            cells = [printable(heading), *(_cell(heading, values[k]) for _, values in rows)]
            width = max(map(len, cells))
            lines = [f"{line}   {cell:>{width}}" for line, cell in zip(lines, cells, strict=True)]
        more = [f"... {hidden:,} more"] if hidden else []
        return [self.title, lines[0], "-" * len(lines[0]), *lines[1:], *more]


def is_share(heading: str) -> bool:
    """Whether a column of a table holds shares."""
    return heading == "share" or heading.endswith("interval")


def _cell(heading: str, value: float) -> str:
    """A number with four digits, or a percentage."""
    if np.isnan(value):
        return "-"
    return f"{value:.0%}" if is_share(heading) else f"{int(value):,}" if heading == "rows" else f"{value:.4g}"


def printable(text: str) -> str:
    """A name without control characters.

    >>> printable("y [kg]\\x1b[2J")
    'y [kg][2J'
    """
    return "".join(letter for letter in text if letter.isprintable())


# Tasks.


S = TypeVar("S", bound=Scores)


class Task(State, ABC, Generic[S]):
    """What differs between predicting numbers and predicting classes; everything else is written once.

    The two instances are `REGRESSION` and `CLASSIFICATION`, and `task_of(model)` tells which one a model is for. An
    evaluator, a result, a session or a served model holds its task and asks it.

    Predictions of n rows are an array F (n, d): the d outputs in their units, or the probabilities of the d classes;
    nan in rows that were not predicted. Outputs Y have the same shape: numbers, or 1 for the class of the row and 0 for
    the others; nan where missing. So baselines and scores have the same interface for both:

        Y = task.outputs(y, classes)                     y: numbers, or codes of the labels in `classes`
        F = baseline.predict_then_learn(X, Y)
        scores = task.scores("last value", d)
        scores.add(F, Y, np.isfinite(Y))
        task.decided(F, classes)                         what users call predictions: F itself, or labels

    What is told of a model beside its baselines, with `names` of the outputs or classes:

        task.tables(learners, names)                     `ScoreTable`, to be rendered as text, JSON or HTML
        task.conclusion(learners, names)                 one sentence
        task.against_best_baseline(learners)             its name, and the ratio of the model's error to that of it

    `numeric`: outputs are numbers, which are scaled and can have intervals and forecasts. `error_name`: what
    `DriftResult.losses` are, for an axis.
    """

    name: ClassVar[str]
    numeric: ClassVar[bool]
    baselines: ClassVar[Mapping[str, type[Baseline]]]
    default_baselines: ClassVar[tuple[str, ...]]
    error_name: ClassVar[str]

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def baseline(self, baseline: Any) -> Baseline:
        """The baseline of that short name, or a fresh copy of the one given."""
        if isinstance(baseline, Baseline):
            return baseline.replace()
        if isinstance(baseline, str) and baseline in self.baselines:
            return self.baselines[baseline]()
        names = ", ".join(map(repr, self.baselines))
        raise ValueError(f"baselines must hold {names} or baselines of ovk.evaluation, got {baseline!r}")

    # Rows ------------------------------------------------------------------------------------------------------------

    @abstractmethod
    def outputs(self, y: Array, classes: Any = ()) -> Array:
        """(n, d) outputs, from numbers (n,) or (n, d), or from codes of labels (n,) or (n, 1), nan where missing."""

    def targets(self, y: Array, classes: Any = ()) -> Any:
        """What a model learns from: the numbers, or labels (n,), None where missing."""
        return y

    def decided(self, F: Array, classes: Any = ()) -> Any:
        """What users call predictions: F itself, or the most probable labels (n,), None in rows not predicted."""
        return F

    def compact(self, F: Array) -> Array:
        """What is kept of predictions where only `decided` will be asked for."""
        return F

    @abstractmethod
    def skipped(self, X: Array, Y: Array, F: Array) -> Mask:
        """(n,) rows that a model skipped, which are not counted."""

    @abstractmethod
    def errors(self, F: Array, Y: Array) -> Array:
        """Errors (n, d) or (n, 1) of the rows, whose rise is a sign of drift."""

    # Models ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def learns_blocks(self, model: Any) -> bool:
        """Whether a model predicts each row of a block from those before it; TypeError for what is no learner."""

    @abstractmethod
    def predict_then_learn(self, model: Any, X: Array, y: Any, classes: Any, **options: Any) -> Array:
        """Predictions F of a block, of a model that learns blocks; `y` are targets, `options` sample_weight."""

    @abstractmethod
    def predict(self, model: Any, X: Array, classes: Any = ()) -> Array:
        """Predictions F of a model, which does not learn."""

    # Scores ----------------------------------------------------------------------------------------------------------

    @abstractmethod
    def scores(self, name: str, d: int, *, probabilities: bool = True) -> S:
        """Scores of a learner before the first row; `probabilities`: whether a classifier tells them."""

    @abstractmethod
    def tables(self, learners: Sequence[Any], names: Sequence[str]) -> list[ScoreTable]:
        """The scores of the learners, the model first."""

    @abstractmethod
    def conclusion(self, learners: Sequence[Any], names: Sequence[str]) -> str:
        """One sentence: how the model, the first of the learners, compares with its best baseline."""

    @abstractmethod
    def against_best_baseline(self, learners: Sequence[Any]) -> tuple[str, float] | None:
        """Name of the best baseline, and the ratio of the model's error to that of it; None if nothing was tested."""


#: Errors that differ by no more than this part are called alike: as a percentage they would round to 0.
ALIKE = 0.005

#: Most outputs that are named in a sentence.
MAX_NAMES = 4


class Regression(Task[RegressionScores], kind="regression"):
    """Outputs are numbers, scored by squared and absolute errors."""

    name = "regression"
    numeric = True
    baselines = {"last": LastValue, "mean": RunningMean, "ridge": RefittedRidge}
    default_baselines = ("last", "mean")
    error_name = "squared error /\nvariance of outputs"

    def outputs(self, y: Array, classes: Any = ()) -> Array:
        return y[:, None] if y.ndim == 1 else y

    def skipped(self, X: Array, Y: Array, F: Array) -> Mask:
        # A prediction that is nan although its row was fine is an error of the model, and must show in its mean.
        invalid = ~np.isfinite(X).all(axis=1) | np.isinf(Y).any(axis=1)
        return np.asarray(invalid & np.isnan(F).any(axis=1))

    def errors(self, F: Array, Y: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isfinite(Y), F - Y, 0.0) ** 2

    def learns_blocks(self, model: Any) -> bool:
        if isinstance(model, (OnlineLearner, Incremental)):
            return isinstance(model, OnlineLearner)
        raise TypeError(
            "model must have predict_then_learn (an online learner of ovk), or partial_fit and predict (scikit-learn), "
            f"got {type(model).__name__}: a batch estimator can stand beside a stream as RefittedRidge does, and for "
            "late labels there is DelayedLabels(WithIntervals(model))"
        )

    def predict_then_learn(self, model: Any, X: Array, y: Any, classes: Any, **options: Any) -> Array:
        F = np.asarray(model.predict_then_learn(X, y, **options), dtype=np.float64)
        if F.shape != y.shape:
            raise ValueError(
                f"predict_then_learn of {type(model).__name__} must return predictions in the shape {y.shape} of y, "
                f"got {F.shape}"
            )
        return F.reshape(len(F), -1)

    def predict(self, model: Any, X: Array, classes: Any = ()) -> Array:
        return np.asarray(model.predict(X), dtype=np.float64).reshape(len(X), -1)

    def scores(self, name: str, d: int, *, probabilities: bool = True) -> RegressionScores:
        return RegressionScores(name, RunningSum.empty(3 * d))

    def tables(self, learners: Sequence[Any], names: Sequence[str]) -> list[ScoreTable]:
        columns, found = tuple(one.name for one in learners), []
        for title, error in (("mean squared error", "mse"), ("mean absolute error", "mae")):
            values = np.array([getattr(one, error) for one in learners]).T
            compared = _relative(learners, error) if len(names) > 1 else None
            last = None if compared is None else (f"relative to {compared[0]}", compared[1])
            found.append(ScoreTable(title, tuple(names), columns, values, (False,) * len(names), last))
        return found

    def against_best_baseline(self, learners: Sequence[Any]) -> tuple[str, float] | None:
        compared = _relative(learners, "mse")
        return None if compared is None or not np.isfinite(compared[1][0]) else (compared[0], float(compared[1][0]))

    def conclusion(self, learners: Sequence[Any], names: Sequence[str]) -> str:
        compared = self.against_best_baseline(learners)
        if compared is None:
            return "Nothing can be said of the model yet: no row was tested beside a baseline."
        best, ratio = compared
        if ratio > 1 + ALIKE:
            return f"{best!r} is better: the model's mean squared error is {ratio - 1:.0%} above it."
        said = f"The model's mean squared error is {1 - ratio:.0%} below that of {best!r}, the best baseline"
        if ratio >= 1 - ALIKE:
            said = f"The model is as good as {best!r}, the best baseline: their mean squared errors are within 1%"
        return f"{said}{_but(learners, best, names)}."


def _relative(learners: Sequence[Any], error: str) -> tuple[str, Array] | None:
    """Name of the best baseline, and for each learner the geometric mean over outputs of its error over that."""
    E = np.array([getattr(one, error) for one in learners])
    # An output that was never seen, or that a baseline knows exactly, has no ratio.
    known = (np.isfinite(E[1:]) & (E[1:] > 0)).all(axis=0)
    if len(E) == 1 or not known.any():
        return None
    with np.errstate(divide="ignore"):
        logs = np.log(E[:, known]).mean(axis=1)
    best = 1 + int(logs[1:].argmin())
    return learners[best].name, np.exp(logs - logs[best])


def _but(learners: Sequence[Any], best: str, names: Sequence[str]) -> str:
    """The outputs for which a baseline is better, by squared or by absolute error; empty if there are none."""
    model, *baselines = learners
    other = next(one for one in baselines if one.name == best)
    squared, absolute = model.mse > other.mse, model.mae > other.mae
    if len(names) == 1:
        return f"; by mean absolute error {best!r} is better" if absolute.any() else ""
    both = (("", squared), (" by mean absolute error", absolute & ~squared))
    worse = [f"for {_listed(names, where)}{by}" for by, where in both if where.any()]
    return f"; {best!r} is better {' and '.join(worse)}" if worse else ""


def _listed(names: Sequence[str], where: Mask) -> str:
    """Names of some outputs, in words."""
    some = [name for name, one in zip(names, where, strict=True) if one]
    if len(some) > MAX_NAMES:
        some = [*some[: MAX_NAMES - 1], f"{len(some) - MAX_NAMES + 1} more outputs"]
    return " and ".join([*([", ".join(some[:-1])] if len(some) > 1 else []), some[-1]])


#: A class this much rarer than its equal share makes the accuracy say little.
RARE = 0.2

#: Scores of a classifier: name, attribute of `ClassScores`, and whether the largest is the best.
CLASS_SCORES = (
    ("accuracy", "accuracy", True),
    ("balanced accuracy", "balanced_accuracy", True),
    ("kappa", "kappa", True),
    ("log loss", "log_loss", False),
    ("AUC", "auc", True),
)


class Classification(Task[ClassScores], kind="classification"):
    """Outputs are classes, scored by hits and by the probability of the class that came."""

    name = "classification"
    numeric = False
    baselines = {"last": NoChange, "majority": Majority}
    default_baselines = ("last", "majority")
    error_name = "share of wrong labels"

    def outputs(self, y: Array, classes: Any = ()) -> Array:
        codes = y.reshape(-1)
        known = np.isfinite(codes)
        Y = np.full((len(codes), len(classes)), np.nan)
        Y[known] = np.eye(len(classes))[codes[known].astype(np.intp)]
        return Y

    def targets(self, y: Array, classes: Any = ()) -> Labels:
        codes, labels = y.reshape(-1), np.asarray(classes)
        known = np.isfinite(codes)
        if known.all():
            return labels[codes.astype(np.intp)]
        found = np.full(len(codes), None, dtype=object)
        found[known] = labels[codes[known].astype(np.intp)]
        return found

    def decided(self, F: Array, classes: Any = ()) -> Labels:
        codes = F if F.ndim == 1 else self.compact(F)
        return self.targets(np.where(codes < 0, np.nan, codes), classes)

    def compact(self, F: Array) -> Array:
        """(n,) codes of the most probable classes, -1 in rows that were not predicted."""
        return np.where(np.isnan(F).any(axis=1), -1, F.argmax(axis=1))

    def skipped(self, X: Array, Y: Array, F: Array) -> Mask:
        return np.asarray(np.isnan(F).any(axis=1))

    def errors(self, F: Array, Y: Array) -> Array:
        wrong: Array = (F.argmax(axis=1) != Y.argmax(axis=1)).astype(np.float64)[:, None]
        return wrong

    def learns_blocks(self, model: Any) -> bool:
        if isinstance(model, (OnlineClassifier, Incremental)):
            return isinstance(model, OnlineClassifier)
        raise TypeError(
            "model must be a classifier with predict_proba_then_learn (of ovk), or with partial_fit and predict, got "
            f"{type(model).__name__}"
        )

    def predict_then_learn(self, model: Any, X: Array, y: Any, classes: Any, **options: Any) -> Array:
        if first := "classes_" not in vars(model):
            known, weights = ~missing_labels(y), options.get("sample_weight")
            if not (known if weights is None else known & (weights > 0.0)).any():
                return np.full((len(X), len(classes)), 1.0 / len(classes))
        # One that must know its classes at the start is told; the others find them one after the other.
        told = np.asarray(classes) if first and isinstance(model, CodedClassifier) else None
        return by_label(model.predict_proba_then_learn(X, y, told, **options), model.classes_, classes)

    def predict(self, model: Any, X: Array, classes: Any = ()) -> Array:
        if tells_probabilities(model):
            P = by_label(model.predict_proba(X), model.classes_, classes)
            if np.isfinite(P).all():
                return P
        place = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
        found: Array = np.eye(len(classes))[[place[one] for one in np.asarray(model.predict(X)).tolist()]]
        return found

    def scores(self, name: str, d: int, *, probabilities: bool = True) -> ClassScores:
        missing = 0.0 if probabilities else np.nan
        return ClassScores(name, RunningSum.empty(2), np.zeros((d, d)), np.zeros((d, 2, BINS)), missing)

    def tables(self, learners: Sequence[Any], names: Sequence[str]) -> list[ScoreTable]:
        values = np.array([[getattr(one, attribute) for one in learners] for _, attribute, _ in CLASS_SCORES])
        titles, largest = tuple(name for name, _, _ in CLASS_SCORES), tuple(best for _, _, best in CLASS_SCORES)
        counts = learners[0].confusion.sum(axis=1)
        each = np.column_stack([counts, counts / max(counts.sum(), 1.0), learners[0].recall])
        return [
            ScoreTable("scores", titles, tuple(one.name for one in learners), values, largest),
            ScoreTable("classes", tuple(map(str, names)), ("rows", "share", "recall"), each),
        ]

    def against_best_baseline(self, learners: Sequence[Any]) -> tuple[str, float] | None:
        model, *baselines = learners
        best = max(baselines, key=lambda one: one.accuracy, default=None)
        if best is None or best.accuracy == 1.0 or not model.confusion.any():
            return None
        return best.name, (1.0 - model.accuracy) / (1.0 - best.accuracy)

    def conclusion(self, learners: Sequence[Any], names: Sequence[str]) -> str:
        model, *baselines = learners
        counts = model.confusion.sum(axis=1)
        if not counts.sum():
            return "No row with a known label was tested, so nothing can be said about the model yet."
        said = f"The model is right in {model.accuracy:.1%} of the rows"
        rare = int(np.where(counts > 0, counts, np.inf).argmin())
        note = ""
        if counts[rare] < RARE * counts.sum() / max((counts > 0).sum(), 1):
            note = f" {str(names[rare])!r} is rare: look at kappa, AUC and its recall ({model.recall[rare]:.0%})."
        if not baselines:
            return f"{said}.{note}"
        best = max(baselines, key=lambda one: one.accuracy)
        if model.accuracy > best.accuracy:
            return f"{said}, {best.name!r}, the best baseline, in {best.accuracy:.1%}.{note}"
        cure = "the inputs say little about the classes, or they drift"
        if model.log_loss < best.log_loss:
            cure = "but its probabilities are better (log loss): weigh them by what each kind of error costs you"
        return f"{said}, {best.name!r} in {best.accuracy:.1%}; {cure}.{note}"


def tells_probabilities(model: Any) -> bool:
    """Whether a classifier has `predict_proba`; scikit-learn's have it for some parameters only."""
    return hasattr(model, "predict_proba")


def by_label(P: Any, known: Any, classes: Any) -> Array:
    """(n, K) probabilities of `classes`, from those of the classes that a model knows; 0 for the others."""
    place = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    found = np.zeros((len(P), len(place)))
    found[:, [place[label] for label in known.tolist()]] = P
    return found


REGRESSION, CLASSIFICATION = Regression(), Classification()


def task_of(model: Any) -> Task[Any]:
    """The task that a model is for."""
    return CLASSIFICATION if isinstance(model, (ClassifierMixin, OnlineClassifier)) else REGRESSION


def encoded(y: Any, classes: Any = None) -> tuple[Array, Labels]:
    """(n,) codes of labels, nan where missing, and the classes: those given and those found, sorted."""
    labels = np.asarray(y)
    missing = missing_labels(labels)
    if labels.ndim != 1 or missing.all():
        raise ValueError(f"y must be one column of labels, some of them known, got shape {labels.shape}")
    seen = labels[~missing]
    known = np.unique(seen if classes is None else np.concatenate([np.asarray(classes, dtype=seen.dtype), seen]))
    codes = np.full(len(labels), np.nan)
    codes[~missing] = np.searchsorted(known, seen)
    return codes, known
