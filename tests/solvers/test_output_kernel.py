"""Learning the output operator: values, derivatives, descent, and the minimum."""

from functools import cache

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

import reference
from ovk.base import Targets
from ovk.kernels import Gaussian, Polynomial
from ovk.objectives import L1, Frobenius, PSDCone, Trace
from ovk.solvers import PenaltySum
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.output_kernel import CompleteProfile, PairProfile, learn_low_rank, learn_operator

rng = np.random.default_rng(0)
N, D = 25, 4
X = rng.uniform(-1, 1, (N, 2))
G = Gaussian(0.7)(X)
W = rng.standard_normal((D, 2))
Y = np.sin(X @ rng.standard_normal((2, 2)) * 2) @ W.T + 0.2 * rng.standard_normal((N, D))
HOLES = np.where(rng.random(Y.shape) < 0.3, np.nan, Y)
T = W @ W.T + 0.3 * np.eye(D)
u = rng.uniform(0.5, 2.0, N)
SPARSE = PenaltySum([L1(0.5), Trace()], tol=1e-8, max_iter=200)


def pair_profile(Y, G=G, intercept=False):
    return PairProfile(G, Targets(Y, D, False, None, None).pairs(), intercept=intercept)


@pytest.mark.parametrize("columns", [None, u])
@pytest.mark.parametrize("tol", [0.0, 1e-9])
def test_complete_profile(columns, tol):
    # A gram of low rank.
    smooth = Polynomial(2)(X)
    pairs = eigenpairs(smooth, tol)
    assert pairs.full == (tol == 0.0)
    found = CompleteProfile(pairs, Y, columns).evaluate(T, 0.3)
    value, moment = reference.profile(smooth, Y, T, 0.3, columns)
    assert_allclose(found.value, value, rtol=1e-8)
    assert_allclose(found.moment, moment, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
def test_pair_profile(intercept):
    found = pair_profile(HOLES, intercept=intercept).evaluate(T, 0.3)
    value, moment = reference.profile(G, HOLES, T, 0.3, np.ones(N) if intercept else None)
    assert_allclose(found.value, value, rtol=1e-10)
    assert_allclose(found.moment, moment, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("profile", [CompleteProfile(eigenpairs(G), Y, u), pair_profile(HOLES, intercept=True)])
def test_the_moment_is_the_derivative(profile):
    direction = rng.standard_normal((D, D))
    direction += direction.T
    slope = reference.derivative(lambda s: profile.evaluate(T + s * direction, 0.3).value, 0.0, h=1e-3)
    assert_allclose(-0.3 * np.vdot(profile.evaluate(T, 0.3).moment, direction), slope, rtol=1e-7)


PENALTIES = {"frobenius": Frobenius(), "trace": Trace(), "sparse": SPARSE}


@pytest.mark.pairwise
@pytest.mark.parametrize("alpha", [0.03, 1.0, 5.0])
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("start", ["identity", "zero", "singular"])
def test_descends_in_the_cone_to_the_minimum(name, alpha, start):
    profile, penalty = CompleteProfile(eigenpairs(G), Y), PENALTIES[name]
    first = {"identity": np.eye(D), "zero": np.zeros((D, D)), "singular": W[:, :1] @ W[:, :1].T}[start]
    learned = learn_operator(profile, penalty, alpha, first, tol=1e-6, max_iter=5000)
    assert learned.converged
    log = np.array(learned.objective)
    assert (np.diff(log) <= 1e-10 * log[:-1]).all()
    assert np.linalg.eigvalsh(learned.T)[0] >= -1e-10 * np.trace(learned.T)
    assert_allclose(log[-1], reference.profile(G, Y, learned.T, alpha)[0] + alpha * penalty.value(learned.T), rtol=1e-8)
    # The problem is convex, so neither points between T and other matrices are better,
    for seed in range(10):
        R = np.random.default_rng(seed).standard_normal((D, D))
        for share in (1e-4, 1e-2, 0.3):
            other = (1 - share) * learned.T + share * R @ R.T * np.trace(learned.T) / D
            assert profile.evaluate(other, alpha).value + alpha * penalty.value(other) >= log[-1] * (1 - 1e-9)
    # nor the result of a general method.
    assert log[-1] <= slow_minimum(name, alpha) * (1 + 1e-6)


@cache
def slow_minimum(name, alpha):
    """The minimum over T = R R', derivatives by finite differences."""
    penalty = PENALTIES[name]

    def objective(r):
        R = r.reshape(D, D)
        value = reference.profile(G, Y, R @ R.T, alpha)[0]
        return value + alpha * penalty.value(R @ R.T)

    return minimize(objective, np.eye(D).ravel(), method="BFGS", options={"maxiter": 40}).fun


@pytest.mark.parametrize("penalty", [Frobenius(), Trace()])
def test_low_rank(penalty):
    profile = CompleteProfile(eigenpairs(G), Y)
    whole = learn_operator(profile, penalty, 0.3, np.eye(D))
    values, vectors = np.linalg.eigh(whole.T)
    truncated = vectors[:, -2:] * np.sqrt(values[-2:])
    learned = learn_low_rank(profile, penalty, 0.3, truncated, tol=1e-6)
    assert learned.converged
    assert np.linalg.matrix_rank(learned.T, tol=1e-9) == 2
    assert (np.diff(learned.objective) <= 0).all()
    assert learned.objective[-1] < learned.objective[0]
    assert learned.objective[-1] >= whole.objective[-1] * (1 - 1e-6)
    # With full rank it is the original problem.
    every = learn_low_rank(profile, penalty, 0.3, np.eye(D), tol=1e-7, max_iter=5000)
    assert_allclose(every.objective[-1], whole.objective[-1], rtol=1e-5)


def test_nothing_to_learn_from():
    learned = learn_operator(CompleteProfile(eigenpairs(G), 0 * Y), Trace(), 1.0, np.eye(D))
    assert not learned.T.any()
    assert learned.converged


def test_entries_as_dear_as_the_diagonal_always_make_it_diagonal():
    """Why the sparse penalty includes the trace: M_ii = 1 and M positive semi-definite imply |M_ij| <= 1."""
    learned = learn_operator(CompleteProfile(eigenpairs(G), Y), PenaltySum([L1(), PSDCone()]), 0.3, np.eye(D), tol=1e-6)
    assert_allclose(learned.T, np.diag(np.diagonal(learned.T)), atol=1e-5)


def test_a_large_alpha_leaves_nothing_of_the_trace():
    profile = CompleteProfile(eigenpairs(G), Y)
    limit = float(np.sqrt(np.linalg.eigvalsh(Y.T @ G @ Y)[-1]))
    assert learn_operator(profile, Trace(), 1.05 * limit, np.eye(D), tol=1e-8).T.max() < 1e-8
    assert learn_operator(profile, Trace(), 0.95 * limit, np.eye(D), tol=1e-8).T.max() > 1e-3


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_low_rank_minimum_is_told_by_where_it_is_not_by_the_start(size):
    """The final gradient, by finite differences, is small relative to its terms."""
    profile, penalty, alpha, tol = CompleteProfile(eigenpairs(G), Y), Trace(), 0.3, 1e-6
    start = size * np.random.default_rng(1).standard_normal((D, 2))
    learned = learn_low_rank(profile, penalty, alpha, start, tol=tol, max_iter=5000)
    assert learned.converged
    values, vectors = np.linalg.eigh(learned.T)
    root = vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0.0))

    def objective(B):
        return profile.evaluate(B @ B.T, alpha).value + alpha * penalty.value(B @ B.T)

    # The derivative of the objective, entry by entry: independent of the gradient that the solver uses.
    slopes = [
        reference.derivative(lambda s, E=E: objective(root + s * E.reshape(D, 2)), 0.0, h=1e-3) for E in np.eye(2 * D)
    ]
    natural = alpha * np.linalg.norm(profile.evaluate(learned.T, alpha).moment) * np.linalg.norm(root, 2)
    assert np.linalg.norm(slopes) <= 1e-4 * natural
    # The same derivative away from the minimum is that of the formula 2 alpha (Omega' - moment) W.
    B = np.random.default_rng(2).standard_normal((D, 2))
    gradient = 2 * alpha * (penalty.gradient(B @ B.T) - profile.evaluate(B @ B.T, alpha).moment) @ B
    found = [
        reference.derivative(lambda s, E=E: objective(B + s * E.reshape(D, 2)), 0.0, h=1e-3) for E in np.eye(2 * D)
    ]
    assert_allclose(found, gradient.ravel(), rtol=1e-5, atol=1e-7)
