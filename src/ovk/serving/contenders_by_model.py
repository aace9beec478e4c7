"""Which contender serves a model."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from ovk.serving.contenders import Contender
from ovk.serving.estimator_contenders import ClassifierContender, RegressorContender
from ovk.serving.table_contender import ClassTableContender, TableContender
from ovk.sessions import ClassSession, Fitted, FittedClasses, Session


@singledispatch
def as_contender(model: Any, name: str) -> Contender:
    """A model that was loaded, ready to serve under that name."""
    if not callable(getattr(model, "predict", None)):
        raise ValueError(
            f"{name} holds a {type(model).__name__}, which does not predict: give an estimator or a session"
        )
    if is_classifier(model):
        if not hasattr(model, "classes_"):
            raise ValueError(f"{name} holds a {type(model).__name__} that was not fitted yet: fit it first")
        return ClassifierContender(name, model)
    p = getattr(model, "n_features_in_", None)
    if p is None:
        raise ValueError(f"{name} holds a {type(model).__name__} that was not fitted to rows of numbers: fit it first")
    # How many outputs there are nobody knows better than a prediction.
    F = np.asarray(model.predict(np.zeros((1, p))))
    if F.dtype.kind not in "fiub":
        raise ValueError(
            f"{name} holds a {type(model).__name__}, whose predictions are no numbers: it cannot be served"
        )
    d = F.reshape(1, -1).shape[1]
    return RegressorContender(name, model, names=["y"] if d == 1 else [f"y{q}" for q in range(d)])


@as_contender.register(Session)
@as_contender.register(Fitted)
def _(model: Any, name: str) -> Contender:
    return TableContender(name, model)


@as_contender.register(ClassSession)
@as_contender.register(FittedClasses)
def _(model: Any, name: str) -> Contender:
    return ClassTableContender(name, model)
