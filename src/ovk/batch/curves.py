"""Ridge regression with curves as outputs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    FILL,
    Array,
    DeviceMatrix,
    Indices,
    Parameters,
    Targets,
    check_alpha,
    check_alphas,
    check_inputs,
    check_int,
    equal,
    is_on_device,
    positive,
    returned,
    to_host,
    unnamed,
)
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import rows_held_out_together, takes_gram
from ovk.batch.tuning.error_surface import (
    CandidateErrors,
    candidate_kernels,
    candidate_operators,
    output_dim_of,
    with_operator,
)
from ovk.curves import Components, Grid, ProductGrid, as_grid
from ovk.intervals import Regions
from ovk.kernels import (
    Gaussian,
    Intercept,
    Laplacian,
    Matern,
    OnColumns,
    OnCurves,
    Periodic,
    ScalarKernel,
    as_ours,
    median_distance,
)
from ovk.operators import CurveOperator, Identity, Integral, OutputOperator
from ovk.ovkernels import OperatorKernel, Separable, as_operator_kernel


class CurveOutputs(OVKRegressor, saved=False):
    """Base class of regressors whose outputs are curves on a grid, and whose errors are integrals.

    Minimises  sum_i integral (y_i(t) - f(x_i)(t))^2 dt + alpha |f|^2  with the grid's quadrature weights w_j: the plain
    problem in the coordinates sqrt(w_j) y(t_j). Missing values (nan) are excluded from the integral.
    """

    grid: Any
    grid_: Grid | None
    #: Constant subtracted from the curves: 0, or the mean of all observed values if the intercept is penalised.
    level_: float = 0.0
    _runs_on_devices = True
    _nan_advice = (
        f"{FILL}; for gaps in input curves, set input_grid, as in FunctionalRidgeCV(input_grid=...), or fill them with "
        "ovk.curves.Grid(points).filled(X)"
    )

    def _grid_for(self, d: int) -> Grid | None:
        """The grid of d outputs; None for a single output, which is not a curve."""
        if self.grid is None:
            return None if d == 1 else Grid.regular(d)
        grid = as_grid(self.grid)
        if len(grid) != d:
            raise ValueError(f"grid must have one point for each of the {d} columns of Y, got {len(grid)}")
        return grid

    def _check_rows(
        self, X: Any, y: Any, sample_weight: Any, task: Any, *, stream: bool = False
    ) -> tuple[Any, Targets]:
        X, targets = super()._check_rows(X, y, sample_weight, task, stream=stream)
        self.grid_, self.level_ = self._grid_for(targets.d), 0.0
        if self.grid_ is None:
            return X, targets
        self.level_ = self._level(targets)
        roots = self.grid_.roots()
        Y = (targets.Y - self.level_) * (roots if targets.task is None else roots[targets.task][:, None])
        return X, Targets(Y, targets.d, targets.single, targets.task, targets.weight)

    def _level(self, targets: Targets) -> float:
        return 0.0

    def _default_kernel(self) -> OperatorKernel:
        if self.kernel is not None:
            return as_operator_kernel(self.kernel)
        # Neighbouring times share information; a single output has none.
        return Separable(Gaussian(), Identity() if getattr(self, "grid_", self) is None else Integral())

    def _own_copy(self, part: Any, d: int) -> Any:
        grid = self._grid_for(d)
        return clone(part) if grid is None else bind_grid(clone(part), grid)

    def jacobian(self, X: Any) -> Array:
        """Exact derivative of the predicted curves with respect to the inputs at each row of X, (n, d, p)."""
        values = super().jacobian(X)
        return values if self.grid_ is None else returned(unnamed(values) / self.grid_.roots()[:, None], X)

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        task: Any = None,
        of: str = "observation",
        grid: Any = None,
    ) -> Any:
        """Predict curves.

        Parameters
        ----------
        X : (n, p) array
            Inputs.
        return_std, return_cov, of : as in `OVKRidge.predict`; a covariance refers to the fitted grid
        task : (n,) integers, optional
            Long form: predict curve i only at the point task_i of the fitted grid, (n,).
        grid : points, `Grid` or `ProductGrid`, optional
            Points at which to evaluate the curves, up to half the largest spacing beyond the ends of the fitted grid.
            Terms with an integral operator are evaluated exactly; those of other operators, and standard deviations,
            are interpolated.

        Returns
        -------
        array or tuple
            (n, d) on the fitted grid, or (n, m) on another; with `return_std` or `return_cov`, a tuple of prediction
            and deviation.
        """
        if grid is not None:
            if return_cov or task is not None:
                raise ValueError("return_cov and task refer to the fitted grid: omit grid")
            mean = self._predict_at(X, grid)
            if not return_std:
                return returned(mean, X)
            assert self.grid_ is not None
            std = unnamed(self.predict(X, return_std=True, of=of))[1]
            return returned((mean, std @ self.grid_.interpolation(grid, beyond=True)), X)
        found = super().predict(X, return_std, return_cov, task=task, of=of)
        if self.grid_ is None:
            return found
        found = unnamed(found)
        roots = self.grid_.roots() if task is None else self.grid_.roots()[np.asarray(to_host(task))]
        mean = (found[0] if return_std or return_cov else found) / roots + self.level_
        if return_cov:
            return self._named(mean, X), returned(found[1] / np.outer(roots, roots), X)
        return self._named((mean, found[1] / roots) if return_std else mean, X)

    def predict_interval(
        self,
        X: Any,
        level: float = 0.9,
        *,
        method: str = "jackknife",
        region: str = "each",
        groups: Any = None,
        folds: int = 10,
        grid: Any = None,
    ) -> Regions:
        """Prediction intervals for curves, as in `OVKRidge.predict_interval`.

        Parameters
        ----------
        X, level, method, region, groups, folds : as in `OVKRidge.predict_interval`; a "box" is a band for whole curves
        grid : points, `Grid` or `ProductGrid`, optional
            Points at which to evaluate the intervals. Curves are predicted there; the widths are interpolated between
            the points of the fitted grid. Not with region="ellipsoid".

        Returns
        -------
        ovk.intervals.Regions
            Has `predictions`, `lower` and `upper`, (n, d) on the fitted grid or (n, m) on another.
        """
        if grid is not None and region == "ellipsoid":
            raise ValueError("region='ellipsoid' refers to the fitted grid: omit grid, or set region='box'")
        found = super().predict_interval(X, level, method=method, region=region, groups=groups, folds=folds)
        if grid is None:
            return found
        predictions = self._predict_at(X, grid)
        assert self.grid_ is not None
        weights = self.grid_.interpolation(grid, beyond=True)
        middle, lower, upper = unnamed((found.predictions, found.lower, found.upper))
        below, above = (_interpolated(distances, weights) for distances in (middle - lower, upper - middle))
        radius = _interpolated(found.radius, weights) if found.radius.shape[1] == middle.shape[1] else found.radius
        middle, lower, upper = returned((predictions, predictions - below, predictions + above), X)
        return Regions(middle, lower, upper, radius, np.full(radius.shape, np.nan))

    def _outputs_alike(self) -> bool:
        return self.grid_ is not None

    def _regions_of_outputs(self, regions: Regions, X: Any) -> Regions:
        """Bands on the fitted grid, from regions in coordinates."""
        if self.grid_ is not None:
            regions = regions.scaled(1.0 / self.grid_.roots(), self.level_)
        return super()._regions_of_outputs(regions, X)

    def loo_residuals(self, groups: Any = None) -> Array:
        """Leave-one-out residuals (curves, d) on the fitted grid: observed curves minus predictions without them."""
        found = super().loo_residuals(groups)
        return found if self.grid_ is None else found / self.grid_.roots()

    def loo_curves(self, rows: Any = None) -> tuple[Array, Array, Array]:
        """Training curves, and their leave-one-out predictions and standard deviations.

        Parameters
        ----------
        rows : (m,) integers, optional
            Indices of training rows; all by default.

        Returns
        -------
        tuple of three (m, d) arrays
            Observed curves, nan in gaps; predictions at all points of the fitted grid; standard deviations of a new
            observation around these predictions.
        """
        check_is_fitted(self)
        if self.grid_ is None or self.task_ is not None:
            raise ValueError("loo_curves requires a model fitted to rows of curves: fit Y with a grid")
        every = np.arange(self.X_fit_.shape[0])
        chosen = every if rows is None else every[np.asarray(rows, dtype=np.intp)]
        kept = self._leave_out(None, None)
        mean, std = np.empty((2, len(chosen), self.n_outputs_))
        for number, i in enumerate(chosen):
            cross, prior = kept.kernels(self.X_fit_[i : i + 1])
            block = kept.left_out.block[i]
            mean[number] = kept.left_out.predict_without(cross)[0, block]
            variance = kept.left_out.variance_without(cross, prior)[0, block]
            std[number] = np.sqrt(kept.left_out.scale * (variance + kept.left_out.noise))
        roots = self.grid_.roots()
        return self._training_data().targets.Y[chosen] / roots + self.level_, mean / roots + self.level_, std / roots

    def _predict_at(self, X: Any, points: Any) -> Array:
        expansion = self.expansion_
        X = self._new_inputs(X)
        if self.grid_ is None:
            raise ValueError("grid requires a model fitted to curves, but Y had a single column")
        gram = self.kernel_.gram(X, self.X_fit_)
        terms = gram.by_operator()
        if terms is None:
            values = (gram.matmat(expansion.C) / self.grid_.roots()) @ self.grid_.interpolation(points)
        else:
            values = sum((G @ expansion.C) @ T.evaluation_on(self.grid_, points) for G, T in terms)
        values = np.asarray(values) + self.level_
        if self.intercept_ is None:
            return values
        weights = self.grid_.interpolation(points, beyond=True)
        return np.asarray(values + (self.intercept_ / self.grid_.roots()) @ weights)


def _interpolated(distances: Array, weights: Any) -> Array:
    """Interpolate distances (n, d), which may be infinite, with weights (d, m)."""
    infinite = np.isinf(distances)
    finite = np.where(infinite, 0.0, distances) @ weights
    return np.where(infinite.astype(np.float64) @ weights > 0, np.inf, finite)


def has_curve_operator(kernel: OperatorKernel) -> bool:
    return any(isinstance(part, CurveOperator) for part in kernel.get_params().values())


def bind_grid(thing: Any, grid: Grid) -> Any:
    """Set the grid of every operator on curves in a kernel or operator, or in a list of them."""
    if isinstance(thing, (list, tuple)):
        return [bind_grid(part, grid) for part in thing]
    if isinstance(thing, CurveOperator):
        return _on_grid(thing, grid)
    inner = thing.get_params().items() if isinstance(thing, Parameters) else ()
    bound = {name: _on_grid(part, grid) for name, part in inner if isinstance(part, CurveOperator)}
    return thing.replace(**bound) if bound else thing


def _on_grid(operator: CurveOperator, grid: Grid) -> CurveOperator:
    if operator.grid is None:
        return operator.replace(grid=grid)
    own = as_grid(operator.grid)
    if not (
        own.shape == grid.shape
        and np.allclose(own.weights(), grid.weights())
        and np.allclose(own.checked(), grid.checked())
    ):
        raise ValueError(
            f"the grid of {type(operator).__name__} must be that of the estimator: omit it, and the operator uses the "
            "estimator's grid"
        )
    return operator


# Default output operators of curves, and the intercept.
#
# Candidates are integral operators of a Gaussian with lengths of 1/20, 1/10 and 1/5 of the grid, for curves that are
# smooth on that scale, and of exp(-|t - s| / length of the grid), for rough curves and jumps. A periodic grid has
# periodic kernels.
#
# An unpenalised intercept is the mean of the residuals at each time, and so as noisy as the curves. With
#
#     f(x) = g(x) + b,   |f|^2 = |g|^2 + |b|^2 / c   where both norms are those of the same operator T
#
# it is as smooth as g: the kernel of f is (k(x, z) + c) T. In the eigenfunctions of T the intercept is shrunk by
# n c t_q / (n c t_q + alpha), so c = 100 keeps the leading eigenfunctions and removes noise.

#: Length scales of the Gaussians, relative to the length of the grid.
LENGTHS = (0.05, 0.1, 0.2)
#: c, the prior variance of the intercept relative to that of g.
INTERCEPT_VARIANCE = 100.0
#: Maximum number of values of curves with gaps that compare candidates without binning, and minimum number of bins.
MAX_COMPARED_VALUES, MIN_BINS = 1200, 12


def default_operators(grid: Grid) -> list[Integral]:
    """Candidate operators, the rough one first."""
    sides = grid.sides() if isinstance(grid, ProductGrid) else [grid]
    kernels = [[_time_kernel(side, length) for side in sides] for length in (None, *LENGTHS)]
    return [Integral(each if isinstance(grid, ProductGrid) else each[0], grid) for each in kernels]


def _time_kernel(side: Grid, length: float | None) -> ScalarKernel | None:
    """The kernel along one axis; None for an axis of components."""
    if isinstance(side, Components):
        return None
    if side.period is not None:
        whole = float(side.period)
        return Periodic(Matern(0.5, whole) if length is None else Gaussian(length * whole), whole)
    whole = float(np.ptp(side.checked()))
    return Laplacian(whole) if length is None else Gaussian(length * whole)


def binned_curves(grid: Grid, targets: Targets) -> tuple[Grid, Targets, Indices]:
    """Bin curves with gaps, in coordinates: the grid of the bins, the binned curves, and the rows used.

    Averages over bins are projections in L2: the noise of a coordinate keeps its variance, so alpha keeps its meaning.
    A bin is observed if at least half of it is. If there are too many curves, or if sparse curves would leave most bins
    empty, a random subset of the curves is used.
    """
    roots, d = grid.roots(), len(grid)
    seen = ~np.isnan(targets.Y)
    before: tuple[Any, ...] | None = None
    for size in range(1, max(d // MIN_BINS, 1) + 1):
        bins = np.arange(d) // size
        whole = np.bincount(bins, weights=grid.weights())
        member = np.eye(len(whole))[bins]
        mass = (seen * grid.weights()) @ member
        observed = mass >= 0.5 * whole
        if before is not None and observed.sum() < 0.5 * MAX_COMPARED_VALUES:
            whole, member, mass, observed = before
            break
        if observed.sum() <= MAX_COMPARED_VALUES:
            break
        before = whole, member, mass, observed
    sums = (np.where(seen, targets.Y, 0.0) * roots) @ member
    Y = np.where(observed, sums / np.where(observed, mass, 1.0), np.nan) * np.sqrt(whole)
    points = (grid.checked() * grid.weights()) @ member / whole
    rows = np.flatnonzero(observed.any(axis=1))
    share = observed.sum() / max(len(rows), 1)
    most = max(int(MAX_COMPARED_VALUES / share), 3)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    return Grid(points, grid.period, whole), replace(targets.rows(rows), Y=Y[rows], d=len(whole), single=False), rows


# Candidate kernels for inputs that start with a curve and may continue with numbers.
#
# With a Gaussian k of the L2 distance of the curves, and a Gaussian h of the standardised numbers, candidates are
#
#     k   and   k + h + k h
#
# that is a function of the curve only, and a sum of functions of the curve, of the numbers, and of both. The length
# scales of k and h are 1, 3 and 9 times the median distance of the training inputs, in all combinations. So the number
# of columns and their units have no influence.

#: Length scales of the Gaussians, relative to the median distance.
LENGTH_FACTORS = (1.0, 3.0, 9.0)


def without_gaps(X: Any, grid: Grid) -> Array:
    """Fill the gaps of the input curves (`Grid.filled`); the numbers after the curve must not be nan."""
    inputs: Array = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    d = len(grid)
    if X.shape[1] < d:
        raise ValueError(f"X must have at least the {d} columns of input_grid, got {X.shape[1]}")
    if not np.isnan(inputs).any():
        return inputs
    missing = np.argwhere(np.isnan(inputs[:, d:]))
    if len(missing):
        row, column = missing[0]
        raise ValueError(
            f"Input X contains NaN, first in row {row}, column {d + column}, which is not part of the curve: {FILL}"
        )
    return np.hstack([grid.filled(inputs[:, :d]), inputs[:, d:]])


def input_kernels(X: Array, grid: Grid) -> list[ScalarKernel]:
    """Candidate kernels for inputs (n, p) that start with a curve on the grid and continue with numbers."""
    d = len(grid)
    length = median_distance(X[:, :d] * grid.roots())
    curves = [OnCurves(Gaussian(factor * length), grid) for factor in LENGTH_FACTORS]
    if X.shape[1] == d:
        return [*curves]
    # Repeated rows count once, as in the median distance.
    scales = np.unique(X, axis=0)[:, d:].std(axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    lengths = scales * median_distance(X[:, d:] / scales)
    first = [OnColumns(curve, np.arange(d)) for curve in curves]
    rest = [OnColumns(Gaussian(factor * lengths), np.arange(d, X.shape[1])) for factor in LENGTH_FACTORS]
    return [*first, *[k + h + k * h for k in first for h in rest]]


@dataclass(eq=False, repr=False)
class FunctionalRidge(CurveOutputs):
    """Ridge regression for outputs that are curves: `OVKRidge` with integrals over time instead of sums.

    Minimises  sum_i w_i integral (y_i(t) - f(x_i)(t))^2 dt + alpha |f|^2,  so the fit does not depend on how finely the
    curves are sampled. Gaps in curves are nan; `ovk.curves.common_grid` maps curves with different time points to one
    grid.

    Parameters
    ----------
    kernel : operator-valued kernel; default ``Gaussian() * Integral()``
        With a scalar kernel, time points are independent. Operators use the estimator's grid.
    alpha : float >= 0
        Weight of the penalty.
    grid : `Grid` or its points, optional
        Time points of the columns of Y; regular on [0, 1] by default.
    solver : str or solver
        As in `OVKRidge`.
    fit_intercept : bool
        Learn an unpenalised constant curve.

    Attributes
    ----------
    grid_ : the grid
    dual_coef_, intercept_ : as in `OVKRidge`, in the coordinates sqrt(w_j) y(t_j) of the grid
    and the others of `OVKRidge`

    See Also
    --------
    FunctionalRidgeCV, OVKRidge, OperatorRidge, ovk.curves.Grid

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
        """Fit the model; arguments as in `OVKRidge.fit`, with curves as rows of y."""
        with self._fitting(X, y):
            X, targets = self._check(X, y, sample_weight, task)
            self._solve(self._resolved(X, targets.d), check_alpha(self.alpha, targets.d), X, targets, self.solver)
        return self


