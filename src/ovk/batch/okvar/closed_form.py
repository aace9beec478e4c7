"""Coefficients without a penalty other than the norm: a linear system.

    minimise over C, theta, decay  |Y - W K C - E theta + decay O|^2 + alpha <C, K C>

With C = W' D it is ridge regression with the gram W K W', and E, O unpenalised:  (W K W' + alpha) D = Y - E theta +
decay O, with D orthogonal to the columns used. A decay that comes out negative is set to zero and the system solved
again.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ovk._types import Array
from ovk.batch.okvar.coupling import Coupling, Decomposable
from ovk.batch.okvar.regression import SeriesRegression, UnpenalisedTerms
from ovk.batch.okvar.splitting import Splitting
from ovk.operators.base import spectrum
from ovk.solvers.eigen import Eigenpairs, eigenpairs

#: Observed numbers up to which a system without structure is solved by a Cholesky factorisation (a matrix of 200 MB).
DENSE_LIMIT = 5000
#: Rows from which a gram of low rank is looked for, and how exact it has to be.
MANY, NEGLIGIBLE = 500, 1e-9


class ClosedFormCoefficients:
    """Solves for C at any operator and alpha; what does not depend on them is done once.

    `possible` says whether a closed form exists at an affordable price: for decomposable kernels with complete outputs,
    and for small systems of any kind. Outputs that both decay and are coupled by the operator do not decouple: for
    them C and the decays are solved for in turn.
    """

    def __init__(self, coupling: Coupling, regression: SeriesRegression, unpenalised: UnpenalisedTerms) -> None:
        self.coupling, self.regression, self.unpenalised = coupling, regression, unpenalised
        self._separable = isinstance(coupling, Decomposable) and bool(unpenalised.seen.all())
        self._small = int(unpenalised.seen.sum()) <= DENSE_LIMIT
        self._pairs: Eigenpairs | None = None

    @property
    def possible(self) -> bool:
        """Whether `solve` can be called."""
        return self._separable or self._small

    def solve(self, B: Array, alpha: float, decay: Array, turns: int) -> Array:
        """The coefficients, (m, d).

        For decaying coupled outputs they start from a given decay; with few `turns` they are not yet at the minimum,
        but below where they started.
        """
        mixed = self.regression.decaying is not None and not _is_multiple_of_identity(B)
        if not self._separable or (mixed and self._small and turns > 10):
            return self._dense(B, alpha)
        if not mixed:
            return self._decoupled(B, alpha, None)
        for _ in range(turns):
            C = self._decoupled(B, alpha, decay)
            before = decay
            values = self.coupling.values(self.coupling.features(C), B)
            _, decay = self.unpenalised.coefficients(self.regression.left(values))
            if np.abs(decay - before).max() <= 1e-8 * max(float(decay.max()), 1e-300):
                break
        return C

    def _spectra(self, B: Array, alpha: float) -> tuple[Eigenpairs, Array, Array]:
        """Eigenvectors of W G W', and eigenvalues and eigenvectors of B."""
        if self._pairs is None:
            assert isinstance(self.coupling, Decomposable)
            # What is dropped of a gram of low rank changes the solution by a part of NEGLIGIBLE.
            G = self.regression.integrated(self.coupling.G)
            self._pairs = eigenpairs(G, NEGLIGIBLE * alpha if len(G) >= MANY else 0.0)
        if _is_multiple_of_identity(B):
            return self._pairs, np.diagonal(B), np.eye(len(B))
        found = spectrum(B, "the operator")
        return self._pairs, found.values, found.vectors

    def splitting(self, B: Array, alpha: float, decay: Array) -> Splitting | None:
        """The problem with a penalty taken apart, for given decays; None where nothing decouples."""
        if not self._separable or alpha == 0:
            return None
        Y = (
            self.regression.Y
            if self.regression.decaying is None
            else self.regression.Y + decay * self.regression.decaying
        )
        if self.regression.W is None:
            return Splitting.in_eigenvectors(*self._spectra(B, alpha), Y, self.regression.E, alpha)
        if not _is_multiple_of_identity(B) or B[0, 0] == 0:
            return None
        assert isinstance(self.coupling, Decomposable)
        return Splitting.of_integrals(self.coupling.G, self.regression.W, float(B[0, 0]), Y, self.regression.E, alpha)

    def freedom(self, B: Array, alpha: float) -> float:
        """How many parameters h is worth: the trace of the map from Y to the fit, constants and decay apart."""
        if self._separable:
            pairs, t, _ = self._spectra(B, alpha)
            return float((t[:, None] * pairs.g / (t[:, None] * pairs.g + alpha)).sum())
        values = np.maximum(np.linalg.eigvalsh(self._observed(B)), 0.0)
        return float((values / (values + alpha)).sum())

    def _decoupled(self, B: Array, alpha: float, decay: Array | None) -> Array:
        """One scalar problem for each eigenvector of B, all of them in the eigenvectors of W G W'."""
        pairs, t, V = self._spectra(B, alpha)
        own, Y, E = self.regression.decaying, self.regression.Y, self.regression.E
        if decay is not None and own is not None:
            Y, own = Y + decay * own, None
        Y = Y @ V
        d, e = Y.shape[1], E.shape[1]
        D = np.empty_like(Y)
        shared = bool((t == t[0]).all())
        columns = np.column_stack([E, Y] if own is None else [E, Y, -own])
        solved = pairs.solve(columns, float(t[0]), alpha) if shared else np.empty(0)
        for q in range(d):
            if not shared:
                used = np.column_stack([E, Y[:, q]])
                D[:, q], _ = _profiled(used, pairs.solve(used, float(t[q]), alpha))
                continue
            places = [*range(e), *([] if own is None else [e + d + q]), e + q]
            D[:, q], theta = _profiled(columns[:, places], solved[:, places])
            if own is not None and theta[-1] < 0:
                places.remove(e + d + q)
                D[:, q], _ = _profiled(columns[:, places], solved[:, places])
        return self.regression.back(D @ V.T)

    def _observed(self, B: Array) -> Array:
        """W K W' on the observed entries."""
        m, d = len(self.regression.Z), len(B)
        K = self.coupling.gram(B).dense().reshape(m, d * m * d)
        n = len(self.regression.Y)
        for _ in range(2):
            # One side, then the other: rows (point, output) become columns.
            K = self.regression.left(K).reshape(n * d, -1).T.reshape(-1, d * n * d)
        seen = self.unpenalised.seen.reshape(-1)
        return np.asarray(K.reshape(n * d, n * d)[np.ix_(seen, seen)])

    def _dense(self, B: Array, alpha: float) -> Array:
        """All observed entries in one system."""
        regression, seen = self.regression, self.unpenalised.seen.reshape(-1)
        n, d = regression.Y.shape
        A = self._observed(B)
        A[np.diag_indices_from(A)] += alpha
        factor = cho_factor(A, lower=True, overwrite_a=True)
        columns = np.einsum("ne,pq->npeq", regression.E, np.eye(d)).reshape(n * d, -1)
        if regression.decaying is not None:
            own = np.einsum("np,pq->npq", -regression.decaying, np.eye(d)).reshape(n * d, d)
            columns = np.column_stack([columns, own])
        columns, y = columns[seen], regression.Y.reshape(-1)[seen]
        solved, SY = cho_solve(factor, columns), cho_solve(factor, y)
        used = np.ones(columns.shape[1], dtype=bool)
        first = columns.shape[1] - (d if regression.decaying is not None else 0)
        while True:
            coefficients = np.zeros(len(used))
            coefficients[used] = _least_squares(columns[:, used].T @ solved[:, used], columns[:, used].T @ SY)
            negative = np.flatnonzero(coefficients[first:] < 0) + first
            if len(negative) == 0:
                break
            used[negative] = False
        D = np.zeros(n * d)
        D[seen] = SY - solved @ coefficients
        return regression.back(D.reshape(n, d))


def _is_multiple_of_identity(B: Array) -> bool:
    return np.array_equal(B, B[0, 0] * np.eye(len(B)))


def _profiled(columns: Array, solved: Array) -> tuple[Array, Array]:
    """S (y - E theta) orthogonal to E, from [E, y] and S [E, y]; and theta."""
    E, SE, Sy = columns[:, :-1], solved[:, :-1], solved[:, -1]
    theta = _least_squares(E.T @ SE, E.T @ Sy)
    return Sy - SE @ theta, theta


def _least_squares(A: Array, b: Array) -> Array:
    """A^-1 b, or the shortest of many solutions where columns repeat each other."""
    return np.asarray(np.linalg.lstsq(A, b, rcond=1e-12)[0])
