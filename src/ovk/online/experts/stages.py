"""The rows that a stage is chosen on, and what is chosen: width, ridge, last label or not, and a metric of the inputs.

Candidates are compared by their progressive errors on the last rows, in closed form: with K + alpha I = C C', row i
predicted from the rows before it has the residual e_i = C_ii (C^-1 Y)_i.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf
from scipy.spatial.distance import pdist

from ovk.base import Array, State
from ovk.online.shared.rows import RowBuffer

#: Numbers of rows after which choices are made anew.
REFIT_ROWS = (20, 60, 200, 600, 2_000, 6_000, 20_000, 60_000)
#: Rows kept for the next stage, and those among them that candidates are compared on.
MAX_ROWS_KEPT, ROWS_COMPARED = 10_000, 600
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
ALPHAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
#: Residuals count as at most this, in deviations of the outputs.
MAX_RESIDUAL = 5.0
#: Rows that a metric is learned on.
METRIC_ROWS = (300, 600, 1200)
#: Fits that a metric is learned by, each with the metric of the one before.
METRIC_STEPS = 5
#: A metric must lower the score by this share.
MIN_METRIC_GAIN = 0.02
#: Rows of a band in which kernel values of a triangle are computed.
BAND_ROWS = 100
#: Kernel values are at least exp(-MAX_EXPONENT), which is nothing beside 1: exponentials that underflow are slow.
MAX_EXPONENT = 100.0


class RecentRows(State):
    """The last rows up to a number, with the label before each, and with their weights once there are any.

    Parameters
    ----------
    most : rows kept
    """

    _saved_state = ("most", "rows")
    _state_classes = {"rows": RowBuffer}

    def __init__(self, most: int, inputs: int, outputs: int) -> None:
        self.most = most
        self.rows = RowBuffer((np.empty((0, inputs)), np.empty((0, outputs)), np.empty((0, outputs))))

    def append(self, X: Array, last: Array, Y: Array, weights: Array | None = None) -> None:
        """Add rows; the oldest are dropped."""
        if weights is not None and len(self.rows.arrays) == 3:
            self.rows = RowBuffer((*self.rows.arrays, np.ones(len(self.rows))))
        further = () if len(self.rows.arrays) == 3 else (1.0 if weights is None else weights,)
        self.rows.append(X, last, Y, *further)
        self.rows.drop(max(0, len(self.rows) - self.most))

    def collect(self) -> tuple[Array, Array, Array, Array | None]:
        """(n, p) inputs, (n, d) last labels, (n, d) labels and (n,) weights of the rows kept; None for weights of 1."""
        X, last, Y, *weights = self.rows.arrays
        return X, last, Y, weights[0] if weights else None

    def replace_labels(self, Y: Array) -> None:
        """Other labels for the rows kept."""
        self.rows.replace(2, Y)


@dataclass
class Choice(State):
    """What a stage has chosen.

    Parameters
    ----------
    lag : whether the last label is an input of the kernel
    width : of the Gaussian exp(-|u - v|^2 / 2 width^2) of inputs times the metric
    metric : (p + d,) or (p,) factor of each input
    alpha, linear_alpha : ridges of the kernel and of the linear experts
    """

    lag: bool
    width: float
    metric: Array
    alpha: float
    linear_alpha: float

    def select(self, X: Array, last: Array) -> Array:
        """Inputs of the kernel."""
        return np.hstack([X, last]) if self.lag else X

    def scaled(self, U: Array) -> tuple[Array, Array]:
        """Inputs in units in which the Gaussian is exp(-|u - v|^2), and their squared lengths."""
        U = U * (self.metric / (np.sqrt(2.0) * self.width))
        return U, np.einsum("ij,ij->i", U, U)

    def kernel(self, U: Array, V: Array) -> Array:
        """(n, m) Gaussian of inputs."""
        return gaussian(*self.scaled(U), *self.scaled(V))


def gaussian(U: Array, lengths: Array, V: Array, others: Array) -> Array:
    """(n, m) values exp(-|u - v|^2) for rows with these squared lengths."""
    D = U @ V.T
    D *= -2.0
    D += lengths[:, None]
    D += others
    return _exponentials(D, -1.0)


def _exponentials(D: Array, factor: float) -> Array:
    """exp(factor D), for a negative factor, in place of the squared distances D."""
    D *= factor
    np.minimum(D, 0.0, out=D)
    np.maximum(D, -MAX_EXPONENT, out=D)
    values: Array = np.exp(D, out=D)
    return values


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
) -> Choice:
    """The best candidate for the last rows.

    Parameters
    ----------
    X, last, Y : (n, p), (n, d), (n, d) inputs, last labels and labels in the stage's units, nan where missing; classes
        are 0 and 1
    weights : (n,) what the losses of the rows are multiplied by, above 0
    previous : further candidates, such as the choice of the last stage
    rows : how many candidates are compared on
    widths : candidates, in median distances of the inputs
    shares : (d,) what a label of each output counts, by default 1
    """
    compared = _Compared(X, last, Y, weights, rows, shares, classes=classes)
    linear_alpha = min(ALPHAS[::2], key=compared.linear_score)
    starts = []
    for lag in (False, True):
        U = compared.inputs(lag)
        median, metric = _median_distance(U), np.ones(U.shape[1])
        starts += [Choice(lag, width * median, metric, 0.1, linear_alpha) for width in widths]
    starts += [replace(choice, linear_alpha=linear_alpha) for choice in previous]
    _, best = compared.best(starts)
    _, best = compared.best(replace(best, alpha=alpha) for alpha in ALPHAS)
    least, best = compared.best(replace(best, width=width * best.width) for width in (0.5, 0.7, 1.0, 1.4, 2.0))
    if len(X) >= 200:
        found, other = compared.best_with_metric(best)
        if found < (1.0 - MIN_METRIC_GAIN) * least:
            best = other
    return best


class _Compared:
    """Scores of candidates on the last rows: means over the labels that were observed.

    Outputs that were observed in the same rows share a system. With k systems each has 1 / k^(1/3) of the rows, so they
    all take as long as one.
    """

    def __init__(
        self,
        X: Array,
        last: Array,
        Y: Array,
        weights: Array | None,
        rows: int,
        shares: Array | None,
        *,
        classes: bool,
    ) -> None:
        shares = np.ones(Y.shape[1]) if shares is None else shares
        # Outputs in one system count alike.
        patterns, which = np.unique(np.vstack([shares, np.isfinite(Y)]), axis=1, return_inverse=True)
        some = np.flatnonzero((patterns[0] > 0.0) & patterns[1:].any(axis=0))
        self._fewer, self._parts, counts = len(some) ** (-1 / 3), list[_Part](), []
        for number in some:
            observed, outputs = patterns[1:, number] > 0.0, which.ravel() == number
            own = None if weights is None else weights[observed]
            part = X[observed], last[observed], Y[observed][:, outputs], own
            self._parts.append(_Part(*part, round(rows * self._fewer), classes=classes))
            counts.append(patterns[0, number] * self._parts[-1].count)
        self._shares = np.array(counts) / sum(counts)

    def inputs(self, lag: bool) -> Array:
        """Inputs of the compared rows."""
        return np.vstack([part.inputs[lag] for part in self._parts])

    def linear_score(self, alpha: float) -> float:
        """Of the linear term alone, with the last label."""
        return float(self._shares @ [part.linear_score(alpha) for part in self._parts])

    def score(self, choice: Choice) -> float:
        """Of the kernel with the linear term."""
        return float(self._shares @ [part.score(choice) for part in self._parts])

    def best(self, candidates: Iterable[Choice]) -> tuple[float, Choice]:
        """The least score, and the first candidate that has it."""
        return min(((self.score(candidate), candidate) for candidate in candidates), key=lambda pair: pair[0])

    def best_with_metric(self, choice: Choice) -> tuple[float, Choice]:
        """The metric from gradients of fits of rows whose errors do not count, and the best width with it; its score.

        It is learned on few rows, in case that the stream has changed, or on more.
        """
        found = []
        for number in METRIC_ROWS:
            fits = [part.fit(choice, round(number * self._fewer)) for part in self._parts]
            tried, size = choice, _median_distance(np.vstack([fit.U for fit in fits]) * choice.metric)
            for _ in range(METRIC_STEPS):
                # Root mean squared gradient of the fit along each input; the largest is 1.
                slopes, before = np.sqrt(self._shares @ [fit.gradients(tried) for fit in fits]), size
                metric = np.maximum(slopes / slopes.max(), 1e-3) if slopes.max() > 0.0 else tried.metric
                size = _median_distance(np.vstack([fit.U for fit in fits]) * metric)
                widths = (width * size / before * tried.width for width in (0.7, 1.0, 1.4))
                found.append(self.best(replace(tried, metric=metric, width=width) for width in widths))
                tried = found[-1][1]
        return min(found, key=lambda pair: pair[0])


class _Part:
    """Scores of candidates for outputs that are observed in all of these rows.

    Candidates that come one after the other share distances, if their metric is the same, and kernel values, if their
    width is too.
    """

    def __init__(self, X: Array, last: Array, Y: Array, weights: Array | None, rows: int, *, classes: bool) -> None:
        recent = slice(max(0, len(X) - rows), None)
        self._rows, self._columns = (X, last, Y, weights), X.shape[1] + last.shape[1]
        #: Rows before those whose errors count.
        self._stop = len(X) - min(len(X), rows) // 2
        x, lags = X[recent], last[recent]
        self.inputs = {False: x, True: np.hstack([x, lags])}
        self._linear = {lag: _linear(U, self._columns) for lag, U in self.inputs.items()}
        self._y, self._classes = Y[recent], classes
        self._weights = None if weights is None else weights[recent]
        self.count = self._y[len(x) // 2 :].size
        self._metric: Array | None = None
        self._width = np.nan

    def linear_score(self, alpha: float) -> float:
        return score(self._linear[True], self._y, alpha, self._weights, classes=self._classes)

    def score(self, choice: Choice) -> float:
        if choice.metric is not self._metric:
            U = self.inputs[choice.lag] * choice.metric
            lengths = np.einsum("ij,ij->i", U, U)
            self._distances = lengths[:, None] + lengths - 2.0 * U @ U.T
            self._metric, self._width = choice.metric, np.nan
        if choice.width != self._width:
            self._K, rows = np.empty_like(self._distances), len(self._distances)
            # Bands of the upper triangle, which is all that `score` reads.
            for start in range(0, rows, BAND_ROWS):
                band = (slice(start, start + BAND_ROWS), slice(start, rows))
                K = self._K[band]
                K[:] = self._distances[band]
                _exponentials(K, -0.5 / choice.width**2)
                K += self._linear[choice.lag][band]
            self._width = choice.width
        return score(self._K, self._y, choice.alpha, self._weights, classes=self._classes)

    def fit(self, choice: Choice, number: int) -> _Fit:
        """The last rows whose errors do not count."""
        some = slice(max(0, self._stop - number), self._stop)
        X, last, Y, weights = self._rows
        U = choice.select(X[some], last[some])
        return _Fit(U, Y[some], None if weights is None else weights[some], _linear(U, self._columns))


def score(K: Array, Y: Array, alpha: float, weights: Array | None = None, *, classes: bool) -> float:
    """Mean of the squared progressive residuals over the second half of the rows, with their weights.

    A row of weight v has alpha / v on the diagonal, which its own residual does not depend on.
    """
    A = K.T.copy(order="F")  # the same matrix, in the order of LAPACK
    A.flat[:: len(A) + 1] += alpha if weights is None else alpha / weights
    C, info = dpotrf(A, lower=1, overwrite_a=1, clean=0)
    if info:
        return float("inf")
    e = np.diag(C)[:, None] * dtrsm(1.0, C, Y, lower=1)
    if classes:
        e = Y - np.clip(Y - e, 0.0, 1.0)
    half = slice(len(e) // 2, None)
    losses = np.mean(np.minimum(e[half] ** 2, MAX_RESIDUAL**2), axis=1)
    return float(np.average(losses, weights=None if weights is None else weights[half]))


class _Fit(NamedTuple):
    """Inputs, labels, weights and linear kernel of rows that a metric is learned on."""

    U: Array
    Y: Array
    weights: Array | None
    linear: Array

    def gradients(self, choice: Choice) -> Array:
        """Sum over the outputs of the mean squared gradient of the fit along each input; 0 where it fails."""
        U, weights = self.U, self.weights
        K, total = choice.kernel(U, U), np.zeros(U.shape[1])
        A = (K + self.linear).T
        alpha = max(choice.alpha, 1e-3)
        A.flat[:: len(A) + 1] += alpha if weights is None else alpha / weights
        C, info = dpotrf(A, lower=1, overwrite_a=1, clean=0)
        if info:
            return total
        coefficients = dtrsm(1.0, C, dtrsm(1.0, C, self.Y, lower=1), lower=1, trans_a=1)
        factor = (choice.metric / choice.width) ** 2
        for c in coefficients.T:
            # d/du_j sum_i c_i k(u, u_i) = sum_i c_i k(u, u_i) (u_ij - u_j) factor_j, and the linear part.
            gradient = (K @ (c[:, None] * U) - (K @ c)[:, None] * U) * factor + (c @ U) * linear_weight(U.shape[1])
            total += np.average(gradient**2, axis=0, weights=weights)
        return total


def linear_weight(inputs: int) -> float:
    """Weight of the linear kernel beside the Gaussian."""
    return 1.0 / inputs


def _linear(U: Array, inputs: int) -> Array:
    return 1.0 + linear_weight(inputs) * U @ U.T


def _median_distance(U: Array) -> float:
    D = pdist(U[:: max(1, len(U) // 200)])
    positive = D[D > 0.0]
    return float(np.median(positive)) if len(positive) else 1.0
