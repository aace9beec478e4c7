"""Merging of sessions over partitions of a stream, such as those of a topic.

Sums over the same features of identically scaled rows add up exactly. A session to be merged therefore copies columns,
scaling, kernel and features from another one (`start_from`) instead of learning them from its own rows.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable

import numpy as np
from sklearn.base import clone

from ovk.app.sessions.predictions import MAX_BAD_ROWS_KEPT
from ovk.app.sessions.session import Session, StreamRun, identity
from ovk.app.tables import Records
from ovk.evaluation import Chunk, Evaluator, LastValue, RecentErrors, RunningMean, RunningMoments
from ovk.features import merge_all
from ovk.online import PKAWV


def start_from(template: Session, records: Records) -> StreamRun:
    """Start a session with the columns, scaling, kernel and features of a template, but none of its rows.

    There is no warm-up: the first rows are predicted by the mean of the template's warm-up.
    """
    model = template.evaluator.model
    if not isinstance(model, PKAWV):
        raise ValueError(
            f"a template must be mergeable, and {type(model).__name__} is not: learn it with --model pkawv, or learn "
            "separate sessions without a template"
        )
    learner = clone(model).set_params(kernel=model.kernel_)
    p, d = len(template.evaluator.features), len(template.evaluator.outputs)
    nothing = Chunk(np.empty((0, p)), np.empty((0, d)), template.evaluator.features, template.evaluator.outputs)
    scaling, preparation = copy.deepcopy((template.evaluator.scaling, template.preparation))
    # There are no earlier rows.
    preparation.lags_, preparation.instants_ = clone(preparation.lags_), np.empty(0)
    session = Session(
        clone(template.settings),
        preparation,
        Evaluator.start(learner, [LastValue(), RunningMean()], scaling, nothing),
        RecentErrors.empty(d, level=template.settings.level),
        RunningMoments(p + d),
        id=identity(template.id, records.digest()),
    )
    return StreamRun(session, records, records.batches(int(session.settings.block)))


def merge_sessions(sessions: Iterable[Session]) -> Session:
    """Merge sessions into one that has learned the rows of all, in the order of the sessions.

    All sessions but the first must use the first as their template (``learn(template=)``, ``ovk stream --template``).
    Models and errors add up exactly, in a fixed binary tree; intervals are computed from the last rows of all sessions.
    The result can predict, be served, and continue with another file; the merged sessions do not change.

    Parameters
    ----------
    sessions : iterable of Session
        The sessions to merge.

    Returns
    -------
    Session
        The merged session.

    See Also
    --------
    learn, Session

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, learn, merge_sessions
    >>> lines = [f"{i % 7},{i % 7}\\n" for i in range(500)]
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     sessions = []
    ...     for i, rows in enumerate([lines[:200], lines[200:]]):
    ...         with open(path := os.path.join(directory, f"{i}.csv"), "w") as file:
    ...             _ = file.write("x,y\\n" + "".join(rows))
    ...         settings = None if sessions else Settings(["y"], model="pkawv", warm_up=100)
    ...         sessions.append(learn(path, settings, template=sessions[0] if sessions else None))
    >>> merged = merge_sessions(sessions)
    >>> merged.earlier, merged.evaluator.model.t_
    (500, 500)
    """
    return merge_all(sessions, _merged)


def _merged(one: Session, two: Session) -> Session:
    if one.settings.classify or two.settings.classify:
        raise ValueError("sessions with classes cannot be merged")
    if names := one.settings.differences(two.settings):
        raise ValueError(f"sessions to merge must have the same settings; {', '.join(names)} differ")
    evaluator, recent, moments = copy.deepcopy((one.evaluator, one.recent, one.moments))
    try:
        evaluator.merge(two.evaluator)
    except ValueError as error:
        raise ValueError(
            f"{error}; sessions can be merged if the first is the template of the others (ovk stream --template, in "
            "Python learn(template=))"
        ) from error
    recent.merge(two.recent)
    moments.merge(two.moments)
    return Session(
        clone(one.settings),
        copy.deepcopy(two.preparation),
        evaluator,
        recent,
        moments,
        id=identity(one.id, two.id),
        earlier=sum(session.earlier + session.offset for session in (one, two)),
        n_bad=one.n_bad + two.n_bad,
        bad_rows=[*one.bad_rows, *two.bad_rows][:MAX_BAD_ROWS_KEPT],
    )
