"""Left-out errors of one kernel with several operators and alphas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ovk._progress import ProgressBar
from ovk._types import Array, Indices
from ovk.batch.ridge.left_out import CompleteErrors, PairErrors, decoupled_errors, smallest_tolerance
from ovk.batch.ridge.problem import PairProblem
from ovk.grams import Observed
from ovk.operators import OutputOperator
from ovk.ovkernels import OperatorKernel, Separable
from ovk.solvers.eigen import Eigenpairs
from ovk.solvers.observed_eigen import observed_eigenpairs
from ovk.targets import Targets


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
            smallest = smallest_tolerance(chosen, alphas, tol)
            complete = CompleteErrors(separable, X, targets, same, intercept=intercept, tol=smallest)
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
    gram = PairProblem(kernel, X, targets, 1.0).gram
    K = observed_eigenpairs(gram, trace) if isinstance(gram, Observed) else gram.dense()
    errors = PairErrors(K, targets.pairs(same), intercept=intercept, entry=entry)
    return (errors.at(float(alpha)) for alpha in alphas)


def with_operator(kernel: OperatorKernel, operator: OutputOperator | None) -> OperatorKernel:
    """The kernel with another operator, or itself."""
    separable = kernel.as_separable()
    return kernel if operator is None or separable is None else Separable(separable.kernel, operator)
