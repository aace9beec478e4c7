"""The report of a result or a model: one self-contained HTML file without scripts."""

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
    number,
    pair,
    score_table,
    section,
    share,
    table,
    write_page,
)
from ovk.app.sessions import LearnedTable, Summary, bad_rows_note, result_summary
from ovk.app.tables import UNUSED
from ovk.base import Array
from ovk.evaluation import DriftResult, ProgressiveResult, RecentErrors
from ovk.plotting import (
    CalibrationDisplay,
    ConfusionDisplay,
    Display,
    DriftDisplay,
    ObservedDisplay,
    OutputGraphDisplay,
    OutputStructureDisplay,
    ProgressiveErrorDisplay,
    RecentDisplay,
    RelevanceDisplay,
    ResidualDisplay,
    SupportDisplay,
    pyplot,
)

#: Maximum number of columns of a table next to the text.
MAX_COLUMNS_NEXT_TO_TEXT = 4

#: Maximum number of columns in the summary of the data.
MAX_COLUMNS_LISTED = 40


def report(
    what: ProgressiveResult | LearnedTable | Summary,
    path: str | Path,
    *,
    title: str = "Results",
    notes: Sequence[str] = (),
) -> Path:
    """Write a report as one self-contained HTML file: scores, figures, intervals and settings.

    Parameters
    ----------
    what : ProgressiveResult, Session, TableModel or Summary
        The result of `progressive`, or a model learned from a file.
    path : str or Path
        The file to write.
    title : str, default "Results"
        Heading of the page.
    notes : sequence of str, default ()
        Sentences to put first.

    Returns
    -------
    Path
        The path of the file.

    See Also
    --------
    progressive, fit_file

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from ovk import OLOK, progressive
    >>> from ovk.app.report import report
    >>> X = np.linspace(0, 9, 300)[:, None]
    >>> result = progressive(OLOK(), X, np.hstack([np.sin(X), np.cos(X)]), keep="all")
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     page = report(result, os.path.join(directory, "report.html")).read_text(encoding="utf-8")
    >>> page.startswith("<!doctype html>"), "://" in page
    (True, False)
    """
    if not isinstance(what, (ProgressiveResult, LearnedTable, Summary)):
        raise TypeError(
            f"report() does not support {type(what).__name__}. Pass the result of fit_file() or progressive(); "
            "ovk.plotting has plots of estimators"
        )
    if isinstance(what, ProgressiveResult):
        if len(what.rows) == 0:
            raise ValueError("the result has no errors to report: its stream had no rows")
        what = result_summary(what)
    summary = what.summary() if isinstance(what, LearnedTable) else what
    pyplot()
    return write_page(path, title, [part for part in _sections(summary, notes) if part])


def _sections(summary: Summary, notes: Sequence[str]) -> list[str]:
    result, recent = summary.result, summary.recent
    relevance = summary.relevance()
    matters = relevance_section(relevance) if relevance else ""
    first, *others = "", ""
    if recent is not None:
        first, *others = recent_sections(recent, summary.targets, ordered=summary.ordered, intervals=summary.intervals)
    sections = [section("summary", "Summary", _overview(summary, notes)), first]
    if not summary.task.numeric:
        sections += [*class_sections(summary), matters, drift_section(result)]
    else:
        sections += [error_section(result), drift_section(result)]
        sections += [matters, *others] if result is not None else [*others, matters]
    if result is not None and result.support_rows is not None:
        growth = grid([figure(SupportDisplay.from_result(result), "Growth")])
        sections.append(section("growth", "Size of the model", growth))
    if summary.columns:
        sections.append(section("data", "Data", _data(summary), half=True))
    return [*sections, section("settings", "Settings and versions", _settings(summary), half=True)]


