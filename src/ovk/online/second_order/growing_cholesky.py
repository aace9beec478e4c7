"""A Cholesky factor that grows with the stream, and progressive ridge predictions from it.

For rows with Gram matrix G (in units of the ridge), C C' = I + G. With e = C^-1 (y - base),

    ridge_j = base_j + C_{j,<j} e_{<j},      1 + h_j = C_jj^2,

is the ridge prediction of row j from the rows before it, and h_j its leverage. The label of row j enters e_j alone, on
which its prediction does not depend. If the ridge is so small that rounding would lose the 1 in I + G, a larger number
f replaces it, and h_j = C_jj^2 / f - 1.

The rows of one point are predicted together (d rows if outputs share a factor), and rows without a label do not join
the factor: with W = C^-1 G[seen, :], ridge_j = base_j + W_{<j}' e_{<j} and H_j = G_jj - W_{<j}' W_{<j}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from math import sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from scipy.linalg import lapack

from ovk.base import Array, Mask, State
from ovk.features import ROUNDING
from ovk.solvers import forward_row, solve_lower


class RidgeForecast(NamedTuple):
    """Ridge predictions (n, d) and leverages H: (n, d) or (n,) in the eigenvectors `vectors` (d, d) of the output
    operator, None for the outputs themselves, or (n, d, d).
    """

    ridge: Array
    H: Array
    vectors: Array | None = None

    @classmethod
    def concatenate(cls, parts: list[RidgeForecast]) -> RidgeForecast:
        if len(parts) == 1:
            return parts[0]
        H = np.concatenate([part.H for part in parts])
        return cls(np.concatenate([part.ridge for part in parts]), H, parts[0].vectors)

    def predictions(self, *, shrink: bool) -> Array:
        """(n, d) forecasts: ridge, or with `shrink` those of Azoury, Vovk and Warmuth, (I + H)^-1 ridge."""
        values: Array = self.ridge
        if shrink:
            if self.H.ndim == 2:
                # Negative leverages are rounding errors.
                values = values / (1.0 + np.maximum(self.H, 0.0))
            else:
                values = np.asarray(np.linalg.solve(np.eye(values.shape[1]) + self.H, values[:, :, None])[:, :, 0])
        return values if self.vectors is None else values @ self.vectors.T

    def leverages(self) -> Array:
        """H between the outputs, (n, d, d)."""
        if self.H.ndim == 3:
            return self.H
        if self.vectors is None:
            return self.H[:, :, None] * np.eye(self.H.shape[1])
        return np.asarray(np.einsum("nq,aq,bq->nab", self.H, self.vectors, self.vectors, optimize=True))


@dataclass
class GrowingCholesky(State):
    """The factor C of n rows in panels of rows, and e = C^-1 (y - base).

    Panel i has the rows from i * panel on, up to its diagonal block, (panel, start + panel), and its e (panel, k): half
    the memory of a square, and no copies when it grows. The last panel and its e are views of larger arrays.
    """

    k: int
    panel: int
    n: int = 0
    panels: list[Array] = field(default_factory=list)
    E: list[Array] = field(default_factory=list)
    _room: tuple[Array, Array] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.panels:
            # A file may contain unused rows.
            start = (len(self.panels) - 1) * self.panel
            self.panels[-1], self.E[-1] = self.panels[-1][: self.n - start, : self.n], self.E[-1][: self.n - start]
        ends = [*range(self.panel, self.n, self.panel), self.n] if self.n else []
        rows = [end - start for start, end in pairwise([0, *ends])]
        if [P.shape for P in self.panels] != list(zip(rows, ends, strict=True)):
            raise ValueError(f"GrowingCholesky.panels must be {len(ends)} panels of {self.n} rows")
        if [e.shape for e in self.E] != [(count, self.k) for count in rows]:
            raise ValueError(f"GrowingCholesky.E must have {self.n} rows and {self.k} columns, in panels")

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickles of the views would not be views, and unused rows need not be stored.
        return GrowingCholesky, (self.k, self.panel, self.n, list(self.panels), list(self.E))

    def forward(self, G: Array) -> Array:
        """C^-1 G, overwriting G (n, r), which must be in C order."""
        for i, P in enumerate(self.panels):
            start = i * self.panel
            rows = G[start : start + len(P)]
            if start:
                rows -= P[:, :start] @ G[:start]
            rows[...] = solve_lower(P[:, start:], rows)
        return G

    def backward(self, G: Array) -> Array:
        """C'^-1 G, overwriting G (n, r)."""
        for i in range(len(self.panels) - 1, -1, -1):
            P, start = self.panels[i], i * self.panel
            rows = G[start : start + len(P)]
            rows[...] = solve_lower(P[:, start:], rows, transposed=True)
            if start:
                G[:start] -= P[:, :start].T @ rows
        return G

    def explained(self, W: Array) -> Array:
        """W' e for W (n, r)."""
        total = np.zeros((W.shape[1], self.k))
        for i, e in enumerate(self.E):
            start = i * self.panel
            total += W[start : start + len(e)].T @ e
        return total

    def coefficients(self) -> Array:
        """(I + G)^-1 (y - base), (n, k)."""
        return self.backward(np.concatenate(self.E)) if self.n else np.zeros((0, self.k))

    def predict(self, cross: Array, own: Array, base: Array, per: int = 1) -> RidgeForecast:
        """Predictions of new rows from the rows of the factor.

        `cross` (n, r), which is overwritten, is the Gram matrix of both, `own` (r,) the diagonal of that of the new
        rows, or (points, d, d) its diagonal blocks, and `base` (r, k) the predictions without the factor.
        """
        f = noise_floor(own if per == 1 else np.einsum("paa->pa", own))
        W = self.forward(cross)
        ridge = base + self.explained(W)
        if per == 1:
            return RidgeForecast(ridge, (own - np.einsum("ij,ij->j", W, W)) / f)
        blocks = W.reshape(len(W), W.shape[1] // per, per)
        return RidgeForecast(ridge, (own - np.einsum("spa,spb->pab", blocks, blocks, optimize=True)) / f)

    def predict_and_update(
        self,
        cross: Array,
        own: Array,
        base: Array,
        Y: Array,
        seen: Mask,
        per: int = 1,
        weights: Array | None = None,
        *,
        keep: bool = True,
    ) -> RidgeForecast:
        """Predict each new row from all rows before it, and add those in `seen` (r,) to the factor.

        The Gram matrices `cross` (n, r) and `own` (r, r) are overwritten; only the labels Y (r, k) in `seen` are used.
        The `per` rows of a point are predicted together. If rows were multiplied by the roots of `weights` (points,),
        leverages are those of the original rows. Without `keep` no rows follow, and the factor does not grow.
        """
        W, f = cross, noise_floor(np.diagonal(own))
        if self.n:
            W = self.forward(cross)
            base = base + self.explained(W)
            own -= W.T @ W
        # For weighted rows C_jj^2 = f + w h, from which h cannot be computed accurately if w is small.
        scale = f if weights is None else f * (weights if per == 1 else weights[:, None, None])
        if per == 1 and seen.all():
            diagonal = None if weights is None else np.diagonal(own).copy()
            C = shifted_cholesky(own, f)
            e = solve_lower(C, Y - base)
            if keep:
                self._append(W, C, e)
            H = np.diagonal(C) ** 2 / f - 1.0
            # Zeroed, not subtracted: the label of a row must not affect its prediction, not even by rounding.
            np.fill_diagonal(C, 0.0)
            if diagonal is not None:
                H = (diagonal - np.einsum("ij,ij->i", C, C)) / scale
            return RidgeForecast(base + C @ e, H)
        chosen, others = np.flatnonzero(seen), np.flatnonzero(~seen)
        C = shifted_cholesky(own[np.ix_(chosen, chosen)], f)
        e = solve_lower(C, Y[chosen] - base[chosen])
        # C^-1 G = C' - C^-1 between seen rows, and C^-1 is 0 where the first row comes before the second.
        inside = np.empty((len(chosen), len(own)))
        inside[:, chosen] = C.T
        if len(others):
            inside[:, others] = solve_lower(C, own[np.ix_(chosen, others)])
        point = np.arange(len(own)) // per
        inside *= point[chosen][:, None] < point[None, :]
        ridge = base + inside.T @ e
        if keep:
            self._append(W[:, chosen], C, e)
        if per == 1:
            return RidgeForecast(ridge, (np.diagonal(own) - np.einsum("ij,ij->j", inside, inside)) / scale)
        each = np.arange(len(own) // per)
        blocks = own.reshape(len(each), per, len(each), per)[each, :, each, :]
        inner = inside.reshape(len(chosen), len(each), per)
        return RidgeForecast(ridge, (blocks - np.einsum("spa,spb->pab", inner, inner, optimize=True)) / scale)

    def after_row(self, cross: Array, own: float, base: Array, y: Array) -> tuple[Self, Array, float]:
        """The factor with one more row, and its ridge prediction (k,) and leverage; `cross` (n,) is overwritten."""
        w, ridge, h = self.predict_row(cross, own, base)
        f = max(1.0, ROUNDING * own)
        c, row = sqrt(f * (1.0 + h)), self.n % self.panel
        other = self._replace(panels=self.panels.copy(), E=self.E.copy())
        P, own_e = other._last()
        other.n += 1
        P[row, : self.n], P[row, self.n], own_e[row] = w, c, (y - ridge) / c
        other.panels[-1], other.E[-1] = P[: row + 1, : self.n + 1], own_e[: row + 1]
        return other, ridge, h

    def predict_row(self, cross: Array, own: float, base: Array) -> tuple[Array, Array, float]:
        """W (n,), ridge prediction (k,) and leverage of a single row; `cross` is overwritten."""
        f = max(1.0, ROUNDING * own)
        if not self.n:
            return cross, base, own / f
        w = self.forward(cross[:, None])[:, 0] if len(self.panels) > 1 else forward_row(self.panels[0], cross)
        for i, e in enumerate(self.E):
            base = base + w[i * self.panel : i * self.panel + len(e)].dot(e)
        rest = own - float(w.dot(w))
        # As in `shifted_cholesky`, pivots below f are rounding errors.
        return w, base, rest / f if rest > -0.5 * f else 0.0

    def _append(self, W: Array, C: Array, e: Array) -> None:
        done, r = 0, len(C)
        while done < r:
            row = self.n % self.panel
            P, own = self._last()
            some = slice(done, min(done + self.panel - row, r))
            count = some.stop - done
            P[row : row + count, : self.n - done] = W[:, some].T
            P[row : row + count, self.n - done : self.n + count] = C[some, : some.stop]
            own[row : row + count] = e[some]
            self.n += count
            self.panels[-1], self.E[-1] = P[: row + count, : self.n], own[: row + count]
            done = some.stop

    def _last(self) -> tuple[Array, Array]:
        """The arrays of the last panel and its e, including unused rows."""
        row = self.n % self.panel
        if row and self._room is not None:
            return self._room
        self._room = np.zeros((self.panel, self.n - row + self.panel)), np.zeros((self.panel, self.k))
        if row:
            self._room[0][:row, : self.n], self._room[1][:row] = self.panels[-1], self.E[-1]
        else:
            self.panels.append(self._room[0][:0])
            self.E.append(self._room[1][:0])
        return self._room


def noise_floor(diagonal: Array) -> float:
    """The number f that replaces the 1 in I + G: 1, unless rounding would lose it next to this diagonal of G."""
    return max(1.0, ROUNDING * float(diagonal.max(initial=0.0)))


def shifted_cholesky(G: Array, f: float) -> Array:
    """Lower C with C C' = f I + G for G that is positive semi-definite up to rounding; its diagonal is overwritten.

    Every C_jj^2 should be at least f. If rounding makes the matrix indefinite, pivots are raised to f.
    """
    n = len(G)
    A = np.ascontiguousarray(G)
    A.reshape(-1)[:: n + 1] += f
    C, failed = lapack.dpotrf(A.T, lower=0, clean=1)
    if failed == 0 and float(np.diagonal(C).min(initial=np.inf)) ** 2 > 0.5 * f:
        return np.asarray(C.T)
    L = np.zeros((n, n))
    for j in range(n):
        if j:
            L[j, :j] = solve_lower(L[:j, :j], A[j, :j, None])[:, 0]
        L[j, j] = np.sqrt(max(A[j, j] - L[j, :j] @ L[j, :j], f))
    return L
