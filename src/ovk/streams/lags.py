"""Outputs of earlier rows as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk._params import Parameters, check_int
from ovk._types import Array


def filled(A: Array) -> Array:
    """Rows (n, d) in which a missing value is the last one before it; nan where there is none.

    >>> filled(np.array([[np.nan], [1.0], [np.nan]])).ravel()
    array([nan,  1.,  1.])
    """
    # For every entry the row where its output was last observed; row 0 may still be missing.
    rows = np.where(np.isnan(A), 0, np.arange(len(A))[:, None])
    return np.take_along_axis(A, np.maximum.accumulate(rows, axis=0), axis=0)


class Lags(Parameters):
    """Each output as it was 1, 2, ... rows before; where it was missing then, its last value before that.

    Parameters
    ----------
    lags : how many rows before, for instance (1, 2, 60)

    Attributes
    ----------
    past_ : (longest lag, d) last rows, with missing values filled; nan where nothing was seen yet

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.streams import Lags
    >>> lags = Lags((1, 2))
    >>> lags.inputs_then_update(np.array([[1.0], [np.nan], [3.0]]))
    array([[nan, nan],
           [ 1., nan],
           [ 1.,  1.]])
    >>> lags.inputs_then_update(np.array([[4.0]]))
    array([[3., 1.]])
    """

    def __init__(self, lags: Sequence[int]) -> None:
        self.lags = lags

    def checked(self) -> list[int]:
        """The lags, if they are distinct whole numbers from 1 on."""
        lags = [check_int(lag, "each of lags") for lag in self.lags]
        if len(set(lags)) < len(lags):
            raise ValueError(f"lags must be distinct, got {lags}")
        return lags

    def names(self, outputs: Sequence[str]) -> list[str]:
        """Names of the inputs, in their order."""
        return [f"{output} lag {lag}" for lag in self.lags for output in outputs]

    def inputs_then_update(self, Y: Any) -> Array:
        """(n, d number of lags) inputs of the rows with outputs Y (n, d), nan where missing; then remember them."""
        Y = np.asarray(Y, dtype=np.float64)
        lags = self.checked()
        longest = max(lags, default=0)
        if not hasattr(self, "past_"):
            self.past_ = np.full((longest, Y.shape[1]), np.nan)
        A = filled(np.vstack([self.past_, Y]))
        X = np.hstack([A[longest - lag : len(A) - lag] for lag in lags]) if lags else np.empty((len(Y), 0))
        self.past_ = A[len(A) - longest :].copy()
        return X
