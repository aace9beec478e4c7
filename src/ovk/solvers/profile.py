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

from ovk._validation import Array, Indices
from ovk.solvers.cholesky import triangle
from ovk.solvers.eigen import Eigenpairs


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
    points, outputs : (N,) the pairs
    y : (N,) their outputs, scaled by v
    v : (N,) their scales sqrt(weight)
    d : number of outputs
    E : (N, d) columns of the intercepts (scaled), or None
    """

    def __init__(
        self, G: Array, points: Indices, outputs: Indices, y: Array, v: Array, d: int, E: Array | None = None
    ) -> None:
        self.d = d
        self._G, self._points, self._outputs, self._y, self._v, self._E = G, points, outputs, y, v, E
        self._pairs = G[np.ix_(points, points)] * np.outer(v, v)

    def evaluate(self, T: Array, alpha: float) -> Evaluation:
        factor = triangle(lambda: self._pairs * T[np.ix_(self._outputs, self._outputs)], alpha)
        c = factor.solve(self._y)
        if self._E is not None:
            inside = factor.solve(self._E)
            c -= inside @ np.linalg.solve(self._E.T @ inside, self._E.T @ c)
        value = alpha * float(self._y @ c)
        shape = (len(self._G), self.d)
        C = sparse.csr_array((self._v * c, (self._points, self._outputs)), shape=shape)
        return Evaluation(value, np.asarray(C.T @ (self._G @ C)))
