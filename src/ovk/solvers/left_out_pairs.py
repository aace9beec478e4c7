"""Left-out functions where outputs are missing: one dense problem on the observed pairs of a row and an output.

The formulas are those of `left_out` with A = K + I on the N pairs (rows scaled by sqrt(w / alpha)), a column of E for
the intercept of each output, Z = A^-1 E, M = (E'Z)^-1 and

    P = A^-1 - Z M Z',   l_j(x) = P k_j(x) + Z M e_j,   v_j(x) = K_jj(x, x) - k_j'P k_j + M_jj - 2 k_j'Z M e_j.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, lapack

from ovk._types import Array, Indices
from ovk.solvers.left_out import BlockInverses, LeftOut, RowBlocks


class PairData(NamedTuple):
    """N observed pairs of a row and an output."""

    rows: Indices  # (N,)
    outputs: Indices  # (N,)
    y: Array  # (N,)

    @classmethod
    def from_outputs(cls, Y: Array) -> PairData:
        """All entries of Y, (n, d), that are not nan."""
        rows, outputs = np.nonzero(~np.isnan(Y))
        return cls(rows, outputs, Y[rows, outputs])


class PairsLeftOut(LeftOut):
    """Any kernel and any gaps, as one dense problem on the observed pairs.

    Parameters
    ----------
    K : (N, N) gram of the observed pairs, as they are
    data : their rows, outputs and values
    shape : (n, d) rows and outputs
    alpha : float or (d,) > 0
    weight : (n,) sample weights, optional
    intercept : whether each output has an unpenalised constant
    together : (n,) numbers; rows with the same number are left out together. Each row alone by default

    For new points `cross` is the kernel between every output of x and the pairs, (m, d, N), and `prior` that of every
    output of x with itself, (m, d).
    """

    def __init__(
        self,
        K: Array,
        data: PairData,
        shape: tuple[int, int],
        alpha: float | Array,
        weight: Array | None = None,
        *,
        intercept: bool = True,
        together: Indices | None = None,
    ) -> None:
        n, d = shape
        self.alpha = np.broadcast_to(np.asarray(alpha, dtype=np.float64), d).copy()
        self.noise = self.alpha
        rows, outputs, y = data
        self._scales = 1.0 / np.sqrt(self.alpha[outputs])
        if weight is not None:
            self._scales = self._scales * np.sqrt(weight[rows])
        scaled = self._scales * y
        factor, _ = cho_factor(K * np.outer(self._scales, self._scales) + np.eye(len(y)), lower=True)
        # The inverse from its factor takes a third of the time of solving for the identity, and has one triangle.
        inverse, _ = lapack.dpotri(factor, lower=1)
        self._P = np.tril(inverse) + np.tril(inverse, -1).T
        # The intercepts' part of l: Z (E'Z)^-1 e_j for output j, Z = A^-1 E.
        self._means, self.b = np.zeros((len(y), d)), np.zeros(d)
        if intercept:
            E = np.zeros((len(y), d))
            E[np.arange(len(y)), outputs] = self._scales
            self._check_seen(E)
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
        entries = [self._P[np.ix_(pairs, pairs)] for pairs in inside.members]
        self._inverses = BlockInverses(np.diagonal(self._P).copy(), entries, inside)
        self._r = self._inverses.residuals(self._c[:, None])
        self.residuals, self.variances = np.full((2, n, d), np.nan)
        self.residuals[rows, outputs] = self._r[:, 0] / self._scales
        self.variances[rows, outputs] = self._inverses.variances() / self._scales**2

    @staticmethod
    def _check_seen(E: Array) -> None:
        unseen = np.flatnonzero(~E.any(axis=0))
        if len(unseen):
            raise ValueError(f"an intercept needs an observation of every output, but output {unseen[0]} has none")

    def predict(self, cross: Array) -> Array:
        result: Array = (cross * self._scales) @ self._c + self.b
        return result

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
        result: Array = np.maximum(v, 0.0)
        return result

    def predict_without(self, cross: Array) -> Array:
        m, d, _ = cross.shape
        changes = np.zeros((m, self.n_blocks, d))
        L = self._weights(cross)
        for q in range(d):
            changes[:, self._seen, q] = self._inverses.products(L[:, q], self._r)[:, :, 0]
        result: Array = self.predict(cross)[:, None, :] - changes
        return result

    def variance_without(self, cross: Array, prior: Array) -> Array:
        m, d, _ = cross.shape
        added = np.zeros((m, self.n_blocks, d))
        L = self._weights(cross)
        for q in range(d):
            added[:, self._seen, q] = self._inverses.inner(L[:, q])
        result: Array = self.variance(cross, prior)[:, None, :] + added
        return result
