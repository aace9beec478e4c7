"""Which kernels were learned to matter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._types import Array
from ovk.grams.kronecker import distinct
from ovk.kernels.algebra import Scaled
from ovk.plotting.display import Display, write_cells


@dataclass(eq=False, repr=False)
class KernelWeightsDisplay(Display):
    """The weights of a combination of kernels: a row for each operator, a column for each scalar kernel.

    Parameters
    ----------
    weights : (operators, scalars), nan where there is no such kernel
    scalars, operators : their names

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import MovKL
    >>> from ovk.plotting import KernelWeightsDisplay
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = MovKL(alpha=0.1, grid=np.linspace(0, 1, 10)).fit(X, np.sin(3 * np.linspace(0, 1, 10) + X))
    >>> KernelWeightsDisplay.from_estimator(model, plot=False).weights.shape
    (3, 8)
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
        # The same kernel in another scale is the same column, unless an operator has both.
        scalars, scalar_of = distinct([_unscaled(kernel.scalar) for kernel in kernels])
        if len(set(zip(operator_of, scalar_of, strict=True))) < len(kernels):
            scalars, scalar_of = distinct([kernel.scalar for kernel in kernels])
        weights = np.full((len(operators), len(scalars)), np.nan)
        weights[operator_of, scalar_of] = estimator.weights_
        names = [_name(operator) for operator in operators]
        display = cls(weights, [_name(scalar) for scalar in scalars], names)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        rows, columns = self.weights.shape
        ax = self._axes(ax, (1.6 + 0.75 * columns, 1.6 + 0.5 * rows))
        # Light to dark: readable in grey and by everybody.
        most = max(float(np.nanmax(self.weights)), 1e-300)
        ax.imshow(self.weights, cmap="Blues", vmin=0.0, vmax=most, aspect="auto")
        write_cells(ax, self.weights, lambda value: f"{value:.2f}" if value >= 0.005 else "0", most)
        ax.set_xticks(range(columns), self.scalars, rotation=35, ha="right", fontsize=8)
        ax.set_yticks(range(rows), self.operators, fontsize=8)
        ax.set_title("kernel weights", fontsize=10)
        return self


def _unscaled(part: Any) -> Any:
    while isinstance(part, Scaled):
        part = part.kernel
    return part


def _name(part: Any) -> str:
    """A short name: the class, and its length or degree."""
    part = _unscaled(part)
    inner = getattr(part, "kernel", None)
    for attribute in ("length_scale", "degree", "n_eigen"):
        value = getattr(part, attribute, None)
        if isinstance(value, (int, float)):
            return f"{type(part).__name__} {value:.3g}"
    if inner is not None and hasattr(inner, "get_params"):
        return f"{type(part).__name__} {_name(inner)}"
    return type(part).__name__
