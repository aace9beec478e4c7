"""Displays of selected settings: ridge weights, kernel weights, relevance of inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array
from ovk.batch import default_operators
from ovk.kernels import Scaled
from ovk.ovkernels import distinct
from ovk.plotting.display import SKY, Display, draw_matrix, plain_log_ticks, pyplot, shortened

#: Line styles, for figures without colour.
DASH_PATTERNS = ("-", "--", "-.", ":")


class LeaveOneOutDisplay(Display):
    """Leave-one-out error of the best kernel against alpha, with a curve for each output operator.

    Parameters
    ----------
    alphas : (a,) array
        Candidate ridge weights.
    errors : (operators, a) array
        Mean squared leave-one-out errors.
    labels : list of str
        Names of the operators.
    best : tuple of float
        The chosen alpha and its error.

    See Also
    --------
    KernelWeightsDisplay, ovk.OVKRidgeCV, ovk.FunctionalRidgeCV

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidgeCV
    >>> from ovk.plotting import LeaveOneOutDisplay
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> model = OVKRidgeCV(alphas=[0.1, 1.0], omegas=[0.0, 0.5]).fit(X, np.hstack([X, X]))
    >>> display = LeaveOneOutDisplay.from_estimator(model, plot=False)
    >>> display.labels, display.best[0]
    (['omega = 0.0', 'omega = 0.5'], 0.1)
    """

    alphas: Array
    errors: Array
    labels: list[str]
    best: tuple[float, float]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, plot: bool = True) -> Self:
        """The leave-one-out errors of a fitted `OVKRidgeCV` or `FunctionalRidgeCV`."""
        check_is_fitted(estimator)
        surface = estimator.errors_
        kernel = int(surface.min(axis=(1, 2)).argmin())
        names = _operator_names(estimator, surface.shape[1])
        o, a = np.unravel_index(surface[kernel].argmin(), surface[kernel].shape)
        best = (float(estimator.alphas_[a]), float(surface[kernel, o, a]))
        return cls(estimator.alphas_, surface[kernel], names, best)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax)
        shades = pyplot().get_cmap("viridis")(np.linspace(0.0, 0.85, len(self.errors)))
        for k, (errors, label) in enumerate(zip(self.errors, self.labels, strict=True)):
            ax.plot(self.alphas, errors, DASH_PATTERNS[k % len(DASH_PATTERNS)], color=shades[k], label=label or None)
        ax.plot(*self.best, "o", color="black", markersize=7, label="chosen", zorder=3)
        ax.set(xscale="log", yscale="log")
        plain_log_ticks(ax.yaxis)
        ax.set(xlabel="alpha", ylabel="mean squared leave-one-out error", title="Leave-one-out error")
        ax.legend(fontsize=8)
        return self


def _operator_names(estimator: Any, count: int) -> list[str]:
    if estimator.omegas is not None:
        return [f"omega = {omega}" for omega in estimator.omegas]
    if estimator.operators is not None:
        return [str(operator) for operator in estimator.operators]
    if getattr(estimator, "n_eigen", None) is not None:
        return [f"{number} eigenfunctions" for number in estimator.n_eigen]
    if count == 1:
        return [""]
    return [str(operator.kernel) for operator in default_operators(estimator.grid_)]


class KernelWeightsDisplay(Display):
    """Learned weights of a combination of kernels, as a matrix.

    Parameters
    ----------
    weights : (operators, scalars) array
        Weights by output operator (row) and scalar kernel (column), nan where there is no such kernel.
    scalars, operators : sequence of str
        Names of the scalar kernels and of the operators.

    See Also
    --------
    LeaveOneOutDisplay, ovk.MovKL

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MovKL
    >>> from ovk.plotting import KernelWeightsDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = MovKL(alpha=0.1, grid=np.linspace(0, 1, 10)).fit(X, np.sin(3 * np.linspace(0, 1, 10) + X))
    >>> KernelWeightsDisplay.from_estimator(model, plot=False).weights.max(axis=1).round(1)
    array([0.3, 0.2, 0.2])
    """

    weights: Array
    scalars: Sequence[str]
    operators: Sequence[str]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None, plot: bool = True) -> Self:
        """The learned weights of a `MovKL`."""
        check_is_fitted(estimator)
        kernels = estimator.kernel_.kernels
        operators, operator_of = distinct([kernel.operator for kernel in kernels])
        # Multiples of a kernel share a column, unless an operator has several of them.
        scalars, scalar_of = distinct([_unscaled(kernel.scalar) for kernel in kernels])
        if len(set(zip(operator_of, scalar_of, strict=True))) < len(kernels):
            scalars, scalar_of = distinct([kernel.scalar for kernel in kernels])
        weights = np.full((len(operators), len(scalars)), np.nan)
        weights[operator_of, scalar_of] = estimator.weights_
        names = [_name(operator) for operator in operators]
        return cls(weights, [_name(scalar) for scalar in scalars], names)._drawn(ax, plot)

    def plot(self, ax: Any = None) -> Self:
        rows, columns = self.weights.shape
        ax = self._axes(ax, (1.6 + 0.75 * columns, 1.6 + 0.5 * rows))
        most = max(float(np.nanmax(self.weights)), 1e-300)

        def text(value: float) -> str:
            return f"{value:.2f}" if value >= 0.005 else "0"

        draw_matrix(ax, self.weights, self.operators, self.scalars, (0.0, most), text, fontsize=8, aspect="auto")
        ax.set_title("kernel weights", fontsize=10)
        return self


def _unscaled(part: Any) -> Any:
    while isinstance(part, Scaled):
        part = part.kernel
    return part


def _name(part: Any) -> str:
    """The name of the class, with the length scale or degree."""
    part = _unscaled(part)
    inner = getattr(part, "kernel", None)
    for attribute in ("length_scale", "degree", "n_eigen"):
        value = getattr(part, attribute, None)
        if isinstance(value, (int, float)):
            return f"{type(part).__name__} {value:.3g}"
    if inner is not None and hasattr(inner, "get_params"):
        return f"{type(part).__name__} {_name(inner)}"
    return type(part).__name__


#: Maximum number of columns shown.
MAX_COLUMNS = 20


class RelevanceDisplay(Display):
    """Change of the predictions when a column is shuffled, by its name, in standard deviations of the outputs."""

    relevance: Mapping[str, float]

    def plot(self, ax: Any = None) -> Self:
        shown = sorted(self.relevance.items(), key=lambda pair: -pair[1])[:MAX_COLUMNS][::-1]
        ax = self._axes(ax, (4.6, 1.2 + 0.27 * len(shown)))
        ax.barh(range(len(shown)), [value for _, value in shown], color=SKY, edgecolor="black", linewidth=0.8)
        ax.set_yticks(range(len(shown)), [shortened(name, 22) for name, _ in shown], fontsize=8)
        ax.set_xlabel("change / standard deviation\nof the output", fontsize=8)
        more = f"\n(first {MAX_COLUMNS} of {len(self.relevance)})" if len(self.relevance) > MAX_COLUMNS else ""
        ax.set_title(f"Relevance of the inputs{more}", fontsize=10)
        return self
