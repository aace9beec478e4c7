"""Progressive ridge regression with exponential forgetting, in exact blocks.

An observation of k points ago has the weight g^k; the ridge keeps its own. With S = Q diag(s) Q' and V = Q'B when a
block began, and Psi = Phi Q, point j (n points were learned before it in the block) needs A_j = ridge + a S + sum over
them, a = g^(n+1): of full rank more than the A before it, so one factor cannot serve the whole block. In the
eigenvectors it is diagonal plus the few rows of the block: with N the rows psi_l g^((n - n_l) / 2) before it and
D = ridge + a s,

    C C' = I + N D^-1 N',   e = C^-1 (y_l g^((n - n_l) / 2) - a N D^-1 V),   W = C^-1 N D^-1 psi_j',
    ridge_j = a psi_j D^-1 V + W'e,     H_j = psi_j D^-1 psi_j' - W'W.

One `eigh` a block serves every ridge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ovk._params import Registered
from ovk._validation import Array
from ovk.online.block_ridge import Group
from ovk.online.sums import Part
from ovk.online.triangle import ROUNDING, Forecast, floor, shifted_cholesky
from ovk.solvers.triangular import solve_lower

Mask = npt.NDArray[np.bool_]
Times = npt.NDArray[np.int64]


def forgetting_size(m: int) -> int:
    """Points of a block with m features: enough to share an eigendecomposition, few enough to factor for each."""
    return min(max(16, m // 2), 64)


@dataclass
class ForgettingRidge(Registered):
    """Ridge regression of several outputs on the same features, with weights that decay.

    Attributes
    ----------
    groups : outputs by their ridge
    per : rows of a point, predicted together
    discount : g
    part : S and B with the weights of the last point learned before the block
    Q, s, V : eigenvectors and eigenvalues of S and Q'B when the block began
    Psi, Y, times : rows of the block so far, rotated, their labels, and the number of the point of each
    Phi : the same rows as they came
    points : points learned in the block so far
    """

    groups: list[Group]
    per: int
    discount: float
    part: Part
    Q: Array = field(default_factory=lambda: np.empty((0, 0)))
    s: Array = field(default_factory=lambda: np.empty(0))
    V: Array = field(default_factory=lambda: np.empty((0, 0)))
    Phi: list[Array] = field(default_factory=list)
    Psi: Array = field(default_factory=lambda: np.empty((0, 0)))
    Y: Array = field(default_factory=lambda: np.empty((0, 0)))
    times: Times = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    points: int = 0

    def room(self) -> int | None:
        """Points that a block may have at most; None for any number."""
        return None

    def begin(self, rows: int) -> None:
        """Begin a block."""
        m, k = self.part.B.shape
        values, Q = np.linalg.eigh(self.part.S) if m else (np.empty(0), np.empty((0, 0)))
        self.s, self.Q = np.maximum(values, 0.0), Q
        self.V = Q.T @ self.part.B
        self.Phi, self.Psi, self.Y = [], np.empty((0, m)), np.empty((0, k))
        self.times, self.points = np.empty(0, dtype=np.int64), 0

    def _rotated(self, Phi: Array) -> Array:
        m = len(self.s)
        return np.concatenate([Phi[:, :m] @ self.Q, Phi[:, m:]], axis=1) if Phi.shape[1] > m else Phi @ self.Q

    def take(self, Phi: Array, Y: Array, seen: Mask, learned: Mask, *, last: bool) -> Forecast:
        """Predict rows (r, m), each from all points before its own, and learn those that are seen.

        Parameters
        ----------
        seen : (r,) which rows have a label
        learned : (points,) which points have at least one
        last : whether these are the last rows of the block
        """
        Psi, per = self._rotated(Phi), self.per
        new = Psi.shape[1] - self.Psi.shape[1]
        if new:
            self.Psi = np.pad(self.Psi, ((0, 0), (0, new)))
        first, count = len(self.times), int(seen.sum())
        self.Psi = np.concatenate([self.Psi, Psi[seen]])
        self.Y = np.concatenate([self.Y, Y[seen]])
        numbers = self.points + np.cumsum(learned) - learned
        self.times = np.concatenate([self.times, np.repeat(numbers, per)[seen]])
        known = first + np.concatenate([[0], np.cumsum(seen)])[: len(Psi) : per]
        found = [self._one(Psi[i * per : (i + 1) * per], int(known[i]), int(numbers[i])) for i in range(len(learned))]
        self.Phi.append(Phi if count == len(Phi) else Phi[seen])
        self.points += int(learned.sum())
        k = Y.shape[1]
        shape = (len(Phi), k) if per == 1 else (len(learned), per, per)
        if not found:
            return Forecast(np.zeros((len(Phi), k)), np.zeros(shape))
        return Forecast(np.concatenate([one.ridge for one in found]), np.stack([one.H for one in found]).reshape(shape))

    def look(self, Phi: Array) -> Forecast:
        """Predict rows, each by itself, from all that was learned."""
        return self._one(self._rotated(Phi), len(self.times), self.points, apart=True)

    def _one(self, psi: Array, known: int, n: int, *, apart: bool = False) -> Forecast:
        """Rows of one point (or of many, each by itself with `apart`) from the first rows of the block."""
        g = self.discount
        a = g ** (n + 1)
        fade = g ** (0.5 * (n - self.times[:known]))
        N, y = self.Psi[:known, : psi.shape[1]] * fade[:, None], self.Y[:known] * fade[:, None]
        m, k = len(self.s), self.Y.shape[1]
        ridge = np.zeros((len(psi), k))
        points = len(psi) // self.per
        H = np.zeros((points, k) if self.per == 1 else (points, self.per, self.per))
        for group in self.groups:
            if not np.isfinite(group.ridge):
                continue
            columns = slice(group.start, group.stop)
            D = np.full(psi.shape[1], group.ridge)
            # An eigenvalue below the rounding of S says nothing.
            rounding = ROUNDING * float(self.s.max(initial=0.0))
            D[:m] += a * (self.s if group.ridge >= rounding else np.maximum(self.s, rounding))
            weighted = psi / D
            G, own = (N / D) @ N.T, np.einsum("ij,ij->i", psi, weighted)
            f = floor(np.concatenate([np.diagonal(G), own]))
            C = shifted_cholesky(G, f)
            base = a * (self.V[:, columns] / D[:m, None])
            W = solve_lower(C, np.ascontiguousarray(N @ weighted.T))
            e = solve_lower(C, y[:, columns] - N[:, :m] @ base)
            ridge[:, columns] = psi[:, :m] @ base + W.T @ e
            if self.per == 1:
                H[:, columns] = ((own - np.einsum("ij,ij->j", W, W)) / f)[:, None]
            else:
                rows, right = psi.reshape(points, self.per, -1), weighted.reshape(points, self.per, -1)
                inside = W.reshape(len(W), points, self.per)
                H[...] = (rows @ right.transpose(0, 2, 1) - np.einsum("lpa,lpb->pab", inside, inside)) / f
        return Forecast(ridge, H)

    def fold(self, m: int) -> None:
        """End the block: its rows join the sums, which now have m features."""
        g = self.discount
        part = self.part.padded(m)
        faded = Part(g**self.points * part.S, g**self.points * part.B)
        if self.Phi:
            Phi = np.concatenate([np.pad(P, ((0, 0), (0, m - P.shape[1]))) for P in self.Phi])
            faded.add_rows(Phi, self.Y, np.asarray(g ** (self.points - 1.0 - self.times)))
        self.part = faded

    def add_late(self, new: slice, S: Array, B: Array) -> None:
        """What rows of the past say about new features: rows of S and B, with their weights."""
        self.part.S[new] += S
        self.part.B[new] += B

    def change(self, change: Callable[[Part], Part]) -> None:
        """Apply a linear map to the sums."""
        self.part = change(self.part)
