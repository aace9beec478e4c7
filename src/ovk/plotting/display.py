"""The base of all plots: compute first, draw when asked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Self


def pyplot() -> Any:
    """matplotlib.pyplot, or a message that says what to install."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: install it with  pip install 'ovk[plot]'") from error
    return plt


class Display(ABC):
    """A plot in the manner of scikit-learn: made by a class method from an estimator, holding the numbers it shows.

    After `plot`, `figure_` and `ax_` are matplotlib's; call `plot` again with other axes or another style.
    """

    figure_: Any
    ax_: Any

    @abstractmethod
    def plot(self, ax: Any = None) -> Self:
        """Draw on `ax`, or on a new figure."""

    def _axes(self, ax: Any, size: tuple[float, float] = (5.0, 4.0)) -> Any:
        if ax is None:
            _, ax = pyplot().subplots(figsize=size, layout="constrained")
        self.ax_, self.figure_ = ax, ax.figure
        return ax
