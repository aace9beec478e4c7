"""Labels that come later than the predictions they belong to."""

from __future__ import annotations

from collections import deque
from datetime import timedelta
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from ovk._params import Parameters, check_int, positive
from ovk._types import Array, Times
from ovk.evaluation.learners import Incremental


class DelayedLabels(Parameters):
    """A learner whose labels come whenever they come, in any order.

    Every prediction has a ticket, with which its label is brought later. Inputs are kept until then; of more than
    `most` that wait for a label the oldest expire.

    Parameters
    ----------
    model : learner with `partial_fit` and `predict`; a copy of it learns, and goes on from what it knows
    most : int
        Most rows that wait for a label.
    classes : the labels there will be, for classifiers that want to know them at the start

    Attributes
    ----------
    model_ : the learner
    tickets_ : (n,) tickets that wait for a label, the oldest first
    inputs_ : (n, p) their inputs
    next_ticket_ : the next ticket
    n_expired_ : rows that expired

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import PKAWV
    >>> from ovk.evaluation import DelayedLabels
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> learner = DelayedLabels(PKAWV())
    >>> guesses, tickets = learner.predict(X)
    >>> learner.learn(tickets[::-1], np.sin(X[::-1, 0]))
    >>> guesses, tickets = learner.predict(X[:3])
    >>> bool(np.abs(guesses - np.sin(X[:3, 0])).max() < 0.3), tickets
    (True, array([50, 51, 52]))
    """

    model_: Any
    tickets_: Times
    inputs_: Array
    next_ticket_: int
    n_expired_: int

    def __init__(self, model: Any, most: int = 100_000, classes: Any = None) -> None:
        self.model = model
        self.most = most
        self.classes = classes

    def predict(self, X: Any) -> tuple[Any, Times]:
        """Predictions and tickets of rows (n, p); nan before the first label. The learner does not change."""
        self._start()
        X = np.atleast_2d(np.asarray(X, dtype=np.float64))
        if len(self.inputs_) and X.shape[1] != self.inputs_.shape[1]:
            raise ValueError(f"X must have {self.inputs_.shape[1]} features as before, got {X.shape[1]}")
        try:
            guesses = self.model_.predict(X)
        except NotFittedError:
            guesses = np.full(len(X), np.nan)
        tickets = self.next_ticket_ + np.arange(len(X), dtype=np.int64)
        inputs = X if not len(self.inputs_) else np.concatenate([self.inputs_, X])
        waiting = np.concatenate([self.tickets_, tickets])
        expired = max(0, len(waiting) - check_int(self.most, "most"))
        self.tickets_, self.inputs_ = waiting[expired:], inputs[expired:]
        self.next_ticket_ += len(X)
        self.n_expired_ += expired
        return guesses, tickets

    def learn(self, tickets: Any, y: Any, sample_weight: Any = None) -> None:
        """Bring labels: one ticket and its label, or (n,) tickets and (n,) or (n, d) labels, learned in this order.

        `sample_weight`, one number or (n,), multiplies the losses, for a learner that takes weights.
        """
        self._start()
        several = np.ndim(tickets) > 0
        wanted = np.atleast_1d(np.asarray(tickets, dtype=np.int64))
        labels = np.asarray(y) if several else np.asarray([y])
        if len(labels) != len(wanted) or len(np.unique(wanted)) != len(wanted):
            raise ValueError(f"every ticket needs one label: got {len(wanted)} tickets and {len(labels)} labels")
        places = np.searchsorted(self.tickets_, wanted)
        known = places < len(self.tickets_)
        known[known] = self.tickets_[places[known]] == wanted[known]
        if not known.all():
            ticket = int(wanted[~known][0])
            raise KeyError(
                f"ticket {ticket} waits for no label: it was never given, has its label already, or expired as more "
                f"than most={self.most} rows were waiting"
            )
        if len(wanted):
            options = {} if self.classes is None else {"classes": self.classes}
            if sample_weight is not None:
                options["sample_weight"] = np.atleast_1d(sample_weight)
            self.model_.partial_fit(self.inputs_[places], labels, **options)
        left = np.full(len(self.tickets_), True)
        left[places] = False
        self.tickets_, self.inputs_ = self.tickets_[left], self.inputs_[left]

    def _start(self) -> None:
        if "model_" in vars(self):
            return
        if not isinstance(self.model, Incremental):
            raise TypeError(f"model must have partial_fit and predict, got {type(self.model).__name__}")
        self.model_ = self.model.replace() if isinstance(self.model, Parameters) else clone(self.model)
        self.tickets_, self.inputs_ = np.empty(0, dtype=np.int64), np.empty((0, 0))
        self.next_ticket_ = self.n_expired_ = 0
