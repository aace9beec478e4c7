"""Regression and classification: `Task` and its two subclasses hold everything that differs between them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from sklearn.base import ClassifierMixin

from ovk.base import Array, Labels, Mask, State, Times, missing_labels
from ovk.evaluation.baselines import Baseline, LastValue, Majority, NoChange, RefittedRidge, RunningMean
from ovk.evaluation.delayed import Incremental, OnlineClassifier, OnlineLearner
from ovk.evaluation.scaling_and_drift import ratio
from ovk.online import CodedClassifier

# Scores of one learner, recorded at checkpoints of the stream.

#: Number of checkpoints for each doubling of the number of rows: a curve has 160 points after a million rows.
CHECKPOINTS_PER_DOUBLING = 8

#: Number of bins for probabilities, for the area under the ROC curve.
PROBABILITY_BINS = 4096

#: Smallest probability in the log loss.
MIN_PROBABILITY = 1e-15

NO_CHECKPOINTS: Times = np.empty(0, dtype=np.int64)


def checkpoints(start: int, stop: int) -> Times:
    """Checkpoints t with start < t <= stop: the integers ceil(2^(k/8))."""
    k = np.arange(CHECKPOINTS_PER_DOUBLING * int(max(stop, 1)).bit_length() + 1)
    t = np.unique(np.ceil(2.0 ** (k / CHECKPOINTS_PER_DOUBLING)).astype(np.int64))
    return t[(t > start) & (t <= stop)]


@dataclass
class RunningSum(State):
    """Sums of rows (d,): `total` (d,) so far, and `points` (checkpoints, d). They do not depend on the chunks."""

    _stored = {"total": "* inf", "points": "* inf"}

    total: Array
    points: Array

    @classmethod
    def empty(cls, d: int) -> RunningSum:
        return cls(np.zeros(d), np.empty((0, d)))

    def add(self, values: Array, marks: Times) -> None:
        """Add the rows of `values`, and record the sum after the first m of them for each m in `marks`."""
        sums = np.cumsum(np.vstack([self.total, values]), axis=0)
        self.total = sums[-1].copy()
        if len(marks):
            self.points = np.concatenate([self.points, sums[marks]])

    def record(self) -> None:
        self.points = np.vstack([self.points, self.total])

    def merge(self, other: RunningSum) -> None:
        self.total, self.points = self.total + other.total, self.points[:0]


@dataclass
class Scores(State, ABC):
    """Scores of one learner, as sums over the rows of a stream.

    `name` is the name of the learner in tables and plots, `seconds` its time, which is not saved.
    """

    name: str
    sums: RunningSum
    seconds: float = field(default=0.0, init=False)

    _state_classes = {"sums": RunningSum}
    #: Fields that are sums over rows, besides `sums`.
    _totals: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def add(self, F: Array, Y: Array, counted: Mask, marks: Times = NO_CHECKPOINTS) -> None:
        """Add predictions F (n, d) of outputs Y (n, d) where `counted` (n, d), and record the sums at `marks`."""

    def fresh(self) -> Self:
        """Scores of the same learner before any row."""
        zeros = {name: 0.0 * getattr(self, name) for name in self._totals}
        return replace(self, sums=RunningSum.empty(len(self.sums.total)), **zeros)

    def merge(self, other: Self) -> None:
        """Add the sums of another stream; the checkpoints of the two differ and are dropped."""
        self.sums.merge(other.sums)
        for name in (*self._totals, "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass
class RegressionScores(Scores, kind="regression"):
    """Errors of one learner: `sums` (3 d) are numbers of rows, squared errors and absolute errors."""

    def add(self, F: Array, Y: Array, counted: Mask, marks: Times = NO_CHECKPOINTS) -> None:
        # The square of an error of 1e200 is infinite, and so is the mean.
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.where(counted, F - Y, 0.0)
            self.sums.add(np.hstack([counted, errors**2, np.abs(errors)]), marks)

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
        """(checkpoints, d) number of tested predictions of each output so far."""
        return np.split(self.sums.points, 3, axis=-1)[0]

    @property
    def mse_curve(self) -> Array:
        """(checkpoints, d) mean squared error so far."""
        return self._mean(self.sums.points, 1)

    @property
    def mae_curve(self) -> Array:
        """(checkpoints, d) mean absolute error so far."""
        return self._mean(self.sums.points, 2)

    def _mean(self, sums: Array, which: int) -> Array:
        parts = np.split(sums, 3, axis=-1)
        return ratio(parts[which], parts[0])


@dataclass
class ClassScores(Scores, kind="classification"):
    """Scores of one classifier: `sums` are the numbers of rows and of correct labels.

    `confusion` (K, K): counts by true class (row) and predicted class (column). `histogram` (K, 2, bins): counts by
    probability of each class, in rows of other classes and in rows of that class. `log_losses`: sum of -log of the
    probability of the true class, nan for a classifier without probabilities.
    """

    _stored = {"confusion": "k k", "histogram": "k 2 b", "log_losses": "* inf"}
    _totals = ("confusion", "histogram", "log_losses")

    confusion: Array
    histogram: Array
    log_losses: float = 0.0

    def add(self, F: Array, Y: Array, counted: Mask, marks: Times = NO_CHECKPOINTS) -> None:
        self._grow(F.shape[1])
        rows = counted.any(axis=1)
        P, truth, guess = F[rows], Y[rows].argmax(axis=1), F[rows].argmax(axis=1)
        correct = np.zeros(len(F))
        correct[rows] = truth == guess
        self.sums.add(np.column_stack([rows, correct]), marks)
        # Copies, since snapshots share the arrays.
        self.confusion = self.confusion.copy()
        np.add.at(self.confusion, (truth, guess), 1.0)
        if np.isnan(self.log_losses) or not len(P):
            return
        self.histogram = self.histogram.copy()
        self.log_losses -= float(np.log(np.maximum(P[np.arange(len(P)), truth], MIN_PROBABILITY)).sum())
        bins = np.minimum((P * PROBABILITY_BINS).astype(int), PROBABILITY_BINS - 1)
        for c in range(P.shape[1]):
            np.add.at(self.histogram[c], ((truth == c).astype(int), bins[:, c]), 1.0)

    def _grow(self, k: int) -> None:
        """Add classes, whose probability was 0 in all rows so far."""
        known = len(self.confusion)
        if k > known:
            self.confusion = np.pad(self.confusion, (0, k - known))
            self.histogram = np.pad(self.histogram, ((0, k - known), (0, 0), (0, 0)))
            self.histogram[known:, 0, 0] = 0.0 if np.isnan(self.log_losses) else self.confusion.sum()

    @property
    def curve(self) -> Array:
        """(checkpoints,) accuracy so far."""
        rows, correct = self.sums.points.T
        return np.asarray(correct / np.maximum(rows, 1.0))

    @property
    def accuracy(self) -> float:
        """Share of correct labels."""
        return float(np.trace(self.confusion) / max(self.confusion.sum(), 1.0))

    @property
    def recall(self) -> Array:
        """(K,) share of correct labels among the rows of each class; nan for a class without rows."""
        return ratio(np.diagonal(self.confusion), self.confusion.sum(axis=1))

    @property
    def balanced_accuracy(self) -> float:
        """Mean of the recalls, in which all classes count equally."""
        recall = self.recall
        return float(np.nanmean(recall)) if np.isfinite(recall).any() else float("nan")

    @property
    def log_loss(self) -> float:
        """Mean of -log of the probability of the true class."""
        return float(self.log_losses / max(self.confusion.sum(), 1.0))

    @property
    def kappa(self) -> float:
        """Cohen's kappa: accuracy relative to random labels with the same frequencies, 1 for no error."""
        n = max(self.confusion.sum(), 1.0)
        chance = float(self.confusion.sum(axis=0) @ self.confusion.sum(axis=1)) / n**2
        return (self.accuracy - chance) / (1.0 - chance) if chance < 1.0 else 0.0

    @property
    def auc(self) -> float:
        """Area under the ROC curve, one class against the rest, mean over the observed classes, to 1 / 4096."""
        if np.isnan(self.log_losses):
            return float("nan")
        areas = []
        for rest, own in self.histogram:
            if rest.sum() and own.sum():
                below = np.cumsum(rest) - 0.5 * rest
                areas.append(float(own @ below / (own.sum() * rest.sum())))
        return float(np.mean(areas)) if areas else float("nan")


