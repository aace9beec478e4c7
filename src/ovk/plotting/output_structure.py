"""Which outputs go together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._types import Array
from ovk.plotting.display import Display, own_names, shortened, write_cells


@dataclass(eq=False, repr=False)
class OutputStructureDisplay(Display):
    """An output operator as a matrix of correlations between outputs.

    Parameters
    ----------
    correlation : (d, d)
    names : names of the outputs, optional

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.kernels import Gaussian
    >>> from ovk.operators import MixedEffect
    >>> from ovk.plotting import OutputStructureDisplay
    >>> model = OVKRidge(Gaussian() * MixedEffect(0.5)).fit(np.eye(3), np.eye(3))
    >>> OutputStructureDisplay.from_estimator(model, plot=False).correlation
    array([[1. , 0.5, 0.5],
           [0.5, 1. , 0.5],
           [0.5, 0.5, 1. ]])
    """

    correlation: Array
    names: Sequence[str] | None = None

    @classmethod
    def from_estimator(
        cls, estimator: Any, *, names: Sequence[str] | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """The prior correlation of outputs at one point: K(x, x) of the fitted kernel with a unit diagonal."""
        check_is_fitted(estimator)
        blocks = estimator.kernel_.diagonal_blocks(estimator.X_fit_[:100]).mean(axis=0)
        return cls.from_matrix(blocks, names=own_names(estimator, names), ax=ax, plot=plot)

    @classmethod
    def from_matrix(
        cls, matrix: Array, *, names: Sequence[str] | None = None, ax: Any = None, plot: bool = True
    ) -> Self:
        """The correlations of a covariance matrix (d, d)."""
        scale = np.sqrt(np.maximum(np.diagonal(matrix), 1e-300))
        display = cls(matrix / np.outer(scale, scale), names)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        d = len(self.correlation)
        ax = self._axes(ax, (1.6 + 0.45 * max(d, 4), 1.2 + 0.4 * max(d, 4)))
        # Blue and red are safe for the colour-blind; in grey both ends look alike, and the numbers tell them apart.
        image = ax.imshow(self.correlation, vmin=-1, vmax=1, cmap="RdBu")
        labels = [str(q) for q in range(d)] if self.names is None else [shortened(name, 18) for name in self.names]
        ax.set_xticks(range(d), labels, rotation=45 if self.names else 0, ha="right" if self.names else "center")
        ax.set_yticks(range(d), labels)
        if d <= 12:
            write_cells(ax, self.correlation, "{:.2f}".format, 1.0)
        ax.figure.colorbar(image, ax=ax, label="correlation", shrink=0.8)
        ax.set_title("Which outputs go together")
        return self
