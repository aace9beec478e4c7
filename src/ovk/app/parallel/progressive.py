"""Many independent streams, a learner for each, spread over workers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

from sklearn.base import clone

from ovk import evaluation
from ovk.app.parallel.engines import as_engine
from ovk.app.parallel.parts import Part, as_parts
from ovk.evaluation import ProgressiveResult


class KeyResult(NamedTuple):
    """What became of one stream.

    Attributes
    ----------
    result : errors of its predictions
    model : the learner, which has learned it to its end

    Examples
    --------
    See `progressive`.

    >>> from ovk.app.parallel import KeyResult
    >>> KeyResult._fields
    ('result', 'model')
    """

    result: ProgressiveResult
    model: Any


def progressive(
    model: Any,
    streams: Mapping[Any, Any],
    client: Any = None,
    *,
    targets: Any = None,
    features: Any = None,
    n_jobs: int | None = None,
    **options: Any,
) -> dict[Any, KeyResult]:
    """Predict every row of many independent streams before learning from it, with a fresh learner for each.

    Streams that share nothing need no merging, and any online learner will do.

    Parameters
    ----------
    model : online learner, a copy of which learns each stream
    streams : where the rows of each key are, in their order: a file, a `Part`, or a function (see `fit`)
    client, targets, features, n_jobs : as in `fit`
    options : further ones of `ovk.progressive`, such as ``scale="running"``; `keep` is "none" unless given

    Returns
    -------
    A dictionary with a `KeyResult` for each key

    Examples
    --------
    >>> import numpy as np
    >>> from functools import partial
    >>> from ovk import OLOK
    >>> from ovk.app.parallel import progressive
    >>> def sensor(phase):
    ...     X = np.linspace(0, 9, 300)[:, None]
    ...     return X, np.sin(5 * X + phase)
    >>> found = progressive(OLOK(), {phase: partial(sensor, phase) for phase in (0, 1)})
    >>> sorted(found), found[1].result.n_rows
    ([0, 1], 300)
    """
    engine = as_engine(client, n_jobs)
    keys = list(streams)
    listed: list[Any] = []
    for key in keys:
        some = as_parts(streams[key], targets, features)
        listed.append(some[0] if len(some) == 1 else _OneAfterAnother(some))
    work = partial(learn_stream, options={"keep": "none", "progress": False, **options})
    found = engine.map(work, listed, engine.share(clone(model)), label="learning")
    return {key: KeyResult(*one) for key, one in zip(keys, found, strict=True)}


class _OneAfterAnother(Part):
    """The ranges of a file, or several files, in their order: a stream is one."""

    def __init__(self, parts: list[Part]) -> None:
        self.parts, self.label = parts, parts[0].label

    def chunks(self) -> Any:
        for part in self.parts:
            yield from part.chunks()


def learn_stream(part: Part, model: Any, *, options: dict[str, Any]) -> tuple[ProgressiveResult, Any]:
    """A stream learned to its end by a copy of the model."""
    learner = clone(model)
    return evaluation.progressive(learner, part.chunks(), **options), learner
