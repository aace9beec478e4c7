"""Mean squared leave-one-out errors of kernels, operators and alphas, for complete and missing outputs.

The residuals are those of `ovk.solvers.leave_one_out`. Rows with the same inputs are left out together, because a copy
would reveal the answer; complete ones are merged into one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ovk.base import Array, Indices, ObservedPairs, ProgressBar, Targets, in_interval
from ovk.batch.ridge.ridge_system import CompleteSystem, PairSystem, merge_same_inputs, takes_gram
from ovk.batch.tuning.automatic import Comparison, map_threads
from ovk.operators import MixedEffect, OutputOperator, Spectrum
from ovk.ovkernels import Observed, OperatorKernel, Separable, as_operator_kernel
from ovk.solvers import Eigenpairs, SeparablePath, decoupled_path, eigenpairs, observed_eigenpairs, pairwise_path


class SeparableErrors:
    """Errors of a kernel k * T with complete outputs, for any operator and alpha.

    Rows with the same number in `groups` (n,) are merged. `Y`, `pairs` and `u` are the weighted outputs, the eigenpairs
    and the intercept's column of the merged rows. A trace of `tol` may be dropped from the scalar gram.
    """

    def __init__(
        self, kernel: Separable, X: Any, targets: Targets, groups: Indices, *, intercept: bool, tol: float = 0.0
    ) -> None:
        first, self._once, self._within = merge_same_inputs(X, targets, groups)
        G, self.Y, roots = kernel.scalar(first), self._once.Y, np.ones(len(self._once.Y))
        if self._once.weight is not None:
            roots = np.sqrt(self._once.weight)
            G, self.Y = G * roots[:, None] * roots, self.Y * roots[:, None]
        self.pairs = eigenpairs(G, tol)
        self.u = roots if intercept else None
        self._path = SeparablePath(self.pairs, self.Y, self.u)
        # Eigenpairs of the gram of all rows, if no rows were merged.
        self.every = self.pairs if len(self.Y) == len(targets.Y) and self.pairs.full else None

    def path(self, operator: Spectrum, alphas: Array, *, entry: bool) -> Iterator[Array]:
        """The error of each output, (d,), at each alpha in turn."""
        for residuals in self._path.path(operator, alphas, entry=entry):
            yield _mean_squares(residuals, self._within, self._once)


def _mean_squares(residuals: Array, within: Array, targets: Targets) -> Array:
    total = float(len(targets.Y) if targets.weight is None else targets.weight.sum())
    return np.asarray((np.einsum("iq,iq->q", residuals, residuals) + within) / total)


def pairwise_errors(
    K: Array | Eigenpairs, pairs: ObservedPairs, alphas: Array, *, intercept: bool, entry: bool
) -> Iterator[Array]:
    """The error of each output, (d,), at each alpha in turn; 0 for an output without observations.

    K (N, N) is the gram of the pairs, scaled by the roots of their weights on both sides, or its eigenpairs.
    """
    E = pairs.columns() if intercept else None
    total = pairs.sum_by_output(pairs.weights)
    for residuals in pairwise_path(K, pairs.scaled_values(), pairs.held_out_together(entry=entry), alphas, E):
        sums = pairs.sum_by_output(residuals**2)
        yield np.divide(sums, total, out=np.zeros(len(sums)), where=total > 0)


@dataclass(frozen=True)
class CandidateErrors:
    """Leave-one-out errors of candidates on given rows."""

    X: Any
    targets: Targets
    same: Indices  # (n,) rows with the same number are left out together
    alphas: Array
    intercept: bool
    entry: bool = False  # leave out one output of a row at a time instead of all
    tol: float = 0.0  # relative error allowed in solutions

    def compare(
        self,
        kernels: list[OperatorKernel],
        operators: list[OutputOperator | None],
        scored: list[int],
        n_jobs: int | None = None,
    ) -> Comparison:
        """The errors of resolved kernels with each operator and alpha."""
        surface = np.empty((len(kernels), len(operators), len(self.alphas), self.targets.d))
        least, known = np.inf, None
        found = map_threads(lambda kernel: self.surface(kernel, operators), kernels, n_jobs, "comparing kernels")
        for number, (errors, pairs) in enumerate(found):
            surface[number] = errors
            error = float(errors[..., scored].mean(axis=-1).min())
            if error < least:
                least, known = error, pairs
        return Comparison(self.alphas, surface, scored, known)

    def surface(
        self, kernel: OperatorKernel, operators: list[OutputOperator | None]
    ) -> tuple[Array, Eigenpairs | None]:
        """Mean squared errors (operators, alphas, d), None for the kernel's own, and eigenpairs of the whole gram."""
        alphas, targets = self.alphas, self.targets
        surface = np.empty((len(operators), len(alphas), targets.d))
        every = None
        with ProgressBar("leave-one-out", total=len(operators) * len(alphas)) as bar:
            separable = kernel.as_separable()
            if targets.complete and separable is not None:
                chosen = [separable.operator if operator is None else operator for operator in operators]
                # Dropping a trace E of the scalar gram changes solutions by at most E t / alpha, relatively.
                largest = max(float(operator.eigh().values[-1]) for operator in chosen)
                least = self.tol * float(alphas.min()) / max(largest, 1e-300)
                complete = SeparableErrors(separable, self.X, targets, self.same, intercept=self.intercept, tol=least)
                paths: Iterable[Iterator[Array]] = [complete.path(op.eigh(), alphas, entry=self.entry) for op in chosen]
                every = complete.every
            else:
                # A generator: each operator has a matrix of all pairs.
                paths = (self._path(with_operator(kernel, operator)) for operator in operators)
            for o, path in enumerate(paths):
                for a, error in enumerate(path):
                    surface[o, a] = error
                    bar.update()
        return surface, every

    def _path(self, kernel: OperatorKernel) -> Iterator[Array]:
        """Errors (d,) at each alpha: from scalar problems if the kernel decouples, else from all pairs."""
        X, targets = self.X, self.targets
        if targets.complete:
            first, once, within = merge_same_inputs(X, targets, self.same)
            system = CompleteSystem(kernel, first, once, 1.0)
            # Sums of kernels with commuting operators, and separate kernels for each output, decouple.
            parts = system.gram.rotation()
            if parts is not None:
                u = system.columns() if self.intercept else None
                path = decoupled_path(parts, system.Y, u, self.alphas, entry=self.entry)
                return (_mean_squares(each, within, once) for each in path)
        separable = kernel.as_separable()
        if separable is not None and separable.operator.is_diagonal() and not takes_gram(separable.kernel):
            return iter(self.uncoupled(separable))
        gram = PairSystem(kernel, X, targets, 1.0).gram
        trace = self.tol * float(self.alphas.min())
        K = observed_eigenpairs(gram, trace) if isinstance(gram, Observed) else gram.dense()
        return pairwise_errors(K, targets.pairs(self.same), self.alphas, intercept=self.intercept, entry=self.entry)

    def uncoupled(self, kernel: Separable) -> Array:
        """Errors (alphas, d) of uncoupled outputs with gaps: each is a complete problem on its observed rows.

        Since outputs are independent, leaving out a row is the same as leaving out an entry.
        """
        wide, diagonal = self.targets.wide(), np.diagonal(kernel.operator.dense())
        errors = np.empty((len(self.alphas), wide.d))
        for q, scale in enumerate(diagonal):
            seen = np.flatnonzero(~np.isnan(wide.Y[:, q]))
            own = replace(wide.rows(seen), Y=wide.Y[seen, q : q + 1], d=1, single=True)
            _, number = np.unique(self.same[seen], return_inverse=True)
            alone = SeparableErrors(kernel, self.X[seen], own, number, intercept=self.intercept)
            spectrum = Spectrum(np.array([scale]), np.eye(1))
            errors[:, q] = np.concatenate(list(alone.path(spectrum, self.alphas, entry=False)))
        return errors


