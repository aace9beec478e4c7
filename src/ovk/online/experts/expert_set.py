"""Experts: ridge regressions that share inputs, kernel values and features.

The columns of a row are [last labels | 1 | inputs | features of the kernel], and each expert uses a contiguous range of
them. The features of the kernel are psi = L^-1 k_D(u) with K_DD = L L' for the points D of a dictionary. They are
nested: the first m features belong to the first m points.

Outputs observed in different rows have separate expert sets, so that a row updates only the outputs observed in it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
from scipy.linalg.blas import dtrmm, dtrmv, dtrsm, ssyrk, strsm
from scipy.linalg.lapack import dpotrf, dtrtri, spotrf
from scipy.spatial.distance import pdist

from ovk.base import Array, State, one_blas_thread
from ovk.online.experts.logistic import OnlineLogistic
from ovk.online.second_order.decaying_ridge import REPLAY_ROWS, DecayingRidge, append_row
from ovk.online.shared.rows import MAX_DEVIATIONS, MAX_OUTLIER_SHARE, Scale

# A refit selects the length scale, the ridge weights, whether to use the last label, and a metric of the inputs.
#
# Candidates are compared by their progressive errors on the last rows, in closed form: with K + alpha I = C C', row i
# predicted from the rows before it has the residual e_i = C_ii (C^-1 Y)_i. If alpha is at least `MIN_SINGLE_ALPHA`,
# the error of single precision is far below the differences between candidates.
#
# A refit is a generator, so that a mixture can split it over the following rows. Each step yields its cost in
# multiplications, which depends on nothing but the rows.

#: Numbers of rows after which a refit starts.
REFIT_ROWS = (20, 60, 200, 600, 2_000, 6_000, 20_000, 60_000)
#: Rows stored for the next refit, and the last of them, on which candidates are compared.
MAX_ROWS_KEPT, ROWS_COMPARED = 10_000, 600
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
ALPHAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
#: Residuals are clipped to this many standard deviations of the outputs.
MAX_RESIDUAL = 5.0
#: Rows on which a metric is learned, and the number of fits, each with the metric of the previous one.
METRIC_ROWS, METRIC_STEPS = (300, 600, 1200), 5
#: A metric must lower the score by this share.
MIN_METRIC_GAIN = 0.02
#: Kernel values of a triangle are computed in bands of this many rows.
BAND_ROWS = 100
#: Lower bounds of alpha for scores in single precision, and for the fits that metrics are learned from.
MIN_SINGLE_ALPHA, MIN_FIT_ALPHA = 1e-2, 1e-3
#: Cost of a kernel value and of calling a function in multiplications, and rows of the blocks of a fit.
KERNEL_COST, CALL_COST, FIT_BLOCK = 60.0, 2e6, 400
#: Kernel values are at least exp(-MAX_EXPONENT), which is negligible: exponentials that underflow are slow.
MAX_EXPONENT = 100.0


T = TypeVar("T")
Steps = Generator[float, None, T]


def completed(steps: Steps[T]) -> T:
    """The result of all steps."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: T = stop.value
            return found


@dataclass
class Choice(State):
    """The result of a refit: whether the last label is an input of the kernel, the width for inputs times the metric,
    (p,) or (p + d,), and the ridge parameters of the kernel and linear experts.
    """

    _stored = {"metric": "c"}

    lag: bool
    width: float
    metric: Array
    alpha: float
    linear_alpha: float

    def select(self, X: Array, last: Array) -> Array:
        return np.hstack([X, last]) if self.lag else X

    def scaled(self, U: Array) -> tuple[Array, Array]:
        """Inputs in units in which the Gaussian is exp(-|u - v|^2), and their squared norms."""
        U = U * (self.metric / (np.sqrt(2.0) * self.width))
        return U, np.einsum("ij,ij->i", U, U)

    def kernel(self, U: Array, V: Array) -> Array:
        return gaussian(*self.scaled(U), *self.scaled(V))


