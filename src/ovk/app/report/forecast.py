"""Plot of a forecast after the last rows of a series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk.app.sessions import Forecast
from ovk.base import Array, as_dates
from ovk.evaluation import RecentErrors
from ovk.plotting import BLUE, Display, date_axis, draw_band, shortened

#: Maximum number of outputs that are drawn.
MAX_PANELS = 12


class ForecastDisplay(Display):
    """The last outcomes `past` (m, d), followed by forecasts F (steps, d) with their intervals.

    `before` (m,) and `after` (steps,) are the positions of the rows: dates, or numbers of rows after the last one.
    """

    past: Array
    F: Array
    widths: Array
    names: Sequence[str]
    before: Any
    after: Any
    level: float | None = None

    @classmethod
    def from_forecast(cls, forecast: Forecast, recent: RecentErrors) -> Self:
        """Draw a forecast after three times as many past rows."""
        steps = len(forecast.F)
        count = min(len(recent.Y), 3 * steps)
        past = recent.Y[len(recent.Y) - count :, :MAX_PANELS]
        before: Any = np.arange(-count, 0) + 1
        after: Any = np.arange(1, steps + 1)
        if forecast.instants is not None and recent.instants is not None:
            instants = recent.instants[len(recent.Y) - count :]
            known = np.isfinite(instants)
            past, before, after = past[known], as_dates(instants[known]), as_dates(forecast.instants)
        F, widths = forecast.F[:, :MAX_PANELS], forecast.widths[:, :MAX_PANELS]
        return cls(past, F, widths, forecast.outputs[:MAX_PANELS], before, after, forecast.level).plot()

    def plot(self, ax: Any = None) -> Self:
        """Draw each output on its own axes."""
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
        self.axes_[-1].set_xlabel("" if dated else "rows after the last one")
        handles = self.ax_.get_legend_handles_labels()
        self.figure_.legend(*handles, loc="outside upper center", ncols=3, frameon=False)
        return self
