"""What a user may pass as labels, and which tasks they make.

Labels y (n,) of K classes are K tasks, each class against the rest (two classes are one task, unless the kernel has two
outputs). A column of Y (n, T) is a task with two labels, nan where it was not observed; in long form every row is an
observation of the task that `task` names. They leave as `Targets` of -1 and 1, with the classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from ovk._validation import Array
from ovk.batch.targets import Targets, check_targets

Labels = npt.NDArray[Any]


def check_labels(
    y: Any, n: int, sample_weight: Any, task: Any, X: Any, outputs: int | None
) -> tuple[Targets, Labels, bool]:
    """Targets, classes in order, and whether the tasks are one class each against the rest."""
    if y is None:
        raise ValueError("requires y to be passed, but the target y is None: give a label for each row")
    labels = check_array(
        y, ensure_2d=False, dtype=None, ensure_all_finite="allow-nan", input_name="y", ensure_min_samples=0
    )
    if len(labels) != n:
        check_consistent_length(X, labels)
    if task is None and (labels.ndim == 1 or labels.shape[1] == 1):
        return _one_against_the_rest(column_or_1d(labels), n, sample_weight, X, outputs)
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"labels of several tasks must be numbers (nan: not observed), got dtype {labels.dtype}")
    values = labels.astype(np.float64)
    seen = ~np.isnan(values)
    classes = np.unique(labels[seen])
    if len(classes) != 2:
        raise ValueError(
            f"tasks share two labels, such as 0 and 1, got {len(classes)}: {classes[:5].tolist()}; give one column y "
            "of class labels for a problem of several classes"
        )
    signs = np.where(seen, np.where(values == classes[1], 1.0, -1.0), np.nan)
    return check_targets(signs, n, sample_weight, task, X, outputs), classes, False


def _one_against_the_rest(
    labels: Labels, n: int, sample_weight: Any, X: Any, outputs: int | None
) -> tuple[Targets, Labels, bool]:
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise ValueError("Input y contains NaN: a label of one column must be known; leave the row out")
    check_classification_targets(labels)
    classes, numbers = np.unique(labels, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"y must hold at least 2 classes, got one class: {classes.tolist()[0]!r}")
    if len(classes) == 2 and outputs in (None, 1):
        signs: Array = 2.0 * numbers.astype(np.float64) - 1.0
    else:
        signs = 2.0 * np.eye(len(classes))[numbers] - 1.0
    return check_targets(signs, n, sample_weight, None, X), classes, True
