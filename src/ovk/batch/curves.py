"""Ridge regression with curves as outputs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    FILL,
    Array,
    Indices,
    Parameters,
    Targets,
    check_alpha,
    check_alphas,
    check_inputs,
    check_int,
    equal,
    positive,
    unnamed,
)
from ovk.batch.ridge.ridge import OVKRegressor
from ovk.batch.ridge.ridge_system import rows_left_out_together, takes_gram
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
    """Rows of Y are curves on a grid, and errors are integrals.

    Minimises  sum_i integral (y_i(t) - f(x_i)(t))^2 dt + alpha |f|^2  the integral by the grid's quadrature: the plain
    problem in the coordinates sqrt(w_j) y(t_j). What was not observed (nan) does not count in the integral.
    """

    grid: Any
    grid_: Grid | None
    #: What curves are measured from: 0, or where the intercept is penalised the mean of all that was observed.
    level_: float = 0.0
    _cure_of_gaps = (
        f"{FILL}; gaps in input curves are filled where input_grid is given, as in FunctionalRidgeCV(input_grid=...), "
        "or beforehand by ovk.curves.Grid(points).filled(X)"
    )

    def _grid_for(self, d: int) -> Grid | None:
        """The grid of d outputs; None for a single number, which is no curve."""
        if self.grid is None:
            return None if d == 1 else Grid.regular(d)
        grid = as_grid(self.grid)
        if len(grid) != d:
            raise ValueError(f"grid has {len(grid)} points but Y has {d} columns")
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
        # Neighbouring times inform each other, where there are any.
        single = getattr(self, "grid_", self) is None
        return Separable(Gaussian(), Identity() if single else Integral())

    def _own_copy(self, part: Any, d: int) -> Any:
        grid = self._grid_for(d)
        return clone(part) if grid is None else bind_grid(clone(part), grid)

    def jacobian(self, X: Any) -> Array:
        """Derivative of the predicted curves in the inputs at each row of X, in closed form: (n, d, p)."""
        values = super().jacobian(X)
        return values if self.grid_ is None else values / self.grid_.roots()[:, None]

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
        X : (n, p)
        return_std, return_cov, of : as in `OVKRidge.predict`; a covariance is one on the fitted grid
        task : (n,) integers, optional
            Long form: predict curve i at the point task_i of the fitted grid alone, (n,).
        grid : points, `Grid` or `ProductGrid`, optional
            Where to evaluate the curves. Parts of the function in the range of an integral operator are known
            everywhere, up to half the largest spacing of the fitted grid beyond its ends; those of other operators are
            interpolated between its points, and so are standard deviations.

        Returns
        -------
        (n, d) on the fitted grid, or (n, m) on another; with `return_std` or `return_cov`, a tuple with that behind it
        """
        if grid is not None:
            if return_cov or task is not None:
                raise ValueError("return_cov and task are about the fitted grid: leave grid out")
            mean = self._predict_at(X, grid)
            if not return_std:
                return mean
            assert self.grid_ is not None
            std = unnamed(self.predict(X, return_std=True, of=of))[1]
            return mean, std @ self.grid_.interpolation(grid, beyond=True)
        found = super().predict(X, return_std, return_cov, task=task, of=of)
        if self.grid_ is None:
            return found
        found = unnamed(found)
        roots = self.grid_.roots()
        if task is not None:
            roots = roots[np.asarray(task)]
        mean = (found[0] if return_std or return_cov else found) / roots + self.level_
        if return_cov:
            return self._named(mean, X), found[1] / np.outer(roots, roots)
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
        """Intervals around curves, as those of `OVKRidge.predict_interval` around outputs.

        Parameters
        ----------
        X, level, method, region, groups, folds : as in `OVKRidge.predict_interval`; a "box" is a band for whole curves
        grid : points, `Grid` or `ProductGrid`, optional
            Where to evaluate them. Curves are predicted there; how far the ends are away from them is interpolated
            between the points of the fitted grid. Not with region="ellipsoid".

        Returns
        -------
        `ovk.intervals.Regions` with `predictions`, `lower` and `upper`, (n, d) on the fitted grid or (n, m) on another
        """
        if grid is not None and region == "ellipsoid":
            raise ValueError("region='ellipsoid' is about the fitted grid: leave grid out, or give region='box'")
        how: dict[str, Any] = {"method": method, "region": region, "groups": groups, "folds": folds}
        found = super().predict_interval(X, level, **how)
        if grid is None:
            return found
        predictions = self._predict_at(X, grid)
        assert self.grid_ is not None
        weights = self.grid_.interpolation(grid, beyond=True)
        middle, lower, upper = unnamed((found.predictions, found.lower, found.upper))
        below, above = (_between(distances, weights) for distances in (middle - lower, upper - middle))
        each = found.radius.shape[1] == middle.shape[1]
        radius = _between(found.radius, weights) if each else found.radius
        covered = np.full(radius.shape, np.nan)
        return Regions(predictions, predictions - below, predictions + above, radius, covered)

    def _outputs_alike(self) -> bool:
        return self.grid_ is not None

    def _regions_of_outputs(self, regions: Regions, X: Any) -> Regions:
        """Bands on the fitted grid, of which regions are in coordinates."""
        if self.grid_ is not None:
            regions = regions.scaled(1.0 / self.grid_.roots(), self.level_)
        return super()._regions_of_outputs(regions, X)

    def left_out_residuals(self, groups: Any = None) -> Array:
        """(curves, d) observed curves less what is predicted for them without their row, on the fitted grid."""
        found = super().left_out_residuals(groups)
        return found if self.grid_ is None else found / self.grid_.roots()

    def left_out_curves(self, rows: Any = None) -> tuple[Array, Array, Array]:
        """Curves that were learned, and what is predicted for them without their row.

        Parameters
        ----------
        rows : (m,) numbers of training rows, optional
            Which; all by default.

        Returns
        -------
        (m, d) observed curves, nan in their gaps; (m, d) predictions at all points of the fitted grid; (m, d) standard
        deviations of a new observation around these predictions
        """
        check_is_fitted(self)
        if self.grid_ is None or self.task_ is not None:
            raise ValueError("left_out_curves needs a model that was fitted to rows of curves: give Y with a grid")
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
        return self._training_outputs()[chosen] / roots + self.level_, mean / roots + self.level_, std / roots

    def _predict_at(self, X: Any, points: Any) -> Array:
        expansion = self.expansion_
        X = self._new_inputs(X)
        if self.grid_ is None:
            raise ValueError("grid needs a model of curves: Y had a single column")
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


