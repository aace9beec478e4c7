"""Ridge regression from functions to functions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin, clone
from sklearn.utils.validation import check_is_fitted

from ovk.base import (
    Array,
    DeviceMatrix,
    NamedOutputs,
    Parameters,
    check_alphas,
    check_choice,
    check_finite_predictions,
    check_inputs,
    check_int,
    check_targets,
    drop_unobserved_rows,
    in_interval,
    is_on_device,
    positive,
    returned,
    to_host,
    unnamed,
)
from ovk.batch.operator_learning.exact import FactoredRidge, TiledRidge
from ovk.batch.operator_learning.search import (
    ALPHAS,
    DECAYS,
    KernelCandidate,
    ScoredCandidate,
    default_kernels,
    fill_gaps,
    search,
    stretch,
)
from ovk.batch.ridge.ridge_system import SinglePrecisionSystem, check_on_device
from ovk.curves import Grid, PrincipalComponents, as_grid
from ovk.kernels import ScalarKernel
from ovk.operators import Identity
from ovk.ovkernels import Expansion, Separable

#: Number of leave-one-out predictions that calibrate the bands, and of stored quantiles.
CALIBRATION_ROWS, QUANTILES = 200, 401


@dataclass(eq=False, repr=False)
class OperatorRidge(NamedOutputs, MultiOutputMixin, RegressorMixin, Parameters):
    """Learns an operator from input functions to output functions; no settings are required.

    Input functions are represented by principal components, scaled by a power of their standard deviations (the decay);
    output functions by principal components. Kernel ridge regression with an intercept maps one to the other. Kernel,
    decay and ridge are chosen for groups of output coordinates by leave-one-out in closed form, on a subsample if there
    are many functions. The solution is exact: one Cholesky factorisation, in place, for each group.

    Parameters
    ----------
    kernel : scalar kernel or list of scalar kernels, optional
        Kernel of scaled coordinates with mean square norm 1, or candidates. By default Gaussian, Matern, rational
        quadratic and polynomial kernels, each alone and with ``Linear()`` added.
    alpha : float > 0 or list of floats, optional
        Ridge weight, or candidates; by default 1e-11 to 1.
    decay : float >= 0 or list of floats, optional
        Power p of the scales s_j that multiplies whitened input coordinates, or candidates; by default 0 to 2.
    input_grid, output_grid : `Grid`, `ProductGrid` or points, optional
        Points of the columns of X and Y: sums become integrals, and functions can be predicted on other grids.
    groups : int
        Number of groups of output coordinates for which settings are selected separately; each costs a factorisation.
    metric : `GradientMetric`, optional
        A learned linear map of the scaled coordinates.
    tol : float in [0, 1]
        Share of the functions' root mean square that the coordinates may drop.
    max_components : int
        Maximum number of coordinates of inputs, and of outputs.
    search_rows : int
        Maximum number of functions used for the choice.
    solver : "cholesky" or "cg"
        "cholesky" stores one matrix of n x n numbers; "cg", conjugate gradients with a randomly pivoted Cholesky
        preconditioner, stores n x `rank` numbers and evaluates the kernel in tiles. "cg" requires a ridge that is not
        tiny: with alpha = 1e-3 it needs tens of iterations.
    rank : int
        Rank of the preconditioner.
    dtype : "float64" or "float32"
        Precision of the Cholesky factor. "float32" halves the memory and about halves the time; conjugate gradients in
        double precision then correct the solution. It, too, requires a ridge that is not tiny.
    random_state : int
        Seed for the functions used in the selection, and for the pivots.

    Attributes
    ----------
    inputs_, outputs_ : `PrincipalComponents` of inputs and outputs
    groups_ : list of (start, stop), the output coordinates of each group
    kernels_, alphas_, decays_ : choice of each group
    loo_error_ : float
        Root mean square of the leave-one-out errors, relative to that of the outputs, in the rows used for the choice.
    dual_coef_ : (n, r)
    intercept_ : (r,)
    n_features_in_, feature_names_in_ : as in scikit-learn

    See Also
    --------
    FunctionalRidge, GradientMetric, ovk.online.OnlineOperator

    Examples
    --------
    The heat equation on a circle, learned from 60 pairs.

    >>> import numpy as np
    >>> from ovk import OperatorRidge
    >>> from ovk.curves import Grid
    >>> t = np.arange(40) / 40
    >>> k = np.arange(1, 5)
    >>> waves = np.vstack([np.cos(2 * np.pi * k[:, None] * t), np.sin(2 * np.pi * k[:, None] * t)])
    >>> a = np.random.default_rng(0).standard_normal((80, 8))
    >>> X, Y = a @ waves, (a * np.tile(np.exp(-0.1 * k**2), 2)) @ waves
    >>> circle = Grid(t, period=1.0)
    >>> model = OperatorRidge(input_grid=circle, output_grid=circle).fit(X[:60], Y[:60])
    >>> bool(np.abs(model.predict(X[60:]) - Y[60:]).max() < 1e-5)
    True
    >>> model.predict(X[60:], grid=np.arange(200) / 200).shape
    (20, 200)
    """

    _stored = {
        "Z_fit_": "n p",
        "dual_coef_": "n k",
        "intercept_ amplitudes_": "k",
        "scales_": "p",
        "groups_": list[tuple[int, int]],
        "kernels_": list[ScalarKernel],
        "alphas_ decays_": list[float],
        "inputs_ outputs_": PrincipalComponents,
    }

    _runs_on_devices = True

    kernel: Any = None
    alpha: Any = None
    _: KW_ONLY
    decay: Any = None
    input_grid: Any = None
    output_grid: Any = None
    groups: int = 3
    metric: Any = None
    tol: float = 1e-6
    max_components: int = 512
    search_rows: int = 4000
    solver: str = "cholesky"
    rank: int = 1000
    dtype: str = "float64"
    random_state: int = 0

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from pairs of functions.

        Parameters
        ----------
        X : (n, p) array
            Input functions, one per row.
        y : (n, d) or (n,) array
            Output functions, nan where missing, or numbers.
        """
        with self._fitting(X, y):
            X_given, X = X, to_host(check_inputs(self, X, dtype=np.float64, ensure_min_samples=2)).astype(np.float64)
            targets = check_targets(y, len(X), None, None, X)
            self._learn_names(y, targets.d)
            X, targets = drop_unobserved_rows(X, targets)
            self._memo: dict[Any, Any] = {}
            check_choice(self.solver, "solver", ("cholesky", "cg"))
            check_choice(self.dtype, "dtype", ("float64", "float32"))
            tol, most = in_interval(self.tol, "tol", 0.0, 1.0), check_int(self.max_components, "max_components")
            grids = _grid(self.input_grid, X, "input_grid", "X"), _grid(self.output_grid, targets.Y, "output_grid", "Y")
            Y = targets.Y if targets.complete else fill_gaps(targets.Y)
            self.single_output_, self.n_outputs_ = targets.single, targets.d
            self.inputs_ = PrincipalComponents.of(X, grids[0], tol, most)
            self.outputs_ = PrincipalComponents.of(Y, grids[1], tol, most)
            self._learn(X, Y, X_given)
        return self

    def _learn(self, X: Array, Y: Array, X_given: Any) -> None:
        """Fit coordinates of functions X and Y on the host; kernel matrices are on the device of `X_given`."""
        Z, T = self.inputs_.coordinates(X) / self.inputs_.unit, self.outputs_.coordinates(Y)
        rows = np.random.default_rng(check_int(self.random_state, "random_state", least=0)).permutation(len(Z))
        some = rows[: check_int(self.search_rows, "search_rows", least=2)]
        scales = self.inputs_.scales
        self.metric_ = None
        if self.metric is not None:
            # The metric replaces the scales.
            stretched = Z * stretch(scales, 1.0) * np.sqrt(Z.shape[1])
            self.metric_ = clone(self.metric).fit(stretched[some], T[some] / max(float(T.std()), 1e-300))
            Z, scales = self._whitened(X), np.ones(Z.shape[1])
        kernels = default_kernels() if self.kernel is None else _list(self.kernel)
        for kernel in kernels:
            if not isinstance(kernel, ScalarKernel):
                raise ValueError(f"kernel must be a scalar kernel or a list of them, got {kernel!r}")
            if is_on_device(X_given):
                check_on_device(Separable(kernel, Identity()), dtype=self.dtype)
        decays = [positive(p, "decay", zero=True) for p in (DECAYS if self.decay is None else _list(self.decay))]
        if self.metric is not None:
            decays = [1.0]
        alphas = check_alphas(ALPHAS if self.alpha is None else _list(self.alpha))
        tried = [KernelCandidate(kernel, decay) for kernel in kernels for decay in decays]
        refine, groups = self.kernel is None and self.decay is None, check_int(self.groups, "groups")
        there = _placed(X_given, Z)
        self.groups_, chosen = search(there[some], scales, T[some], tried, alphas.tolist(), groups, refine)
        self.kernels_ = [one.candidate.kernel for one in chosen]
        self.decays_ = [one.candidate.decay for one in chosen]
        self.alphas_ = [one.alpha for one in chosen]
        self.amplitudes_ = _joined(self.groups_, [one.amplitudes for one in chosen])
        errors = _joined(self.groups_, [one.errors for one in chosen])
        size = float(np.mean(T[some] ** 2, axis=0).sum())
        self.loo_error_ = float(np.sqrt(errors.sum() / size)) if size > 0 else 0.0
        self.calibration_ = self._calibration(chosen, T[some], Y[some])
        self.Z_fit_, self.scales_ = Z, scales
        self.dual_coef_, self.intercept_ = np.empty_like(T), np.empty(T.shape[1])
        for several in self._shared():
            columns = np.concatenate([np.arange(*self.groups_[g]) for g in several])
            self.dual_coef_[:, columns], self.intercept_[columns] = self._ridge(several[0], there).solve(T[:, columns])

    def _shared(self) -> list[list[int]]:
        """Groups with the same kernel, decay and ridge, which share a factorisation."""
        keys = [(repr(k), p, a) for k, p, a in zip(self.kernels_, self.decays_, self.alphas_, strict=True)]
        return [[g for g, key in enumerate(keys) if key == one] for one in dict.fromkeys(keys)]

    def _ridge(self, g: int, points: Any) -> FactoredRidge | TiledRidge:
        kernel, Z, alpha = self.kernels_[g], self._stretched(points, g), self.alphas_[g]
        if self.solver == "cg":
            rank, seed = check_int(self.rank, "rank"), check_int(self.random_state, "random_state", least=0)
            return TiledRidge.of(kernel, Z, alpha, rank, seed)
        if self.dtype == "float32":
            factor = SinglePrecisionSystem(kernel, Z, np.ones(len(Z)), 1.0, alpha)
            return TiledRidge(kernel, Z, alpha, factor.precondition)
        return FactoredRidge.of(kernel, Z, alpha)

    def _stretched(self, Z: Any, g: int) -> Any:
        return Z * stretch(self.scales_, self.decays_[g])

    def _whitened(self, X: Array) -> Array:
        Z = self.inputs_.coordinates(X) / self.inputs_.unit
        if self.metric_ is None:
            return Z
        return np.asarray(self.metric_.transform(Z * stretch(self.inputs_.scales, 1.0) * np.sqrt(Z.shape[1])))

    def _expansion(self, g: int) -> Expansion:
        a, b = self.groups_[g]

        def made() -> Expansion:
            kernel, C = Separable(self.kernels_[g], Identity(b - a)), np.ascontiguousarray(self.dual_coef_[:, a:b])
            return Expansion(kernel, self._stretched(self.Z_fit_, g), C, self.intercept_[a:b])

        return self._cached(("expansion", g), made)

    def _checked(self, X: Any) -> Array:
        check_is_fitted(self)
        return np.asarray(to_host(check_inputs(self, X, reset=False, dtype=np.float64)), dtype=np.float64)

    def predict(self, X: Any, return_std: bool = False, *, grid: Any = None) -> Any:
        """Predict output functions.

        Parameters
        ----------
        X : (n, p) array
            Input functions.
        return_std : bool
            Also return the standard deviation at every point of a new output function, that of the Gaussian process
            whose mean is the prediction, with amplitudes that match the leave-one-out errors.
        grid : points, `Grid` or `ProductGrid`, optional
            Where to evaluate the functions, by cubic splines between the points of `output_grid`.

        Returns
        -------
        array, data frame or tuple
            (n, d) on the fitted grid, or (n, m) on another; (n,) if y was one-dimensional; with `return_std` a pair.
        """
        X_given, X = X, self._checked(X)
        Z = self._whitened(X)
        there = _placed(X_given, Z) if all(kernel.runs_on_devices() for kernel in self.kernels_) else Z
        parts = [self._expansion(g)(self._stretched(there, g)) for g in range(len(self.groups_))]
        mean = self.outputs_.functions(np.concatenate(parts, axis=1), grid)
        check_finite_predictions(self, mean)
        if not return_std:
            return returned(mean[:, 0], X_given) if self.single_output_ else self._on_grid(mean, X_given, grid)
        variances = np.empty((len(X), len(self.groups_)))
        for several in self._shared():
            variances[:, several] = self._posterior(several[0]).variances(self._stretched(Z, several[0]))[:, None]
        std = self._spread(variances, self.outputs_.values(grid))
        if self.single_output_:
            return returned((mean[:, 0], std[:, 0]), X_given)
        return self._on_grid((mean, std), X_given, grid)

    def _on_grid(self, found: Any, X: Any, grid: Any) -> Any:
        """Predictions with the names of y's columns, which are points of the fitted grid; another grid has no names."""
        return self._named(found, X) if grid is None else returned(found, X)

    def _posterior(self, g: int) -> FactoredRidge:
        kernel, alpha = self.kernels_[g], self.alphas_[g]
        return self._cached(("factor", g), lambda: FactoredRidge.of(kernel, self._stretched(self.Z_fit_, g), alpha))

    def _spread(self, variances: Array, values: Array) -> Array:
        """Standard deviations of functions, (n, d), from variances (n, groups) of coordinates of amplitude 1."""
        total = np.zeros((len(variances), len(values)))
        for g, (a, b) in enumerate(self.groups_):
            total += np.outer(variances[:, g], values[:, a:b] ** 2 @ self.amplitudes_[a:b])
        return np.sqrt(total)

    def _calibration(self, chosen: list[ScoredCandidate], T: Array, Y: Array) -> Array:
        """Quantiles of |y(t) - leave-one-out prediction| / standard deviation over functions and points."""
        rows = min(CALIBRATION_ROWS, len(T))
        left = self.outputs_.functions(T[:rows] - _joined(self.groups_, [one.residuals[:rows] for one in chosen]))
        std = self._spread(np.stack([one.variances[:rows] for one in chosen], axis=1), self.outputs_.values())
        ratio = np.abs(Y[:rows] - left) / np.maximum(std, 1e-300)
        return np.quantile(np.where(std > 0, ratio, 0.0), np.linspace(0.0, 1.0, QUANTILES))

    def predict_bands(self, X: Any, level: float = 0.9, *, grid: Any = None) -> tuple[Array, Array]:
        """Lower and upper bands, both (n, d), that cover a share `level` of the values of new output functions.

        Multiples of the standard deviation, calibrated on leave-one-out predictions.
        """
        share = in_interval(level, "level", 0.0, 1.0)
        mean, std = unnamed(self.predict(X, return_std=True, grid=grid))
        half = std * np.interp(share, np.linspace(0.0, 1.0, QUANTILES), self.calibration_)
        lower, upper = self._on_grid((mean - half, mean + half), X, grid)
        return lower, upper

    def jacobian(self, X: Any) -> Array:
        """The derivative of predicted functions in the input functions, in closed form: (n, d, p).

        A small change h of the input values on the grid changes the output by about J h. The array is large for fields;
        `derivative` applies it to one change without forming it.
        """
        X_given, X = X, self._checked(X)
        inner, outer = self._inner(), self.outputs_.values()
        J = np.asarray(np.einsum("dr,nrj,pj->ndp", outer, self._slopes(X), inner, optimize=True))
        return returned(J, X_given)  # type: ignore[no-any-return]

    def derivative(self, X: Any, H: Any) -> Array:
        """Frechet derivative of the predicted functions along directions H (n, p) of the inputs, (n, d)."""
        X_given, X, H = X, self._checked(X), np.asarray(to_host(H), dtype=np.float64)
        if H.shape != X.shape:
            raise ValueError(f"H must have the shape of X, {X.shape}, got {H.shape}")
        moved = np.einsum("nrj,nj->nr", self._slopes(X), H @ self._inner(), optimize=True)
        return returned(np.asarray(moved @ self.outputs_.values().T), X_given)  # type: ignore[no-any-return]

    def _inner(self) -> Array:
        """d z / d x, (p, J): from values of inputs to the coordinates before scaling."""
        p = len(self.inputs_.mean)
        return self._whitened(np.eye(p)) - self._whitened(np.zeros((1, p)))

    def _slopes(self, X: Array) -> Array:
        """Derivatives of output coordinates in whitened input coordinates, (n, r, J)."""
        Z = self._whitened(X)
        parts = [
            self._expansion(g).jacobian(self._stretched(Z, g)) * stretch(self.scales_, self.decays_[g])
            for g in range(len(self.groups_))
        ]
        return np.concatenate(parts, axis=1)


def _placed(X_given: Any, Z: Array) -> Any:
    """Coordinates on the device of the inputs `X_given`, in double precision: ridges may be tiny."""
    return DeviceMatrix(X_given).double().like(Z) if is_on_device(X_given) else Z


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]


def _joined(groups: list[tuple[int, int]], parts: list[Array]) -> Array:
    """The columns of each group, from its array of all columns."""
    return np.concatenate([part[..., a:b] for (a, b), part in zip(groups, parts, strict=True)], axis=-1)


def _grid(grid: Any, A: Array, name: str, of: str) -> Grid | None:
    if grid is None:
        return None
    found = as_grid(grid)
    if len(found) != A.shape[1]:
        raise ValueError(f"{name} must have one point for each of the {A.shape[1]} columns of {of}, got {len(found)}")
    return found
