"""Nystrom features: the kernel seen from a few points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.linalg import lapack, solve_triangular
from scipy.linalg.blas import dtrmm

from ovk.base import Array, Indices, Parameters, Registered, SingularSystem, State, check_int, equal, in_interval
from ovk.features.selection import BlockKernels, Given, Selection, SelectionState
from ovk.kernels import ScalarKernel
from ovk.ovkernels import OperatorKernel, as_operator_kernel
from ovk.solvers import random_pivots, whitened_rows

#: A point whose squared distance to the span of the others is below this part of k(z, z) adds nothing but noise.
DEPENDENT_PIVOT = 1e-8


@dataclass(frozen=True)
class NystromMap(Registered):
    """phi(x) = L^-1 k_D(x), L L' = k(D, D): <phi(x), phi(z)> approximates k(x, z), exactly for x in D.

    Attributes
    ----------
    kernel : scalar kernel
    points : (m, p) the dictionary D
    L : (m, m) lower triangle

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import NystromMap
    >>> from ovk.kernels import Gaussian
    >>> X = np.linspace(0.0, 1.0, 5)[:, None]
    >>> features = NystromMap.from_points(Gaussian(1.0), X[:3])
    >>> phi = features.transform(X[:3])
    >>> np.allclose(phi @ phi.T, Gaussian(1.0)(X[:3]))
    True
    """

    kernel: ScalarKernel
    points: Any
    L: Array

    @classmethod
    def from_points(cls, kernel: ScalarKernel, points: Any) -> Self:
        """The map of a dictionary; points that depend on the others (such as duplicates) are left out."""
        keep, L = independent(kernel(points))
        return cls(kernel, points[keep], L)

    def transform(self, X: Any) -> Array:
        """Features, (n, m)."""
        return np.asarray(solve_triangular(self.L, self.kernel(self.points, X), lower=True, check_finite=False).T)

    def coefficients(self, W: Array) -> Array:
        """Expansion coefficients A, (m, q), of the functions phi(x)' W = sum_j k(x, z_j) A_j."""
        return np.asarray(solve_triangular(self.L, W, lower=True, trans="T", check_finite=False))


@dataclass(frozen=True)
class OperatorNystromMap(Registered):
    """The same for an operator-valued kernel: Phi(x) = L^-1 K(D, x), with m d features for each of the d outputs.

    Attributes
    ----------
    kernel : operator-valued kernel
    points : (m, p) the dictionary D
    keep : indices of the pairs (point, output), numbered i d + q, that are independent
    L : lower triangle on those pairs

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import OperatorNystromMap
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree
    >>> X = np.array([[0.0, 0.0], [1.0, 0.5]])
    >>> K = CurlFree(Gaussian(1.0))
    >>> phi = OperatorNystromMap.from_points(K, X).transform(X)
    >>> np.allclose(phi @ phi.T, K.gram(X).dense())
    True
    """

    kernel: OperatorKernel
    points: Any
    keep: Any
    L: Array

    @classmethod
    def from_points(cls, kernel: OperatorKernel, points: Any) -> Self:
        """The map of a dictionary; dependent pairs are left out."""
        keep, L = independent(kernel.gram(points).dense())
        return cls(kernel, points, keep, L)

    @cached_property
    def output_dim(self) -> int:
        """Number of outputs d."""
        return self.kernel.gram(self.points[:1]).output_dim

    def transform(self, X: Any) -> Array:
        """Features, (n d, m'): row i d + q belongs to output q of input i."""
        K = self.kernel.gram(self.points, X).dense()[self.keep]
        return np.asarray(solve_triangular(self.L, K, lower=True, check_finite=False).T)

    def coefficients(self, W: Array) -> Array:
        """Expansion coefficients, (m, d), of the function Phi(x)' W, W (m',)."""
        full = np.zeros(self.points.shape[0] * self.output_dim)
        full[self.keep] = solve_triangular(self.L, W, lower=True, trans="T", check_finite=False)
        return full.reshape(-1, self.output_dim)


def independent(gram: Array) -> tuple[Array, Array]:
    """Rows of a gram that are linearly independent (to `DEPENDENT_PIVOT`), ascending, and their Cholesky factor."""
    largest = float(np.diagonal(gram).max(initial=0.0))
    if not np.isfinite(gram).all():
        raise SingularSystem(
            "the kernel has values at the landmarks that are not finite: scale X, or check the kernel's parameters"
        )
    if largest <= 0:
        raise ValueError("the kernel is zero at every landmark: choose other landmarks or another kernel")
    _, pivots, rank, _ = lapack.dpstrf(np.asfortranarray(gram), tol=DEPENDENT_PIVOT * largest, lower=1)
    keep = np.sort(pivots[:rank] - 1)
    return keep, np.linalg.cholesky(gram[np.ix_(keep, keep)])


# Landmarks by randomly pivoted Cholesky.

#: Rows for each landmark that are looked at: with these, choosing costs no more than learning from them.
ROWS_EACH = 5


