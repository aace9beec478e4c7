"""The rows that a stage is chosen on, and what is chosen: width, ridge, last label or not, and a metric of the inputs.

Candidates are compared by their progressive errors on the last rows, in closed form: with K + alpha I = C C', row i
predicted from the rows before it has the residual e_i = C_ii (C^-1 Y)_i.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf
from scipy.spatial.distance import pdist

from ovk._state import State
from ovk._types import Array
from ovk.online.shared.row_buffer import RowBuffer

#: Numbers of rows after which choices are made anew.
STAGES = (20, 60, 200, 600, 2_000, 6_000, 20_000, 60_000)
#: Rows kept for the next stage, and those among them that candidates are compared on.
KEPT, COMPARED = 10_000, 600
WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
ALPHAS = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
#: Residuals count as at most this, in deviations of the outputs.
LARGEST = 5.0
#: Rows that a metric is learned on.
METRIC_ROWS = (300, 600, 1200)
#: Fits that a metric is learned by, each with the metric of the one before.
METRIC_STEPS = 5
#: A metric must lower the score by this share.
GAIN = 0.02
#: Rows of a band in which kernel values of a triangle are computed.
BAND = 100
#: Kernel values are at least exp(-FAR), which is nothing beside 1: exponentials that underflow are slow.
FAR = 100.0


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
    np.maximum(D, -FAR, out=D)
    values: Array = np.exp(D, out=D)
    return values


def choose(
    X: Array, last: Array, Y: Array, weights: Array | None = None, *, classes: bool, previous: Choice | None = None
) -> Choice:
    """The best candidate for the last rows.

    Parameters
    ----------
    X, last, Y : (n, p), (n, d), (n, d) inputs, last labels and labels in the stage's units; classes are 0 and 1
    weights : (n,) what the losses of the rows are multiplied by, above 0
    previous : choice of the last stage, whose metric is a candidate
    """
    compared = _Compared(X, last, Y, weights, classes=classes)
    linear_alpha = min(ALPHAS[::2], key=compared.linear_score)
    starts = []
    for lag in (False, True):
        U = compared.inputs[lag]
        median, metric = _median_distance(U), np.ones(U.shape[1])
        starts += [Choice(lag, width * median, metric, 0.1, linear_alpha) for width in WIDTHS]
    if previous is not None:
        starts.append(replace(previous, linear_alpha=linear_alpha))
    _, best = compared.best(starts)
    _, best = compared.best(replace(best, alpha=alpha) for alpha in ALPHAS)
    least, best = compared.best(replace(best, width=width * best.width) for width in (0.5, 0.7, 1.0, 1.4, 2.0))
    if len(X) >= 200:
        found, other = _with_metric(best, X, last, Y, weights, compared)
        if found < (1.0 - GAIN) * least:
            best = other
    return best


class _Compared:
    """Scores of candidates on the last rows.

    Candidates that come one after the other share distances, if their metric is the same, and kernel values, if their
    width is too.
    """

    def __init__(self, X: Array, last: Array, Y: Array, weights: Array | None, *, classes: bool) -> None:
        recent = slice(max(0, len(X) - COMPARED), None)
        x, lags = X[recent], last[recent]
        self.inputs = {False: x, True: np.hstack([x, lags])}
        self._linear = {lag: _linear(U, X.shape[1] + Y.shape[1]) for lag, U in self.inputs.items()}
        self._y, self._classes = np.nan_to_num(Y[recent]), classes
        self._weights = None if weights is None else weights[recent]
        self._metric: Array | None = None
        self._width = np.nan

    def linear_score(self, alpha: float) -> float:
        """Of the linear term alone, with the last label."""
        return score(self._linear[True], self._y, alpha, self._weights, classes=self._classes)

    def score(self, choice: Choice) -> float:
        """Of the kernel with the linear term."""
        if choice.metric is not self._metric:
            U = self.inputs[choice.lag] * choice.metric
            lengths = np.einsum("ij,ij->i", U, U)
            self._distances = lengths[:, None] + lengths - 2.0 * U @ U.T
            self._metric, self._width = choice.metric, np.nan
        if choice.width != self._width:
            self._K, rows = np.empty_like(self._distances), len(self._distances)
            # Bands of the upper triangle, which is all that `score` reads.
            for start in range(0, rows, BAND):
                band = (slice(start, start + BAND), slice(start, rows))
                K = self._K[band]
                K[:] = self._distances[band]
                _exponentials(K, -0.5 / choice.width**2)
                K += self._linear[choice.lag][band]
            self._width = choice.width
        return score(self._K, self._y, choice.alpha, self._weights, classes=self._classes)

    def best(self, candidates: Iterable[Choice]) -> tuple[float, Choice]:
        """The least score, and the first candidate that has it."""
        return min(((self.score(candidate), candidate) for candidate in candidates), key=lambda pair: pair[0])


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
    losses = np.mean(np.minimum(e[half] ** 2, LARGEST**2), axis=1)
    return float(np.average(losses, weights=None if weights is None else weights[half]))


def _with_metric(
    choice: Choice, X: Array, last: Array, Y: Array, weights: Array | None, compared: _Compared
) -> tuple[float, Choice]:
    """The metric from gradients of fits of rows whose errors do not count, and the best width with it; its score."""
    # The metric is learned on rows before the second half of the compared ones, which judges it: on few rows, in case
    # that the stream has changed, or on more.
    stop = len(X) - min(len(X), COMPARED) // 2
    found = []
    for number in METRIC_ROWS:
        rows, tried = slice(max(0, stop - number), stop), choice
        U, y = choice.select(X[rows], last[rows]), np.nan_to_num(Y[rows])
        some = None if weights is None else weights[rows]
        L, size = _linear(U, X.shape[1] + Y.shape[1]), _median_distance(U * choice.metric)
        for _ in range(METRIC_STEPS):
            metric, before = _gradient_metric(tried, U, y, some, L), size
            size = _median_distance(U * metric)
            widths = (width * size / before * tried.width for width in (0.7, 1.0, 1.4))
            found.append(compared.best(replace(tried, metric=metric, width=width) for width in widths))
            tried = found[-1][1]
    return min(found, key=lambda pair: pair[0])


def _gradient_metric(choice: Choice, U: Array, Y: Array, weights: Array | None, linear: Array) -> Array:
    """Root mean squared gradient of the fit along each input; the largest is 1."""
    K = choice.kernel(U, U)
    A = (K + linear).T
    alpha = max(choice.alpha, 1e-3)
    A.flat[:: len(A) + 1] += alpha if weights is None else alpha / weights
    C, info = dpotrf(A, lower=1, overwrite_a=1, clean=0)
    if info:
        return choice.metric
    coefficients = dtrsm(1.0, C, dtrsm(1.0, C, Y, lower=1), lower=1, trans_a=1)
    total = np.zeros(U.shape[1])
    factor = (choice.metric / choice.width) ** 2
    for c in coefficients.T:
        # d/du_j sum_i c_i k(u, u_i) = sum_i c_i k(u, u_i) (u_ij - u_j) factor_j, and the linear part.
        gradient = (K @ (c[:, None] * U) - (K @ c)[:, None] * U) * factor + (c @ U) * linear_weight(U.shape[1])
        total += np.average(gradient**2, axis=0, weights=weights)
    metric = np.sqrt(total)
    return np.maximum(metric / metric.max(), 1e-3) if metric.max() > 0.0 else choice.metric


def linear_weight(inputs: int) -> float:
    """Weight of the linear kernel beside the Gaussian."""
    return 1.0 / inputs


def _linear(U: Array, inputs: int) -> Array:
    return 1.0 + linear_weight(inputs) * U @ U.T


def _median_distance(U: Array) -> float:
    D = pdist(U[:: max(1, len(U) // 200)])
    positive = D[D > 0.0]
    return float(np.median(positive)) if len(positive) else 1.0
