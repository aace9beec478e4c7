"""Ridge regression as a function of the output operator alone.

With the function minimised out, the kernel k T has the objective

    h(T) = min over f of  sum |y - f(x)|^2 + alpha |f|^2  =  alpha <Y, C>,    G C T + alpha C = Y,

which is convex in T, and by the envelope theorem its derivative is -alpha M with M = C' G C, (d, d). One
eigendecomposition G = Q diag(g) Q' serves every T = V diag(t) V': with Z = Q'YV and C~ = Z / (g t' + alpha),

    h = alpha (<Z, C~> + |Y|^2 beyond Q / alpha),    M = V (C~' diag(g) C~) V'.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ovk._types import Array
from ovk.solvers.cholesky import cholesky_factor
from ovk.solvers.eigen import Eigenpairs
from ovk.targets import ObservedPairs


class Evaluation(NamedTuple):
    """h(T) and the moment M = C' G C of the coefficients: dh/dT = -alpha M."""

    value: float
    moment: Array


class Profile(ABC):
    """h(T) for one data set."""

    d: int

    @abstractmethod
    def evaluate(self, T: Array, alpha: float) -> Evaluation:
        """h and M at a symmetric positive semi-definite T."""


class CompleteProfile(Profile):
    """Every output of every point was observed.

    Parameters
    ----------
    pairs : eigenpairs of the scalar gram (weighted: of W^1/2 G W^1/2)
    Y : (n, d) outputs (weighted: W^1/2 Y)
    u : (n,) the intercept's column, or None

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.solvers.eigen import eigenpairs
    >>> from ovk.solvers.profile import CompleteProfile
    >>> found = CompleteProfile(eigenpairs(np.eye(2)), np.ones((2, 1))).evaluate(np.eye(1), alpha=1.0)
    >>> found.value, found.moment
    (1.0, array([[0.5]]))
    """

    def __init__(self, pairs: Eigenpairs, Y: Array, u: Array | None = None) -> None:
        self.d = Y.shape[1]
        self._g = pairs.g
        self._inner = pairs.Q.T @ Y
        self._inner_u = None if u is None else pairs.Q.T @ u
        beyond = np.zeros_like(Y) if pairs.full else Y - pairs.Q @ self._inner
        # Products of what lies beyond the span of Q, where the gram is zero.
        self._beyond = beyond.T @ beyond
        if u is not None and self._inner_u is not None:
            rest = np.zeros_like(u) if pairs.full else u - pairs.Q @ self._inner_u
            self._beyond_u, self._beyond_uY = float(rest @ rest), rest @ beyond

    def evaluate(self, T: Array, alpha: float) -> Evaluation:
        t, V = np.linalg.eigh(T)
        filters = 1.0 / (np.multiply.outer(self._g, np.maximum(t, 0.0)) + alpha)
        Z = self._inner @ V
        C = Z * filters
        value = float(np.vdot(Z, C)) + float(np.trace(self._beyond)) / alpha
        if self._inner_u is not None:
            # b = (u'A^-1 y) / (u'A^-1 u) for each rotated output, and C loses A^-1 u b.
            solved = self._inner_u[:, None] * filters
            total = self._inner_u @ solved + self._beyond_u / alpha
            b = (self._inner_u @ C + (self._beyond_uY @ V) / alpha) / total
            value -= float(b**2 @ total)
            C = C - solved * b
        return Evaluation(alpha * value, V @ ((C.T * self._g) @ C) @ V.T)


class PairProfile(Profile):
    """Some outputs of some points were observed; each evaluation factors the gram of the pairs.

    Parameters
    ----------
    G : (n, n) scalar gram
    pairs : what was observed
    intercept : a constant for each output is learned
    """

    def __init__(self, G: Array, pairs: ObservedPairs, *, intercept: bool = False) -> None:
        self.d = pairs.shape[1]
        self._G, self._pairs, self._y = G, pairs, pairs.scaled_values()
        self._E = pairs.columns() if intercept else None
        self._matrix: Array = G[np.ix_(pairs.points, pairs.points)] * np.outer(pairs.roots, pairs.roots)

    def gram(self, T: Array) -> Array:
        """(N, N) gram of the pairs under k T, scaled."""
        return self._matrix * T[np.ix_(self._pairs.outputs, self._pairs.outputs)]

    def evaluate(self, T: Array, alpha: float) -> Evaluation:
        factor = cholesky_factor(lambda: self.gram(T), alpha)
        c = factor.solve(self._y)
        if self._E is not None:
            inside = factor.solve(self._E)
            c -= inside @ np.linalg.solve(self._E.T @ inside, self._E.T @ c)
        value = alpha * float(self._y @ c)
        at = self._pairs.points, self._pairs.outputs
        C = sparse.csr_array((self._pairs.roots * c, at), shape=self._pairs.shape)
        return Evaluation(value, np.asarray(C.T @ (self._G @ C)))