@dataclass(eq=False, repr=False)
class RPCholesky(Parameters):
    """Landmarks where the kernel is not yet explained: each is drawn in proportion to k(x, x) minus what the landmarks
    so far say of it (randomly pivoted Cholesky; Chen, Epperly, Tropp and Webber, 2023).

    Give it as `landmarks` of `OVKRidge` or `IOKR` (where ``"rpcholesky"`` means ``RPCholesky()``), or let
    `Given.chosen` make a dictionary for a stream of it.

    Parameters
    ----------
    size : int
        Most landmarks.
    tol : float in [0, 1]
        Share of the kernel's trace that may stay unexplained: fewer landmarks where they are enough.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.features import RPCholesky
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> model = OVKRidge(Gaussian(1.0), 1e-3, landmarks=RPCholesky(60), random_state=0).fit(X, np.sin(X))
    >>> model.X_fit_.shape[0] <= 60, bool(model.score(X, np.sin(X)) > 0.99)
    (True, True)
    """

    size: int = 1000
    tol: float = 1e-4

    def points(self, kernel: Any, X: Any, rng: np.random.Generator) -> Any:
        """Rows of X, (m, p), for a scalar or operator-valued kernel with everything resolved."""
        size, tol = check_int(self.size, "size"), in_interval(self.tol, "tol", 0.0, 1.0)
        rows = np.arange(X.shape[0])
        if len(rows) > ROWS_EACH * size:
            rows = np.sort(rng.choice(len(rows), ROWS_EACH * size, replace=False))
        some = X[rows]
        k = _ScalarPart(kernel)
        found = random_pivots(lambda i, j: k(some[i], some[j]), k.diag(some), min(size, len(rows)), rng, tol)
        chosen = some[np.sort(found.pivots)]
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)

    def dictionary(self, kernel: Any, X: Any, budget: int | None, random_state: Any) -> Array:
        """Points for a stream whose inputs are known beforehand, `budget` of them at most."""
        X = np.asarray(X, dtype=np.float64)
        K = kernel if isinstance(kernel, ScalarKernel) else as_operator_kernel(kernel)
        resolved = K.resolve(X) if isinstance(K, ScalarKernel) else K.resolve(X, K.gram(X[:1]).output_dim)
        size = self.size if budget is None else min(budget, self.size)
        return np.asarray(self.replace(size=size).points(resolved, X, np.random.default_rng(random_state)))


class _ScalarPart:
    """A scalar kernel, the one of k T, or tr K(x, z) / d of any other."""

    def __init__(self, kernel: ScalarKernel | OperatorKernel) -> None:
        self._kernel: Any = kernel
        if isinstance(kernel, OperatorKernel):
            separable = kernel.as_separable()
            self._kernel = kernel if separable is None else separable.scalar

    def __call__(self, X: Any, Z: Any) -> Array:
        if isinstance(self._kernel, ScalarKernel):
            return self._kernel(X, Z)
        gram = self._kernel.gram(X, Z)
        terms = gram.terms()
        if terms is not None:
            total = sum(float(T.eigh().values.sum()) * G for G, T in terms)
            return np.asarray(total / gram.output_dim)
        blocks = gram.dense().reshape(X.shape[0], gram.output_dim, Z.shape[0], gram.output_dim)
        return np.asarray(np.einsum("iqjq->ij", blocks) / gram.output_dim)

    def diag(self, X: Any) -> Array:
        if isinstance(self._kernel, ScalarKernel):
            return self._kernel.diag(X)
        blocks = self._kernel.diagonal_blocks(X)
        return np.asarray(np.einsum("iqq->i", blocks) / blocks.shape[1])


def as_rpcholesky(landmarks: Any) -> RPCholesky | None:
    """The selection that a user means by `landmarks`; None if it is something else."""
    if isinstance(landmarks, str) and landmarks == "rpcholesky":
        return RPCholesky()
    return landmarks if isinstance(landmarks, RPCholesky) else None


# Nystrom features whose dictionary grows along a stream.
#
# Adding the point z to whitened features phi = L^-1 k_D:  l = phi(z), delta = k(z, z) - l'l, and the new feature is
# (k(z, x) - l' phi(x)) / sqrt(delta). Those that were there stay as they are.

#: A point whose squared distance to the span of the others is below this part of k(z, z) gives no feature. The basis
#: moves with rounding by eps / DEPENDENT, and with a projected past predictions depend on it.
DEPENDENT_POINT = 1e-6


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
        if failed == 0 and (np.diagonal(L) ** 2 > DEPENDENT_POINT * np.diagonal(gram)).all():
            self.L, self.keep = np.ascontiguousarray(L.T), np.arange(len(gram), dtype=np.intp)
            return
        for entry in range(len(gram)):
            row = gram[entry, self.keep]
            l = whitened_rows(self.L, row[None])[0]  # noqa: E741
            delta = float(gram[entry, entry] - l @ l)
            if delta > DEPENDENT_POINT * gram[entry, entry]:
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
            if delta <= DEPENDENT_POINT * size:
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
