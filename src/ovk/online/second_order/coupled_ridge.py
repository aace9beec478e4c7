"""Ridge regression of coupled outputs with missing labels.

The outputs are coupled by T = F F' + diag(delta) with F (d, r). Output j then has the weights

    w_j = v_j + (f_j' (x) I) u,

where u is shared by all outputs. Instead of one (m d) x (m d) matrix, the normal equations have d blocks of size m x m
and a border of size r m (an arrow matrix). Let G_j be the sum of phi phi', and b_j that of phi y_j, over the rows where
output j was observed. At the start of a block of rows

    N_j = (I + (delta_j / alpha) G_j)^-1,        K_j = (alpha / delta_j) (I - N_j)
                                                 (N_j = I and K_j = G_j where delta_j = 0),
    S_u = alpha I + sum_j f_j f_j' (x) K_j = L_u L_u',
    u   = S_u^-1 sum_j f_j (x) N_j b_j,
    w_j = N_j ((delta_j / alpha) b_j + (f_j' (x) I) u).

For the rows Phi of the block let P_j = Phi N_j, own_j = (delta_j / alpha) P_j Phi' and
q_ij = L_u^-1 (f_j (x) N_j phi_i). All pairs of a row and an output have the joint covariance

    H[(i, j), (k, l)] = q_ij' q_kl + [j = l] own_j[i, k].

Let o be the observed pairs in the order of rows, C C' = I + H_oo, base_ij = phi_i' w_j and e = C^-1 (y_o - base_o).
Then

    ridge_i = base_i + W_i e,        W_i = H_io C'^-1 over the pairs o of the rows before i,

and the forecaster of Azoury, Vovk and Warmuth solves (I + H_ii - W_i W_i') z = ridge_i.

At the end of a block N_j is updated by Woodbury's identity; it is recomputed now and then, against rounding errors, and
after every block if rows are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.linalg.blas import dtrsm
from scipy.linalg.lapack import dpotrf, dpotri

from ovk.base import Array, Indices
from ovk.features import ROUNDING, RidgeFactor
from ovk.online.second_order.block_ridge import AllRowsSums, ProgressiveRidge, RidgeRows
from ovk.online.second_order.growing_cholesky import RidgeForecast, noise_floor, shifted_cholesky
from ovk.solvers import solve_lower, whitened_rows

#: Bounds on the observed labels of a block, otherwise half the width of the border, and on its points.
MIN_BLOCK_LABELS, MAX_BLOCK_LABELS, MAX_BLOCK_POINTS = 160, 768, 64
#: N is recomputed in the first blocks, which change it most, and then periodically.
FIRST_BLOCKS, REFRESH_BLOCKS = 8, 32


def _none(*shape: int) -> Callable[[], Array]:
    return lambda: np.empty(shape)


@dataclass
class CoupledRidge(ProgressiveRidge, kind="arrow"):
    """Ridge regression of coupled outputs on features, which predicts each row before learning its observed labels.

    N (d, m, m) is that at the start of the block, empty if it must be recomputed; `blocks`, `pairs` and `learned` count
    blocks, observed labels and points. The ridge of the block is alpha, decayed if the sums decay, and above their
    rounding; `border` is the factor of S_u, and `weights` is w (d, m). The present block has rows (n, m), the indices
    `where` (s, 2) of its observed labels, these labels (s,), their q (s, r m), C, e, and P (d, ., m) in pieces.
    """

    _state_classes = {"border": RidgeFactor}
    _stored = {
        "F": "d r",
        "delta": "d",
        "weights": "d m",
        "where": "j 2 int",
        "labels errors": "j",
        "whitened": "j q",
        "factor": "j j",
        "rows": "n m",
    }

    F: Array
    delta: Array
    alpha: float
    N: Array = field(default_factory=_none(0, 0, 0))
    blocks: int = 0
    pairs: int = 0
    learned: int = 0
    ridge: float = 0.0
    border: RidgeFactor | None = None
    weights: Array = field(default_factory=_none(0, 0))
    rows: Array = field(default_factory=_none(0, 0))
    where: Indices = field(default_factory=lambda: np.empty((0, 2), dtype=np.int64))
    labels: Array = field(default_factory=_none(0))
    whitened: Array = field(default_factory=_none(0, 0))
    factor: Array = field(default_factory=_none(0, 0))
    errors: Array = field(default_factory=_none(0))
    points: int = 0
    projected: list[Array] = field(default_factory=list)
    #: Whether no copy shares N, so that it may be changed in place.
    _own: bool = field(default=False, init=False, repr=False, compare=False)

    def block_size(self, m: int) -> int:
        pairs: int = min(max(MIN_BLOCK_LABELS, self.F.shape[1] * m // 2), MAX_BLOCK_LABELS)
        return max(1, min(MAX_BLOCK_POINTS, pairs * max(self.learned, 1) // max(self.pairs, len(self.delta))))

    def start_block(self, points: int) -> None:
        B = self.sums.labels()
        m, d = B.shape
        r, own = self.F.shape[1], self.delta > 0.0
        ridge = self.alpha * self.sums.ridge_factor()
        if len(self.N) == 0 or not own.all():
            G = self.sums.total().S
            # The ridge must exceed the rounding errors of the sums.
            T = (self.F**2).sum(axis=1) + self.delta
            scale = (np.diagonal(G, axis1=1, axis2=2).max(initial=0.0, axis=1) * T).max()
            ridge = max(ridge, ROUNDING * float(scale))
        else:
            ridge = self.ridge
        if len(self.N) == 0 or ridge != self.ridge:
            self.N = np.empty(G.shape)
            for j, delta in enumerate(self.delta):
                self.N[j] = _inverse(delta / ridge * G[j])
            self._own = True
        self.ridge = ridge
        # sum_j f_j f_j' (x) K_j without computing the K_j.
        outer = (self.F[:, :, None] * self.F[:, None, :]).reshape(d, r * r)
        c = np.divide(ridge, self.delta, out=np.zeros(d), where=own)
        S = -(outer * c[:, None]).T @ self.N.reshape(d, m * m)
        S[:, :: m + 1] += (c @ outer)[:, None]
        if not own.all():
            S += outer[~own].T @ G[~own].reshape(-1, m * m)
        S = S.reshape(r, r, m, m).transpose(0, 2, 1, 3).reshape(r * m, r * m)
        self.border = RidgeFactor.from_lower(S, ridge)
        Nb = (self.N @ B.T[..., None])[..., 0]
        u = self.border.solve((self.F.T @ Nb).reshape(-1, 1)).reshape(r, m)
        self.weights = (self.delta / ridge)[:, None] * Nb + (self.N @ (self.F @ u)[..., None])[..., 0]
        self.rows, self.whitened = np.empty((0, m)), np.empty((0, r * m))
        self.where, self.labels, self.errors = np.empty((0, 2), dtype=np.int64), np.empty(0), np.empty(0)
        self.factor, self.points, self.projected = np.empty((0, 0)), 0, []

    def predict(self, Phi: Array) -> RidgeForecast:
        factors = self.sums.row_factors(np.array([self.points]))
        if factors is not None:
            Phi = factors * Phi
        Q, P, base = self._project(Phi)
        n, d = base.shape
        q = Q.reshape(n, d, -1)
        H = q @ q.transpose(0, 2, 1)
        H[:, range(d), range(d)] += np.einsum("jim,im->ij", P, Phi) * (self.delta / self.ridge)
        f = noise_floor(np.einsum("naa->na", H))
        if len(self.errors):
            W = whitened_rows(self.factor, self._cross(Q, P))
            base = base + (W @ self.errors).reshape(n, d)
            w = W.reshape(n, d, -1)
            H -= w @ w.transpose(0, 2, 1)
        return RidgeForecast(base if factors is None else base / factors, H / f)

    def predict_and_update(self, rows: RidgeRows, *, last: bool) -> RidgeForecast:
        Phi, Y, observed, learned, weights, _ = rows
        if Phi.shape[1] > self.weights.shape[1]:
            # The identities need the same features throughout a block; predictions do not depend on where it ends.
            self.commit(Phi.shape[1])
            self.start_block(len(Phi))
        factors = self._row_factors(self.points + np.cumsum(learned) - learned, weights)
        if factors is not None:
            factors = factors[:, None]
            Phi, Y = factors * Phi, factors * Y
        Q, P, base = self._project(Phi)
        n, d = Y.shape
        o, old = np.flatnonzero(observed), len(self.errors)
        row, output = np.divmod(o, d)
        # Covariances of all pairs with the observed ones only, which are few if many labels are missing.
        H = Q @ Q[o].T
        own = (P @ Phi.T) * (self.delta / self.ridge)[:, None, None]
        H.reshape(n, d, -1)[:, output, np.arange(len(o))] += own[output, :, row].T
        q = Q.reshape(n, d, -1)
        inner = q @ q.transpose(0, 2, 1)
        inner[:, range(d), range(d)] += np.diagonal(own, axis1=1, axis2=2).T
        f = noise_floor(np.einsum("naa->na", inner))
        Z = base.reshape(-1)
        W = np.empty((n * d, 0))
        if old:
            W = whitened_rows(self.factor, self._cross(Q, P))
            H -= W @ W[o].T
            Z += W @ self.errors
        if len(o):
            C = shifted_cholesky(H[o], f)
            e = solve_lower(C, (Y.reshape(-1)[o] - Z[o])[:, None])[:, 0]
            # H C'^-1 = C - C'^-1 between observed pairs, and C'^-1 is 0 where the second comes before the first.
            V, others = np.empty((n * d, len(o))), np.flatnonzero(~observed)
            V[o] = C
            V[others] = whitened_rows(C, H[others])
            V.reshape(n, d, len(o))[...] *= (row < np.arange(n)[:, None])[:, None]
            Z += V @ e
            self._remember(o, Q, Y, C, e, W)
            W = np.hstack([W, V]) if old else V
        self.rows, self.projected = np.vstack([self.rows, Phi]), [*self.projected, P]
        self.points += int(learned.sum())
        w = W.reshape(n, d, -1)
        inner -= w @ w.transpose(0, 2, 1)
        ridge = Z.reshape(n, d)
        H = inner / f if weights is None else inner / (f * weights[:, None, None])
        return RidgeForecast(ridge if factors is None else ridge / factors, H)

    def commit(self, m: int) -> None:
        grown = m > len(self.sums.labels())
        self.sums.transform(lambda sums: sums.padded(m))
        self.learned, self.pairs = self.learned + self.points, self.pairs + len(self.errors)
        if len(self.rows):
            Y = np.full((len(self.rows), len(self.delta)), np.nan)
            Y[self.where[:, 0], self.where[:, 1]] = self.labels
            self.blocks += 1
            fresh = grown or self.blocks <= FIRST_BLOCKS or self.blocks % REFRESH_BLOCKS == 0
            if fresh or not isinstance(self.sums, AllRowsSums):
                self.N = np.empty((0, 0, 0))
            else:
                self._correct()
            rows = np.pad(self.rows, ((0, 0), (0, m - self.rows.shape[1])))
            self.sums.add(rows, Y, self.points)
        elif grown:
            self.N = np.empty((0, 0, 0))
        self.rows, self.points = self.rows[:0], 0

    def merge(self, other: ProgressiveRidge) -> None:
        super().merge(other)
        self.N = np.empty((0, 0, 0))

    def _correct(self) -> None:
        """Update N with the rows of the block by Woodbury's identity."""
        if not self._own:
            self.N, self._own = self.N.copy(), True
        projected = self.projected[0] if len(self.projected) == 1 else np.concatenate(self.projected, axis=1)
        for j, delta in enumerate(self.delta):
            index = self.where[self.where[:, 1] == j, 0]
            if len(index) and delta > 0.0:
                c, p = delta / self.ridge, projected[j][index]
                A = c * p @ self.rows[index].T
                A.flat[:: len(A) + 1] += 1.0
                R = dtrsm(np.sqrt(c), dpotrf(A.T, lower=1)[0], p, lower=1)
                self.N[j] -= R.T @ R

    def _snapshot(self) -> Self:
        other = super()._snapshot()
        # Both share N now.
        self._own = other._own = False
        return other

    def _project(self, Phi: Array) -> tuple[Array, Array, Array]:
        """q (n d, r m) of all pairs, P (d, n, m) and base (n, d)."""
        n, (d, m), r = len(Phi), self.weights.shape, self.F.shape[1]
        P = Phi @ self.N
        assert self.border is not None
        Q = np.empty((n, d, r, m))
        for j in range(d):
            np.multiply(P[j][:, None, :], self.F[j][:, None], out=Q[:, j])
        return self.border.whiten_rows(Q.reshape(n * d, r * m)), P, Phi @ self.weights.T

    def _cross(self, Q: Array, P: Array) -> Array:
        """(n d, s) covariance of new pairs with the observed ones of the block."""
        d, n = P.shape[:2]
        H = (Q @ self.whitened.T).reshape(n, d, -1)
        row, output = self.where.T
        own = (P @ self.rows.T) * (self.delta / self.ridge)[:, None, None]
        H[:, output, np.arange(len(output))] += own[output, :, row].T
        return H.reshape(n * d, -1)

    def _remember(self, o: Indices, Q: Array, Y: Array, C: Array, e: Array, W: Array) -> None:
        d, old, new = Y.shape[1], len(self.errors), len(e)
        where = np.stack([len(self.rows) + o // d, o % d], axis=1)
        if old:
            factor = np.zeros((old + new, old + new))
            factor[:old, :old], factor[old:, old:], factor[old:, :old] = self.factor, C, W[o]
            C = factor
        self.factor = C
        self.where, self.whitened = np.vstack([self.where, where]), np.vstack([self.whitened, Q[o]])
        self.labels, self.errors = np.append(self.labels, Y.reshape(-1)[o]), np.append(self.errors, e)


def _inverse(A: Array) -> Array:
    """(I + A)^-1 for A that is positive semi-definite up to rounding; its diagonal is overwritten."""
    if len(A) == 0:
        return A
    A.flat[:: len(A) + 1] += 1.0
    root, failed = dpotrf(A.T, lower=1)
    if failed:
        values, vectors = np.linalg.eigh(A)
        return np.asarray((vectors / np.maximum(values, 1.0)) @ vectors.T)
    inverse, _ = dpotri(root, lower=1, overwrite_c=1)
    # The upper triangle of `inverse` is 0.
    full: Array = inverse + inverse.T
    full.flat[:: len(A) + 1] *= 0.5
    return full
