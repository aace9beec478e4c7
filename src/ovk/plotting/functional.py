"""Curves predicted, with their bands."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._validation import Array
from ovk.plotting.display import Display, pyplot


class FunctionalPredictionDisplay(Display):
    """A few curves: prediction, two standard deviations, and what was observed.

    Parameters
    ----------
    points : (d,) the grid
    mean : (n, d)
    std : (n, d) or None
    observed : (n, d) or None, nan in gaps
    names : names of the curves, optional

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

    def __init__(
        self, points: Array, mean: Array, std: Array | None = None, observed: Array | None = None, names: Any = None
    ) -> None:
        self.points = points
        self.mean = mean
        self.std = std
        self.observed = observed
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        Y: Any = None,
        *,
        band: bool = True,
        names: Any = None,
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """Predicted curves at the rows of X, and the observed ones Y; a `band` takes many solves."""
        check_is_fitted(estimator)
        if estimator.grid_ is None:
            raise ValueError("FunctionalPredictionDisplay draws curves, but the model was fitted without a grid")
        mean, std = estimator.predict(X, return_std=True) if band else (estimator.predict(X), None)
        observed = None if Y is None else np.asarray(Y, dtype=np.float64)
        display = cls(estimator.grid_.checked(), mean, std, observed, names)
        return display.plot(axes) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw each curve on its own axes, side by side."""
        n = len(self.mean)
        if ax is None:
            rows = -(-n // 4)
            columns = min(n, 4)
            _, ax = pyplot().subplots(
                rows,
                columns,
                figsize=(0.6 + 2.6 * columns, 0.7 + 2.1 * rows),
                sharex=True,
                sharey=True,
                layout="constrained",
                squeeze=False,
            )
        self.axes_ = np.atleast_1d(np.asarray(ax, dtype=object)).reshape(-1)
        self.ax_, self.figure_ = self.axes_[0], self.axes_[0].figure
        for panel in self.axes_[n:]:
            panel.set_visible(False)
        for i, panel in enumerate(self.axes_[:n]):
            if self.std is not None:
                low, high = self.mean[i] - 2 * self.std[i], self.mean[i] + 2 * self.std[i]
                panel.fill_between(
                    self.points, low, high, color="#56B4E9", alpha=0.4, linewidth=0, label="two standard deviations"
                )
            if self.observed is not None:
                # Thin and light: dashes of a rough curve cannot be told from the curve.
                panel.plot(self.points, self.observed[i], color="0.6", linewidth=0.8, label="observed")
            panel.plot(self.points, self.mean[i], color="#0072B2", linewidth=1.8, label="prediction")
            if self.names is not None:
                panel.set_title(str(self.names[i]), fontsize=9)
            panel.set_xlabel("t")
        handles, labels = self.axes_[0].get_legend_handles_labels()
        self.figure_.legend(handles, labels, fontsize=8, loc="outside upper center", ncols=3, frameon=False)
        return self
