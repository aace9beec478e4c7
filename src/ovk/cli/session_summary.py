"""What a learned stream comes to: its errors beside those of the baselines, and a sentence of conclusion."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ovk._types import Array
from ovk.cli.class_summary import class_session_summary, print_class_session
from ovk.cli.output import (
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
from ovk.evaluation import LastValue
from ovk.evaluation.result import ALIKE
from ovk.sessions import ClassSession, Session
from ovk.sessions.remarks import doubts, hints

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
