"""A Cholesky factor that grows with the stream, and the progressive predictions that fall out of it.

For rows with Gram matrix G (in units of the ridge), C C' = I + G. With e = C^-1 (y - base),

    ridge_j = base_j + C_{j,<j} e_{<j},      1 + h_j = C_jj^2,

is the ridge prediction of row j from the rows before it, and h_j its leverage: one factorisation holds all progressive
predictions. The row's own label enters e_j alone, which its prediction does not touch.

Rows of one point come together (d of them when outputs share a factor), and rows without a label are predicted but do
not join the factor: with W = C^-1 G[seen, :], ridge_j = base_j + W_{<j}' e_{<j} and H_j = G_jj - W_{<j}' W_{<j}.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from ovk._params import Registered
from ovk._validation import Array
from ovk.solvers.triangular import solve_lower

Mask = npt.NDArray[np.bool_]

#: Rows of the factor that are stored, and multiplied, together.
PANEL = 256


class Forecast(NamedTuple):
    """Ridge predictions (r, k) of rows before their labels, and leverages: (r,), or (points, d, d) with d rows each."""

    ridge: Array
    H: Array


@dataclass
class Triangle(Registered):
    """The factor C by panels of rows, and e = C^-1 (y - base).

    Panel i holds the rows from i PANEL on, up to its diagonal block: half the memory of a square, and nothing moves
    when it grows.

    Attributes
    ----------
    panels : (PANEL, start + PANEL) each; rows beyond `n` are not in use
    E : (PANEL, k) each
    n : rows in use
    panel : rows of a panel
    """

    k: int
    panel: int = PANEL
    n: int = 0
    panels: list[Array] = field(default_factory=list)
    E: list[Array] = field(default_factory=list)

    def forward(self, G: Array) -> Array:
        """C^-1 G for G (n, r), in its place; G must be in C order."""
        for i, P in enumerate(self.panels):
            start = i * self.panel
            used = min(self.n - start, self.panel)
            rows = G[start : start + used]
            if start:
                rows -= P[:used, :start] @ G[:start]
            rows[...] = solve_lower(P[:used, start : start + used], rows)
        return G

    def backward(self, G: Array) -> Array:
        """C'^-1 G for G (n, r), in its place."""
        for i in range(len(self.panels) - 1, -1, -1):
            P, start = self.panels[i], i * self.panel
            used = min(self.n - start, self.panel)
            rows = G[start : start + used]
            rows[...] = solve_lower(P[:used, start : start + used], rows, transposed=True)
            if start:
                G[:start] -= P[:used, :start].T @ rows
        return G

    def explained(self, W: Array) -> Array:
        """W' e for W (n, r): what the rows so far say about others."""
        total = np.zeros((W.shape[1], self.k))
        for i, e in enumerate(self.E):
            start = i * self.panel
            used = min(self.n - start, self.panel)
            total += W[start : start + used].T @ e[:used]
        return total

    def coefficients(self) -> Array:
        """(I + G)^-1 (y - base), (n, k)."""
        return self.backward(np.concatenate(self.E)[: self.n]) if self.n else np.zeros((0, self.k))

    def look(self, cross: Array, own: Array, base: Array, per: int = 1) -> Forecast:
        """Predictions of new rows, each by itself, from all rows so far; nothing is learned.

        Parameters
        ----------
        cross : (n, r) Gram matrix with the rows so far, overwritten
        own : (r,) its diagonal, or (points, d, d) its diagonal blocks
        base : (r, k) predictions without the rows of the factor
        """
        W = self.forward(cross)
        if per == 1:
            return Forecast(base + self.explained(W), own - np.einsum("ij,ij->j", W, W))
        blocks = W.reshape(len(W), W.shape[1] // per, per)
        return Forecast(base + self.explained(W), own - np.einsum("spa,spb->pab", blocks, blocks, optimize=True))

    def take(
        self, cross: Array, own: Array, base: Array, Y: Array, seen: Mask, per: int = 1, *, keep: bool = True
    ) -> Forecast:
        """Predict new rows, each from all before it, and let those that are seen join the factor.

        Parameters
        ----------
        cross, own : (n, r) and (r, r) Gram matrices, overwritten
        base, Y : (r, k); Y is not looked at where it was not seen
        seen : (r,)
        per : rows of a point, which are predicted together
        keep : whether anything comes after these rows; else the factor need not grow
        """
        W = cross
        if self.n:
            W = self.forward(cross)
            base = base + self.explained(W)
            own -= W.T @ W
        if per == 1 and seen.all():
            C = unit_cholesky(own)
            e = solve_lower(C, Y - base)
            if keep:
                self._append(W, C, e)
            H = np.diagonal(C) ** 2 - 1.0
            # Taken out, not subtracted: a row's own label must not touch its prediction even by rounding.
            np.fill_diagonal(C, 0.0)
            return Forecast(base + C @ e, H)
        chosen, others = np.flatnonzero(seen), np.flatnonzero(~seen)
        C = unit_cholesky(own[np.ix_(chosen, chosen)])
        e = solve_lower(C, Y[chosen] - base[chosen])
        # C^-1 G = C' - C^-1 between seen rows, and C^-1 has nothing where the first row comes before the second.
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
            return Forecast(ridge, np.diagonal(own) - np.einsum("ij,ij->j", inside, inside))
        each = np.arange(len(own) // per)
        blocks = own.reshape(len(each), per, len(each), per)[each, :, each, :]
        inner = inside.reshape(len(chosen), len(each), per)
        return Forecast(ridge, blocks - np.einsum("spa,spb->pab", inner, inner, optimize=True))

    def _append(self, W: Array, C: Array, e: Array) -> None:
        """Rows [W', C] of the factor, and their e."""
        done, r = 0, len(C)
        while done < r:
            start = self.n - self.n % self.panel
            if start == self.n:
                self.panels.append(np.zeros((self.panel, start + self.panel)))
                self.E.append(np.zeros((self.panel, self.k)))
            row = self.n - start
            some = slice(done, min(done + self.panel - row, r))
            count = some.stop - done
            P = self.panels[-1]
            P[row : row + count, : self.n - done] = W[:, some].T
            P[row : row + count, self.n - done : self.n + count] = C[some, : some.stop]
            self.E[-1][row : row + count] = e[some]
            self.n += count
            done = some.stop


def unit_cholesky(G: Array) -> Array:
    """Lower C with C C' = I + G for positive semi-definite G, whose diagonal is changed.

    Every C_jj is at least 1. Where rounding (a ridge far below it) has made the matrix indefinite, each pivot is put
    back to what it cannot be below.
    """
    n = len(G)
    A = G
    A[np.diag_indices(n)] += 1.0
    C, failed = lapack.dpotrf(A.T, lower=0, clean=1)
    if failed == 0 and np.diagonal(C).min(initial=1.0) > 0.7:
        lower: Array = C.T
        return lower
    L = np.zeros((n, n))
    for j in range(n):
        if j:
            L[j, :j] = solve_lower(L[:j, :j], A[j, :j, None])[:, 0]
        L[j, j] = np.sqrt(max(A[j, j] - L[j, :j] @ L[j, :j], 1.0))
    return L
