"""One HTML file that tells what was learned. It needs no network and runs no script."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from ovk._types import Array
from ovk._version import __version__
from ovk.evaluation import ClassificationResult, ProgressiveResult, Recent
from ovk.plotting.class_report import class_sections
from ovk.plotting.display import pyplot
from ovk.plotting.drift import drift_section
from ovk.plotting.graph import OutputGraphDisplay
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.page import figure, grid, number, relevance_section, section, table, write_page
from ovk.plotting.progressive import ProgressiveErrorDisplay, SupportDisplay
from ovk.plotting.recent import CalibrationDisplay, RecentDisplay, ResidualDisplay

#: Most outputs with figures of their own; the tables have all of them.
FIGURES = 12

#: Most outputs in the graph of those that go together.
NODES = 40

#: Most inputs in the summary of the data.
INPUTS = 40


def report(
    result: ProgressiveResult | ClassificationResult,
    path: str | Path,
    *,
    title: str = "What was learned",
    summary: Sequence[tuple[str, str, float, float, float]] = (),
    recent: Recent | None = None,
    settings: Mapping[str, object] | None = None,
    notes: Sequence[str] = (),
    seconds: float | None = None,
    relevance: Mapping[str, float] | None = None,
    conclusion: str | None = None,
) -> Path:
    """Write a report of a progressive evaluation: one HTML file that needs no network.

    Parameters
    ----------
    result : what `progressive` or `progressive_classes` returned
    path : the file to write
    title : its heading
    summary : for each column its name, its role, part of its values that were seen, their mean and deviation
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
    >>> from ovk.plotting import report
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]), keep="all")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = report(result, os.path.join(folder, "report.html")).read_text(encoding="utf-8")
    >>> page.startswith("<!doctype html>"), "://" in page
    (True, False)
    """
    if not isinstance(result, (ProgressiveResult, ClassificationResult)):
        raise TypeError(
            f"result must be what `progressive` returns, got {type(result).__name__}: evaluate the model first, as in "
            "report(progressive(model, X, Y), path)"
        )
    if len(result.rows) == 0:
        raise ValueError("the result holds no errors, since its stream had no rows: there is nothing to report")
    pyplot()
    if isinstance(result, ClassificationResult):
        parts = class_sections(result, notes, seconds, conclusion)
    else:
        recent = _kept(result) if recent is None else recent
        last, *others = recent_sections(recent, result.outputs) if recent is not None and len(recent.Y) else [""]
        parts = [
            section("summary", "In short", _short(result, notes, seconds, conclusion)),
            last,
            section("errors", "Errors along the stream", _errors(result)),
            drift_section(result),
            *others,
        ]
    if relevance:
        parts.append(relevance_section(relevance))
    if isinstance(result, ProgressiveResult) and result.support_rows is not None:
        parts.append(section("growth", "Size of the model", figure(SupportDisplay.from_result(result), "Growth")))
    if summary:
        parts.append(section("data", "The data", _data(summary)))
    parts.append(section("settings", "Settings and versions", settings_table(settings or {})))
    return write_page(path, title, parts)


def _kept(result: ProgressiveResult) -> Recent | None:
    """The last rows of a result that kept them."""
    if result.predictions is None or result.targets is None:
        return None
    d = len(result.outputs)
    F, Y = result.predictions.reshape(-1, d), result.targets.reshape(-1, d)
    recent = Recent.empty(d)
    recent.update(F[result.untested :], Y[result.untested :])
    return recent


def _short(result: ProgressiveResult, notes: Sequence[str], seconds: float | None, conclusion: str | None) -> str:
    learners = (result.model, *result.baselines)
    tested = result.n_rows - result.untested
    facts = [
        f"{tested:,} rows were predicted before they were learned, after a warm-up of {result.untested:,}.",
        *notes,
    ]
    if seconds is not None:
        facts.append(f"It took {seconds:,.1f} seconds.")
    lead = f'<p class="lead">{escape(conclusion or result.conclusion())}</p>'
    text = lead + "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    names = [learner.name for learner in learners]
    rows = []
    for q, output in enumerate(result.outputs):
        errors = [float(learner.mse[q]) for learner in learners]
        known = [error for error in errors if np.isfinite(error)]
        best = min(known) if known else None
        cells = [f"<b>{number(error)}</b>" if error == best else number(error) for error in errors]
        rows.append([escape(output), *cells])
    return text + table("Mean squared errors, the smallest in bold", ["output", *map(escape, names)], rows)


def _errors(result: ProgressiveResult) -> str:
    outputs = list(result.outputs[:FIGURES])
    more = f"<p>The first {FIGURES} of {len(result.outputs)} outputs.</p>" if len(result.outputs) > FIGURES else ""
    figures = []
    for output in outputs:
        display = ProgressiveErrorDisplay.from_result(result, outputs=[output], plot=False)
        _, ax = pyplot().subplots(figsize=(4.6, 3.6), layout="constrained")
        display.plot(ax)
        # Below, where there is no curve to hide.
        ax.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.2), frameon=False, handlelength=3.0)
        figures.append(figure(display, f"Mean squared error of {output} so far, beside baselines"))
    return more + grid(figures)


def recent_sections(recent: Recent, outputs: Sequence[str]) -> list[str]:
    """What the last rows tell: predictions and outcomes, intervals, and which outputs go together."""
    return [
        section("recent", "Predictions and outcomes of the last rows", _last_rows(recent, outputs)),
        section("calibration", "Intervals and residuals", _intervals(recent, outputs)),
        section("structure", "Which outputs go together", _structure(recent, outputs)),
    ]


def _last_rows(recent: Recent, outputs: Sequence[str]) -> str:
    figures = [
        figure(RecentDisplay.from_recent(recent, q, name=name), f"The last predictions and outcomes of {name}")
        for q, name in enumerate(outputs[:FIGURES])
    ]
    return grid(figures)


def _intervals(recent: Recent, outputs: Sequence[str]) -> str:
    if not recent.tested.any():
        return "<p>Too few rows to test intervals.</p>"
    display = CalibrationDisplay.from_recent(recent, names=list(outputs))
    text = (
        "<p>Every prediction had an interval, computed from the errors before it. The curves show how often the "
        "outcome fell inside: below the diagonal the intervals were too narrow, above it too wide.</p>"
    )
    residuals = ResidualDisplay.from_recent(recent, names=list(outputs))
    return text + grid(
        [
            figure(display, "Coverage of intervals against their level"),
            figure(residuals, "Residuals of each output"),
        ]
    )


def _structure(recent: Recent, outputs: Sequence[str]) -> str:
    outcomes, errors = _correlation(recent.Y), _correlation(recent.Y - recent.F)
    names = list(outputs)
    if len(names) == 1:
        return "<p>There is one output.</p>"
    heat = OutputStructureDisplay(outcomes, names).plot()
    heat.ax_.set_title("Correlation of the outcomes", fontsize=10)
    left = OutputStructureDisplay(errors, names).plot()
    left.ax_.set_title("Correlation of the errors", fontsize=10)
    text = (
        "<p>Outputs whose outcomes are correlated can help to predict each other. Correlation that is left in the "
        "errors is information that the model has not used.</p>"
    )
    return text + grid(
        [
            figure(heat, "Correlation matrix of the outcomes"),
            figure(left, "Correlation matrix of the errors"),
            figure(OutputGraphDisplay(outcomes[:NODES, :NODES], names[:NODES]).plot(), "Graph of the outputs"),
        ]
    )


def _correlation(A: Array) -> Array:
    """(d, d) correlations over the rows where both are known; 0 where there are too few."""
    d = A.shape[1]
    result = np.eye(d)
    for i in range(d):
        for j in range(i):
            known = np.isfinite(A[:, i]) & np.isfinite(A[:, j])
            x, y = A[known, i], A[known, j]
            if len(x) > 2 and x.std() > 0 and y.std() > 0:
                result[i, j] = result[j, i] = np.corrcoef(x, y)[0, 1]
    return result


def _data(summary: Sequence[tuple[str, str, float, float, float]]) -> str:
    rows = [
        [escape(name), escape(role), f"{seen:.1%}", number(mean), number(spread)]
        for name, role, seen, mean, spread in summary[:INPUTS]
    ]
    more = f"<p>{len(summary) - INPUTS:,} more columns.</p>" if len(summary) > INPUTS else ""
    return table("Columns", ["column", "role", "seen", "mean", "deviation"], rows) + more


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
