"""Sessions over parts of a stream, such as the partitions of a topic, that become one.

Sums over the same features of rows that were scaled alike add up exactly. So a session that is to be merged takes
columns, scaling, kernel and features from another one (`start_like`), and learns none of them from its own rows.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable

import numpy as np
from sklearn.base import clone

from ovk.app.sessions.remarks import REMEMBERED
from ovk.app.sessions.session import BlockReader, Session
from ovk.app.tables import Preparation, Records
from ovk.evaluation import Chunk, Evaluator, LastValue, RecentErrors, RunningMean, RunningMoments
from ovk.features import merge_all
from ovk.online import PKAWV


def start_like(records: Records, other: Session) -> BlockReader:
    """Begin a session with the columns, scaling, kernel and features of another one, and with none of its rows.

    Both may be merged later (`merge_sessions`). There is no warm-up: every row is predicted before it is learned, the
    first ones by the mean of the other session's warm-up.
    """
    model = other.evaluator.model
    if not isinstance(model, PKAWV):
        raise ValueError(
            f"a session like another is there to be merged with it, and {type(model).__name__} cannot be merged: learn "
            "with --model pkawv, or give each part a session of its own"
        )
    learner = clone(model).set_params(kernel=model.kernel_)
    p, d = len(other.evaluator.features), len(other.evaluator.outputs)
    nothing = Chunk(np.empty((0, p)), np.empty((0, d)), other.evaluator.features, other.evaluator.outputs)
    scaling = copy.deepcopy(other.evaluator.scaling)
    session = Session(
        clone(other.settings),
        _before_any_row(other.preparation),
        Evaluator.start(learner, [LastValue(), RunningMean()], scaling, nothing),
        RecentErrors.empty(d, level=other.settings.level),
        RunningMoments(p + d),
        id=_digest([other.id, records.digest()]),
    )
    return BlockReader(session, records, records.batches(int(session.settings.block)))


def _before_any_row(preparation: Preparation) -> Preparation:
    """A copy that reads columns alike, and has no earlier rows to look back at."""
    other = copy.deepcopy(preparation)
    other.lags_, other.instants_ = clone(preparation.lags_), np.empty(0)
    return other


def merge_sessions(sessions: Iterable[Session]) -> Session:
    """One session that has learned the rows of all, as if those of the later ones came last.

    All but the first must have begun like it (``learn(like=)``, ``ovk stream --like``). Models and errors add up
    exactly, in a fixed binary tree; intervals are made from the last rows of all. The result predicts, is served, and
    goes on with another file (`continue_with`); the parts are left as they are and go on where they were.

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.app.sessions import Settings, learn, merge_sessions
    >>> from ovk.app.tables import open_records
    >>> lines = [f"{i % 7},{i % 7}\\n" for i in range(500)]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sessions = []
    ...     for i, part in enumerate([lines[:200], lines[200:]]):
    ...         with open(path := os.path.join(folder, f"{i}.csv"), "w") as file:
    ...             _ = file.write("x,y\\n" + "".join(part))
    ...         with open_records(path) as records:
    ...             settings = Settings(["y"], model="pkawv", warm_up=100)
    ...             first = {"like": sessions[0]} if sessions else {"settings": settings}
    ...             sessions.append(learn(records, **{"settings": None, **first}))
    >>> merged = merge_sessions(sessions)
    >>> merged.earlier, merged.evaluator.model.t_
    (500, 500)
    """
    return merge_all(sessions, _merged)


def _merged(one: Session, two: Session) -> Session:
    if type(one) is not Session or type(two) is not Session:
        raise ValueError("sessions of classes cannot be merged: give each part a session of its own")
    if names := one.settings.differences(two.settings):
        raise ValueError(f"sessions to be merged must have the same settings: {', '.join(names)} differ")
    evaluator = copy.deepcopy(one.evaluator)
    try:
        evaluator.merge(two.evaluator)
    except ValueError as error:
        raise ValueError(
            f"{error}; sessions can be merged if all begin like the first: ovk stream --like, in Python learn(like=)"
        ) from error
    recent, moments = copy.deepcopy(one.recent), copy.deepcopy(one.moments)
    recent.merge(two.recent)
    moments.merge(two.moments)
    return Session(
        clone(one.settings),
        copy.deepcopy(two.preparation),
        evaluator,
        recent,
        moments,
        id=_digest([one.id, two.id]),
        earlier=sum(session.earlier + session.offset for session in (one, two)),
        n_bad=one.n_bad + two.n_bad,
        faults=[*one.faults, *two.faults][:REMEMBERED],
    )


def _digest(parts: list[str]) -> str:
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:32]
