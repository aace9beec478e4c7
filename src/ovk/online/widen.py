"""More features for a learner that has begun: they were 0 in all that it has seen."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np

from ovk._validation import Array
from ovk.features import Dictionary
from ovk.online.coded import CodedClassifier
from ovk.online.kawv import KAWV
from ovk.online.olok import OLOK
from ovk.online.past import Past
from ovk.online.pkawv import PKAWV
from ovk.online.support import Support
from ovk.ovkernels import OperatorKernel


@singledispatch
def widen(model: Any, count: int) -> None:
    """Give a learner that has begun `count` more features, which are 0 in all that it has seen."""
    raise TypeError(
        f"{type(model).__name__} cannot take features that appear after its start: let the first example name them all"
    )


@widen.register
def _(model: OLOK, count: int) -> None:
    A = model.support_.A
    model.support_ = Support(_wider(model.kernel_, model.support_.X, A.shape[2], count), A, model.support_.time)
    model.n_features_in_ += count


@widen.register
def _(model: KAWV, count: int) -> None:
    model.support_ = _wider(model.kernel_, model.support_, model.n_outputs_, count)
    model.n_features_in_ += count


@widen.register
def _(model: PKAWV, count: int) -> None:
    features = model.features_
    if not isinstance(features, Dictionary):
        raise TypeError(
            f"{type(model.features).__name__} features cannot take inputs that appear after the start: let the first "
            "example name them all, or use Nystrom features"
        )
    features.points = _wider(model.kernel_, features.points, model.n_outputs_, count)
    if model.past_ is not None:
        model.past_ = Past(np.pad(model.past_.X, ((0, 0), (0, count))), model.past_.Y)
    model.n_features_in_ += count


@widen.register
def _(model: CodedClassifier, count: int) -> None:
    widen(model.learner_, count)
    model.n_features_in_ += count


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
