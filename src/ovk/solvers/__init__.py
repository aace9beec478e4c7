"""Solvers of (K + alpha I) C = Y that use the structure of the gram."""

from ovk.base.errors import SingularSystem
from ovk.solvers.base import Solution, Solver, SolverInfo
from ovk.solvers.cholesky import Cholesky
from ovk.solvers.eigen import Eigen
from ovk.solvers.iterative import ConjugateGradient, GaussSeidel, MissingOutputs
from ovk.solvers.proximal import Minimum, PenaltySum, ProximalInfo, proximal_gradient
from ovk.solvers.select import as_solver, select

__all__ = [
    "Cholesky",
    "ConjugateGradient",
    "Eigen",
    "GaussSeidel",
    "Minimum",
    "MissingOutputs",
    "PenaltySum",
    "ProximalInfo",
    "SingularSystem",
    "Solution",
    "Solver",
    "SolverInfo",
    "as_solver",
    "proximal_gradient",
    "select",
]
