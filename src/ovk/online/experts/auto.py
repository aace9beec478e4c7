"""Learner of numbers from streams, without settings, and what it shares with the learner of classes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ovk._params import Parameters
from ovk._transactions import Transactional, reads
from ovk._types import Array
from ovk.online.experts.engine import StageMixture
from ovk.online.shared.learner import StreamRegressor
from ovk.online.shared.rows import Rows, checked_rows, checked_weights
from ovk.targets import check_inputs

#: Where intervals are to be had.
CURE = "for intervals use WithIntervals(AutoStream(), 0.9).partial_fit(X, y).predict_regions(X)"


class StageLearner(Transactional, Parameters, saved=False):
    """What the learner of numbers and that of classes share: the experts, what they say of a drift, and the inputs."""

    mixture_: StageMixture
    n_features_in_: int
    _state_classes = {"mixture_": StageMixture}

    def __init__(self, *, lag: bool = True) -> None:
        self.lag = lag

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    @property
    @reads
    def expert_weights_(self) -> dict[str, Array]:
        """Weight of each expert in the next prediction, for each output: (d,) arrays by name."""
        check_is_fitted(self)
        return self.mixture_.weights()

    @property
    @reads
    def effective_window_(self) -> Array:
        """(d,) rows that the next prediction looks back on: mean of the experts' windows with their weights."""
        check_is_fitted(self)
        return self.mixture_.effective_window()

    def _new_inputs(self, X: Any) -> Array:
        check_is_fitted(self)
        inputs: Array = check_inputs(self, X, reset=False, dtype=np.float64, ensure_all_finite=False)
        return inputs

    def _check_parameters(self) -> None:
        if not isinstance(self.lag, (bool, np.bool_)):
            raise ValueError(f"lag must be True or False, got {self.lag!r}")


class AutoStream(StageLearner, StreamRegressor):
    """Regression on a stream, without any settings.

    Widths, ridge parameters, a metric of the inputs and the points of a dictionary are chosen from the rows seen, after
    20, 60, 200, 600, ..., 60,000 of them. Experts (means, the last value, linear and kernel ridge regressions that
    forget at several rates) predict every row before they learn from it, and are mixed for each output by their recent
    regrets. Values of X that are nan or infinite are missing, and so are such labels. A wild label teaches no more than
    an ordinary one.

    When errors grow, as after an abrupt change, a learner of the rows since then starts beside this one. It has the
    weight that its errors earn it, and takes the place of this one when it has won.

    A row without any label is predicted and is then gone, as if it had never come. Outputs that are not observed in the
    same rows have experts of their own, which count, age by and choose from the rows that have their labels (at most
    eight groups of outputs; further ones join the group that is observed most like them, where a missing label counts
    as predicted exactly). A further expert corrects each output by the predictions of the others, so that outputs that
    have something in common learn from the labels of each other.

    The weight of a row multiplies its loss in every expert, in the comparison of candidates and in the regrets. In
    experts that never forget a whole number w counts like w repetitions; those that forget age by one row, whatever
    its weight. Units, points of the dictionary and limits on residuals count rows alike. A row of weight 0 is predicted
    and is then gone: it is not counted for a stage or a window, and does not become the last label.

    Parameters
    ----------
    lag : whether the last label may be used as an input. Predictions then stay near it where labels change slowly: set
        it to False for predictions from the inputs alone, and where rows are in no order.

    Attributes
    ----------
    mixture_ : the experts
    expert_weights_, effective_window_ : weights of the experts, and how far back they look: what a drift changes
    n_outputs_ : number of outputs
    single_output_ : whether y was one-dimensional in the first call

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-2.0, 2.0, (1000, 2))
    >>> y = 100.0 + np.sin(3.0 * X[:, 0]) + 0.1 * rng.standard_normal(1000)
    >>> z = AutoStream().predict_then_learn(X, y)
    >>> bool(np.mean((z - y)[500:] ** 2) < 0.03)
    True
    """

    n_outputs_: int

    @property
    def predict_interval(self) -> Any:
        """Not available: the error message says how to get intervals."""
        raise AttributeError(f"{type(self).__name__} has no predict_interval; {CURE}")

    @reads
    def predict(self, X: Any, return_std: bool = False) -> Array:
        """Predict without learning, as if each row came next.

        Parameters
        ----------
        X : (n, p); a value that is nan or infinite is missing
        return_std : refused: the experts have no standard deviation; `WithIntervals` gives intervals

        Returns
        -------
        (n, d), or (n,) if y was one-dimensional
        """
        check_is_fitted(self)
        if return_std:
            raise ValueError(f"return_std must be False: {type(self).__name__} has no standard deviations; {CURE}")
        admitted = self._gate is not None and self._gate.admits(self, X)
        Z = self.mixture_.predict(X if admitted else self._new_inputs(X))
        return Z[:, 0] if self.single_output_ else self._named(Z, X)

    def _checked(self, X: Any, y: Any, *, first: bool, whole: bool = False) -> Rows:
        return checked_rows(self, X, y, outputs=None if first else self.n_outputs_, on_invalid="missing", whole=whole)

    def _start(self, rows: Rows) -> None:
        self.n_outputs_, self.single_output_ = rows.Y.shape[1], rows.single
        self.mixture_ = StageMixture(rows.X.shape[1], self.n_outputs_, lag=self.lag)

    def _weighted(self, rows: Rows, sample_weight: Any) -> Rows:
        return rows._replace(weights=checked_weights(sample_weight, rows.X))

    def _learn(self, rows: Rows) -> Array:
        return self.mixture_.predict_and_update(rows.X, rows.Y, rows.weights, rows.last)

    @property
    @reads
    def last_label_(self) -> Array:
        """(d,) the last labels learned, which the next prediction looks at; nan for outputs without any."""
        check_is_fitted(self)
        return np.where(self.mixture_.seen > 0.0, self.mixture_.last, np.nan)

    def partial_fit_late(self, X: Any, y: Any, last_label: Any, sample_weight: Any = None) -> Self:
        """Learn rows whose labels came after later rows had been predicted.

        Parameters
        ----------
        X, y, sample_weight : as in `predict_then_learn`
        last_label : (n, d) or (n,), `last_label_` as it was when each row was predicted; nan where there was none.
            With `partial_fit` the learner would take them for the labels of the rows before, which nobody knew then.
        """
        self._check_then_learn(X, y, sample_weight, np.asarray(last_label, dtype=np.float64))
        return self

    def _row_plan(self) -> tuple[int, Any] | None:
        return self.n_outputs_, None

    def _after_row(self, X: Array, y: Array) -> tuple[Self, Array]:
        mixture = self.mixture_._fork()
        z = mixture.predict_and_update(X, y[None])[0]
        return self._with(mixture_=mixture), z
