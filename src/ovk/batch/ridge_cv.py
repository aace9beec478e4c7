"""Ridge regression that chooses its own alpha, operator and kernel by leave-one-out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from ovk._progress import ProgressBar
from ovk._validation import Array, Indices, in_interval, positive
from ovk.batch.left_out import CompleteErrors, PairErrors, decoupled_errors, smallest_tolerance
from ovk.batch.problem import PairProblem
from ovk.batch.regressor import OVKRegressor, takes_gram
from ovk.batch.repeated import check_two_inputs, same_inputs
from ovk.batch.targets import Targets
from ovk.operators import MixedEffect, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel
from ovk.solvers.eigen import Eigenpairs, KnownEigen


class OVKRidgeCV(OVKRegressor):
    """`OVKRidge` with alpha, and where asked the output operator and the kernel, chosen by exact leave-one-out.

    The error of leaving out each row is known in closed form, so for a separable kernel the whole surface over alphas
    and operators costs one eigendecomposition of the scalar gram and small products. Rows with the same inputs are left
    out together, because a copy left in would give the answer away; so repeating a row is the same as doubling its
    weight.

    Parameters
    ----------
    kernel : operator-valued or scalar kernel, or a list of them to choose from; default ``Gaussian() * Identity()``
    alphas : sequence of floats > 0; default 25 values from 1e-6 to 1e2
    omegas : sequence of floats in [0, 1], optional
        Operators ``MixedEffect(omega)`` to choose from, in the place of the kernel's own.
    operators : sequence of output operators, optional
        Operators to choose from, in the place of the kernel's own.
    leave_out : "row" or "entry"
        Leave out all outputs of a row (how well new points are predicted), or one output of a row at a time, the others
        staying known (how well missing entries are filled in).
    scored_outputs : sequence of ints, optional
        Outputs whose error counts; all by default.
    alpha_per_target : bool
        Choose an alpha for each output. Only for outputs that are not coupled.
    fit_intercept : bool
        Learn a constant for each output that is not penalised.
    tol : float >= 0
        Relative error that the leave-one-out solutions may have. A scalar gram of low numerical rank is then factored
        in a fraction of the time; 0 always takes the full eigendecomposition.

    Attributes
    ----------
    alpha_ : chosen alpha, (d,) with `alpha_per_target`
    alphas_ : (alphas,) all of them
    kernel_ : chosen kernel, with everything learned from the inputs filled in
    omega_ : chosen omega, None without `omegas`
    errors_ : (kernels, operators, alphas) mean squared left-out error over the scored outputs
    output_errors_ : (kernels, operators, alphas, d) the same for each output
    best_error_ : smallest of `errors_`
    and those of `OVKRidge`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2, 2, (40, 1))
    >>> Y = np.sin(2 * X) + 0.3 * rng.standard_normal((40, 3))
    >>> model = OVKRidgeCV(omegas=[0.0, 0.5, 0.9]).fit(X, Y)
    >>> model.omega_, model.errors_.shape
    (0.9, (1, 3, 25))
    """

    def __init__(
        self,
        kernel: Any = None,
        alphas: Any = None,
        *,
        omegas: Any = None,
        operators: Any = None,
        leave_out: str = "row",
        scored_outputs: Any = None,
        alpha_per_target: bool = False,
        fit_intercept: bool = False,
        tol: float = 1e-8,
    ) -> None:
        self.kernel = kernel
        self.alphas = alphas
        self.omegas = omegas
        self.operators = operators
        self.leave_out = leave_out
        self.scored_outputs = scored_outputs
        self.alpha_per_target = alpha_per_target
        self.fit_intercept = fit_intercept
        self.tol = tol

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Choose and learn from inputs and outputs; the arguments are those of `OVKRidge.fit`."""
        with self._all_or_nothing():
            self._fit(X, y, sample_weight, task)
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any, task: Any) -> None:
        if self.leave_out not in ("row", "entry"):
            raise ValueError(f"leave_out must be 'row' or 'entry', got {self.leave_out!r}")
        alphas = self._alphas()
        X, targets = self._check(X, y, sample_weight, task)
        scored = self._scored(targets.d)
        kernels = [self._own_copy(kernel, targets.d).resolve(X, targets.d) for kernel in self._kernels()]
        operators = self._operators(targets.d)
        groups = same_inputs(X) if not takes_gram(self.kernel) else np.arange(X.shape[0])
        if self.fit_intercept:
            check_two_inputs(targets, groups)
        surface = np.empty((len(kernels), len(operators), len(alphas), targets.d))
        least, known = np.inf, None
        for number, kernel in enumerate(kernels):
            surface[number], pairs = self._errors(kernel, operators, alphas, X, targets, groups)
            error = float(surface[number][..., scored].mean(axis=-1).min())
            if error < least:
                least, known = error, pairs
        errors = surface[..., scored].mean(axis=-1)
        k, o, a = np.unravel_index(int(np.argmin(errors)), errors.shape)
        best = _with_operator(kernels[k], operators[o])
        alpha: float | Array = float(alphas[a])
        if self.alpha_per_target:
            alpha = self._alpha_per_target(best, surface[k, o], alphas)
        # The chosen kernel's eigenvectors are at hand; else (holes, repeated rows, low rank) it is factored anew.
        self._solve(best, alpha, X, targets, "auto" if known is None else KnownEigen(known))
        self.omega_ = None if self.omegas is None else float(self.omegas[o])
        self.alphas_, self.errors_, self.output_errors_ = alphas, errors, surface
        self.best_error_ = float(errors[k, o, a])

    def _alphas(self) -> Array:
        alphas = np.logspace(-6, 2, 25) if self.alphas is None else np.asarray(self.alphas)
        if alphas.ndim != 1 or alphas.size == 0 or alphas.dtype.kind not in "iuf":
            raise ValueError(f"alphas must be a sequence of numbers > 0, got {self.alphas!r}")
        return np.array([positive(float(alpha), "each of alphas") for alpha in alphas])

    def _scored(self, d: int) -> list[int]:
        if self.scored_outputs is None:
            return list(range(d))
        chosen = list(self.scored_outputs)
        if not chosen or not all(isinstance(q, (int, np.integer)) and 0 <= q < d for q in chosen):
            raise ValueError(f"scored_outputs must name outputs from 0 to {d - 1}, got {self.scored_outputs!r}")
        return chosen

    def _kernels(self) -> list[OperatorKernel]:
        if not isinstance(self.kernel, (list, tuple)):
            return [self._default_kernel()]
        if len(self.kernel) == 0:
            raise ValueError("kernel must hold at least one kernel to choose from, got an empty list")
        return [as_operator_kernel(kernel) for kernel in self.kernel]

    def _output_dim(self) -> int | None:
        for operator in [] if self.operators is None else self.operators:
            if not isinstance(operator, OutputOperator):
                raise ValueError(f"operators must hold operators of ovk.operators, got {operator!r}")
            if operator.output_dim is not None:
                return operator.output_dim
        return self._kernels()[0].output_dim

    def _operators(self, d: int) -> list[OutputOperator | None]:
        if self.omegas is None and self.operators is None:
            return [None]
        if self.omegas is not None and self.operators is not None:
            raise ValueError("give omegas or operators, not both")
        if self.omegas is not None:
            candidates: list[Any] = [MixedEffect(in_interval(w, "each of omegas", 0, 1)) for w in self.omegas]
        else:
            candidates = list(self.operators)
        if not candidates:
            raise ValueError("omegas or operators must hold at least one candidate, got none")
        wrong = [kernel for kernel in self._kernels() if not isinstance(kernel, Separable)]
        if wrong:
            raise ValueError(
                "omegas and operators replace the operator of a separable kernel k * T, got "
                f"{type(wrong[0]).__name__}: give a list of kernels instead"
            )
        return [self._own_copy(operator, d).resolve(d) for operator in candidates]

    def _errors(
        self,
        kernel: OperatorKernel,
        operators: list[OutputOperator | None],
        alphas: Array,
        X: Any,
        targets: Targets,
        groups: Indices,
    ) -> tuple[Array, Eigenpairs | None]:
        """Mean squared left-out error of each output, (operators, alphas, d), and eigenvectors of the whole gram."""
        surface = np.empty((len(operators), len(alphas), targets.d))
        entry = self.leave_out == "entry"
        every = None
        with ProgressBar("leave-one-out", total=len(operators) * len(alphas)) as bar:
            if targets.complete and isinstance(kernel, Separable):
                chosen = [kernel.operator if operator is None else operator for operator in operators]
                tol = smallest_tolerance(chosen, alphas, positive(self.tol, "tol", zero=True))
                complete = CompleteErrors(kernel, X, targets, groups, intercept=self.fit_intercept, tol=tol)
                paths = [complete.path(operator.eigh(), alphas, entry=entry) for operator in chosen]
                every = complete.every
            else:
                candidates = [_with_operator(kernel, operator) for operator in operators]
                paths = [self._path(candidate, alphas, X, targets, groups) for candidate in candidates]
            for o, path in enumerate(paths):
                for a, error in enumerate(path):
                    surface[o, a] = error
                    bar.update()
        return surface, every

    def _path(
        self, kernel: OperatorKernel, alphas: Array, X: Any, targets: Targets, groups: Indices
    ) -> Iterator[Array]:
        """Errors (d,) at each alpha: as scalar problems where the kernel allows it, else as one of all pairs."""
        entry = self.leave_out == "entry"
        if targets.complete:
            found = decoupled_errors(kernel, X, targets, groups, alphas, intercept=self.fit_intercept, entry=entry)
            if found is not None:
                return found
        problem = PairProblem(kernel, X, targets, 1.0)
        v = None if targets.weight is None else np.sqrt(targets.weight)[problem.points]
        E = problem.columns() if self.fit_intercept else None
        errors = PairErrors(
            problem.gram.dense(), problem.Y[:, 0], problem.outputs, v, groups[problem.points], E, targets.d, entry=entry
        )
        return (errors.at(float(alpha)) for alpha in alphas)

    def _alpha_per_target(self, kernel: OperatorKernel, errors: Array, alphas: Array) -> Array:
        operator = kernel.operator.dense() if isinstance(kernel, Separable) else np.ones((2, 2))
        if not np.array_equal(operator, np.diag(np.diagonal(operator))):
            raise ValueError(
                "alpha_per_target needs outputs that are not coupled (operator Identity()): with coupling the error of "
                "one output depends on the alphas of all"
            )
        result: Array = alphas[errors.argmin(axis=0)]
        return result


def _with_operator(kernel: OperatorKernel, operator: OutputOperator | None) -> OperatorKernel:
    if operator is None or not isinstance(kernel, Separable):
        return kernel
    return Separable(kernel.kernel, operator)
