"""What a model predicts: functions of one input, curves, and vector fields in the plane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, check_int, unnamed
from ovk.curves import Grid, ProductGrid
from ovk.plotting.display import BLUE, ORANGE, Display, draw_band, own_names

#: What there is to see of a model of several inputs.
OTHERS = (
    "for predictions against outcomes use sklearn.metrics.PredictionErrorDisplay.from_predictions(Y[:, 0], "
    "model.predict(X)[:, 0]), for intervals ovk.plotting.IntervalDisplay.from_estimator(model, X, Y)"
)


class PredictionDisplay(Display):
    """Each output against a single input: prediction, two standard deviations, and the data.

    Parameters
    ----------
    x : (n,) inputs
    mean, std : (n, d)
    points : (x, Y) observed data, or None
    names : names of the outputs, optional

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.plotting import PredictionDisplay
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = OVKRidge(alpha=0.1).fit(X, np.hstack([X, X**2]))
    >>> PredictionDisplay.from_estimator(model, plot=False).mean.shape
    (400, 2)
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
        """The prediction over the range of the training inputs; data X, Y are drawn as dots."""
        check_is_fitted(estimator)
        if estimator.n_features_in_ != 1:
            curves = getattr(estimator, "grid_", None) is not None
            raise ValueError(
                f"PredictionDisplay draws functions of one input, the model has {estimator.n_features_in_}: "
                + ("FunctionalPredictionDisplay draws the curves that it predicts" if curves else OTHERS)
            )
        support = np.asarray(estimator.X_fit_)[:, 0]
        margin = 0.05 * np.ptp(support)
        x = np.linspace(support.min() - margin, support.max() + margin, 400)
        mean, std = (np.reshape(A, (len(x), -1)) for A in unnamed(estimator.predict(x[:, None], return_std=True)))
        points = None
        if X is not None and Y is not None:
            points = (np.asarray(X, dtype=float).reshape(-1), np.asarray(Y, dtype=float).reshape(len(X), -1))
        return cls(x, mean, std, points, own_names(estimator, names))._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw each output on its own axes, below each other."""
        d = self.mean.shape[1]
        for q, panel in enumerate(self._panels(ax, d, 1, (0.0, 1.0), (6.0, 1.7), sharex=True)):
            draw_band(panel, self.x, self.mean[:, q], 2 * self.std[:, q], "two standard deviations")
            panel.plot(self.x, self.mean[:, q], color=BLUE, label="prediction")
            if self.points is not None:
                panel.plot(self.points[0], self.points[1][:, q], "k.", markersize=4, label="observed")
            panel.set_ylabel(f"output {q}" if self.names is None else self.names[q])
        self.axes_[-1].set_xlabel("input")
        # Above the axes, where there is no data to hide.
        self.ax_.legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
        return self


#: Points at which curves are drawn, besides those of the fitted grid.
FINE_POINTS = 201
#: Observed values of a curve from which on they are drawn as smaller dots.
MANY_DOTS = 60


class FunctionalPredictionDisplay(Display):
    """A few curves: prediction, two standard deviations or an interval of a level, and what was observed.

    Parameters
    ----------
    points : (m,) where the curves are drawn
    mean : (n, m)
    band : (n, m) lower and upper ends of a band around the mean, or None
    label : what the band is
    observed : (times, values), a sequence of n arrays each, what was observed of each curve and when; or None
    names : names of the curves, optional
    xlabel, ylabel : labels of the axes

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import FunctionalRidge
    >>> from ovk.plotting import FunctionalPredictionDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> Y = np.sin(3 * np.linspace(0, 1, 30) + X)
    >>> model = FunctionalRidge(alpha=0.01).fit(X, Y)
    >>> FunctionalPredictionDisplay.from_estimator(model, X[:3], Y[:3], grid=[0.2, 0.4], plot=False).mean.shape
    (3, 2)
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
        """Predicted curves at the first `max_curves` rows of X, and what was observed of them.

        Parameters
        ----------
        estimator : fitted, with a grid
        X : (n, p)
        Y : (n, d) observed curves on the fitted grid, nan in their gaps; or a tuple (times, values) of two sequences
            with the times and values of each curve; or None
        grid : `Grid` or points, optional
            Where to draw the curves; by default closer together than the fitted grid, and over a whole period if it
            has one.
        band : draw a band, which takes many solves: two standard deviations, or with a `level`, such as 0.9, the
            interval that `predict_interval` gives for it at each time
        names : of the curves, optional
        xlabel, ylabel : labels of the axes
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
    def from_left_out(cls, estimator: Any, *, max_curves: int = 8, axes: Any = None, plot: bool = True) -> Self:
        """Curves that were learned, up to `max_curves` spread over them, each predicted by the model without it.

        The band is two standard deviations of such a prediction. Curves with the same inputs are left out together.
        """
        fitted, n = _curve_grid(estimator), estimator.X_fit_.shape[0]
        rows = np.unique(np.linspace(0, n - 1, min(check_int(max_curves, "max_curves"), n)).astype(np.intp))
        seen, mean, std = estimator.left_out_curves(rows)
        points = fitted.checked()
        observed = _observed(seen, fitted, slice(None), len(rows), points)
        names = [f"row {i}, left out" for i in rows]
        return cls(points, mean, (mean - 2 * std, mean + 2 * std), cls.label, observed, names)._drawn(axes, plot)

    def plot(self, ax: Any = None) -> Self:
        """Draw each curve on its own axes, side by side."""
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
                size = 3.5 if len(times) < MANY_DOTS else 2.0
                panel.plot(times, values, "o", color="0.15", markersize=size, markeredgewidth=0, label="observed")
            if self.names is not None:
                panel.set_title(str(self.names[i]), fontsize=9)
            if i % columns == 0:
                panel.set_ylabel(self.ylabel)
            if i >= n - columns:
                # The lowest of its column, which may be one line above the last.
                panel.set_xlabel(self.xlabel)
                panel.tick_params(labelbottom=True)
        self._legend(above=True, ncols=3)
        return self


def _curve_grid(estimator: Any) -> Grid:
    check_is_fitted(estimator)
    grid: Grid | None = getattr(estimator, "grid_", None)
    if grid is None:
        raise ValueError("FunctionalPredictionDisplay draws curves, but the model was fitted without a grid")
    if isinstance(grid, ProductGrid):
        raise ValueError(
            "FunctionalPredictionDisplay draws curves, but the model is one of functions of several variables: draw "
            "model.predict(X)[i].reshape(model.grid_.shape), for instance with matplotlib's imshow"
        )
    return grid


def _fine_points(grid: Grid) -> Array:
    """The points of a grid and many between them; of a closed one, over the whole period."""
    own = grid.checked()
    first, last = _ends(grid)
    if grid.period is not None:
        own = own[(own > first) & (own < last)]
    return np.union1d(own, np.linspace(first, last, FINE_POINTS))


def _ends(grid: Grid) -> tuple[float, float]:
    """Where curves begin and end in a plot: a period begins at 0 if the points allow it."""
    own = grid.checked()
    if grid.period is None:
        return float(own[0]), float(own[-1])
    first = 0.0 if own[0] >= 0 and own[-1] <= grid.period else float(own[0])
    return first, first + float(grid.period)


def _observed(Y: Any, grid: Grid, first: slice, n: int, points: Array) -> tuple[list[Array], list[Array]]:
    """What was observed of the first n curves: times of each, and values."""
    if isinstance(Y, tuple):
        if len(Y) != 2:
            raise ValueError(f"Y must be (n, d) curves or a tuple (times, values), got a tuple of {len(Y)}")
        times, values = (list(part)[first] for part in Y)
    else:
        values = list(np.asarray(getattr(Y, "iloc", Y)[first], dtype=np.float64))
        times = [grid.checked()] * len(values)
    if not len(times) == len(values) == n:
        raise ValueError(f"Y must hold a curve for each of the {n} rows of X, got {len(times)} and {len(values)}")
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
    """A field on a grid, as arrows or as stream lines over its speed, with the observations.

    Parameters
    ----------
    x, y : (m,) coordinates of the grid
    vectors : (m, m, 2) the field; the first axis is y
    points, observed : (n, 2) where vectors were observed, and which; optional
    inlier : (n,) False at outliers, which are drawn as crosses; optional
    title : str

    Examples
    --------
    >>> from ovk import VectorField
    >>> from ovk.datasets import make_vector_field
    >>> from ovk.plotting import VectorFieldDisplay
    >>> sample = make_vector_field(40, random_state=0)
    >>> model = VectorField(alpha=0.01, criterion=None).fit(sample.data, sample.target)
    >>> VectorFieldDisplay.from_estimator(model, part="curl-free", plot=False).vectors.shape
    (25, 25, 2)
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
        estimator : fitted `VectorField`
        X, V : (n, 2) observations to draw, optional; outliers of a robust fit are crossed out
        part : "curl-free", "div-free" or "rest", optional
            One part instead of the whole field.
        grid : points on each side
        height : third coordinate of the plane that is shown of a field in space
        style : "quiver" or "stream"
        """
        check_is_fitted(estimator)
        if style not in ("quiver", "stream"):
            raise ValueError(f"style must be 'quiver' or 'stream', got {style!r}")
        p = estimator.n_features_in_
        if p not in (2, 3) or estimator.n_outputs_ < 2:
            raise ValueError(
                f"VectorFieldDisplay draws fields in 2 or 3 dimensions, the model has {p} coordinates and "
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
        """Draw arrows over the observations, or stream lines whose darkness and width are the speed."""
        ax = self._axes(ax, (5.2, 4.6))
        speed = np.linalg.norm(self.vectors, axis=2)
        top = max(float(speed.max()), 1e-300)
        # The fastest arrow is as long as one and a half cells of the grid.
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
