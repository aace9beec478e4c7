"""Mean squared errors of leaving out rows or entries, whatever was observed: what estimators choose by.

Rows with the same inputs are left out together, and taken together.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
from scipy import sparse

from ovk.base import Array, Indices, ObservedPairs, ProgressBar, Targets
from ovk.batch.ridge.prediction import same_inputs
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import CompleteSystem, PairSystem, takes_gram
from ovk.kernels import Linear
from ovk.operators import Identity, OutputOperator, Spectrum
from ovk.ovkernels import Observed, OperatorKernel, Separable, as_operator_kernel
from ovk.solvers import (
    Eigenpairs,
    PairwisePath,
    SeparablePath,
    decoupled_path,
    eigenpairs,
    observed_eigenpairs,
)


class LeaveOneOutRegressor(OVKRegressor, saved=False):
    """A regressor that chooses among candidates by leaving out rows, or entries of rows."""

    leave_out: str
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Choose and learn from inputs and outputs; the arguments are those of `OVKRidge.fit`."""
        with self._fitting(X, y):
            self._check_leave_out()
            self._fit(X, y, sample_weight, task)
        return self

    def _check_leave_out(self) -> None:
        if self.leave_out not in ("row", "entry"):
            raise ValueError(f"leave_out must be 'row' or 'entry', got {self.leave_out!r}")

    @abstractmethod
    def _fit(self, X: Any, y: Any, sample_weight: Any, task: Any) -> None:
        """Choose among the candidates, and learn with the best of them."""

    def _same_inputs(self, X: Any, targets: Targets) -> Indices:
        """(n,) rows with the same inputs have the same number: a copy left in would give the answer away."""
        same = np.arange(X.shape[0]) if takes_gram(self.kernel) else same_inputs(X)
        if self._free_intercept:
            check_two_inputs(targets.pairs(same))
        elif not takes_gram(self.kernel):
            warn_of_centred_rows(self.kernel, X, targets)
        return same


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
        first, once, self._within = merge_same_inputs(X, targets, groups)
        self.problem = CompleteSystem(Separable(kernel.kernel, Identity(targets.d)), first, once, 1.0)
        ((G, _),) = self.problem.gram.terms() or []
        self.pairs = eigenpairs(G, tol)
        self.u = self.problem.columns() if intercept else None
        self._left_out = SeparablePath(self.pairs, self.problem.Y, self.u)
        self._total = _total(once)
        same = len(once.Y) == len(targets.Y)
        self.every: Eigenpairs | None = self.pairs if same and self.pairs.full else None

    def path(self, spectrum: Spectrum, alphas: Array, *, entry: bool) -> Iterator[Array]:
        """The error of each output, (d,), at each of `alphas` in turn."""
        for residuals in self._left_out.path(spectrum, alphas, entry=entry):
            yield _mean_squares(residuals, self._within, self._total)


def decoupled_errors(
    kernel: OperatorKernel, X: Any, targets: Targets, groups: Indices, alphas: Array, *, intercept: bool, entry: bool
) -> Iterator[Array] | None:
    """Errors (d,) at each alpha of complete outputs when the kernel falls apart into scalar kernels, else None.

    Sums whose operators commute, and kernels of their own for each output, do.
    """
    first, once, within = merge_same_inputs(X, targets, groups)
    problem = CompleteSystem(kernel, first, once, 1.0)
    parts = problem.gram.rotation()
    if parts is None:
        return None
    path = decoupled_path(parts, problem.Y, problem.columns() if intercept else None, alphas, entry=entry)
    return (_mean_squares(each, within, _total(once)) for each in path)


def uncoupled_errors(
    kernel: Separable, X: Any, targets: Targets, groups: Indices, alphas: Array, *, intercept: bool
) -> Array:
    """Errors (alphas, d) of outputs with gaps that are not coupled: each is a complete problem of the rows it has.

    An output learns nothing from the others, so that leaving out a row and leaving out an entry are the same.
    """
    wide, diagonal = targets.wide(), np.diagonal(kernel.operator.dense())
    errors = np.empty((len(alphas), targets.d))
    for q, scale in enumerate(diagonal):
        seen = np.flatnonzero(~np.isnan(wide.Y[:, q]))
        weight = None if wide.weight is None else wide.weight[seen]
        own = Targets(wide.Y[seen, q : q + 1], 1, True, None, weight)
        _, number = np.unique(groups[seen], return_inverse=True)
        alone = CompleteErrors(kernel, X[seen], own, number, intercept=intercept)
        spectrum = Spectrum(np.array([scale]), np.eye(1))
        errors[:, q] = np.concatenate(list(alone.path(spectrum, alphas, entry=False)))
    return errors


