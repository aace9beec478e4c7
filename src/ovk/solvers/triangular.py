"""Triangular systems without copies: lower triangles and right-hand sides in C order."""

from __future__ import annotations

from scipy.linalg.blas import dtrsm, dtrsv

from ovk._types import Array


def solve_lower(L: Array, B: Array, *, transposed: bool = False) -> Array:
    """L^-1 B (or L'^-1 B), (n, r), for a lower triangle L; what stands above its diagonal is not looked at.

    >>> import numpy as np
    >>> solve_lower(np.array([[2.0, 9.0], [1.0, 1.0]]), np.array([[2.0], [3.0]]))
    array([[1.],
           [2.]])
    """
    if L.shape[0] == 0 or B.shape[1] == 0:
        return B
    # BLAS reads arrays in Fortran order: for it, ours are their transposes, and B' = X' L' is solved from the right.
    solved: Array = dtrsm(1.0, L.T, B.T, side=1, lower=0, trans_a=int(transposed)).T
    return solved


def whitened_rows(L: Array, Phi: Array) -> Array:
    """Phi L'^-1, (r, n): L^-1 applied to each row of Phi.

    >>> import numpy as np
    >>> whitened_rows(np.array([[2.0, 9.0], [1.0, 1.0]]), np.array([[2.0, 3.0]]))
    array([[1., 2.]])
    """
    if L.shape[0] == 0 or Phi.shape[0] == 0:
        return Phi
    solved: Array = dtrsm(1.0, L.T, Phi.T, side=0, lower=0, trans_a=1).T
    return solved


def forward_row(L: Array, b: Array) -> Array:
    """L^-1 b, (n,), for a single right-hand side.

    >>> import numpy as np
    >>> forward_row(np.array([[2.0, 9.0], [1.0, 1.0]]), np.array([2.0, 3.0]))
    array([1., 2.])
    """
    solved: Array = dtrsv(L.T, b, lower=0, trans=1)
    return solved
