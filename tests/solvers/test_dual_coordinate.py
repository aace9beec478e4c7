"""The dual of support vector machines agrees with coordinate descent and satisfies the optimality conditions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from ovk.kernels import Gaussian
from ovk.operators import MixedEffect
from ovk.ovkernels import DenseBlocks, Kronecker, Observed
from ovk.solvers import support_vectors as coordinates
from ovk.solvers.support_vectors import (
    BoxDual,
    balanced,
    best_biases,
    box_newton,
    dual_coordinate,
    dual_with_biases,
    interior_point,
    smoothed_newton,
)


def problem(seed, n=40, rank=40, epsilon=0.0, C=1.0):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((n, rank)) / np.sqrt(rank)
    K = A @ A.T
    if epsilon:
        return K, rng.standard_normal(n), np.full(n, -C), np.full(n, C)
    y = np.sign(rng.standard_normal(n) + 0.3)
    return K, y, np.minimum(0.0, C * y), np.maximum(0.0, C * y)


@pytest.mark.parametrize(("epsilon", "C"), [(0.0, 1.0), (0.0, 100.0), (0.2, 1.0), (0.2, 30.0)])
def test_the_solution_is_that_of_single_coordinates(epsilon, C):
    K, q, lower, upper = problem(0, epsilon=epsilon, C=C)
    b, info = dual_coordinate(BoxDual(DenseBlocks(K, 1), q, lower, upper, epsilon), tol=1e-10)
    slow = reference.box_dual(K, q, lower, upper, epsilon)
    np.testing.assert_allclose(K @ b, K @ slow, atol=1e-6)
    assert info.converged
    assert (b >= lower).all()
    assert (b <= upper).all()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.sampled_from([1, 3, 60]), epsilon=st.sampled_from([0.0, 0.3]))
def test_kkt_conditions_hold_also_for_singular_kernels(seed, rank, epsilon):
    K, q, lower, upper = problem(seed, n=60, rank=rank, epsilon=epsilon, C=5.0)
    b, info = dual_coordinate(BoxDual(DenseBlocks(K, 1), q, lower, upper, epsilon), tol=1e-9)
    assert info.converged
    assert info.gap + 1e-12 >= 0
    slope = K @ b - q
    free = (b > lower + 1e-12) & (b < upper - 1e-12)
    moving = free & (b != 0)
    np.testing.assert_allclose((slope + epsilon * np.sign(b))[moving], 0.0, atol=1e-4)
    assert (slope[(b == 0) & (upper > 0)] >= -epsilon - 1e-4).all()
    assert (slope[(b == 0) & (lower < 0)] <= epsilon + 1e-4).all()


def test_shrinking_sets_coordinates_aside_and_a_kronecker_gram_is_never_multiplied_out(monkeypatch):
    rng = np.random.default_rng(0)
    n, T = 60, 4
    X = rng.standard_normal((n, 2))
    G = np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(axis=2))
    base = Kronecker(G, MixedEffect(0.5, T))
    gram = Observed(base, np.repeat(np.arange(n), T), np.tile(np.arange(T), n))
    y = np.sign(X[:, :1] + 0.3 * rng.standard_normal((n, T))).ravel()
    K = gram.dense()
    gram.dense = base.dense = None
    active = []
    shrink = coordinates._Search.shrink

    def shrinking(search):
        shrink(search)
        active.append(len(search.active))

    monkeypatch.setattr(coordinates._Search, "shrink", shrinking)
    monkeypatch.setattr(coordinates, "SHRINK_INTERVAL", 1)
    b, info = dual_coordinate(BoxDual(gram, y, np.minimum(0, y), np.maximum(0, y), 0.0), tol=1e-10)
    assert info.converged
    assert min(active) < 0.8 * n * T
    np.testing.assert_allclose(K @ b, K @ reference.box_dual(K, y, np.minimum(0, y), np.maximum(0, y)), atol=1e-6)


def test_a_start_at_the_solution_is_kept():
    K, q, lower, upper = problem(1)
    dual = BoxDual(DenseBlocks(K, 1), q, lower, upper, 0.0)
    b, _ = dual_coordinate(dual, tol=1e-9)
    again, info = dual_coordinate(dual, tol=1e-6, start=b)
    assert info.iterations == 0
    np.testing.assert_array_equal(again, b)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.sampled_from([2, 12]))
def test_box_newton_never_raises_the_value_and_meets_the_conditions(seed, rank):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((12, rank))
    Q, g = A @ A.T, rng.standard_normal(12)
    low, high = -rng.uniform(0, 1, 12), rng.uniform(0, 1, 12)
    d = box_newton(Q, g, low, high, steps=200)
    gradient = Q @ d + g
    assert (d >= low).all()
    assert (d <= high).all()
    assert 0.5 * d @ Q @ d + g @ d <= 0
    assert (gradient[d < high] >= -1e-6).all()
    assert (gradient[d > low] <= 1e-6).all()


def test_biases_close_the_gap_and_tasks_sum_to_zero():
    K, q, lower, upper = problem(3, n=50)
    task = np.arange(50) % 3
    b, bias, info = dual_with_biases(BoxDual(DenseBlocks(K, 1), q, lower, upper, 0.0), task, tol=1e-8)
    assert info.converged
    np.testing.assert_allclose(np.bincount(task, weights=b), 0.0, atol=1e-10)
    # Free coordinates have margin one with the bias of their task.
    free = (np.abs(b) > 1e-6) & (np.abs(b) < 1 - 1e-6)
    np.testing.assert_allclose((K @ b + bias[task])[free], q[free], atol=1e-4)


def test_the_best_bias_is_no_worse_than_any_on_a_grid():
    rng = np.random.default_rng(0)
    r = rng.standard_normal(15)
    dual = BoxDual(DenseBlocks(np.eye(15), 1), r, -rng.uniform(0, 1, 15), rng.uniform(0, 1, 15), 0.1)
    best = best_biases(dual, np.zeros(15, dtype=int), 1, r)[0]
    grid = [dual.losses(r - bias).sum() for bias in np.linspace(-4, 4, 801)]
    assert dual.losses(r - best).sum() <= min(grid) + 1e-12


def test_balancing_a_task_of_one_sign_leaves_nothing():
    b = balanced(np.array([1.0, 2.0, 1.0, -3.0]), np.array([0, 0, 1, 1]), 2)
    np.testing.assert_allclose(b, [0.0, 0.0, 1.0, -1.0])


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    rank=st.sampled_from([1, 3, 60]),
    epsilon=st.sampled_from([0.0, 0.3]),
    C=st.sampled_from([0.01, 1.0, 1e4]),
)
def test_interior_points_end_at_the_solution(seed, rank, epsilon, C):
    K, q, lower, upper = problem(seed, n=40, rank=rank, epsilon=epsilon, C=C)
    b, _ = interior_point(BoxDual(DenseBlocks(K, 1), q, lower, upper, epsilon), K, tol=1e-12)
    dual = BoxDual(DenseBlocks(K, 1), q, lower, upper, epsilon)
    assert (b >= lower).all()
    assert (b <= upper).all()
    info = dual.info(b, q - K @ b, K @ b, 1, 1e-4)
    assert info.converged
    exact, info = dual_coordinate(dual, tol=1e-9, start=b)
    assert info.converged
    np.testing.assert_allclose(K @ b, K @ exact, atol=1e-3 * max(1.0, float(np.abs(q).max())))


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_interior_points_keep_sums(epsilon):
    K, q, lower, upper = problem(5, n=50, epsilon=epsilon, C=2.0)
    task = np.arange(50) % 3
    E = np.eye(3)[task]
    dual = BoxDual(DenseBlocks(K, 1), q, lower, upper, epsilon)
    b, bias = interior_point(dual, K, E, tol=1e-12)
    np.testing.assert_allclose(E.T @ b, 0.0, atol=1e-6)
    assert dual.info(b, q - K @ b - bias[task], K @ b, 1, 1e-5).converged


@pytest.mark.parametrize("epsilon", [0.0, 0.1])
def test_multipliers_and_interior_points_find_the_same_biases(epsilon, monkeypatch):
    K, q, lower, upper = problem(6, n=60, epsilon=epsilon)
    task = np.arange(60) % 2
    dual = BoxDual(DenseBlocks(K, 1), q, lower, upper, epsilon)
    slow, slow_bias, slow_info = dual_with_biases(dual, task, tol=1e-9)
    # One step of multipliers, then the interior point method.
    monkeypatch.setattr(coordinates, "STEP_COST", 1e12)
    b, bias, info = dual_with_biases(dual, task, tol=1e-9)
    assert info.converged
    assert slow_info.converged
    np.testing.assert_allclose(K @ b + bias[task], K @ slow + slow_bias[task], atol=1e-5)


def test_many_free_coefficients_take_few_steps(monkeypatch):
    """A wide kernel and a large C, for which block steps alone converge slowly."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-3, 3, (250, 2))
    K = Gaussian(2.0)(X)
    q = np.sin(X.sum(axis=1)) + 0.2 * rng.standard_normal(250)
    dual = BoxDual(DenseBlocks(K, 1), q, np.full(250, -1e3), np.full(250, 1e3), 0.05)
    b, info = dual_coordinate(dual, tol=1e-6)
    assert info.converged
    assert info.iterations < 500
    monkeypatch.setattr(coordinates, "MAX_INTERIOR", 0)
    _, without = dual_coordinate(dual, tol=1e-6, max_iter=5 * info.iterations)
    assert without.iterations > 2 * info.iterations
    np.testing.assert_allclose(dual.info(b, q - K @ b, K @ b, 1, 1e-6).gap, info.gap, atol=1e-9 * info.primal)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), rank=st.sampled_from([1, 3, 60]), C=st.sampled_from([0.01, 1.0, 1e3]))
