"""What `MovKL` is told, for curves of numbers and of labels."""

from __future__ import annotations

from typing import Any

from ovk._params import Parameters


class MovKLParameters(Parameters):
    """Base of `MovKL` and `MovKLClassifier`: the parameters, described there."""

    def __init__(
        self,
        kernels: Any = None,
        alpha: float = 1.0,
        r: float = 2.0,
        *,
        grid: Any = None,
        solver: Any = "auto",
        fit_intercept: Any = None,
        tol: float = 1e-4,
        max_iter: int = 200,
    ) -> None:
        self.kernels = kernels
        self.alpha = alpha
        self.r = r
        self.grid = grid
        self.solver = solver
        self.fit_intercept = fit_intercept
        self.tol = tol
        self.max_iter = max_iter
