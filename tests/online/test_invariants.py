"""Statements of the paper about every step, and attributes of the learner."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from online.streams import KERNELS, LOSSES, SCHEDULES, stream
from ovk import OLOK, OVKRidge
from ovk.kernels import Gaussian
from ovk.objectives import Constant, Inverse, InverseSqrt
from ovk.online import PaperWindow, Window
from ovk.operators import Identity, MixedEffect

LIPSCHITZ = [name for name in LOSSES if LOSSES[name].lipschitz(3) is not None]


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    st.sampled_from(["separable", "sum", "diagonal", "curl-free"]),
    st.sampled_from(LIPSCHITZ),
    st.sampled_from([InverseSqrt, Constant, Inverse]),
    st.floats(0.05, 5.0),
    st.floats(0.01, 0.99),
    st.sampled_from([None, 20]),
    st.integers(0, 1000),
)
def test_proposition_1(kernel, loss, schedule, alpha, product, truncation, seed):
    X, Y = stream(100, LOSSES[loss], seed)
    steps = schedule(product / alpha)
    model = OLOK(KERNELS[kernel], alpha, steps, LOSSES[loss], truncation)
    C, kappa = LOSSES[loss].lipschitz(3), KERNELS[kernel].norm_bound() ** 0.5
    assert_allclose(model.fit(X[:1], Y[:1]).kappa2_, kappa**2)
    for start in range(1, 100, 9):
        model.partial_fit(X[start : start + 9], Y[start : start + 9])
        assert model.norm_ <= C * kappa / alpha * (1 + 1e-12)
        rates = steps.rate(model._clock(model.support_.time))
        assert (np.linalg.norm(model.support_.A[:, 0], axis=1) <= rates * C * (1 + 1e-12)).all()


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.sampled_from(["separable", "sum", "curl-free"]),
    st.floats(2.001, 20.0),
    st.floats(0.01, 0.99),
    st.floats(1e-3, 1e3),
    st.integers(0, 1000),
)
def test_proposition_2(kernel, ratio, product, largest, seed):
    K = KERNELS[kernel]
    kappa2 = K.norm_bound()
    alpha = ratio * kappa2
    X, Y = stream(100, seed=seed)
    Y *= largest / np.linalg.norm(Y, axis=1).max()
    steps = InverseSqrt(product / alpha)
    model = OLOK(K, alpha, steps)
    for start in range(0, 100, 9):
        Z = model.predict_then_learn(X[start : start + 9], Y[start : start + 9])
        assert model.norm_ < largest / kappa2**0.5
        assert (np.linalg.norm(Z - Y[start : start + 9], axis=1) < 2 * largest).all()
    assert (np.linalg.norm(model.support_.A[:, 0], axis=1) <= 2 * steps.rate(model.support_.time) * largest).all()


@pytest.mark.parametrize("kappa", [1.0, 3.0, 10.0])
def test_the_batch_solution_of_proposition_2(kappa):
    """Its norm is at most U, as the theorem requires, but can exceed 2 C_y / alpha, the bound stated in the paper."""
    alpha = 2.01 * kappa**2
    batch = OVKRidge(kappa**2 * Gaussian(1.0), alpha, fit_intercept=False).fit([[0.0]], [1.0])
    norm = batch.expansion_.norm()
    assert_allclose(norm, kappa / (alpha + kappa**2))
    assert norm <= kappa / alpha <= 1 / kappa
    assert (norm > 2 / alpha) == (kappa > 2)


@pytest.mark.pairwise
@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("loss", LOSSES)
def test_running_sums(loss, schedule):
    X, Y = stream(90, LOSSES[loss], missing=0.2)
    model = OLOK(KERNELS["sum"], 0.3, SCHEDULES[schedule], LOSSES[loss])
    losses, penalties = 0.0, 0.0
    for x, y in zip(X, Y, strict=True):
        before = model.norm_ if hasattr(model, "support_") else 0.0
        z = model.predict_then_learn(x[None], y[None])
        if not np.isnan(y).all():
            losses += LOSSES[loss].value(y[None], z)[0]
            penalties += 0.15 * before**2
    assert_allclose(model.norm_, model.expansion_.norm(), rtol=1e-9)
    assert_allclose(model.cumulative_loss_, losses, rtol=1e-10)
    assert_allclose(model.cumulative_risk_, losses + penalties, rtol=1e-10)
    assert model.t_ == (~np.isnan(Y).all(axis=1)).sum()


def test_norm_after_dropping():
    X, Y = stream(200)
    model = OLOK(KERNELS["separable"], 0.0, 0.5, truncation=10).fit(X, Y)
    assert_allclose(model.norm_, model.expansion_.norm(), rtol=1e-12)


@pytest.mark.long
def test_memory_is_flat():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60_000, 3)), rng.choice([-1.0, 1.0], 60_000)
    model = OLOK(Gaussian(1.0), 0.1, 0.5, "hinge", Window(100)).partial_fit(X[:1000], y[:1000])
    room = [array.shape for array in model.support_._space]
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for start in range(1000, 60_000, 1000):
        model.partial_fit(X[start : start + 1000], y[start : start + 1000])
    after, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [array.shape for array in model.support_._space] == room
    assert len(model.support_) <= 100
    assert after - before < 100_000
    assert peak - before < 5_000_000


def test_the_untruncated_learner_reports_its_memory():
    X, Y = stream(150)
    model = OLOK(KERNELS["separable"], 0.1, 0.5, max_support=100).fit(X[:60], Y[:60])
    assert model.memory_needed(1000) == 8 * 1000 * (3 + 3 + 1)
    before, predictions = model.t_, model.predict(X)
    with pytest.raises(ValueError, match=r"max_support is 100, but .* there would be 101 support points"):
        model.partial_fit(X[60:101], Y[60:101])
    assert model.t_ == before
    assert_allclose(model.predict(X), predictions, rtol=0, atol=0)
    model.partial_fit(X[60:100], Y[60:100])
    with pytest.raises(ValueError, match="pass truncation=Tolerance"):
        model.partial_fit(X[:1], Y[:1])
    new = OLOK(truncation=None, max_support=10, warm_up=0)
    with pytest.raises(ValueError, match="150 support points"):
        new.partial_fit(X, Y)
    assert set(vars(new)) == set(vars(OLOK()))


def brute_force(epsilon, product):
    """The smallest t from which all three conditions hold."""
    t = np.arange(1.0, 200_001.0)
    holds = (
        (product < np.sqrt(t))
        & (np.exp(-product * t**epsilon) <= product / np.sqrt(t))
        & (t ** (0.5 + epsilon) <= 0.75 * t)
    )
    assert holds[-1]
    return int(np.flatnonzero(~holds)[-1] + 2) if not holds.all() else 1


@pytest.mark.parametrize(
    ("epsilon", "product"), [(0.4, 0.9), (0.4, 0.3), (0.45, 0.2), (0.3, 0.9), (0.2, 2.5), (0.1, 4.0), (0.4, 5.0)]
)
def test_paper_window(epsilon, product):
    window = PaperWindow(epsilon)
    first = brute_force(epsilon, product)
    assert window.first(product, 1.0) == first
    times = np.array([1, 10, 10_000])
    assert_allclose(window.size(times, product, 1.0), np.maximum(np.ceil(times ** (0.5 + epsilon)), first))
    # The lower edge t - s_t never decreases.
    t = np.arange(1, 3000)
    assert (np.diff(t - window.size(t, product, 1.0)) >= 0).all()


@pytest.mark.parametrize("epsilon", [0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.49])
def test_the_first_step_of_the_paper_window_counts_all_later_steps(epsilon):
    """The second condition can hold, fail and hold again, also with few or no integers in between."""
    t = np.arange(1.0, 200_001.0)
    for product in np.geomspace(0.02, 9.0, 60):
        second = np.exp(-product * t**epsilon) <= product / np.sqrt(t)
        holds = (product < np.sqrt(t)) & second & (t ** (0.5 + epsilon) <= 0.75 * t)
        found = PaperWindow(epsilon).first(product, 1.0)
        if found < len(t):
            assert holds[found - 1 :].all(), product
            assert found == 1 or not holds[found - 2], product
        else:
            assert not holds[-1] or found == len(t), product
    assert PaperWindow(0.15).first(1.0, 1.1) == 19_777


def test_paper_window_without_a_penalty_keeps_all():
    X, Y = stream(40)
    assert len(OLOK(alpha=0.0, truncation=PaperWindow(0.4)).fit(X, Y).support_) == 40


def test_approaches_the_batch_solution():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (6000, 1))
    Y = np.column_stack([np.sin(X[:, 0]), np.cos(X[:, 0])]) + 0.2 * rng.standard_normal((6000, 2))
    K, alpha, n = Gaussian(1.0) * MixedEffect(0.3), 0.01, 1500
    # 1/2n sum |y - f|^2 + alpha/2 |f|^2: the ridge of the batch is n alpha.
    batch = OVKRidge(K, alpha=n * alpha).fit(X[:n], Y[:n])
    grid = np.linspace(-3, 3, 50)[:, None]
    target, size = batch.predict(grid), np.linalg.norm(batch.predict(grid))
    off = []
    model = OLOK(K, alpha, InverseSqrt(1.0), average=True)
    for rows in (slice(0, 100), slice(100, 1000), slice(1000, 6000)):
        off.append(np.linalg.norm(model.partial_fit(X[rows], Y[rows]).predict(grid) - target) / size)
    assert off[0] > off[1] > off[2]
    assert off[2] < 0.05


def test_forgetting_follows_a_drift():
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (1000, 1))
    y = np.where(np.arange(1000) < 500, 1.0, -1.0) * np.sin(X[:, 0])
    late = {}
    for discount in (1.0, 0.97):
        Z = OLOK(Gaussian(1.0), 1e-3, 0.5, discount=discount).predict_then_learn(X, y)
        late[discount] = np.mean((Z - y)[500:560] ** 2)
    assert late[0.97] < 0.8 * late[1.0]


def test_uncoupled_outputs_are_learned_independently():
    X, Y = stream(120)
    both = OLOK(Gaussian(1.0) * Identity(), 0.1, 0.5, truncation=50).predict_then_learn(X, Y[:, :2])
    for q in range(2):
        alone = OLOK(Gaussian(1.0), 0.1, 0.5, truncation=50).predict_then_learn(X, Y[:, q])
        assert_allclose(both[:, q], alone, rtol=0, atol=1e-12)
