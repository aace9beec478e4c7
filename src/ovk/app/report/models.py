"""What there is to see of a saved model: one picture, or one page."""

from __future__ import annotations

from functools import singledispatch
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from ovk.app.report.page import (
    figure,
    grid,
    number,
    pair,
    paragraphs,
    relevance_section,
    section,
    share,
    table,
    write_page,
)
from ovk.app.report.sections import class_table, recent_sections, score_table
from ovk.app.report.writer import closing_sections, report
from ovk.app.sessions import (
    OF_STREAMS,
    ClassSession,
    Fitted,
    FittedClasses,
    GroupErrors,
    Session,
    bad_rows_note,
    doubts,
    in_time,
    relevance,
    rows_tested,
    valid_for,
)
from ovk.batch import OKVAR, FunctionalRidge, FunctionalRidgeCV, MovKL, OVKRidgeCV
from ovk.curves import ProductGrid
from ovk.evaluation import CLASSIFICATION, ProgressiveResult
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
    >>> from ovk.app.report.models import ModelPicture
    >>> from ovk.app.sessions import Settings, fit_table
    >>> from ovk.app.tables import open_records
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
            ordered = isinstance(model, Session) or in_time(model.settings)
            display = RecentDisplay if ordered else ObservedDisplay
            display.from_recent(model.recent, q, name=name, ax=self.ax_)
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
    result : what `ClassSession.result` tells, or `progressive` of a classifier

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier, progressive
    >>> from ovk.app.report.models import ClassPicture
    >>> X = np.random.default_rng(0).standard_normal((200, 1))
    >>> result = progressive(AutoStreamClassifier(), X, X[:, 0] > 0)
    >>> len(ClassPicture(result).plot().figure_.axes)
    2
    """

    def __init__(self, result: ProgressiveResult) -> None:
        self.result = result

    def plot(self, ax: Any = None) -> ClassPicture:
        """Draw on a new figure; there are two axes."""
        if ax is not None:
            raise ValueError("a picture of a model has several axes of its own: leave ax out")
        self.figure_, (self.ax_, beside) = pyplot().subplots(1, 2, figsize=(9.8, 4.2), layout="constrained")
        ProgressiveErrorDisplay.from_result(self.result, axes=self.ax_)
        ConfusionDisplay.from_result(self.result, ax=beside)
        return self


@singledispatch
def model_display(model: Any) -> Display:
    """The picture of a model, drawn."""
    raise ValueError(
        f"there is no picture of {type(model).__name__}: models of `ovk stream` and `ovk fit` have one, and "
        "OVKRidgeCV, FunctionalRidge(CV), MovKL and OKVAR; for others see ovk.plotting in Python"
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


@model_display.register(FunctionalRidge)
@model_display.register(FunctionalRidgeCV)
def _curves(model: Any) -> Display:
    drawn = model.grid_ is not None and not isinstance(model.grid_, ProductGrid)
    if not drawn and isinstance(model, FunctionalRidgeCV):
        return LeaveOneOutDisplay.from_estimator(model)
    return FunctionalPredictionDisplay.from_left_out(model)


@model_display.register(MovKL)
def _movkl(model: Any) -> Display:
    return KernelWeightsDisplay.from_estimator(model)


@model_display.register(OKVAR)
def _okvar(model: Any) -> Display:
    return SeriesDisplay.from_estimator(model)


def model_page(model: Any, path: str | Path, title: str = "What was learned") -> Path:
    """Write what there is to see of a learned table as one HTML file."""
    if isinstance(model, Session):
        return report(model.result(), path, **{**model.for_report(), "title": title})
    if isinstance(model, (Fitted, FittedClasses)):
        pyplot()
        sections = _table_sections(model) if isinstance(model, Fitted) else _class_table_sections(model)
        return write_page(path, title, sections)
    raise TypeError(
        f"there is no page of {type(model).__name__}. What `progressive` returns has one, report(progressive(model, X, "
        "Y), path), and so does a file that was learned as a whole: report(ovk.fit_file(file, targets), path), or "
        "`ovk fit --report`. Pictures of an estimator are in ovk.plotting, and `ovk plot --out model.png`"
    )


def _table_sections(model: Fitted) -> list[str]:
    """What there is to see of a table that was learned as a whole."""
    mse, of_mean = model.errors
    outputs = list(model.settings.targets)
    explained = 1.0 - mse / np.where(of_mean > 0, of_mean, np.nan)
    lead = "Nothing can be said of the model: the outputs of the rows left out do not vary."
    if np.isfinite(explained).any():
        part = float(np.nanmean(explained))
        lead = f"The model explains {part:.0%} of the variance of rows that it had not seen."
        if part <= 0:
            lead = "The model predicts rows that it had not seen no better than their mean."
    fits = "a first fit on rows that it" if model.settings.groups is None else "first fits on rows that they"
    facts = [
        f"The errors are those of {fits} did not learn: {model.tested}. The model itself was then "
        f"learned from all rows. {_sentence(valid_for(model.settings))}",
        *_rows_read(model),
        f"Chosen by leaving out {'rows' if model.settings.groups is None else 'groups'}: {model.chosen()}.",
    ]
    shown = model.recent.shown
    columns = (np.sqrt(mse), np.sqrt(of_mean), explained, shown.coverage)
    rows = [
        [escape(name), number(error), number(error_of_mean), f"{r2:.3f}", share(held)]
        for name, error, error_of_mean, r2, held in zip(outputs, *columns, strict=True)
    ]
    head = ["output", "RMSE", "RMSE of the mean", "R2", f"inside {shown.percent} intervals"]
    scores = table("Errors on the rows left out", head, rows) + (
        "<p>RMSE is the root of the mean squared error, in units of the output; RMSE of the mean is that of predicting "
        "every row by the mean of the output; R2 is the share of the variance that the model explains.</p>"
    )
    found = relevance(model.predictor(), model.inputs)
    heading = "Predictions and outcomes of rows left out"
    ordered, measured = in_time(model.settings), _intervals_of(model)
    last, *others = recent_sections(model.recent, outputs, heading, ordered=ordered, measured=measured)
    settings = {**model.settings.get_params(deep=False), "learner": f"ridge regression, {model.chosen()}"}
    return [
        section("summary", "In short", pair(paragraphs(lead, facts), scores)),
        last,
        *others,
        *([relevance_section(found)] if found else []),
        *closing_sections(model.columns(), _of_tables(settings)),
    ]


def _class_table_sections(model: FittedClasses) -> list[str]:
    """What there is to see of a table of classes that was learned as a whole."""
    labels = model.preparation.classes()
    facts = [
        f"The scores are those of a first fit on rows that it did not learn: {rows_tested(model.settings)}. The model "
        "itself was then learned from all rows.",
        *_rows_read(model),
    ]
    picture = figure(ConfusionDisplay.from_counts(model.scores[0].confusion, labels), "Confusion of classes")
    text = paragraphs(CLASSIFICATION.conclusion(model.scores, labels), facts)
    settings = {**model.settings.get_params(deep=False), "learner": type(model.estimator).__name__}
    return [
        section("summary", "In short", pair(text, score_table(model.scores))),
        section("classes", "The classes", pair(class_table(model.scores[0], labels), grid([picture]))),
        *closing_sections((), _of_tables(settings)),
    ]


def _rows_read(model: Fitted | FittedClasses) -> list[str]:
    """How many rows there were, what could not be read of them, and which columns are no inputs."""
    known = model.n_known if isinstance(model, Fitted) else None
    read = f"{model.n_rows:,} rows were read."
    if known is not None and known < model.n_rows:
        without = f"{model.n_rows - known:,} of them without a known target"
        read = f"{model.n_rows:,} rows were read, {without}: {known:,} were learned."
    bad = [bad_rows_note(model.n_bad, model.faults)] if model.n_bad else []
    unused = [f"Column {name!r} is not used: {why}." for name, why in model.preparation.left_out_.items()]
    columns = model.columns() if isinstance(model, Fitted) else ()
    return [read, *bad, *unused, *doubts(model.preparation, columns)]


def _sentence(words: str) -> str:
    return f"{words[0].upper()}{words[1:]}."


def _intervals_of(model: Fitted) -> str:
    """How the intervals of a table were made and tested."""
    if isinstance(model.recent, GroupErrors):
        return (
            "An interval is as wide as the errors of groups that were left out, of which each has one vote. To test "
            "it, each group had intervals made from the errors of all others."
        )
    along = "earlier ones" if in_time(model.settings) else "those above them in the table"
    return (
        "An interval is as wide as the errors of the rows that were left out. To test it, each of these rows had one "
        f"made from the errors of {along} alone."
    )


def _of_tables(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings that apply to this table."""
    without = {*OF_STREAMS, "classify"}
    if not settings["lags"]:
        without |= {"lags", "horizon"}
    # What was not asked for.
    without |= {name for name in ("time", "ignore", "groups", "features", "coupling") if not settings[name]}
    return {name: value for name, value in settings.items() if name not in without}
