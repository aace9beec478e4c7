"""The contract of a selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np

from ovk.base import Array, Mask, Parameters, State, check_int, positive
from ovk.solvers import solve_lower


class BlockKernels(NamedTuple):
    """A block of inputs as the kernel sees them.

    Attributes
    ----------
    cross : (N, b) k(z_i, x_j) with the points chosen so far; not to be changed
    diagonal : (b,) k(x_j, x_j)
    column : ``column(j)`` is k(x_i, x_j) for all i, (b,)
    draws : (b,) a uniform random number for each row
    """

    cross: Array
    diagonal: Array
    column: Callable[[int], Array]
    draws: Array


class BlockSelection(ABC):
    """A selection at work on one block of inputs."""

    @abstractmethod
    def wanted(self, start: int) -> Mask:
        """Which of the rows from `start` on are to join, as things stand."""

    def next_candidate(self, start: int) -> int | None:
        """The first row from `start` on that is to join; None when there is none."""
        found = np.flatnonzero(self.wanted(start))
        return start + int(found[0]) if len(found) else None

    @abstractmethod
    def accept(self, j: int, independent: bool) -> bool:
        """Let row j join; returns whether it stays among the chosen points, though it may depend on the others."""


class SelectionState(State, ABC):
    """What a selection remembers of a stream."""

    @abstractmethod
    def on_block(self, block: BlockKernels) -> BlockSelection:
        """The selection for a block of inputs."""

    def is_complete(self) -> bool:
        """Whether no row will join any more."""
        return False


class Selection(Parameters, ABC):
    """Decides, row after row, which inputs join the dictionary: each before its own label is seen."""

    @abstractmethod
    def start(self) -> SelectionState:
        """The state at the start of a stream."""


# Points taken without looking at them.


@dataclass(eq=False, repr=False)
class Uniform(Selection):
    """Each row joins with the same probability, or the first ones do.

    Parameters
    ----------
    rate : float in (0, 1], optional
        Probability of each row to join.
    size : int, optional
        Instead: the first so many rows that are not in the span of those before (in a stream that comes in random
        order these are a uniform sample, and there from the start).

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
            raise ValueError(f"Uniform takes either rate or size, got rate={self.rate!r} and size={self.size!r}")
        if self.size is not None:
            return UniformState(1.0, check_int(self.size, "size"))
        rate: Any = self.rate
        if not isinstance(rate, Real) or not 0.0 < float(rate) <= 1.0:
            raise ValueError(
                f"rate must be a probability in (0, 1], got {self.rate!r}: for a number of points give size, as in "
                "Uniform(size=500)"
            )
        return UniformState(float(rate), None)


@dataclass
class UniformState(SelectionState, kind="uniform"):
    """The probability of each row to join, and how many may still do so (None for any number)."""

    rate: float
    left: int | None

    def on_block(self, block: BlockKernels) -> BlockSelection:
        return _UniformBlock(self, block.draws)

    def is_complete(self) -> bool:
        return self.left == 0


class _UniformBlock(BlockSelection):
    def __init__(self, state: UniformState, draws: Array) -> None:
        self.state, self.drawn = state, draws < state.rate

    def wanted(self, start: int) -> Mask:
        return self.drawn[start:] if self.state.left != 0 else self.drawn[:0]

    def accept(self, j: int, independent: bool) -> bool:
        if independent and self.state.left is not None:
            self.state.left -= 1
        return independent


# Points known beforehand.


@dataclass(eq=False, repr=False)
class Given(Selection):
    """A dictionary that is there from the start and does not grow.

    With inputs known beforehand and only the outputs revealed one by one, `Given.chosen` lets another selection go over
    all inputs first.

    Parameters
    ----------
    points : (m, p) array

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.features import KORS, Given
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((500, 1))
    >>> found = Given.chosen(Gaussian(1.0), X, KORS(mu=0.1), random_state=0)
    >>> 5 <= len(found.points) <= 50
    True
    """

    points: Any

    def start(self) -> SelectionState:
        return GivenState()

    def checked(self, p: int) -> Array:
        """The points, for inputs with p features."""
        points = np.array(self.points, dtype=np.float64)
        if points.ndim != 2 or points.shape[1] != p or len(points) == 0 or not np.isfinite(points).all():
            raise ValueError(f"points must be finite numbers of shape (m, {p}), got shape {points.shape}")
        return points

    @classmethod
    def chosen(
        cls, kernel: Any, X: Any, selection: Any, *, budget: int | None = None, random_state: Any = None
    ) -> Self:
        """The dictionary that `selection`, or `RPCholesky`, makes of all inputs X, (n, p), with a scalar or
        operator-valued kernel."""
        from ovk.features.nystrom import Dictionary, RPCholesky

        if isinstance(selection, RPCholesky):
            return cls(selection.dictionary(kernel, X, budget, random_state))
        return cls(Dictionary.chosen(kernel, X, selection, budget, random_state).points)


@dataclass
class GivenState(SelectionState, kind="given"):
    """Lets no row join."""

    def on_block(self, block: BlockKernels) -> BlockSelection:
        return UniformState(1.0, 0).on_block(block)

    def is_complete(self) -> bool:
        return True


# Selections by what the dictionary leaves of the kernel: approximate linear dependence and leverage scores.
#
# ALD is that of Engel, Mannor and Meir (2004); KORS, kernel online row sampling by ridge leverage scores, that of
# Calandriello, Lazaric and Valko (2017).