class ScoreTable(NamedTuple):
    """Values (rows, columns), nan where unknown.

    `largest`: for each row, whether the largest value is the best; empty if no value is. `relative`: an additional row
    for several outputs, with its name and values.
    """

    title: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: Array
    largest: tuple[bool, ...] = ()
    relative: tuple[str, Array] | None = None

    def lines(self, max_rows: int | None = None) -> list[str]:
        """The table as lines of text, with at most `max_rows` rows: the first, or the most frequent classes."""
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

    @staticmethod
    def is_share(heading: str) -> bool:
        return heading == "share" or heading.endswith("interval")


def _cell(heading: str, value: float) -> str:
    if np.isnan(value):
        return "-"
    if ScoreTable.is_share(heading):
        return f"{value:.0%}"
    return f"{int(value):,}" if heading == "rows" else f"{value:.4g}"


def printable(text: str) -> str:
    """The text without control characters."""
    return "".join(letter for letter in text if letter.isprintable())


S = TypeVar("S", bound=Scores)


@dataclass(frozen=True)
class Task(State, ABC, Generic[S]):
    """The differences between regression and classification; the instances are `REGRESSION` and `CLASSIFICATION`.

    Predictions of n rows are an array F (n, d): the d outputs in their units, or the probabilities of the d classes;
    nan in rows that were not predicted. Outputs Y have the same shape: numbers, or 1 for the class of the row and 0 for
    the others; nan where missing. Baselines and scores therefore have the same interface for both:

        Y = task.outputs(y, classes)                     y: numbers, or codes of the labels in `classes`
        F = baseline.predict_then_learn(X, Y)
        scores = task.scores("last value", d)
        scores.add(F, Y, np.isfinite(Y))

    `numeric`: outputs are numbers, which are scaled and can have intervals and forecasts. `error_name`: label of
    `DriftResult.losses` on an axis.
    """

    name: ClassVar[str]
    numeric: ClassVar[bool]
    baselines: ClassVar[Mapping[str, type[Baseline]]]
    default_baselines: ClassVar[tuple[str, ...]]
    error_name: ClassVar[str]

    def baseline(self, baseline: Any) -> Baseline:
        """The baseline of that short name, or an unfitted copy of the given one."""
        if isinstance(baseline, Baseline):
            return baseline.replace()
        if isinstance(baseline, str) and baseline in self.baselines:
            return self.baselines[baseline]()
        names = ", ".join(map(repr, self.baselines))
        raise ValueError(f"baselines must be {names} or baselines of ovk.evaluation, got {baseline!r}")

    @abstractmethod
    def outputs(self, y: Array, classes: Any = ()) -> Array:
        """(n, d) outputs, from numbers (n,) or (n, d), or from codes of labels (n,) or (n, 1), nan where missing."""

    def targets(self, y: Array, classes: Any = ()) -> Any:
        """Targets of a model: numbers, or labels (n,), None where missing."""
        return y

    def decided(self, F: Array, classes: Any = ()) -> Any:
        """Predictions as shown to users: F, or the most probable labels (n,), None in rows not predicted."""
        return F

    def compact(self, F: Array) -> Array:
        """The smallest array from which `decided` can be computed."""
        return F

    @abstractmethod
    def skipped(self, X: Array, Y: Array, F: Array) -> Mask:
        """(n,) rows that the model skipped."""

    @abstractmethod
    def errors(self, F: Array, Y: Array) -> Array:
        """Errors (n, d) or (n, 1) of the rows, for drift detection."""

    @abstractmethod
    def learns_blocks(self, model: Any) -> bool:
        """Whether a model predicts each row of a block from the rows before it; TypeError if it is not a learner."""

    @abstractmethod
    def predict_then_learn(self, model: Any, X: Array, y: Any, classes: Any, **options: Any) -> Array:
        """Predictions F of a block by a model that learns blocks; `y` are targets, `options` sample_weight."""

    @abstractmethod
    def predict(self, model: Any, X: Array, classes: Any = ()) -> Array:
        """Predictions F of a model, without learning."""

    @abstractmethod
    def scores(self, name: str, d: int, *, probabilities: bool = True) -> S:
        """Scores of a learner before the first row; `probabilities`: whether a classifier predicts them."""

    @abstractmethod
    def tables(self, learners: Sequence[Any], names: Sequence[str]) -> list[ScoreTable]:
        """The scores of the learners, the model first."""

    @abstractmethod
    def conclusion(self, learners: Sequence[Any], names: Sequence[str]) -> str:
        """One sentence that compares the model, the first of the learners, with its best baseline."""

    @abstractmethod
    def against_best_baseline(self, learners: Sequence[Any]) -> tuple[str, float] | None:
        """Name of the best baseline, and the error of the model divided by its error; None if no row was tested."""


