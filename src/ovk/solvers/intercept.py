"""An intercept that is not penalised.

    (K + alpha I) C + E B = Y,   E' C = 0

has the solution C = A^-1 Y - A^-1 E B with (E' A^-1 E) B = E' A^-1 Y: solves with the same factor as without intercept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ovk._singular import SingularSystem
from ovk._types import Array
from ovk.grams import Decoupled, Rotated
from ovk.solvers.base import Solution, Solver


def solve_with_intercept(
    solver: Solver, state: Any, Y: Array, alpha: float, columns: Array | None
) -> tuple[Solution, Array | None]:
    """Coefficients and intercept, one for each output; without `columns` there is none.

    Parameters
    ----------
    Y : right-hand side in the solver's own shape, (n, d) or (N, 1) for observed pairs
    columns : E as (n,) (the same column u for each of d outputs) or as (N, d), or None

    Returns
    -------
    solution, (d,) intercept or None
    """
    solution = solver.solve(state, Y, alpha)
    if columns is None:
        return solution, None

    def solve(B: Array) -> Array:
        return solver.solve(state, B, alpha).C

    decoupled: Decoupled | None = getattr(state, "decoupled", None)
    if columns.ndim == 2:
        # A factor solves for all columns at once, in a fraction of the time.
        each = columns.T[:, :, None] if decoupled is None else columns[None]
        inside = np.column_stack([solve(column) for column in each])
        b: Array = np.asarray(np.linalg.solve(columns.T @ inside, columns.T @ solution.C[:, 0]), dtype=np.float64)
        return Solution(solution.C - (inside @ b)[:, None], solution.info), b
    rotated = None if decoupled is None else decoupled.rotation()
    inside, b = _shared_column(solve, rotated, columns, solution.C)
    return Solution(solution.C - inside, solution.info), b


def _shared_column(solve: Callable[[Array], Array], rotated: Rotated | None, u: Array, C: Array) -> tuple[Array, Array]:
    """A^-1 (u b') and b, when every output has the column u."""
    d = C.shape[1]
    if rotated is not None:
        # Every rotated output has its own z_q = A_q^-1 u: one solve gives them all.
        V = rotated.vectors
        Z = solve(np.outer(u, V.sum(axis=1))) @ V
        total = u @ Z
        if not np.isfinite(total).all():
            raise SingularSystem(
                "values of the kernel are not finite, or too large to be added up: scale X, or check the kernel"
            )
        if not (total > 0).all():
            raise SingularSystem(
                "an intercept cannot be told from outputs that the operator does not couple to the inputs when alpha "
                "is 0: use alpha > 0"
            )
        along = (u @ C @ V) / total
        return (Z * along) @ V.T, V @ along
    inside = np.stack([solve(np.outer(u, np.eye(d)[q])) for q in range(d)], axis=2)  # (n, d, d)
    b = np.linalg.solve(np.einsum("i,ipq->pq", u, inside), u @ C)
    return inside @ b, b
