"""Abrupt changes: a candidate starts at the change, is weighted by its errors, and replaces a worse learner."""

import pickle
from copy import deepcopy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import ovk
from ovk import AutoStream, AutoStreamClassifier
from ovk.online.experts.expert_set import ExpertSet
from ovk.online.experts.mixture import (
    ALARM_LIMIT,
    LEVEL_DISCOUNT,
    MAX_RATIO,
    MIN_LABELS,
    PRIOR_ODDS,
    VARIANCE_GROWTH,
    ErrorAlarm,
    ExpertMixture,
    ModelComparison,
    discounted_sums,
)


@pytest.fixture
def early_stages(monkeypatch):
    monkeypatch.setattr(ExpertMixture, "_refit_rows", (15, 40, 110))
    monkeypatch.setattr(ExpertMixture, "_comparison_rows", (60, 90, 120))
    monkeypatch.setattr(ExpertSet, "_rows_compared", 60)
    monkeypatch.setattr(ExpertSet, "_widths", (0.5, 1.0))


def errors(n=300, d=2, seed=0, growth=20.0):
    rng = np.random.default_rng(seed)
    losses = rng.standard_normal((n, d)) ** 2
    losses[n // 2 :, 0] *= growth
    losses[rng.random((n, d)) < 0.1] = np.nan
    return losses


def slow_alarm(losses, means):
    """The definition, row by row: the first row of an alarm and the rows since the sum was 0."""
    d = losses.shape[1]
    level, labels = np.zeros((2, d)), np.zeros(d)
    sums, since = np.zeros((2, d)), np.zeros((2, d), dtype=int)
    for i, rows in enumerate(np.stack([losses, means], axis=1)):
        since += 1
        for j in range(d):
            if np.isfinite(rows[0, j]):
                if labels[j] >= MIN_LABELS:
                    m, v = level[:, j] / labels[j]
                    own, other = np.minimum(rows[:, j] / [m, v], MAX_RATIO)
                    steps = (1 - 1 / VARIANCE_GROWTH) * own - np.log(VARIANCE_GROWTH), own - other - np.log(v / m)
                    sums[:, j] = np.maximum(0.0, sums[:, j] + 0.5 * np.array(steps))
                level[:, j] = LEVEL_DISCOUNT * level[:, j] + rows[:, j]
                labels[j] = LEVEL_DISCOUNT * labels[j] + 1.0
        since[sums <= 1e-12] = 0
        if (sums > ALARM_LIMIT).any():
            return i + 1, since[sums > ALARM_LIMIT].max()
    return len(losses), 0


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 100), max_size=8) | st.just([1] * 300),
    growth=st.sampled_from([1.0, 6.0, 30.0]),
    seed=st.integers(0, 99),
)
def test_the_alarm_follows_its_definition_in_any_chunks(sizes, growth, seed):
    losses, alarm, start, since = errors(growth=growth, seed=seed), ErrorAlarm(1, 2, classes=False), 0, 0
    # The mean becomes better while the errors do not grow.
    means = 2.0 * losses * np.random.default_rng(seed).uniform(0.5, 1.5, losses.shape)
    means[150:] *= 0.3 / growth
    for size in [*sizes, len(losses)]:
        if start < len(losses) and not since:
            looked, since = alarm.process(losses[start : start + size], means[start : start + size], np.zeros(2))
            alarm, start = ErrorAlarm.from_state(alarm.state()), start + looked
    assert (start, since) == slow_alarm(losses, means)
    assert growth < 30.0 or 150 < start < 200


def test_errors_of_a_constant_variance_raise_few_alarms():
    rng, alarms = np.random.default_rng(0), 0
    for _ in range(40):
        alarm = ErrorAlarm(1, 1, classes=False)
        z, e = rng.standard_normal((2, 2_000, 1)) / 1e3
        alarms += alarm.process(e**2, (z + e) ** 2, np.zeros(1))[1] > 0
    assert alarms <= 80_000 / np.exp(ALARM_LIMIT) + 3 * np.sqrt(80_000 / np.exp(ALARM_LIMIT))