#: Errors whose ratio differs from 1 by at most this are reported as equal: the percentage would round to 0.
EQUAL_TOLERANCE = 0.005

#: Maximum number of outputs named in a sentence.
MAX_NAMES_IN_SENTENCE = 4


class Regression(Task[RegressionScores], kind="regression"):
    name = "regression"
    numeric = True
    baselines = {"last": LastValue, "mean": RunningMean, "ridge": RefittedRidge}
    default_baselines = ("last", "mean")
    error_name = "squared error /\nvariance of outputs"

    def outputs(self, y: Array, classes: Any = ()) -> Array:
        return y[:, None] if y.ndim == 1 else y

    def skipped(self, X: Array, Y: Array, F: Array) -> Mask:
        # A nan prediction of a valid row is an error of the model, and counts in its mean.
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
            f"got {type(model).__name__}: pass a batch estimator as baselines=[RefittedRidge(model)], and for delayed "
            "labels use DelayedLabels(WithIntervals(model))"
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
            return "There is no comparison yet: no row was tested with the model and a baseline."
        best, ratio = compared
        if ratio > 1 + EQUAL_TOLERANCE:
            size = f"{ratio - 1:.0%} higher" if ratio < 2 else f"{ratio:.3g} times as high"
            return f"{best!r}, the best baseline, is better: the model's mean squared error is {size}."
        size = f"{1 - ratio:.0%} below" if ratio >= 0.01 else "less than 1% of"
        found = f"The model's mean squared error is {size} that of {best!r}, the best baseline"
        if ratio >= 1 - EQUAL_TOLERANCE:
            found = f"The model is as good as {best!r}, the best baseline: their mean squared errors are within 1%"
        return f"{found}{_exceptions(learners, best, names)}."


