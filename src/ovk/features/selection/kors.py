"""KORS: kernel online row sampling by ridge leverage scores (Calandriello, Lazaric and Valko 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk._params import positive
from ovk._types import Array, Mask
from ovk.features.selection.base import BlockKernels, BlockSelection, Selection, SelectionState
from ovk.features.selection.residual import KernelResidual


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
