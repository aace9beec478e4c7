"""The truncation error never exceeds `truncation_error_`."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from online.streams import KERNELS, LOSSES, blocks_of, stream
from ovk import OLOK
from ovk.kernels import Gaussian, Linear
from ovk.objectives import Constant, Inverse, InverseSqrt, Novelty
from ovk.online import PaperWindow, Tolerance, TruncationWarning, Window
from ovk.operators import Identity
from ovk.ovkernels import Expansion

ROUNDING = 1e-13


def distance(model, full):
    """|f - g| of the last iterates in the kernel's norm."""
    kernel, X = full.kernel_, np.concatenate([model.support_.X, full.support_.X])
    C = np.concatenate([model.support_.A[:, 0], -full.support_.A[:, 0]])
    # A difference of squares would lose half of the digits, so points of both are merged.
    points, where = np.unique(X, axis=0, return_inverse=True)
    together = np.zeros((len(points), C.shape[1]))
    np.add.at(together, where.reshape(-1), C)
    return Expansion(kernel, points, together).norm()


def free(s):
    """A window without held steps, so that the learner without truncation takes the same steps."""
    return Window(s, hold_steps=False)


def check(kernel, loss, schedule, alpha, truncation, n=420, discount=1.0, step=70, seed=0):
    """Compare learners with and without truncation after each chunk; return the truncated one."""
    X, Y = stream(n, loss, seed, missing=0.1)
    params = {"alpha": alpha, "schedule": schedule, "loss": loss, "discount": discount}
    model, full = OLOK(kernel, truncation=truncation, **params), OLOK(kernel, **params)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        model.partial_fit(X[rows], Y[rows])
        full.partial_fit(X[rows], Y[rows])
        found = distance(model, full)
        assert np.isfinite(found)
        assert found <= model.truncation_error_ * (1 + 1e-9) + ROUNDING
        # The bound may jump at a kink of the loss; nothing is dropped until it has decreased.
        smooth = loss.smoothness is not None
        if isinstance(truncation, Tolerance) and smooth and model._rows % model.block_size_ == 0:
            assert model.truncation_error_ <= truncation.tol * (1 + 1e-9)
        reach = model.kappa2_**0.5 * model.truncation_error_
        assert np.linalg.norm(model.predict(X[:20]) - full.predict(X[:20]), axis=1).max() <= reach + ROUNDING
    assert full.truncation_error_ == 0
    return model, full


@pytest.mark.pairwise
@pytest.mark.parametrize("size", [1, 35, None])
@pytest.mark.parametrize("tol", [1e-12, 1e-6, 1e-3])
@pytest.mark.parametrize("loss", LOSSES)
def test_tolerance(loss, tol, size):
    with blocks_of(size):
        model, full = check(KERNELS["separable"], LOSSES[loss], InverseSqrt(0.9), 1.0, Tolerance(tol))
    if tol > 1e-12:
        # Points are dropped, except for a while after a kink that separates the two learners.
        share = 0.9 if size is None or LOSSES[loss].smoothness is not None else 1.0
        assert len(model.support_) < share * len(full.support_)


@pytest.mark.parametrize("kernel", KERNELS)
def test_tolerance_with_every_kernel(kernel):
    with blocks_of(35):
        model, full = check(KERNELS[kernel], LOSSES["squared"], InverseSqrt(0.3), 3.0, Tolerance(1e-5), n=280)
    assert len(model.support_) < len(full.support_)


@pytest.mark.parametrize("tol", [1e-12, 1e-3])
@pytest.mark.parametrize("loss", ["squared", "logistic", "hinge", "epsilon"])
def test_heavy_decay(loss, tol):
    with np.errstate(all="raise", under="ignore"):
        model, _ = check(0.5 * Gaussian(1.0) * Identity(3), LOSSES[loss], Constant(0.999), 1.0, Tolerance(tol), n=700)
    assert len(model.support_) <= model.block_size_
    assert model.truncation_error_ < tol


def test_heavy_decay_over_long_blocks():
    X, Y = stream(1000)
    one = OLOK(KERNELS["sum"], 0.999, Constant(1.0), "huber", Tolerance(1e-12), discount=0.5)
    # With steps this large two learners can diverge, so no tolerance can be guaranteed.
    with pytest.warns(TruncationWarning, match="steps are too large for the kernel"):
        Z = one.predict_then_learn(X, Y)
    assert np.isfinite(Z).all()
    assert np.isfinite(one.norm_)


