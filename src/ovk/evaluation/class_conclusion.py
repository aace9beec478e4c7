"""One sentence about a classifier beside its baselines, for the command line and the report."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ovk.evaluation.class_scores import ClassScores

#: A class this much rarer than its equal share makes the accuracy say little.
RARE = 0.2


def class_conclusion(learners: Sequence[ClassScores], labels: Sequence[str]) -> str:
    """How the first of the learners, the model, compares with its best baseline, and what to look at."""
    model = learners[0]
    counts = model.confusion.sum(axis=1)
    if not counts.sum():
        return "No row with a known label was tested, so nothing can be said about the model yet."
    best = max(learners[1:], key=lambda one: one.accuracy)
    said = f"The model is right in {model.accuracy:.1%} of the rows"
    rare = int(np.where(counts > 0, counts, np.inf).argmin())
    note = ""
    if counts[rare] < RARE * counts.sum() / max((counts > 0).sum(), 1):
        note = f" {labels[rare]!r} is rare: look at kappa, AUC and its recall ({model.recall[rare]:.0%})."
    if model.accuracy > best.accuracy:
        return f"{said}, {best.name!r}, the best baseline, in {best.accuracy:.1%}.{note}"
    cure = "the inputs say little about the classes, or they drift"
    if model.log_loss < best.log_loss:
        cure = "but its probabilities are better (log loss): weigh them by what each kind of error costs you"
    return f"{said}, {best.name!r} in {best.accuracy:.1%}; {cure}.{note}"
