"""Predicted curves with their bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, check_int, unnamed
from ovk.curves import Grid, ProductGrid
from ovk.plotting.display import BLUE, Display, draw_band

#: Points at which curves are drawn, besides those of the fitted grid.
FINE = 201
#: Observed values of a curve from which on they are drawn as smaller dots.
MANY = 60


@dataclass(eq=False, repr=False)
class FunctionalPredictionDisplay(Display):
    """A few curves: prediction, two standard deviations or an interval of a level, and what was observed.

    Parameters
    ----------
    points : (m,) where the curves are drawn
    mean : (n, m)
    std : (n, m) or None
    observed : (times, values), a sequence of n arrays each, what was observed of each curve and when; or None
    names : names of the curves, optional
    interval : (n, m) lower and upper ends of an interval, drawn in the place of standard deviations, or None
    level : the level of the interval, or None
    xlabel, ylabel : labels of the axes

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import FunctionalRidge
    >>> from ovk.plotting import FunctionalPredictionDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> Y = np.sin(3 * np.linspace(0, 1, 30) + X)
    >>> model = FunctionalRidge(alpha=0.01).fit(X, Y)
    >>> FunctionalPredictionDisplay.from_estimator(model, X[:3], Y[:3], grid=[0.2, 0.4], plot=False).std.shape
    (3, 2)
    """

    points: Array
    mean: Array
    std: Array | None = None
    observed: tuple[Sequence[Array], Sequence[Array]] | None = None
    names: Any = None
    interval: tuple[Array, Array] | None = None
    level: float | None = None
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
        axes : matplotlib's, one for each curve, optional
        plot : draw now, or only hold the numbers
        """
        fitted = curve_grid(estimator)
        first = slice(check_int(max_curves, "max_curves"))
        X, names = (None if part is None else getattr(part, "iloc", part)[first] for part in (X, names))
        points = _fine_points(fitted) if grid is None else np.array(getattr(grid, "points", grid), dtype=np.float64)
        std, interval = None, None
        if band and level is not None:
            found = estimator.predict_interval(X, level, grid=points)
            mean, *ends = unnamed((found.predictions, found.lower, found.upper))
            interval = (ends[0], ends[1])
        elif band:
            mean, std = unnamed(estimator.predict(X, return_std=True, grid=points))
        else:
            mean = unnamed(estimator.predict(X, grid=points))
        observed = None if Y is None else _observed(Y, fitted, first, len(mean), points)
        labels = {"xlabel": xlabel, "ylabel": ylabel}
        display = cls(points, mean, std, observed, names, interval, level if band else None, **labels)
        return display.plot(axes) if plot else display

    @classmethod
    def from_left_out(cls, estimator: Any, *, max_curves: int = 8, axes: Any = None, plot: bool = True) -> Self:
        """Curves that were learned, up to `max_curves` spread over them, each predicted by the model without it.

        The band is two standard deviations of such a prediction. Curves with the same inputs are left out together.
        """
        fitted, n = curve_grid(estimator), estimator.X_fit_.shape[0]
        rows = np.unique(np.linspace(0, n - 1, min(check_int(max_curves, "max_curves"), n)).astype(np.intp))
        seen, mean, std = estimator.left_out_curves(rows)
        points = fitted.checked()
        observed = _observed(seen, fitted, slice(None), len(rows), points)
        display = cls(points, mean, std, observed, [f"row {i}, left out" for i in rows])
        return display.plot(axes) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw each curve on its own axes, side by side."""
        n = len(self.mean)
        columns = min(n, 4)
        panels = self._panels(ax, n, columns, (0.6, 0.7), (2.6, 2.1), sharex=True, sharey=True)
        for i, panel in enumerate(panels):
            if self.std is not None:
                draw_band(panel, self.points, self.mean[i], 2 * self.std[i], "two standard deviations")
            if self.interval is not None:
                low, high = (ends[i] for ends in self.interval)
                label = "interval" if self.level is None else f"{100 * self.level:g}% interval"
                draw_band(panel, self.points, 0.5 * (low + high), 0.5 * (high - low), label)
            panel.plot(self.points, self.mean[i], color=BLUE, linewidth=1.8, label="prediction")
            if self.observed is not None:
                times, values = (part[i] for part in self.observed)
                size = 3.5 if len(times) < MANY else 2.0
                panel.plot(times, values, "o", color="0.15", markersize=size, markeredgewidth=0, label="observed")
            if self.names is not None:
                panel.set_title(str(self.names[i]), fontsize=9)
            if i % columns == 0:
                panel.set_ylabel(self.ylabel)
            if i >= n - columns:
                # The lowest of its column, which may be one line above the last.
                panel.set_xlabel(self.xlabel)
                panel.tick_params(labelbottom=True)
        handles, labels = self.axes_[0].get_legend_handles_labels()
        self.figure_.legend(handles, labels, fontsize=8, loc="outside upper center", ncols=3, frameon=False)
        return self


def curve_grid(estimator: Any) -> Grid:
    """The grid of a fitted model of curves; an error where there is none to draw over."""
    check_is_fitted(estimator)
    grid = getattr(estimator, "grid_", None)
    if grid is None:
        raise ValueError("FunctionalPredictionDisplay draws curves, but the model was fitted without a grid")
    if isinstance(grid, ProductGrid):
        raise ValueError(
            "FunctionalPredictionDisplay draws curves, but the model is one of functions of several variables: draw "
            "model.predict(X)[i].reshape(model.grid_.shape), for instance with matplotlib's imshow"
        )
    fitted: Grid = grid
    return fitted


def _fine_points(grid: Grid) -> Array:
    """The points of a grid and many between them; of a closed one, over the whole period."""
    own = grid.checked()
    first, last = _ends(grid)
    if grid.period is not None:
        own = own[(own > first) & (own < last)]
    return np.union1d(own, np.linspace(first, last, FINE))


def _ends(grid: Grid) -> tuple[float, float]:
    """Where curves begin and end in a picture: a period begins at 0 if the points allow it."""
    own = grid.checked()
    if grid.period is None:
        return float(own[0]), float(own[-1])
    first = 0.0 if own[0] >= 0 and own[-1] <= grid.period else float(own[0])
    return first, first + float(grid.period)


def _observed(Y: Any, grid: Grid, first: slice, n: int, points: Array) -> tuple[list[Array], list[Array]]:
    """What was observed of the first n curves: times of each, and values."""
    own = isinstance(Y, tuple)
    if own and len(Y) != 2:
        raise ValueError(f"Y must be (n, d) curves or a tuple (times, values), got a tuple of {len(Y)}")
    times, values = ([], []) if not own else (list(part)[first] for part in Y)
    if not own:
        values = list(np.asarray(getattr(Y, "iloc", Y)[first], dtype=np.float64))
        times = [grid.checked()] * len(values)
    if not len(times) == len(values) == n:
        raise ValueError(f"Y must hold a curve for each of the {n} rows of X, got {len(times)} and {len(values)}")
    found: tuple[list[Array], list[Array]] = ([], [])
    low, high = points.min(), points.max()
    for i, pair in enumerate(zip(times, values, strict=True)):
        t, y = (np.asarray(part, dtype=np.float64) for part in pair)
        if t.ndim != 1 or t.shape != y.shape:
            raise ValueError(f"Y must have a value for each time of curve {i}, got shapes {t.shape} and {y.shape}")
        if grid.period is not None:
            outside = (t < low) | (t > high)
            t = np.where(outside, _ends(grid)[0] + np.mod(t - _ends(grid)[0], grid.period), t)
        found[0].append(t[~np.isnan(y)])
        found[1].append(y[~np.isnan(y)])
    return found
