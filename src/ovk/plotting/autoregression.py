"""A fitted autoregression: its Jacobian as a matrix, and its series beside what it makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._types import Array
from ovk.plotting.display import BLUE, Display, write_cells


@dataclass(eq=False, repr=False)
class JacobianDisplay(Display):
    """The mean derivative of each variable's dynamics in each variable, with numbers when there are few.

    Parameters
    ----------
    jacobian : (d, d), row i and column j: derivative of the dynamics of i in j
    names : names of the variables

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.plotting import JacobianDisplay
    >>> x = np.random.default_rng(0).standard_normal((30, 2))
    >>> JacobianDisplay.from_estimator(OKVAR().fit(x), plot=False).jacobian.shape
    (2, 2)
    """

    jacobian: Array
    names: Sequence[str]

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, lag: int = 1, ax: Any = None, plot: bool = True) -> Self:
        """The mean over the rows of X, the training points by default, in the state `lag` steps before the next."""
        check_is_fitted(estimator)
        d = len(estimator.mean_)
        if not 1 <= lag <= estimator.lag:
            raise ValueError(f"lag must be a whole number from 1 to {estimator.lag}, that of the model, got {lag}")
        mean = estimator.jacobian(X).mean(axis=0)[:, (lag - 1) * d : lag * d]
        display = cls(mean, estimator.names_)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        d = len(self.jacobian)
        ax = self._axes(ax, (1.8 + 0.42 * max(d, 5), 1.3 + 0.38 * max(d, 5)))
        most = max(float(np.abs(self.jacobian).max()), 1e-300)
        # In grey both ends of this scale look alike: the numbers, or the signs, tell them apart.
        image = ax.imshow(self.jacobian, vmin=-most, vmax=most, cmap="RdBu")
        ax.set_xticks(range(d), self.names, rotation=45, ha="right")
        ax.set_yticks(range(d), self.names)
        ax.set_xlabel("acting")
        ax.set_ylabel("acted on")
        if d <= 20:
            digits = max(0, 1 - int(np.floor(np.log10(most)))) if d <= 12 else 0

            def text(value: float) -> str:
                if d <= 12:
                    return f"{value:.{digits}f}"
                return "+" if value > 0.1 * most else "-" if value < -0.1 * most else ""

            write_cells(ax, self.jacobian, text, most, size=7)
        ax.figure.colorbar(image, ax=ax, label="mean derivative", shrink=0.8)
        ax.set_title("Mean Jacobian")
        return self


@dataclass(eq=False, repr=False)
class SeriesDisplay(Display):
    """Each variable over time: observed, and predicted one step ahead.

    Parameters
    ----------
    times : (n,)
    observed, predicted : (n, d); predicted[t] was made from what was known one step before t
    names : names of the variables

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.plotting import SeriesDisplay
    >>> x = np.random.default_rng(0).standard_normal((30, 2))
    >>> SeriesDisplay.from_estimator(OKVAR().fit(x), plot=False).predicted.shape
    (30, 2)
    """

    times: Array
    observed: Array
    predicted: Array
    names: Sequence[str]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        series: int = 0,
        *,
        variables: Sequence[int] | None = None,
        axes: Any = None,
        plot: bool = True,
    ) -> Self:
        """A series that the model was fitted to, the first by default; of its variables by default the first twelve."""
        check_is_fitted(estimator)
        if not -len(estimator.series_) <= series < len(estimator.series_):
            raise ValueError(f"series must be the number of one of the {len(estimator.series_)} series, got {series}")
        one = estimator.series_[series]
        shown = list(range(min(one.values.shape[1], 12))) if variables is None else list(variables)
        ahead = np.full(one.values.shape, np.nan)
        ahead[1:] = estimator.dynamics_.predict(one)[:-1]
        names = estimator.names_
        display = cls(one.times, one.values[:, shown], ahead[:, shown], [names[q] for q in shown])
        return display.plot(axes) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw each variable on its own axes."""
        d = self.observed.shape[1]
        for q, panel in enumerate(self._panels(ax, d, min(d, 3), (1.0, 0.9), (2.6, 1.6), sharex=True)):
            panel.plot(self.times, self.observed[:, q], "k.", markersize=4, label="observed")
            panel.plot(self.times, self.predicted[:, q], color=BLUE, label="one step ahead")
            panel.set_title(self.names[q], fontsize=9)
            panel.tick_params(labelbottom=True, labelsize=8)
        self.axes_[-1].set_xlabel("time")
        self.figure_.legend(*self.ax_.get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
        return self
