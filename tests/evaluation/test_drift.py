"""Drift alarms, and weights and windows of a mixture of experts under drift."""

from copy import copy

import numpy as np
import pytest

import ovk
from ovk import AutoStream
from ovk.evaluation import PageHinkley
from ovk.evaluation.scaling_and_drift import DriftRecord


def test_few_false_alarms_and_a_prompt_one(tmp_path):
    rng = np.random.default_rng(0)
    calm = PageHinkley().update(rng.standard_normal(30_000) ** 2)
    assert len(calm.alarms_) <= 1
    losses = np.concatenate([rng.standard_normal(3000) ** 2, 3.0 + rng.standard_normal(1000) ** 2])
    losses[500], losses[700] = 1e12, np.nan
    whole = PageHinkley().update(losses)
    assert len(whole.alarms_) == 1
    assert 3000 < whole.alarms_[0] < 3100
    part = PageHinkley().update(losses[:2900])
    ovk.save(part, tmp_path / "test.ovk")
    assert ovk.load(tmp_path / "test.ovk").update(losses[2900:]).alarms_ == whole.alarms_


def test_threshold_is_checked():
    with pytest.raises(ValueError, match="threshold must be"):
        PageHinkley(threshold=0.0).update([1.0])


@pytest.mark.long
def test_the_window_shrinks_after_a_drift():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2400, 2))
    y = np.where(np.arange(2400) < 2000, 1.0, -1.0) * X[:, 0] + 0.1 * rng.standard_normal(2400)
    model = AutoStream(lag=False).fit(X[:2000], y[:2000])
    before = float(model.effective_window_[0])
    weights = model.partial_fit(X[2000:], y[2000:]).expert_weights_
    assert sum(weights.values()) == pytest.approx(1.0)
    assert float(model.effective_window_[0]) < 0.7 * before


def test_a_copy_of_a_record_is_independent():
    rng = np.random.default_rng(0)
    calm, wild = rng.chisquare(1, 600), 5.0 + rng.chisquare(1, 600)
    record, tested = DriftRecord(), np.full((600, 1), True)
    record.add_errors(0, calm[:, None], tested, None)
    other = copy(record)
    other.add_errors(600, wild[:, None], tested, None)
    assert other.result().alarms
    assert record.result().alarms == ()
    assert (record.test.n_rows_, other.test.n_rows_) == (600, 1200)
    record.add_errors(600, calm[:, None], tested, None)
    assert record.result().alarms == ()
