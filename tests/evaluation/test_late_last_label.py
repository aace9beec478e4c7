"""Rows with delayed labels are learned with the last label known at their prediction."""

import numpy as np
import pytest

import ovk
from ovk import PKAWV, AutoStream, AutoStreamClassifier, DelayedLabels, WithIntervals, progressive


def slow(n=700, seed=0):
    """An output that changes slowly, and one that is a function of the inputs."""
    rng = np.random.default_rng(seed)
    X, level = rng.standard_normal((n, 2)), np.zeros(n)
    for t in range(1, n):
        level[t] = 0.98 * level[t - 1] + 0.2 * rng.standard_normal()
    return X, np.column_stack([level, X[:, 0] * X[:, 1] + 0.1 * rng.standard_normal(n)])


def test_without_delay_the_last_label_is_that_of_the_previous_row():
    X, Y = slow(300)
    one, other = AutoStream().partial_fit(X[:100], Y[:100]), AutoStream().partial_fit(X[:100], Y[:100])
    assert np.array_equal(one.last_label_, Y[99])
    one.partial_fit(X[100:], Y[100:])
    other.partial_fit_late(X[100:], Y[100:], Y[99:-1])
    assert np.array_equal(one.predict(X), other.predict(X))


def test_outputs_without_labels_have_no_last_one():
    X, Y = slow(50)
    Y[:, 1] = np.nan
    assert np.isnan(AutoStream().partial_fit(X, Y).last_label_).tolist() == [False, True]
    one = AutoStream().partial_fit(X, Y[:, 0])
    assert one.last_label_.shape == (1,)
    one.partial_fit_late(X[:2], Y[:2, 0], [np.nan, 1.0])
    assert np.array_equal(one.last_label_, Y[1:2, 0])


class Forgets:
    """A learner that always uses the label of the previous row as the last label."""

    def __init__(self):
        self.model = AutoStream()

    def predict(self, X):
        return self.model.predict(X)

    def partial_fit(self, X, y):
        self.model.partial_fit(X, y)

    def predict_then_learn(self, X, y):
        raise NotImplementedError


@pytest.mark.long
@pytest.mark.parametrize("delay", [3, 8])
def test_learning_with_the_last_label_at_prediction_reduces_the_error(delay):
    t = np.arange(600)
    season = np.column_stack([np.sin(t / 4), np.cos(t / 4)])
    y = 2.0 * np.sin(t / 4) + slow(600)[1][:, 0]
    right, wrong = (progressive(model, season, y, delay=delay).mse[0] for model in (AutoStream(), Forgets()))
    assert right < 0.85 * wrong


def test_tickets_and_progressive_learn_the_same():
    X, Y = slow(200)
    kept = progressive(AutoStream(), X, Y, delay=4, keep="predictions").predictions
    for model in (AutoStream(), WithIntervals(AutoStream(), 0.9)):
        live, waiting, found = DelayedLabels(model, n_outputs=2), [], []
        for x, y in zip(X, Y, strict=True):
            if len(waiting) > 4:
                live.learn(*waiting.pop(0))
            z, tickets = live.predict(x[None])
            found.append(z[0])
            waiting.append((tickets[0], y))
        np.testing.assert_allclose(np.array(found), kept, rtol=1e-9)
        assert len(live.last_labels_) == len(live.tickets_) == 5


def test_tickets_remain_valid_after_loading(tmp_path):
    X, Y = slow(120)
    live = DelayedLabels(AutoStream(), n_outputs=2)
    live.learn(live.predict(X[:80])[1], Y[:80])
    tickets = live.predict(X[80:100])[1]
    live.learn(tickets[:10], Y[80:90])
    more = live.predict(X[100:])[1]
    ovk.save(live, tmp_path / "live.ovk")
    again = ovk.load(tmp_path / "live.ovk")
    for one in (live, again):
        one.learn(more, Y[100:])
        one.learn(tickets[10:], Y[90:100])
    assert np.array_equal(live.model_.predict(X), again.model_.predict(X))


def test_a_learner_without_last_label_stores_none():
    X, Y = slow(60)
    live = DelayedLabels(PKAWV(), n_outputs=2)
    live.learn(live.predict(X)[1], Y)
    assert live.last_labels_ is None


@pytest.mark.long
def test_classes():
    rng, phase = np.random.default_rng(0), 2 * np.pi * np.arange(500) / 75
    X = np.column_stack([np.cos(phase), np.sin(phase)]) + 0.3 * rng.standard_normal((500, 2))
    names = np.array(["a", "b", "c"])[np.arange(500) // 25 % 3]
    model = AutoStreamClassifier().partial_fit(X[:60], names[:60])
    assert model.last_label_ == names[59]
    late = AutoStreamClassifier().partial_fit(X[:60], names[:60])
    late.partial_fit_late(X[60:], names[60:], names[59:-1])
    # Without `predicted`, late labels do not temper the probabilities.
    model.partial_fit(X[60:], names[60:])
    assert np.array_equal(late.predict_proba(X), model.predict_proba(X, tempered=False))
    result = progressive(AutoStreamClassifier(), X, names, delay=5)
    assert result.model.accuracy > result.baselines[0].accuracy + 0.03

    live = DelayedLabels(AutoStreamClassifier())
    first = live.predict(X[:30])[1]
    live.learn(first, names[:30])
    tickets = live.predict(X[30:60])[1]
    live.learn(tickets, names[30:60])
    assert live.model_.last_label_ == names[59]


def test_delayed_labels_of_classes_may_be_numbers():
    X = slow(60)[0]
    y = (X[:, 0] > 0).astype(int)
    one, other = AutoStreamClassifier().partial_fit(X[:30], y[:30]), AutoStreamClassifier().partial_fit(X[:30], y[:30])
    one.partial_fit(X[30:], y[30:])
    # `progressive` stores the last labels in an array of objects.
    other.partial_fit_late(X[30:], y[30:], np.array(y[29:-1].tolist(), dtype=object))
    assert np.array_equal(one.predict_proba(X, tempered=False), other.predict_proba(X))
