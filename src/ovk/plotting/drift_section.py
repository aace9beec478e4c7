"""What a report says of drift."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ovk.evaluation import ClassificationResult, DriftResult, ProgressiveResult
from ovk.plotting.display import pyplot
from ovk.plotting.drift import DriftDisplay
from ovk.plotting.page import WIDTH, grid, picture, section

#: Most outputs whose shrinking windows are told in words.
NAMED = 4
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


def drift_section(result: ProgressiveResult | ClassificationResult) -> str:
    """The section of a report about drift; empty where the stream was too short."""
    if result.drift is None or len(result.drift.rows) < 2:
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
    pictures = grid([picture(ax.figure, name) for ax, (name, _) in zip(axes, names, strict=True)])
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
    for one in found[:NAMED]:
        name = f" of {outputs[one.output]}" if drift.windows.shape[1] > 1 and one.output < len(outputs) else ""
        subject = "that" if told else "the effective window"
        shrank = "" if told else " shrank"
        told.append(f"{subject}{name}{shrank} from {one.before:,.0f} to {one.after:,.0f} rows by row {one.row:,}")
    more = f", and those of {len(found) - NAMED} more outputs as well" if len(found) > NAMED else ""
    return (
        f"{', '.join(told)}{more}: experts that forget had become better, which is the learner's own sign that the "
        "data changed."
    )
