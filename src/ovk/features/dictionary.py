"""Nystrom features whose dictionary grows along a stream.

Adding the point z to whitened features phi = L^-1 k_D:  l = phi(z), delta = k(z, z) - l'l, and the new feature is
(k(z, x) - l' phi(x)) / sqrt(delta). Those that were there stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dtrmm

from ovk._params import Registered, equal
from ovk._state import State
from ovk._types import Array, Indices
from ovk.features.selection.base import BlockKernels, Selection, SelectionState
from ovk.features.selection.given import Given
from ovk.kernels import ScalarKernel
from ovk.ovkernels import as_operator_kernel
from ovk.solvers.triangular import whitened_rows

#: A point whose squared distance to the span of the others is below this part of k(z, z) gives no feature. The basis
#: moves with rounding by eps / DEPENDENT, and with a projected past predictions depend on it.
DEPENDENT = 1e-6


@dataclass
class Dictionary(Registered, State):
    """Points chosen from a stream, and their whitened features.

    With a scalar kernel a point gives one feature; with an operator-valued one up to d, for d rows an input: row
    i d + q belongs to output q of input i, and the points are chosen by the scalar kernel tr K(x, z) / d.

    Attributes
    ----------
    kernel : scalar kernel, or operator-valued kernel
    per : rows an input: 1, or the number of outputs d
    points : (N, p) the points chosen
    keep : (m,) the entries i per + q of the points' gram that are independent (to 1e-6) of those before
    L : (m, m) Cholesky factor of the gram of those
    selection : what the selection remembers of the stream
    budget : most points, None for no limit
    """

    _state_classes = {"selection": SelectionState}

    kernel: Any
    per: int
    points: Array
    keep: Indices
    L: Array
    selection: SelectionState
    budget: int | None = None
    _inverse: Array | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def start(cls, kernel: Any, selection: Selection, p: int, per: int, budget: int | None) -> Self:
        """The dictionary at the start of a stream of inputs (., p): empty, or that of `Given`."""
        empty = np.empty((0, p)), np.empty(0, dtype=np.intp), np.empty((0, 0))
        new = cls(kernel, per, *empty, selection.start(), budget)
        if isinstance(selection, Given):
            points = selection.checked(p)
            new._add_all(points if budget is None else points[:budget])
        return new

    @classmethod
    def chosen(cls, kernel: Any, X: Any, selection: Selection, budget: int | None, random_state: Any) -> Self:
        """What `selection` makes of all inputs X."""
        X = np.asarray(X, dtype=np.float64)
        K = kernel
        if not isinstance(kernel, ScalarKernel):
            K = as_operator_kernel(kernel)
            separable = K.as_separable()
            K = K if separable is None else separable.scalar
        K = K.resolve(X) if isinstance(K, ScalarKernel) else K
        per = 1 if isinstance(K, ScalarKernel) else K.gram(X[:1]).output_dim
        found = cls.start(K, selection, X.shape[1], per, budget)
        draws = np.random.default_rng(random_state).random(len(X))
        for start in range(0, len(X), 256):
            rows = slice(start, start + 256)
            for _ in found.transform_and_grow(X[rows], draws[rows]):
                pass
        return found

    @property
    def m(self) -> int:
        """Number of features."""
        return len(self.L)

    def transform(self, X: Array) -> Array:
        """Features, (n per, m)."""
        return self._features(self._gram(X, self.points))

    def prior(self, X: Array) -> Array:
        """K(x, x), (n, per, per)."""
        return np.asarray(self.kernel.diagonal_blocks(X))

    def transform_and_grow(self, X: Array, draws: Array, *, split: bool = False) -> Iterator[tuple[slice, Array]]:
        """Go through a block of inputs, each of which may join before its own features are made.

        Yields slices of rows with their features, (rows per, m): all rows at once, with 0 where a feature came later
        than the row; with `split`, the rows between one growth of the dictionary and the next.
        """
        done = start = 0
        while start < len(X):
            rest = X[start:]
            grown = _DictionaryBlock(self, rest, draws[start:], done - start)
            stop = grown.first
            if stop is None or not split:
                yield slice(start, len(X)), grown.accept_all()
                return
            if stop > 0:
                yield slice(start, start + stop), grown.features_before()
            grown.accept_first()
            start += stop
            done = start + 1

    def same(self, other: Any) -> bool:
        """Whether two dictionaries give the same features."""
        return (
            isinstance(other, Dictionary)
            and equal(self.kernel, other.kernel)
            and np.array_equal(self.points, other.points)
            and np.array_equal(self.keep, other.keep)
        )

    def _gram(self, X: Array, Z: Array) -> Array:
        """(n per, N per)."""
        if isinstance(self.kernel, ScalarKernel):
            return self.kernel(X, Z)
        if len(Z) == 0 or len(X) == 0:
            return np.zeros((len(X) * self.per, len(Z) * self.per))
        dense: Array = self.kernel.gram(X, Z).dense()
        return dense

    def _features(self, gram: Array) -> Array:
        kept = gram if len(self.keep) == gram.shape[1] else np.ascontiguousarray(gram[:, self.keep])
        if not self.settled or self.m == 0:
            return whitened_rows(self.L, kept)
        # L stays as it is and its condition is at most 1 / sqrt(DEPENDENT): a product is twice as fast as a solve.
        if self._inverse is None:
            self._inverse = lapack.dtrtri(self.L.T, lower=0)[0]
        phi: Array = dtrmm(1.0, self._inverse, kept.T, side=0, lower=0, trans_a=1).T
        return phi

    @property
    def settled(self) -> bool:
        """Whether the features stay as they are."""
        return not self._can_grow()

    def _add_all(self, points: Array) -> None:
        gram = self._gram(points, points)
        self.points = points
        L, failed = lapack.dpotrf(gram.T, lower=0, clean=1)
        if failed == 0 and (np.diagonal(L) ** 2 > DEPENDENT * np.diagonal(gram)).all():
            self.L, self.keep = np.ascontiguousarray(L.T), np.arange(len(gram), dtype=np.intp)
            return
        for entry in range(len(gram)):
            row = gram[entry, self.keep]
            l = whitened_rows(self.L, row[None])[0]  # noqa: E741
            delta = float(gram[entry, entry] - l @ l)
            if delta > DEPENDENT * gram[entry, entry]:
                self._extend(entry, l, delta)

    def _extend(self, entry: int, l: Array, delta: float) -> None:  # noqa: E741
        m = self.m
        L = np.zeros((m + 1, m + 1))
        L[:m, :m], L[m, :m], L[m, m] = self.L, l, delta**0.5
        self.L, self.keep = L, np.append(self.keep, entry)

    def _can_grow(self) -> bool:
        return not self.selection.is_complete() and (self.budget is None or len(self.points) < self.budget)


class _DictionaryBlock:
    """A block of inputs, some of which join a dictionary."""

    def __init__(self, dictionary: Dictionary, X: Array, draws: Array, start: int) -> None:
        self.d, self.X = dictionary, X
        gram = dictionary._gram(X, dictionary.points)
        self.start = max(start, 0)
        self.first: int | None = None
        self.columns: dict[int, Array] = {}
        self.Phi = dictionary._features(gram)
        if dictionary._can_grow():
            N, b, per = len(dictionary.points), len(X), dictionary.per
            if per == 1:
                cross, diagonal = gram.T, dictionary.kernel.diag(X)
            else:
                cross = np.einsum("bqNq->Nb", gram.reshape(b, per, N, per)) / per
                diagonal = np.einsum("bqq->b", dictionary.prior(X)) / per
            self.selection = dictionary.selection.on_block(BlockKernels(cross, diagonal, self._trace, draws))
            self.first = self.selection.next_candidate(self.start)

    def _column(self, j: int) -> Array:
        """K(x_i, x_j), (b per, per)."""
        if j not in self.columns:
            self.columns = {j: self.d._gram(self.X, self.X[j : j + 1])}
        return self.columns[j]

    def _trace(self, j: int) -> Array:
        per = self.d.per
        column = self._column(j)
        if per == 1:
            return column[:, 0]
        trace: Array = np.einsum("bqq->b", column.reshape(-1, per, per)) / per
        return trace

    def features_before(self) -> Array:
        """Features of the rows before the first that joins."""
        assert self.first is not None
        return self.Phi[: self.first * self.d.per]

    def accept_first(self) -> None:
        """Let the first row that is to join do so."""
        assert self.first is not None
        self._accept(self.first, [])

    def accept_all(self) -> Array:
        """Let all rows join that are to; the features of all rows, 0 where a feature came later than the row."""
        new: list[Array] = []
        j = self.first
        while j is not None and self.d._can_grow():
            self._accept(j, new)
            j = self.selection.next_candidate(j + 1)
        if not new:
            return self.Phi
        return np.concatenate([self.Phi, np.column_stack(new)], axis=1)

    def _accept(self, j: int, new: list[Array]) -> None:
        d, per = self.d, self.d.per
        column, number, m = self._column(j), len(d.points), d.m
        for q in range(per):
            row = j * per + q
            # phi(z) of the features so far, those made in this block among them.
            l = np.concatenate([self.Phi[row], [feature[row] for feature in new]])  # noqa: E741
            size = float(column[row, q])
            delta = size - float(l @ l)
            if delta <= DEPENDENT * size:
                continue
            old = self.Phi.shape[1]
            feature = column[:, q] - self.Phi @ l[:old]
            if new:
                feature -= np.column_stack(new) @ l[old:]
            feature /= delta**0.5
            feature[: j * per] = 0.0
            new.append(feature)
            d._extend(number * per + q, l, delta)
        if self.selection.accept(j, d.m > m):
            d.points = np.concatenate([d.points, self.X[j : j + 1]])
