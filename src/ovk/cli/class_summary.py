"""What was learned of classes: scores beside those of the baselines, recalls, and a sentence of conclusion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ovk.cli.output import faults_json, number, out, print_bad_rows, print_columns, print_remarks, table
from ovk.evaluation import ClassScores
from ovk.evaluation.class_conclusion import class_conclusion
from ovk.sessions import ClassSession, FittedClasses
from ovk.sessions.batch import rows_tested
from ovk.sessions.chosen import kernel_in_words

#: What is told of each learner: name, and attribute of `ClassScores`.
SCORES = {
    "accuracy": "accuracy",
    "balanced accuracy": "balanced_accuracy",
    "kappa": "kappa",
    "log loss": "log_loss",
    "AUC": "auc",
}

#: Most classes whose recalls are told.
SHOWN = 12


def class_session_summary(session: ClassSession) -> dict[str, Any]:
    """What `--json` prints of a session of classes."""
    result = session.result()
    learners = (result.model, *result.baselines)
    return {
        "rows": session.offset,
        "rows_of_earlier_files": session.earlier,
        "unreadable_rows": session.n_bad,
        "rows_without_label": result.n_missing,
        "faults": faults_json(session.faults),
        "warm_up": result.untested,
        "model": result.model.name,
        "inputs": len(session.preparation.feature_names_),
        "outputs": list(session.settings.targets),
        **_scores(learners, result.classes.tolist()),
        "alarms": list(result.drift.alarms),
        "columns": session.preparation.describe(),
        "conclusion": class_conclusion(learners, result.classes.tolist()),
    }


def class_table_summary(fitted: FittedClasses) -> dict[str, Any]:
    """What `--json` prints of a table of classes; scores are of the rows left out."""
    labels = fitted.preparation.classes()
    return {
        "outputs": list(fitted.settings.targets),
        "inputs": fitted.preparation.feature_names_,
        "left_out": _scores(fitted.scores, labels),
        "model": repr(fitted.estimator),
        "kernel": repr(fitted.estimator.model_.kernel_),
        "unreadable_rows": fitted.n_bad,
        "faults": faults_json(fitted.faults),
        "columns": fitted.preparation.describe(),
        "conclusion": class_conclusion(fitted.scores, labels),
    }


def _scores(learners: Sequence[ClassScores], labels: list[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"classes": labels}
    for attribute in SCORES.values():
        found[attribute] = {one.name: getattr(one, attribute) for one in learners}
    found["recall"] = dict(zip(labels, learners[0].recall.tolist(), strict=True))
    found["tested"] = dict(zip(labels, learners[0].confusion.sum(axis=1).tolist(), strict=True))
    found["confusion"] = learners[0].confusion
    return found


def print_class_session(session: ClassSession, warn_bad: float) -> None:
    """Print what a session of classes has learned, as text."""
    result = session.result()
    if result.n_missing:
        out.print(f"{result.n_missing:,} rows without a label: predicted, not learned")
    print_bad_rows(session.n_bad, session.earlier + session.offset, session.faults, warn_bad)
    print_columns(session.preparation.describe(), session.settings.targets)
    print_remarks(session.preparation)
    _print_scores("every row predicted before its label was seen", (result.model, *result.baselines), result.classes)
    if alarms := result.drift.alarms:
        last = ", ".join(f"{row:,}" for row in alarms[-5:])
        out.print(f"alarms of drift (errors that rose): {len(alarms):,}, the last at row {last}")


def print_class_table(fitted: FittedClasses, warn_bad: float) -> None:
    """Print what was learned of a table of classes, as text."""
    print_bad_rows(fitted.n_bad, fitted.n_rows, fitted.faults, warn_bad)
    print_columns(fitted.preparation.describe(), fitted.settings.targets)
    print_remarks(fitted.preparation)
    classes = fitted.preparation.classes()
    _print_scores(f"rows left out of a first fit: {rows_tested(fitted.settings)}", fitted.scores, classes)
    out.print(f"chosen: {kernel_in_words(fitted.estimator.model_.kernel_, classes)}", markup=False)


def _print_scores(title: str, learners: Sequence[ClassScores], classes: Any) -> None:
    names = [one.name for one in learners]
    rows = [[name, *(number(getattr(one, part)) for one in learners)] for name, part in SCORES.items()]
    table(title, ["", *names], rows)
    model = learners[0]
    counts, recall = model.confusion.sum(axis=1), model.recall
    labels = [str(label) for label in classes]
    order = sorted(range(len(labels)), key=lambda k: -counts[k])[:SHOWN]
    rows = [[labels[k], f"{int(counts[k]):,}", number(recall[k])] for k in order]
    table("classes: rows tested, and share of them that was found", ["", "rows", "recall"], rows)
    out.print(class_conclusion(learners, labels), markup=False)
