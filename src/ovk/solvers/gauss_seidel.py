"""Block Gauss-Seidel over examples: the iteration of the multiple-kernel paper, as a route and a check."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ovk._params import check_int, positive
from ovk._types import Array
from ovk.grams import Gram
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.cholesky import CholeskyFactor, cholesky_factor


class SweepState(NamedTuple):
    """A gram and its diagonal blocks."""

    gram: Gram
    blocks: Array  # (n, d, d)


class GaussSeidel(Solver):
    """Solve for the coefficients of one example at a time, the others held fixed, until nothing moves:

        [K(x_i, x_i) + alpha I] c_i = y_i - sum_{j != i} K(x_i, x_j) c_j.

    Each d x d block is solved directly. Converges for every positive semi-definite gram, but slowly when alpha is
    small; `ConjugateGradient` is the faster choice.

    Parameters
    ----------
    tol : float > 0
        Relative residual at which to stop.
    max_iter : int
        Sweeps over the examples.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.grams import Kronecker
    >>> from ovk.operators import MixedEffect
    >>> from ovk.solvers import GaussSeidel
    >>> gram = Kronecker(np.eye(3) + 0.5, MixedEffect(0.5, output_dim=2))
    >>> solver = GaussSeidel()
    >>> C, info = solver.solve(solver.factor(gram), np.ones((3, 2)), alpha=0.5)
    >>> np.allclose(gram.matmat(C) + 0.5 * C, 1.0), info.route
    (True, 'GaussSeidel')
    """

    def __init__(self, tol: float = 1e-10, max_iter: int = 1000) -> None:
        self.tol = tol
        self.max_iter = max_iter

    def factor(self, gram: Gram) -> SweepState:
        return SweepState(gram, gram.diagonal_blocks())

    def solve(self, state: SweepState, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        if alpha <= 0:
            raise ValueError(f"GaussSeidel needs alpha > 0, got {alpha}")
        tol, max_iter = positive(self.tol, "tol"), check_int(self.max_iter, "max_iter")
        gram, blocks = state
        # Stationary kernels have the same block everywhere: factor each different one once.
        seen: dict[bytes, CholeskyFactor] = {}
        factors = []
        for block in blocks:
            key = block.tobytes()
            if key not in seen:
                seen[key] = cholesky_factor(lambda block=block: block.copy(), alpha)  # type: ignore[misc]
            factors.append(seen[key])
        C = np.zeros_like(Y) if start is None else start.copy()
        norm = max(float(np.linalg.norm(Y)), 1e-300)
        every = slice(None)
        for sweep in range(1, max_iter + 1):
            for i, factor in enumerate(factors):
                others = gram.part_matmat(slice(i, i + 1), every, C)[0] - blocks[i] @ C[i]
                C[i] = factor.solve(Y[i] - others)
            residual = float(np.linalg.norm(Y - gram.matmat(C) - alpha * C)) / norm
            info = SolverInfo("GaussSeidel", iterations=sweep, residual=residual)
            if residual <= tol:
                break
        info.warn_above(tol, "raise max_iter or alpha, or use ConjugateGradient")
        return Solution(C, info)
