"""What learning as one goes cost against knowing all in hindsight."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from ovk._validation import Array
from ovk.evaluation import Regret
from ovk.plotting.display import Display


class RegretDisplay(Display):
    """Regret against the number of rows: flat where the learner does as well as the best fixed function.

    Parameters
    ----------
    rows : (checkpoints,)
    curve, regularised : (checkpoints,) regret against the comparator's loss, and against its loss plus its penalty

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OLOK, OVKRidge, progressive
    >>> from ovk.evaluation import regret
    >>> from ovk.plotting import RegretDisplay
    >>> X = np.linspace(0, 9, 200)[:, None]
    >>> found = regret(progressive(OLOK(), X, np.sin(X), keep="all"), OVKRidge())
    >>> RegretDisplay.from_regret(found, plot=False).curve.shape == found.rows.shape
    True
    """

    def __init__(self, rows: npt.NDArray[np.int64], curve: Array, regularised: Array) -> None:
        self.rows = rows
        self.curve = curve
        self.regularised = regularised

    @classmethod
    def from_regret(cls, found: Regret, *, ax: Any = None, plot: bool = True) -> Self:
        """The curves of `ovk.evaluation.regret`."""
        display = cls(found.rows, found.curve, found.regularised_curve)
        return display.plot(ax) if plot else display

    def plot(self, ax: Any = None) -> Self:
        ax = self._axes(ax)
        ax.axhline(0, color="0.6", linewidth=1)
        ax.plot(self.rows, self.curve, color="#0072B2", linewidth=2, label="against its loss")
        ax.plot(
            self.rows,
            self.regularised,
            color="#D55E00",
            linestyle="--",
            linewidth=1.5,
            label="against loss and penalty",
        )
        if self.rows[-1] > 10 * self.rows[0]:
            ax.set_xscale("log")
        ax.set_xlabel("rows")
        ax.set_ylabel("regret")
        ax.set_title("Regret against the best function in hindsight")
        ax.legend(fontsize=8)
        return self
