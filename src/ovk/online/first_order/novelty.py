"""Novelty detection on a stream."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from ovk.base import Array, Labels, Parameters, Transactional, check_inputs, reads_snapshot
from ovk.objectives import Novelty
from ovk.online.first_order.olok import OLOK
from ovk.online.shared.learner import add_features


@dataclass(eq=False, repr=False)
class NoveltyDetector(OutlierMixin, Transactional, Parameters):
    """Novelty detection on a stream (NORMA): inputs at which a kernel expansion f is below a threshold are new.

    Each row is a gradient step on  max(0, rho - f(x_t)) - nu rho + alpha/2 |f|^2  in f and in the threshold rho, which
    moves so that a share nu of the rows, each scored before it is learned, is below it. Because rho keeps changing, the
    share of all past rows that lie below its current value can differ slightly from nu.

    Parameters
    ----------
    kernel : scalar kernel, default ``Gaussian()``
        Similarity of two inputs.
    nu : float in [0, 1]
        Share of the inputs that may be classified as new.
    alpha, schedule, truncation, max_support, on_invalid : see `OLOK`
        Parameters of the learner of f.

    Attributes
    ----------
    threshold_ : rho
    offset_ : rho, by scikit-learn's name
    learner_ : the `OLOK` that learns f

    See Also
    --------
    OLOK, RiverAnomalyDetector

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import NoveltyDetector
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> model = NoveltyDetector(Gaussian(1.0), nu=0.05).fit(X)
    >>> model.predict([[0.0, 0.0], [6.0, 6.0]])
    array([ 1, -1])
    """

    _stored = {"learner_": OLOK}

    kernel: Any = None
    nu: float = 0.1
    alpha: float = 0.01
    schedule: Any = None
    truncation: Any = 500
    _: KW_ONLY
    max_support: int = 100_000
    on_invalid: str = "raise"

    def _learner(self) -> OLOK:
        shared = self.get_params(deep=False)
        del shared["nu"]
        return OLOK(**shared, loss=Novelty(self.nu), warm_up=0)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Discard what was learned and learn from the rows once, in order; y is not used."""
        with self._transaction() as work:
            X = check_inputs(work, X, reset=True, dtype=np.float64, ensure_all_finite=False)
            work.learner_ = self._learner().fit(X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from more rows; y is not used."""
        first = not hasattr(self, "learner_")
        with self._transaction() as work:
            X = check_inputs(work, X, reset=first, dtype=np.float64, ensure_all_finite=False)
            work.learner_ = (self._learner() if first else work.learner_).partial_fit(X)
        return self

    def _add_inputs(self, count: int) -> None:
        add_features(self.learner_, count)
        self.n_features_in_ += count

    @property
    @reads_snapshot
    def threshold_(self) -> float:
        """The threshold rho; inputs with f(x) below it are new."""
        check_is_fitted(self, "learner_")
        return float(self.learner_.threshold_)

    @property
    def offset_(self) -> float:
        """The threshold rho."""
        return self.threshold_

    @reads_snapshot
    def score_samples(self, X: Any) -> Array:
        """f(x), (n,), large for inputs similar to earlier ones."""
        check_is_fitted(self, "learner_")
        X = check_inputs(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.learner_.predict(X))

    @reads_snapshot
    def decision_function(self, X: Any) -> Array:
        """f(x) minus the threshold, (n,), negative for new inputs."""
        return self.score_samples(X) - self.threshold_

    @reads_snapshot
    def predict(self, X: Any) -> Labels:
        """-1 for new inputs and 1 for others, (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)
