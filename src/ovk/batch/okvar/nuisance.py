"""What is fitted beside h and not penalised: constants, starts, and a linear decay that cannot be negative.

For given values V = W F the best of them leaves the residual

    R = argmin over theta, decay >= 0 of  |Y - V - E theta + decay O|^2

which is a projection for the columns E, and one more column, used where its coefficient is positive, for the decay.
The minimum over them is a smooth convex function of V with the gradient -2 R.
"""

from __future__ import annotations

import numpy as np

from ovk._validation import Array
from ovk.batch.okvar.transitions import Regression


def orthonormal(E: Array) -> Array:
    """An orthonormal basis of the columns of E."""
    if E.shape[1] == 0:
        return E
    U, s, _ = np.linalg.svd(E, full_matrices=False)
    basis: Array = U[:, s > 1e-10 * max(float(s[0]), 1e-300)]
    return basis


class Nuisance:
    """Residuals after the best constants, starts and decay."""

    def __init__(self, regression: Regression) -> None:
        self.regression = regression
        self.seen = ~np.isnan(regression.Y)
        self.Y = np.where(self.seen, regression.Y, 0.0)
        d = self.Y.shape[1]
        if self.seen.all():
            self._bases = [orthonormal(regression.E)]
        else:
            self._bases = [orthonormal(regression.E * self.seen[:, q : q + 1]) for q in range(d)]
        self._own, self._lengths = self._decay_columns()

    def _decay_columns(self) -> tuple[Array | None, Array]:
        O = self.regression.O  # noqa: E741
        if O is None:
            return None, np.ones(self.Y.shape[1])
        masked = -O * self.seen
        rest = self._without_columns(masked)
        lengths = np.linalg.norm(rest, axis=0)
        # What the constants explain already (a constant variable) has no decay of its own.
        real = lengths > 1e-9 * np.maximum(np.linalg.norm(masked, axis=0), 1e-300)
        return np.where(real, rest / np.where(real, lengths, 1.0), 0.0), np.where(real, lengths, np.inf)

    def _without_columns(self, R: Array) -> Array:
        if len(self._bases) == 1:
            Q = self._bases[0]
            return np.asarray(R - Q @ (Q.T @ R))
        return np.column_stack([R[:, q] - Q @ (Q.T @ R[:, q]) for q, Q in enumerate(self._bases)])

    def residual(self, V: Array) -> Array:
        """R, (n, d), zero where nothing was observed."""
        R = self._without_columns((self.Y - V) * self.seen)
        if self._own is not None:
            R -= self._own * np.maximum((self._own * R).sum(axis=0), 0.0)
        return R

    def coefficients(self, V: Array) -> tuple[Array, Array]:
        """theta, (e, d), and the decay of each output, (d,)."""
        d = self.Y.shape[1]
        R = (self.Y - V) * self.seen
        decay = np.zeros(d)
        O = self.regression.O  # noqa: E741
        if self._own is not None and O is not None:
            decay = np.maximum((self._own * self._without_columns(R)).sum(axis=0), 0.0) / self._lengths
            R = R + decay * O * self.seen
        E = self.regression.E
        theta = np.empty((E.shape[1], d))
        for q in range(d):
            theta[:, q] = np.linalg.lstsq(E[self.seen[:, q]], R[self.seen[:, q], q], rcond=None)[0]
        return theta, decay
