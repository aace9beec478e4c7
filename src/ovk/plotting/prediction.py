"""Displays of predictions: functions of one input, curves, and vector fields in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, check_choice, check_int, unnamed
from ovk.curves import Grid, ProductGrid
from ovk.plotting.display import BLUE, ORANGE, Display, draw_band


class PredictionDisplay(Display):
    """Predictions of a model with one input, with two standard deviations and the data.

    Parameters
    ----------
    x : (n,) array
        Inputs.
    mean, std : (n, d) arrays
        Mean and standard deviation of the predictions.
    points : tuple of arrays (x, Y), optional
        Observed data.
    names : sequence of str, optional
        Names of the outputs.

    See Also
    --------
    FunctionalPredictionDisplay, VectorFieldDisplay, IntervalDisplay

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.plotting import PredictionDisplay
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = OVKRidge(alpha=0.1).fit(X, np.hstack([X, X**2]))
    >>> PredictionDisplay.from_estimator(model, plot=False).mean[200].round(1)
    array([0.5, 0.2])
    """

    x: Array
    mean: Array
    std: Array
    points: tuple[Array, Array] | None = None
    names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        Y: Any = None,
        *,
        names: Sequence[str] | None = None,
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """The prediction over the range of the training inputs, with data X (n, 1) and Y (n, d) as dots."""
        check_is_fitted(estimator)
        if estimator.n_features_in_ != 1:
            curves = getattr(estimator, "grid_", None) is not None
            other = "FunctionalPredictionDisplay" if curves else "IntervalDisplay or sklearn's PredictionErrorDisplay"
            p = estimator.n_features_in_
            raise ValueError(f"PredictionDisplay requires a model with one input, got {p}: use {other}")
        support = np.asarray(estimator.X_fit_)[:, 0]
        if (scaling := getattr(estimator, "inputs_", None)) is not None:  # x_fit = (x - centre) factor
            support = support / (scaling.factor[0] or 1.0) + scaling.centre[0]
        margin = 0.05 * np.ptp(support)
        x = np.linspace(support.min() - margin, support.max() + margin, 400)
        mean, std = (np.reshape(A, (len(x), -1)) for A in unnamed(estimator.predict(x[:, None], return_std=True)))
        points = None
        if X is not None and Y is not None:
            points = (np.asarray(X, dtype=float).reshape(-1), np.asarray(Y, dtype=float).reshape(len(X), -1))
        return cls(x, mean, std, points, cls._names_of(estimator, names))._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw each output in its panel, one below the other."""
        d = self.mean.shape[1]
        for q, panel in enumerate(self._panels(ax, d, 1, (0.0, 1.0), (6.0, 1.7), sharex=True)):
            draw_band(panel, self.x, self.mean[:, q], 2 * self.std[:, q], "two standard deviations")
            panel.plot(self.x, self.mean[:, q], color=BLUE, label="prediction")
            if self.points is not None:
                panel.plot(self.points[0], self.points[1][:, q], "k.", markersize=4, label="observed")
            panel.set_ylabel(f"output {q}" if self.names is None else self.names[q])
        self.axes_[-1].set_xlabel("input")
        # Above the data.
        self.ax_.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
        return self


#: Number of points at which curves are drawn, besides those of the fitted grid.
FINE_POINTS = 201
#: Curves with at least this many observed values have smaller dots.
MIN_SMALL_DOTS = 60


