"""Which inputs of a stream are new."""

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
    """Novelty detection on a stream (NORMA): f is large where inputs have been seen; below a threshold they are new.

    Each row is a gradient step for  max(0, rho - f(x_t)) - nu rho + alpha/2 |f|^2  in f and in the threshold rho, which
    moves until a share nu of the rows, each judged before it is learned, lies below it. At any one time the share of
    past rows below it can be a few times less or more: rho never rests.

    Parameters
    ----------
    kernel : scalar kernel; default ``Gaussian()``
    nu : float in [0, 1]
        Share of the inputs that may count as new.
    alpha, schedule, truncation, max_support, on_invalid : as in `OLOK`

    Attributes
    ----------
    threshold_ : rho
    offset_ : the same, by the name that scikit-learn has for it
    learner_ : the `OLOK` that learns f

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

    kernel: Any = None
    nu: float = 0.1
    alpha: float = 0.01
    schedule: Any = None
    truncation: Any = 500
    _: KW_ONLY
    max_support: int = 100_000
    on_invalid: str = "raise"

    def _learner(self) -> OLOK:
        return OLOK(
            self.kernel,
            self.alpha,
            self.schedule,
            Novelty(self.nu),
            self.truncation,
            warm_up=0,
            max_support=self.max_support,
            on_invalid=self.on_invalid,
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Forget everything and learn from the rows in their order, once; y is not used."""
        with self._transaction() as work:
            X = check_inputs(work, X, reset=True, dtype=np.float64, ensure_all_finite=False)
            work.learner_ = self._learner()
            work.learner_.fit(X)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Go on learning from further rows; y is not used."""
        first = not hasattr(self, "learner_")
        with self._transaction() as work:
            X = check_inputs(work, X, reset=first, dtype=np.float64, ensure_all_finite=False)
            if first:
                work.learner_ = self._learner()
            work.learner_.partial_fit(X)
        return self

    def _add_inputs(self, count: int) -> None:
        add_features(self.learner_, count)
        self.n_features_in_ += count

    @property
    @reads_snapshot
    def threshold_(self) -> float:
        """Inputs with f(x) below this are new."""
        check_is_fitted(self, "learner_")
        return float(self.learner_.threshold_)

    @property
    def offset_(self) -> float:
        """The threshold."""
        return self.threshold_

    @reads_snapshot
    def score_samples(self, X: Any) -> Array:
        """f(x), (n,): the larger, the more familiar."""
        check_is_fitted(self, "learner_")
        X = check_inputs(self, X, reset=False, dtype=np.float64)
        return np.asarray(self.learner_.predict(X))

    @reads_snapshot
    def decision_function(self, X: Any) -> Array:
        """f(x) less the threshold, (n,): negative for what is new."""
        return self.score_samples(X) - self.threshold_

    @reads_snapshot
    def predict(self, X: Any) -> Labels:
        """-1 for what is new and 1 for what is not, (n,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)
