"""Outputs on a graph of similarities."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._params import cached
from ovk._types import Array
from ovk.operators.base import KeptMatrix, Spectrum, checked_symmetric


class GraphLaplacian(KeptMatrix):
    """T = pseudo-inverse of L, so that linked outputs are pulled towards each other.

    With M the similarities m_ij >= 0 between outputs, the norm of f = (f_1, ..., f_d) becomes

        1/2 sum_ij m_ij |f_i - f_j|^2 + sum_i m_ii |f_i|^2  =  sum_ij L_ij <f_i, f_j>,
        L_ii = m_ii + sum_{j != i} m_ij,  L_ij = -m_ij.

    When the diagonal of M is zero, L is singular: what all outputs of a connected part share costs nothing in this
    norm, yet the pseudo-inverse *excludes* it, and the learned outputs of each part sum to zero everywhere. Give a
    `self_weight` > 0 to have the shared part back (the smaller, the less it is penalised).

    Parameters
    ----------
    M : (d, d) array or scipy sparse matrix
        Symmetric, >= 0.
    self_weight : float or (d,) array, >= 0
        Added to the diagonal of M.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.operators import GraphLaplacian
    >>> path = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> GraphLaplacian(path, self_weight=1.0).dense()
    array([[0.625, 0.25 , 0.125],
           [0.25 , 0.5  , 0.25 ],
           [0.125, 0.25 , 0.625]])
    """

    def __init__(self, M: Any, self_weight: float | Array = 0.0) -> None:
        self.M = M
        self.self_weight = self_weight

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return int(np.shape(self.M)[0])

    @cached
    def laplacian(self) -> Array:
        """L, (d, d)."""
        M = checked_symmetric(self.M.toarray() if sparse.issparse(self.M) else self.M, "M")
        if (M < 0).any():
            raise ValueError(f"M must hold similarities >= 0, got {M.min():.6g}")
        weight = np.asarray(self.self_weight, dtype=np.float64)
        if weight.ndim > 1 or (weight.ndim == 1 and len(weight) != len(M)):
            raise ValueError(f"self_weight must be a number or one for each of the {len(M)} outputs")
        if not (np.isfinite(weight).all() and (weight >= 0).all()):
            raise ValueError(f"self_weight must be finite and >= 0, got {self.self_weight!r}")
        own = np.diagonal(M) + weight
        L = -M
        np.fill_diagonal(L, 0.0)
        np.fill_diagonal(L, own - L.sum(axis=1))
        return L

    @cached
    def eigh(self) -> Spectrum:
        values, vectors = np.linalg.eigh(self.laplacian())
        rounding = 64.0 * len(values) * np.finfo(float).eps * max(values[-1], 1e-300)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > rounding)
        # 1/x turns the order round, but the zeros of L stay zeros of T.
        order = np.argsort(inverse, kind="stable")
        inverse = inverse[order]
        close = np.flatnonzero(np.diff(inverse) > 1e-12 * inverse[1:]) + 1
        for group in np.split(np.arange(len(inverse)), close):
            inverse[group] = inverse[group].mean()
        return Spectrum(inverse, vectors[:, order])

    @cached
    def _matrix(self) -> Array:
        decomposition = self.eigh()
        T: Array = (decomposition.vectors * decomposition.values) @ decomposition.vectors.T
        return 0.5 * (T + T.T)

    def gradient(self) -> dict[str, Array]:
        # dT = -T dL T where L is regular; on its null space the pseudo-inverse jumps and has no derivative.
        T = self._matrix()
        each = -np.einsum("ia,aj->aij", T, T)
        return {"self_weight": each.sum(axis=0) if np.ndim(self.self_weight) == 0 else each}