def gaussian(U: Array, lengths: Array, V: Array, others: Array) -> Array:
    """(n, m) values exp(-|u - v|^2) of rows with the given squared norms."""
    D = U @ V.T
    D *= -2.0
    D += lengths[:, None]
    D += others
    return _exponentials(D, -1.0)


def _exponentials(D: Array, factor: float) -> Array:
    """exp(factor D) for a negative factor, overwriting the squared distances D."""
    D *= factor
    np.minimum(D, 0.0, out=D)
    np.maximum(D, -MAX_EXPONENT, out=D)
    return np.exp(D, out=D)


def choose(
    X: Array,
    last: Array,
    Y: Array,
    weights: Array | None = None,
    *,
    classes: bool,
    previous: Sequence[Choice] = (),
    rows: int = ROWS_COMPARED,
    widths: tuple[float, ...] = WIDTHS,
    shares: Array | None = None,
) -> Steps[Choice]:
    """The best candidate on the last `rows` rows.

    X, `last` and Y are (n, p), (n, d) and (n, d) standardised inputs, last labels and labels, nan where missing;
    classes are 0 and 1. `weights` (n,) multiply the losses. `previous` are further candidates; `widths` are relative to
    the median distance of the inputs. `shares` (d,) are the weights of the outputs, by default 1.
    """
    compared = _CandidateScores(X, last, Y, weights, rows, shares, classes=classes)
    yield 2.0 * KERNEL_COST * min(len(X), rows) ** 2
    linear_alpha = yield from compared.best_linear(ALPHAS[::2])
    starts = []
    for lag in (False, True):
        U = compared.inputs(lag)
        median, metric = _median_distance(U), np.ones(U.shape[1])
        starts += [Choice(lag, width * median, metric, 0.1, linear_alpha) for width in widths]
    starts += [replace(choice, linear_alpha=linear_alpha) for choice in previous]
    _, best = yield from compared.best(starts)
    _, best = yield from compared.best(replace(best, alpha=alpha) for alpha in ALPHAS)
    least, best = yield from compared.best(replace(best, width=width * best.width) for width in (0.5, 0.7, 1, 1.4, 2.0))
    if len(X) >= 200:
        found, other = yield from compared.best_with_metric(best)
        if found < (1.0 - MIN_METRIC_GAIN) * least:
            best = other
    return best


class _CandidateScores:
    """Scores of candidates on the last rows: means over the observed labels.

    Outputs observed in the same rows share a linear system. With k systems each has 1 / k^(1/3) of the rows, so that
    together they take as long as one.
    """

    def __init__(
        self, X: Array, last: Array, Y: Array, weights: Array | None, rows: int, shares: Array | None, *, classes: bool
    ) -> None:
        shares = np.ones(Y.shape[1]) if shares is None else shares
        # Outputs in one system have equal weights.
        patterns, which = np.unique(np.vstack([shares, np.isfinite(Y)]), axis=1, return_inverse=True)
        some = np.flatnonzero((patterns[0] > 0.0) & patterns[1:].any(axis=0))
        self._fewer, self._groups, counts = len(some) ** (-1 / 3), list[_GroupScores](), []
        for number in some:
            observed, outputs = patterns[1:, number] > 0.0, which.ravel() == number
            own = None if weights is None else weights[observed]
            part = X[observed], last[observed], Y[observed][:, outputs], own
            self._groups.append(_GroupScores(*part, round(rows * self._fewer), classes=classes))
            counts.append(patterns[0, number] * self._groups[-1].count)
        self._shares = np.array(counts) / sum(counts)

    def inputs(self, lag: bool) -> Array:
        return np.vstack([part.inputs[lag] for part in self._groups])

    def best_linear(self, alphas: Iterable[float]) -> Steps[float]:
        found = []
        for alpha in alphas:
            found.append(((yield from self._scores((part.linear_score(alpha) for part in self._groups), alpha)), alpha))
        return min(found)[1]

    def score(self, choice: Choice) -> Steps[float]:
        return (yield from self._scores((part.score(choice) for part in self._groups), choice.alpha))

    def _scores(self, parts: Iterator[float], alpha: float) -> Steps[float]:
        found = []
        for part, one in zip(self._groups, parts, strict=True):
            found.append(one)
            yield part.cost if alpha < MIN_SINGLE_ALPHA else 0.5 * part.cost
        return float(self._shares @ found)

    def best(self, candidates: Iterable[Choice]) -> Steps[tuple[float, Choice]]:
        found = []
        for candidate in candidates:
            score = yield from self.score(candidate)
            found.append((score, candidate))
        return min(found, key=lambda pair: pair[0])

    def best_with_metric(self, choice: Choice) -> Steps[tuple[float, Choice]]:
        """The best metric and width, and their score.

        Metrics are learned from gradients of fits to rows that are not scored: fits to few rows, in case the stream has
        changed, and to more rows if available.
        """
        found, sizes = [], list[tuple[int, ...]]()
        for number in METRIC_ROWS:
            fits = [part.fit(choice, round(number * self._fewer)) for part in self._groups]
            if tuple(len(fit.U) for fit in fits) in sizes:
                continue
            sizes.append(tuple(len(fit.U) for fit in fits))
            tried, size = choice, _median_distance(np.vstack([fit.U for fit in fits]) * choice.metric)
            for _ in range(METRIC_STEPS):
                squares = []
                for fit in fits:
                    squares.append((yield from fit.gradients(tried)))
                # Root mean squared gradient of the fit along each input, divided by the largest.
                slopes, before = np.sqrt(self._shares @ squares), size
                metric = np.maximum(slopes / slopes.max(), 1e-3) if slopes.max() > 0.0 else tried.metric
                size = _median_distance(np.vstack([fit.U for fit in fits]) * metric)
                widths = (width * size / before * tried.width for width in (0.7, 1.0, 1.4))
                found.append((yield from self.best(replace(tried, metric=metric, width=width) for width in widths)))
                tried = found[-1][1]
        return min(found, key=lambda pair: pair[0])


