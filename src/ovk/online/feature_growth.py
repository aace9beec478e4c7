"""Further features for a learner that has started: they were 0 in all that it has seen."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from ovk.features import Dictionary
from ovk.online.experts.auto import AutoStream, AutoStreamClassifier
from ovk.online.first_order.novelty import NoveltyDetector
from ovk.online.first_order.olok import OLOK
from ovk.online.second_order.kawv import KAWV
from ovk.online.second_order.pkawv import PKAWV
from ovk.online.shared.code_classifier import CodedClassifier


@singledispatch
def add_features(model: Any, count: int) -> None:
    """Give a learner that has started `count` more features, which are 0 in all that it has seen."""
    raise TypeError(
        f"{type(model).__name__} cannot take features that appear after its start: let the first example name them all"
    )


@add_features.register(OLOK)
@add_features.register(KAWV)
def _(model: OLOK | KAWV, count: int) -> None:
    with model._transaction() as work:
        _check_wider(work, count)
        (work.support_ if isinstance(work, OLOK) else work.rows_).add_columns(count)
        work._add_inputs(count)


@add_features.register
def _(model: PKAWV, count: int) -> None:
    with model._transaction() as work:
        features = work.features_
        if not isinstance(features, Dictionary):
            raise TypeError(
                f"{type(work.features).__name__} features cannot take inputs that appear after the start: let the "
                "first example name them all, or use Nystrom features"
            )
        _check_wider(work, count)
        features.points = np.pad(features.points, ((0, 0), (0, count)))
        if work.past_ is not None:
            work.past_.add_columns(count)
        work._add_inputs(count)


@add_features.register(CodedClassifier)
@add_features.register(NoveltyDetector)
def _(model: CodedClassifier | NoveltyDetector, count: int) -> None:
    with model._transaction() as work:
        add_features(work.learner_, count)
        work.n_features_in_ += count


@add_features.register(AutoStream)
@add_features.register(AutoStreamClassifier)
def _(model: AutoStream | AutoStreamClassifier, count: int) -> None:
    with model._transaction() as work:
        work.mixture_ = work.mixture_.with_inputs(count)
        work.n_features_in_ += count


def _check_wider(model: OLOK | KAWV | PKAWV, count: int) -> None:
    """Refuse further features that the kernel cannot take."""
    kernel, p = model.kernel_, model.n_features_in_
    try:
        kernel.gram(np.zeros((1, p + count))).matmat(np.zeros((1, model.n_outputs_)))
    except ValueError as error:
        raise ValueError(
            f"{kernel!r} is made for {p} features and cannot take {p + count}: let the first example name them all"
        ) from error
