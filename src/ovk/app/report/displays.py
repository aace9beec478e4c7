"""Plots of saved models and of forecasts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ovk.app.sessions import Forecast, LearnedTable, Summary
from ovk.base import Array, as_dates
from ovk.batch import OKVAR, FunctionalRidge, FunctionalRidgeCV, MovKL, OVKRidgeCV
from ovk.curves import ProductGrid
from ovk.evaluation import RecentErrors
from ovk.plotting import (
    BLUE,
    CalibrationDisplay,
    ConfusionDisplay,
    Display,
    FunctionalPredictionDisplay,
    KernelWeightsDisplay,
    LeaveOneOutDisplay,
    ObservedDisplay,
    ProgressiveErrorDisplay,
    RecentDisplay,
    RelevanceDisplay,
    SeriesDisplay,
    date_axis,
    draw_band,
    shortened,
)

#: Maximum number of outputs in a figure.
MAX_OUTPUTS = 6


class ModelDisplay(Display):
    """The last predictions and outcomes, errors, intervals and relevance of the inputs of a learned table.

    For classes: the accuracy of the model and its baselines, and the confusion matrix.
    """

    summary: Summary

    def plot(self, ax: Any = None) -> ModelDisplay:
        """Draw on a new figure, or on an array of axes."""
        summary, result = self.summary, self.summary.result
        if not summary.task.numeric:
            count = 1 + (result is not None)
            axes = self._panels(ax, count, count, (0.0, 0.0), (4.9, 4.2))
            if result is not None:
                ProgressiveErrorDisplay.from_result(result, axes=axes[0])
            ConfusionDisplay.from_counts(summary.learners[0].confusion, summary.names, ax=axes[-1])
            return self
        recent, found = summary.recent, summary.relevance()
        assert recent is not None
        outputs = list(summary.targets)[:MAX_OUTPUTS]
        count = len(outputs) * (1 + (result is not None)) + 1 + bool(found)
        axes = iter(self._panels(ax, count, min(count, 2), (0.0, 0.0), (4.9, 3.4)))
        display = RecentDisplay if summary.ordered else ObservedDisplay
        for q, name in enumerate(outputs):
            display.from_recent(recent, q, name=name, ax=next(axes))
            if result is not None:
                panel = next(axes)
                ProgressiveErrorDisplay.from_result(result, outputs=[q], axes=panel)
                panel.set_title(f"Errors of {shortened(name)}", fontsize=10)
        CalibrationDisplay.from_recent(recent, names=outputs, ax=next(axes))
        if found:
            RelevanceDisplay(dict(found)).plot(next(axes))
        return self


def _curves(model: Any) -> Display:
    drawn = model.grid_ is not None and not isinstance(model.grid_, ProductGrid)
    if not drawn and isinstance(model, FunctionalRidgeCV):
        return LeaveOneOutDisplay.from_estimator(model)
    return FunctionalPredictionDisplay.from_leave_one_out(model)


_DISPLAYS: dict[type, Callable[[Any], Display]] = {
    LearnedTable: lambda model: ModelDisplay(model.summary()).plot(),
    OVKRidgeCV: LeaveOneOutDisplay.from_estimator,
    FunctionalRidge: _curves,
    FunctionalRidgeCV: _curves,
    MovKL: KernelWeightsDisplay.from_estimator,
    OKVAR: SeriesDisplay.from_estimator,
}


def model_display(model: Any) -> Display:
    for kind, display in _DISPLAYS.items():
        if isinstance(model, kind):
            return display(model)
    raise ValueError(
        f"`ovk plot` does not support {type(model).__name__}; it supports models saved by `ovk stream` and `ovk fit`, "
        "OVKRidgeCV, FunctionalRidge(CV), MovKL and OKVAR"
    )


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
