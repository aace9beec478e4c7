"""The error surface that a choice was made on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._types import Array
from ovk.batch.curves.default_operators import default_operators
from ovk.plotting.display import Display, plain_log_ticks

#: Line styles, so that curves can be told apart without colour.
STYLES = ("-", "--", "-.", ":")


@dataclass(eq=False, repr=False)
class LeaveOneOutDisplay(Display):
    """Left-out error against alpha, a curve for each operator (the best kernel's).

    Parameters
    ----------
    alphas : (a,)
    errors : (operators, a)
    labels : names of the operators
    best : alpha and error of the choice

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidgeCV
    >>> from ovk.plotting import LeaveOneOutDisplay
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = OVKRidgeCV(alphas=[0.1, 1.0], omegas=[0.0, 0.5]).fit(X, np.hstack([X, X]))
    >>> LeaveOneOutDisplay.from_estimator(model, plot=False).errors.shape
    (2, 2)
    """

    alphas: Array
    errors: Array
    labels: list[str]
    best: tuple[float, float]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, plot: bool = True) -> Self:
        """The surface of a fitted `OVKRidgeCV` or `FunctionalRidgeCV`."""
        check_is_fitted(estimator)
        surface = estimator.errors_
        kernel = int(surface.min(axis=(1, 2)).argmin())
        names = _operator_names(estimator, surface.shape[1])
        o, a = np.unravel_index(surface[kernel].argmin(), surface[kernel].shape)
        best = (float(estimator.alphas_[a]), float(surface[kernel, o, a]))
        display = cls(estimator.alphas_, surface[kernel], names, best)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax)
        shades = np.linspace(0.0, 0.85, len(self.errors))
        from matplotlib import colormaps

        for k, (errors, label) in enumerate(zip(self.errors, self.labels, strict=True)):
            ax.plot(
                self.alphas, errors, STYLES[k % len(STYLES)], color=colormaps["viridis"](shades[k]), label=label or None
            )
        ax.plot(*self.best, "o", color="black", markersize=7, label="chosen", zorder=3)
        ax.set_xscale("log")
        ax.set_yscale("log")
        plain_log_ticks(ax.yaxis)
        ax.set_xlabel("alpha")
        ax.set_ylabel("mean squared left-out error")
        ax.legend(fontsize=8)
        ax.set_title("Leave-one-out error")
        return self


def _operator_names(estimator: Any, count: int) -> list[str]:
    """What the operators that were compared are called."""
    if estimator.omegas is not None:
        return [f"omega = {omega}" for omega in estimator.omegas]
    if estimator.operators is not None:
        return [str(operator) for operator in estimator.operators]
    if getattr(estimator, "n_eigen", None) is not None:
        return [f"{number} eigenfunctions" for number in estimator.n_eigen]
    if count == 1:
        return [""]
    return [str(operator.kernel) for operator in default_operators(estimator.grid_)]
