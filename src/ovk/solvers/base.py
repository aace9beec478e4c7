"""The interface of solvers of (K + alpha I) C = Y."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

from sklearn.exceptions import ConvergenceWarning

from ovk.base import Array, Parameters, Registered
from ovk.ovkernels import Gram


@dataclass(frozen=True)
class SolverInfo(Registered):
    """How a system was solved."""

    _stored = {"condition": "* inf", "jitter": "* inf", "residual": "* inf"}

    route: str  # name of the solver that ran
    iterations: int = 0  # of an iterative solver
    condition: float = float("nan")  # estimate of the largest condition number (1-norm), nan if unknown
    jitter: float = 0.0  # largest number added to a diagonal so that a factorisation succeeds
    residual: float = float("nan")  # |Y - (K + alpha I) C| / |Y| of an iterative solver

    def warn_above(self, tol: float, advice: str) -> None:
        """Warn if the relative residual is above `tol`; the warning points to the caller's caller."""
        if self.residual > tol:
            warnings.warn(
                f"{self.route} did not reach tol={tol:.0e} within {self.iterations} iterations, relative residual "
                f"{self.residual:.1e}: {advice}",
                ConvergenceWarning,
                stacklevel=4,
            )


class Solution(NamedTuple):
    C: Array
    info: SolverInfo


class Solver(Parameters, ABC):
    """Solves (K + alpha I) C = Y for one gram and any number of alphas and right-hand sides.

    `factor` does the work that depends on neither, so a path of alphas shares it.
    """

    @abstractmethod
    def factor(self, gram: Gram) -> Any:
        """The part of a solution that depends only on the gram, for `solve`."""

    @abstractmethod
    def solve(self, state: Any, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        """Coefficients (n, d) for outputs (n, d); an iterative solver starts at `start`."""
