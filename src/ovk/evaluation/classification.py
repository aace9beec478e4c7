"""Progressive evaluation of classifiers: test, then train."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ovk._params import check_int
from ovk._types import Labels, Mask
from ovk.evaluation.class_evaluator import ClassEvaluator
from ovk.evaluation.class_scores import ClassificationResult
from ovk.evaluation.late import waiting_rows
from ovk.evaluation.learners import has_learned


def progressive_classes(
    model: Any,
    X: Any,
    y: Any,
    *,
    classes: Any = None,
    chunk_size: int = 1024,
    untested: int | None = None,
    delay: Any = 0,
    time: Any = None,
    sample_weight: Any = None,
) -> ClassificationResult:
    """Predict the class of every row of a stream before learning from it, and measure how well.

    Beside the model stand two baselines: no change (the last label), and the majority of the labels so far.

    Parameters
    ----------
    model : online classifier of ovk, which is learned in place in exact blocks, or another one with `partial_fit` and
        `predict`, which is given one row at a time
    X : (n, p) inputs
    y : (n,) labels; rows whose label is None or nan are predicted and not learned
    classes : the labels there will be, for classifiers that want to know them at the start; default those of y
    chunk_size : rows at a time
    untested : the first rows, which are learned but not counted; default 1, which nothing can predict, or 0 for a model
        that has learned before
    delay, time : how much later labels come, in rows or by the clock, as in `progressive`. With a delay rows are
        predicted and learned one at a time, baselines wait as well, and rows before the first label are not tested
    sample_weight : (n,) >= 0, for `AutoStreamClassifier`, `OLOKClassifier` and `PKAWVClassifier` without a delay
        What the loss of each row is multiplied by where the model learns it. Scores count rows alike.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStreamClassifier, progressive_classes
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((1000, 2))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    >>> result = progressive_classes(AutoStreamClassifier(), X, y)
    >>> bool(result.model.accuracy > 0.9), bool(result.baselines[0].accuracy < 0.6)
    (True, True)
    """
    X, labels = np.asarray(X, dtype=np.float64), np.asarray(y)
    if labels.ndim != 1 or len(labels) != len(X) or not len(X):
        raise ValueError(f"y must hold a label for each of the {len(X)} rows, at least one, got shape {labels.shape}")
    missing = _missing(labels)
    if missing.all():
        raise ValueError("y holds no label: there is nothing to learn from")
    seen = labels[~missing]
    known = np.unique(seen if classes is None else np.concatenate([np.asarray(classes, dtype=seen.dtype), seen]))
    codes = np.full(len(X), -1, dtype=np.intp)
    codes[~missing] = np.searchsorted(known, seen)
    late = waiting_rows(delay, time)
    waiting = None if isinstance(late, int) else late
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    for name, column in (("time", waiting), ("sample_weight", weights)):
        if column is not None and column.shape != (len(X),):
            raise ValueError(f"{name} must have an entry for each of the {len(X)} rows, got shape {column.shape}")
    evaluator = ClassEvaluator.start(model, delay=late if isinstance(late, int) else 0)
    if untested is None:
        untested = int(not has_learned(model))
    first, size = check_int(untested, "untested", least=0), check_int(chunk_size, "chunk_size")
    edges = sorted({0, min(first, len(X)), *range(first, len(X), size), len(X)})
    found = [
        evaluator.predict_then_learn(
            X[low:high],
            codes[low:high],
            known,
            tested=low >= first,
            waiting=None if waiting is None else waiting[low:high],
            weights=None if weights is None else weights[low:high],
        )[0]
        for low, high in pairwise(edges)
    ]
    numbers = np.concatenate(found)
    predictions = known[numbers]
    if (numbers < 0).any():
        predictions = predictions.astype(object)
        predictions[numbers < 0] = None
    return evaluator.result(known, predictions)


def _missing(labels: Labels) -> Mask:
    """Which labels are None or nan."""
    if labels.dtype.kind == "f":
        return np.isnan(labels)
    if labels.dtype.kind != "O":
        return np.full(len(labels), False)
    return np.array([label is None or label != label for label in labels], dtype=bool)