@dataclass
class KernelResidual(State):
    """c(x, y) = k(x, y) - b_x' (S K S + mu I)^-1 b_y, b_x = S k_D(x), by a Cholesky factor L L' = S K S + mu I.

    Attributes
    ----------
    mu : >= 0
    weights : (N,) the diagonal of S
    L : (N, N)
    """

    mu: float
    weights: Array = field(default_factory=lambda: np.empty(0))
    L: Array = field(default_factory=lambda: np.empty((0, 0)))

    def on_block(self, block: BlockKernels) -> BlockResidual:
        """What is left of the kernel on a block of inputs."""
        return BlockResidual(self, block)


class BlockResidual:
    """c(x, y) on a block of inputs, while points of it join."""

    def __init__(self, residual: KernelResidual, block: BlockKernels) -> None:
        self._all, self._block = residual, block
        # V = L^-1 S k_D(X), so that c(x, y) = k(x, y) - v_x' v_y.
        self._V = solve_lower(residual.L, residual.weights[:, None] * block.cross)
        self._c: Array = block.diagonal - np.einsum("ij,ij->j", self._V, self._V)

    def diagonal(self, start: int) -> Array:
        """c(x, x) of the rows from `start` on; not below zero by rounding."""
        rest: Array = np.maximum(self._c[start:], 0.0)
        return rest

    def add_point(self, j: int, s: float) -> None:
        """Add row j to the dictionary, with weight s: c(x, y) -= s^2 c(x, z) c(z, y) / (mu + s^2 c(z, z))."""
        known = self._all
        N = len(known.weights)
        pivot = float(np.sqrt(known.mu + s * s * float(self.diagonal(j)[0])))
        c = self._block.column(j) - self._V.T @ self._V[:, j]
        L = np.zeros((N + 1, N + 1))
        L[:N, :N], L[N, :N], L[N, N] = known.L, s * self._V[:, j], pivot
        row = s * c / pivot
        known.weights, known.L = np.append(known.weights, s), L
        self._V = np.concatenate([self._V, row[None]])
        self._c = self._c - row**2


@dataclass(eq=False, repr=False)
class ALD(Selection):
    """A row joins when more than a part `tol` of k(x, x) lies outside the span of the dictionary.

    Parameters
    ----------
    tol : float in (0, 1)

    Examples
    --------
    >>> from ovk.features import ALD, Nystrom
    >>> Nystrom(ALD(0.05))
    Nystrom(selection=ALD(tol=0.05))
    """

    tol: float = 0.01

    def start(self) -> SelectionState:
        if positive(self.tol, "tol") >= 1:
            raise ValueError(f"tol must lie in (0, 1), got {self.tol!r}")
        return ALDState(float(self.tol), KernelResidual(0.0))


@dataclass
class ALDState(SelectionState, kind="ald"):
    """What the dictionary leaves of the kernel."""

    tol: float
    residual: KernelResidual

    _state_classes = {"residual": KernelResidual}

    def on_block(self, block: BlockKernels) -> BlockSelection:
        return _ALDBlock(self, block)


class _ALDBlock(BlockSelection):
    def __init__(self, state: ALDState, block: BlockKernels) -> None:
        self.limits, self.residual = state.tol * block.diagonal, state.residual.on_block(block)

    def wanted(self, start: int) -> Mask:
        return self.residual.diagonal(start) > self.limits[start:]

    def accept(self, j: int, independent: bool) -> bool:
        if independent:
            self.residual.add_point(j, 1.0)
        return independent


@dataclass(eq=False, repr=False)
class KORS(Selection):
    """Each row joins with a probability that grows with what the dictionary does not know of it.

    With chosen points of weights s_i = 1 / sqrt(p_i), S their diagonal, b_x = S k_D(x) and

        c(x, y) = k(x, y) - b_x' (S K S + mu I)^-1 b_y,     tau = (1 + eps) c(x, x) / (c(x, x) + mu),

    an estimate of the leverage score of x at the scale mu, x joins with probability p = min(beta tau, 1). The
    dictionary's size is about beta times the effective dimension at mu, up to a logarithm. mu is not the ridge weight
    of a learner.

    Parameters
    ----------
    mu : float > 0
        Scale below which directions do not matter.
    beta : float > 0
        Oversampling; the theorem wants 3 log(2 n / delta) / eps^2 for certainty 1 - delta.
    eps : float in [0, 1)

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
        eps = positive(self.eps, "eps", zero=True)
        if eps >= 1:
            raise ValueError(f"eps must lie in [0, 1), got {self.eps!r}")
        return KORSState(positive(self.beta, "beta"), eps, KernelResidual(positive(self.mu, "mu")))


@dataclass
class KORSState(SelectionState, kind="kors"):
    """What the weighted dictionary leaves of the kernel, at the scale mu."""

    beta: float
    eps: float
    residual: KernelResidual

    _state_classes = {"residual": KernelResidual}

    def on_block(self, block: BlockKernels) -> BlockSelection:
        return _KORSBlock(self, block)


class _KORSBlock(BlockSelection):
    def __init__(self, state: KORSState, block: BlockKernels) -> None:
        self.state, self.draws, self.residual = state, block.draws, state.residual.on_block(block)

    def probabilities(self, start: int) -> Array:
        r = self.residual.diagonal(start)
        state = self.state
        return np.minimum(state.beta * (1.0 + state.eps) * r / (r + state.residual.mu), 1.0)

    def wanted(self, start: int) -> Mask:
        return self.draws[start:] < self.probabilities(start)

    def accept(self, j: int, independent: bool) -> bool:
        self.residual.add_point(j, float(self.probabilities(j)[0]) ** -0.5)
        # A point that adds nothing to the features still counts in the estimate of leverage.
        return True
