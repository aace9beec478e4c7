"""The contract of a solver of (K + alpha I) C = Y."""

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

    route: str  # name of the solver that ran
    iterations: int = 0  # of an iterative solver
    condition: float = float("nan")  # estimate of the largest condition number (1-norm), nan where it is not known
    jitter: float = 0.0  # largest number added to a diagonal to make a factorisation succeed
    residual: float = float("nan")  # |Y - (K + alpha I) C| / |Y| of an iterative solver

    def warn_above(self, tol: float, cure: str) -> None:
        """Warn of an iteration that ended with a relative residual above `tol`, in the name of the caller's caller."""
        if self.residual > tol:
            warnings.warn(
                f"{self.route} stopped after {self.iterations} iterations at a relative residual of "
                f"{self.residual:.1e} instead of tol={tol:.0e}: {cure}",
                ConvergenceWarning,
                stacklevel=4,
            )


class Solution(NamedTuple):
    C: Array
    info: SolverInfo


class Solver(Parameters, ABC):
    """Solves (K + alpha I) C = Y for one gram and any number of alphas and right-hand sides.

    `factor` does the work that depends on neither, so a path of alphas pays for it once.
    """

    @abstractmethod
    def factor(self, gram: Gram) -> Any:
        """What `solve` needs to know of a square gram, whatever alpha and the outputs are."""

    @abstractmethod
    def solve(self, state: Any, Y: Array, alpha: float, start: Array | None = None) -> Solution:
        """Coefficients (n, d) for outputs (n, d); an iterative solver begins at `start`."""