@pytest.mark.parametrize("row", [160, 170, 178])
def test_changes_are_dated(row):
    losses = np.random.default_rng(1).uniform(0.5, 1.5, (180, 1))
    losses[row:] *= 50.0
    # The error of the row before the change was large and would have raised the sum.
    losses[row - 1] = 3.0
    alarm = ErrorAlarm(1, 1, classes=False)
    alarm.sums[:] = 2 * ALARM_LIMIT
    assert alarm.date(losses, 30) == 180 - row


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 99), g=st.floats(0.9, 1.0))
def test_running_sums_and_weights(seed, g):
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((30, 2)) < 0.3, np.nan, rng.standard_normal((30, 2)))
    first, expected = np.array([2.0, -1.0]), [np.array([2.0, -1.0])]
    for row in values:
        expected.append(np.where(np.isfinite(row), g * expected[-1] + np.nan_to_num(row), expected[-1]))
    assert_allclose(discounted_sums(first, values, g), expected, rtol=1e-9, atol=1e-9)
    old, new = values**2, 2.0 * values**2
    contest = ModelComparison(old[:20], new[:20], np.zeros(2))
    weights = contest.weights(old[20:], new[20:])
    for i in range(10):
        assert_allclose(weights[i], contest.weight())
        assert_allclose(weights[i], 1.0 / (1.0 + PRIOR_ODDS * 2.0 ** (contest.labels / 2.0)), rtol=1e-9)
        contest.learn(old[20 + i : 21 + i], new[20 + i : 21 + i])


def changing(n=420, at=210, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2.0, 2.0, (n, 2))
    y = np.where(np.arange(n) < at, np.sin(2.0 * X[:, 0]), 3.0 - 2.0 * np.cos(2.0 * X[:, 1]) * X[:, 0])
    return X, y + 0.05 * rng.standard_normal(n)


def learner_and_labels(classes):
    X, y = changing()
    if not classes:
        return AutoStream(), X, y, "predict_then_learn"
    y = np.where(np.arange(len(X)) < 210, X[:, 0] > 0.0, np.sin(3.0 * X[:, 1]) > 0.0)
    return AutoStreamClassifier(), X, y, "predict_proba_then_learn"


@pytest.mark.usefixtures("early_stages")
@pytest.mark.parametrize("classes", [False, True])
def test_a_new_learner_starts_at_the_change_and_takes_over(classes):
    learner, X, y, method = learner_and_labels(classes)
    fresh = deepcopy(learner)
    learner.partial_fit(X[:240], y[:240], **({"classes": [False, True]} if classes else {}))
    beside = learner.mixture_.candidate
    assert 240 - beside.count in range(210, 216)
    assert beside.candidate is None
    assert beside.alarm is None
    # It has learned only the rows since then, and the last label before them.
    some = slice(240 - beside.count, 240)
    if not classes:
        fresh.partial_fit_late(X[some], y[some], y[some.start - 1 : 239])
        assert_allclose(beside.predict(X), fresh.mixture_._predict_without_candidate(X), rtol=1e-7)
    weights = learner.expert_weights_
    assert_allclose(sum(weights.values()), 1.0)
    assert weights["learner since the last alarm"] == learner.mixture_.contest.weight()
    assert 1.0 <= learner.effective_window_[0] <= 240.0
    getattr(learner, method)(X[240:], y[240:])
    assert learner.mixture_.candidate is None
    assert learner.mixture_.count == beside.count + len(X) - 240
    assert learner.expert_weights_["learner since the last alarm"] == 0.0


@pytest.mark.usefixtures("early_stages")
@pytest.mark.parametrize("sizes", [[1], [7], [100, 1, 45]])
@pytest.mark.parametrize("classes", [False, True])
def test_rows_equal_chunks_through_a_change(classes, sizes):
    learner, X, y, method = learner_and_labels(classes)
    first = {"classes": [False, True]} if classes else {}
    whole, parts, start, k = getattr(deepcopy(learner), method)(X, y, **first), [], 0, 0
    while start < len(X):
        some = slice(start, start + sizes[k % len(sizes)])
        parts.append(getattr(learner, method)(X[some], y[some], **(first if start == 0 else {})))
        start, k = some.stop, k + 1
    assert_allclose(np.concatenate(parts), whole, rtol=1e-6, atol=1e-7)


@pytest.mark.usefixtures("early_stages")
@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("rows", [211, 230, 265])
def test_states_resume_bit_by_bit_during_an_alarm(rows, classes, tmp_path):
    learner, X, y, method = learner_and_labels(classes)
    learner.partial_fit(X[:rows], y[:rows], **({"classes": [False, True]} if classes else {}))
    assert (learner.mixture_.candidate is not None) or rows != 230
    ovk.save(learner, tmp_path / "learner.ovk")
    copies = [pickle.loads(pickle.dumps(learner)), deepcopy(learner), ovk.load(tmp_path / "learner.ovk")]
    for some in (slice(rows, rows + 1), slice(rows + 1, len(X))):
        expected = getattr(learner, method)(X[some], y[some])
        for other in copies:
            assert_array_equal(getattr(other, method)(X[some], y[some]), expected)


