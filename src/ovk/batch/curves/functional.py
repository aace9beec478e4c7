"""Ridge regression with curves as outputs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from ovk.base import Targets, check_alpha, check_alphas, check_inputs, check_int, equal, positive
from ovk.batch.curves.curve_outputs import (
    CHOICE_VALUES,
    INTERCEPT,
    CurveOutputs,
    coarser_curves,
    default_operators,
    input_kernels,
    without_gaps,
)
from ovk.batch.ridge.ridge_system import rows_left_out_together, takes_gram
from ovk.batch.tuning.error_surface import (
    candidate_kernels,
    candidate_operators,
    compare,
    output_dim_of,
    with_operator,
)
from ovk.curves import ProductGrid, as_grid
from ovk.kernels import Intercept, as_ours
from ovk.operators import Integral, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable


@dataclass(eq=False, repr=False)
class FunctionalRidge(CurveOutputs):
    """`OVKRidge` for outputs that are curves: sums over the outputs become integrals over time.

    Minimises  sum_i w_i integral (y_i(t) - f(x_i)(t))^2 dt + alpha |f|^2,  so a fit does not depend on how finely the
    curves were sampled. Curves with gaps have nan there; `ovk.curves.common_grid` brings curves together that were each
    seen at points of their own.

    Parameters
    ----------
    kernel : operator-valued kernel; default ``Gaussian() * Integral()``
        A scalar kernel means curves with independent time points. Operators get the estimator's grid.
    alpha : float >= 0
    grid : `Grid` or its points, optional
        Where the columns of Y were seen; regular on [0, 1] by default.
    solver : as in `OVKRidge`
    fit_intercept : bool
        Learn a constant curve that is not penalised.

    Attributes
    ----------
    grid_ : the grid
    dual_coef_, intercept_ : as in `OVKRidge`, in the coordinates sqrt(w_j) y(t_j) of the grid
    and the others of `OVKRidge`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import FunctionalRidge
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import Integral
    >>> rng = np.random.default_rng(0)
    >>> t = np.linspace(0, 1, 50)
    >>> X = rng.uniform(-1, 1, (40, 1))
    >>> Y = np.sin(4 * t + 2 * X) + 0.1 * rng.standard_normal((40, 50))
    >>> model = FunctionalRidge(Gaussian(1.0) * Integral(), alpha=1e-3, grid=t).fit(X, Y)
    >>> model.predict([[0.5]], grid=[0.25, 0.75]).round(1)
    array([[ 0.9, -0.7]])
    """

    kernel: Any = None
    alpha: Any = 1.0
    _: KW_ONLY
    grid: Any = None
    solver: Any = "auto"
    fit_intercept: bool = True

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Learn from inputs and curves; the arguments are those of `OVKRidge.fit`."""
        with self._fitting(X, y):
            X, targets = self._check(X, y, sample_weight, task)
            alpha = check_alpha(self.alpha, targets.d)
            self._solve(self._resolved(X, targets.d), alpha, X, targets, self.solver)
        return self


