"""Predictions with their bands, of a function of one input."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, unnamed
from ovk.evaluation import LEVEL, RecentErrors
from ovk.plotting.display import BLUE, Display, draw_band, own_names, shortened

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


# Outcomes against predictions, for rows without an order.


@dataclass(eq=False, repr=False)
class ObservedDisplay(Display):
    """Outcomes of rows that were not learned against their predictions: on the diagonal both agree.

    Parameters
    ----------
    outcomes, predictions : (m,)
    half : half width of the interval around a prediction, infinite where it is not known
    name : of the output
    level : coverage of the interval

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import RecentErrors
    >>> from ovk.plotting import ObservedDisplay
    >>> recent = RecentErrors.empty(1)
    >>> _ = recent.update(np.zeros((300, 1)), np.ones((300, 1)))
    >>> display = ObservedDisplay.from_recent(recent, 0, plot=False)
    >>> len(display.outcomes), display.half
    (300, 1.0)
    """

    outcomes: Array
    predictions: Array
    half: float
    name: str
    level: float = LEVEL

    @classmethod
    def from_recent(
        cls, recent: RecentErrors, output: int, *, name: str | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """One output of all rows that are remembered, with the interval that new rows get."""
        half = float(recent.widths(recent.level)[output])
        display = cls(recent.Y[:, output], recent.F[:, output], half, name or f"y{output}", recent.level)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (4.6, 3.4))
        known = np.isfinite(self.outcomes) & np.isfinite(self.predictions)
        y, f = self.outcomes[known], self.predictions[known]
        if len(y):
            ends = np.array([min(y.min(), f.min()), max(y.max(), f.max())])
            if np.isfinite(self.half):
                draw_band(ax, ends, ends, np.full(2, self.half), f"{self.level:.0%} interval")
            ax.plot(ends, ends, color="0.5", linewidth=1, zorder=0)
        ax.plot(f, y, ".", color=BLUE, markersize=4, label="row")
        ax.set_title(shortened(self.name, 44), fontsize=10)
        ax.locator_params(axis="x", nbins=5)
        ax.set_xlabel("prediction")
        ax.set_ylabel("outcome")
        ax.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False)
        return self
