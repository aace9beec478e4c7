"""Probabilities of parents of each variable, averaged over all small sets of parents by their evidence.

Each variable has a kernel of its parents only: a diagonal operator-valued kernel, so the variables decouple.
For one of them with the parents S, and noise of unknown variance,

    y = W h(x_S) + E theta - decay o + noise,    h ~ GP(0, variance k / alpha)

has, with constants and decay projected out (P, of rank nu), the evidence

    log p(y | S) = -nu/2 log( y' P' A^-1 P y ) - 1/2 log det A,     A = I + P W K_S W' P' / alpha

up to a constant. With a linear kernel A is I and a matrix of the rank of S, so that every set costs |S|^3, whatever
the length of the series; with others it costs the cube of that length.
The probability of an edge is the share of the evidence of the sets that contain it.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import lapack

from ovk.batch import OKVAR
from ovk.kernels import Gaussian, Linear, ScalarKernel
from ovk.ovkernels import as_operator_kernel
from reproduce.support import Array, check_int, positive, track


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
        Its kernel is applied to the columns of the parents; target, decay, memory, smoothing and alpha are used as set.
    X, series, times : as in `OKVAR.fit`
    max_parents : int
        Largest number of parents of a variable.
    temperature : float >= 1
        Divisor of the log evidence. Values above 1 allow for a misspecified model.
    prior_odds : float > 0
        Prior odds of an edge.
    max_candidates : int
        Maximum number of variables that are combined: those with the largest evidence as a single parent.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from reproduce.parents import parent_probabilities
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
        raise ValueError(f"parent_probabilities requires a model with lag=1, got {model.lag}")
    d = regression.Y.shape[1]
    evidence = ParentEvidence(
        kernel, regression, positive(model.alpha, "alpha"), float(np.log(positive(prior_odds, "odds")))
    )
    result = np.zeros((d, d))
    for target in track(range(d), "weighing parents"):
        result[:, target] = evidence.average(
            target,
            check_int(max_parents, "max_parents"),
            positive(temperature, "temperature"),
            check_int(max_candidates, "max_candidates"),
        )
    return result


def _scalar(kernel: Any) -> ScalarKernel:
    separable = as_operator_kernel(Gaussian() if kernel is None else kernel).as_separable()
    if separable is None:
        raise ValueError(f"parent_probabilities requires a model with a scalar kernel, got {kernel!r}")
    return separable.scalar


#: Maximum bytes of cached grams.
KEPT = 2**25


class ParentEvidence:
    """The evidence of sets of parents of a variable, and the probability of each candidate.

    Attributes
    ----------
    regression : result of `OKVAR.regression`
    columns : (n, d) V = W Z / sqrt(alpha), with which a linear kernel is A = I + P V_S V_S' P; None for other kernels
    """

    def __init__(self, kernel: ScalarKernel, regression: Any, alpha: float, log_odds: float) -> None:
        self.kernel, self.regression, self.alpha, self.log_odds = kernel, regression, alpha, log_odds
        self.columns = regression.apply(regression.Z) / np.sqrt(alpha) if isinstance(kernel, Linear) else None
        self._grams: dict[tuple[int, ...], Array] = {}

    def _gram(self, parents: tuple[int, ...]) -> Array:
        """W K_S W' / alpha. Other targets use the same sets, so up to `KEPT` bytes are cached."""
        found = self._grams.get(parents)
        if found is None:
            Z = self.regression.Z[:, parents]
            left = self.regression.apply
            found = left(left(self.kernel.resolve(Z)(Z)).T) / self.alpha
            if (len(self._grams) + 1) * found.nbytes <= KEPT:
                self._grams[parents] = found
        return found

    def average(self, target: int, most: int, temperature: float, candidates: int) -> Array:
        """Probabilities (d,) that each variable is a parent of the target."""
        measured = self._evidence(target)
        d = self.regression.Y.shape[1]
        others = [j for j in range(d) if j != target]
        alone = {(j,): measured((j,)) for j in others}
        if len(others) > candidates:
            others = sorted(sorted(others, key=lambda j: -alone[j,])[:candidates])
        sets = [parents for k in range(most + 1) for parents in combinations(others, k)]
        logs = np.array([alone[parents] if parents in alone else measured(parents) for parents in sets]) / temperature
        weights = np.exp(logs - logs.max())
        weights /= weights.sum()
        result = np.zeros(d)
        for weight, parents in zip(weights, sets, strict=True):
            result[list(parents)] += weight
        return result

    def _evidence(self, target: int) -> Callable[[tuple[int, ...]], float]:
        """The logarithm of the evidence as a function of the parents of the target."""
        Q = self._unpenalised(target)
        y = self.regression.Y[:, target]
        y = y - Q @ (Q.T @ y)
        nu, size = len(y) - Q.shape[1], max(float(y @ y), 1e-300)

        def log(left: float, half_determinant: float, parents: tuple[int, ...]) -> float:
            spread = -0.5 * nu * float(np.log(max(left, 1e-12 * size)))
            return float(spread - half_determinant + len(parents) * self.log_odds)

        if self.columns is None:

            def measured(parents: tuple[int, ...]) -> float:
                if not parents:
                    return log(size, 0.0, parents)
                A = self._gram(parents)
                QA = Q.T @ A
                side = Q @ (QA - 0.5 * (QA @ Q) @ Q.T)
                # P A P with P = I - Q Q'; the range of Q has the eigenvalue 1 in I + P A P.
                A = A - side - side.T
                A[np.diag_indices_from(A)] += 1.0
                L, z = _whitened(A, y)
                return log(float(z @ z), float(np.log(np.diagonal(L)).sum()), parents)

            return measured

        V = self.columns - Q @ (Q.T @ self.columns)
        G, b = V.T @ V, V.T @ y

        def measured_linear(parents: tuple[int, ...]) -> float:
            # det(I + V V') = det(I + V'V) and (I + V V')^-1 = I - V (I + V'V)^-1 V': matrices of the parents alone.
            S = list(parents)
            L, z = _whitened(G[np.ix_(S, S)] + np.eye(len(S)), b[S])
            return log(size - float(z @ z), float(np.log(np.diagonal(L)).sum()), parents)

        return measured_linear

    def _unpenalised(self, target: int) -> Array:
        """An orthonormal basis of the constants and the target's own decay, (n, at most e + 1)."""
        columns = self.regression.E
        if self.regression.decaying is not None:
            columns = np.column_stack([columns, self.regression.decaying[:, target]])
        if columns.shape[1] == 0:
            return np.asarray(columns)
        U, s, _ = np.linalg.svd(columns, full_matrices=False)
        return np.asarray(U[:, s > 1e-10 * max(float(s[0]), 1e-300)])


def _whitened(A: Array, y: Array) -> tuple[Array, Array]:
    """L with A = L L', and L^-1 y."""
    if len(A) == 0:
        return A, y
    L, _ = lapack.dpotrf(A, lower=1, overwrite_a=1)
    z, _ = lapack.dtrtrs(L, y, lower=1)
    return L, z
