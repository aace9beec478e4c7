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
