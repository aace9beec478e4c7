"""Tasks that are pulled towards their mean."""

from __future__ import annotations

from typing import Self

import numpy as np

from ovk._params import check_int, positive
from ovk._types import Array
from ovk.operators.base import EvenlyCoupled


class MeanRegularised(EvenlyCoupled):
    """T = I / (own + spread) + (spread / own) / (own + spread) 11' / d: outputs close to their mean.

    The norm it gives a function f = (f_1, ..., f_d) is that of regularised multi-task learning,

        own sum_t |f_t|^2 + spread sum_t |f_t - mean f|^2,

    so T^-1 = own I + spread (I - 11' / d). With spread = 0 the outputs are apart. T is a multiple of
    `MixedEffect`; here its parameters are the weights of the penalty.

    Parameters
    ----------
    own : float > 0
        Weight of each output's norm (rho_1).
    spread : float >= 0
        Weight of the distance from the mean (rho_2).
    output_dim : int, optional
        Number of outputs; found in Y when not given.

    References
    ----------
    Evgeniou and Pontil (2004), Regularized multi-task learning.

    Examples
    --------
    >>> from ovk.operators import MeanRegularised
    >>> MeanRegularised(0.5, 0.5, output_dim=2).dense()
    array([[1.5, 0.5],
           [0.5, 1.5]])
    """

    def __init__(self, own: float = 1.0, spread: float = 1.0, output_dim: int | None = None) -> None:
        self.own = own
        self.spread = spread
        self.output_dim = output_dim

    @classmethod
    def from_shared(cls, lambda_1: float, lambda_2: float, output_dim: int) -> Self:
        """The operator of f_t = f_0 + v_t with the penalty (lambda_1 / d) sum_t |v_t|^2 + lambda_2 |f_0|^2.

        Minimising over f_0 with all f_t fixed gives f_0 = lambda_1 / (lambda_1 + lambda_2) mean f, and

            own = lambda_1 lambda_2 / (d (lambda_1 + lambda_2)),  spread = lambda_1^2 / (d (lambda_1 + lambda_2)).

        >>> T = MeanRegularised.from_shared(2.0, 4.0, output_dim=2)
        >>> T.dense()
        array([[1.25, 0.25],
               [0.25, 1.25]])
        """
        a, b = positive(lambda_1, "lambda_1"), positive(lambda_2, "lambda_2")
        total = check_int(output_dim, "output_dim") * (a + b)
        return cls(a * b / total, a**2 / total, output_dim)

    def _weights(self) -> tuple[float, float]:
        return positive(self.own, "own"), positive(self.spread, "spread", zero=True)

    def _parts(self) -> tuple[float, float]:
        own, spread = self._weights()
        return 1.0 / (own + spread), spread / (own * (own + spread) * self.dim())

    def gradient(self) -> dict[str, Array]:
        own, spread = self._weights()
        d = self.dim()
        mean = np.full((d, d), 1.0 / d)
        # The eigenvalues are 1 / own on the mean and 1 / (own + spread) on what is orthogonal to it.
        rest = -(np.eye(d) - mean) / (own + spread) ** 2
        return {"own": rest - mean / own**2, "spread": rest}