@dataclass(eq=False, repr=False)
class FunctionalRidgeCV(CurveOutputs):
    """`FunctionalRidge` with kernel, operator and alpha selected by exact leave-one-curve-out.

    If no kernel is given, or one without an operator, the output operator is selected too, among integral operators for
    smooth curves of three scales and one for rough curves and jumps, and the intercept is as smooth as the operator.
    Curves with gaps and more than 1,200 observed values are binned for the selection, whose time is cubic in the number
    of values; the final fit uses the original curves.

    Parameters
    ----------
    kernel : operator-valued kernel, scalar kernel, or a list of them; default ``Gaussian()``
        A scalar kernel is multiplied by a selected operator; write ``k * Identity()`` for independent time points.
    alphas : sequence of floats > 0, optional
        Candidates; by default 25 values from 1e-6 to 1e2.
    grid : `Grid` or its points, optional
        Time points of the columns of Y; regular on [0, 1] by default.
    input_grid : `Grid` or its points, optional
        Without a kernel: every row of X starts with a curve on this grid and continues with numbers. The kernel is
        selected too: curves are compared by integrals, numbers are standardised, and leave-one-out selects the
        importance of each. Gaps in the curve (nan) are interpolated linearly, in new rows too.
    n_eigen : sequence of ints, optional
        Candidate numbers of eigenfunctions, for kernels k * Integral(...).
    operators : sequence of output operators, optional
        Candidate operators, which replace the kernel's operator.
    fit_intercept : bool
        Learn a constant curve. If the operator is selected, it is a term ``Intercept(100.0)`` of the kernel, penalised
        a hundred times less than the rest, and `intercept_` is None; otherwise it is not penalised.
    tol : float >= 0
        As in `OVKRidgeCV`.

    Attributes
    ----------
    n_eigen_ : selected number, None without `n_eigen`
    level_ : mean of all observed values, subtracted from the curves if the intercept is penalised; else 0
    best_rsse_ : smallest integral of the sum of squared leave-one-out errors
    errors_ : (kernels, operators, alphas) mean squared leave-one-out error, of the binned curves if these were used;
        times n d it is the integral
    and those of `FunctionalRidge` and `OVKRidgeCV`

    See Also
    --------
    FunctionalRidge, OVKRidgeCV, OperatorRidge, ovk.curves.Grid

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

    _stored = {"best_rsse_": "* inf"}

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
        """Select the settings and fit the model; arguments as in `OVKRidge.fit`, with curves as rows of y."""
        with self._fitting(X, y):
            X, targets = self._check(X, y, sample_weight, task)
            kernel, alpha, solver = self._choose(X, targets)
            self._solve(kernel, alpha, X, targets, solver)
            chosen = getattr(kernel.as_separable(), "operator", None)
            self.n_eigen_ = chosen.n_eigen if self.n_eigen is not None and isinstance(chosen, Integral) else None
            per_row = 1 if targets.task is not None else self.output_errors_.shape[-1]
            self.best_rsse_ = self.best_error_ * self.X_fit_.shape[0] * per_row
        return self

    def _check_inputs(self, X: Any, *, reset: bool, stream: bool = False) -> Any:
        if self.input_grid is None:
            return super()._check_inputs(X, reset=reset, stream=stream)
        if is_on_device(X):
            raise ValueError("a fit on a device does not support input_grid: omit it, or pass NumPy arrays")
        options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "ensure_all_finite": "allow-nan"}
        return without_gaps(check_inputs(self, X, reset=reset, **options), as_grid(self.input_grid))

    def _output_dim(self) -> int | None:
        return output_dim_of(self.operators, self._kernels())

    def _chooses_operator(self) -> bool:
        kernels = self.kernel if isinstance(self.kernel, (list, tuple)) else [self.kernel]
        # The intercept is a term of the scalar kernel, which a kernel matrix given as X cannot have.
        given = [as_ours(kernel) for kernel in kernels if kernel is not None]
        scalar = not any(isinstance(kernel, (OperatorKernel, OutputOperator)) for kernel in given)
        return scalar and not takes_gram(self.kernel) and self.operators is None and self.n_eigen is None

    @property
    def _free_intercept(self) -> bool:
        # A single output has no operator to select.
        return self.fit_intercept and (self.grid_ is None or not self._chooses_operator())

    def _level(self, targets: Targets) -> float:
        # A penalised intercept is shrunk to zero, so the curves are centred first.
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
            scalars = [scalar + Intercept(INTERCEPT_VARIANCE) for scalar in scalars]
        # The candidate operators replace this one.
        return [Separable(scalar, Integral()) for scalar in scalars]

    def _choose(self, X: Any, targets: Targets) -> tuple[OperatorKernel, float, Any]:
        alphas = np.logspace(-6, 2, 25) if self.alphas is None else check_alphas(self.alphas)
        kernels = self._of_input_curves(X, self._kernels())
        kernels = compared = [self._resolved(X, targets.d, kernel) for kernel in kernels]
        X = X.double() if isinstance(X, DeviceMatrix) else X
        operators = candidates = self._operators(targets.d)
        curves, gaps = self.grid_, targets.task is None and not targets.complete
        many = np.count_nonzero(~np.isnan(targets.Y)) > MAX_COMPARED_VALUES
        if self._chooses_operator() and curves is not None and not isinstance(curves, ProductGrid) and gaps and many:
            # Leave-one-out of curves with gaps is too slow for so many values.
            grid, targets, rows = binned_curves(curves, targets)
            X, candidates = X[rows], [None if one is None else one.replace(grid=grid) for one in operators]
            compared = [with_operator(kernel, candidates[0]) for kernel in kernels]
        same = rows_held_out_together(self.kernel, X, targets, intercept=self._free_intercept)
        tol = positive(self.tol, "tol", zero=True)
        errors = CandidateErrors(X, targets, same, alphas, self._free_intercept, tol=tol)
        found = errors.compare(compared, candidates, list(range(targets.d)))
        self.__dict__.update(found.attributes())
        k, o, a = found.best()
        return with_operator(kernels[k], operators[o]), float(alphas[a]), found.solver()

    def _of_input_curves(self, X: Any, kernels: list[OperatorKernel]) -> list[OperatorKernel]:
        """The candidate kernels; with `input_grid` those of input curves."""
        if self.input_grid is None:
            return kernels
        if self.kernel is not None:
            raise ValueError("input_grid and kernel cannot be combined: omit one of them")
        scalars = input_kernels(X, as_grid(self.input_grid))
        operator = kernels[0].as_separable()
        assert operator is not None
        added = self.fit_intercept and not self._free_intercept
        return [Separable(k + Intercept(INTERCEPT_VARIANCE) if added else k, operator.operator) for k in scalars]

    def _operators(self, d: int) -> list[OutputOperator | None]:
        if self._chooses_operator() and self.grid_ is not None:
            return list(default_operators(self.grid_))
        if self.n_eigen is None:
            given = candidate_operators(self.operators, None, self._kernels())
            return [None if one is None else self._own_copy(one, d).resolve(d) for one in given]
        if self.operators is not None:
            raise ValueError("n_eigen and operators cannot be combined: omit one of them")
        operators = [getattr(kernel.as_separable(), "operator", None) for kernel in self._kernels()]
        first = operators[0]
        if len(operators) > 1 and (first is None or not all(equal(other, first) for other in operators)):
            raise ValueError("n_eigen requires kernels k * T with the same T: pass truncated operators as operators")
        if not isinstance(first, Integral):
            raise ValueError(f"n_eigen requires a kernel k * Integral(...), got the operator {first!r}")
        numbers = [check_int(count, "each of n_eigen") for count in self.n_eigen]
        if not numbers:
            raise ValueError("n_eigen must contain at least one candidate, got none")
        return [self._own_copy(first.replace(n_eigen=count), d).resolve(d) for count in numbers]
