"""Rows of a stream, checked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array, check_consistent_length

from ovk._bad_cells import naming_bad_cells
from ovk._types import Array, Indices, Mask
from ovk.targets import check_inputs, check_targets, masked_as_nan


class Rows(NamedTuple):
    """Checked rows.

    Attributes
    ----------
    X, Y : (n, p) inputs and (n, d) outputs, nan where one was not observed
    valid : (n,) which rows are valid
    single : whether y was one-dimensional
    weights : (n,) what the loss of each row is multiplied by, above 0; None for 1
    last : (n, d) last labels that were known when each row was predicted; None for those of the row before
    """

    X: Array
    Y: Array
    valid: Mask
    single: bool
    weights: Array | None = None
    last: Array | None = None

    def chosen(self, some: Indices) -> Rows:
        """Some of the rows."""
        weights, last = (None if part is None else part[some] for part in (self.weights, self.last))
        return self._replace(X=self.X[some], Y=self.Y[some], valid=self.valid[some], weights=weights, last=last)

    def with_weights(self, sample_weight: Any) -> Rows:
        """The rows with the weights that a user gives, (n,); a row of weight 0 has no labels."""
        weight = checked_weights(sample_weight, self.X)
        counts = weight > 0.0
        return self._replace(
            Y=np.where(counts[:, None], self.Y, np.nan), weights=np.where(counts, weight, 1.0) if len(weight) else None
        )


def checked_weights(sample_weight: Any, X: Array) -> Array:
    """(n,) weights >= 0 of the rows of X."""
    weight = check_targets(np.zeros(len(X)), len(X), sample_weight, None, X, part=True).weight
    assert weight is not None
    return weight


def checked_rows(
    model: Any, X: Any, y: Any, *, outputs: int | None, on_invalid: str, whole: bool = False, unsupervised: bool = False
) -> Rows:
    """Rows for `model` to learn from.

    Parameters
    ----------
    outputs : how many outputs the model has learned, None for a model that begins
    on_invalid : "raise" refuses rows with nan or inf in X or inf in y, "skip" marks them, and "missing" keeps them with
        nan in place of inf in y
    whole : these are all the data there will be, so every output must be seen in them
    unsupervised : there is no y
    """
    first, skip = outputs is None, on_invalid == "skip"
    X = check_inputs(model, X, reset=first, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=int(first))
    valid = np.isfinite(X).all(axis=1) | (on_invalid == "missing")
    if unsupervised:
        y = np.zeros(len(X))
    if y is not None:
        y = masked_as_nan(y, "y")
        if not isinstance(y, np.ndarray) or y.dtype != np.float64:
            with naming_bad_cells(y, "y"):
                y = check_array(
                    y, ensure_2d=False, dtype=np.float64, ensure_all_finite=False, input_name="y", ensure_min_samples=0
                )
        check_consistent_length(X, y)
        if on_invalid == "missing":
            y = np.where(np.isinf(y), np.nan, y)
        finite = ~np.isinf(y).any(axis=tuple(range(1, y.ndim)))
        if skip:
            valid &= finite
            y = np.where(valid.reshape(-1, *[1] * (y.ndim - 1)), y, np.nan)
        elif not finite.all():
            raise ValueError(_refusal("y", finite, "infinity"))
    if not skip and not valid.all():
        raise ValueError(_refusal("X", valid, "NaN or infinity"))
    if whole and not valid.any():
        raise ValueError("no row is without NaN or infinity: there is nothing to learn from")
    targets = check_targets(y, X.shape[0], None, None, X, part=not whole)
    if not first and targets.d != outputs:
        raise ValueError(f"y has {targets.d} outputs but the model has learned {outputs}")
    return Rows(X, targets.Y, valid, targets.single)


def _refusal(name: str, fine: Mask, what: str) -> str:
    row = int(fine.argmin())
    return f"{name} must hold finite numbers, but row {row} holds {what}: remove it, or use on_invalid='skip'"
