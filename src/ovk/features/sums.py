"""Normal equations on features: sums over rows, which add up over chunks and over machines.

    S = sum_i w_i phi_i phi_i',     B = sum_i w_i phi_i y_i'.

The ridge is added when a system is solved, so it neither decays nor drifts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dsyrk

from ovk.base import Array, DeviceMatrix, Indices, Mask, State
from ovk.solvers import forward_row, solve_lower, whitened_rows

#: Rounding error of a Gram matrix and its factor, relative to its largest entry.
ROUNDING = 2.0**-44


@dataclass
class FeatureSums(State):
    """S, (m, m), and B, (m, k). The upper triangle of S is undefined until `symmetric` is called."""

    _stored = {"S": "m m", "B": "m k"}

    S: Array
    B: Array

    @classmethod
    def zeros(cls, m: int, k: int) -> Self:
        return cls(np.zeros((m, m)), np.zeros((m, k)))

    def add(self, Phi: Any, Y: Array, weights: Array | None = None) -> None:
        """Add the rows of features Phi, (n, m), which may be on a device, and labels Y, (n, k), with weights (n,)."""
        if len(Phi) == 0 or Phi.shape[1] == 0:
            return
        left = Phi if weights is None else Phi * np.sqrt(weights)[:, None]
        if isinstance(left, DeviceMatrix):
            self.S += (left.T @ left).host()
        else:
            # Half the work of a product; the lower triangle in C order is the upper one in BLAS's order.
            self.S = dsyrk(1.0, left.T, beta=1.0, c=self.S.T, lower=0, overwrite_c=1).T
        self.B += Phi.T @ (Y if weights is None else Y * weights[:, None])

    def with_rows(self, Phi: Array, Y: Array) -> Self:
        new = self * 1.0
        new.add(Phi, Y)
        return new

    def with_new_features(self, new: slice, Phi: Array, Y: Array, weights: Array) -> Self:
        """A copy with the contributions of earlier rows to new features."""
        sums, right = self * 1.0, (Phi[:, new] * weights[:, None]).T
        sums.S[new] += right @ Phi
        sums.B[new] += right @ Y
        return sums

    def __add__(self, other: Self) -> Self:
        return type(self)(self.S + other.S, self.B + other.B)

    def __mul__(self, factor: float) -> Self:
        return type(self)(factor * self.S, factor * self.B)

    def padded(self, m: int) -> Self:
        """The sums for m features, with zeros for the new ones."""
        new = m - len(self.B)
        if new == 0:
            return self
        S = np.pad(self.S, (*[(0, 0)] * (self.S.ndim - 2), (0, new), (0, new)))
        return type(self)(S, np.pad(self.B, ((0, new), (0, 0))))

    def symmetric(self) -> Array:
        """S with both triangles; read-only."""
        return _mirror(self.S)

    def factor(self, ridge: float) -> RidgeFactor:
        return RidgeFactor.from_lower(self.S, ridge)


@dataclass
class RidgeFactor(State):
    """A = S + ridge I as L L', or as Q diag(values^2) Q' (L = Q') if S is singular to rounding."""

    _stored = {"L": "m m", "values": "m | None"}

    L: Array
    values: Array | None = None

    @classmethod
    def from_lower(cls, S: Array, ridge: float) -> Self:
        """The factor of S + ridge I; only the lower triangle of S is read."""
        m = len(S)
        if m == 0:
            return cls(S)
        A = np.array(S, order="C")
        A.reshape(-1)[:: m + 1] += ridge
        rounding = ROUNDING * float(np.diagonal(S).max())
        L, failed = lapack.dpotrf(A.T, lower=0, clean=0, overwrite_a=1)
        # Every pivot of S + ridge I is at least the ridge; smaller ones are rounding errors of S.
        if failed == 0 and float(np.diagonal(L).min()) ** 2 > (0.5 * ridge if ridge >= rounding else rounding):
            return cls(L.T)
        values, Q = np.linalg.eigh(S)
        return cls(Q.T.copy(), np.sqrt(np.maximum(values, rounding if ridge < rounding else 0.0) + ridge))

    def triangular(self) -> Self:
        """A factor whose leading blocks are factors of those of A."""
        if self.values is None:
            return self
        return type(self)(np.asarray(np.linalg.qr(self.values[:, None] * self.L, mode="r")).T)

    def whiten_rows(self, Phi: Array) -> Array:
        """Phi A^-1/2, (n, m), for a square root of A."""
        return whitened_rows(self.L, Phi) if self.values is None else (Phi @ self.L.T) / self.values

    def whiten_row(self, phi: Array) -> Array:
        return forward_row(self.L, phi) if self.values is None else (self.L @ phi) / self.values

    def whiten_columns(self, B: Array) -> Array:
        """The same root applied to B, (m, k)."""
        return solve_lower(self.L, B) if self.values is None else (self.L @ B) / self.values[:, None]

    def solve(self, B: Array) -> Array:
        """A^-1 B, (m, k)."""
        U = self.whiten_columns(B)
        return solve_lower(self.L, U, transposed=True) if self.values is None else self.L.T @ (U / self.values[:, None])


@dataclass
class OutputSums(State):
    """Sums for each of d outputs, over the rows in which it is observed.

    Complete rows with features shared by all outputs enter the common sums; other rows the separate sums of each
    output.
    """

    _state_classes = {"common": FeatureSums}
    _stored = {"own_S": "d m m | None", "own_B": "d m k | None"}

    common: FeatureSums  # S, (m, m), and B, (m, d), of the rows with all outputs
    own_S: Array | None = None  # (d, m, m) separate sums of each output, None if all rows are complete
    own_B: Array | None = None  # (d, m, 1)

    @classmethod
    def zeros(cls, m: int, d: int) -> Self:
        return cls(FeatureSums.zeros(m, d))

    def add(self, Phi: Array, Y: Array, weights: Array | None = None) -> None:
        """Add rows of outputs Y, (n, d), nan where missing; Phi is (n, m), or (n, d, m) for separate features."""
        observed = ~np.isnan(Y)
        whole: Mask = np.asarray(observed.all(axis=1)) if Phi.ndim == 2 else np.full(len(Y), False)
        if whole.any():
            self.common.add(Phi[whole], Y[whole], None if weights is None else weights[whole])
        for q in range(Y.shape[1]):
            self._add_own(q, Phi, Y[:, q], weights, np.flatnonzero(observed[:, q] & ~whole))

    def add_pairs(self, Phi: Array, outputs: Indices, y: Array, weights: Array | None = None) -> None:
        """Add observations in long form: y_i is output outputs_i of row i."""
        order = np.argsort(outputs, kind="stable")
        starts = np.flatnonzero(np.diff(outputs[order], prepend=-1))
        for q, rows in zip(outputs[order][starts].tolist(), np.split(order, starts[1:]), strict=False):
            self._add_own(q, Phi, y, weights, rows)

    def _add_own(self, q: int, Phi: Array, y: Array, weights: Array | None, rows: Indices) -> None:
        if not len(rows):
            return
        if self.own_S is None or self.own_B is None:
            m, d = self.common.B.shape
            self.own_S, self.own_B = np.zeros((d, m, m)), np.zeros((d, m, 1))
        sums = FeatureSums(self.own_S[q], self.own_B[q])
        some = Phi[rows] if Phi.ndim == 2 else Phi[rows, q]
        sums.add(some, y[rows, None], None if weights is None else weights[rows])
        # BLAS adds in place, unless it had to copy.
        if not np.may_share_memory(sums.S, self.own_S):
            self.own_S[q] = sums.S

    def __add__(self, other: OutputSums) -> OutputSums:
        common = self.common + other.common
        own = [(sums.own_S, sums.own_B) for sums in (self, other) if sums.own_S is not None]
        # Sums are copies: rows are added in place.
        return OutputSums(common, *(sum(parts) for parts in zip(*own, strict=True)))

    def S(self) -> Array:
        """S for each output, (d, m, m); read-only."""
        common = self.common.symmetric()
        if self.own_S is None:
            return np.broadcast_to(common, (self.common.B.shape[1], *common.shape))
        own = _mirror(self.own_S)
        # In long form no row is complete: avoids a copy.
        return own + common if common.any() else own

    def B(self) -> Array:
        """B for each output, (m, d)."""
        B: Array = self.common.B
        return B if self.own_B is None else B + self.own_B[:, :, 0].T


def _mirror(S: Array) -> Array:
    """Copy the lower triangles of (..., m, m) over the upper ones, in place."""
    for i in range(S.shape[-1] - 1):
        S[..., i, i + 1 :] = S[..., i + 1 :, i]
    return S


# Merging in a fixed binary tree: the same items in the same order give bit-identical results.
#
#     ((0 1)(2 3)) ((4 5) 6)
#
# Floating-point sums depend on their order, so the order must not depend on completion times. The tree is that of a
# binary counter: a new item is merged with the previous one while both have the same number of leaves, and the rest is
# merged from the right at the end. At most log2(n) + 1 items are stored.

Item = TypeVar("Item")


class MergeTree(Generic[Item]):
    """Merges items as they arrive; `merge` combines two neighbours, the earlier one first."""

    def __init__(self, merge: Callable[[Item, Item], Item]) -> None:
        self._merge = merge
        #: Items with their numbers of leaves, which are decreasing powers of two.
        self._held: list[tuple[int, Item]] = []

    def add(self, item: Item) -> None:
        size = 1
        while self._held and self._held[-1][0] == size:
            size, item = 2 * size, self._merge(self._held.pop()[1], item)
        self._held.append((size, item))

    def result(self) -> Item:
        if not self._held:
            raise ValueError("merging requires at least one item, got none")
        _, result = self._held.pop()
        while self._held:
            result = self._merge(self._held.pop()[1], result)
        return result


def merge_all(items: Iterable[Item], merge: Callable[[Item, Item], Item]) -> Item:
    """Merge items in a fixed binary tree.

    Parameters
    ----------
    items : iterable
        At least one item; an iterator is consumed.
    merge : callable
        Combines two neighbours, the earlier one first, which it may modify.

    Returns
    -------
    object
        The merged item.

    See Also
    --------
    ovk.OVKRidge, ovk.IOKR, ovk.PKAWV

    Examples
    --------
    Models of parts of the data, merged into the model of all data:

    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.features import merge_all
    >>> from ovk.kernels import Gaussian
    >>> X = np.linspace(0, 6, 90)[:, None]
    >>> parts = [OVKRidge(Gaussian(1.0), landmarks=X[::10]).fit(X[i::3], np.sin(X[i::3])) for i in range(3)]
    >>> model = merge_all(parts, lambda a, b: a.merge(b))
    >>> whole = OVKRidge(Gaussian(1.0), landmarks=X[::10]).fit(X, np.sin(X))
    >>> np.allclose(model.predict(X), whole.predict(X))
    True
    """
    tree = MergeTree(merge)
    for item in items:
        tree.add(item)
    return tree.result()
