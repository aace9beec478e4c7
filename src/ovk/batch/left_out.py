"""Mean squared errors of leaving out rows or entries, whatever was observed: what estimators choose by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import numpy as np

from ovk._validation import Array, Indices
from ovk.batch.problem import CompleteProblem
from ovk.batch.repeated import merged
from ovk.batch.targets import Targets
from ovk.grams import Kronecker, KroneckerSum, Rotated, decouple
from ovk.operators import Identity, OutputOperator, Spectrum
from ovk.ovkernels import OperatorKernel, Separable
from ovk.solvers.eigen import Eigenpairs, eigenpairs
from ovk.solvers.leave_one_out import DenseLeaveOneOut, KroneckerLeaveOneOut, RotatedLeaveOneOut


class CompleteErrors:
    """Complete outputs and a scalar kernel, for any operator and alpha; rows with the same inputs taken together.

    Parameters
    ----------
    kernel : k * T, of which k counts
    groups : (n,) rows with the same number are left out together
    tol : what may be left out of the scalar gram (its trace)

    Attributes
    ----------
    problem : rows with the same inputs as one, scaled by the square roots of their weights
    pairs : eigenpairs of its scalar gram
    u : (n,) the intercept's column, or None
    every : the eigenpairs when they are those of the gram of all rows, else None
    """

    def __init__(
        self, kernel: Separable, X: Any, targets: Targets, groups: Indices, *, intercept: bool, tol: float = 0.0
    ) -> None:
        first, once, self._within = merged(X, targets, groups)
        self.problem = CompleteProblem(Separable(kernel.kernel, Identity(targets.d)), first, once, 1.0)
        self.pairs = eigenpairs(cast(Kronecker, self.problem.gram).G, tol)
        self.u = self.problem.columns() if intercept else None
        self._left_out = KroneckerLeaveOneOut(self.pairs, self.problem.Y, self.u)
        self._total = _total(once)
        same = len(once.Y) == len(targets.Y)
        self.every: Eigenpairs | None = self.pairs if same and self.pairs.full else None

    def path(self, spectrum: Spectrum, alphas: Array, *, entry: bool) -> Iterator[Array]:
        """The error of each output, (d,), at each of `alphas` in turn."""
        for residuals in self._left_out.path(spectrum, alphas, entry=entry):
            yield _mean_squares(residuals, self._within, self._total)


def smallest_tolerance(operators: list[OutputOperator], alphas: Array, tol: float) -> float:
    """What may be left out of a scalar gram: a trace of E less changes solutions by at most E t / alpha, relatively."""
    largest = max(float(operator.eigh().values[-1]) for operator in operators)
    return tol * float(alphas.min()) / max(largest, 1e-300)


def decoupled_errors(
    kernel: OperatorKernel, X: Any, targets: Targets, groups: Indices, alphas: Array, *, intercept: bool, entry: bool
) -> Iterator[Array] | None:
    """Errors (d,) at each alpha of complete outputs when the kernel falls apart into scalar kernels, else None.

    Sums whose operators commute, and kernels of their own for each output, do.
    """
    first, once, within = merged(X, targets, groups)
    problem = CompleteProblem(kernel, first, once, 1.0)
    if not isinstance(problem.gram, (Kronecker, KroneckerSum)):
        return None
    parts = decouple(problem.gram)
    if not isinstance(parts, Rotated):
        return None
    left_out = RotatedLeaveOneOut(parts, problem.Y, problem.columns() if intercept else None)
    return (_mean_squares(each, within, _total(once)) for each in left_out.path(alphas, entry=entry))


class PairErrors:
    """Some outputs of some points: N observed pairs.

    Parameters
    ----------
    K : (N, N) gram of the pairs, scaled by v on both sides
    y : (N,) their outputs, scaled by v
    outputs : (N,) which output each belongs to
    v : (N,) square roots of weights, or None
    groups : (N,) numbers of the pairs' rows; those of one number (and, by entry, of one output) are left out together
    E : (N, d) columns of the intercepts, or None
    d : number of outputs
    """

    def __init__(
        self,
        K: Array,
        y: Array,
        outputs: Indices,
        v: Array | None,
        groups: Indices,
        E: Array | None,
        d: int,
        *,
        entry: bool,
    ) -> None:
        self._left_out = DenseLeaveOneOut(K, y, groups * d + outputs if entry else groups, E)
        self._outputs, self._d = outputs, d
        self._mass = np.bincount(outputs, weights=None if v is None else v**2, minlength=d)

    def at(self, alpha: float) -> Array:
        """The error of each output, (d,); 0 where nothing was observed."""
        squares = self._left_out.residuals(alpha) ** 2
        sums = np.bincount(self._outputs, weights=squares, minlength=self._d)
        return np.divide(sums, self._mass, out=np.zeros(self._d), where=self._mass > 0)


def _total(targets: Targets) -> float:
    return float(len(targets.Y) if targets.weight is None else targets.weight.sum())


def _mean_squares(residuals: Array, within: Array, total: float) -> Array:
    result: Array = (np.einsum("iq,iq->q", residuals, residuals) + within) / total
    return result
