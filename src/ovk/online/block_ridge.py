"""Progressive ridge regression on finite features, in exact blocks.

With whitened features phi, S = sum phi phi', B = sum phi y' over the rows before a block and A = S + ridge I = L L':

    U = Phi L'^-1,   z = L^-1 B,   base = U z,   I + U U' = C C',   ridge = base + tril(C, -1) C^-1 (Y - base),

all products of matrices, and the result of one row at a time (`Triangle`). At the end of the block S += Phi'Phi and
B += Phi'Y. The ridge is added when A is factored, so it neither decays nor drifts. A block may also come in pieces:
what of it is there is kept as C and U.

A feature that is added within a block was zero before: A gains a diagonal of the ridge.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
from scipy.linalg import lapack

from ovk._params import Registered
from ovk._validation import Array
from ovk.online.sums import Part, Sums
from ovk.online.triangle import ROUNDING, Forecast, Triangle
from ovk.solvers.triangular import solve_lower, whitened_rows

Mask = npt.NDArray[np.bool_]


def block_size(m: int) -> int:
    """Points of a block with m features: half of them balances the factor of A against that of the block."""
    return min(max(128, 32 * (m // 64)), 512)


@dataclass
class Root(Registered):
    """A = S + ridge I as L L', or as Q diag(values^2) Q' where rounding leaves no Cholesky factor."""

    L: Array
    values: Array | None = None

    @classmethod
    def of(cls, S: Array, ridge: float) -> Root:
        """Of the lower triangle of S."""
        m = len(S)
        if m == 0:
            return cls(S)
        A = np.array(S, order="C")
        A.reshape(-1)[:: m + 1] += ridge
        rounding = ROUNDING * float(np.diagonal(S).max())
        L, failed = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        # No pivot of S + ridge I is below the ridge, and one below the rounding of S says nothing.
        if failed == 0 and float(np.diagonal(L).min()) ** 2 > (0.5 * ridge if ridge >= rounding else rounding):
            return cls(L.T)
        values, Q = np.linalg.eigh(S)
        return cls(Q.T.copy(), np.sqrt(np.maximum(values, rounding if ridge < rounding else 0.0) + ridge))

    def rows(self, Phi: Array) -> Array:
        """Phi A^-1/2, (r, m), for some root of A."""
        return whitened_rows(self.L, Phi) if self.values is None else (Phi @ self.L.T) / self.values

    def columns(self, B: Array) -> Array:
        """The same root applied to B, (m, k)."""
        return solve_lower(self.L, B) if self.values is None else (self.L @ B) / self.values[:, None]


@dataclass
class Group(Registered):
    """Outputs with the same ridge, during a block.

    Attributes
    ----------
    ridge : what is added to S; inf for outputs that the kernel leaves at zero
    start, stop : columns of B
    root, z : of A, and L^-1 B, when the block began
    U : (j, m) rows of the block so far
    triangle : their factor
    """

    ridge: float
    start: int
    stop: int
    root: Root | None = None
    z: Array = field(default_factory=lambda: np.empty((0, 0)))
    U: Array = field(default_factory=lambda: np.empty((0, 0)))
    triangle: Triangle | None = None

    def begin(self, total: Part, rows: int) -> None:
        """A block of so many rows."""
        B = np.ascontiguousarray(total.B[:, self.start : self.stop])
        self.root = Root.of(total.S, self.ridge)
        self.z = self.root.columns(B)
        self.U = np.empty((0, len(B)))
        self.triangle = Triangle(self.stop - self.start, rows)

    def white(self, Phi: Array) -> Array:
        """Phi A^-1/2; features that the block did not begin with have the ridge alone."""
        assert self.root is not None
        m = len(self.z)
        if Phi.shape[1] == m:
            return self.root.rows(Phi)
        return np.concatenate([self.root.rows(np.ascontiguousarray(Phi[:, :m])), Phi[:, m:] / self.ridge**0.5], axis=1)

    def cross(self, U: Array) -> Array:
        """Gram matrix of the block so far with other rows."""
        return self.U @ U[:, : self.U.shape[1]].T

    def keep(self, U: Array) -> None:
        """Remember rows that have joined the triangle."""
        new = U.shape[1] - self.U.shape[1]
        self.U = np.concatenate([np.pad(self.U, ((0, 0), (0, new))) if new else self.U, U])


@dataclass
class BlockRidge(Registered):
    """Ridge regression of several outputs on the same features.

    Attributes
    ----------
    groups : outputs by their ridge
    per : rows of a point, predicted together
    sums : over the rows before the block
    pending : rows (Phi, Y) of the block so far
    points : how many points these are
    """

    groups: list[Group]
    per: int
    sums: Sums
    pending: list[tuple[Array, Array]] = field(default_factory=list)
    points: int = 0

    def room(self) -> int | None:
        """Points that a block may have at most; None for any number."""
        return self.sums.room()

    def begin(self, rows: int) -> None:
        """Begin a block of at most so many rows."""
        total = self.sums.total()
        for group in self.groups:
            if np.isfinite(group.ridge):
                group.begin(total, rows)

    def take(self, Phi: Array, Y: Array, seen: Mask, learned: Mask, *, last: bool) -> Forecast:
        """Predict rows (r, m), each from all points before its own, and learn those that are seen.

        Parameters
        ----------
        seen : (r,) which rows have a label
        learned : (points,) which points have at least one
        last : whether these are the last rows of the block
        """
        k = Y.shape[1]
        ridge, H = np.zeros((len(Phi), k)), self._no_leverage(len(Phi), k)
        for group in self.groups:
            if group.triangle is None:
                continue
            columns = slice(group.start, group.stop)
            U = group.white(Phi)
            base = U[:, : len(group.z)] @ group.z
            found = group.triangle.take(group.cross(U), U @ U.T, base, Y[:, columns], seen, self.per, keep=not last)
            if not last:
                group.keep(U[seen])
            ridge[:, columns] = found.ridge
            H[:, columns if self.per == 1 else slice(None)] = found.H[:, None] if self.per == 1 else found.H
        self.pending.append((Phi, Y) if seen.all() else (Phi[seen], Y[seen]))
        self.points += int(learned.sum())
        return Forecast(ridge, H)

    def look(self, Phi: Array) -> Forecast:
        """Predict rows from all that was learned."""
        k = self.groups[-1].stop
        ridge, H = np.zeros((len(Phi), k)), self._no_leverage(len(Phi), k)
        for group in self.groups:
            if group.triangle is None:
                continue
            columns = slice(group.start, group.stop)
            U = group.white(Phi)
            base = U[:, : len(group.z)] @ group.z
            if self.per == 1:
                diagonal = np.einsum("ij,ij->i", U, U)
            else:
                blocks = U.reshape(-1, self.per, U.shape[1])
                diagonal = blocks @ blocks.transpose(0, 2, 1)
            found = group.triangle.look(group.cross(U), diagonal, base, self.per)
            ridge[:, columns] = found.ridge
            H[:, columns if self.per == 1 else slice(None)] = found.H[:, None] if self.per == 1 else found.H
        return Forecast(ridge, H)

    def _no_leverage(self, r: int, k: int) -> Array:
        return np.zeros((r, k) if self.per == 1 else (r // self.per, self.per, self.per))

    def fold(self, m: int) -> None:
        """End the block: its rows join the sums, which now have m features."""
        self.sums.change(lambda part: part.padded(m))
        if len(self.pending) == 1 and self.pending[0][0].shape[1] == m:
            self.sums.add(*self.pending[0], self.points)
        elif self.pending:
            Phi = np.concatenate([np.pad(P, ((0, 0), (0, m - P.shape[1]))) for P, _ in self.pending])
            self.sums.add(Phi, np.concatenate([Y for _, Y in self.pending]), self.points)
        self.pending, self.points = [], 0

    def add_late(self, new: slice, S: Array, B: Array) -> None:
        """What rows of the past say about new features: rows of S and B."""
        self.sums.add_late(new, S, B)

    def change(self, change: Callable[[Part], Part]) -> None:
        """Apply a linear map to the sums."""
        self.sums.change(change)

    def merge(self, other: BlockRidge) -> None:
        """Add the sums of another, between blocks."""
        self.sums.merge(other.sums)
