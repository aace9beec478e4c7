"""Rows one at a time, in chunks or all at once give the predictions of the reference loop."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone

import ovk
import reference
from online.streams import BLOCKS, KERNELS, LOSSES, SCHEDULES, blocks_of, in_chunks, stream
from ovk import OLOK
from ovk.kernels import Gaussian
from ovk.objectives import InverseSqrt, Novelty
from ovk.online import PaperWindow, Tolerance, Window
from ovk.operators import MixedEffect

N = 120  # several blocks of each size in BLOCKS

TRUNCATIONS = {
    "none": None,
    "window 1": Window(1),
    "window 7": Window(7),
    "window 100": Window(100),
    "paper": PaperWindow(0.4),
    "tolerance 1e-3": Tolerance(1e-3),
    "tolerance 1e-12": Tolerance(1e-12),
}

names = st.sampled_from


def same_state(one, other, atol=1e-10):
    for name in ("t_", "n_skipped_"):
        assert getattr(one, name) == getattr(other, name)
    for name in ("cumulative_loss_", "cumulative_risk_", "truncation_error_", "kappa2_", "norm_"):
        assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-9, atol=atol)
    assert_array_equal(one.support_.time, other.support_.time)
    assert_array_equal(one.support_.X, other.support_.X)
    assert_allclose(one.support_.A, other.support_.A, rtol=0, atol=atol)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    names(list(KERNELS)),
    names(list(LOSSES)),
    names(list(TRUNCATIONS)),
    names(list(SCHEDULES)),
    st.sampled_from([0.0, 0.4]),
    st.booleans(),
    st.sampled_from([1.0, 0.9]),
    st.sampled_from([0.0, 0.1, 1.1]),
    st.lists(st.integers(1, N - 1), max_size=6),
    st.integers(0, 99),
    st.sampled_from(BLOCKS),
)
def test_chunks(kernel, loss, truncation, schedule, missing, average, discount, alpha, cuts, seed, size):
    X, Y = stream(N, LOSSES[loss], seed, missing)
    average = average and not isinstance(TRUNCATIONS[truncation], Tolerance)
    model = OLOK(
        KERNELS[kernel],
        alpha,
        SCHEDULES[schedule],
        LOSSES[loss],
        TRUNCATIONS[truncation],
        average=average,
        discount=discount,
    )
    whole, parts = clone(model), clone(model)
    with blocks_of(size):
        Z = whole.predict_then_learn(X, Y)
        assert np.isfinite(Z).all()
        assert_allclose(in_chunks(parts, X, Y, cuts), Z, rtol=0, atol=1e-10)
    assert whole.block_size_ == size
    same_state(parts, whole)
    if isinstance(TRUNCATIONS[truncation], Window):
        assert len(whole.support_) <= TRUNCATIONS[truncation].s < N
    assert_allclose(parts.predict(X[:9]), whole.predict(X[:9]), rtol=0, atol=1e-10)


@pytest.mark.pairwise
@pytest.mark.parametrize("size", BLOCKS)
@pytest.mark.parametrize("schedule", ["inverse sqrt", "auto"])
@pytest.mark.parametrize("loss", LOSSES)
def test_one_row_at_a_time(loss, schedule, size):
    X, Y = stream(N, LOSSES[loss], missing=0.2)
    model = OLOK(KERNELS["sum"], 0.5, SCHEDULES[schedule], LOSSES[loss], Window(60))
    whole, rows = clone(model), clone(model)
    with blocks_of(size):
        Z = whole.predict_then_learn(X, Y)
        assert_allclose(in_chunks(rows, X, Y, range(1, N)), Z, rtol=0, atol=1e-10)
        assert_array_equal(clone(model).fit(X, Y).predict(X), whole.predict(X))
    same_state(rows, whole)
    # Points were dropped: the window is shorter than the stream.
    assert len(whole.support_) <= 60 < whole.t_
    assert whole.truncation_error_ > 0


def agrees(Z, model, found, kept):
    assert_allclose(Z, found, rtol=0, atol=1e-10)
    # Steps without a gradient add no point.
    kept = [entry for entry in kept if entry[1].any()]
    assert_array_equal(model.support_.X, np.array([point for point, *_ in kept]))
    assert_allclose(model.support_.A[:, 0], np.array([a for _, a, *_ in kept]), rtol=0, atol=1e-10)


def gradient_of(loss):
    return lambda y, z: loss.gradient(y[None], z[None])[0]


SIZES = {
    "none": None,
    "window 7": lambda t: 7,
    "paper": lambda t: max(int(np.ceil(t**0.9)), PaperWindow(0.4).first(0.9, 1.0)),
}


@pytest.mark.pairwise
@pytest.mark.parametrize("size", [7, None])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", KERNELS)
def test_naive_loop(kernel, loss, size):
    X, Y = stream(40, LOSSES[loss], missing=0.2)
    model = OLOK(KERNELS[kernel], 0.2, InverseSqrt(0.5), LOSSES[loss])
    with blocks_of(size):
        Z = model.predict_then_learn(X, Y)
    found = reference.olok(KERNELS[kernel], X, Y, gradient_of(LOSSES[loss]), 0.2, lambda t, *_: 0.5 / t**0.5)
    agrees(Z, model, *found)


@pytest.mark.pairwise
@pytest.mark.parametrize("block", [1, 7, None])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("truncation", SIZES)
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_naive_loop_with_a_window_and_means(loss, truncation, average, block):
    X, Y = stream(60, LOSSES[loss], missing=0.3)
    K, size = KERNELS["separable"], SIZES[truncation]
    params = {"average": average, "discount": 0.95}
    model = OLOK(K, 1.0, InverseSqrt(0.9), LOSSES[loss], TRUNCATIONS[truncation], **params)
    with blocks_of(block):
        Z = model.predict_then_learn(X, Y)
    # A window of 7 holds the step size from step 7 on.
    rate = lambda t, *_: 0.9 / (min(t, 7) if truncation == "window 7" else t) ** 0.5  # noqa: E731
    found, kept = reference.olok(K, X, Y, gradient_of(LOSSES[loss]), 1.0, rate, size, 0.95, average)
    agrees(Z, model, found, kept)
    assert truncation == "none" or len(kept) < 0.7 * model.t_
    if average:
        sums = np.array([s for _, a, s, _ in kept if a.any()])
        assert_allclose(model.expansion_.C, sums / model.t_, rtol=0, atol=1e-10)


@pytest.mark.parametrize("loss", ["squared", "epsilon", "logistic"])
def test_naive_loop_with_adaptive_steps(loss):
    X, Y = stream(30, LOSSES[loss])
    K, alpha, first = KERNELS["separable"], 0.1, 0.1
    past = {"gradients": 0.0, "distance": 0.0, "scale": 0.0}

    def rate(t, kept, x, z, g, y):
        size = g @ reference.block(K, x, x) @ g
        if size == 0:
            return 0.0
        past["gradients"] += size
        past["distance"] = max(past["distance"], reference.squared_norm(K, kept) ** 0.5)
        past["scale"] = max(past["scale"], LOSSES[loss].value(y[None], z[None])[0] / size**0.5)
        return min(max(first * past["scale"], past["distance"]) / past["gradients"] ** 0.5, 0.5 / alpha)

    model = OLOK(K, alpha, "auto", LOSSES[loss])
    Z = model.predict_then_learn(X, Y)
    agrees(Z, model, *reference.olok(K, X, Y, gradient_of(LOSSES[loss]), alpha, rate))


@pytest.mark.parametrize("truncation", [None, Window(100), Tolerance(1e-3)], ids=str)
@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_streams_longer_than_the_blocks_that_are_used(loss, truncation):
    X, Y = stream(900, LOSSES[loss], missing=0.05)
    model = OLOK(KERNELS["separable"], 1.0, InverseSqrt(0.9), LOSSES[loss], truncation)
    whole, parts, small = clone(model), clone(model), clone(model)
    Z = whole.predict_then_learn(X, Y)
    assert len(X) > 2 * whole.block_size_ >= 128
    assert_allclose(in_chunks(parts, X, Y, [1, 200, 384, 500, 899]), Z, rtol=0, atol=1e-10)
    same_state(parts, whole)
    assert truncation is None or len(whole.support_) < whole.t_ - 200
    with blocks_of(32):
        small.fit(X, Y)
    # Truncation by weight depends on where blocks end, within the bounds on the truncation error.
    reach = whole.kappa2_**0.5 * (whole.truncation_error_ + small.truncation_error_)
    exact = truncation is None or isinstance(truncation, Window)
    assert np.abs(small.predict(X) - whole.predict(X)).max() <= (0 if exact else reach) + 1e-10


def test_norma_is_olok_with_one_output():
    X, Y = stream(50)
    K = Gaussian(1.0) * MixedEffect(0.0, 1)
    model = OLOK(Gaussian(1.0), 0.2, 0.5, "epsilon-insensitive")
    Z = model.predict_then_learn(X, Y[:, 0])
    assert Z.shape == (50,)
    found, _ = reference.olok(K, X, Y[:, :1], gradient_of(LOSSES["epsilon"]), 0.2, lambda t, *_: 0.5 / t**0.5)
    assert_allclose(Z, found[:, 0], rtol=0, atol=1e-10)


def test_novelty_in_chunks():
    X, _ = stream(N)
    for schedule in (0.5, "auto"):
        model = OLOK(Gaussian(1.0), 0.1, schedule, Novelty(0.2), Window(50))
        whole, rows = clone(model), clone(model)
        Z = whole.predict_then_learn(X)
        assert_allclose(np.concatenate([rows.predict_then_learn(x[None]) for x in X]), Z, rtol=0, atol=1e-10)
        assert_allclose(rows.progress_.threshold, whole.progress_.threshold, rtol=0, atol=1e-10)
        assert whole.progress_.threshold != 0
        same_state(rows, whole)


def saved(model, path):
    ovk.save(model, path / "model.ovk")
    return ovk.load(path / "model.ovk")


HOWS = {
    "save": saved,
    "pickle": lambda model, path: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, path: copy.deepcopy(model),
}


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"truncation": Window(40)},
        {"truncation": Tolerance(1e-4), "alpha": 1.5},
        {"schedule": "auto", "loss": "huber"},
        {"average": True},
    ],
    ids=str,
)
def test_resume_after_a_copy(how, params, tmp_path):
    X, Y = stream(2 * N, missing=0.1)
    model = OLOK(KERNELS["sum"], **{"alpha": 0.3, "schedule": 0.5, **params})
    model.predict_then_learn(X[:N], Y[:N])
    other = HOWS[how](model, tmp_path)
    assert_array_equal(other.predict(X), model.predict(X))
    for rows in (slice(N, N + 60), slice(N + 60, 2 * N)):
        assert_array_equal(other.predict_then_learn(X[rows], Y[rows]), model.predict_then_learn(X[rows], Y[rows]))
        same_state(other, model, atol=0)
    assert_array_equal(other.predict(X), model.predict(X))


def test_a_clone_is_new():
    X, Y = stream(N)
    model = OLOK(KERNELS["sum"], 0.3, 0.5)
    Z = model.predict_then_learn(X, Y)
    assert_array_equal(clone(model).predict_then_learn(X, Y), Z)


def state(model):
    return pickle.dumps({name: value for name, value in vars(model).items() if name != "_memo"})


@pytest.mark.parametrize("params", [{}, {"average": True}, {"loss": "huber", "truncation": 30}], ids=str)
def test_predict_changes_nothing(params):
    X, Y = stream(N)
    model = OLOK(KERNELS["separable"], 0.1, 0.5, **params).fit(X, Y)
    before = state(model)
    first = model.predict(X)
    assert_array_equal(model.predict(X), first)
    assert_allclose(np.concatenate([model.predict(x[None]) for x in X[:20]]), first[:20], rtol=0, atol=1e-12)
    model.norm_, model.expansion_, model.memory_needed(10)
    assert state(model) == before


def test_predictions_do_not_depend_on_the_output_of_the_row():
    X, Y = stream(N)
    other = Y.copy()
    other[100:] = -7.0
    model = OLOK(KERNELS["separable"], 0.1, 0.5)
    Z, W = clone(model).predict_then_learn(X, Y), clone(model).predict_then_learn(X, other)
    assert_array_equal(Z[:101], W[:101])
    assert not np.allclose(Z[101:], W[101:])
