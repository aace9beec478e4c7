"""What a report tells of a stream of classes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from ovk.evaluation import ClassificationResult, ClassScores
from ovk.evaluation.class_conclusion import class_conclusion
from ovk.plotting.classes import ClassAccuracyDisplay, ConfusionDisplay
from ovk.plotting.page import figure, grid, model_heading, number, pair, paragraphs, section, table

#: Scores of the table, with the attribute of `ClassScores`, and whether the largest is the best.
SCORES = (
    ("accuracy", "accuracy", True),
    ("balanced accuracy", "balanced_accuracy", True),
    ("kappa", "kappa", True),
    ("log loss", "log_loss", False),
    ("AUC", "auc", True),
)


def class_sections(
    result: ClassificationResult, notes: Sequence[str], seconds: float | None, conclusion: str | None = None
) -> list[str]:
    """Scores, curves and classes."""
    curves = [
        figure(ClassAccuracyDisplay.from_result(result), "Accuracy so far, beside baselines"),
        figure(ConfusionDisplay.from_result(result), "Confusion of classes"),
    ]
    return [
        section("summary", "In short", _short(result, notes, seconds, conclusion)),
        section("errors", "Accuracy along the stream", grid(curves)),
        section("classes", "The classes", class_table(result.model, result.classes.tolist()), half=True),
    ]


def _short(result: ClassificationResult, notes: Sequence[str], seconds: float | None, conclusion: str | None) -> str:
    learners = (result.model, *result.baselines)
    facts = [
        f"{result.n_rows - result.untested:,} rows were predicted before they were learned, after a warm-up of "
        f"{result.untested:,}.",
        *([f"{result.n_missing:,} rows had no label: they were not learned."] if result.n_missing else []),
        *notes,
        *([] if seconds is None else [f"Learning took {seconds:,.1f} seconds."]),
    ]
    said = conclusion or class_conclusion(learners, [str(label) for label in result.classes])
    return pair(paragraphs(said, facts), score_table(learners))


def score_table(learners: Sequence[ClassScores]) -> str:
    """Scores of the model and of its baselines."""
    model, *baselines = [one.name for one in learners]
    names = [model_heading(model), *baselines]
    rows = []
    for name, attribute, largest in SCORES:
        values = np.array([getattr(one, attribute) for one in learners])
        best = np.nanmax(values) if largest else np.nanmin(values)
        cells = [f"<b>{number(value)}</b>" if value == best else number(value) for value in values.tolist()]
        rows.append([name, *cells])
    return table("Scores, the best in bold", ["", *map(escape, names)], rows)


def class_table(scores: ClassScores, classes: Sequence[object]) -> str:
    """How often each class came, and how often it was found."""
    counts, recall = scores.confusion.sum(axis=1), scores.recall
    total = max(counts.sum(), 1.0)
    rows = [
        [escape(str(label)), f"{int(count):,}", f"{count / total:.1%}", number(found)]
        for label, count, found in zip(classes, counts, recall.tolist(), strict=True)
    ]
    return table("Rows tested of each class, and the share that was found", ["class", "rows", "share", "recall"], rows)
