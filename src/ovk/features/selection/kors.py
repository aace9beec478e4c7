"""KORS: kernel online row sampling by ridge leverage scores (Calandriello, Lazaric and Valko 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk._validation import Array, positive
from ovk.features.selection.base import Chooser, Judge, Neighbours, Selection
from ovk.features.selection.residual import Residual


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
    Nystrom(budget=200, selection=KORS(mu=0.01))
    """

    def __init__(self, mu: float = 0.1, beta: float = 1.0, eps: float = 0.5) -> None:
        self.mu = mu
        self.beta = beta
        self.eps = eps

    def begin(self) -> Chooser:
        eps = positive(self.eps, "eps", zero=True)
        if eps >= 1:
            raise ValueError(f"eps must lie in [0, 1), got {self.eps!r}")
        return KorsChooser(positive(self.beta, "beta"), eps, Residual(positive(self.mu, "mu")))


@dataclass
class KorsChooser(Chooser):
    """What the weighted dictionary leaves of the kernel, at the scale mu."""

    beta: float
    eps: float
    residual: Residual

    def judge(self, block: Neighbours) -> Judge:
        return _Judge(self, block)


class _Judge(Judge):
    def __init__(self, chooser: KorsChooser, block: Neighbours) -> None:
        self.chooser, self.draws, self.residual = chooser, block.draws, chooser.residual.of(block)

    def probabilities(self, start: int) -> Array:
        r = self.residual.own(start)
        known = self.chooser
        return np.minimum(known.beta * (1.0 + known.eps) * r / (r + known.residual.mu), 1.0)

    def first(self, start: int) -> int | None:
        found = np.flatnonzero(self.draws[start:] < self.probabilities(start))
        return start + int(found[0]) if len(found) else None

    def join(self, j: int, independent: bool) -> bool:
        self.residual.join(j, float(self.probabilities(j)[0]) ** -0.5)
        # A point that adds nothing to the features still counts in the estimate of leverage.
        return True