def _relative(learners: Sequence[Any], error: str) -> tuple[str, Array] | None:
    """Name of the best baseline, and for each learner the geometric mean over outputs of the ratio of errors."""
    E = np.array([getattr(one, error) for one in learners])
    # An output without values, or with an exact baseline, has no ratio.
    known = (np.isfinite(E[1:]) & (E[1:] > 0)).all(axis=0)
    if len(E) == 1 or not known.any():
        return None
    with np.errstate(divide="ignore"):
        logs = np.log(E[:, known]).mean(axis=1)
    best = 1 + int(logs[1:].argmin())
    return learners[best].name, np.exp(logs - logs[best])


def _exceptions(learners: Sequence[Any], best: str, names: Sequence[str]) -> str:
    """A clause about the outputs for which the baseline is better, by squared or absolute error; may be empty."""
    model, *baselines = learners
    other = next(one for one in baselines if one.name == best)
    squared, absolute = model.mse > other.mse, model.mae > other.mae
    if len(names) == 1:
        return f"; by mean absolute error {best!r} is better" if absolute.any() else ""
    both = (("", squared), (" by mean absolute error", absolute & ~squared))
    worse = [f"for {_listed(names, where)}{by}" for by, where in both if where.any()]
    return f"; {best!r} is better {' and '.join(worse)}" if worse else ""


def _listed(names: Sequence[str], where: Mask) -> str:
    some = [name for name, one in zip(names, where, strict=True) if one]
    if len(some) > MAX_NAMES_IN_SENTENCE:
        some = [*some[: MAX_NAMES_IN_SENTENCE - 1], f"{len(some) - MAX_NAMES_IN_SENTENCE + 1} more outputs"]
    return " and ".join([*([", ".join(some[:-1])] if len(some) > 1 else []), some[-1]])


