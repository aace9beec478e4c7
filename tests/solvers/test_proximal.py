"""Accelerated proximal gradient finds known minima, never increases the objective, and warns otherwise."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import Lasso, MultiTaskLasso

import reference
from ovk.objectives import L1, L1L2, PSDCone
from ovk.solvers import PenaltySum, proximal_gradient


def least_squares(A, Y):
    def smooth(C):
        R = A @ C - Y
        return 0.5 * float((R**2).sum()), A.T @ R

    return smooth, 1.0 / np.linalg.norm(A, 2) ** 2


@pytest.fixture
def problem():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((30, 8)) * np.logspace(0, -1.5, 8)
    return A, rng.standard_normal((30, 3))


def test_l1_agrees_with_scikit_learn(problem):
    A, Y = problem
    smooth, step = least_squares(A, Y)
    C, info = proximal_gradient(smooth, L1(0.5), np.zeros((8, 3)), step=step, tol=1e-10, max_iter=5000)
    expected = Lasso(alpha=0.5 / 30, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, Y).coef_.T
    np.testing.assert_allclose(C, expected, atol=1e-7)
    assert info.converged
    assert (C == 0).any()


def test_rows_agree_with_scikit_learn(problem):
    A, Y = problem
    smooth, step = least_squares(A, Y)
    C, _ = proximal_gradient(smooth, L1L2(2.0), np.zeros((8, 3)), step=step, tol=1e-10, max_iter=5000)
    expected = MultiTaskLasso(alpha=2.0 / 30, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(A, Y).coef_.T
    np.testing.assert_allclose(C, expected, atol=1e-7)
    assert (C == 0).all(axis=1).any()


def test_without_penalty_it_is_least_squares(problem):
    A, Y = problem
    smooth, step = least_squares(A, Y)
    C, _ = proximal_gradient(smooth, None, np.zeros((8, 3)), step=step, tol=1e-11, max_iter=20_000)
    np.testing.assert_allclose(C, np.linalg.lstsq(A, Y, rcond=None)[0], atol=1e-7)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), weight=st.floats(0.01, 3.0), long=st.floats(0.3, 300.0))
def test_it_agrees_with_the_plain_iteration_whatever_the_first_step(seed, weight, long):
    rng = np.random.default_rng(seed)
    A, Y = rng.standard_normal((6, 4)), rng.standard_normal((6, 2))
    A[:4] += 2 * np.eye(4)
    smooth, step = least_squares(A, Y)
    C, info = proximal_gradient(smooth, L1(weight), np.zeros((4, 2)), step=long * step, tol=1e-10, max_iter=5000)
    # The plain iteration converges as fast as the problem is well conditioned: it runs until nothing changes.
    slow = reference.plain_proximal_gradient(smooth, L1(weight), np.zeros((4, 2)), step, 200_000, tol=1e-13)
    np.testing.assert_allclose(C, slow, atol=1e-6)
    assert info.gradient_mapping >= 0


def test_the_objective_never_rises(problem):
    A, Y = problem
    smooth, step = least_squares(A, Y)
    values = []
    for rounds in range(1, 60):
        _, info = proximal_gradient(smooth, L1(0.3), np.ones((8, 3)), step=step, max_iter=rounds, warn=False)
        values.append(info.objective)
    assert (np.diff(values) <= 1e-12).all()


def test_the_end_has_a_small_duality_gap(problem):
    A, Y = problem
    smooth, step = least_squares(A, Y)
    weight = 0.5

    def gap(C):
        # The residual, scaled into the polytope |A'u| <= weight, is a point of the dual.
        R = Y - A @ C
        U = R * min(1.0, weight / np.abs(A.T @ R).max())
        return 0.5 * (R**2).sum() + weight * np.abs(C).sum() - (0.5 * (Y**2).sum() - 0.5 * ((Y - U) ** 2).sum())

    C, info = proximal_gradient(smooth, L1(weight), np.zeros((8, 3)), step=step, tol=1e-8, max_iter=5000)
    _, end = proximal_gradient(smooth, L1(weight), C, step=step, tol=1e-12, max_iter=20_000, warn=False)
    assert info.converged
    assert gap(C) <= 1e-8 * info.objective
    assert info.objective - end.objective <= gap(C) + 1e-12


def test_a_warm_start_saves_steps(problem):
    A, Y = problem
    smooth, step = least_squares(A, Y)
    options = {"step": step, "scale": float(np.linalg.norm(A.T @ Y)), "tol": 1e-8, "max_iter": 5000}
    C, cold = proximal_gradient(smooth, L1(0.5), np.zeros((8, 3)), **options)
    _, warm = proximal_gradient(smooth, L1(0.49), C, **options)
    assert warm.iterations < cold.iterations


def test_missing_convergence_warns(problem):
    A, Y = problem
    smooth, step = least_squares(A, Y)
    with pytest.warns(ConvergenceWarning, match="max_iter=3 steps"):
        _, info = proximal_gradient(smooth, L1(0.1), np.zeros((8, 3)), step=step, max_iter=3)
    assert not info.converged


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), weight=st.floats(0.0, 1.0))
def test_the_step_of_a_sum_is_optimal(seed, weight):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((4, 4))
    A = A + A.T
    both = PenaltySum([L1(weight), PSDCone()], tol=1e-12, max_iter=5000)
    P = both.prox(A, 1.0)

    def objective(Q):
        return 0.5 * ((Q - A) ** 2).sum() + both.value(Q)

    assert np.isfinite(objective(P))
    # Strong convexity: no point of the cone may be better than P, and the excess is at least the squared distance.
    for _ in range(20):
        F = rng.standard_normal((4, 4))
        Q = 0.9 * P + 0.1 * F @ F.T
        assert objective(Q) >= objective(P) + 0.5 * ((Q - P) ** 2).sum() - 1e-7


def test_a_sum_of_one_is_the_one():
    A = np.array([[2.0, 0.3], [0.3, -1.0]])
    np.testing.assert_array_equal(PenaltySum([L1(0.5)]).prox(A, 1.0), L1(0.5).prox(A, 1.0))
