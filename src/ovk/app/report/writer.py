"""One HTML file that tells what was learned. It needs no network and runs no script."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from ovk._version import __version__
from ovk.app.report.page import (
    WIDTH,
    figure,
    grid,
    grid_with_legend,
    model_heading,
    number,
    pair,
    paragraphs,
    relevance_section,
    section,
    share,
    table,
    write_page,
)
from ovk.app.report.sections import FIGURES, class_sections, drift_section, recent_sections
from ovk.app.sessions import TableModel
from ovk.base import Array, as_instants
from ovk.evaluation import LEVEL, ProgressiveResult, RecentErrors
from ovk.plotting import ProgressiveErrorDisplay, SupportDisplay, pyplot

#: Most learners whose errors fit beside the text.
BESIDE = 4

#: Most inputs in the summary of the data.
INPUTS = 40


def report(
    result: ProgressiveResult | TableModel,
    path: str | Path,
    *,
    title: str = "What was learned",
    summary: Sequence[tuple[str, str, float, float, float]] = (),
    recent: RecentErrors | None = None,
    settings: Mapping[str, object] | None = None,
    notes: Sequence[str] = (),
    seconds: float | None = None,
    relevance: Mapping[str, float] | None = None,
    conclusion: str | None = None,
) -> Path:
    """Write a report of a progressive evaluation, or of a learned table: one HTML file that needs no network.

    Parameters
    ----------
    result : what `progressive` returned, or what was learned from a file: a `Session`, or
        what `fit_table`, `fit_files` and `fit_classes` of `ovk.app.sessions` return, which need only `path` and
        `title`
    path : the file to write
    title : its heading
    summary : for each column its name, its role, share of its values that were observed, their mean and standard
        deviation
    recent : the last predictions and outcomes, for intervals, residuals and correlations; by default those that the
        result kept (``keep="all"``)
    settings : names and values of what was chosen
    notes : sentences to put first
    seconds : how long it all took
    relevance : how much each column matters, by its name
    conclusion : the sentence on top; by default how the model compares with its best baseline

    Returns
    -------
    the path

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.app.report import report
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]), keep="all")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report(result, os.path.join(folder, "report.html")).read_text(encoding="utf-8")
    >>> page.startswith("<!doctype html>"), "://" in page
    (True, False)
    """
    if not isinstance(result, ProgressiveResult):
        # It imports this module.
        from ovk.app.report.models import model_page

        return model_page(result, path, title)
    if len(result.rows) == 0:
        raise ValueError("the result holds no errors, since its stream had no rows: there is nothing to report")
    pyplot()
    if not result.task.numeric:
        parts = class_sections(result, notes, seconds, conclusion)
        parts += [relevance_section(relevance) if relevance else "", drift_section(result)]
    else:
        recent = _kept(result) if recent is None else recent
        recent = recent if recent is not None and len(recent.Y) else None
        deviations = {name: sd for name, role, _, _, sd in summary if role == "output"}
        short = _short(result, notes, seconds, conclusion, deviations, recent)
        last, *others = [""] if recent is None else recent_sections(recent, result.outputs)
        parts = [
            section("summary", "In short", short),
            last,
            section("errors", "Errors along the stream", _errors(result)),
            drift_section(result),
            relevance_section(relevance) if relevance else "",
            *others,
        ]
        if result.support_rows is not None:
            growth = grid([figure(SupportDisplay.from_result(result), "Growth")])
            parts.append(section("growth", "Size of the model", growth))
    return write_page(path, title, [*parts, *closing_sections(summary, settings or {})])


def _kept(result: ProgressiveResult) -> RecentErrors | None:
    """The last rows of a result that kept them."""
    if result.predictions is None or result.targets is None:
        return None
    d = len(result.outputs)
    F, Y = result.predictions.reshape(-1, d), result.targets.reshape(-1, d)
    recent = RecentErrors.empty(d, level=LEVEL if result.intervals is None else result.intervals.target)
    instants = as_instants(result.times)
    recent.update(F[result.untested :], Y[result.untested :], None if instants is None else instants[result.untested :])
    return recent


def _short(
    result: ProgressiveResult,
    notes: Sequence[str],
    seconds: float | None,
    conclusion: str | None,
    deviations: Mapping[str, float],
    recent: RecentErrors | None,
) -> str:
    learners = (result.model, *result.baselines)
    tested = result.n_rows - result.untested
    facts = [
        f"{tested:,} rows were predicted before they were learned, after a warm-up of {result.untested:,}.",
        *notes,
    ]
    if seconds is not None:
        facts.append(f"Learning took {seconds:,.1f} seconds.")
    names = [model_heading(result.model.name), *(one.name for one in result.baselines)]
    errors = [learner.mse for learner in learners]
    caption = "Mean squared errors, the smallest in bold"
    scores = error_table(caption, result.outputs, names, errors, result.mae, deviations, recent)
    text = paragraphs(conclusion or result.conclusion(), facts)
    return pair(text, scores) if len(names) <= BESIDE else text + scores


def error_table(
    caption: str,
    outputs: Sequence[str],
    names: Sequence[str],
    errors: Sequence[Array],
    mae: Array,
    deviations: Mapping[str, float],
    recent: RecentErrors | None,
) -> str:
    """Errors of the model and of what it is compared with, the smallest in bold; its RMSE, MAE, R2 and intervals.

    Parameters
    ----------
    names, errors : of the learners, the model first; (d,) mean squared errors each
    mae : (d,) mean absolute errors of the model
    deviations : standard deviations of the outputs, by name, for R2; of those that are known
    recent : the last rows, for coverage and width of intervals; None leaves them out
    """
    rows = []
    for output, *values in zip(outputs, *(error.tolist() for error in errors), strict=True):
        best = min((value for value in values if np.isfinite(value)), default=None)
        cells = [f"<b>{number(value)}</b>" if value == best else number(value) for value in values]
        rows.append([escape(output), *cells])
    compared = table(caption, ["output", *map(escape, names)], rows)
    columns = {"RMSE": [number(value) for value in np.sqrt(errors[0])], "MAE": [number(value) for value in mae]}
    if deviations:
        sd = np.array([deviations.get(output, np.nan) for output in outputs])
        columns["R2"] = [number(value) for value in 1.0 - errors[0] / np.where(sd > 0, sd, np.nan) ** 2]
    parts = [compared, _columns_table("Errors of the model", outputs, columns)]
    if recent is not None:
        shown = recent.shown
        columns = {f"outcomes inside {shown.percent} intervals": [share(one) for one in shown.coverage]}
        columns["median width of the last ones"] = [number(one) for one in shown.width]
        parts.append(_columns_table("Intervals of the model", outputs, columns))
    return "".join(parts)


def _columns_table(caption: str, outputs: Sequence[str], columns: Mapping[str, list[str]]) -> str:
    """A table with a line for each output."""
    rows = [[escape(output), *cells] for output, *cells in zip(outputs, *columns.values(), strict=True)]
    return table(caption, ["output", *columns], rows)


def _errors(result: ProgressiveResult) -> str:
    outputs = list(result.outputs[:FIGURES])
    more = f"<p>The first {FIGURES} of {len(result.outputs)} outputs.</p>" if len(result.outputs) > FIGURES else ""
    displays = []
    for output in outputs:
        _, ax = pyplot().subplots(figsize=(WIDTH, 2.7), layout="constrained")
        displays.append(ProgressiveErrorDisplay.from_result(result, outputs=[output], plot=False).plot(ax))
    return more + grid_with_legend(
        displays, [f"Mean squared error of {output} so far, beside baselines" for output in outputs]
    )


def closing_sections(
    summary: Sequence[tuple[str, str, float, float, float]], settings: Mapping[str, object]
) -> list[str]:
    """The columns of the table, beside the settings and versions."""
    parts = [section("data", "The data", _data(summary), half=True)] if summary else []
    return [*parts, section("settings", "Settings and versions", settings_table(settings), half=True)]


def _data(summary: Sequence[tuple[str, str, float, float, float]]) -> str:
    # Most columns are inputs: only the others say what they are, so that a phone has room for the numbers.
    rows = [
        [escape(name if role == "input" else f"{name} ({role})"), share(seen, 1), number(mean), number(spread)]
        for name, role, seen, mean, spread in summary[:INPUTS]
    ]
    more = f"<p>{len(summary) - INPUTS:,} more columns.</p>" if len(summary) > INPUTS else ""
    return table("Columns", ["column", "known", "mean", "standard deviation"], rows) + more


def settings_table(settings: Mapping[str, object]) -> str:
    """What was chosen, and the versions of what ran."""
    import scipy
    import sklearn

    versions = {
        "ovk": __version__,
        "Python": platform.python_version(),
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "system": platform.platform(terse=True),
    }
    both = {**{name: _setting(value) for name, value in settings.items()}, **versions}
    return table("", ["", ""], [[escape(name), escape(value)] for name, value in both.items()], words=2)


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else str(value)
