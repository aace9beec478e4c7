"""Rows before the first label are tested only for models that have learned before."""

import numpy as np
import pytest

from ovk import OLOK, AutoStream, DelayedLabels, WithIntervals, progressive


@pytest.fixture
def rows():
    X = np.random.default_rng(1).standard_normal((200, 2))
    return X, np.sin(X[:, 0]) + 240.0


def test_baselines_of_a_model_that_has_learned_wait_and_are_scored(rows):
    X, y = rows
    found = progressive(AutoStream().partial_fit(X, y), X, y, delay=5)
    assert found.untested == 0
    assert np.isfinite([baseline.mse for baseline in found.baselines]).all()


def test_missing_labels_do_not_count_as_labels(rows):
    X, y = rows
    y[:10] = np.nan
    found = progressive(AutoStream(), X, y, delay=3)
    assert found.untested == 14
    assert found.mse < 1.0


def test_wrappers_of_a_fitted_learner_are_fitted(rows):
    X, y = rows
    known = AutoStream().partial_fit(X, y)
    assert progressive(WithIntervals(known, 0.9), X, y).untested == progressive(known, X, y).untested == 0
    assert progressive(WithIntervals(AutoStream(), 0.9), X, y).untested == 1


def test_an_invalid_max_pending_issues_no_tickets(rows):
    waiting = DelayedLabels(OLOK(), max_pending=0)
    with pytest.raises(ValueError, match="max_pending"):
        waiting.predict(rows[0][:3])
    assert len(waiting.tickets_) == waiting.next_ticket_ == 0
