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
from ovk.ovkernels import OperatorKernel


@singledispatch
def add_features(model: Any, count: int) -> None:
    """Give a learner that has started `count` more features, which are 0 in all that it has seen."""
    raise TypeError(
        f"{type(model).__name__} cannot take features that appear after its start: let the first example name them all"
    )


@add_features.register
def _(model: OLOK, count: int) -> None:
    with model._transaction() as work:
        _check_wider(work.kernel_, work.n_features_in_, work.n_outputs_, count)
        work.support_.add_columns(count)
        work._add_inputs(count)


@add_features.register
def _(model: KAWV, count: int) -> None:
    with model._transaction() as work:
        _check_wider(work.kernel_, work.n_features_in_, work.n_outputs_, count)
        work.rows_.add_columns(count)
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
        _check_wider(work.kernel_, work.n_features_in_, work.n_outputs_, count)
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


def _check_wider(kernel: OperatorKernel, p: int, d: int, count: int) -> None:
    """Refuse further features that the kernel cannot take."""
    try:
        kernel.gram(np.zeros((1, p + count))).matmat(np.zeros((1, d)))
    except ValueError as error:
        raise ValueError(
            f"{kernel!r} is made for {p} features and cannot take {p + count}: let the first example name them all"
        ) from error