def _overview(summary: Summary, notes: Sequence[str]) -> str:
    unused = (pair for pair in summary.readings.items() if pair[1].startswith(UNUSED))
    facts = [
        *notes,
        *(f"{words[0].upper()}{words[1:].removesuffix('.')}." for words in summary.sentences),
        *([bad_rows_note(summary.n_bad, summary.bad_rows)] if summary.n_bad else []),
        *(f"Column {name!r} is not used: {reading.removeprefix(UNUSED)}." for name, reading in unused),
        *summary.warnings,
    ]
    text = f'<p class="lead">{escape(summary.conclusion)}</p>' + "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    # The table of the classes has its own section.
    tables = summary.tables if summary.task.numeric else summary.tables[:1]
    scores = "".join(map(score_table, tables)) + (f"<p>{escape(summary.note)}</p>" if summary.note else "")
    narrow = max(len(one.columns) for one in tables) <= MAX_COLUMNS_NEXT_TO_TEXT
    return pair(text, scores) if narrow else text + scores


def _data(summary: Summary) -> str:
    # Only columns that are not inputs show their role, which leaves more room for the numbers.
    rows = [
        [escape(name if role == "input" else f"{name} ({role})"), share(seen, 1), number(mean), number(spread)]
        for name, role, seen, mean, spread in summary.columns[:MAX_COLUMNS_LISTED]
    ]
    rest = len(summary.columns) - MAX_COLUMNS_LISTED
    more = f"<p>{rest:,} more columns.</p>" if rest > 0 else ""
    return table("", ["column", "observed", "mean", "standard deviation"], rows) + more


def _settings(summary: Summary) -> str:
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
    both = {**{name: _setting(value) for name, value in summary.settings.items()}, **versions}
    return table("", ["", ""], [[escape(name), escape(value)] for name, value in both.items()], words=2)


