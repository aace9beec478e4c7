"""Where outputs were said to lie, and whether they did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ovk._validation import Array


@dataclass(frozen=True)
class Regions:
    """A region around each prediction, made before its output was seen.

    Attributes
    ----------
    predictions : (n, d)
    lower, upper : (n, d) the interval of each output; of an ellipsoid the sides of the box around it. Infinite while
        too little is known; nan where there was no prediction
    radius : (n, k) what scores were compared with; k = d intervals, or one region for all outputs
    covered : (n, k) 1 or 0: whether what was observed lay in the region; nan where nothing was observed
    scatter : the covariance (n, d, d) that shapes an ellipsoid, None for intervals and boxes

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.evaluation import ACI
    >>> y = np.random.default_rng(0).standard_normal((2000, 1))
    >>> regions = ACI(0.8).regions_then_learn(np.zeros((2000, 1)), y)
    >>> bool(abs(np.mean(regions.covered) - 0.8) < 0.01), bool(np.isfinite(regions.upper[100:]).all())
    (True, True)
    """

    predictions: Array
    lower: Array
    upper: Array
    radius: Array
    covered: Array
    scatter: Array | None = None

    def __len__(self) -> int:
        return len(self.predictions)

    @property
    def width(self) -> Array:
        """(n, d) upper less lower."""
        return self.upper - self.lower

    def contains(self, Y: Array) -> Array:
        """(n, k) 1 where the outputs Y (n, d) lie in the region, 0 where they do not, nan where all are missing."""
        Y = np.asarray(Y, dtype=np.float64).reshape(self.predictions.shape)
        seen = np.isfinite(Y)
        inside = (self.lower <= Y) & (self.upper >= Y)
        if self.radius.shape[1] == self.predictions.shape[1] and self.scatter is None:
            return np.where(seen, inside.astype(np.float64), np.nan)
        if self.scatter is None:
            joint = (inside | ~seen).all(axis=1)
        else:
            joint = np.array([self._in_ellipsoid(i, Y[i] - self.predictions[i], seen[i]) for i in range(len(Y))])
        return np.where(seen.any(axis=1), joint.astype(np.float64), np.nan)[:, None]

    def _in_ellipsoid(self, i: int, r: Array, seen: Array) -> bool:
        assert self.scatter is not None
        if not seen.any() or np.isposinf(self.radius[i, 0]):
            return True
        part = self.scatter[i][np.ix_(seen, seen)]
        return bool(np.sqrt(r[seen] @ np.linalg.solve(part, r[seen])) <= self.radius[i, 0] * (1 + 1e-12))