@dataclass(eq=False, repr=False)
class FunctionalRidgeCV(CurveOutputs):
    """`FunctionalRidge` with alpha, the operator or its number of eigenfunctions, and the kernel chosen by leaving out
    one curve at a time, in closed form.

    If no kernel is given, or one without an operator, the output operator is chosen too, among integral operators for
    smooth curves of three scales and one for rough curves and jumps, and the intercept is a curve as smooth as the
    operator makes all others. Curves with gaps and more than 1,200 observed values are averaged over neighbouring grid
    points for that choice, because leaving out curves with gaps takes time that grows with the third power of the
    number of values; what is chosen is then fitted to the curves as they are.

    Parameters
    ----------
    kernel : operator-valued kernel, scalar kernel, or a list of them; default ``Gaussian()``
        A scalar kernel is multiplied by an operator that is chosen; write ``k * Identity()`` for curves with
        independent time points.
    alphas : sequence of floats > 0; default 25 values from 1e-6 to 1e2
    grid : `Grid` or its points, optional
    input_grid : `Grid` or its points, optional
        Without a kernel: every row of X starts with a curve on this grid, and the columns after it are numbers. The
        kernel is chosen too, with curves compared by integrals, numbers standardised, and each of the two as important
        as the outputs say. Gaps in the curve (nan) are filled along straight lines, in new rows as well.
    n_eigen : sequence of ints, optional
        Numbers of eigenfunctions to choose from, for kernels k * Integral(...).
    operators : sequence of output operators, optional
        Operators to choose from, in the place of the kernel's own.
    fit_intercept : bool
        Learn a constant curve. Where the operator is chosen it is a term ``Intercept(100.0)`` of the kernel, penalised
        a hundred times less than the rest, and `intercept_` is None; elsewhere it is not penalised.
    tol : as in `OVKRidgeCV`

    Attributes
    ----------
    n_eigen_ : chosen number, None without `n_eigen`
    level_ : mean of all that was observed, which curves are measured from where the intercept is penalised; else 0
    best_rsse_ : integral of the sum of squared left-out errors, the smallest on the surface
    errors_ : (kernels, operators, alphas) mean squared left-out error; times n d it is the integral; of the averaged
        curves where the choice was made by them
    and those of `FunctionalRidge` and `OVKRidgeCV`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import FunctionalRidgeCV
    >>> rng = np.random.default_rng(0)
    >>> t = np.linspace(0, 1, 50)
    >>> X = rng.uniform(-1, 1, (40, 1))
    >>> Y = np.sin(4 * t + 2 * X) + 0.1 * rng.standard_normal((40, 50))
    >>> model = FunctionalRidgeCV(grid=t, n_eigen=[2, 4, 8]).fit(X, Y)
    >>> model.n_eigen_, round(model.best_rsse_, 2)
    (8, 0.44)
    """

    kernel: Any = None
    alphas: Any = None
    _: KW_ONLY
    grid: Any = None
    input_grid: Any = None
    n_eigen: Any = None
    operators: Any = None
    fit_intercept: bool = True
    tol: float = 1e-8

    omegas = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.input_grid is not None
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, task: Any = None) -> Self:
        """Choose and learn from inputs and curves; the arguments are those of `OVKRidge.fit`."""
        with self._fitting(X, y):
            X, targets = self._check(X, y, sample_weight, task)
            kernel, alpha, solver = self._choose(X, targets)
            self._solve(kernel, alpha, X, targets, solver)
            separable = kernel.as_separable()
            chosen = None if separable is None else separable.operator
            self.n_eigen_ = chosen.n_eigen if self.n_eigen is not None and isinstance(chosen, Integral) else None
            self.best_rsse_ = self.best_error_ * self.X_fit_.shape[0] * self.output_errors_.shape[-1]
        return self

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        if self.input_grid is None:
            return super()._check_inputs(X, reset=reset, stream=stream)
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return without_gaps(check_inputs(self, X, reset=reset, **how), as_grid(self.input_grid))

    def _output_dim(self) -> int | None:
        return output_dim_of(self.operators, self._kernels())

    def _chooses_operator(self) -> bool:
        kernels = self.kernel if isinstance(self.kernel, (list, tuple)) else [self.kernel]
        # The intercept is added to the scalar kernel, and a kernel matrix given as X has no place for it.
        scalar = all(is_scalar(kernel) for kernel in kernels if kernel is not None) and not takes_gram(self.kernel)
        return scalar and self.operators is None and self.n_eigen is None

    @property
    def _free_intercept(self) -> bool:
        # A single number is no curve, and has no operator to choose.
        return self.fit_intercept and (self.grid_ is None or not self._chooses_operator())

    def _level(self, targets: Targets) -> float:
        # A penalised intercept is drawn to zero, which has to be where the curves are, not where their units begin.
        weight = np.ones(len(targets.Y)) if targets.weight is None else targets.weight
        seen = ~np.isnan(targets.Y) & (weight > 0)[:, None]
        free = not self.fit_intercept or self._free_intercept
        return 0.0 if free else float(np.average(targets.Y[seen], weights=(seen * weight[:, None])[seen]))

    def _kernels(self) -> list[OperatorKernel]:
        kernels = candidate_kernels(self.kernel, self._default_kernel)
        if getattr(self, "grid_", None) is None or not self._chooses_operator():
            return kernels
        scalars = [kernel.scalar for kernel in kernels if isinstance(kernel, Separable)]
        if self.fit_intercept:
            scalars = [scalar + Intercept(INTERCEPT) for scalar in scalars]
        # The operators to choose from take the place of this one.
        return [Separable(scalar, Integral()) for scalar in scalars]

    def _choose(self, X: Any, targets: Targets) -> tuple[OperatorKernel, float, Any]:
        """Kernel, alpha and solver."""
        alphas = np.logspace(-6, 2, 25) if self.alphas is None else check_alphas(self.alphas)
        kernels = self._of_input_curves(X, self._kernels())
        kernels = compared = [self._own_copy(kernel, targets.d).resolve(X, targets.d) for kernel in kernels]
        operators = candidates = self._operators(targets.d)
        curves, gaps = self.grid_, targets.task is None and not targets.complete
        many = np.count_nonzero(~np.isnan(targets.Y)) > CHOICE_VALUES
        if self._chooses_operator() and curves is not None and not isinstance(curves, ProductGrid) and gaps and many:
            # Leaving out curves with gaps takes too long with so many values.
            grid, targets, rows = coarser_curves(curves, targets)
            X, candidates = X[rows], [None if one is None else one.replace(grid=grid) for one in operators]
            compared = [with_operator(kernel, candidates[0]) for kernel in kernels]
        same = rows_left_out_together(self.kernel, X, targets, intercept=self._free_intercept)
        how: dict[str, Any] = {"intercept": self._free_intercept, "entry": False}
        how["tol"] = positive(self.tol, "tol", zero=True)
        found = compare(compared, candidates, alphas, X, targets, same, list(range(targets.d)), **how)
        self.__dict__.update(found.attributes())
        k, o, a = found.best()
        return with_operator(kernels[k], operators[o]), float(alphas[a]), found.solver()

    def _of_input_curves(self, X: Any, kernels: list[OperatorKernel]) -> list[OperatorKernel]:
        """The kernels to choose from, those of input curves in the place of the default one."""
        if self.input_grid is None:
            return kernels
        if self.kernel is not None:
            raise ValueError("input_grid is about the choice of a kernel: leave it out, or leave kernel out")
        scalars = input_kernels(X, as_grid(self.input_grid))
        operator = kernels[0].as_separable()
        assert operator is not None
        added = self.fit_intercept and not self._free_intercept
        return [Separable(k + Intercept(INTERCEPT) if added else k, operator.operator) for k in scalars]

    def _operators(self, d: int) -> list[OutputOperator | None]:
        if self._chooses_operator() and self.grid_ is not None:
            return list(default_operators(self.grid_))
        if self.n_eigen is None:
            given = candidate_operators(self.operators, None, self._kernels())
            return [None if one is None else self._own_copy(one, d).resolve(d) for one in given]
        if self.operators is not None:
            raise ValueError("give n_eigen or operators, not both")
        separable = [kernel.as_separable() for kernel in self._kernels()]
        operators = [None if kernel is None else kernel.operator for kernel in separable]
        first = operators[0]
        if len(operators) > 1 and (first is None or not all(equal(other, first) for other in operators)):
            raise ValueError("n_eigen needs kernels k * T with the same T: give the truncated operators as operators")
        if not isinstance(first, Integral):
            raise ValueError(f"n_eigen is about kernels k * Integral(...), got the operator {first!r}")
        numbers = [check_int(count, "each of n_eigen") for count in self.n_eigen]
        if not numbers:
            raise ValueError("n_eigen must hold at least one number, got none")
        return [self._own_copy(first.replace(n_eigen=count), d).resolve(d) for count in numbers]


def is_scalar(kernel: Any) -> bool:
    """Whether what a user gave as a kernel says nothing about outputs."""
    return not isinstance(as_ours(kernel), (OperatorKernel, OutputOperator))
