"""Nystrom features of a dictionary of points that grows along a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

import numpy as np
from scipy.linalg import lapack
from scipy.linalg.blas import dtrmm
from sklearn.base import clone

from ovk.base import Array, Indices, Mask, Parameters, State, check_choice, check_int, equal, positive
from ovk.features.nystrom import ROUNDING_TOL, RPCholesky, independent
from ovk.features.stream_features import FeatureSpec, StreamFeatures
from ovk.kernels import ScalarKernel
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel
from ovk.solvers import solve_lower, whitened_rows


@dataclass
class KernelResidual(State):
    """c(x, y) = k(x, y) - b_x' (S K S + mu I)^-1 b_y, b_x = S k_D(x), by a Cholesky factor L L' = S K S + mu I."""

    _stored = {"weights": "m", "L": "m m"}

    mu: float
    weights: Array = field(default_factory=lambda: np.empty(0))  # (N,) the diagonal of S
    L: Array = field(default_factory=lambda: np.empty((0, 0)))


@dataclass
class SelectionState(State):
    _state_classes = {"residual": KernelResidual}

    left: int | None = None  # points that may still join, None for any number
    residual: KernelResidual | None = None  # None for selections that do not need it


class Selection(Parameters, ABC, saved=False):
    """A rule that selects the inputs to add to the dictionary, row by row, before their labels are known."""

    @abstractmethod
    def start(self) -> SelectionState: ...

    @abstractmethod
    def wanted(self, block: DictionaryBlock, start: int) -> Mask:
        """Mask of the rows from `start` on to add to the current dictionary."""

    @abstractmethod
    def accept(self, block: DictionaryBlock, j: int, independent: bool) -> bool:
        """Add row j. Returns whether to keep it as a point even if it is linearly dependent on the others."""


@dataclass(eq=False, repr=False)
class Uniform(Selection):
    """Adds each row to the dictionary with the same probability, or the first rows.

    Parameters
    ----------
    rate : float in (0, 1], optional
        Probability with which each row is added.
    size : int, optional
        Instead of `rate`: add this many rows, the first that are linearly independent. In a stream in random order they
        are a uniform sample.

    See Also
    --------
    Nystrom, KORS, ALD, Given

    Examples
    --------
    >>> from ovk.features import Nystrom, Uniform
    >>> Nystrom(Uniform(size=200))
    Nystrom(selection=Uniform(size=200))
    """

    rate: float | None = None
    size: int | None = None

    def start(self) -> SelectionState:
        if (self.rate is None) == (self.size is None):
            raise ValueError(f"Uniform requires either rate or size, got rate={self.rate!r} and size={self.size!r}")
        if self.size is not None:
            return SelectionState(check_int(self.size, "size"))
        rate: Any = self.rate
        if not isinstance(rate, Real) or not 0.0 < float(rate) <= 1.0:
            raise ValueError(f"rate must be in (0, 1], got {self.rate!r}: pass a number of points as size")
        return SelectionState()

    def wanted(self, block: DictionaryBlock, start: int) -> Mask:
        rate = 0.0 if block.state.left == 0 else 1.0 if self.rate is None else self.rate
        return block.draws[start:] < rate

    def accept(self, block: DictionaryBlock, j: int, independent: bool) -> bool:
        if independent and block.state.left is not None:
            block.state.left -= 1
        return independent


@dataclass(eq=False, repr=False)
class Given(Parameters):
    """A fixed dictionary.

    If all inputs are known in advance and only the outputs arrive one by one, `Given.chosen` applies another selection
    to all inputs first.

    Parameters
    ----------
    points : (m, p) array
        The dictionary.

    See Also
    --------
    Nystrom, Uniform, RPCholesky

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import KORS, Given
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((500, 1))
    >>> Given.chosen(Gaussian(1.0), X, KORS(mu=0.1), random_state=0).points.shape
    (48, 1)
    """

    points: Any

    def checked(self, p: int) -> Array:
        points = np.array(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != p or len(points) == 0 or not np.isfinite(points).all():
            raise ValueError(f"points must be finite, of shape (m, {p}), got shape {points.shape}")
        return points

    @classmethod
    def chosen(
        cls, kernel: Any, X: Any, selection: Any, *, budget: int | None = None, random_state: Any = None
    ) -> Self:
        """The dictionary that `selection`, or `RPCholesky`, chooses from all inputs X, (n, p)."""
        X = np.asarray(X, dtype=np.float64)
        given = as_operator_kernel(kernel)
        separable = given.as_separable()
        K: Any = given.resolve(X, given.gram(X[:1]).output_dim) if separable is None else separable.scalar.resolve(X)
        if isinstance(selection, RPCholesky):
            size = selection.size if budget is None else min(budget, selection.size)
            return cls(selection.replace(size=size).points(K, X, np.random.default_rng(random_state)))
        per = 1 if isinstance(K, ScalarKernel) else K.gram(X[:1]).output_dim
        found = Dictionary.start(K, selection, X.shape[1], per, budget)
        draws = np.random.default_rng(random_state).random(len(X))
        for start in range(0, len(X), 256):
            rows = slice(start, start + 256)
            found.transform_and_grow(X[rows], draws[rows])
        return cls(found.points)


# Selections by the residual of the kernel: approximate linear dependence (ALD; Engel, Mannor and Meir 2004) and kernel
# online row sampling by ridge leverage scores (KORS; Calandriello, Lazaric and Valko 2017).


@dataclass(eq=False, repr=False)
class ALD(Selection):
    """Adds a row if more than a fraction `tol` of k(x, x) lies outside the span of the dictionary.

    Parameters
    ----------
    tol : float in (0, 1)
        Relative squared distance to the span (approximate linear dependence).

    See Also
    --------
    Nystrom, KORS, Uniform

    Examples
    --------
    >>> from ovk.features import ALD, Nystrom
    >>> Nystrom(ALD(0.05))
    Nystrom(selection=ALD(tol=0.05))
    """

    tol: float = 0.01

    def start(self) -> SelectionState:
        if positive(self.tol, "tol") >= 1:
            raise ValueError(f"tol must be in (0, 1), got {self.tol!r}")
        return SelectionState(residual=KernelResidual(0.0))

    def wanted(self, block: DictionaryBlock, start: int) -> Mask:
        return np.asarray(block.residual(start) > self.tol * block.diagonal[start:])

    def accept(self, block: DictionaryBlock, j: int, independent: bool) -> bool:
        if independent:
            block.add_point(j, 1.0)
        return independent


@dataclass(eq=False, repr=False)
class KORS(Selection):
    """Adds each row with a probability proportional to an estimate of its leverage score.

    With chosen points of weights s_i = 1 / sqrt(p_i), S their diagonal, b_x = S k_D(x) and

        c(x, y) = k(x, y) - b_x' (S K S + mu I)^-1 b_y,     tau = (1 + eps) c(x, x) / (c(x, x) + mu),

    an estimate of the leverage score of x at the scale mu, x joins with probability p = min(beta tau, 1). The size of
    the dictionary is about beta times the effective dimension at mu, up to a logarithm. mu is not the ridge of a
    learner.

    Parameters
    ----------
    mu : float > 0
        Scale below which directions are ignored.
    beta : float > 0
        Oversampling; the theorem requires 3 log(2 n / delta) / eps^2 for confidence 1 - delta.
    eps : float in [0, 1)
        Accuracy of the estimated leverage scores.

    See Also
    --------
    Nystrom, ALD, Uniform

    Examples
    --------
    >>> from ovk.features import KORS, Nystrom
    >>> Nystrom(KORS(mu=0.01), budget=200)
    Nystrom(selection=KORS(mu=0.01), budget=200)
    """

    mu: float = 0.1
    beta: float = 1.0
    eps: float = 0.5

    def start(self) -> SelectionState:
        positive(self.beta, "beta")
        if positive(self.eps, "eps", zero=True) >= 1:
            raise ValueError(f"eps must be in [0, 1), got {self.eps!r}")
        return SelectionState(residual=KernelResidual(positive(self.mu, "mu")))

    def _probabilities(self, block: DictionaryBlock, start: int) -> Array:
        r = block.residual(start)
        return np.minimum(self.beta * (1.0 + self.eps) * r / (r + self.mu), 1.0)

    def wanted(self, block: DictionaryBlock, start: int) -> Mask:
        return block.draws[start:] < self._probabilities(block, start)

    def accept(self, block: DictionaryBlock, j: int, independent: bool) -> bool:
        block.add_point(j, float(self._probabilities(block, j)[0]) ** -0.5)
        # A dependent point adds no feature, but still counts in the leverage estimate.
        return True


# Nystrom features of a growing dictionary.
#
# Adding the point z to whitened features phi = L^-1 k_D:  l = phi(z), delta = k(z, z) - l'l, and the new feature is
# (k(z, x) - l' phi(x)) / sqrt(delta). The existing features do not change.

#: A point whose squared distance to the span of the others is below this fraction of k(z, z) adds no feature if the
#: past is projected: rounding moves the basis by eps / DEPENDENCE_TOL, and predictions then depend on the basis. Where
#: only the span matters (a given dictionary, an exact past), ROUNDING_TOL applies.
DEPENDENCE_TOL = 1e-6


@dataclass
class Dictionary(StreamFeatures, kind="dictionary"):
    """Points chosen from a stream, and their whitened features.

    With a scalar kernel a point gives one feature; with an operator-valued one up to d, and d rows per input: row
    i d + q belongs to output q of input i, and points are chosen by the scalar kernel tr K(x, z) / d.
    """

    _state_classes = {"memory": SelectionState}
    _stored = {"points": "k p", "keep": "m int", "L": "m m", "past": "n l | None"}

    kernel: Any
    per: int
    points: Array  # (N, p)
    keep: Indices  # (m,) the entries i per + q of the points' gram that are independent of those before
    L: Array  # (m, m) Cholesky factor of the gram of those
    selection: Selection | None  # None for a given dictionary
    memory: SelectionState
    budget: int | None = None  # maximum number of points
    past: Array | None = None  # (n per, m) features of the rows so far when the dictionary last grew, for an exact past
    _inverse: Array | None = field(default=None, init=False, repr=False, compare=False)

    @classmethod
    def start(cls, kernel: Any, selection: Selection | Given, p: int, per: int, budget: int | None) -> Self:
        """The dictionary at the start of a stream of inputs (., p): empty, or that of `Given`."""
        empty = np.empty((0, p)), np.empty(0, dtype=np.intp), np.empty((0, 0))
        if not isinstance(selection, Given):
            return cls(kernel, per, *empty, clone(selection), selection.start(), budget)
        new = cls(kernel, per, *empty, None, SelectionState(0), budget)
        new.points = selection.checked(p)[:budget]
        new.keep, new.L = independent(new._gram(new.points, new.points))
        return new

    @property
    def m(self) -> int:
        return len(self.L)

    @property
    def settled(self) -> bool:  # type: ignore[override]
        return self.memory.left == 0 or (self.budget is not None and len(self.points) >= self.budget)

    def transform(self, X: Array) -> Array:
        return self._features(self._gram(X, self.points))

    def transform_and_grow(self, X: Array, draws: Array, *, exact: bool = False) -> tuple[Array, Indices]:
        """Features of a block of inputs, (n per, m), each of which may join before its features are computed.

        Also returns how many features there are when each input is processed, (n,). The others are 0, or with `exact`
        have their values, for later use.
        """
        return DictionaryBlock(self, X, draws).accept_all(exact=exact)

    def transform_past(self, X: Array) -> Array:
        """Features of all past rows, (n per, m), given that X starts with the rows of the previous call.

        With L = (L_11 0; L_21 L_22), the new features are (k_new(x) - L_21 phi(x)) whitened by L_22.
        """
        known = np.empty((0, self.m)) if self.past is None else self.past
        done, m = len(known) // self.per, known.shape[1]
        if self.m > m:
            first = int(self.keep[m]) // self.per
            gram = self._gram(X[:done], self.points[first:])[:, self.keep[m:] - first * self.per]
            new = whitened_rows(np.ascontiguousarray(self.L[m:, m:]), gram - known @ self.L[m:, :m].T)
            known = np.concatenate([known, new], axis=1)
        self.past = np.concatenate([known, self.transform(X[done:])])
        return self.past

    def same(self, other: Any) -> bool:
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
        return np.asarray(self.kernel.gram(X, Z).dense())

    def _features(self, gram: Array) -> Array:
        kept = gram if len(self.keep) == gram.shape[1] else np.ascontiguousarray(gram[:, self.keep])
        if not self.settled or self.m == 0:
            return whitened_rows(self.L, kept)
        # L is final, with a condition number of about 1 / sqrt(ROUNDING_TOL) at most: a product takes half of a solve.
        if self._inverse is None:
            self._inverse = lapack.dtrtri(self.L.T, lower=0)[0]
        return np.asarray(dtrmm(1.0, self._inverse, kept.T, side=0, lower=0, trans_a=1).T)


def _with_rows(L: Array, rows: list[Array]) -> Array:
    """A triangular matrix with further rows, each up to its diagonal."""
    m = len(L)
    new = np.zeros((m + len(rows), m + len(rows)))
    new[:m, :m] = L
    for i, row in enumerate(rows, start=m):
        new[i, : i + 1] = row
    return new


class DictionaryBlock:
    """A block of b inputs while its points join: their features, and c(x, y) for selections that use it.

    `draws`, (b,), holds a random number for each row. Selections use the scalar kernel k, or tr K / d.
    """

    def __init__(self, dictionary: Dictionary, X: Array, draws: Array) -> None:
        self.d, self.X, self.draws, self.state = dictionary, X, draws, dictionary.memory
        gram = dictionary._gram(X, dictionary.points)
        self.first: int | None = None
        self.Phi = dictionary._features(gram)
        # New rows of the triangular factors, which are copied once per block.
        self._rows: list[Array] = []
        self._residual_rows: list[Array] = []
        if not dictionary.settled and dictionary.selection is not None:
            N, b, per = len(dictionary.points), len(X), dictionary.per
            cross = gram.T if per == 1 else np.einsum("bqNq->Nb", gram.reshape(b, per, N, per)) / per
            self.diagonal = np.einsum("bqq->b", dictionary.prior(X)) / per
            if self.state.residual is not None:
                # V = L^-1 S k_D(X), so that c(x, y) = k(x, y) - v_x' v_y.
                self._V = solve_lower(self.state.residual.L, self.state.residual.weights[:, None] * cross)
                self._c: Array = self.diagonal - np.einsum("ij,ij->j", self._V, self._V)
            self.selection = dictionary.selection
            self.first = self.next_candidate(0)

    def next_candidate(self, start: int) -> int | None:
        """The first row from `start` on that is to join, or None."""
        found = np.flatnonzero(self.selection.wanted(self, start))
        return start + int(found[0]) if len(found) else None

    def residual(self, start: int) -> Array:
        """c(x, x) of the rows from `start` on, non-negative."""
        return np.asarray(np.maximum(self._c[start:], 0.0))

    def add_point(self, j: int, s: float) -> None:
        """Give row j the weight s: c(x, y) -= s^2 c(x, z) c(z, y) / (mu + s^2 c(z, z))."""
        known, per = self.state.residual, self.d.per
        assert known is not None
        pivot = float(np.sqrt(known.mu + s * s * float(self.residual(j)[0])))
        column = self._column
        scalar = column[:, 0] if per == 1 else np.einsum("bqq->b", column.reshape(-1, per, per)) / per
        c = scalar - self._V.T @ self._V[:, j]
        self._residual_rows.append(np.append(s * self._V[:, j], pivot))
        row = s * c / pivot
        known.weights = np.append(known.weights, s)
        self._V = np.concatenate([self._V, row[None]])
        self._c = self._c - row**2

    def accept_all(self, *, exact: bool) -> tuple[Array, Indices]:
        """Add all selected rows; returns the result of `Dictionary.transform_and_grow`."""
        new: list[Array] = []
        j, m = self.first, self.d.m
        sizes = np.full(len(self.X), m)
        while j is not None and not self.d.settled:
            self.accept(j, new, exact=exact)
            sizes[j:] = m + len(new)
            j = self.next_candidate(j + 1)
        if self._residual_rows and self.state.residual is not None:
            self.state.residual.L = _with_rows(self.state.residual.L, self._residual_rows)
        if not new:
            return self.Phi, sizes
        self.d.L = _with_rows(self.d.L, self._rows)
        return np.concatenate([self.Phi, np.column_stack(new)], axis=1), sizes

    def accept(self, j: int, new: list[Array], *, exact: bool) -> None:
        """Add row j to the dictionary, and append its features of all rows to `new`."""
        d, per, tol = self.d, self.d.per, ROUNDING_TOL if exact else DEPENDENCE_TOL
        # K(x_i, x_j), (b per, per).
        column = self._column = d._gram(self.X, self.X[j : j + 1])
        number, before = len(d.points), len(new)
        for q in range(per):
            row = j * per + q
            # phi(z) of the features so far, including those of this block.
            l = np.concatenate([self.Phi[row], [feature[row] for feature in new]])  # noqa: E741
            size = float(column[row, q])
            delta = size - float(l @ l)
            if delta <= tol * size:
                continue
            old = self.Phi.shape[1]
            feature = column[:, q] - self.Phi @ l[:old]
            if new:
                feature -= np.column_stack(new) @ l[old:]
            feature /= delta**0.5
            if not exact:
                feature[: j * per] = 0.0
            new.append(feature)
            self._rows.append(np.append(l, delta**0.5))
            d.keep = np.append(d.keep, number * per + q)
        if self.selection.accept(self, j, len(new) > before):
            d.points = np.concatenate([d.points, self.X[j : j + 1]])


@dataclass(eq=False, repr=False)
class Nystrom(FeatureSpec):
    """Nystrom features of points chosen along a stream; a row may be added before it is predicted.

    Parameters
    ----------
    selection : `KORS`, `Uniform`, `ALD` or `Given`, optional
        Rule that selects the rows to add to the dictionary; default ``Uniform(size=100)``.
    past : "projected" or "exact"
        How earlier rows contribute to a new feature: "projected" drops their contribution, and memory does not grow
        with the stream; "exact" keeps their inputs and outputs to compute it.
    budget : int, optional
        Maximum number of points, at which the dictionary stops growing.

    See Also
    --------
    Fourier, Taylor, ovk.PKAWV

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import PKAWV
    >>> from ovk.features import KORS, Nystrom
    >>> from ovk.kernels import Gaussian
    >>> X = np.linspace(0, 6, 300)[:, None]
    >>> model = PKAWV(Gaussian(1.0), alpha=0.1, features=Nystrom(KORS(mu=0.01), budget=50), random_state=0)
    >>> model.fit(X, np.sin(X[:, 0])).support_.shape
    (15, 1)
    """

    selection: Selection | Given | None = None
    past: str = "projected"
    budget: int | None = None

    def keeps_past(self) -> bool:
        check_choice(self.past, "past", ("projected", "exact"))
        return self.past == "exact"

    def build(self, kernel: OperatorKernel, p: int, d: int, rng: np.random.Generator) -> StreamFeatures:
        selection = Uniform(size=100) if self.selection is None else self.selection
        if not isinstance(selection, (Selection, Given)):
            raise ValueError(f"selection must be KORS, Uniform, ALD or Given, got {selection!r}")
        budget = None if self.budget is None else check_int(self.budget, "budget")
        self.keeps_past()
        scalar = kernel.scalar if isinstance(kernel, Separable) else kernel
        return Dictionary.start(scalar, selection, p, 1 if isinstance(kernel, Separable) else d, budget)
