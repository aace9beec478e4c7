"""Sections of a page: predictions and outcomes, intervals, which outputs are related, errors along a stream, drift."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from ovk.app.report.page import WIDTH, figure, grid, grid_with_legend, pair, score_table, section
from ovk.app.sessions import Summary
from ovk.base import Array
from ovk.evaluation import DriftResult, ProgressiveResult, RecentErrors
from ovk.plotting import (
    ROWS,
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
    pyplot,
)

#: Most outputs with figures of their own; the tables have all of them.
MAX_OUTPUTS_DRAWN = 12

#: Most outputs in the graph of those that go together.
MAX_NODES = 40

#: How far the coverage of an interval may be from its level before a word is said about it.
TOLERANCE = 0.03


def recent_sections(recent: RecentErrors, outputs: Sequence[str], *, ordered: bool, intervals: str) -> list[str]:
    """Predictions and outcomes, intervals, and which outputs are related.

    Rows that are not `ordered` in time are drawn as outcomes against predictions. `intervals` says how the intervals of
    a table were tested; it is empty for streams.
    """
    heading = "Predictions and outcomes of " + ("rows left out" if intervals else "the last rows")
    return [
        section("recent", heading, _rows(recent, outputs, ordered=ordered)),
        section("calibration", "Intervals and residuals", _intervals(recent, outputs, intervals)),
        section("structure", "Which outputs go together", _structure(recent, outputs)),
    ]


def _rows(recent: RecentErrors, outputs: Sequence[str], *, ordered: bool) -> str:
    names = outputs[:MAX_OUTPUTS_DRAWN]
    shown = min(len(recent.Y), ROWS)
    words = ("The last predictions and outcomes of {}", "Outcomes of {} against their predictions")[not ordered]
    text = "<p>Each dot is a row: on the diagonal prediction and outcome agree.</p>"
    if ordered:
        text = f"<p>The last {shown} of {len(recent.Y):,} rows.</p>" if shown < len(recent.Y) else ""
    display = RecentDisplay if ordered else ObservedDisplay
    displays: list[Display] = [display.from_recent(recent, q, name=name) for q, name in enumerate(names)]
    return text + grid_with_legend(displays, [words.format(name) for name in names])


def error_section(result: ProgressiveResult | None) -> str:
    """Errors along the stream, beside those of the baselines; empty for a table."""
    if result is None:
        return ""
    outputs, total = list(result.outputs[:MAX_OUTPUTS_DRAWN]), len(result.outputs)
    more = f"<p>The first {MAX_OUTPUTS_DRAWN} of {total} outputs.</p>" if total > MAX_OUTPUTS_DRAWN else ""
    displays: list[Display] = []
    for output in outputs:
        _, ax = pyplot().subplots(figsize=(WIDTH, 2.7), layout="constrained")
        displays.append(ProgressiveErrorDisplay.from_result(result, outputs=[output], plot=False).plot(ax))
    words = [f"Mean squared error of {output} so far, beside baselines" for output in outputs]
    return section("errors", "Errors along the stream", more + grid_with_legend(displays, words))


def class_sections(summary: Summary) -> list[str]:
    """Accuracy along a stream, which classes are confused, and how often each was found."""
    display = ConfusionDisplay.from_counts(summary.learners[0].confusion, summary.names)
    confusion = figure(display, "Confusion of classes")
    found = score_table(summary.tables[1])
    if summary.result is None:
        return [section("classes", "The classes", pair(found, grid([confusion])))]
    curve = figure(ProgressiveErrorDisplay.from_result(summary.result), "Accuracy so far, beside baselines")
    return [
        section("errors", "Accuracy along the stream", grid([curve, confusion])),
        section("classes", "The classes", found, half=True),
    ]


def relevance_section(relevance: Mapping[str, float]) -> str:
    """How much each column matters, in words and bars."""
    text = (
        "<p>How much the predictions change when the values of a column are shuffled between rows. This shows what the "
        "model uses, not what causes what.</p>"
    )
    body = text + grid([figure(RelevanceDisplay(dict(relevance)).plot(), "Relevance of each column")])
    return section("relevance", "Which inputs matter", body, half=True)


#: How the intervals of a stream are tested.
TESTED_ALONG = "As soon as there were enough errors of earlier rows, predictions had intervals made from them."


def _intervals(recent: RecentErrors, outputs: Sequence[str], measured: str) -> str:
    if not recent.tested.any():
        return "<p>Too few rows to test intervals.</p>"
    display = CalibrationDisplay.from_recent(recent, names=list(outputs))
    text = (
        f"<p>{escape(measured or TESTED_ALONG)} The curves "
        "show how often the outcome fell inside: below the diagonal the intervals were too narrow, above it too wide. "
        "Bars are two standard errors: with few rows, points lie off the diagonal by chance.</p>"
        f"<p>{escape(_verdict(recent, outputs, stream=not measured))}</p>"
    )
    residuals = ResidualDisplay.from_recent(recent, names=list(outputs))
    coverage = figure(display, "Coverage of intervals against their level")
    return text + grid([coverage, figure(residuals, "Residuals of each output")])


def _verdict(recent: RecentErrors, outputs: Sequence[str], *, stream: bool) -> str:
    """Whether the intervals kept their level, and what to do if not."""
    shown = recent.shown
    level, coverage, tested, _ = shown
    # Beyond chance, and by more than anybody would mind.
    far = np.maximum(TOLERANCE, 3 * np.sqrt(level * (1 - level) / np.maximum(tested, 1)))
    off = [q for q in range(len(outputs)) if abs(coverage[q] - level) > far[q]]
    if not off:
        return f"Intervals of {shown.percent} contained about as many outcomes as they should."
    found = ", ".join(f"{coverage[q]:.0%} of {outputs[q]}" for q in off[:5])
    if not stream:
        why = "rows left out differ among each other more than by chance"
        return f"Intervals of {shown.percent} contained {found}: {why}."
    if any(coverage[q] < level for q in off):
        cure = (
            "errors changed along the rows, faster than intervals made from the last errors follow. In Python, the "
            f"intervals of progressive(..., intervals={level:g}) follow them row by row"
        )
    else:
        cure = "errors have become smaller along the rows: later intervals will be narrower"
    return f"Intervals of {shown.percent} contained {found}: {cure}."


def _structure(recent: RecentErrors, outputs: Sequence[str]) -> str:
    outcomes, errors = _correlation(recent.Y), _correlation(recent.Y - recent.F)
    names = list(outputs)
    if len(names) == 1:
        return "<p>There is one output.</p>"
    if len(names) == 2:
        return (
            f"<p>The correlation of {escape(names[0])} and {escape(names[1])} is {outcomes[0, 1]:.2f}, that of their "
            f"errors {errors[0, 1]:.2f}: what is left in the errors is information that the model has not used.</p>"
        )
    figures = []
    for what, correlations in (("outcomes", outcomes), ("errors", errors)):
        display = OutputStructureDisplay(correlations, names).plot()
        display.ax_.set_title(f"Correlation of the {what}", fontsize=10)
        figures.append(figure(display, f"Correlation matrix of the {what}"))
    few = outcomes[:MAX_NODES, :MAX_NODES]
    figures.append(figure(OutputGraphDisplay(few, names[:MAX_NODES]).plot(), "Graph of the outputs"))
    text = (
        "<p>Outputs whose outcomes are correlated can help to predict each other. Correlation that is left in the "
        "errors is information that the model has not used.</p>"
    )
    return text + grid(figures)


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


# What a report says of drift.

#: Most outputs whose shrinking windows are told in words.
MAX_OUTPUTS_NAMED = 4
#: What the pictures of a report show, with their heights.
PANELS = (("Recent losses and alarms", 2.8), ("Weights of the experts", 3.9), ("Effective windows", 3.1))
#: What a report says of the picture.
LOSSES = (
    "Each point of the curve is the mean loss of the rows since the point before it. Dashed vertical lines are alarms "
    "of the Page-Hinkley test: losses have risen."
)
EXPERTS = (
    " Beside it, how much weight each expert had, and how many rows the learner effectively looked back on: the window "
    "shrinks when the data change."
)


def drift_section(result: ProgressiveResult | None) -> str:
    """The section of a report about drift; empty for a table, and where the stream was too short."""
    if result is None or result.drift is None or len(result.drift.rows) < 2:
        return ""
    text = LOSSES + (EXPERTS if len(result.drift.experts) else "")
    display = DriftDisplay.from_result(result, plot=False)
    names = PANELS if len(result.drift.experts) else PANELS[:1]
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
    """What the alarms and the windows mean, and what to do."""
    shrunk = _shrunk(drift, outputs)
    if not drift.alarms:
        calm = "There was no alarm: the losses did not rise for long."
        return f"{calm} But {shrunk}" if shrunk else calm
    several = len(drift.alarms) > 1
    times = f"There were {len(drift.alarms)} alarms, the last" if several else "There was one alarm,"
    if len(drift.experts):
        cure = "The model follows changes by itself; if the losses stay high, look for an input that is missing."
    else:
        cure = (
            "Look at what happened in the data there. If the losses stay high after it, use a model that forgets "
            "(ovk stream without --model), or learn again from the later rows."
        )
    worse = f"{times} at row {drift.alarms[-1]:,}: from about there the predictions became worse. {cure}"
    return f"{worse} {shrunk[0].upper()}{shrunk[1:]}" if shrunk else worse


def _shrunk(drift: DriftResult, outputs: Sequence[str]) -> str:
    """Which effective windows shrank a lot, and when; empty if none did."""
    found = drift.shrunk()
    if not found:
        return ""
    told: list[str] = []
    for one in found[:MAX_OUTPUTS_NAMED]:
        name = f" of {outputs[one.output]}" if drift.windows.shape[1] > 1 and one.output < len(outputs) else ""
        subject = f"that{name}" if told else f"the effective window{name} shrank"
        told.append(f"{subject} from {one.before:,.0f} to {one.after:,.0f} rows by row {one.row:,}")
    rest = len(found) - MAX_OUTPUTS_NAMED
    more = f", and those of {rest} more outputs as well" if rest > 0 else ""
    return (
        f"{', '.join(told)}{more}: experts that forget had become better, which is the learner's own sign that the "
        "data changed."
    )