def _setting(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return "default" if value is None else str(value)


#: Maximum number of outputs with figures; the tables show all outputs.
MAX_OUTPUTS_DRAWN = 12

#: Maximum number of outputs in the graph of related outputs.
MAX_NODES = 40

#: Deviation of the coverage from the level above which the report comments on it.
COVERAGE_TOLERANCE = 0.03


def recent_sections(recent: RecentErrors, outputs: Sequence[str], *, ordered: bool, intervals: str) -> list[str]:
    """Predictions and outcomes, intervals, and related outputs.

    Rows that are not `ordered` in time are drawn as outcomes against predictions. `intervals` describes how the
    intervals of a table were tested; it is empty for streams.
    """
    heading = "Predictions and outcomes of " + ("held-out rows" if intervals else "the last rows")
    return [
        section("recent", heading, _rows(recent, outputs, ordered=ordered)),
        section("calibration", "Intervals and residuals", _intervals(recent, outputs, intervals)),
        section("structure", "Related outputs", _structure(recent, outputs)),
    ]


def _rows(recent: RecentErrors, outputs: Sequence[str], *, ordered: bool) -> str:
    names = outputs[:MAX_OUTPUTS_DRAWN]
    shown = min(len(recent.Y), RecentDisplay.DEFAULT_ROWS)
    words = ("The last predictions and outcomes of {}", "Outcomes of {} against their predictions")[not ordered]
    text = "<p>Each dot is a row; on the diagonal, prediction and outcome agree.</p>"
    if ordered:
        text = f"<p>The last {shown} of {len(recent.Y):,} rows.</p>" if shown < len(recent.Y) else ""
    display = RecentDisplay if ordered else ObservedDisplay
    displays: list[Display] = [display.from_recent(recent, q, name=name) for q, name in enumerate(names)]
    return text + grid_with_legend(displays, [words.format(name) for name in names])


def error_section(result: ProgressiveResult | None) -> str:
    """Errors of the model and its baselines along the stream; empty for a table."""
    if result is None:
        return ""
    outputs, total = list(result.outputs[:MAX_OUTPUTS_DRAWN]), len(result.outputs)
    more = f"<p>The first {MAX_OUTPUTS_DRAWN} of {total} outputs.</p>" if total > MAX_OUTPUTS_DRAWN else ""
    displays: list[Display] = []
    for output in outputs:
        _, ax = pyplot().subplots(figsize=(WIDTH, 2.7), layout="constrained")
        displays.append(ProgressiveErrorDisplay.from_result(result, outputs=[output], plot=False).plot(ax))
    words = [f"Running mean squared error of {output}, with baselines" for output in outputs]
    return section("errors", "Errors along the stream", more + grid_with_legend(displays, words))


def class_sections(summary: Summary) -> list[str]:
    """Accuracy along a stream, confusion matrix, and recall of each class."""
    display = ConfusionDisplay.from_counts(summary.learners[0].confusion, summary.names)
    confusion = figure(display, "Confusion of classes")
    found = score_table(summary.tables[1])
    if summary.result is None:
        return [section("classes", "Classes", pair(found, grid([confusion])))]
    curve = figure(ProgressiveErrorDisplay.from_result(summary.result), "Running accuracy, with baselines")
    return [
        section("errors", "Accuracy along the stream", grid([curve, confusion])),
        section("classes", "Classes", found, half=True),
    ]


def relevance_section(relevance: Mapping[str, float]) -> str:
    text = (
        "<p>Change in the predictions when a column is shuffled. This measures what the model uses, not causation.</p>"
    )
    body = text + grid([figure(RelevanceDisplay(dict(relevance)).plot(), "Relevance of each column")])
    return section("relevance", "Relevance of the inputs", body, half=True)


STREAM_INTERVALS = "Intervals were computed from the errors of earlier rows, once there were enough of them."


def _intervals(recent: RecentErrors, outputs: Sequence[str], measured: str) -> str:
    if not recent.tested.any():
        return "<p>Too few rows to test intervals.</p>"
    display = CalibrationDisplay.from_recent(recent, names=list(outputs))
    text = (
        f"<p>{escape(measured or STREAM_INTERVALS)} The curves show how often the interval contained the outcome: "
        "below the diagonal, intervals were too narrow; above it, too wide. Bars are two standard errors: with few "
        "rows, points deviate from the diagonal by chance.</p>"
        f"<p>{escape(_coverage_comment(recent, outputs, stream=not measured))}</p>"
    )
    residuals = ResidualDisplay.from_recent(recent, names=list(outputs))
    coverage = figure(display, "Coverage of intervals against their level")
    return text + grid([coverage, figure(residuals, "Residuals of each output")])


def _coverage_comment(recent: RecentErrors, outputs: Sequence[str], *, stream: bool) -> str:
    """Whether the coverage agrees with the level, and a remedy if not."""
    shown = recent.shown
    level, coverage, tested, _ = shown
    # Statistically significant, and large enough to matter.
    far = np.maximum(COVERAGE_TOLERANCE, 3 * np.sqrt(level * (1 - level) / np.maximum(tested, 1)))
    off = [q for q in range(len(outputs)) if abs(coverage[q] - level) > far[q]]
    if not off:
        return f"The coverage of the {shown.percent} intervals agrees with their level."
    if not stream:
        advice = "errors change along the held-out rows by more than chance"
    elif any(coverage[q] < level for q in off):
        advice = (
            "errors changed along the rows, faster than the intervals adapt. In Python, the intervals of "
            f"progressive(..., intervals={level:g}) adapt row by row"
        )
    else:
        advice = "errors have decreased along the rows; later intervals will be narrower"
    found = ", ".join(f"{coverage[q]:.0%} of {outputs[q]}" for q in off[:5])
    return f"{shown.percent} intervals contained {found}: {advice}."


def _structure(recent: RecentErrors, outputs: Sequence[str]) -> str:
    outcomes, errors = _correlation(recent.Y), _correlation(recent.Y - recent.F)
    names = list(outputs)
    if len(names) == 1:
        return "<p>There is only one output.</p>"
    if len(names) == 2:
        return (
            f"<p>The correlation of {escape(names[0])} and {escape(names[1])} is {outcomes[0, 1]:.2f}, that of their "
            f"errors {errors[0, 1]:.2f}. Correlation in the errors is information that the model has not used.</p>"
        )
    figures = []
    for what, correlations in (("outcomes", outcomes), ("errors", errors)):
        display = OutputStructureDisplay(correlations, names).plot()
        display.ax_.set_title(f"Correlation of the {what}", fontsize=10)
        figures.append(figure(display, f"Correlation matrix of the {what}"))
    few = outcomes[:MAX_NODES, :MAX_NODES]
    figures.append(figure(OutputGraphDisplay(few, names[:MAX_NODES]).plot(), "Graph of the outputs"))
    text = (
        "<p>Outputs with correlated outcomes can help to predict each other. Correlation in the errors is information "
        "that the model has not used.</p>"
    )
    return text + grid(figures)


def _correlation(A: Array) -> Array:
    """(d, d) correlations over the rows where both outputs are known; 0 if there are too few."""
    d = A.shape[1]
    result = np.eye(d)
    for i in range(d):
        for j in range(i):
            known = np.isfinite(A[:, i]) & np.isfinite(A[:, j])
            x, y = A[known, i], A[known, j]
            if len(x) > 2 and x.std() > 0 and y.std() > 0:
                result[i, j] = result[j, i] = np.corrcoef(x, y)[0, 1]
    return result


#: Maximum number of outputs whose shrinking windows are listed.
MAX_OUTPUTS_LISTED = 4
#: Titles of the figures about drift, with their heights in inches.
DRIFT_PANELS = (("Recent losses and alarms", 2.8), ("Weights of the experts", 3.9), ("Effective windows", 3.1))
LOSSES = (
    "Each point is the mean loss since the previous point. Dashed vertical lines are alarms of the Page-Hinkley test, "
    "which detects rising losses."
)
EXPERTS = (
    " The other figures show the weight of each expert, and the effective window: the number of past rows that the "
    "learner uses, which shrinks when the data change."
)


def drift_section(result: ProgressiveResult | None) -> str:
    """The section about drift; empty for a table or a short stream."""
    if result is None or result.drift is None or len(result.drift.rows) < 2:
        return ""
    text = LOSSES + (EXPERTS if len(result.drift.experts) else "")
    display = DriftDisplay.from_result(result, plot=False)
    names = DRIFT_PANELS if len(result.drift.experts) else DRIFT_PANELS[:1]
    axes = [pyplot().subplots(figsize=(WIDTH, height), layout="constrained")[1] for _, height in names]
    display.plot(axes)
    for ax in axes:
        ax.set_xlabel("rows")
        ax.xaxis.set_major_formatter("{x:,.0f}")
        if ax.get_legend_handles_labels()[0]:
            ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.25), frameon=False)
    pictures = grid([figure(ax.figure, name) for ax, (name, _) in zip(axes, names, strict=True)])
    body = f"<p>{text}</p><p>{escape(_advice(result.drift, display.outputs))}</p>{pictures}"
    return section("drift", "Drift", body, half=len(axes) == 1)