def with_operator(kernel: OperatorKernel, operator: OutputOperator | None) -> OperatorKernel:
    separable = kernel.as_separable()
    return kernel if operator is None or separable is None else Separable(separable.kernel, operator)


def candidate_kernels(kernel: Any, default: Callable[[], OperatorKernel]) -> list[OperatorKernel]:
    """The candidates: a list of kernels, or the one of `default()`."""
    if not isinstance(kernel, (list, tuple)):
        return [default()]
    if len(kernel) == 0:
        raise ValueError("kernel must contain at least one candidate, got an empty list")
    return [as_operator_kernel(one) for one in kernel]


def candidate_operators(operators: Any, omegas: Any, kernels: list[OperatorKernel]) -> list[OutputOperator | None]:
    """The candidate operators; None keeps the operator of the kernel."""
    if omegas is None and operators is None:
        return [None]
    if omegas is not None and operators is not None:
        raise ValueError("omegas and operators cannot be combined: omit one of them")
    if operators is None:
        operators = [MixedEffect(in_interval(omega, "each of omegas", 0, 1)) for omega in omegas]
    candidates: list[OutputOperator | None] = list(operators)
    if not candidates:
        raise ValueError("omegas or operators must contain at least one candidate, got none")
    wrong = [kernel for kernel in kernels if kernel.as_separable() is None]
    if wrong:
        raise ValueError(
            "omegas and operators replace the operator of a separable kernel k * T, got "
            f"{type(wrong[0]).__name__}: pass a list of kernels instead"
        )
    return candidates


def output_dim_of(operators: Any, kernels: list[OperatorKernel]) -> int | None:
    """Number of outputs if operators or kernels determine it."""
    for operator in [] if operators is None else operators:
        if not isinstance(operator, OutputOperator):
            raise ValueError(f"operators must contain operators of ovk.operators, got {operator!r}")
        if operator.output_dim is not None:
            return operator.output_dim
    return kernels[0].output_dim
