"""Sections of a page about the last rows: predictions and outcomes, intervals, which outputs go together."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ovk._types import Array
from ovk.evaluation import Recent
from ovk.plotting.graph import OutputGraphDisplay
from ovk.plotting.observed import ObservedDisplay
from ovk.plotting.output_structure import OutputStructureDisplay
from ovk.plotting.page import figure, grid, grid_with_legend, section
from ovk.plotting.recent import ROWS, CalibrationDisplay, RecentDisplay, ResidualDisplay

#: Most outputs with figures of their own; the tables have all of them.
FIGURES = 12

#: Most outputs in the graph of those that go together.
NODES = 40

#: How far the coverage of an interval may be from its level before a word is said about it.
TOLERANCE = 0.03


def recent_sections(
    recent: Recent,
    outputs: Sequence[str],
    heading: str = "Predictions and outcomes of the last rows",
    *,
    ordered: bool = True,
    measured: str = "",
) -> list[str]:
    """What the last rows tell: predictions and outcomes, intervals, and which outputs go together.

    Rows that are not `ordered` in time are drawn as outcomes against predictions. `measured` says how the intervals
    were tested, for those that are not of a stream.
    """
    return [
        section("recent", heading, _last_rows(recent, outputs) if ordered else _any_rows(recent, outputs)),
        section("calibration", "Intervals and residuals", _intervals(recent, outputs, measured)),
        section("structure", "Which outputs go together", _structure(recent, outputs)),
    ]


def _last_rows(recent: Recent, outputs: Sequence[str]) -> str:
    names = outputs[:FIGURES]
    displays = [RecentDisplay.from_recent(recent, q, name=name) for q, name in enumerate(names)]
    shown = min(len(recent.Y), ROWS)
    more = f"<p>The last {shown} of {len(recent.Y):,} rows.</p>" if shown < len(recent.Y) else ""
    return more + grid_with_legend(displays, [f"The last predictions and outcomes of {name}" for name in names])


def _any_rows(recent: Recent, outputs: Sequence[str]) -> str:
    names = outputs[:FIGURES]
    displays = [ObservedDisplay.from_recent(recent, q, name=name) for q, name in enumerate(names)]
    text = "<p>Each dot is a row: on the diagonal prediction and outcome agree.</p>"
    return text + grid_with_legend(displays, [f"Outcomes of {name} against their predictions" for name in names])


#: How the intervals of a stream are tested.
ALONG = "As soon as there were enough errors of earlier rows, predictions had intervals made from them."


def _intervals(recent: Recent, outputs: Sequence[str], measured: str) -> str:
    if not recent.tested.any():
        return "<p>Too few rows to test intervals.</p>"
    display = CalibrationDisplay.from_recent(recent, names=list(outputs))
    text = (
        f"<p>{escape(measured or ALONG)} The curves "
        "show how often the outcome fell inside: below the diagonal the intervals were too narrow, above it too wide. "
        "Bars are two standard errors: with few rows, points lie off the diagonal by chance.</p>"
        f"<p>{escape(_verdict(recent, outputs, stream=not measured))}</p>"
    )
    residuals = ResidualDisplay.from_recent(recent, names=list(outputs))
    return text + grid(
        [
            figure(display, "Coverage of intervals against their level"),
            figure(residuals, "Residuals of each output"),
        ]
    )


def _verdict(recent: Recent, outputs: Sequence[str], *, stream: bool) -> str:
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


def _structure(recent: Recent, outputs: Sequence[str]) -> str:
    outcomes, errors = _correlation(recent.Y), _correlation(recent.Y - recent.F)
    names = list(outputs)
    if len(names) == 1:
        return "<p>There is one output.</p>"
    if len(names) == 2:
        return (
            f"<p>The correlation of {escape(names[0])} and {escape(names[1])} is {outcomes[0, 1]:.2f}, that of their "
            f"errors {errors[0, 1]:.2f}: what is left in the errors is information that the model has not used.</p>"
        )
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
