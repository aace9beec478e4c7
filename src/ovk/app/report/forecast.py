"""What follows the last rows of a series."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk.app.sessions import Forecast
from ovk.base import Array, as_dates
from ovk.evaluation import RecentErrors
from ovk.plotting import BLUE, Display, date_axis, draw_band, shortened

#: Most outputs that get axes of their own.
PANELS = 12


@dataclass(eq=False, repr=False)
class ForecastDisplay(Display):
    """The last outcomes `past` (m, d), followed by forecasts F (steps, d) with their intervals.

    `before` (m,) and `after` (steps,) tell when the rows are: dates, or numbers of rows from the last one on.
    """

    past: Array
    F: Array
    widths: Array
    names: Sequence[str]
    before: Any
    after: Any
    level: float | None = None

    @classmethod
    def from_forecast(
        cls, forecast: Forecast, recent: RecentErrors, *, rows: int | None = None, axes: Any = None, plot: bool = True
    ) -> Self:
        """A forecast after the last `rows` rows, by default three times as many as were forecast."""
        steps = len(forecast.F)
        count = min(len(recent.Y), 3 * steps if rows is None else rows)
        past = recent.Y[len(recent.Y) - count :, :PANELS]
        before: Any = np.arange(-count, 0) + 1
        after: Any = np.arange(1, steps + 1)
        if forecast.instants is not None and recent.instants is not None:
            instants = recent.instants[len(recent.Y) - count :]
            known = np.isfinite(instants)
            past, before, after = past[known], as_dates(instants[known]), as_dates(forecast.instants)
        F, widths = forecast.F[:, :PANELS], forecast.widths[:, :PANELS]
        display = cls(past, F, widths, forecast.outputs[:PANELS], before, after, forecast.level)
        return display.plot(axes) if plot else display

    def plot(self, ax: Any = None) -> Self:
        """Draw each output on its own axes, below each other."""
        dated = np.issubdtype(np.asarray(self.after).dtype, np.datetime64)
        d, band = len(self.names), "interval" if self.level is None else f"{100 * self.level:g}% interval"
        for q, panel in enumerate(self._panels(ax, d, 1, (1.0, 1.0), (6.2, 1.9), sharex=True)):
            if dated:
                date_axis(panel)
            half = np.where(np.isfinite(self.widths[:, q]), self.widths[:, q], np.nan)
            draw_band(panel, self.after, self.F[:, q], half, band)
            panel.plot(self.before, self.past[:, q], "k.-", markersize=3, linewidth=0.6, label="outcome")
            panel.plot(self.after, self.F[:, q], color=BLUE, marker=".", markersize=3, linewidth=1.5, label="forecast")
            panel.set_title(shortened(self.names[q], 60), fontsize=10, loc="left")
        self.axes_[-1].set_xlabel("" if dated else "rows from the last one on")
        handles = self.ax_.get_legend_handles_labels()
        self.figure_.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
        return self
