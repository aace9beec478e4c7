"""Cholesky and Eigen: jitter, singular systems, truncation."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import instances
import reference
from ovk.kernels import Gaussian, Linear, Precomputed
from ovk.operators import Dense, Identity, LowRank, MixedEffect
from ovk.ovkernels import DenseBlocks, Kronecker
from ovk.solvers import Cholesky, Eigen, SingularSystemError
from ovk.solvers.cholesky import cholesky_factor
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.solver_choice import solve_with_intercept

INDEFINITE = np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def wide(n=60, scale=3.0, seed=0):
    """A smooth kernel in few dimensions, with a numerical rank far below n."""
    X = np.random.default_rng(seed).standard_normal((n, 2))
    return Gaussian(scale)(X)


# ----------------------------------------------------------------------------------------------------- jitter


def test_rounding_is_repaired_and_reported():
    """A rank-one gram, slightly indefinite through rounding, without ridge."""
    x = np.linspace(1.0, 2.0, 8)
    G = np.outer(x, x) - 1e-15 * np.eye(8)
    Y = x[:, None] * 3.0
    C, info = Cholesky().solve(Cholesky().factor(Kronecker(G, Identity(1))), Y, 0.0)
    assert 0 < info.jitter < 1e-11
    assert_allclose(G @ C, Y, rtol=1e-6)


def test_jitter_grows_until_it_is_enough():
    G = np.diag([1.0, 1.0, -4e-15])
    found = cholesky_factor(lambda: G.copy(), 0.0)
    assert found.jitter == pytest.approx(10 * 3 * np.finfo(float).eps)
    assert_allclose(np.tril(found.L) @ np.tril(found.L).T, G, atol=1e-14)
    assert found.condition > 1e14


def test_no_jitter_when_none_is_needed():
    G = wide(10, 0.3)
    found = cholesky_factor(lambda: G.copy(), 1e-3)
    assert found.jitter == 0.0
    A = G + 1e-3 * np.eye(10)
    assert_allclose(np.tril(found.L) @ np.tril(found.L).T, A, atol=1e-13)
    B = np.random.default_rng(0).standard_normal((10, 2))
    assert_allclose(A @ found.solve(B), B, atol=1e-10)
    assert_allclose(np.tril(found.L) @ found.whiten(B), B, atol=1e-12)


@pytest.mark.parametrize("gram", [Kronecker(INDEFINITE, Identity(2)), DenseBlocks(INDEFINITE, 1)])
def test_indefinite_systems_raise_with_advice(gram):
    state = Cholesky().factor(gram)
    with pytest.raises(
        SingularSystemError, match=r"of 3 points plus alpha=0\.1 is not positive definite.*increase alpha"
    ):
        Cholesky().solve(state, np.ones((3, gram.output_dim)), 0.1)
    assert issubclass(SingularSystemError, ValueError)


@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_an_indefinite_precomputed_kernel_raises(tol):
    gram = (Precomputed(INDEFINITE) * Identity(2)).gram(np.arange(3.0)[:, None])
    with pytest.raises(SingularSystemError, match=r"positive semi-definite, got eigenvalues from -1 to 3"):
        Eigen(tol).factor(gram)


@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_an_indefinite_matrix_with_a_zero_diagonal_raises(tol):
    with pytest.raises(SingularSystemError, match="eigenvalues from -1"):
        eigenpairs(np.array([[0.0, 1.0], [1.0, 0.0]]), tol)


def test_an_indefinite_remainder_raises():
    """The pivots 1 and 1e-3 are positive, and the remaining diagonal is zero."""
    G = np.zeros((12, 12))
    G[0, 0], G[1, 1], G[2, 3], G[3, 2] = 1.0, 1e-3, 0.5, 0.5
    with pytest.raises(SingularSystemError, match=r"eigenvalues from -0\.5"):
        eigenpairs(G, 1e-8)


def test_sums_that_do_not_commute_raise():
    gram = dict(instances.GRAMS)["kronecker-sum"]
    for solver in (Cholesky(), Eigen()):
        with pytest.raises(ValueError, match=r"do not commute.*use solver='auto' or ConjugateGradient\(\)"):
            solver.factor(gram)


def test_no_ridge():
    G, T = wide(8, 0.4), Dense(instances.B)
    Y = np.random.default_rng(0).standard_normal((8, 3))
    for solver in (Cholesky(), Eigen()):
        C, _ = solver.solve(solver.factor(Kronecker(G, T)), Y, 0.0)
        assert_allclose(G @ C @ instances.B, Y, atol=1e-8)


@pytest.mark.parametrize("solver", [Cholesky(), Eigen(), Eigen(1e-10)])
def test_no_ridge_where_the_operator_is_zero(solver):
    """Coefficients outside the range of a singular operator stay zero."""
    G = wide(6, 0.4)
    w = np.array([1.0, 2.0, 2.0]) / 3.0
    Y = np.random.default_rng(0).standard_normal((6, 3))
    C, _ = solver.solve(solver.factor(Kronecker(G, LowRank(w[:, None]))), Y, 0.0)
    assert_allclose(G @ C @ np.outer(w, w), Y @ np.outer(w, w), atol=1e-7)
    assert_allclose(C @ (np.eye(3) - np.outer(w, w)), 0.0, atol=1e-8)


# ------------------------------------------------------------------------------------------------- truncation


@pytest.mark.parametrize("tol", [1e-6, 1e-10])
def test_low_rank_eigenpairs(tol):
    G = wide()
    pairs = eigenpairs(G, tol)
    assert pairs.full is False
    assert pairs.Q.shape[1] < 0.7 * len(G)
    assert_allclose(pairs.Q.T @ pairs.Q, np.eye(pairs.Q.shape[1]), atol=1e-7)
    dropped = G - (pairs.Q * pairs.g) @ pairs.Q.T
    assert np.trace(dropped) <= tol + 1e-12
    assert np.linalg.eigvalsh(dropped).min() >= -1e-12


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("tol", [1e-6, 1e-9])
@pytest.mark.parametrize("operator", instances.each(instances.OPERATORS))
def test_truncation_within_the_stated_tolerance(operator, tol, alpha):
    gram = Kronecker(wide(60), operator)
    Y = np.random.default_rng(0).standard_normal((60, 3))
    solver = Eigen(tol)
    state = solver.factor(gram)
    assert all(pairs.full is False for pairs, _ in state.pairs)
    C, info = solver.solve(state, Y, alpha)
    exact = reference.solve(gram.dense(), Y, alpha)
    largest = np.linalg.norm(reference.operator(operator), 2)
    assert np.linalg.norm(C - exact) <= (largest * tol / alpha + 1e-8) * np.linalg.norm(exact)
    assert info.condition == pytest.approx((largest * np.linalg.norm(gram.grams[0], 2) + alpha) / alpha)


def test_truncation_of_commuting_sums():
    X = np.random.default_rng(0).standard_normal((60, 2))
    gram = (Gaussian(3.0) * MixedEffect(0.4, 3) + Linear() * Identity(3)).gram(X)
    Y = np.random.default_rng(1).standard_normal((60, 3))
    solver = Eigen(1e-9)
    state = solver.factor(gram)
    assert len(state.pairs) == 2
    assert all(pairs.full is False for pairs, _ in state.pairs)
    exact = reference.solve(gram.dense(), Y, 0.1)
    assert np.linalg.norm(solver.solve(state, Y, 0.1).C - exact) <= 1e-7 * np.linalg.norm(exact)


def test_a_full_rank_matrix_is_not_truncated():
    pairs = eigenpairs(np.eye(10), 1e-6)
    assert pairs.full is True
    assert_allclose(pairs.g, 1.0)


@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_the_zero_matrix(tol):
    pairs = eigenpairs(np.zeros((4, 4)), tol)
    Y = np.arange(8.0).reshape(4, 2)
    assert_allclose(pairs.solve(Y, 1.0, 2.0), Y / 2.0)
    assert_allclose(pairs.solve(Y, 1.0, 0.0), 0.0)


@pytest.mark.parametrize("tol", [0.0, 1e-8])
def test_sums_with_a_problem_that_vanishes(tol):
    """Outputs outside the range of every operator of the sum: their gram is zero."""
    G = wide(20)
    gram = Kronecker([G, G], [Dense(np.diag([1.0, 0.0, 2.0])), Dense(np.diag([0.5, 0.0, 1.0]))])
    Y = np.random.default_rng(0).standard_normal((20, 3))
    solver = Eigen(tol)
    C, _ = solver.solve(solver.factor(gram), Y, 0.1)
    assert_allclose(C, reference.solve(gram.dense(), Y, 0.1), rtol=1e-5, atol=1e-6)
    assert_allclose(C[:, 1], Y[:, 1] / 0.1)


@pytest.mark.parametrize("tol", [-1.0, np.nan, "small"])
def test_bad_tolerance(tol):
    with pytest.raises(ValueError, match="tol must be non-negative and finite, got"):
        Eigen(tol).factor(Kronecker(np.eye(2), Identity(1)))


def test_without_alpha_a_singular_gram_has_the_pseudoinverse():
    """Eigenvalues at rounding level must not be inverted."""
    rng = np.random.default_rng(0)
    A = rng.standard_normal((12, 4))
    Y = rng.standard_normal((12, 3))
    G = A @ A.T
    C = Eigen().solve(Eigen().factor(Kronecker(G, Identity(3))), Y, 0.0).C
    np.testing.assert_allclose(C, np.linalg.pinv(G, rcond=1e-10) @ Y, atol=1e-8)


def test_an_intercept_without_ridge_needs_outputs_that_are_coupled_to_the_inputs():
    gram = Kronecker(np.eye(3), Dense(np.diag([1.0, 0.0])))
    solver = Cholesky()
    with pytest.raises(SingularSystemError, match="alpha must be positive with an intercept"):
        solve_with_intercept(solver, solver.factor(gram), np.ones((3, 2)), 0.0, np.ones(3))