#: A class is rare if its share is below this fraction of 1 / number of classes; the accuracy is then uninformative.
RARE_SHARE = 0.2

#: Scores of a classifier: name, attribute of `ClassScores`, and whether the largest value is the best.
CLASS_SCORES = (
    ("accuracy", "accuracy", True),
    ("balanced accuracy", "balanced_accuracy", True),
    ("kappa", "kappa", True),
    ("log loss", "log_loss", False),
    ("AUC", "auc", True),
)


class Classification(Task[ClassScores], kind="classification"):
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
        """(n,) codes of the most probable classes, -1 in rows not predicted."""
        return np.where(np.isnan(F).any(axis=1), -1, F.argmax(axis=1))

    def skipped(self, X: Array, Y: Array, F: Array) -> Mask:
        return np.asarray(np.isnan(F).any(axis=1))

    def errors(self, F: Array, Y: Array) -> Array:
        return np.asarray(F.argmax(axis=1) != Y.argmax(axis=1), dtype=np.float64)[:, None]

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
        # Some classifiers need the classes at the start; the others find them in the labels.
        all_classes = np.asarray(classes) if first and isinstance(model, CodedClassifier) else None
        return by_label(model.predict_proba_then_learn(X, y, all_classes, **options), model.classes_, classes)

    def predict(self, model: Any, X: Array, classes: Any = ()) -> Array:
        if hasattr(model, "predict_proba"):
            P = by_label(model.predict_proba(X), model.classes_, classes)
            if np.isfinite(P).all():
                return P
        place = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
        return np.eye(len(classes))[[place[one] for one in np.asarray(model.predict(X)).tolist()]]

    def scores(self, name: str, d: int, *, probabilities: bool = True) -> ClassScores:
        missing = 0.0 if probabilities else np.nan
        return ClassScores(name, RunningSum.empty(2), np.zeros((d, d)), np.zeros((d, 2, PROBABILITY_BINS)), missing)

    def tables(self, learners: Sequence[Any], names: Sequence[str]) -> list[ScoreTable]:
        values = np.array([[getattr(one, attribute) for one in learners] for _, attribute, _ in CLASS_SCORES])
        titles, largest = tuple(name for name, _, _ in CLASS_SCORES), tuple(best for _, _, best in CLASS_SCORES)
        counts = learners[0].confusion.sum(axis=1)
        each = np.column_stack([counts, counts / max(counts.sum(), 1.0), learners[0].recall])
        scores = ScoreTable("scores", titles, tuple(one.name for one in learners), values, largest)
        return [scores, ScoreTable("classes", tuple(map(str, names)), ("rows", "share", "recall"), each)]

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
            return "There is no comparison yet: no row with a known label was tested."
        found = f"The model is right in {model.accuracy:.1%} of the rows"
        rare = int(np.where(counts > 0, counts, np.inf).argmin())
        note = ""
        if counts[rare] < RARE_SHARE * counts.sum() / max((counts > 0).sum(), 1):
            note = f" {str(names[rare])!r} is rare: see kappa, AUC and its recall ({model.recall[rare]:.0%})."
        if not baselines:
            return f"{found}.{note}"
        best = max(baselines, key=lambda one: one.accuracy)
        if model.accuracy > best.accuracy:
            return f"{found}, {best.name!r}, the best baseline, in {best.accuracy:.1%}.{note}"
        reason = "the inputs may not predict the classes, or the classes drift"
        if model.log_loss < best.log_loss:
            reason = "but its probabilities are better (log loss): weight them by the cost of each kind of error"
        return f"{found}, {best.name!r} in {best.accuracy:.1%}; {reason}.{note}"


def by_label(P: Any, known: Any, classes: Any) -> Array:
    """(n, K) probabilities of `classes`, from those of the `known` classes of a model; 0 for the others."""
    place = {label: k for k, label in enumerate(np.asarray(classes).tolist())}
    found = np.zeros((len(P), len(place)))
    found[:, [place[label] for label in known.tolist()]] = P
    return found


REGRESSION, CLASSIFICATION = Regression(), Classification()


def task_of(model: Any) -> Task[Any]:
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
