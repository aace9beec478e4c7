"""Function-to-function regressors of scikit-fda, with settings chosen by cross-validation."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

from ovk.curves import Grid
from ovk.kernels import median_distance
from ovk.objectives import rsse
from reproduce.support import Array

#: From training inputs and outputs and new inputs to predictions, all curves on a grid.
Fit = Callable[[Array, Array, Array, Grid], Array]
#: Bandwidths in median distances of the inputs.
BANDWIDTHS = (0.05, 0.1, 0.2, 0.3, 0.5, 1.0, 2.0)
NEIGHBOURS = (2, 3, 4, 5, 7, 10)
BASES = (5, 11, 19)
#: A local fit needs more neighbouring curves than coefficients.
WIDE_BANDWIDTHS, SMALL_BASES = (0.5, 1.0, 2.0, 4.0), (3, 5, 7)
COMPONENTS = (1, 2, 3, 4, 5, 6, 8)
FOLDS = 10


def on_grid(curves: Array, grid: Grid) -> Any:
    """Curves in the representation of scikit-fda."""
    from skfda.representation.grid import FDataGrid

    return FDataGrid(curves, grid.checked(), domain_range=_range(grid))


def in_basis(curves: Array, grid: Grid, size: int) -> Any:
    """Curves in a Fourier basis, since they are periodic."""
    from skfda.representation.basis import FourierBasis

    return on_grid(curves, grid).to_basis(FourierBasis(_range(grid), n_basis=size))


def _range(grid: Grid) -> tuple[float, float]:
    points = grid.checked()
    if grid.period is None:
        return float(points[0]), float(points[-1])
    # A period with the points in its centre.
    start = 0.5 * float(points[0] + points[-1] - grid.period)
    return start, start + float(grid.period)


def nadaraya_watson(bandwidth: float) -> Fit:
    """Means of output curves, weighted by a Gaussian of the distance of the inputs."""

    def predict(X: Array, Y: Array, new: Array, grid: Grid) -> Array:
        from skfda.misc.hat_matrix import NadarayaWatsonHatMatrix
        from skfda.ml.regression import KernelRegression

        model = KernelRegression(kernel_estimator=NadarayaWatsonHatMatrix(bandwidth=bandwidth * _spread(X, grid)))
        return np.asarray(model.fit(on_grid(X, grid), Y).predict(on_grid(new, grid)))

    return predict


def local_linear(bandwidth: float, size: int) -> Fit:
    """Linear in the coefficients of the input, fitted around each new one."""

    def predict(X: Array, Y: Array, new: Array, grid: Grid) -> Array:
        from skfda.misc.hat_matrix import LocalLinearRegressionHatMatrix
        from skfda.ml.regression import KernelRegression

        matrix = LocalLinearRegressionHatMatrix(bandwidth=bandwidth * _spread(X, grid))
        model = KernelRegression(kernel_estimator=matrix).fit(in_basis(X, grid, size), Y)
        return np.asarray(model.predict(in_basis(new, grid, size)))

    return predict


def neighbours(count: int) -> Fit:
    """Means of the nearest neighbours' output curves (as its `KNeighborsRegressor`, thirty times faster)."""

    def predict(X: Array, Y: Array, new: Array, grid: Grid) -> Array:
        from skfda.misc.hat_matrix import KNeighborsHatMatrix
        from skfda.ml.regression import KernelRegression

        model = KernelRegression(kernel_estimator=KNeighborsHatMatrix(n_neighbors=count))
        return np.asarray(model.fit(on_grid(X, grid), Y).predict(on_grid(new, grid)))

    return predict


def partial_least_squares(components: int, size: int) -> Fit:
    """Functional partial least squares, curves in a basis."""

    def predict(X: Array, Y: Array, new: Array, grid: Grid) -> Array:
        from skfda.ml.regression import FPLSRegression

        model = FPLSRegression(n_components=components).fit(in_basis(X, grid, size), in_basis(Y, grid, size))
        return np.asarray(model.predict(in_basis(new, grid, size))(grid.checked())[:, :, 0])

    return predict


def principal_components(components: int) -> Fit:
    """Functional principal components of the input, and least squares from their scores at each point of the output.

    scikit-fda's regression by scores does the same in a basis, a thousand times slower.
    """

    def predict(X: Array, Y: Array, new: Array, grid: Grid) -> Array:
        from skfda.preprocessing.dim_reduction import FPCA

        analysis = FPCA(n_components=components).fit(on_grid(X, grid))
        model = LinearRegression().fit(analysis.transform(on_grid(X, grid)), Y)
        return np.asarray(model.predict(analysis.transform(on_grid(new, grid))))

    return predict


def _spread(X: Array, grid: Grid) -> float:
    return median_distance(X * grid.roots())


def best(candidates: Iterable[Fit]) -> Fit:
    """The candidate with the smallest cross-validated RSSE on the training curves, fitted to all of them."""
    every = list(candidates)

    def predict(X: Array, Y: Array, new: Array, grid: Grid) -> Array:
        errors = [_error(candidate, X, Y, grid) for candidate in every]
        return _quiet(every[int(np.argmin(errors))], X, Y, new, grid)

    return predict


def _error(candidate: Fit, X: Array, Y: Array, grid: Grid) -> float:
    left_out = np.empty_like(Y)
    for train, test in KFold(min(FOLDS, len(X)), shuffle=True, random_state=0).split(X):
        try:
            left_out[test] = _quiet(candidate, X[train], Y[train], X[test], grid)
        except (ValueError, np.linalg.LinAlgError):
            # More components than curves, or a singular local fit.
            return np.inf
    return rsse(Y, left_out, grid) if np.isfinite(left_out).all() else np.inf


def _quiet(candidate: Fit, X: Array, Y: Array, new: Array, grid: Grid) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return candidate(X, Y, new, grid)


def scikit_fda() -> dict[str, Fit]:
    """The methods by name; none if scikit-fda cannot be imported."""
    try:
        from skfda.ml import regression  # noqa: F401
    except (ImportError, TypeError):
        # TypeError: scikit-fda 0.10 with multimethod 2.
        return {}
    return {
        "scikit-fda, kernel regression": best(nadaraya_watson(h) for h in BANDWIDTHS),
        "scikit-fda, local linear": best(local_linear(h, size) for h in WIDE_BANDWIDTHS for size in SMALL_BASES),
        "scikit-fda, nearest neighbours": best(neighbours(k) for k in NEIGHBOURS),
        "scikit-fda, partial least squares": best(partial_least_squares(c, b) for c in COMPONENTS for b in BASES),
        "scikit-fda, principal components": best(principal_components(c) for c in COMPONENTS),
    }
