"""Selections by what the dictionary leaves of the kernel: approximate linear dependence and leverage scores.

ALD is that of Engel, Mannor and Meir (2004); KORS, kernel online row sampling by ridge leverage scores, that of
Calandriello, Lazaric and Valko (2017).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ovk._params import positive
from ovk._state import State
from ovk._types import Array, Mask
from ovk.features.selection.base import BlockKernels, BlockSelection, Selection, SelectionState
from ovk.solvers.triangular import solve_lower


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

    def __init__(self, tol: float = 0.01) -> None:
        self.tol = tol

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

    def __init__(self, mu: float = 0.1, beta: float = 1.0, eps: float = 0.5) -> None:
        self.mu = mu
        self.beta = beta
        self.eps = eps

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