def _advice(drift: DriftResult, outputs: Sequence[str]) -> str:
    """What the alarms and the windows mean, and a remedy."""
    shrunk = _shrunk(drift, outputs)
    if not drift.alarms:
        return f"No drift alarm was raised. {shrunk}".rstrip()
    several = len(drift.alarms) > 1
    times = f"There were {len(drift.alarms)} alarms, the last" if several else "There was one alarm,"
    if len(drift.experts):
        advice = "The model adapts to drift; if the losses stay high, an input may be missing."
    else:
        advice = (
            "Check the data there. If the losses stay high, use a model that adapts to drift (ovk stream without "
            "--model), or learn only the later rows."
        )
    return f"{times} at row {drift.alarms[-1]:,}, where predictions became worse. {advice} {shrunk}".rstrip()


def _shrunk(drift: DriftResult, outputs: Sequence[str]) -> str:
    """A sentence about the effective windows that shrank, empty if none did."""
    found = drift.shrunk()
    if not found:
        return ""
    listed: list[str] = []
    for one in found[:MAX_OUTPUTS_LISTED]:
        name = f" of {outputs[one.output]}" if drift.windows.shape[1] > 1 and one.output < len(outputs) else ""
        subject = f"that{name}" if listed else f"The effective window{name} shrank"
        listed.append(f"{subject} from {one.before:,.0f} to {one.after:,.0f} rows by row {one.row:,}")
    rest = len(found) - MAX_OUTPUTS_LISTED
    more = f", and those of {rest} more outputs" if rest > 0 else ""
    return f"{', '.join(listed)}{more}: forgetting experts became better, which indicates that the data changed."
