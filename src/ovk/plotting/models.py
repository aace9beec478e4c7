"""What there is to see of a saved model: one picture, or one page."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ovk.batch import OKVAR, MovKL, OVKRidgeCV
from ovk.evaluation import ClassificationResult
from ovk.plotting.autoregression import SeriesDisplay
from ovk.plotting.classes import ClassAccuracyDisplay, ConfusionDisplay
from ovk.plotting.display import Display, pyplot, shortened
from ovk.plotting.kernel_weights import KernelWeightsDisplay
from ovk.plotting.leave_one_out import LeaveOneOutDisplay
from ovk.plotting.page import number, relevance_section, section, table, write_page
from ovk.plotting.progressive import ProgressiveErrorDisplay
from ovk.plotting.recent import CalibrationDisplay, RecentDisplay
from ovk.plotting.relevance import RelevanceDisplay
from ovk.plotting.report import recent_sections, report, settings_table
from ovk.sessions import ClassSession, Fitted, FittedClasses, Session
from ovk.sessions.relevance import relevance

#: Most outputs in a picture.
OUTPUTS = 6


class ModelPicture(Display):
    """A learned table in one picture: the last predictions and outcomes, errors, intervals, relevance of the inputs.

    Parameters
    ----------
    model : a `Session` or a `Fitted`

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.plotting.models import ModelPicture
    >>> from ovk.sessions import Settings, fit_table
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("x,y\\n" + "".join(f"{i % 7},{i % 7}\\n" for i in range(100)))
    ...     with open_records(path) as records:
    ...         fitted = fit_table(records, Settings(["y"]))
    >>> len(ModelPicture(fitted).plot().figure_.axes)
    3
    """

    def __init__(self, model: Session | Fitted) -> None:
        self.model = model

    def plot(self, ax: Any = None) -> ModelPicture:
        """Draw on a new figure; there are several axes."""
        if ax is not None:
            raise ValueError("a picture of a model has several axes of its own: leave ax out")
        model = self.model
        outputs = list(model.settings.targets)[:OUTPUTS]
        found = relevance(model.predictor(), model.inputs)
        count = len(outputs) * (2 if isinstance(model, Session) else 1) + 1 + bool(found)
        columns = min(count, 2)
        lines = -(-count // columns)
        self.figure_, grid = pyplot().subplots(
            lines, columns, figsize=(4.9 * columns, 3.4 * lines), layout="constrained", squeeze=False
        )
        axes = iter(grid.reshape(-1))
        for q, name in enumerate(outputs):
            self.ax_ = next(axes)
            RecentDisplay.from_recent(model.recent, q, name=name, ax=self.ax_)
            if isinstance(model, Session):
                panel = next(axes)
                ProgressiveErrorDisplay.from_result(model.result(), outputs=[q], axes=panel)
                panel.set_title(f"Errors of {shortened(name)}", fontsize=10)
        CalibrationDisplay.from_recent(model.recent, names=outputs, ax=next(axes))
        if found:
            RelevanceDisplay(found).plot(next(axes))
        for unused in axes:
            unused.remove()
        return self


class ClassPicture(Display):
    """A learned stream of classes in one picture: accuracy beside the baselines, and which classes are confused.

    Parameters
    ----------
    result : what `ClassSession.result` tells, or `progressive_classes`

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier
    >>> from ovk.evaluation import progressive_classes
    >>> from ovk.plotting.models import ClassPicture
    >>> X = np.random.default_rng(0).standard_normal((200, 1))
    >>> result = progressive_classes(AutoStreamClassifier(), X, X[:, 0] > 0)
    >>> len(ClassPicture(result).plot().figure_.axes)
    2
    """

    def __init__(self, result: ClassificationResult) -> None:
        self.result = result

    def plot(self, ax: Any = None) -> ClassPicture:
        """Draw on a new figure; there are two axes."""
        if ax is not None:
            raise ValueError("a picture of a model has several axes of its own: leave ax out")
        self.figure_, (self.ax_, beside) = pyplot().subplots(1, 2, figsize=(9.8, 4.2), layout="constrained")
        ClassAccuracyDisplay.from_result(self.result, ax=self.ax_)
        ConfusionDisplay.from_result(self.result, ax=beside)
        return self


@singledispatch
def model_display(model: Any) -> Display:
    """The picture of a model, drawn."""
    raise ValueError(
        f"there is no picture of {type(model).__name__}: models of `ovk stream` and `ovk fit` have one, and "
        "OVKRidgeCV, MovKL and OKVAR; for others see ovk.plotting in Python"
    )


@model_display.register(Session)
@model_display.register(Fitted)
def _table_model(model: Any) -> Display:
    return ModelPicture(model).plot()


@model_display.register(ClassSession)
def _class_session(model: Any) -> Display:
    return ClassPicture(model.result()).plot()


@model_display.register(FittedClasses)
def _class_table(model: Any) -> Display:
    return ConfusionDisplay.from_counts(model.scores[0].confusion, model.preparation.classes())


@model_display.register(OVKRidgeCV)
def _ridge(model: Any) -> Display:
    return LeaveOneOutDisplay.from_estimator(model)


@model_display.register(MovKL)
def _movkl(model: Any) -> Display:
    return KernelWeightsDisplay.from_estimator(model)


@model_display.register(OKVAR)
def _okvar(model: Any) -> Display:
    return SeriesDisplay.from_estimator(model)


def model_page(model: Any, path: Path, label: str) -> None:
    """Write what there is to see of a learned table as one HTML file."""
    if isinstance(model, Session):
        report(model.result(), path, **model.for_report(label))
        return
    if not isinstance(model, Fitted):
        raise ValueError(f"there is no page of {type(model).__name__}: give --out a name that ends in .png or .svg")
    mse, of_mean = model.errors
    outputs = list(model.settings.targets)
    explained = 1.0 - mse / np.where(of_mean > 0, of_mean, np.nan)
    rows = [[escape(name), *map(number, (mse[q], of_mean[q], explained[q]))] for q, name in enumerate(outputs)]
    lead = (
        f"The model explains {np.nanmean(explained):.0%} of the variance of the rows that were left out of a first fit."
        if np.isfinite(explained).any()
        else "Nothing can be said of the model: the outputs of the rows left out do not vary."
    )
    alphas = ", ".join(f"{alpha:.3g}" for alpha in np.atleast_1d(model.estimator.alpha))
    kernel = f"The kernel is {model.estimator.kernel_!r}, alpha is {alphas}."
    text = f'<p class="lead">{lead}</p><p>{model.n_rows:,} rows were read. {escape(kernel)}</p>'
    short = table("Mean squared errors of the rows left out", ["output", "model", "mean", "R2"], rows)
    found = relevance(model.predictor(), model.inputs)
    parts = [
        section("summary", "In short", text + short),
        *recent_sections(model.recent, outputs),
        *([relevance_section(found)] if found else []),
        section("settings", "Settings and versions", settings_table(model.settings.get_params(deep=False))),
    ]
    write_page(path, f"What was learned from {label}", parts)