@pytest.mark.pairwise
@pytest.mark.parametrize("truncation", [free(5), free(60), free(200), PaperWindow(0.3)], ids=str)
@pytest.mark.parametrize("loss", LOSSES)
def test_windows(loss, truncation):
    model, _ = check(KERNELS["separable"], LOSSES[loss], InverseSqrt(0.9), 1.0, truncation, step=37, n=370)
    assert model.truncation_error_ > 0 or isinstance(truncation, PaperWindow)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.sampled_from(list(LOSSES)),
    st.sampled_from([InverseSqrt(0.9), Constant(0.2), Inverse(0.9)]),
    st.floats(0.0, 1.0),
    st.sampled_from([0.9, 1.0]),
    st.integers(1, 90),
    st.integers(0, 1000),
)
def test_any_window(loss, schedule, alpha, discount, size, seed):
    check(KERNELS["hadamard"], LOSSES[loss], schedule, alpha, free(size), 200, discount, 33, seed)


def test_steps_too_large_for_the_kernel_let_the_bound_grow():
    # eta kappa^2 = 3.2: a difference between two learners can grow at every step.
    K = 4.0 * Gaussian(0.3) * Identity(3)
    model, _ = check(K, LOSSES["squared"], Constant(0.8), 0.05, free(30), n=210, step=30)
    assert model.truncation_error_ > 100


@pytest.mark.parametrize("loss", ["squared", "epsilon"])
def test_kernel_without_a_bound(loss):
    K = Gaussian(1.0) * Identity(3) + 0.05 * Linear() * Identity(3)
    model, _ = check(K, LOSSES[loss], InverseSqrt(0.5), 1.5, Tolerance(1e-4), n=280)
    X, _ = stream(280, LOSSES[loss])
    assert_allclose(model.kappa2_, 1 + 0.05 * (X**2).sum(axis=1).max())


def test_novelty():
    X, _ = stream(700)
    for truncation in (free(80), Tolerance(1e-6)):
        model = OLOK(Gaussian(1.0), 1.0, 0.9, Novelty(0.2), truncation)
        full = OLOK(Gaussian(1.0), 1.0, 0.9, Novelty(0.2))
        for start in range(0, 700, 100):
            model.partial_fit(X[start : start + 100])
            full.partial_fit(X[start : start + 100])
            assert distance(model, full) <= model.truncation_error_ + ROUNDING
            apart = abs(model.progress_.threshold - full.progress_.threshold)
            assert apart <= model.progress_.threshold_error + ROUNDING


def test_hard_limit_counts_too():
    X, Y = stream(500)
    params = {"alpha": 0.5, "schedule": 0.5}
    model = OLOK(KERNELS["separable"], truncation=Tolerance(1e-12), max_support=50, **params).fit(X, Y)
    full = OLOK(KERNELS["separable"], **params).fit(X, Y)
    assert len(model.support_) <= 50 + model.block_size_
    assert 1e-12 < distance(model, full) <= model.truncation_error_


def test_points_of_a_start_count_too():
    # The points of the initial function have larger kernel values than the data.
    K = Linear() * Identity(3)
    X, Y = stream(60)
    start = Expansion(K, 10.0 * X[:40], 0.01 * Y[:40])
    params = {"alpha": 0.1, "schedule": Constant(0.01), "init": start}
    model, full = OLOK(K, truncation=free(30), **params), OLOK(K, **params)
    for start in range(0, 60, 10):
        model.partial_fit(X[start : start + 10], Y[start : start + 10])
        full.partial_fit(X[start : start + 10], Y[start : start + 10])
        assert 0 < distance(model, full) <= model.truncation_error_


def test_tolerance_keeps_far_fewer_points_than_all():
    X, Y = stream(4000)
    model = OLOK(KERNELS["separable"], 3.0, InverseSqrt(1.0, start=10), truncation=Tolerance(1e-12)).fit(X, Y)
    # At eta alpha = 3, 9.2 sqrt(t) points are needed, and up to one block more are kept.
    assert len(model.support_) < 9.2 * 4000**0.5 + 200
    assert model.truncation_error_ <= 1e-12


def test_means_cannot_be_truncated_by_weight():
    with pytest.raises(ValueError, match=r"Tolerance\(\) and average=True cannot be combined"):
        OLOK(truncation=Tolerance(), average=True).partial_fit([[1.0]], [1.0])
