"""Further features for a learner that has started: they were 0 in all that it has seen."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from ovk.base import Array
from ovk.features import Dictionary
from ovk.online.experts.auto import AutoStream, AutoStreamClassifier
from ovk.online.first_order.novelty import NoveltyDetector
from ovk.online.first_order.olok import OLOK
from ovk.online.second_order.kawv import KAWV
from ovk.online.second_order.pkawv import PKAWV
from ovk.online.shared.code_classifier import CodedClassifier
from ovk.online.shared.rows import LearnedRows, SupportPoints
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
        X, A, time = work.support_.arrays
        work.support_ = SupportPoints((_wider(work.kernel_, X, A.shape[2], count), A, time))
        work._add_inputs(count)


@add_features.register
def _(model: KAWV, count: int) -> None:
    with model._transaction() as work:
        X, Y = work.rows_.arrays
        work.rows_ = LearnedRows((_wider(work.kernel_, X, work.n_outputs_, count), Y))
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
        features.points = _wider(work.kernel_, features.points, work.n_outputs_, count)
        if work.past_ is not None:
            X, Y = work.past_.arrays
            work.past_ = LearnedRows((np.pad(X, ((0, 0), (0, count))), Y))
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


def _wider(kernel: OperatorKernel, X: Array, d: int, count: int) -> Array:
    """Inputs with further features of 0; an error when the kernel cannot take them."""
    wide = np.pad(X, ((0, 0), (0, count)))
    try:
        kernel.gram(np.zeros((1, wide.shape[1]))).matmat(np.zeros((1, d)))
    except ValueError as error:
        raise ValueError(
            f"{kernel!r} is made for {X.shape[1]} features and cannot take {wide.shape[1]}: let the first example name "
            "them all"
        ) from error
    return wide
