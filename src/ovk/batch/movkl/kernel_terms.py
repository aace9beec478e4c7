"""Many kernels on one sample: their grams, combined with any weights, and what each contributes.

Separable kernels share scalar grams and operators (`KernelTerms`); others are added up as matrices (`BlockTerms`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any

import numpy as np

from ovk._types import Array, Indices
from ovk.grams import DenseBlocks, Gram, Kronecker, Rotated
from ovk.grams.kronecker import common_eigenvectors, distinct
from ovk.ovkernels import OperatorKernel, Separable
from ovk.solvers import Cholesky, ConjugateGradient, Solution, Solver, as_solver
from ovk.solvers.cholesky import CholeskyState
from ovk.solvers.conjugate_gradient import GradientState
from ovk.solvers.preconditioners import preconditioner
from ovk.solvers.select import MANY_EIGENVALUES

#: Iterations above which a preconditioner made for other weights is made anew.
QUICK = 4
#: Relative residual of a solution.
EXACT = 1e-11


class KernelTerms:
    """Kernels k_s T_o on n points, each scalar gram and each operator once.

    Parameters
    ----------
    kernels : resolved separable kernels
    X : inputs
    rows : (n,) square roots of sample weights, or None: the grams are scaled by them on both sides
    """

    def __init__(self, kernels: Sequence[Separable], X: Any, rows: Array | None = None) -> None:
        scalars, self.scalar_of = distinct([kernel.scalar for kernel in kernels])
        self.operators, self.operator_of = distinct([kernel.operator for kernel in kernels])
        self.grams: list[Array] = [scalar(X) for scalar in scalars]
        if rows is not None:
            self.grams = [rows[:, None] * G * rows for G in self.grams]
        self._common: dict[tuple[int, ...], Any] = {}
        self._guide: tuple[float, Any] | None = None

    def restricted(self, rows: Indices) -> KernelTerms:
        """The same kernels on some of the points (of grams that are not centred)."""
        return self._with_grams([G[np.ix_(rows, rows)] for G in self.grams])

    def centred(self, u: Array) -> KernelTerms:
        """The same with grams projected on what is orthogonal to u, the column of an intercept that is not penalised.

        With P = I - u u' / u'u the system (K + alpha I) C + u b' = Y, u'C = 0 is (P K P + alpha I) C = P Y.
        """
        return self._with_grams([_centred(G, u / np.linalg.norm(u)) for G in self.grams])

    def _with_grams(self, grams: list[Array]) -> KernelTerms:
        part = copy(self)
        part.grams, part._guide = grams, None
        return part

    def used(self, weights: Array) -> list[int]:
        """Operators that have weight."""
        return [o for o in range(len(self.operators)) if weights[self.operator_of == o].any()] or [0]

    def gram(self, weights: Array) -> Gram:
        """The gram of the combination sum_k d_k K_k."""
        return Kronecker(self.grams, self.operators, self._shares(weights))

    def energies(self, C: Array) -> Array:
        """e_k = sum_ij <c_i, K_k(x_i, x_j) c_j> for each kernel, (M,); |f_k|^2 = d_k^2 e_k.

        One product C T C' for each operator; then every scalar gram is a sum over its entries.
        """
        inner = np.empty((len(self.operators), len(self.grams)))
        for o, operator in enumerate(self.operators):
            S = operator.apply(C) @ C.T
            inner[o] = [float(np.vdot(G, S)) for G in self.grams]
        return np.asarray(np.maximum(inner[self.operator_of, self.scalar_of], 0.0))

    def solve(
        self, weights: Array, Y: Array, alpha: float, solver: Any, start: Array | None = None, *, tol: float = EXACT
    ) -> Solution:
        """Coefficients of complete outputs: by a common rotation where there is one, else by the solver.

        `tol` is the relative residual at which an iteration stops that the caller has not set up himself.
        """
        if solver == "auto":
            rotated = self.rotated(weights)
            if rotated is not None:
                return Cholesky().solve(CholeskyState(rotated), Y, alpha)
            if len(self.used(weights)) > 1:
                return self._guided(weights, Y, alpha, start, tol)
        gram = self.gram(weights)
        chosen = solver_within(tol, solver, gram)
        return chosen.solve(chosen.factor(gram), Y, alpha, start)

    def _guided(self, weights: Array, Y: Array, alpha: float, start: Array | None, tol: float) -> Solution:
        """Conjugate gradients; the preconditioner of earlier weights serves for as long as it leads to quick solves."""
        gram = self.gram(weights)
        if self._guide is None or self._guide[0] != alpha:
            self._guide = alpha, preconditioner(gram, ConjugateGradient().rank)
        found = ConjugateGradient(tol=tol).solve(GradientState(gram, self._guide[1]), Y, alpha, start)
        if found.info.iterations > QUICK:
            self._guide = None
        return found

    def rotated(self, weights: Array, *, always: bool = False) -> Rotated | None:
        """The combination as scalar problems, when the operators commute and that is the fast way (or `always`)."""
        used = tuple(self.used(weights))
        if used not in self._common:
            self._common[used] = common_eigenvectors([self.operators[o].dense() for o in used])
        if self._common[used] is None:
            return None
        values, vectors, groups = self._common[used]
        different = sum(len(self.operators[o].eigh().groups) > 1 for o in used)
        # One operator with many eigenvalues: one decomposition of its gram serves them all.
        if not always and different <= 1 and len(groups) > MANY_EIGENVALUES:
            return None
        mixing = values[:, [group.start for group in groups]].T @ self._shares(weights)[list(used)]
        return Rotated(self.grams, mixing, vectors, groups)

    def _shares(self, weights: Array) -> Array:
        """Weights by operator and scalar kernel."""
        shares = np.zeros((len(self.operators), len(self.grams)))
        np.add.at(shares, (self.operator_of, self.scalar_of), weights)
        return shares


class BlockTerms(KernelTerms):
    """Kernels that are not all of the form k T: their grams have no common structure, and are added up as matrices.

    Parameters
    ----------
    kernels : resolved operator-valued kernels
    X : inputs
    rows : (n,) square roots of sample weights, or None: the grams are scaled by them on both sides
    """

    def __init__(self, kernels: Sequence[OperatorKernel], X: Any, rows: Array | None = None) -> None:
        found = [kernel.gram(X) for kernel in kernels]
        self.each: list[Gram] = found if rows is None else [gram.rescale(rows, rows, None) for gram in found]

    def gram(self, weights: Array) -> DenseBlocks:
        alive = [(weight, gram) for weight, gram in zip(weights, self.each, strict=True) if weight != 0]
        total = np.zeros((self.each[0].shape[0] * self.each[0].output_dim,) * 2)
        for weight, gram in alive:
            total += weight * gram.dense()
        return DenseBlocks(total, self.each[0].output_dim)

    def energies(self, C: Array) -> Array:
        return np.array([max(float(np.vdot(C, gram.matmat(C))), 0.0) for gram in self.each])


def solver_within(tol: float, solver: Any, gram: Gram) -> Solver:
    """As `as_solver`, but an iteration that the caller has not set up stops at `tol`, or at its own if that is less."""
    chosen = as_solver(solver, gram)
    own = chosen.get_params().get("tol", 0.0)
    return chosen.set_params(tol=tol) if isinstance(solver, str) and own > tol else chosen


def _centred(G: Array, u: Array) -> Array:
    """P G P with P = I - u u', |u| = 1."""
    Gu = G @ u
    return G - np.outer(Gu, u) - np.outer(u, Gu) + float(u @ Gu) * np.outer(u, u)