def _between(distances: Array, weights: Any) -> Array:
    """Distances (n, d), some of them infinite, at other points by weights (d, m)."""
    endless = np.isinf(distances)
    known = np.where(endless, 0.0, distances) @ weights
    return np.where(endless.astype(np.float64) @ weights > 0, np.inf, known)


def has_curve_operator(kernel: OperatorKernel) -> bool:
    """Whether one of the kernel's operators is about curves."""
    return any(isinstance(part, CurveOperator) for part in kernel.get_params().values())


def bind_grid(thing: Any, grid: Grid) -> Any:
    """A kernel or operator (or a list of them) in which every operator on curves has a grid."""
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
            f"the grid of {type(operator).__name__} is not the estimator's: leave grid out of the operator, and it "
            "gets the estimator's"
        )
    return operator


# Which operator suits curves that nobody has said anything about, and the intercept that goes with it.
#
# Candidates are integral operators of a Gaussian with lengths of 1/20, 1/10 and 1/5 of the grid, for curves that are
# smooth on that scale, and of exp(-|t - s| / length of the grid), for rough ones and for jumps. On a closed grid they
# are kernels of the circle.
#
# An intercept without a penalty is the mean of the residuals at each time, with the noise of each time in it. As
#
#     f(x) = g(x) + b,   |f|^2 = |g|^2 + |b|^2 / c   with both norms those of the same operator T
#
# it is as smooth as everything else: the kernel of f is (k(x, z) + c) T. In the eigenfunctions of T the intercept is
# shrunk by n c t_q / (n c t_q + alpha), so with c = 100 the leading ones are left as they are, and noise is not.

#: Lengths of the Gaussians in lengths of the grid.
LENGTHS = (0.05, 0.1, 0.2)
#: c, the variance of the intercept beside that of the rest.
INTERCEPT = 100.0
#: Values of curves with gaps above which the choice is made on coarser curves, and the fewest points of these.
CHOICE_VALUES, MIN_POINTS = 1200, 12


def default_operators(grid: Grid) -> list[Integral]:
    """The candidates, the rough one first."""
    sides = grid.sides() if isinstance(grid, ProductGrid) else [grid]
    kernels = [[_time_kernel(side, length) for side in sides] for length in (None, *LENGTHS)]
    return [Integral(each if isinstance(grid, ProductGrid) else each[0], grid) for each in kernels]


def _time_kernel(side: Grid, length: float | None) -> ScalarKernel | None:
    """The kernel along one axis; None where there is no time along it."""
    if isinstance(side, Components):
        return None
    if side.period is not None:
        whole = float(side.period)
        return Periodic(Matern(0.5, whole) if length is None else Gaussian(length * whole), whole)
    whole = float(np.ptp(side.checked()))
    return Laplacian(whole) if length is None else Gaussian(length * whole)


