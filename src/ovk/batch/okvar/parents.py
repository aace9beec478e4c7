"""Which variables act on each other one, averaged over all small sets of them by their evidence.

Each variable gets a kernel that sees its parents alone: a diagonal operator-valued kernel, so the variables decouple.
For one of them with the parents S, and noise of unknown variance,

    y = W h(x_S) + E theta - decay o + noise,    h ~ GP(0, variance k / alpha)

has, with constants and decay projected out (P, of rank nu), the evidence

    log p(y | S) = -nu/2 log( y' P' A^-1 P y ) - 1/2 log det A,     A = I + P W K_S W' P' / alpha

up to a constant. The probability of an edge is the share of the evidence of the sets that hold it.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ovk._progress import ProgressBar
from ovk._validation import Array, positive, whole
from ovk.batch.okvar.model import OKVAR
from ovk.batch.okvar.transitions import Regression
from ovk.kernels import Gaussian, ScalarKernel, as_kernel
from ovk.ovkernels import OperatorKernel, Separable


def parent_probabilities(
    model: OKVAR,
    X: Any,
    *,
    series: Any = None,
    times: Any = None,
    max_parents: int = 3,
    temperature: float = 1.0,
    prior_odds: float = 1.0,
    max_candidates: int = 12,
) -> Array:
    """Probability that each variable acts on each other one, (d, d): row i and column j for i acting on j.

    Parameters
    ----------
    model : `OKVAR` with a scalar kernel, or one times an operator (which is not used)
        Its kernel is given the parents' columns alone; target, decay, memory, smoothing and alpha are its own.
    X, series, times : as in `OKVAR.fit`
    max_parents : int
        Largest number of parents of a variable.
    temperature : float >= 1
        The logarithm of the evidence is divided by this. Above 1 it takes account of what the evidence does not know:
        that the model is not the truth.
    prior_odds : float > 0
        Odds of an edge before the data are seen.
    max_candidates : int
        Of more variables than this, those with the largest evidence as a single parent are combined.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.batch import parent_probabilities
    >>> rng = np.random.default_rng(0)
    >>> x = np.zeros((100, 3))
    >>> for t in range(99):
    ...     x[t + 1] = [0.5 * x[t, 0], 0.5 * x[t, 1] + x[t, 0], 0.5 * x[t, 2]] + rng.standard_normal(3)
    >>> parent_probabilities(OKVAR("linear", target="increment"), x).round() + 0.0
    array([[0., 1., 0.],
           [0., 0., 0.],
           [0., 0., 0.]])
    """
    kernel = _scalar(model.kernel)
    regression = model.regression(X, series=series, times=times)
    if np.isnan(regression.Y).any():
        raise ValueError("parent_probabilities needs series without holes: give the model smoothing, which fills them")
    if model.lag != 1:
        raise ValueError(f"parent_probabilities needs a model with lag=1, got {model.lag}")
    d = regression.Y.shape[1]
    evidence = Evidence(kernel, regression, positive(model.alpha, "alpha"), float(np.log(positive(prior_odds, "odds"))))
    result = np.zeros((d, d))
    with ProgressBar("weighing parents", d) as bar:
        for target in range(d):
            result[:, target] = evidence.average(
                target,
                whole(max_parents, "max_parents"),
                positive(temperature, "temperature"),
                whole(max_candidates, "max_candidates"),
            )
            bar.update()
    return result


def _scalar(kernel: Any) -> ScalarKernel:
    if isinstance(kernel, Separable):
        return kernel.scalar
    if isinstance(kernel, OperatorKernel):
        raise ValueError(f"parent_probabilities needs a model with a scalar kernel, got {kernel!r}")
    return Gaussian() if kernel is None else as_kernel(kernel)


class Evidence:
    """Evidence of sets of parents."""

    def __init__(self, kernel: ScalarKernel, regression: Regression, alpha: float, log_odds: float) -> None:
        self.kernel, self.regression, self.alpha, self.log_odds = kernel, regression, alpha, log_odds
        self._grams: dict[tuple[int, ...], Array] = {}

    def _gram(self, parents: tuple[int, ...]) -> Array:
        """W K_S W' / alpha; sets are met again for other targets."""
        if parents not in self._grams:
            Z = self.regression.Z[:, parents]
            self._grams[parents] = self.regression.integrated(self.kernel.resolve(Z)(Z)) / self.alpha
        return self._grams[parents]

    def average(self, target: int, most: int, temperature: float, candidates: int) -> Array:
        """Probabilities (d,) that each variable is a parent of the target."""
        P = self._complement(target)
        y = P.T @ self.regression.Y[:, target]
        d = self.regression.Y.shape[1]
        others = [j for j in range(d) if j != target]
        alone: dict[tuple[int, ...], float] = {(j,): self._log(P, y, (j,)) for j in others}
        if len(others) > candidates:
            others = sorted(sorted(others, key=lambda j: -alone[j,])[:candidates])
        sets = [parents for k in range(most + 1) for parents in combinations(others, k)]
        logs = (
            np.array([alone[parents] if parents in alone else self._log(P, y, parents) for parents in sets])
            / temperature
        )
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        result = np.zeros(d)
        for weight, parents in zip(weights, sets, strict=True):
            result[list(parents)] += weight
        return result

    def _complement(self, target: int) -> Array:
        """An orthonormal basis of what is orthogonal to the constants and the target's own decay."""
        columns = self.regression.E
        if self.regression.O is not None:
            columns = np.column_stack([columns, self.regression.O[:, target]])
        if columns.shape[1] == 0:
            return np.eye(len(columns))
        U, s, _ = np.linalg.svd(columns, full_matrices=True)
        return np.asarray(U[:, int((s > 1e-10 * max(float(s[0]), 1e-300)).sum()) :])

    def _log(self, P: Array, y: Array, parents: tuple[int, ...]) -> float:
        size = max(float(y @ y), 1e-300)
        if not parents:
            return -0.5 * len(y) * float(np.log(size))
        A = P.T @ self._gram(parents) @ P
        A[np.diag_indices_from(A)] += 1.0
        L, _ = lapack.dpotrf(A, lower=1, overwrite_a=1)
        z, _ = lapack.dtrtrs(L, y, lower=1)
        left = max(float(z @ z), 1e-12 * size)
        return float(-0.5 * len(y) * np.log(left) - np.log(np.diagonal(L)).sum() + len(parents) * self.log_odds)