class _GroupScores:
    """Scores of candidates for outputs observed in all of these rows.

    Consecutive candidates with the same metric share distances, and kernel values if their width is the same too.
    """

    def __init__(self, X: Array, last: Array, Y: Array, weights: Array | None, rows: int, *, classes: bool) -> None:
        recent = slice(max(0, len(X) - rows), None)
        self._rows, self._columns = (X, last, Y, weights), X.shape[1] + last.shape[1]
        #: Index of the first scored row.
        self._stop = len(X) - min(len(X), rows) // 2
        x, lags = X[recent], last[recent]
        self.inputs = {False: x, True: np.hstack([x, lags])}
        #: Linear grams, by the use of the last label and precision.
        self._linears = dict[tuple[bool, Any], Array]()
        self._y, self._classes = Y[recent], classes
        #: Cost of a score.
        self.cost = _cost(len(x))
        self._weights = None if weights is None else weights[recent]
        self.count = self._y[len(x) // 2 :].size
        self._metric: tuple[Array | None, Any] = None, float
        self._width = np.nan

    def linear_score(self, alpha: float) -> float:
        return score(self._linear(True, _precision(alpha)), self._y, alpha, self._weights, classes=self._classes)

    def _linear(self, lag: bool, kind: Any) -> Array:
        if (lag, kind) not in self._linears:
            self._linears[lag, kind] = _linear(self.inputs[lag].astype(kind), self._columns)
        return self._linears[lag, kind]

    def score(self, choice: Choice) -> float:
        kind = _precision(choice.alpha)
        if choice.metric is not self._metric[0] or kind is not self._metric[1]:
            U = (self.inputs[choice.lag] * choice.metric).astype(kind)
            lengths = np.einsum("ij,ij->i", U, U)
            D = U @ U.T
            D *= -2.0
            D += lengths[:, None]
            D += lengths
            self._distances, self._metric, self._width = D, (choice.metric, kind), np.nan
        if choice.width != self._width:
            self._K, rows = np.empty_like(self._distances), len(self._distances)
            # `score` reads the upper triangle only.
            for start in range(0, rows, BAND_ROWS):
                band = (slice(start, start + BAND_ROWS), slice(start, rows))
                K = self._K[band]
                K[:] = self._distances[band]
                _exponentials(K, -0.5 / choice.width**2)
                K += self._linear(choice.lag, kind)[band]
            self._width = choice.width
        return score(self._K, self._y, choice.alpha, self._weights, classes=self._classes)

    def fit(self, choice: Choice, number: int) -> _Fit:
        """The last rows before the scored ones."""
        some = slice(max(0, self._stop - number), self._stop)
        X, last, Y, weights = self._rows
        U: Any = choice.select(X[some], last[some]).astype(np.float32)
        return _Fit(U, Y[some], None if weights is None else weights[some], self._columns)


def _precision(alpha: float) -> Any:
    return np.float32 if alpha >= MIN_SINGLE_ALPHA else np.float64


def _cost(n: int) -> float:
    """Cost of a gram of n rows and its factor."""
    return CALL_COST + n * n * (n / 6.0 + 0.5 * KERNEL_COST)


def score(K: Array, Y: Array, alpha: float, weights: Array | None = None, *, classes: bool) -> float:
    """Weighted mean of the squared progressive residuals of the second half of the rows, in the precision of K.

    A row of weight v has alpha / v on the diagonal; its own residual does not depend on v.
    """
    potrf, trsm = (spotrf, strsm) if K.dtype == np.float32 else (dpotrf, dtrsm)
    A = K.T.copy(order="F")
    A.flat[:: len(A) + 1] += alpha if weights is None else alpha / weights
    C, info = potrf(A, lower=1, overwrite_a=1, clean=0)
    if info:
        return float("inf")
    e = np.diag(C)[:, None] * trsm(1.0, C, Y, lower=1)
    if classes:
        e = Y - np.clip(Y - e, 0.0, 1.0)
    half = slice(len(e) // 2, None)
    losses = np.mean(np.minimum(e[half] ** 2, MAX_RESIDUAL**2), axis=1, dtype=float)
    return float(np.average(losses, weights=None if weights is None else weights[half]))


class _Fit(NamedTuple):
    """A fit in single precision, from (n, p) inputs, (n, d) labels and weights (n,); p' `columns` with last labels."""

    U: Array
    Y: Array
    weights: Array | None
    columns: int

    def gradients(self, choice: Choice) -> Steps[Array]:
        """(p,) sums over the outputs of the mean squared gradient along each input; 0 if the fit fails."""
        weights, total = self.weights, np.zeros(self.U.shape[1])
        U: Any
        lengths: Any
        U, lengths = (part.astype(np.float32) for part in choice.scaled(self.U))
        K, A = (np.empty((len(U), len(U)), np.float32, order) for order in ("C", "F"))
        for start in range(0, len(U), FIT_BLOCK):
            some = slice(start, start + FIT_BLOCK)
            K[some] = gaussian(U[some], lengths[some], U, lengths)
            A[:, some] = (K[some] + _linear(self.U[some], self.columns, self.U)).T
            yield 0.5 * KERNEL_COST * K[some].size
        alpha = max(choice.alpha, MIN_FIT_ALPHA)
        A.flat[:: len(A) + 1] += alpha if weights is None else alpha / weights
        for start in range(0, len(A), FIT_BLOCK):
            here, rest = slice(start, start + FIT_BLOCK), slice(start + FIT_BLOCK, None)
            A[here, here], info = spotrf(A[here, here], lower=1, clean=1)
            if info:
                return total
            if start + FIT_BLOCK < len(A):
                A[rest, here] = strsm(1.0, A[here, here], A[rest, here], side=1, lower=1, trans_a=1)
                A[rest, rest] = ssyrk(-1.0, A[rest, here], 1.0, A[rest, rest], lower=1)
            yield 0.5 * (_cost(len(A[here])) + A[rest, here].size * (FIT_BLOCK + 0.5 * len(A[rest])))
        coefficients = strsm(1.0, A, strsm(1.0, A, self.Y, lower=1), lower=1, trans_a=1)
        factor, U = (choice.metric / choice.width) ** 2, self.U
        for c in coefficients.T:
            # d/du_j sum_i c_i k(u, u_i) = sum_i c_i k(u, u_i) (u_ij - u_j) factor_j, and the linear part.
            gradient = (K @ (c[:, None] * U) - (K @ c)[:, None] * U) * factor + (c @ U) * linear_weight(U.shape[1])
            total += np.average(gradient**2, axis=0, weights=weights)
            yield K.size * U.shape[1]
        return total


def linear_weight(inputs: int) -> float:
    return 1.0 / inputs


def _linear(U: Array, inputs: int, V: Array | None = None) -> Array:
    found: Array = linear_weight(inputs) * U @ (U if V is None else V).T
    found += 1.0
    return found


def _median_distance(U: Array) -> float:
    D = pdist(U[:: max(1, len(U) // 200)])
    positive = D[D > 0.0]
    return float(np.median(positive)) if len(positive) else 1.0


#: Maximum size of the dictionary, and of that of the kernel expert kept from before a refit.
MAX_POINTS, PREVIOUS_POINTS = 600, 300
#: Windows of the kernel experts and the points that each uses; None never forgets.
KERNEL_WINDOWS: tuple[tuple[int | None, int], ...] = ((None, MAX_POINTS), (4096, 400), (1024, 250), (256, 100))
#: Number of rows in a block of experts that never forget; their predictions do not depend on it.
BLOCK = 100
LINEAR_WINDOWS: tuple[int | None, ...] = (None, 1024, 256)
MEAN_WINDOWS: tuple[int | None, ...] = (None, 256)
#: Index of the mean over the shorter window among the experts.
RECENT_MEAN = 1
LOGISTIC_WINDOWS: tuple[int | None, ...] = (None, 1024)
LOGISTIC_ALPHA = 0.01
#: Index of the kernel expert that is kept after a refit.
KERNEL_EXPERT = len(MEAN_WINDOWS) + 1 + 2 * len(LINEAR_WINDOWS)
#: Index and window of the expert that predicts from the last label alone.
TRANSITIONS, TRANSITION_WINDOW = len(MEAN_WINDOWS), 2048
#: Residuals are clipped to this multiple of the largest recent one.
RESIDUAL_FACTOR = 2.0
#: Outputs share experts if at most this share of their rows has only one of them; maximum number of groups.
MAX_SHARE_UNSHARED, MAX_GROUPS = 0.1, 8
#: Number of labels at which other outputs have weight 1/2 in a refit, and the weight below which they are ignored.
HALF_SHARE_LABELS, MIN_SHARE = 60, 0.25
#: Added to the diagonal of the dictionary's gram, whose points may be close to each other.
JITTER = 1e-6


def experts_and_windows(*, classes: bool) -> list[tuple[str, int | None]]:
    found: list[tuple[str, int | None]] = [("mean", window) for window in MEAN_WINDOWS]
    found.append(("transitions", TRANSITION_WINDOW))
    found += [(name, window) for name in ("linear with last label", "linear") for window in LINEAR_WINDOWS]
    found += [("kernel", window) for window, _ in KERNEL_WINDOWS]
    return found + ([("logistic", window) for window in LOGISTIC_WINDOWS] if classes else [])


def discount_for(window: int | None) -> float:
    """The discount g with the effective number of rows (sum g^t)^2 / sum g^2t = window."""
    return 1.0 if window is None else 1.0 - 2.0 / (window + 1.0)


def group_outputs(Y: Array) -> list[list[int]]:
    """Groups of outputs observed in nearly the same rows."""
    known, groups = np.isfinite(Y), list[list[int]]()
    for j, own in enumerate(known.T):
        firsts = known[:, [group[0] for group in groups]].T
        unshared = [(own ^ first).sum() / max((own | first).sum(), 1) for first in firsts]
        if unshared and (min(unshared) <= MAX_SHARE_UNSHARED or len(groups) == MAX_GROUPS):
            groups[int(np.argmin(unshared))].append(j)
        else:
            groups.append([j])
    return groups


def _whitening(choice: Choice, points: Array) -> Steps[Array]:
    """(k, k) L^-1, lower triangular, where L L' is the gram of k points."""
    if not len(points):
        return np.empty((0, 0))  # LAPACK would print a message
    gram = np.asfortranarray(choice.kernel(points, points))
    gram.flat[:: len(gram) + 1] += JITTER
    root, info = dpotrf(gram, lower=1)
    if info:
        raise ValueError("the points of the dictionary have no positive definite gram")
    yield _cost(len(gram))
    inverse, _ = dtrtri(root, lower=1)
    yield _cost(len(gram))
    return np.asfortranarray(np.tril(inverse))


class ExpertSet(State):
    """Experts fitted to the stored rows, which continue to learn.

    X, `last` and Y are (n, p), (n, d) and (n, d) inputs, last labels and labels, nan where missing; units and points
    ignore the weights (n,). `previous` choices are further candidates; `outputs` are learned, None for all.
    """

    _saved_state = (
        *("inputs", "labels", "classes", "choice", "points", "spans", "ridges", "logistic"),
        *("outputs", "count"),
    )
    _rows_compared, _widths = ROWS_COMPARED, WIDTHS
    _state_classes = {
        "inputs": Scale,
        "labels": Scale,
        "choice": Choice,
        "ridges": DecayingRidge,
        "logistic": OnlineLogistic,
    }
    _stored = {
        "inputs labels": Scale,
        "classes": bool,
        "choice": Choice,
        "points": "k c",
        "spans": list[list[int]],
        "ridges": list[DecayingRidge],
        "logistic": list[OnlineLogistic],
        "outputs": list[int] | None,
        "count": int,
    }

    inputs: Scale
    labels: Scale
    classes: bool
    choice: Choice
    points: Array
    spans: list[list[int]]
    ridges: list[DecayingRidge]
    logistic: list[OnlineLogistic]
    outputs: list[int] | None
    count: int

    @classmethod
    def fit(
        cls,
        X: Array,
        last: Array,
        Y: Array,
        weights: Array | None,
        classes: bool,
        previous: Sequence[Choice] = (),
        outputs: list[int] | None = None,
    ) -> Steps[ExpertSet]:
        self, (p, d) = cls(), (X.shape[1], Y.shape[1])
        self.inputs, self.labels, self.classes = Scale.from_rows(X), Scale.from_rows(Y, MAX_OUTLIER_SHARE), classes
        self.outputs = outputs
        x, lags, y = self.inputs.inputs(X), self.labels.inputs(last), self._targets(Y)
        known = ~np.isnan(y).all(axis=1)
        self.count = int(known.sum())
        shares = None
        if outputs is not None:
            # With few labels, use those of other outputs in the selection as well.
            shares = np.full(d, HALF_SHARE_LABELS / (HALF_SHARE_LABELS + self.count))
            shares[shares < MIN_SHARE] = 0.0
            shares[outputs] = 1.0
        self.choice = yield from choose(
            *(x, lags, Y if classes else self.labels.outputs(Y), weights),
            classes=classes,
            previous=[choice for choice in previous if len(choice.metric) == p + choice.lag * d],
            rows=self._rows_compared,
            widths=self._widths,
            shares=shares,
        )
        if not known.all():
            x, lags, y, weights = x[known], lags[known], y[known], None if weights is None else weights[known]
        sample = np.random.default_rng(len(x)).permutation(len(x))[:MAX_POINTS]
        self.points = self.choice.select(x[sample], lags[sample])
        self.whitening = yield from _whitening(self.choice, self.points)
        self.spans, self.ridges, self.logistic = [], [], []
        one, end = d, d + 1 + p
        first = 0 if self.choice.lag else one
        alpha, linear = self.choice.alpha, self.choice.linear_alpha
        for window in MEAN_WINDOWS:
            self._add(one, one + 1, 1e-6, window, y.shape[1])
        self._add(0, one + 1, 1e-3, TRANSITION_WINDOW, y.shape[1])
        for start in (0, one):
            for window in LINEAR_WINDOWS:
                self._add(start, end, linear, window, y.shape[1])
        for window, size in KERNEL_WINDOWS:
            self._add(first, end + min(size, len(self.points)), alpha, window, y.shape[1])
        if classes:
            for window in LOGISTIC_WINDOWS:
                self.spans.append([first, end])
                start = np.zeros((end - first, d))
                self.logistic.append(OnlineLogistic(start, LOGISTIC_ALPHA, discount=discount_for(window)))
        R = np.empty((len(x), self._width()))
        for begin in range(0, len(x), REPLAY_ROWS):
            some = slice(begin, begin + REPLAY_ROWS)
            R[some] = self._columns(x[some], lags[some])
            yield len(R[some]) * len(sample) * (0.5 * len(sample) + KERNEL_COST)
        for (start, stop), expert in zip(self.spans, self._experts(), strict=True):
            yield from expert.replay(R[:, start:stop], y, weights)
        return self

    #: L^-1, which files do not store, and the points in the units of the kernel with their squared norms, computed on
    #: first use.
    whitening: Array
    _scaled_points: tuple[Array, Array] | None = None

    @classmethod
    def _build(cls, state: Mapping[str, Any]) -> Self:
        built = super()._build(state)
        with one_blas_thread():
            built.whitening = completed(_whitening(built.choice, built.points))
        return built

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self).from_state, (self.state(),)

    @property
    def columns(self) -> Any:
        return slice(None) if self.outputs is None else self.outputs

    def _experts(self) -> list[DecayingRidge | OnlineLogistic]:
        return [*self.ridges, *self.logistic]

    def only_kernel(self) -> ExpertSet:
        """Only the kernel expert that never forgets, with the first points of the dictionary."""
        copy = self._replace(_scaled_points=None)
        start, stop = self.spans[KERNEL_EXPERT]
        cut = max(0, len(self.points) - PREVIOUS_POINTS)
        copy.points = self.points[: len(self.points) - cut]
        copy.whitening = completed(_whitening(self.choice, copy.points))
        copy.spans, copy.logistic = [[start, stop - cut]], []
        copy.ridges = [self.ridges[KERNEL_EXPERT].leading(stop - cut - start)]
        return copy

    def predict_and_update(self, X: Array, last: Array, Y: Array, weights: Array | None = None) -> Array:
        """(n, k, d) predictions of the experts, each made before its row is learned."""
        x, lags, y = self.inputs.inputs(X), self.labels.inputs(last), self._targets(Y)
        known = ~np.isnan(y).all(axis=1)
        self.count += int(known.sum())
        if known.all():
            R = self._columns(x, lags)
        else:
            # Separately, so that rows without labels do not change the rounding of the others.
            R = np.empty((len(x), self._width()))
            for some in (known, ~known):
                R[some] = self._columns(x[some], lags[some])
        F, ridges = np.empty((len(R), len(self.spans), y.shape[1])), len(self.ridges)
        done = 0
        if len(R) == 1 and not np.isnan(y).any():
            rows = [R[0, start:stop] for start, stop in self.spans[:ridges]]
            F[0, :ridges] = append_row(self.ridges, rows, y[0], 1.0 if weights is None else sqrt(weights[0]))
            done = ridges
        for k, expert in enumerate(self._experts()[done:], done):
            start, stop = self.spans[k]
            F[:, k] = expert.predict_and_update(R[:, start:stop], y, weights)
        return self._predictions(F)

    def predict(self, X: Array, last: Array) -> Array:
        R = self._columns(self.inputs.inputs(X), self.labels.inputs(last))
        F = [
            expert.predict(R[:, start:stop]) for (start, stop), expert in zip(self.spans, self._experts(), strict=True)
        ]
        return self._predictions(np.stack(F, axis=1))

    def _add(self, start: int, stop: int, alpha: float, window: int | None, outputs: int) -> None:
        limit, robust = (np.inf, np.inf) if self.classes else (MAX_DEVIATIONS, RESIDUAL_FACTOR)
        settings: dict[str, Any] = {"block": BLOCK if window is None else None, "limit": limit, "robust": robust}
        ridge = DecayingRidge(stop - start, outputs, alpha, discount=discount_for(window), **settings)
        self.spans.append([start, stop])
        self.ridges.append(ridge)

    def _targets(self, Y: Array) -> Array:
        y = Y if self.classes else self.labels.outputs(Y)
        return y if self.outputs is None else y[:, self.outputs]

    def _predictions(self, F: Array) -> Array:
        units = Scale(self.labels.centre[self.columns], self.labels.scale[self.columns])
        return F if self.classes else units.predictions(F)

    def loo_predictions(self, X: Array, last: Array, Y: Array, weights: Array | None) -> Array:
        """(n, d) leave-one-out predictions of the rows of the fit, by the kernel expert that never forgets."""
        start, stop = self.spans[KERNEL_EXPERT]
        R = self._columns(self.inputs.inputs(X), self.labels.inputs(last))[:, start:stop]
        ridge, y = self.ridges[KERNEL_EXPERT], self._targets(Y)
        losses = np.ones((len(y), 1)) if weights is None else weights[:, None]
        found = np.where(np.isnan(y), ridge.predict(R), y - ridge.loo_residuals(R, y, losses))
        return self._predictions(found)

    def _width(self) -> int:
        return len(self.labels.scale) + 1 + len(self.inputs.scale) + len(self.points)

    def _columns(self, x: Array, lags: Array) -> Array:
        n, (p, d) = len(x), (x.shape[1], lags.shape[1])
        scale = np.sqrt(linear_weight(p + d))
        R = np.empty((n, self._width()))
        R[:, :d], R[:, d], R[:, d + 1 : d + 1 + p] = scale * lags, 1.0, scale * x
        if self._scaled_points is None:
            self._scaled_points = self.choice.scaled(self.points)
        K = gaussian(*self.choice.scaled(self.choice.select(x, lags)), *self._scaled_points)
        if n == 1:
            R[0, d + 1 + p :] = dtrmv(self.whitening, K[0], lower=1)
        else:
            R[:, d + 1 + p :] = dtrmm(1.0, self.whitening, K.T, lower=1).T
        return R


#: Ridge weight, in units in which labels have a standard deviation of 1.
OTHER_OUTPUTS_ALPHA = 0.1


class OtherOutputs(State):
    """Corrections of each output by the predictions of the others, so that related outputs share labels.

    With the predictions f of all outputs, each from its own labels, output j is predicted by

        f_j + b_j' (1, f),        b_j a ridge regression of the residuals y_j - f_j.

    This helps where outputs are observed in different rows: the errors of their predictions then differ, and average
    out.
    """

    _saved_state = ("units", "groups", "ridges")
    _state_classes = {"units": Scale, "ridges": DecayingRidge}
    _stored = {"units": Scale, "groups": list[list[int]], "ridges": list[DecayingRidge]}

    def __init__(
        self, F: Array, Y: Array, weights: Array | None, units: Scale, groups: list[list[int]], robust: float
    ) -> None:
        self.units, self.groups = units, groups
        features = F.shape[1] + 1
        self.ridges = [DecayingRidge(features, len(outputs), OTHER_OUTPUTS_ALPHA, robust=robust) for outputs in groups]
        f, residuals = self._rows(F), (Y - F) / units.scale
        for outputs, ridge in zip(groups, self.ridges, strict=True):
            completed(ridge.replay(f, residuals[:, outputs], weights))

    def predict(self, F: Array) -> Array:
        f = self._rows(F)
        return self._corrected(F, [ridge.predict(f) for ridge in self.ridges])

    def predict_and_update(self, F: Array, Y: Array, weights: Array | None = None) -> Array:
        f, residuals = self._rows(F), (Y - F) / self.units.scale
        pairs = zip(self.groups, self.ridges, strict=True)
        return self._corrected(
            F, [ridge.predict_and_update(f, residuals[:, outputs], weights) for outputs, ridge in pairs]
        )

    def _rows(self, F: Array) -> Array:
        return np.hstack([np.ones((len(F), 1)), self.units.outputs(F)])

    def _corrected(self, F: Array, found: list[Array]) -> Array:
        Z = F.copy()
        for outputs, residuals in zip(self.groups, found, strict=True):
            Z[:, outputs] += self.units.scale[outputs] * residuals
        return Z
