"""What a report tells of a stream of classes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ovk.evaluation import ClassificationResult
from ovk.plotting.classes import ClassAccuracyDisplay, ConfusionDisplay
from ovk.plotting.drift import DRIFT, DriftDisplay
from ovk.plotting.page import figure, grid, number, section, table

#: Scores of the table, with the attribute of `ClassScores`, and whether the largest is the best.
SCORES = (
    ("accuracy", "accuracy", True),
    ("balanced accuracy", "balanced_accuracy", True),
    ("kappa", "kappa", True),
    ("log loss", "log_loss", False),
    ("AUC", "auc", True),
)


def class_sections(result: ClassificationResult, notes: Sequence[str], seconds: float | None) -> list[str]:
    """Scores, curves, drift and classes."""
    parts = [
        section("summary", "In short", _short(result, notes, seconds)),
        section(
            "errors",
            "Accuracy as the stream went",
            grid(
                [
                    figure(ClassAccuracyDisplay.from_result(result), "Accuracy so far, beside baselines"),
                    figure(ConfusionDisplay.from_result(result), "Confusion of classes"),
                ]
            ),
        ),
        section("classes", "The classes", _classes(result)),
    ]
    if len(result.drift.rows) > 1:
        shown = figure(DriftDisplay.from_result(result), "Losses of late, alarms and experts")
        parts.insert(2, section("drift", "Drift", DRIFT + shown))
    return parts


def _short(result: ClassificationResult, notes: Sequence[str], seconds: float | None) -> str:
    learners = (result.model, *result.baselines)
    facts = [
        f"{result.n_rows - result.untested:,} rows were predicted before they were learned, after a warm-up of "
        f"{result.untested:,}.",
        *([f"{result.n_missing:,} rows had no label: they were not learned."] if result.n_missing else []),
        *notes,
        *([] if seconds is None else [f"It took {seconds:,.1f} seconds."]),
    ]
    rows = []
    for name, attribute, largest in SCORES:
        values = np.array([getattr(one, attribute) for one in learners])
        best = np.nanmax(values) if largest else np.nanmin(values)
        cells = [f"<b>{number(value)}</b>" if value == best else number(value) for value in values.tolist()]
        rows.append([name, *cells])
    text = "".join(f"<p>{escape(fact)}</p>" for fact in facts)
    return text + table("Scores, the best in bold", ["", *(escape(one.name) for one in learners)], rows)


def _classes(result: ClassificationResult) -> str:
    counts, recall = result.model.confusion.sum(axis=1), result.model.recall
    total = max(counts.sum(), 1.0)
    rows = [
        [escape(str(label)), f"{int(count):,}", f"{count / total:.1%}", number(share)]
        for label, count, share in zip(result.classes.tolist(), counts, recall.tolist(), strict=True)
    ]
    return table("Rows tested of each class, and the share that was found", ["class", "rows", "", "recall"], rows)