class PairErrors:
    """Some outputs of some points: N observed pairs.

    Parameters
    ----------
    K : (N, N) gram of the pairs, scaled by the roots of their weights on both sides, or its eigenpairs
    pairs : what was observed
    intercept : a constant for each output is learned
    entry : leave out one output of a row at a time instead of all
    """

    def __init__(self, K: Array | Eigenpairs, pairs: ObservedPairs, *, intercept: bool, entry: bool) -> None:
        E = pairs.columns() if intercept else None
        self._left_out = PairwisePath(K, pairs.scaled_values(), pairs.left_out_together(entry=entry), E)
        self._pairs = pairs
        self._total = pairs.sum_by_output(pairs.weights)

    def at(self, alpha: float) -> Array:
        """The error of each output, (d,); 0 where nothing was observed."""
        return next(self.path(np.array([alpha])))

    def path(self, alphas: Array) -> Iterator[Array]:
        """The error of each output, (d,), at each of `alphas` in turn; 0 where nothing was observed."""
        for residuals in self._left_out.path(alphas):
            sums = self._pairs.sum_by_output(residuals**2)
            yield np.divide(sums, self._total, out=np.zeros(len(sums)), where=self._total > 0)


def error_surface(
    kernel: OperatorKernel,
    operators: list[OutputOperator | None],
    alphas: Array,
    X: Any,
    targets: Targets,
    same: Indices,
    *,
    intercept: bool,
    entry: bool,
    tol: float,
) -> tuple[Array, Eigenpairs | None]:
    """Mean squared left-out error of each output, (operators, alphas, d), and eigenvectors of the whole gram.

    Parameters
    ----------
    operators : in the place of the kernel's own; None keeps it
    same : (n,) rows of the same number are left out together
    intercept : a constant for each output is learned
    entry : leave out one output of a row at a time instead of all
    tol : relative error that the solutions may have
    """
    surface = np.empty((len(operators), len(alphas), targets.d))
    every = None
    with ProgressBar("leave-one-out", total=len(operators) * len(alphas)) as bar:
        separable = kernel.as_separable()
        if targets.complete and separable is not None:
            chosen = [separable.operator if operator is None else operator for operator in operators]
            # A scalar gram with a trace of E less changes solutions by at most E t / alpha, relatively.
            largest = max(float(operator.eigh().values[-1]) for operator in chosen)
            least = tol * float(alphas.min()) / max(largest, 1e-300)
            complete = CompleteErrors(separable, X, targets, same, intercept=intercept, tol=least)
            paths: Iterable[Iterator[Array]] = [complete.path(op.eigh(), alphas, entry=entry) for op in chosen]
            every = complete.every
        else:
            how = {"intercept": intercept, "entry": entry}
            candidates = [with_operator(kernel, operator) for operator in operators]
            # One after the other: each has a matrix of all pairs.
            paths = (_path(each, alphas, X, targets, same, tol * float(alphas.min()), **how) for each in candidates)
        for o, path in enumerate(paths):
            for a, error in enumerate(path):
                surface[o, a] = error
                bar.update()
    return surface, every


def _path(
    kernel: OperatorKernel,
    alphas: Array,
    X: Any,
    targets: Targets,
    same: Indices,
    trace: float,
    *,
    intercept: bool,
    entry: bool,
) -> Iterator[Array]:
    """Errors (d,) at each alpha: as scalar problems where the kernel allows it, else as one of all pairs.

    Of the gram of the pairs a `trace` may be left out.
    """
    if targets.complete:
        found = decoupled_errors(kernel, X, targets, same, alphas, intercept=intercept, entry=entry)
        if found is not None:
            return found
    separable = kernel.as_separable()
    if separable is not None and separable.operator.is_diagonal() and not takes_gram(separable.kernel):
        return iter(uncoupled_errors(separable, X, targets, same, alphas, intercept=intercept))
    gram = PairSystem(kernel, X, targets, 1.0).gram
    K = observed_eigenpairs(gram, trace) if isinstance(gram, Observed) else gram.dense()
    return PairErrors(K, targets.pairs(same), intercept=intercept, entry=entry).path(alphas)


