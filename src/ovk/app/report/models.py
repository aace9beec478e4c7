"""One picture of a saved model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ovk.app.sessions import LearnedTable, Summary
from ovk.batch import OKVAR, FunctionalRidge, FunctionalRidgeCV, MovKL, OVKRidgeCV
from ovk.curves import ProductGrid
from ovk.plotting import (
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
    pyplot,
    shortened,
)

#: Maximum number of outputs in a picture.
MAX_OUTPUTS = 6


class ModelPicture(Display):
    """The last predictions and outcomes, errors, intervals and relevance of the inputs of a learned table.

    For classes: the accuracy of the model and its baselines, and the confusion matrix.
    """

    summary: Summary

    def plot(self, ax: Any = None) -> ModelPicture:
        """Draw several axes on a new figure; `ax` must be None."""
        if ax is not None:
            raise ValueError("a picture of a model has several axes: omit ax")
        if not self.summary.task.numeric:
            return self._classes()
        result, recent, found = self.summary.result, self.summary.recent, self.summary.relevance()
        assert recent is not None
        outputs = list(self.summary.targets)[:MAX_OUTPUTS]
        count = len(outputs) * (1 + (result is not None)) + 1 + bool(found)
        columns = min(count, 2)
        lines = -(-count // columns)
        self.figure_, grid = pyplot().subplots(
            lines, columns, figsize=(4.9 * columns, 3.4 * lines), layout="constrained", squeeze=False
        )
        axes = iter(grid.reshape(-1))
        for q, name in enumerate(outputs):
            self.ax_ = next(axes)
            display = RecentDisplay if self.summary.ordered else ObservedDisplay
            display.from_recent(recent, q, name=name, ax=self.ax_)
            if result is not None:
                panel = next(axes)
                ProgressiveErrorDisplay.from_result(result, outputs=[q], axes=panel)
                panel.set_title(f"Errors of {shortened(name)}", fontsize=10)
        CalibrationDisplay.from_recent(recent, names=outputs, ax=next(axes))
        if found:
            RelevanceDisplay(dict(found)).plot(next(axes))
        for unused in axes:
            unused.remove()
        return self

    def _classes(self) -> ModelPicture:
        result, count = self.summary.result, 1 + (self.summary.result is not None)
        size = (4.9 * count, 4.2)
        self.figure_, grid = pyplot().subplots(1, count, figsize=size, layout="constrained", squeeze=False)
        self.ax_ = grid[0, -1]
        if result is not None:
            ProgressiveErrorDisplay.from_result(result, axes=grid[0, 0])
        ConfusionDisplay.from_counts(self.summary.learners[0].confusion, self.summary.names, ax=self.ax_)
        return self


def _curves(model: Any) -> Display:
    drawn = model.grid_ is not None and not isinstance(model.grid_, ProductGrid)
    if not drawn and isinstance(model, FunctionalRidgeCV):
        return LeaveOneOutDisplay.from_estimator(model)
    return FunctionalPredictionDisplay.from_left_out(model)


_DISPLAYS: dict[type, Callable[[Any], Display]] = {
    LearnedTable: lambda model: ModelPicture(model.summary()).plot(),
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
