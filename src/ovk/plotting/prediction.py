"""Predictions with their bands: of a function of one input, and of curves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._named_outputs import unnamed
from ovk._params import check_int
from ovk._types import Array
from ovk.plotting.display import BLUE, Display, draw_band, own_names

#: What there is to see of a model of several inputs.
OTHERS = (
    "for predictions against outcomes use sklearn.metrics.PredictionErrorDisplay.from_predictions(Y[:, 0], "
    "model.predict(X)[:, 0]), for intervals ovk.plotting.IntervalDisplay.from_estimator(model, X, Y)"
)


@dataclass(eq=False, repr=False)
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
        margin = 0.05 * (support.max() - support.min())
        x = np.linspace(support.min() - margin, support.max() + margin, 400)
        mean, std = unnamed(estimator.predict(x[:, None], return_std=True))
        n = len(x)
        points = None
        if X is not None and Y is not None:
            points = (np.asarray(X, dtype=float).reshape(-1), np.asarray(Y, dtype=float).reshape(len(X), -1))
        display = cls(x, mean.reshape(n, -1), std.reshape(n, -1), points, own_names(estimator, names))
        return display.plot(axes) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw each output on its own axes, below each other."""
        d = self.mean.shape[1]
        for q, panel in enumerate(self._panels(ax, d, 1, (0.0, 1.0), (6.0, 1.7), sharex=True)):
            draw_band(panel, self.x, self.mean[:, q], 2 * self.std[:, q], "two standard deviations")
            panel.plot(self.x, self.mean[:, q], color=BLUE, label="prediction")
            if self.points is not None:
                panel.plot(self.points[0], self.points[1][:, q], "k.", markersize=4, label="observed")
            panel.set_ylabel(f"output {q}" if self.names is None else self.names[q])
        self.axes_[d - 1].set_xlabel("input")
        # Above the axes, where there is no data to hide.
        self.axes_[0].legend(fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3, frameon=False)
        return self


@dataclass(eq=False, repr=False)
class FunctionalPredictionDisplay(Display):
    """A few curves: prediction, two standard deviations or an interval of a level, and what was observed.

    Parameters
    ----------
    points : (d,) the grid
    mean : (n, d)
    std : (n, d) or None
    observed : (n, d) or None, nan in gaps
    names : names of the curves, optional
    interval : (n, d) lower and upper ends of an interval, drawn in the place of standard deviations, or None
    level : the level of the interval, or None

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import FunctionalRidge
    >>> from ovk.plotting import FunctionalPredictionDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> Y = np.sin(3 * np.linspace(0, 1, 30) + X)
    >>> model = FunctionalRidge(alpha=0.01).fit(X, Y)
    >>> FunctionalPredictionDisplay.from_estimator(model, X[:3], Y[:3], plot=False).std.shape
    (3, 30)
    """

    points: Array
    mean: Array
    std: Array | None = None
    observed: Array | None = None
    names: Any = None
    interval: tuple[Array, Array] | None = None
    level: float | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any = None,
        *,
        band: bool = True,
        level: float | None = None,
        names: Any = None,
        max_curves: int = 12,
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """Predicted curves at the first `max_curves` rows of X, and the observed ones Y.

        The band, which takes many solves, is two standard deviations, or with a `level`, such as 0.9, the interval that
        `predict_interval` gives for it at each time.
        """
        check_is_fitted(estimator)
        if estimator.grid_ is None:
            raise ValueError("FunctionalPredictionDisplay draws curves, but the model was fitted without a grid")
        first = slice(check_int(max_curves, "max_curves"))
        X, Y, names = (None if part is None else getattr(part, "iloc", part)[first] for part in (X, Y, names))
        std, interval = None, None
        if band and level is not None:
            found = estimator.predict_interval(X, level)
            mean, *ends = unnamed((found.predictions, found.lower, found.upper))
            interval = (ends[0], ends[1])
        elif band:
            mean, std = unnamed(estimator.predict(X, return_std=True))
        else:
            mean = unnamed(estimator.predict(X))
        observed = None if Y is None else np.asarray(Y, dtype=np.float64)
        display = cls(estimator.grid_.checked(), mean, std, observed, names, interval, level if band else None)
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
            if self.observed is not None:
                # Thin and light: dashes of a rough curve cannot be told from the curve. Dots: a value between gaps.
                thin: dict[str, Any] = {"color": "0.6", "linewidth": 0.8, "markersize": 2.5}
                panel.plot(self.points, self.observed[i], ".-", label="observed", **thin)
            panel.plot(self.points, self.mean[i], color=BLUE, linewidth=1.8, label="prediction")
            if self.names is not None:
                panel.set_title(str(self.names[i]), fontsize=9)
            if i >= n - columns:
                # The lowest of its column, which may be one line above the last.
                panel.set_xlabel("t")
                panel.tick_params(labelbottom=True)
        handles, labels = self.axes_[0].get_legend_handles_labels()
        self.figure_.legend(handles, labels, fontsize=8, loc="outside upper center", ncols=3, frameon=False)
        return self