def test_a_smoothed_loss_leads_to_the_same_function(seed, rank, C):
    K, q, lower, upper = problem(seed, n=40, rank=rank, C=C)
    dual = BoxDual(DenseBlocks(K, 1), q, lower, upper, 0.0)
    b = smoothed_newton(dual, tol=1e-6)
    assert (b >= lower).all()
    assert (b <= upper).all()
    exact, _ = interior_point(BoxDual(DenseBlocks(K, 1), q, lower, upper, 0.0), K, tol=1e-12)
    # Rounding in K b limits the gap for a singular kernel and a large box.
    assert dual.info(b, q - K @ b, K @ b, 1, 1e-3).converged
    np.testing.assert_allclose(K @ b, K @ exact, atol=0.1 * max(1.0, float(np.abs(K @ exact).max())))


def test_smoothed_newton_stops_when_the_work_is_used_up():
    K, q, lower, upper = problem(0, C=100.0)
    assert smoothed_newton(BoxDual(DenseBlocks(K, 1), q, lower, upper, 0.0), work=1.0) is None


def test_a_poor_start_stays_as_it_was():
    K, q, lower, upper, *_ = problem(0)
    dual = BoxDual(DenseBlocks(K, 1), q, lower, upper, 0.0)
    start = 0.5 * (lower + upper)
    given = start.copy()
    found, _ = dual_coordinate(dual, tol=1e-9, start=start)
    np.testing.assert_array_equal(start, given)
    np.testing.assert_allclose(found, dual_coordinate(dual, tol=1e-9)[0], atol=1e-4)
