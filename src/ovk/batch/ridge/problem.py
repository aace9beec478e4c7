"""Ridge regression as a linear system, for every form of outputs, weights and ridge.

    minimise  sum_i w_i |y_i - f(x_i) - b|^2 + alpha |f|^2   =>   (K~ + ridge I) C~ + E b = Y~

Weights and a ridge of its own for each output are taken in by scaling. With complete outputs, R = diag(sqrt w) and
S = diag(alpha^-1/2),

    K~ = (R x S) K (R x S),   Y~ = R Y S,   C = R C~ S,   ridge 1

(S = I and ridge alpha when alpha is one number). When only some pairs of a point and an output were observed, the
system is about the pairs, each with the scale v = sqrt(w_point / alpha_output).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy import sparse

from ovk._types import Array, Indices
from ovk.grams import DenseBlocks, Gram, Observed
from ovk.kernels import Precomputed
from ovk.ovkernels import OperatorKernel
from ovk.solvers import Solution, Solver
from ovk.solvers.intercept import solve_with_intercept
from ovk.solvers.posterior import explained_by_pairs, explained_covariance
from ovk.targets import Targets, ridge_and_scales


class Problem(ABC):
    """A scaled system, and the way back from its solution.

    Attributes
    ----------
    gram : K~, square
    Y : Y~ in the shape of the system: (n, d), or (N, 1) for N pairs
    ridge : number added to the diagonal
    """

    gram: Gram
    Y: Array
    ridge: float

    @abstractmethod
    def columns(self) -> Array:
        """E: (n,) when all outputs share the column, (N, d) for pairs."""

    @abstractmethod
    def intercept(self, b: Array) -> Array:
        """The intercept from that of the scaled system."""

    @abstractmethod
    def coefficients(self, C: Array) -> Any:
        """Coefficients of the expansion, (n, d), from those of the scaled system."""

    @abstractmethod
    def reduction(self, solver: Solver, state: Any, X_new: Any, *, intercept: bool) -> Array:
        """What the data take off the prior covariance at each new point, (m, d, d).

        K(x, X) A^-1 K(X, x), minus D (E' A^-1 E)^-1 D' with D = I - K(x, X) A^-1 E for an intercept that is not known.
        """

    def reduction_at(self, solver: Solver, state: Any, X_new: Any, outputs: Indices, *, intercept: bool) -> Array:
        """The diagonal entry of `reduction` for one output of each new point, (m,)."""
        each = np.arange(len(outputs))
        return self.reduction(solver, state, X_new, intercept=intercept)[each, outputs, outputs]

    def solve(self, solver: Solver, *, intercept: bool) -> tuple[Solution, Array | None]:
        """Solution with the coefficients of the expansion, and the intercept."""
        state = solver.factor(self.gram)
        columns = self.columns() if intercept else None
        (C, info), b = solve_with_intercept(solver, state, self.Y, self.ridge, columns)
        return Solution(self.coefficients(C), info), None if b is None else self.intercept(b)


class CompleteProblem(Problem):
    """Every output of every point was observed."""

    def __init__(self, kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array) -> None:
        self._kernel, self._X = kernel, X
        self._rows = None if targets.weight is None else np.sqrt(targets.weight)
        self.ridge, self._scales = ridge_and_scales(alpha)
        gram = kernel.gram(X)
        plain = self._rows is None and self._scales is None
        self.gram = gram if plain else gram.rescale(self._rows, self._rows, self._scales)
        self.Y = self._scaled(targets.Y)

    def _scaled(self, Y: Array) -> Array:
        """R Y S, which is also the way back from C~ to C."""
        if self._rows is not None:
            Y = Y * self._rows[:, None]
        return Y if self._scales is None else Y * self._scales

    def columns(self) -> Array:
        return np.ones(self.gram.shape[0]) if self._rows is None else self._rows

    def intercept(self, b: Array) -> Array:
        return b if self._scales is None else b / self._scales

    def coefficients(self, C: Array) -> Array:
        return self._scaled(C)

    def reduction(self, solver: Solver, state: Any, X_new: Any, *, intercept: bool) -> Array:
        cross = self._kernel.gram(X_new, self._X).rescale(None, self._rows, self._scales)
        total = explained_covariance(solver, state, cross, self.ridge)
        if intercept:
            d, u = self.Y.shape[1], self.columns()
            solved = [solver.solve(state, np.outer(u, e), self.ridge).C for e in np.eye(d)]
            D = np.eye(d) - np.stack([cross.matmat(Z) for Z in solved], axis=2)
            M = np.stack([u @ Z for Z in solved], axis=1)
            total -= D @ np.linalg.solve(M, D.swapaxes(1, 2))
        return total if self._scales is None else total / np.outer(self._scales, self._scales)


class PairProblem(Problem):
    """Some outputs of some points were observed.

    The pairs come from holes in Y, or from long form, where every row is a pair of its own.
    """

    def __init__(self, kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array) -> None:
        self._kernel, self._X, self._d = kernel, X, targets.d
        self._long = targets.task is not None
        self.pairs = pairs = targets.pairs()
        self.ridge, scales = ridge_and_scales(alpha)
        self._scales = scales
        self._v = pairs.roots if scales is None else pairs.roots * scales[pairs.outputs]
        self.Y = (self._v * pairs.values)[:, None]
        plain = targets.weight is None and scales is None
        if self._long:
            gram: Gram = DenseBlocks(kernel.pairs(X, pairs.outputs), 1)
            self.gram = gram if plain else gram.rescale(self._v, self._v, None)
        else:
            base = kernel.gram(X)
            rows = None if targets.weight is None else np.sqrt(targets.weight)
            self.gram = Observed(base if plain else base.rescale(rows, rows, scales), pairs.points, pairs.outputs)

    def columns(self) -> Array:
        columns = self.pairs.columns()
        return columns if self._scales is None else columns * self._scales[self.pairs.outputs][:, None]

    def intercept(self, b: Array) -> Array:
        return b

    def coefficients(self, C: Array) -> Any:
        at = self.pairs.points, self.pairs.outputs
        full = sparse.csr_array((self._v * C[:, 0], at), shape=self.pairs.shape)
        # In long form (n, d) numbers could be many times the data: nearly all of them are zero.
        return full if self._long else full.toarray()

    def reduction(self, solver: Solver, state: Any, X_new: Any, *, intercept: bool) -> Array:
        m, d = X_new.shape[0], self._d
        return self._reduction(solver, state, X_new[np.repeat(np.arange(m), d)], np.tile(np.arange(d), m), d, intercept)

    def reduction_at(self, solver: Solver, state: Any, X_new: Any, outputs: Indices, *, intercept: bool) -> Array:
        return self._reduction(solver, state, X_new, outputs, 1, intercept)[:, 0, 0]

    def _reduction(self, solver: Solver, state: Any, X_new: Any, outputs: Indices, size: int, intercept: bool) -> Array:
        """The reduction for one output of each new row, in blocks of `size` rows: (rows / size, size, size)."""
        pairs = self.pairs
        cross = (self._kernel.pairs(X_new, outputs, self._X[pairs.points], pairs.outputs) * self._v).T
        total = explained_by_pairs(solver, state, cross, self.ridge, size)
        if intercept:
            E = self.columns()
            Z = np.column_stack([solver.solve(state, e[:, None], self.ridge).C[:, 0] for e in E.T])
            D = (np.eye(self._d)[outputs] - cross.T @ Z).reshape(-1, size, self._d)
            total -= D @ np.linalg.solve(E.T @ Z, D.swapaxes(1, 2))
        return total


def ridge_problem(kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array) -> Problem:
    """The system of a resolved kernel on checked inputs and outputs."""
    return (CompleteProblem if targets.complete else PairProblem)(kernel, X, targets, alpha)


def takes_gram(kernel: Any) -> bool:
    """Whether inputs are rows of a kernel matrix."""
    if isinstance(kernel, (list, tuple)):
        return any(map(takes_gram, kernel))
    if isinstance(kernel, OperatorKernel):
        separable = kernel.as_separable()
        kernel = None if separable is None else separable.kernel
    if isinstance(kernel, str):
        return kernel == "precomputed"
    return isinstance(kernel, Precomputed) and kernel.matrix is None
