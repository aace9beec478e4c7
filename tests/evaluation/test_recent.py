"""Intervals made of the last errors."""

import numpy as np
import pytest

from ovk import load, save
from ovk.evaluation import Recent
from ovk.evaluation.recent import LEVELS


def test_widths_are_quantiles_of_the_last_absolute_errors():
    rng = np.random.default_rng(0)
    recent = Recent.empty(2, size=50)
    Y = rng.standard_normal((120, 2))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    for part in np.split(Y, 6):
        recent.take(np.zeros_like(part), part)
    for level in (0.5, 0.9, 0.99):
        for q in range(2):
            errors = np.sort(np.abs(Y[-50:, q][~np.isnan(Y[-50:, q])]))
            rank = min(int(np.ceil((len(errors) + 1) * level)), len(errors))
            assert recent.widths([level])[0, q] == errors[rank - 1]


def test_intervals_are_tested_before_they_know():
    recent = Recent.empty(1, size=10)
    recent.take(np.zeros((10, 1)), np.ones((10, 1)))
    assert not recent.tested.any()
    recent.take(np.zeros((4, 1)), np.array([[1.0], [2.0], [np.nan], [0.5]]))
    assert recent.tested[0] == 3
    np.testing.assert_array_equal(recent.inside[:, 0], [2] * len(LEVELS))


def test_coverage_of_rows_like_the_last_ones():
    rng = np.random.default_rng(1)
    recent = Recent.empty(1, size=400)
    for _ in range(60):
        recent.take(np.zeros((100, 1)), rng.standard_normal((100, 1)))
    np.testing.assert_allclose(recent.coverage[:, 0], LEVELS, atol=0.02)


def test_outputs_that_were_never_seen_have_no_width(tmp_path):
    recent = Recent.empty(2)
    recent.take(np.zeros((5, 2)), np.column_stack([np.ones(5), np.full(5, np.nan)]))
    recent.take(np.zeros((5, 2)), np.column_stack([np.ones(5), np.full(5, np.nan)]))
    assert np.isnan(recent.widths([0.9])[0, 1])
    assert np.isnan(recent.coverage[:, 1]).all()
    save(recent, tmp_path / "r.ovk")
    np.testing.assert_array_equal(load(tmp_path / "r.ovk").inside, recent.inside)
    with pytest.raises(ValueError, match="between 0 and 1"):
        recent.widths([1.0])
