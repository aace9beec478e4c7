"""Left-out functions where outputs are missing: one dense problem on the observed pairs of a row and an output.

The formulas are those of `left_out` with A = K + I on the N pairs (rows scaled by sqrt(w / alpha)), a column of E for
the intercept of each output, Z = A^-1 E, M = (E'Z)^-1 and

    P = A^-1 - Z M Z',   l_j(x) = P k_j(x) + Z M e_j,   v_j(x) = K_jj(x, x) - k_j'P k_j + M_jj - 2 k_j'Z M e_j.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, lapack

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
        factor, _ = cho_factor(K * np.outer(self._scales, self._scales) + np.eye(len(pairs)), lower=True)
        # The inverse from its factor takes a third of the time of solving for the identity, and has one triangle.
        inverse, _ = lapack.dpotri(factor, lower=1)
        self._P = np.tril(inverse) + np.tril(inverse, -1).T
        # The intercepts' part of l: Z (E'Z)^-1 e_j for output j, Z = A^-1 E.
        self._means, self.b = np.zeros((len(pairs), d)), np.zeros(d)
        if intercept:
            E = pairs.columns() / np.sqrt(self.alpha)
            Z = self._P @ E
            self._inner = np.linalg.inv(E.T @ Z)
            self._means = Z @ self._inner
            self.b = self._means.T @ scaled
            self._P = self._P - self._means @ Z.T
        self._intercept = intercept
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

    def _weights(self, cross: Array) -> Array:
        """l_j(x), (m, d, N), scaled as the pairs are."""
        scaled = cross * self._scales
        L: Array = scaled @ self._P
        return L + self._means.T if self._intercept else L

    def variance(self, cross: Array, prior: Array) -> Array:
        scaled = cross * self._scales
        v = prior - np.einsum("mdn,mdn->md", scaled @ self._P, scaled)
        if self._intercept:
            # k'A^-1 k = k'P k + k'Z M Z'k with M = (E'Z)^-1; of (e - Z'k)' M (e - Z'k) the rest is e'M e - 2 k'Z M e.
            v = v + np.diagonal(self._inner) - 2.0 * np.einsum("mdn,nd->md", scaled, self._means)
        return np.asarray(np.maximum(v, 0.0))

    def predict_without(self, cross: Array) -> Array:
        m, d, _ = cross.shape
        changes = np.zeros((m, self.n_blocks, d))
        L = self._weights(cross)
        for q in range(d):
            changes[:, self._seen, q] = self._inverses.products(L[:, q], self._r)[:, :, 0]
        return self.predict(cross)[:, None, :] - changes

    def variance_without(self, cross: Array, prior: Array) -> Array:
        m, d, _ = cross.shape
        added = np.zeros((m, self.n_blocks, d))
        L = self._weights(cross)
        for q in range(d):
            added[:, self._seen, q] = self._inverses.inner(L[:, q])
        return self.variance(cross, prior)[:, None, :] + added
