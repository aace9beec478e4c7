"""Deployed learners: predictions with regions, and delayed labels."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.exceptions import NotFittedError

from ovk.base import Array, Indices, NamedOutputs, Parameters, Times, Transactional, check_int, reads_snapshot, unnamed
from ovk.evaluation.adaptive import ACI
from ovk.evaluation.conformal import Conformal
from ovk.evaluation.delayed import Incremental, RowByRow, last_label, learn_rows
from ovk.evaluation.task import REGRESSION
from ovk.intervals import Regions, concatenate
from ovk.online import add_features


@dataclass(eq=False, repr=False)
class WithIntervals(Transactional, Parameters):
    """An online learner with prediction intervals that learn from the same stream.

    It is for deployed models. To evaluate a model, use ``progressive(model, X, Y, intervals=...)``. For delayed labels
    use ``DelayedLabels(WithIntervals(model))``.

    Parameters
    ----------
    learner : online learner of ovk, or estimator with `partial_fit` and `predict`
        A copy of it learns, starting from its current state.
    intervals : ACI, COP, ConformalPID, StronglyAdaptive, RollingConformal or float
        The interval method, or a coverage for ``ACI(coverage)``. For nonnegative outputs use
        ``ACI(0.9, bounds=(0, None))``.

    Attributes
    ----------
    learner_, intervals_
        The fitted learner and interval method.

    See Also
    --------
    DelayedLabels, progressive, ACI

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream, WithIntervals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(size=(500, 1))
    >>> model = WithIntervals(AutoStream(), 0.9).partial_fit(X, X[:, 0] + 0.1 * rng.standard_normal(500))
    >>> regions = model.predict_regions(np.array([[0.5]]))
    >>> regions.lower.round(1), regions.upper.round(1)
    (array([[0.3]]), array([[0.7]]))
    """

    learner: Any
    intervals: Any = 0.9

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Predictions of the rows, in the shape of y, each from the rows before it."""
        predictions = self.regions_then_learn(X, y, sample_weight).predictions
        return predictions.reshape(np.shape(y)) if isinstance(predictions, np.ndarray) else predictions

    def regions_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Regions:
        """The region of each row, computed from earlier rows only; then learn the rows.

        `sample_weight` (n,) multiplies the losses of learners that take weights; regions count all rows equally.
        """
        with self._transaction() as work:
            F, Y = work._learn_rows(X, y, sample_weight)
            return _named(work.intervals_.regions_then_learn(F, Y), work.learner_, X)

    def learn_late(
        self,
        X: Any,
        y: Any,
        regions: Regions | None,
        scored: Any,
        delay: Any = 0,
        sample_weight: Any = None,
        last_label: Any = None,
    ) -> None:
        """Learn rows whose outputs arrive after other rows were predicted.

        `regions` are those of the rows with the indices `scored`, and `delay` as in `Conformal.learn`. `last_label`
        holds the last label known at the prediction of each row, for learners that use it as an input.
        """
        with self._transaction() as work:
            Y = np.asarray(unnamed(y), dtype=np.float64)
            if last_label is None:
                work._learn_rows(X, y, sample_weight)
            else:
                options: dict[str, Any] = {} if sample_weight is None else {"sample_weight": sample_weight}
                learn_rows(work.learner_, X, y, last_label, **options)
            if regions is not None and len(regions):
                work.intervals_.learn(regions, Y[scored], delay)

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from the rows."""
        self.regions_then_learn(X, y, sample_weight)
        return self

    @reads_snapshot
    def predict(self, X: Any) -> Any:
        """Predictions, clipped to the bounds of the intervals if there are any."""
        self._begin()
        try:
            F = self.learner_.predict(X)
        except NotFittedError:
            raise NotFittedError("WithIntervals is not fitted: call predict_then_learn or partial_fit first") from None
        if self.intervals_.bounds is None:
            return F
        plain = np.asarray(unnamed(F), dtype=np.float64)
        clipped = self.intervals_.within_bounds(plain.reshape(len(plain), -1)).reshape(plain.shape)
        return self.learner_._named(clipped, X) if isinstance(self.learner_, NamedOutputs) else clipped

    @reads_snapshot
    def predict_regions(self, X: Any) -> Regions:
        """A region around each prediction, from all rows so far."""
        F = np.asarray(self.predict(X), dtype=np.float64)
        self._begin()
        return _named(self.intervals_.regions(F), self.learner_, X)

    def _begin(self) -> None:
        if not hasattr(self, "learner_"):
            self.learner_ = copy.deepcopy(self.learner)
            self.intervals_: Conformal = clone(as_intervals(self.intervals))

    def _learn_rows(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array]:
        """Learn the rows; return their predictions and outputs."""
        self._begin()
        Y = np.asarray(unnamed(y), dtype=np.float64)
        # Learners of ovk take frames and store their names; others get arrays.
        y = y if isinstance(self.learner_, NamedOutputs) else Y
        options = {} if sample_weight is None else {"sample_weight": sample_weight}
        if REGRESSION.learns_blocks(self.learner_):
            return np.asarray(self.learner_.predict_then_learn(X, y, **options), dtype=np.float64), Y
        F = RowByRow(REGRESSION, self.learner_).predict_then_learn(X, Y, Y[:1].size, weights=sample_weight)
        return F.reshape(Y.shape), Y

    def _add_inputs(self, count: int) -> None:
        add_features(self.learner_, count)


def _named(regions: Regions, learner: Any, X: Any) -> Regions:
    return regions.named(lambda ends: learner._named(ends, X)) if isinstance(learner, NamedOutputs) else regions


def as_intervals(intervals: Any) -> Conformal:
    if isinstance(intervals, Conformal):
        return intervals
    if isinstance(intervals, float) and 0 < intervals < 1:
        return ACI(intervals)
    raise ValueError(
        "intervals must be a method of ovk.evaluation (ACI, COP, ConformalPID, StronglyAdaptive, RollingConformal) "
        f"or a coverage between 0 and 1, got {intervals!r}"
    )


@dataclass(eq=False, repr=False)
class DelayedLabels(Parameters):
    """An online learner for delayed labels, which may arrive in any order.

    Each prediction returns a ticket; pass it back with the label later. The inputs are stored until then. With
    `WithIntervals` the regions are stored as well, and learned when the label arrives.

    Parameters
    ----------
    model : learner with `partial_fit` and `predict`
        A copy of it learns, starting from its current state.
    max_pending : int
        Maximum number of rows that wait for a label; beyond it the oldest expire.
    classes : sequence of labels, optional
        All labels, for classifiers that need them at the start.
    n_outputs : int, optional
        Number of columns of y, if there are several: it sets the shape of predictions before the first label.

    Attributes
    ----------
    model_ : learner
        The fitted learner.
    tickets_ : (n,) array
        Tickets that wait for a label, oldest first.
    inputs_ : (n, p) array
        Their inputs.
    regions_ : Regions or None
        The regions of the last of them; None without intervals, and before the first.
    last_labels_ : list or None
        The last label known at each prediction, or None; for models that use it as an input.
    next_ticket_ : int
        The next ticket.
    n_expired_ : int
        Number of expired rows.

    See Also
    --------
    WithIntervals, progressive

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import AutoStream, DelayedLabels, WithIntervals
    >>> X = np.random.default_rng(0).uniform(0, 6, (300, 1))
    >>> learner = DelayedLabels(WithIntervals(AutoStream(), 0.9))
    >>> waiting = []
    >>> for x in X:
    ...     regions, tickets = learner.predict_regions(x[None])
    ...     waiting.append((tickets[0], np.sin(x[0])))  # the label arrives 20 rows later
    ...     if len(waiting) > 20:
    ...         learner.learn(*waiting.pop(0))
    >>> regions.predictions.round(1), np.sin(X[-1]).round(1), len(learner.tickets_)
    (array([[-1.]]), array([-1.]), 20)
    """

    model: Any
    max_pending: int = 100_000
    classes: Any = None
    n_outputs: int | None = None

    _state_classes = {"regions_": Regions}
    _stored = {"inputs_": "n * nan any | other", "last_labels_": "d nan | None | other", "tickets_": "n int"}

    def _start(self) -> None:
        if "model_" in vars(self):
            return
        if not isinstance(self.model, Incremental):
            raise TypeError(f"model must have partial_fit and predict, got {type(self.model).__name__}")
        self.model_ = copy.deepcopy(self.model)
        if isinstance(self.model_, WithIntervals):
            self.model_._begin()
        self.tickets_, self.inputs_ = np.empty(0, dtype=np.int64), np.empty((0, 0))
        self.regions_: Regions | None = None
        self.last_labels_: list[Any] | None = None
        self.next_ticket_ = self.n_expired_ = 0

    def predict(self, X: Any) -> tuple[Any, Times]:
        """Predictions and tickets of rows (n, p); nan before the first label."""
        predictions, _, tickets = self._issue(X)
        return predictions, tickets

    def predict_regions(self, X: Any) -> tuple[Regions, Times]:
        """Regions and tickets of rows (n, p), for a model `WithIntervals`; nan before the first label."""
        _, regions, tickets = self._issue(X)
        if regions is None:
            raise TypeError(f"{type(self.model).__name__} has no regions: use DelayedLabels(WithIntervals(model, 0.9))")
        return regions, tickets

    def learn(self, tickets: Any, y: Any, sample_weight: Any = None) -> None:
        """Learn labels: one ticket and its label, or (n,) tickets and (n,) or (n, d) labels, in this order.

        `sample_weight`, a number or (n,), multiplies the losses of learners that take weights.
        """
        self._start()
        several = np.ndim(tickets) > 0
        wanted = np.atleast_1d(np.asarray(tickets, dtype=np.int64))
        labels = np.asarray(y) if several else np.asarray([y])
        if len(labels) != len(wanted) or len(np.unique(wanted)) != len(wanted):
            raise ValueError(f"tickets and y must have equal lengths, got {len(wanted)} tickets, {len(labels)} labels")
        places = np.searchsorted(self.tickets_, wanted)
        known = places < len(self.tickets_)
        known[known] = self.tickets_[places[known]] == wanted[known]
        if not known.all():
            ticket = int(wanted[~known][0])
            raise KeyError(
                f"ticket {ticket} waits for no label: it was never issued, has been learned, or expired because more "
                f"than max_pending={self.max_pending} rows were waiting"
            )
        self._check_shape(wanted, labels)
        if len(wanted):
            self._learn_rows(places, labels, None if sample_weight is None else np.atleast_1d(sample_weight))
        self._keep(np.setdiff1d(np.arange(len(self.tickets_)), places))

    def _check_shape(self, tickets: Times, labels: Array) -> None:
        d = self._outputs()
        fits = labels.ndim in (1, 2) if d is None else labels.shape[1:] in ((d,), *([()] if d == 1 else []))
        if not fits:
            several = "a number, or (d,) for d outputs" if d is None else "a number" if d == 1 else f"({d},)"
            raise ValueError(
                f"the label of ticket {int(tickets[0])} must have the shape of one row, {several}, got "
                f"{labels.shape[1:]}: pass one ticket with y of one row, or (n,) tickets with n rows"
            )

    def _outputs(self) -> int | None:
        """Number of outputs, None if unknown."""
        if self.regions_ is not None:
            return int(self.regions_.predictions.shape[1])
        if self.n_outputs is not None:
            return check_int(self.n_outputs, "n_outputs")
        model = self._learner()
        known = getattr(model, "n_outputs_", None) if isinstance(model, RegressorMixin) else None
        return known if isinstance(known, int) else None

    def _learn_rows(self, places: Indices, labels: Array, weights: Array | None) -> None:
        X = self.inputs_[places]
        options: dict[str, Any] = {} if weights is None else {"sample_weight": weights}
        last = None if self.last_labels_ is None else [self.last_labels_[place] for place in places]
        if isinstance(self.model_, WithIntervals):
            # Rows before the first label have no region.
            first = len(self.tickets_) - (0 if self.regions_ is None else len(self.regions_))
            scored = np.flatnonzero(places >= first)
            regions = None if self.regions_ is None else self.regions_.chosen(places[scored] - first)
            delay = self.next_ticket_ - 1 - self.tickets_[places[scored]]
            self.model_.learn_late(X, labels, regions, scored, delay, last_label=last, **options)
            return
        if self.classes is not None:
            options["classes"] = self.classes
        learn_rows(self.model_, X, labels, last or (), **options)

    def _learner(self) -> Any:
        return self.model_.learner_ if isinstance(self.model_, WithIntervals) else self.model_

    def _issue(self, X: Any) -> tuple[Any, Regions | None, Times]:
        """Predictions, regions if the model has them, and tickets of the rows, which now wait for their labels."""
        self._start()
        most = check_int(self.max_pending, "max_pending")
        X = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if len(self.inputs_) and X.shape[1] != self.inputs_.shape[1]:
            raise ValueError(f"X must have {self.inputs_.shape[1]} features as before, got {X.shape[1]}")
        method = self.model_.intervals_ if isinstance(self.model_, WithIntervals) else None
        try:
            predictions = self.model_.predict(X)
            regions = None if method is None else method.regions(predictions)
            waiting = regions if self.regions_ is None or regions is None else concatenate([self.regions_, regions])
        except NotFittedError:
            d = None if self.n_outputs is None else check_int(self.n_outputs, "n_outputs")
            predictions = np.full(len(X) if d is None else (len(X), d), np.nan)
            regions, waiting = None if method is None else method.regions(predictions), None
        if hasattr(self._learner(), "partial_fit_late"):
            known = [None] * len(self.tickets_) if self.last_labels_ is None else self.last_labels_
            self.last_labels_ = [*known, *[last_label(self._learner())] * len(X)]
        tickets = self.next_ticket_ + np.arange(len(X), dtype=np.int64)
        self.inputs_ = np.concatenate([self.inputs_, X]) if len(self.inputs_) else X
        self.tickets_, self.regions_ = np.concatenate([self.tickets_, tickets]), waiting
        self.next_ticket_ += len(X)
        expired = max(0, len(self.tickets_) - most)
        self.n_expired_ += expired
        self._keep(np.arange(expired, len(self.tickets_)))
        return predictions, regions, tickets

    def _keep(self, places: Indices) -> None:
        """Drop all waiting rows but those at these places."""
        if self.regions_ is not None:
            later = places - (len(self.tickets_) - len(self.regions_))
            self.regions_ = self.regions_.chosen(later[later >= 0])
        if self.last_labels_ is not None:
            self.last_labels_ = [self.last_labels_[place] for place in places]
        self.tickets_, self.inputs_ = self.tickets_[places], self.inputs_[places]
