"""The Tanimoto kernel of fingerprints."""

from __future__ import annotations

from typing import Any

import numpy as np

from ovk._validation import Array
from ovk.kernels.base import ScalarKernel, Slope
from ovk.kernels.tiles import products, square_norms


class Tanimoto(ScalarKernel):
    """k(x, z) = <x, z> / (|x|^2 + |z|^2 - <x, z>).

    For binary vectors this is the size of the intersection over the size of the union (Jaccard); counts and other
    real vectors, dense or scipy sparse, are welcome too. Two empty fingerprints are alike: k(0, 0) = 1.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Tanimoto
    >>> Tanimoto()(np.array([[1, 1, 0], [0, 1, 1]])).round(4)
    array([[1.    , 0.3333],
           [0.3333, 1.    ]])
    """

    def _parts(self, X: Any, Z: Any | None) -> tuple[Array, Array]:
        inner = products(X, Z)
        norms = square_norms(X)
        union = norms[:, None] + (norms if Z is None else square_norms(Z))[None, :] - inner
        return inner, union

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        inner, union = self._parts(X, Z)
        # The union is zero only where both vectors are.
        return np.divide(inner, union, out=np.ones_like(inner), where=union > 0)

    def diag(self, X: Any) -> Array:
        return np.ones(X.shape[0])

    def norm_bound(self) -> float:
        return 1.0

    def slopes(self, X: Any, Z: Any) -> list[Slope]:
        # d/dx <x,z>/u = z/u - <x,z> (2x - z)/u^2
        inner, union = self._parts(X, Z)
        safe = np.where(union > 0, union, 1.0)
        return [Slope(1.0 / safe + inner / safe**2, -2.0 * inner / safe**2, 1.0)]
