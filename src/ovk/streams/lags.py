"""Outputs of earlier rows as inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ovk._params import Parameters
from ovk._validation import Array, whole


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
    >>> lags.take(np.array([[1.0], [np.nan], [3.0]]))
    array([[nan, nan],
           [ 1., nan],
           [ 1.,  1.]])
    >>> lags.take(np.array([[4.0]]))
    array([[3., 1.]])
    """

    def __init__(self, lags: Sequence[int]) -> None:
        self.lags = lags

    def checked(self) -> list[int]:
        """The lags, if they are distinct whole numbers from 1 on."""
        lags = [whole(lag, "each of lags") for lag in self.lags]
        if len(set(lags)) < len(lags):
            raise ValueError(f"lags must be distinct, got {lags}")
        return lags

    def names(self, outputs: Sequence[str]) -> list[str]:
        """Names of the inputs, in their order."""
        return [f"{output} lag {lag}" for lag in self.lags for output in outputs]

    def take(self, Y: Any) -> Array:
        """(n, d number of lags) inputs of the rows with outputs Y (n, d), nan where missing; then remember them."""
        Y = np.asarray(Y, dtype=np.float64)
        lags = self.checked()
        longest = max(lags, default=0)
        if not hasattr(self, "past_"):
            self.past_ = np.full((longest, Y.shape[1]), np.nan)
        A = np.vstack([self.past_, Y])
        # For every entry the row where its output was last observed; row 0 may still be missing.
        rows = np.where(np.isnan(A), 0, np.arange(len(A))[:, None])
        A = np.take_along_axis(A, np.maximum.accumulate(rows, axis=0), axis=0)
        X = np.hstack([A[longest - lag : len(A) - lag] for lag in lags]) if lags else np.empty((len(Y), 0))
        self.past_ = A[len(A) - longest :].copy()
        return X
