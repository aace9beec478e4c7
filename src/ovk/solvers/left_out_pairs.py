"""Left-out functions where outputs are missing: one dense problem on the observed pairs of a row and an output.

The formulas are those of `left_out` with A = K + I on the N pairs (rows scaled by sqrt(w / alpha)), a column of E for
the intercept of each output, Z = A^-1 E, M = (E'Z)^-1 and

    P = A^-1 - Z M Z',   l_j(x) = P k_j(x) + Z M e_j,   v_j(x) = K_jj(x, x) - k_j'A^-1 k_j + D_j'M D_j,

D_j = e_j - Z'k_j. Variances come from the factor of A: they are small differences, which the inverse would round.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, lapack, solve_triangular

from ovk._types import Array, Indices
from ovk.solvers.left_out import BlockInverses, LeftOut, RowBlocks
from ovk.targets import ObservedPairs


class PairsLeftOut(LeftOut):
    """Any kernel and any gaps, as one dense problem on the observed pairs.

    Parameters
    ----------
    K : (N, N) gram of the observed pairs, as they are
    pairs : what was observed, with its weights
    alpha : float or (d,) > 0
    intercept : whether each output has an unpenalised constant
    together : (n,) numbers; rows with the same number are left out together. Each row alone by default

    For new points `cross` is the kernel between every output of x and the pairs, (m, d, N), and `prior` that of every
    output of x with itself, (m, d).
    """

    def __init__(
        self,
        K: Array,
        pairs: ObservedPairs,
        alpha: float | Array,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        (n, d), rows, outputs = pairs.shape, pairs.points, pairs.outputs
        self.alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), d).copy()
        self.noise = self.alpha
        self._scales = pairs.roots / np.sqrt(self.alpha[outputs])
        scaled = self._scales * pairs.values
        self._L, _ = cho_factor(K * np.outer(self._scales, self._scales) + np.eye(len(pairs)), lower=True)
        # The inverse from its factor takes a third of the time of solving for the identity, and has one triangle.
        inverse, _ = lapack.dpotri(self._L, lower=1)
        self._P = np.tril(inverse) + np.tril(inverse, -1).T
        # The intercepts' part of l: Z (E'Z)^-1 e_j for output j, Z = A^-1 E.
        self._Z, self._means = np.zeros((2, len(pairs), d))
        self._M, self.b = np.zeros((d, d)), np.zeros(d)
        if intercept:
            E = pairs.columns() / np.sqrt(self.alpha)
            self._Z = np.asarray(cho_solve((self._L, True), E), dtype=np.float64)
            self._M = np.asarray(np.linalg.inv(E.T @ self._Z), dtype=np.float64)
            self._means = self._Z @ self._M
            self.b = self._means.T @ scaled
            self._P = self._P - self._means @ self._Z.T
        self._c = self._P @ scaled
        # Blocks without any observation leave everything as it is.
        blocks = RowBlocks(np.arange(n) if together is None else together)
        self.block, self.n_blocks = blocks.block, len(blocks)
        seen, numbers = np.unique(self.block[rows], return_inverse=True)
        self._seen = seen
        inside = RowBlocks(numbers)
        entries = [self._P[np.ix_(block, block)] for block in inside.members]
        self._inverses = BlockInverses(np.diagonal(self._P).copy(), entries, inside)
        self._r = self._inverses.residuals(self._c[:, None])
        self.residuals, self.variances = np.full((2, n, d), np.nan)
        self.residuals[rows, outputs] = self._r[:, 0] / self._scales
        self.variances[rows, outputs] = self._inverses.variances() / self._scales**2

    def predict(self, cross: Array) -> Array:
        return np.asarray((cross * self._scales) @ self._c + self.b)

    def _weights(self, cross: Array, q: int) -> Array:
        """l_q(x) of one output, (m, N), scaled as the pairs are."""
        return np.asarray((cross[:, q] * self._scales) @ self._P + self._means[:, q])

    def variance(self, cross: Array, prior: Array) -> Array:
        m, d, N = cross.shape
        scaled = (cross * self._scales).reshape(m * d, N)
        white = solve_triangular(self._L, scaled.T, lower=True, check_finite=False)
        explained = np.einsum("ij,ij->j", white, white).reshape(m, d)
        return self._left(prior, explained, (scaled @ self._Z).reshape(m, d, d))

    def _left(self, prior: Array, explained: Array, along: Array) -> Array:
        """v_j(x), (m, d), from K_jj(x, x) and k_j'A^-1 k_j, (m, d) each, and Z'k_j, (m, d, d)."""
        D = np.eye(prior.shape[1]) - along
        return np.asarray(np.maximum(prior - explained + np.einsum("mjp,mjp->mj", D @ self._M, D), 0.0))

    def predict_without(self, cross: Array) -> Array:
        changes = np.zeros((len(cross), self.n_blocks, len(self.alpha)))
        for q in range(len(self.alpha)):
            changes[:, self._seen, q] = self._inverses.products(self._weights(cross, q), self._r)[:, :, 0]
        return self.predict(cross)[:, None, :] - changes

    def variance_without(self, cross: Array, prior: Array) -> Array:
        added = np.zeros((len(cross), self.n_blocks, len(self.alpha)))
        for q in range(len(self.alpha)):
            added[:, self._seen, q] = self._inverses.inner(self._weights(cross, q))
        return self.variance(cross, prior)[:, None, :] + added


class SeparablePairsLeftOut(PairsLeftOut):
    """The same for a kernel k T: kernel values of the pairs of a point and an output are never formed.

    With a_jp = T_jq s_p for the pair p = (i, q) of scale s_p, and A_j the (n, N) matrix with a_jp at (i, p), k_j(x) is
    A_j'k(x). So k_j'A^-1 k_j = |R_j k(x)|^2, where A = L L' and L^-1 A_j' = Q_j R_j with orthonormal columns Q_j: R_j
    is (n, n) however many outputs a point has.

    Parameters
    ----------
    G : (n, n) gram of k
    T : (d, d) the output operator
    others : as in `PairsLeftOut`

    For new points `cross` is k(x, x_i), (m, n), and `prior` k(x, x), (m,).
    """

    def __init__(
        self,
        G: Array,
        T: Array,
        pairs: ObservedPairs,
        alpha: float | Array,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        points, outputs = pairs.points, pairs.outputs
        K = G[np.ix_(points, points)] * T[np.ix_(outputs, outputs)]
        super().__init__(K, pairs, alpha, intercept=intercept, together=together)
        self._T, self._pairs = T, pairs
        self._C = pairs.spread(self._scales * self._c) @ T

    def _gathering(self, q: int) -> sparse.csr_array:
        """A_q, (n, N)."""
        points, outputs = self._pairs.points, self._pairs.outputs
        values = self._T[q, outputs] * self._scales
        return sparse.csr_array((values, (points, np.arange(len(points)))), shape=(self._pairs.shape[0], len(points)))

    @cached_property
    def _gathered(self) -> list[tuple[Array, Array]]:
        """R_q, (n, n), and A_q Z, (n, d), of each output."""
        result = []
        for A in map(self._gathering, range(len(self._T))):
            white = solve_triangular(self._L, A.toarray().T, lower=True, check_finite=False)
            result.append((np.asarray(np.linalg.qr(white, mode="r")), A @ self._Z))
        return result

    def predict(self, cross: Array) -> Array:
        return np.asarray(cross @ self._C + self.b)

    def _weights(self, cross: Array, q: int) -> Array:
        return np.asarray(cross @ (self._gathering(q) @ self._P) + self._means[:, q])

    def variance(self, cross: Array, prior: Array) -> Array:
        d = len(self._T)
        explained, along = np.empty((len(cross), d)), np.empty((len(cross), d, d))
        for q, (R, gathered) in enumerate(self._gathered):
            white = cross @ R.T
            explained[:, q] = np.einsum("ij,ij->i", white, white)
            along[:, q] = cross @ gathered
        return self._left(np.multiply.outer(prior, np.diagonal(self._T)), explained, along)