def coarser_curves(grid: Grid, targets: Targets) -> tuple[Grid, Targets, Indices]:
    """Curves with gaps, in coordinates, averaged over neighbouring points; their grid; and the rows that were taken.

    Averages over bins are projections in L2: the noise of a coordinate keeps its variance, and so alpha its meaning. A
    bin counts as observed where at least half of it was. If there are too many curves, or bins of curves that were seen
    here and there would be mostly empty, some curves are drawn.
    """
    roots, d = grid.roots(), len(grid)
    seen = ~np.isnan(targets.Y)
    before: tuple[Any, ...] | None = None
    for size in range(1, max(d // MIN_POINTS, 1) + 1):
        bins = np.arange(d) // size
        whole = np.bincount(bins, weights=grid.weights())
        member = np.eye(len(whole))[bins]
        mass = (seen * grid.weights()) @ member
        observed = mass >= 0.5 * whole
        if before is not None and observed.sum() < 0.5 * CHOICE_VALUES:
            whole, member, mass, observed = before
            break
        if observed.sum() <= CHOICE_VALUES:
            break
        before = whole, member, mass, observed
    sums = (np.where(seen, targets.Y, 0.0) * roots) @ member
    Y = np.where(observed, sums / np.where(observed, mass, 1.0), np.nan) * np.sqrt(whole)
    points = (grid.checked() * grid.weights()) @ member / whole
    rows = np.flatnonzero(observed.any(axis=1))
    share = observed.sum() / max(len(rows), 1)
    most = max(int(CHOICE_VALUES / share), 3)
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).permutation(rows)[:most])
    weight = None if targets.weight is None else targets.weight[rows]
    return Grid(points, grid.period, whole), Targets(Y[rows], len(whole), False, None, weight), rows


# Kernels to choose from where inputs are curves, alone or with numbers beside them.
#
# With k of the curves, a Gaussian of their L2 distance, and h of the standardised numbers, candidates are
#
#     k   and   k + h + k h
#
# that is a function of the curves alone, for numbers that say nothing, and the sum of one of the curves, one of the
# numbers, and one of both together. The lengths of k and h are 1, 3 and 9 times the median distance of the training
# inputs, each with each. So neither counts for more because it has more columns or larger units, and leaving out one
# curve at a time finds how fast the outputs change along each.

#: Lengths of the Gaussians in median distances.
LENGTH_FACTORS = (1.0, 3.0, 9.0)


def without_gaps(X: Any, grid: Grid) -> Array:
    """Inputs (n, p) that start with a curve on the grid, its gaps filled (`Grid.filled`); no other may be nan."""
    inputs: Array = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
    d = len(grid)
    if X.shape[1] < d:
        raise ValueError(f"X has {X.shape[1]} columns but input_grid has {d} points: a row of X starts with the curve")
    if not np.isnan(inputs).any():
        return inputs
    missing = np.argwhere(np.isnan(inputs[:, d:]))
    if len(missing):
        row, column = missing[0]
        raise ValueError(
            f"Input X contains NaN, first in row {row}, column {d + column}, a number beside the curve: {FILL}"
        )
    return np.hstack([grid.filled(inputs[:, :d]), inputs[:, d:]])


def input_kernels(X: Array, grid: Grid) -> list[ScalarKernel]:
    """The candidates for inputs (n, p) that start with a curve on the grid, the other columns being numbers."""
    d = len(grid)
    length = median_distance(X[:, :d] * grid.roots())
    curves = [OnCurves(Gaussian(factor * length), grid) for factor in LENGTH_FACTORS]
    if X.shape[1] == d:
        return [*curves]
    numbers = X[:, d:]
    # A row that is repeated counts once, as it does in the median distance.
    scales = np.unique(X, axis=0)[:, d:].std(axis=0)
    scales = np.where(scales > 0, scales, 1.0)
    lengths = scales * median_distance(numbers / scales)
    first = [OnColumns(curve, np.arange(d)) for curve in curves]
    rest = [OnColumns(Gaussian(factor * lengths), np.arange(d, X.shape[1])) for factor in LENGTH_FACTORS]
    return [*first, *[k + h + k * h for k in first for h in rest]]


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
        given = [as_ours(kernel) for kernel in kernels if kernel is not None]
        scalar = not any(isinstance(kernel, (OperatorKernel, OutputOperator)) for kernel in given)
        return scalar and not takes_gram(self.kernel) and self.operators is None and self.n_eigen is None

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
        tol = positive(self.tol, "tol", zero=True)
        errors = CandidateErrors(X, targets, same, alphas, self._free_intercept, tol=tol)
        found = errors.compare(compared, candidates, list(range(targets.d)))
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
