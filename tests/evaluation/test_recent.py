"""The last rows of a stream, and the coverage of its intervals."""

import numpy as np
import pytest

from ovk import load, save
from ovk.evaluation import RecentErrors
from ovk.evaluation.conformal import REPORTED_LEVELS


def test_widths_are_quantiles_of_the_last_absolute_errors():
    rng = np.random.default_rng(0)
    recent = RecentErrors.empty(2, size=50, rate=0.0)
    Y = rng.standard_normal((120, 2))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    for part in np.split(Y, 6):
        recent.update(np.zeros_like(part), part)
    np.testing.assert_array_equal(recent.Y, Y[-50:])
    for level in (0.5, 0.9, 0.99):
        for q in range(2):
            errors = np.sort(np.abs(Y[~np.isnan(Y[:, q]), q])[-50:])
            rank = int(np.ceil((len(errors) + 1) * level))
            assert recent.widths(level)[q] == (errors[rank - 1] if rank <= len(errors) else np.inf)


def test_intervals_are_tested_before_they_learn():
    recent = RecentErrors.empty(1, size=32)
    half = recent.update(np.zeros((32, 1)), np.ones((32, 1)))
    # The first 8 rows have no interval; 8 scores are too few for 0.9, and 16 for 0.95.
    np.testing.assert_array_equal(recent.tested[:, 0], [24, 24, 16, 0])
    np.testing.assert_array_equal(recent.inside, recent.tested)
    np.testing.assert_array_equal(half[:, 0], [np.inf] * 16 + [1.0] * 16)
    recent.update(np.zeros((5, 1)), np.array([[1.0], [2.0], [np.nan], [0.5], [3.0]]))
    np.testing.assert_array_equal(recent.tested[:, 0], [28, 28, 20, 4])
    np.testing.assert_array_equal(recent.inside[:, 0], [26, 26, 18, 2])


def test_rows_without_prediction_do_not_count():
    recent = RecentErrors.empty(1)
    recent.update(np.full((50, 1), np.nan), np.ones((50, 1)))
    assert not recent.tested.any()
    assert np.isinf(recent.widths(0.5)).all()


def test_coverage_of_exchangeable_rows():
    rng = np.random.default_rng(1)
    recent = RecentErrors.empty(1, size=400)
    for _ in range(60):
        recent.update(np.zeros((100, 1)), rng.standard_normal((100, 1)))
    np.testing.assert_allclose(recent.coverage[:, 0], REPORTED_LEVELS, atol=0.02)


def test_outputs_without_values_have_no_width(tmp_path):
    recent = RecentErrors.empty(2)
    for _ in range(2):
        recent.update(np.zeros((15, 2)), np.column_stack([np.ones(15), np.full(15, np.nan)]))
    np.testing.assert_array_equal(recent.widths(0.9), [1.0, np.inf])
    assert np.isnan(recent.coverage[:, 1]).all()
    save(recent, tmp_path / "r.ovk")
    again = load(tmp_path / "r.ovk")
    np.testing.assert_array_equal(again.inside, recent.inside)
    for one in (again, recent):
        one.update(np.zeros((300, 2)), np.random.default_rng(0).standard_normal((300, 2)))
    np.testing.assert_array_equal(again.half, recent.half)
    with pytest.raises(ValueError, match="coverage must"):
        recent.widths(1.0)


def test_times_of_some_rows_stay_with_their_rows():
    recent = RecentErrors.empty(1, size=7)
    for n, instants in ((2, None), (3, np.array([1.0, 2.0, 3.0])), (4, None)):
        recent.update(np.zeros((n, 1)), np.ones((n, 1)), instants)
    np.testing.assert_array_equal(recent.instants, [1.0, 2.0, 3.0, *[np.nan] * 4])
    assert len(recent.Y) == len(recent.F) == len(recent.half) == 7