class FunctionalPredictionDisplay(Display):
    """Predicted curves with a band of two standard deviations or an interval, and the observations.

    Parameters
    ----------
    points : (m,) array
        Points of the curves.
    mean : (n, m) array
        Predicted curves.
    band : tuple of (n, m) arrays, optional
        Lower and upper ends of a band around the curves.
    label : str
        Label of the band.
    observed : tuple (times, values), optional
        Two sequences of n arrays, the observations of each curve.
    names : sequence of str, optional
        Names of the curves.
    xlabel, ylabel : str
        Labels of the axes.

    See Also
    --------
    PredictionDisplay, ovk.FunctionalRidge, ovk.OVKRidge

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import FunctionalRidge
    >>> from ovk.plotting import FunctionalPredictionDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> Y = np.sin(3 * np.linspace(0, 1, 30) + X)
    >>> model = FunctionalRidge(alpha=0.01).fit(X, Y)
    >>> FunctionalPredictionDisplay.from_estimator(model, X[:3], Y[:3], grid=[0.2, 0.4], plot=False).mean.round(1)
    array([[-0.3,  0.2],
           [-0.3,  0.3],
           [-0.2,  0.4]])
    """

    points: Array
    mean: Array
    band: tuple[Array, Array] | None = None
    label: str = "two standard deviations"
    observed: tuple[Sequence[Array], Sequence[Array]] | None = None
    names: Any = None
    xlabel: str = "t"
    ylabel: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any = None,
        *,
        grid: Any = None,
        band: bool = True,
        level: float | None = None,
        names: Any = None,
        max_curves: int = 12,
        xlabel: str = "t",
        ylabel: str = "",
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """Predicted curves at the first `max_curves` rows of X, and their observations.

        Parameters
        ----------
        estimator : estimator with `grid_`
            The fitted model.
        X : (n, p) array
            Inputs.
        Y : (n, d) array or tuple (times, values), optional
            Observed curves on the fitted grid, nan where missing; or two sequences with the times and values of each
            curve.
        grid : Grid or points, optional
            Points of the curves; default a refinement of the fitted grid, over the whole period if it has one.
        band : bool
            Draw a band, which takes many solves: two standard deviations or, with `level`, an interval.
        level : float, optional
            Level of the intervals of `predict_interval`, such as 0.9.
        names : sequence of str, optional
            Names of the curves.
        max_curves : int
            Maximum number of curves.
        xlabel, ylabel : str
            Labels of the axes.
        axes, plot
            Axes to draw on, and whether to draw.
        """
        fitted = _curve_grid(estimator)
        first = slice(check_int(max_curves, "max_curves"))
        X, names = (None if part is None else getattr(part, "iloc", part)[first] for part in (X, names))
        points = _fine_points(fitted) if grid is None else np.array(getattr(grid, "points", grid), dtype=np.float64)
        ends, label = None, cls.label
        if band and level is not None:
            found = estimator.predict_interval(X, level, grid=points)
            mean, *ends = unnamed((found.predictions, found.lower, found.upper))
            label = f"{100 * level:g}% interval"
        elif band:
            mean, std = unnamed(estimator.predict(X, return_std=True, grid=points))
            ends = (mean - 2 * std, mean + 2 * std)
        else:
            mean = unnamed(estimator.predict(X, grid=points))
        observed = None if Y is None else _observed(Y, fitted, first, len(mean), points)
        return cls(points, mean, ends, label, observed, names, xlabel, ylabel)._drawn(axes, plot)

    @classmethod
    def from_leave_one_out(cls, estimator: Any, *, max_curves: int = 8, axes: Any = None, plot: bool = True) -> Self:
        """Leave-one-out predictions of up to `max_curves` training curves, with two standard deviations.

        Curves with the same inputs are left out together.
        """
        fitted, n = _curve_grid(estimator), estimator.X_fit_.shape[0]
        rows = np.unique(np.linspace(0, n - 1, min(check_int(max_curves, "max_curves"), n)).astype(np.intp))
        seen, mean, std = estimator.loo_curves(rows)
        points = fitted.checked()
        observed = _observed(seen, fitted, slice(None), len(rows), points)
        names = [f"row {i}, left out" for i in rows]
        return cls(points, mean, (mean - 2 * std, mean + 2 * std), cls.label, observed, names)._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw each curve in its panel, at most four in a row."""
        n = len(self.mean)
        columns = min(n, 4)
        panels = self._panels(ax, n, columns, (0.6, 0.7), (2.6, 2.1), sharex=True, sharey=True)
        for i, panel in enumerate(panels):
            if self.band is not None:
                low, high = (ends[i] for ends in self.band)
                draw_band(panel, self.points, 0.5 * (low + high), 0.5 * (high - low), self.label)
            panel.plot(self.points, self.mean[i], color=BLUE, linewidth=1.8, label="prediction")
            if self.observed is not None:
                times, values = (part[i] for part in self.observed)
                size = 3.5 if len(times) < MIN_SMALL_DOTS else 2.0
                panel.plot(times, values, "o", color="0.15", markersize=size, markeredgewidth=0, label="observed")
            if self.names is not None:
                panel.set_title(str(self.names[i]), fontsize=9)
            if i % columns == 0:
                panel.set_ylabel(self.ylabel)
            if i >= n - columns:
                # The lowest panel of its column.
                panel.set_xlabel(self.xlabel)
                panel.tick_params(labelbottom=True)
        self._legend(above=True, ncols=3)
        return self


def _curve_grid(estimator: Any) -> Grid:
    check_is_fitted(estimator)
    grid: Grid | None = getattr(estimator, "grid_", None)
    if grid is None:
        raise ValueError("FunctionalPredictionDisplay requires a model that was fitted with a grid")
    if isinstance(grid, ProductGrid):
        raise ValueError(
            "FunctionalPredictionDisplay requires a grid of one variable: for several, draw "
            "model.predict(X)[i].reshape(model.grid_.shape) with matplotlib's imshow"
        )
    return grid


def _fine_points(grid: Grid) -> Array:
    """The points of a grid and a finer grid, over the whole period if it has one."""
    own = grid.checked()
    first, last = _ends(grid)
    if grid.period is not None:
        own = own[(own > first) & (own < last)]
    return np.union1d(own, np.linspace(first, last, FINE_POINTS))


def _ends(grid: Grid) -> tuple[float, float]:
    """First and last point of the curves; a period starts at 0 if it contains the points then."""
    own = grid.checked()
    if grid.period is None:
        return float(own[0]), float(own[-1])
    first = 0.0 if own[0] >= 0 and own[-1] <= grid.period else float(own[0])
    return first, first + float(grid.period)


def _observed(Y: Any, grid: Grid, first: slice, n: int, points: Array) -> tuple[list[Array], list[Array]]:
    """Times and values of the first n curves."""
    if isinstance(Y, tuple):
        if len(Y) != 2:
            raise ValueError(f"Y must be an array (n, d) or a tuple (times, values), got a tuple of {len(Y)}")
        times, values = (list(part)[first] for part in Y)
    else:
        values = list(np.asarray(getattr(Y, "iloc", Y)[first], dtype=np.float64))
        times = [grid.checked()] * len(values)
    if not len(times) == len(values) == n:
        raise ValueError(f"Y must have a curve for each of the {n} rows of X, got {len(times)} and {len(values)}")
    found: tuple[list[Array], list[Array]] = ([], [])
    for i, pair in enumerate(zip(times, values, strict=True)):
        t, y = (np.asarray(part, dtype=np.float64) for part in pair)
        if t.ndim != 1 or t.shape != y.shape:
            raise ValueError(f"Y must have a value for each time of curve {i}, got shapes {t.shape} and {y.shape}")
        if grid.period is not None:
            outside = (t < points.min()) | (t > points.max())
            t = np.where(outside, _ends(grid)[0] + np.mod(t - _ends(grid)[0], grid.period), t)
        found[0].append(t[~np.isnan(y)])
        found[1].append(y[~np.isnan(y)])
    return found


class VectorFieldDisplay(Display):
    """A predicted vector field as arrows or stream lines, with the observations.

    Parameters
    ----------
    x, y : (m,) arrays
        Coordinates of the grid.
    vectors : (m, m, 2) array
        The field; the first axis is y.
    points, observed : (n, 2) arrays, optional
        Positions and values of the observed vectors.
    inlier : (n,) array, optional
        False at outliers, which are drawn as crosses.
    title : str
        Title of the axes.

    See Also
    --------
    ovk.VectorField, ovk.datasets.make_vector_field

    Examples
    --------
    >>> from ovk import VectorField
    >>> from ovk.datasets import make_vector_field
    >>> from ovk.plotting import VectorFieldDisplay
    >>> sample = make_vector_field(40, random_state=0)
    >>> model = VectorField(alpha=0.01, criterion=None).fit(sample.data, sample.target)
    >>> VectorFieldDisplay.from_estimator(model, part="curl-free", plot=False).vectors[12, 12].round(1)
    array([-0.6,  0.6])
    """

    x: Array
    y: Array
    vectors: Array
    points: Array | None = None
    observed: Array | None = None
    inlier: Any = None
    title: str = ""

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        V: Any = None,
        *,
        part: str | None = None,
        grid: int = 25,
        height: float = 0.0,
        style: Literal["quiver", "stream"] = "quiver",
        ax: Any = None,
        plot: bool = True,
    ) -> Self:
        """The field over the box of the training points.

        Parameters
        ----------
        estimator : VectorField
            The fitted model.
        X, V : (n, 2) arrays, optional
            Observations to draw; outliers of a robust fit are crosses.
        part : "curl-free", "div-free" or "rest", optional
            One part of the field; default the whole field.
        grid : int
            Number of points on each side.
        height : float
            Third coordinate of the plane, for a field in three dimensions.
        style : "quiver" or "stream"
            Arrows or stream lines.
        ax, plot
            Axes to draw on, and whether to draw.
        """
        check_is_fitted(estimator)
        check_choice(style, "style", ("quiver", "stream"))
        p = estimator.n_features_in_
        if p not in (2, 3) or estimator.n_outputs_ < 2:
            raise ValueError(
                f"VectorFieldDisplay requires a field in 2 or 3 dimensions, got {p} coordinates and "
                f"{estimator.n_outputs_} components"
            )
        support = np.asarray(estimator.X_fit_)[:, :2]
        low, high = support.min(axis=0), support.max(axis=0)
        margin = 0.05 * np.maximum(high - low, 1e-12 + 1e-3 * float(np.ptp(support)))
        m = check_int(grid, "grid", least=2)
        x, y = (np.linspace(low[k] - margin[k], high[k] + margin[k], m) for k in (0, 1))
        columns = [np.tile(x, m), np.repeat(y, m)] + [np.full(m * m, float(height))] * (p - 2)
        function = estimator.predict if part is None else estimator.part(part)
        values = np.zeros((m * m, 2)) if function is None else np.asarray(function(np.column_stack(columns)))
        points = observed = inlier = None
        if X is not None and V is not None:
            points, observed = np.asarray(X, dtype=float)[:, :2], np.asarray(V, dtype=float)[:, :2]
            inlier = getattr(estimator, "inliers_", None)
            inlier = None if inlier is None or len(inlier) != len(points) else inlier
        title = "field" if part is None else f"{part} part"
        display = cls(x, y, values[:, :2].reshape(m, m, 2), points, observed, inlier, title)
        return display.plot(ax, style=style) if plot else display

    def plot(self, ax: Any = None, *, style: Literal["quiver", "stream"] = "quiver") -> Self:
        """Draw arrows, or stream lines whose darkness and width show the speed, over the observations."""
        ax = self._axes(ax, (5.2, 4.6))
        speed = np.linalg.norm(self.vectors, axis=2)
        top = max(float(speed.max()), 1e-300)
        # The longest arrow is one and a half cells of the grid.
        cell = max(float(self.x[1] - self.x[0]), float(self.y[1] - self.y[0]))
        scale = top / (1.5 * cell) if cell > 0 else 1.0
        arrows = {"angles": "xy", "scale_units": "xy", "scale": scale, "width": 0.004}
        field = (self.x, self.y, self.vectors[..., 0], self.vectors[..., 1])
        if self.points is not None and self.observed is not None:
            good = np.ones(len(self.points), dtype=bool) if self.inlier is None else np.asarray(self.inlier)
            ax.quiver(*self.points[good].T, *self.observed[good].T, color=ORANGE, label="observed", **arrows)
            if not good.all():
                ax.plot(*self.points[~good].T, "kx", markersize=4, alpha=0.6, label="outlier")
        if style == "stream":
            width = 0.5 + 2.0 * speed / top
            lines = ax.streamplot(*field, color=speed, cmap="cividis_r", linewidth=width, density=1.2).lines
        else:
            lines = ax.quiver(*field, speed, cmap="cividis_r", **arrows)
        ax.figure.colorbar(lines, ax=ax, label="speed", shrink=0.85)
        ax.set(aspect="equal", title=self.title)
        if self.points is not None:
            ax.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.08), ncols=2, frameon=False)
        return self
