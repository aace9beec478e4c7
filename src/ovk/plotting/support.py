"""How large a learner grew."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ovk.evaluation import ProgressiveResult
from ovk.plotting.display import Display


class SupportDisplay(Display):
    """Number of support points (or of the points of a dictionary) against the number of rows.

    Parameters
    ----------
    rows, sizes : (k,) points after so many rows

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.plotting import SupportDisplay
    >>> X = np.linspace(0, 9, 200)[:, None]
    >>> result = progressive(OLOK(truncation=50), X, np.sin(X))
    >>> SupportDisplay.from_result(result, plot=False).sizes[-1]
    np.int64(50)
    """

    def __init__(self, rows: npt.NDArray[np.int64], sizes: npt.NDArray[np.int64]) -> None:
        self.rows = rows
        self.sizes = sizes

    @classmethod
    def from_result(cls, result: ProgressiveResult, *, ax: Any = None, plot: bool = True) -> Self:
        """The growth along a progressive evaluation."""
        if result.support_rows is None or result.support_sizes is None:
            raise ValueError(f"{result.model.name} keeps no support points: there is no growth to draw")
        display = cls(result.support_rows, result.support_sizes)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax, (5.0, 3.4))
        ax.plot(self.rows, self.sizes, color="#0072B2", marker=".", linewidth=1.8)
        if len(self.rows) and self.rows[-1] > 10 * max(int(self.rows[0]), 1):
            ax.set_xscale("log")
            ax.xaxis.set_minor_formatter("")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("rows")
        ax.set_ylabel("support points")
        ax.set_title("How large the model grew")
        return self
