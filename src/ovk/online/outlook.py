"""What is known about rows before their labels: the ridge prediction and how much they would weigh."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ovk._validation import Array


class Outlook(NamedTuple):
    """Ridge predictions and leverages, in the coordinates in which they were found.

    Attributes
    ----------
    ridge : (n, d) ridge predictions
    H : (n, d) leverages of outputs that were taken apart, or (n, d, d)
    vectors : (d, d) eigenvectors of the output operator in which outputs were taken apart; None for the outputs
        themselves
    """

    ridge: Array
    H: Array
    vectors: Array | None = None

    @classmethod
    def joined(cls, parts: list[Outlook]) -> Outlook:
        """Several of them, one after the other."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([part.ridge for part in parts]),
            np.concatenate([part.H for part in parts]),
            parts[0].vectors,
        )

    def predictions(self, *, shrink: bool) -> Array:
        """The forecast, (n, d): ridge, or with `shrink` that of Azoury, Vovk and Warmuth, (I + H)^-1 ridge."""
        values: Array = self.ridge
        if shrink:
            if self.H.ndim == 2:
                # Leverages cannot be negative but by rounding.
                values = values / (1.0 + np.maximum(self.H, 0.0))
            else:
                values = np.asarray(np.linalg.solve(np.eye(values.shape[1]) + self.H, values[:, :, None])[:, :, 0])
        return values if self.vectors is None else values @ self.vectors.T

    def leverages(self) -> Array:
        """H between the outputs, (n, d, d)."""
        if self.H.ndim == 3:
            return self.H
        if self.vectors is None:
            return self.H[:, :, None] * np.eye(self.H.shape[1])
        rotated: Array = np.einsum("nq,aq,bq->nab", self.H, self.vectors, self.vectors, optimize=True)
        return rotated
