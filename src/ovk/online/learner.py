"""What a learner of a stream shows: fit, partial_fit and predict_then_learn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import nullcontext
from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin

from ovk._params import Parameters
from ovk._validation import Array
from ovk.online.rows import Rows


class StreamRegressor(MultiOutputMixin, RegressorMixin, Parameters, ABC):
    """A regressor that predicts every row before it learns from it.

    A subclass begins with the first rows, which sets `kernel_` and `single_output_`, and learns checked rows.
    """

    single_output_: bool
    n_skipped_: int

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = True
        return tags

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse parameters that make no sense."""

    @abstractmethod
    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False) -> Rows:
        """Checked rows. `whole`: these are all the data there will be, so every output must be seen in them."""

    @abstractmethod
    def _begin(self, rows: Rows) -> None:
        """Make the state of a learner that knows nothing yet."""

    @abstractmethod
    def _learn(self, rows: Rows) -> Array:
        """Predictions of all rows, each made before learning from it."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything and learn from the rows in their order, once; novelty detection needs no y."""
        with self._all_or_nothing():
            self._check_parameters()
            rows = self._checked(X, y, first=True, whole=True)
            self.n_skipped_ = 0
            self._begin(rows)
            self._learn(rows)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from further rows; y is nan where an output was not observed."""
        self.predict_then_learn(X, y)
        return self

    def predict_then_learn(self, X: Any, y: Any = None) -> Array:
        """Predict each row before learning from it.

        Returns
        -------
        (n, d) predictions, (n,) if y was one-dimensional at first; nan in rows that were skipped
        """
        first = not hasattr(self, "kernel_")
        # Later chunks are checked before anything changes.
        with self._all_or_nothing() if first else nullcontext():
            self._check_parameters()
            rows = self._checked(X, y, first=first)
            if first and not rows.valid.any():
                # Nothing to begin with yet: the model stays new.
                self.n_skipped_ = getattr(self, "n_skipped_", 0) + len(rows.X)
                Z, single = np.full(rows.Y.shape, np.nan), rows.single
            else:
                if first:
                    self._begin(rows)
                Z, single = self._learn(rows), self.single_output_
        return Z[:, 0] if single else Z