@pytest.mark.usefixtures("early_stages")
def test_rows_without_labels_leave_no_trace_through_a_change():
    X, y = changing()
    known = np.random.default_rng(0).random(len(X)) < 0.6
    one, other = AutoStream(), AutoStream()
    Z = one.predict_then_learn(X, np.where(known, y, np.nan))
    assert_array_equal(Z[known], other.predict_then_learn(X[known], y[known]))
    assert_array_equal(one.predict(X), other.predict(X))


@pytest.mark.usefixtures("early_stages")
def test_a_false_alarm_leaves_the_old_learner():
    X, y = changing(at=1000)
    y[200:212] += 2.0 * np.random.default_rng(1).standard_normal(12)
    learner = AutoStream().partial_fit(X[:212], y[:212])
    assert learner.mixture_.candidate is not None
    Z = learner.predict_then_learn(X[212:], y[212:])
    assert learner.mixture_.candidate is None
    assert learner.mixture_.count == len(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ErrorAlarm, "process", lambda self, losses, means, floor: (len(losses), 0))
        calm = AutoStream().predict_then_learn(X, y)[212:]
    assert np.mean((Z - y[212:]) ** 2) < 1.01 * np.mean((calm - y[212:]) ** 2)


@pytest.mark.usefixtures("early_stages")
def test_memory_stays_bounded_whatever_happens():
    rng = np.random.default_rng(0)
    X, learner, sizes = rng.uniform(-2.0, 2.0, (900, 2)), AutoStream(), []
    y = np.sin(3.0 * X[:, 0] + np.arange(900) // 60) * 10.0 ** rng.integers(-1, 2, 15).repeat(60)
    for start in range(0, 900, 60):
        learner.partial_fit(X[start : start + 60], y[start : start + 60])
        sizes.append(len(pickle.dumps(learner)))
        beside = learner.mixture_.candidate
        assert beside is None or (beside.candidate is None and beside.alarm is None)
    assert max(sizes[8:]) < 1.5 * max(sizes[:8])


@pytest.mark.long
@pytest.mark.parametrize("seed", [0, 1])
def test_after_each_of_many_changes_the_error_is_that_of_a_new_learner(seed):
    rng = np.random.default_rng(seed)
    changes = np.cumsum(rng.integers(800, 2500, 12))
    X, pieces = rng.uniform(-2.0, 2.0, (changes[-1] + 700, 3)), []
    for some in np.split(X, changes):
        W = rng.standard_normal((3, 2))
        pieces.append(np.sin(some @ W[:, 0]) + np.cos(some @ W[:, 1]) * some[:, 0])
    y = np.concatenate(pieces) + 0.1 * rng.standard_normal(len(X))
    Z = AutoStream().predict_then_learn(X, y)
    for change in changes:
        some = slice(change, change + 700)
        new = AutoStream().predict_then_learn(X[some], y[some])
        assert np.mean((Z - y)[some][150:] ** 2) < 1.3 * np.mean((new - y[some])[150:] ** 2)


def burst(factor, at=260, n=520):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 2))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] + 0.1 * rng.standard_normal(n)
    labels = y.copy()
    labels[at : at + 25] *= factor
    return X, y, labels


def test_a_burst_of_outliers_is_forgotten():
    X, y, labels = burst(1e12)
    model = AutoStream()
    Z = np.concatenate([model.predict_then_learn(X[i : i + 65], labels[i : i + 65]) for i in range(0, len(X), 65)])
    # Before, it was 61 times the error: experts, units and weights were those of the burst.
    before, after = (np.mean((Z - y)[rows] ** 2) for rows in (slice(160, 260), slice(420, 520)))
    assert after < 20.0 * before


@pytest.mark.long
def test_single_rows_and_chunks_forget_the_same_burst():
    X, _, labels = burst(1e12)
    model, single = AutoStream().partial_fit(X, labels), AutoStream().partial_fit(X[:250], labels[:250])
    for x, label in zip(X[250:], labels[250:], strict=True):
        single.partial_fit(x[None], np.array([label]))
    assert_allclose(single.predict(X[:5]), model.predict(X[:5]), rtol=1e-6)