def with_operator(kernel: OperatorKernel, operator: OutputOperator | None) -> OperatorKernel:
    """The kernel with another operator, or itself."""
    separable = kernel.as_separable()
    return kernel if operator is None or separable is None else Separable(separable.kernel, operator)


def _total(targets: Targets) -> float:
    return float(len(targets.Y) if targets.weight is None else targets.weight.sum())


def _mean_squares(residuals: Array, within: Array, total: float) -> Array:
    return np.asarray((np.einsum("iq,iq->q", residuals, residuals) + within) / total)


def warn_of_centred_rows(kernel: Any, X: Any, targets: Targets) -> None:
    """Warn where every row left out is the negative sum of the others, in inputs and outputs alike.

    With 1'X = 0 the gram G of the linear kernel has G 1 = 0. With rank n - 1 and 1'y = 0, as alpha goes to zero,
    (G + alpha)^-1 y stays bounded and the diagonal of (G + alpha)^-1 = 11' / (n alpha) + ... does not: their ratio, the
    left-out residual, goes to zero whatever y is.
    """
    n = X.shape[0]
    if sparse.issparse(X) or targets.Y.shape[0] != n or X.shape[1] < n - 1 or np.isnan(targets.Y).any():
        return
    if (
        any(_linear(one) for one in (kernel if isinstance(kernel, Sequence) else [kernel]))
        and _centred(X)
        and _centred(targets.Y)
    ):
        warnings.warn(
            f"the columns of X and y sum to zero, and with {X.shape[1]} inputs a linear kernel can fit all {n} rows: "
            "each row left out is known from the others, so that left-out errors are too small and alpha as well. Use "
            "fit_intercept=True, which takes the means into account, or do not center",
            UserWarning,
            stacklevel=6,
        )


def _linear(kernel: Any) -> bool:
    """Whether a kernel is, or where everything is chosen can become, a linear one."""
    terms = [] if kernel is None else as_operator_kernel(kernel).terms()
    return terms is not None and all(isinstance(term.kernel, Linear) for term in terms)


def _centred(A: Array) -> bool:
    """Whether all columns sum to zero, and not for being zero."""
    sizes = np.abs(A).sum(axis=0)
    return bool(sizes.any() and (np.abs(A.sum(axis=0)) <= 1e-9 * sizes).all())


def check_two_inputs(pairs: ObservedPairs) -> None:
    """An intercept that is not penalised can only be learned from what is left in."""
    for q in range(pairs.shape[1]):
        if len(np.unique(pairs.groups[pairs.outputs == q])) == 1:
            raise ValueError(
                "with fit_intercept=True leave-one-out needs each output at 2 different inputs or more, but output "
                f"{q} has only 1 sample, or samples of the same inputs"
            )


def merge_same_inputs(X: Any, targets: Targets, groups: Indices) -> tuple[Any, Targets, Array]:
    """Rows with the same inputs as one row with their mean output and total weight.

    sum_i w_i |y_i - f|^2 = W |mean - f|^2 + sum_i w_i |y_i - mean|^2: the last term, (d,), does not depend on f.
    """
    n = int(groups.max()) + 1 if len(groups) else 0
    if n == len(groups):
        return X, targets, np.zeros(targets.d)
    weight = np.ones(len(groups)) if targets.weight is None else targets.weight
    total: Array = np.bincount(groups, weights=weight, minlength=n).astype(np.float64)
    member = sparse.csr_array((weight, (groups, np.arange(len(groups)))), shape=(n, len(groups)))
    mean = (member @ targets.Y) / total[:, None]
    within = weight @ (targets.Y - mean[groups]) ** 2
    _, first = np.unique(groups, return_index=True)
    return X[first], Targets(mean, targets.d, targets.single, None, total), within
