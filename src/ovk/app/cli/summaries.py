"""What was learned of classes: scores beside those of the baselines, recalls, and a sentence of conclusion."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk.app.cli.output import (
    err,
    faults_json,
    number,
    out,
    percent,
    print_bad_rows,
    print_columns,
    print_observed,
    print_remarks,
    print_sentence,
    table,
)
from ovk.app.sessions import ClassSession, FittedClasses, Session, doubts, hints, kernel_in_words, rows_tested
from ovk.base import Array
from ovk.evaluation import ALIKE, CLASSIFICATION, ClassScores, LastValue

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
        "alarms": [] if result.drift is None else list(result.drift.alarms),
        "columns": session.preparation.describe(),
        "conclusion": CLASSIFICATION.conclusion(learners, result.classes.tolist()),
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
        "conclusion": CLASSIFICATION.conclusion(fitted.scores, labels),
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
    if alarms := () if result.drift is None else result.drift.alarms:
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
    out.print(CLASSIFICATION.conclusion(learners, labels), markup=False)


# What a learned stream comes to: its errors beside those of the baselines, and a sentence of conclusion.

#: Seconds of learning after which a faster model is named.
LONG = 60.0


def summary(session: Session) -> dict[str, Any]:
    """What `--json` prints of a session."""
    if isinstance(session, ClassSession):
        return class_session_summary(session)
    result, shown = session.result(), session.recent.shown
    return {
        "rows": session.offset,
        "rows_of_earlier_files": session.earlier,
        "unreadable_rows": session.n_bad,
        "faults": faults_json(session.faults),
        "warm_up": result.untested,
        "model": result.model.name,
        "inputs": len(result.features),
        "outputs": list(result.outputs),
        "mse": {learner.name: learner.mse for learner in (result.model, *result.baselines)},
        "mae": {learner.name: learner.mae for learner in (result.model, *result.baselines)},
        "r2": _explained(session),
        "interval_level": shown.level,
        "interval_coverage": shown.coverage,
        "interval_width": shown.width,
        "alarms": [] if result.drift is None else list(result.drift.alarms),
        "columns": session.preparation.describe(),
        "remarks": doubts(session.preparation, session.columns()) + hints(session.preparation, table=False),
        "conclusion": _conclusion(session),
    }


def peak_memory() -> float:
    """Most memory held so far, in MB; nan where the system does not tell.

    >>> peak_memory() > 1
    True
    """
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)


def print_session(session: Session, found: dict[str, Any], warn_bad: float) -> None:
    """Print what a session has learned, as text: rows, columns, errors and a sentence of conclusion."""
    result = session.result()
    rate = found["rows_this_run"] / max(found["seconds"], 1e-9)
    before = f" after {session.earlier:,} of earlier files" if session.earlier else ""
    now = f", {found['rows_this_run']:,} of them in this run" if found["rows_this_run"] != session.offset else ""
    took = (
        f"learning took {found['seconds']:.1f} s ({rate:,.0f} rows a second, at most "
        f"{found['peak_memory_mb']:,.0f} MB of memory)"
    )
    if not found["rows_this_run"]:
        now, took = "", "there were no new rows in this run"
    out.print(f"{session.offset:,} rows read{before}{now}; {took}; the first {result.untested:,} rows were the warm-up")
    if isinstance(session, ClassSession):
        print_class_session(session, warn_bad)
        return
    print_bad_rows(session.n_bad, session.earlier + session.offset, session.faults, warn_bad)
    print_columns(session.preparation.describe(), session.settings.targets)
    print_remarks(session.preparation, session.columns())
    print_observed(session.columns())
    learners = (result.model, *result.baselines)
    explained = _explained(session)
    names = [f"model ({result.model.name})", *(one.name for one in result.baselines)]
    columns = zip(result.outputs, explained, *(learner.mse for learner in learners), strict=True)
    rows = [[output, *map(number, mses), number(mses[0] ** 0.5), number(r2)] for output, r2, *mses in columns]
    table("mean squared error", ["", *names, "RMSE", "R2"], rows)
    shown = session.recent.shown
    columns = zip(result.outputs, shown.coverage, shown.width, *(learner.mae for learner in learners), strict=True)
    rows = [[output, *map(number, maes), percent(part), number(width)] for output, part, width, *maes in columns]
    heads = [f"in {shown.percent} interval", "median width"]
    table("mean absolute error, and intervals", ["", *names, *heads], rows)
    print_sentence(_conclusion(session))
    if session.settings.model == "auto" and result.model.name == "AutoStream" and found["seconds"] > LONG:
        err.print("--model pkawv is about ten times as fast: it forgets nothing, and its model is simpler")
    for name, values in session.preparation.class_like_.items():
        some = ", ".join(values[:5]) + (", ..." if len(values) > 5 else "")
        err.print(f"column {name!r} holds only {some}: if these are classes, learn them with --classify", markup=False)


def _explained(session: Session) -> Array:
    """(d,) R2 of the model: the part of each output's variance over the whole stream that it explains."""
    result, d = session.result(), len(session.settings.targets)
    with np.errstate(divide="ignore", invalid="ignore"):
        r2: Array = 1.0 - result.model.mse / session.moments.sd[-d:] ** 2
    return np.where(np.isfinite(r2) & ~session.moments.constant[-d:], r2, np.nan)


def _conclusion(session: Session) -> str:
    """One sentence: how the model compares with its best baseline, and what to do if it loses."""
    result = session.result()
    compared = result.against_best_baseline()
    if compared is None or compared[1] <= 1 - ALIKE:
        return result.conclusion()
    cure = "the inputs say little about the outputs, or they drift"
    if compared[0] == LastValue.name and not session.settings.lags:
        cure = "add earlier outputs to the inputs, with --lags 1,2,3"
    return f"{result.conclusion().removesuffix('.')}; {cure}."
