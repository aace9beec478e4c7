"""Running moments equal those computed row by row from the rows before."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ovk.evaluation.scaling_and_drift import RunningMoments, Standardised, as_scaling


def rows(seed=0, n=60, missing=0.2):
    rng = np.random.default_rng(seed)
    A = rng.normal(size=(n, 3)) * [1.0, 1e3, 1e-3] + [0.0, 1e6, 5.0]
    A[rng.uniform(size=A.shape) < missing] = np.nan
    return A


def naive(A):
    """Mean and deviation of the values before each row, from their definition."""
    mean, sd = np.zeros(A.shape), np.ones(A.shape)
    for t, j in np.ndindex(*A.shape):
        past = A[:t, j][np.isfinite(A[:t, j])]
        if len(past):
            mean[t, j] = past.mean()
        if len(set(past)) > 1:
            sd[t, j] = past.std()
    return mean, sd


@settings(deadline=None)
@given(st.lists(st.integers(0, 60), max_size=6), st.integers(0, 5))
def test_moments_before_each_row_in_chunks_of_any_sizes(cuts, seed):
    A = rows(seed)
    moments = RunningMoments(3)
    found = [moments.before_then_add(part) for part in np.split(A, sorted(cuts))]
    mean, sd = naive(A)
    np.testing.assert_allclose(np.concatenate([part[0] for part in found]), mean, rtol=1e-12)
    np.testing.assert_allclose(np.concatenate([part[1] for part in found]), sd, rtol=1e-9)
    np.testing.assert_allclose(moments.mean, np.nanmean(A, axis=0), rtol=1e-12)
    np.testing.assert_allclose(moments.sd, np.nanstd(A, axis=0), rtol=1e-9)


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_no_cancellation_far_from_zero_or_after_a_jump(size):
    rng = np.random.default_rng(1)
    far = 1e9 + rng.normal(size=(300, 1))
    jump = np.vstack([rng.normal(size=(150, 1)), 1e6 + rng.normal(size=(150, 1))])
    for A in (far, jump):
        moments = RunningMoments(1)
        parts = [moments.before_then_add(A[start : start + size])[1] for start in range(0, 300, size)]
        np.testing.assert_allclose(np.concatenate(parts)[2:], naive(A)[1][2:], rtol=1e-6)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e-300, 1e300, -1e8])
def test_constant_columns_are_only_centred(value):
    scaled = as_scaling("running").scale(np.full((50, 1), value), np.full((50, 1), 0.3))
    np.testing.assert_array_equal(scaled.X[1:], 0.0)
    np.testing.assert_array_equal(scaled.spread, 1.0)


def test_huge_values_and_infinities_leave_finite_numbers():
    X = np.array([[1e300], [-1e300], [np.inf], [1.0], [np.nan], [2.0]])
    scaled = as_scaling("running").scale(X, X)
    fine = np.isfinite(X[:, 0])
    assert np.isfinite(scaled.X[fine]).all()
    assert np.isfinite(scaled.offset).all()
    assert np.isfinite(scaled.spread).all()


def test_the_warm_up_fixes_the_scale_or_starts_it():
    A = rows(missing=0.0)
    X, Y = A[:, :2], A[:, 2:]
    fixed, running = Standardised(running=False), Standardised(running=True)
    for scaling in (fixed, running):
        head = scaling.scale_warm_up(X[:20], Y[:20])
        np.testing.assert_allclose(head.X, (X[:20] - X[:20].mean(0)) / X[:20].std(0), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(fixed.scale(X[20:], Y[20:]).X, (X[20:] - X[:20].mean(0)) / X[:20].std(0), rtol=1e-10)
    mean, sd = naive(A)
    tail = running.scale(X[20:], Y[20:])
    np.testing.assert_allclose(tail.Y, ((A - mean) / sd)[20:, 2:], rtol=1e-8)
    np.testing.assert_allclose(tail.restore(tail.Y), Y[20:], rtol=1e-12)


def test_unknown_scaling():
    with pytest.raises(ValueError, match="scale must be None, 'warm-up' or 'running', got 'minmax'"):
        as_scaling("minmax")
