"""Ridge regression that forgets old rows, computed in blocks by matrix products.

The rows are cut into blocks of b rows, aligned to the stream. With a discount g and the sums S of phi phi' and B of
phi y' over the blocks before, row i of a block is predicted by phi_i' w_i with

    w_i = A_i^-1 B_i,
    A_i = g^i (S + c I) + sum_{l<i} g^(i-1-l) phi_l phi_l',
    B_i = g^i B + sum_{l<i} g^(i-1-l) phi_l y_l'.

Inside a block the ridge decays with the sums; c = alpha g^(-(b+1)/2) makes it alpha in the middle of the block. After
the block S <- g^b S + sum_l g^(b-1-l) phi_l phi_l', B likewise, and the next block starts with the full ridge again.
This differs little from a ridge that never decays, and lets rows scaled by s_l = g^(-(l+1)/2) obey the identities of a
block without forgetting: with A = S + c I = L L', w = A^-1 B, U = L^-1 (s Phi)' and I + U'U = C C',

    e = C^-1 (s Y - s Phi w),    ridge_i = (s Phi w + tril(C, -1) e)_i / s_i,    1 + h_i = C_ii^2.

The forecaster of Azoury, Vovk and Warmuth is ridge_i / (1 + h_i). C and e grow row by row, so the predictions do not
depend on the portions in which the rows of a block arrive.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from scipy.linalg.blas import dtrsm, dtrsv
from scipy.linalg.lapack import dpotrf

from ovk._singular import SingularSystem
from ovk._state import State
from ovk._types import Array
from ovk.online.shared.residual_limits import first_limit, limit_after, next_limit

#: Sums decay by at most this factor in a block, so that the scaled rows remain of a similar size.
LEAST = 0.5


def block_length(discount: float, most: int = 128) -> int:
    """Rows of a block: at most `most`, and few enough that the sums decay by no more than half."""
    return most if discount >= 1.0 else max(1, min(most, int(np.log(LEAST) / np.log(discount))))


class DecayingRidge(State):
    """Ridge regression on features, which predicts each row before it learns from it and forgets old rows.

    A label that is nan is treated as if it had been predicted exactly.

    Parameters
    ----------
    features, outputs : numbers of features and of outputs
    alpha : ridge parameter
    discount : in (0, 1]; 1 never forgets
    block : number of rows in a block, which matters for the predictions if `discount` is below 1; None means
        `block_length(discount)`
    shrink : whether to predict by the forecaster of Azoury, Vovk and Warmuth instead of the plain ridge
    limit : a label that is further than this from its prediction is moved to this distance
    robust : the same for a distance that follows the residuals: about `robust` times the largest one of late, as
        `ovk.online.shared.residual_limits` says, from the second block on or after `replay`. The labels should be
        scaled to a deviation of about 1.
    """

    _saved_state = (
        *("alpha", "discount", "block", "shrink", "limit", "robust", "reach"),
        *("S", "B", "count", "rows", "errors", "factor", "whitened"),
    )

    def __init__(
        self,
        features: int,
        outputs: int,
        alpha: float,
        *,
        discount: float = 1.0,
        block: int | None = None,
        shrink: bool = False,
        limit: float = np.inf,
        robust: float = np.inf,
    ) -> None:
        self.alpha, self.discount, self.shrink, self.limit = float(alpha), float(discount), shrink, float(limit)
        self.robust, self.reach = float(robust), np.full(outputs, np.inf)
        self.block = block_length(discount) if block is None else int(block)
        self.S, self.B = np.zeros((features, features), order="F"), np.zeros((features, outputs))
        self._start_block()

    _root: Array | None = None
    _weights: Array

    def predict(self, Phi: Array) -> Array:
        """(n, d) predictions of (n, m) rows, each as if it came next; the state does not change."""
        w, done = self._solved(), self.count
        Z: Array = Phi @ w
        if done or self.shrink:
            s = self.discount ** (-(done + 1) / 2)
            U = self._whiten(s * Phi)
            W = np.zeros((0, len(U)))
            if done:
                W = dtrsm(1.0, self.factor[:done, :done], self.whitened[:done] @ U.T, lower=1)
            Z = Z + (W.T @ self.errors[:done]) / s
            if self.shrink:
                Z /= (1.0 + np.einsum("ij,ij->i", U, U) - np.einsum("ij,ij->j", W, W))[:, None]
        return Z

    def predict_and_update(self, Phi: Array, Y: Array) -> Array:
        """(n, d) predictions of (n, m) rows, each made before its own (d,) labels are learned."""
        Z = np.empty(Y.shape)
        start = 0
        while start < len(Phi):
            rows = slice(start, start + self.block - self.count)
            Z[rows] = self._append(Phi[rows], Y[rows])
            start = rows.stop
            if self.count == self.block:
                self.end_block()
        return Z

    def replay(self, Phi: Array, Y: Array) -> None:
        """Learn rows without predicting them: the sums with each row's discount, if no label is missing."""
        self.end_block()
        if np.isnan(Y).any():
            # A missing label takes its prediction, which only the rows before it can give.
            self.predict_and_update(Phi, Y)
            self.end_block()
            return
        weights = self.discount ** np.arange(len(Phi) - 1.0, -1.0, -1.0)[:, None]
        R = np.sqrt(weights) * Phi
        self.S = np.asfortranarray(self.discount ** len(Phi) * self.S + R.T @ R)
        self.B = self.discount ** len(Phi) * self.B + (weights * Phi).T @ Y
        self._start_block()
        if self.robust < np.inf:
            self._limit_by(Phi, Y, weights)

    def end_block(self) -> None:
        """Add the rows of the block to the sums and begin the next one."""
        n, g = self.count, self.discount
        if n:
            s = g ** (-(np.arange(n) + 1.0) / 2)[:, None]
            # The labels as they were learned: missing ones replaced, wild ones moved.
            Y = (self.rows[:n] @ self._solved()) + (self.factor[:n, :n] @ self.errors[:n]) / s
            if self.robust < np.inf and np.isinf(self.reach).any():
                # The first rows of a learner that knows nothing have large residuals.
                half = slice(n // 2, n)
                found = first_limit(np.diag(self.factor)[half, None] * self.errors[half] / s[half], self.robust)
                self.reach = np.where(np.isinf(self.reach), found, self.reach)
            R = g ** ((n - 1.0 - np.arange(n)) / 2)[:, None] * self.rows[:n]
            self.S = np.asfortranarray(g**n * self.S + R.T @ R) if g < 1.0 else self.S + R.T @ R
            self.B = g**n * self.B + R.T @ (g ** ((n - 1.0 - np.arange(n)) / 2)[:, None] * Y)
        self._start_block()

    def leading(self, features: int) -> DecayingRidge:
        """A learner with the first features only, whose sums are the leading parts of these; ends the block."""
        self.end_block()
        copy = DecayingRidge(
            features,
            self.B.shape[1],
            self.alpha,
            discount=self.discount,
            block=self.block,
            shrink=self.shrink,
            limit=self.limit,
            robust=self.robust,
        )
        copy.S, copy.B = self.S[:features, :features].copy(order="F"), self.B[:features].copy()
        copy.reach = self.reach
        return copy

    def _limit_by(self, Phi: Array, Y: Array, weights: Array) -> None:
        """Take the limit of the next rows from the residuals of replayed rows, each left out in turn."""
        residuals = Y - Phi @ self._solved()
        leverages = weights[:, 0] * np.einsum("ij,ij->i", *2 * (self._whiten(Phi),))
        self.reach = first_limit(residuals / np.maximum(1.0 - leverages, 1e-6)[:, None], self.robust)

    def _start_block(self) -> None:
        m, d = self.B.shape
        self.count = 0
        self.rows, self.whitened = np.zeros((self.block, m)), np.zeros((self.block, m))
        self.factor, self.errors = np.zeros((self.block, self.block), order="F"), np.zeros((self.block, d))
        self._root = None

    def _solved(self) -> Array:
        """(m, d) weights at the start of the block, computed once together with the factor of the normal matrix."""
        if self._root is None:
            A = self.S.copy(order="F")
            A.flat[:: len(A) + 1] += self.alpha * self.discount ** (-(self.block + 1) / 2)
            root, info = dpotrf(A, lower=1, overwrite_a=1)
            if info:
                raise SingularSystem(f"alpha={self.alpha!r} is too small for these features: raise it")
            self._weights = dtrsm(1.0, root, dtrsm(1.0, root, self.B, lower=1), lower=1, trans_a=1)
            # The last of the two, for another thread that sees it uses the weights.
            self._root = root
        return self._weights

    def _whiten(self, R: Array) -> Array:
        """(n, m) rows L^-1 r of (n, m) rows r."""
        assert self._root is not None
        one = len(R) == 1
        U: Array = dtrsv(self._root, R[0], lower=1)[None] if one else dtrsm(1.0, self._root, R.T, lower=1).T
        return U

    def _append_row(self, phi: Array, y: Array) -> Array:
        """Predict and learn a single row without gaps, (m,) and (d,): the steps of `_append` in numbers."""
        w, done = self._solved(), self.count
        assert self._root is not None
        s = self.discount ** (-(done + 1) / 2)
        r = phi * s if s != 1.0 else phi
        u = dtrsv(self._root, r, lower=1)
        z, pivot = r @ w, 1.0 + float(u @ u)
        if done:
            cross = dtrsv(self.factor[:done, :done], self.whitened[:done] @ u, lower=1)
            pivot -= float(cross @ cross)
            z += cross @ self.errors[:done]
            self.factor[done, :done] = cross
        c = sqrt(pivot)
        residual = y - z / s
        limit = np.minimum(self.limit, self.reach)
        moved = np.minimum(np.maximum(residual, -limit), limit)
        if self.robust < np.inf:
            self.reach = next_limit(self.reach, residual, self.robust)
        self.rows[done], self.whitened[done], self.factor[done, done], self.errors[done] = phi, u, c, s * moved / c
        self.count += 1
        forecast: Array = z / (s * pivot) if self.shrink else z / s
        return forecast

    def _append(self, Phi: Array, Y: Array) -> Array:
        """Predict and learn rows that belong to the present block."""
        if len(Phi) == 1 and not np.isnan(Y).any():
            return self._append_row(Phi[0], Y[0])[None]
        w, done, n = self._solved(), self.count, len(Phi)
        rows, old = slice(done, done + n), slice(0, done)
        s = self.discount ** (-(np.arange(done, done + n) + 1.0) / 2)[:, None]
        R = Phi * s if self.discount < 1.0 else Phi
        U = self._whiten(R)
        G = U @ U.T
        G.flat[:: n + 1] += 1.0
        Z = R @ w
        if done:
            W = dtrsm(1.0, self.factor[old, old], self.whitened[old] @ U.T, lower=1)
            G -= W.T @ W
            Z += W.T @ self.errors[old]
            self.factor[rows, old] = W.T
        C = np.sqrt(G) if n == 1 else dpotrf(G, lower=1, clean=1)[0]
        low = np.tril(C, -1)
        e = self._solve_forward(C, Y, Z, s)
        Z += low @ e
        self.rows[rows], self.whitened[rows], self.factor[rows, rows], self.errors[rows] = Phi, U, C, e
        self.count += n
        Z /= s
        return Z / np.diag(C)[:, None] ** 2 if self.shrink else Z

    def _solve_forward(self, C: Array, Y: Array, base: Array, s: Array) -> Array:
        """e = C^-1 (s Y - base), with residuals within the limits and 0 for labels that are missing."""
        right = s * Y - base
        if not np.isnan(Y).any():
            e: Array = right / C[0, 0] if len(C) == 1 else dtrsm(1.0, C, right, lower=1)
            residuals = np.diag(C)[:, None] * e / s
            after = limit_after(self.reach, residuals, self.robust) if self.robust < np.inf else self.reach
            if after is not None and (np.abs(residuals) <= self.limit).all():
                self.reach = after
                return e
        e = np.zeros(Y.shape)
        for i, c in enumerate(C):
            residual = np.nan_to_num((right[i] - c[:i] @ e[:i]) / s[i])
            limit = np.minimum(self.limit, self.reach)
            e[i] = s[i] * np.clip(residual, -limit, limit) / c[i]
            if self.robust < np.inf:
                self.reach = next_limit(self.reach, residual, self.robust)
        return e
