"""Conjugate gradient, its preconditioners, Gauss-Seidel and missing outputs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import instances
import reference
from ovk.kernels import Gaussian, Linear, Matern
from ovk.operators import Dense, LowRank, MixedEffect
from ovk.ovkernels import CurlFree, DenseBlocks, Gram, Kronecker, Observed
from ovk.solvers import ConjugateGradient, GaussSeidel, MissingOutputs, solve_with_intercept
from ovk.solvers.iterative import LowRankPreconditioner, conjugate_gradient, conjugate_gradients, pivoted_cholesky

GRAMS = dict(instances.GRAMS)
ITERATIVE = [
    pytest.param(solver, GRAMS[gram], id=type(solver).__name__)
    for solver, gram in [
        (ConjugateGradient(), "kronecker-sum"),
        (GaussSeidel(), "kronecker-sum"),
        (MissingOutputs(), "observed"),
    ]
]


def outputs(gram, seed=0):
    return np.random.default_rng(seed).standard_normal((gram.shape[0], gram.output_dim))


@pytest.mark.parametrize("alpha", [0.0, -1.0])
@pytest.mark.parametrize(("solver", "gram"), ITERATIVE)
def test_a_ridge_is_needed(solver, gram, alpha):
    with pytest.raises(ValueError, match=rf"alpha must be positive with {type(solver).__name__}, got {alpha:g}"):
        solver.solve(solver.factor(gram), outputs(gram), alpha)


@pytest.mark.parametrize(("solver", "gram"), ITERATIVE)
def test_too_few_iterations_warn(solver, gram):
    solver = solver.replace(max_iter=1)
    with pytest.warns(ConvergenceWarning, match=r"did not reach tol=1e-1.* within .* iterations, relative residual"):
        _, info = solver.solve(solver.factor(gram), outputs(gram), 1e-3)
    assert info.residual > solver.tol


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"tol": 0.0}, "tol must be positive and finite, got 0.0"),
        ({"tol": "tiny"}, "tol must be positive and finite, got 'tiny'"),
        ({"max_iter": 0}, "max_iter must be an integer >= 1, got 0"),
        ({"max_iter": 2.5}, "max_iter must be an integer >= 1, got 2.5"),
    ],
)
@pytest.mark.parametrize(("solver", "gram"), ITERATIVE)
def test_bad_parameters(solver, gram, params, message):
    with pytest.raises(ValueError, match=message):
        solver.replace(**params).solve(solver.factor(gram), outputs(gram), 1.0)


@pytest.mark.parametrize("solver", [ConjugateGradient(), GaussSeidel()])
@pytest.mark.parametrize("name", ["kronecker-sum", "dense-blocks", "observed"])
def test_a_good_start_saves_iterations(solver, name):
    gram = GRAMS[name]
    state, Y = solver.factor(gram), outputs(gram)
    C, cold = solver.solve(state, Y, 0.5)
    start = C.copy()
    again, warm = solver.solve(state, Y, 0.5, start=start)
    assert warm.iterations <= min(1, cold.iterations - 1)
    assert_allclose(again, C, rtol=1e-6, atol=1e-8)
    assert np.array_equal(start, C)


@pytest.mark.parametrize("solve", [conjugate_gradient, conjugate_gradients])
def test_conjugate_gradient_ends_after_as_many_steps_as_eigenvalues(solve):
    A = np.diag([1.0, 1.0, 2.0, 5.0])
    B = np.arange(1.0, 5.0)[:, None]
    found = solve(lambda x: A @ x, B, lambda r: r.copy(), None, 1e-12, 100)
    assert found.iterations == 3
    assert_allclose(found.X, B / np.diagonal(A)[:, None])
    assert found.residual <= 1e-12
    nothing = solve(lambda x: A @ x, 0 * B, lambda r: r, None, 1e-12, 100)
    assert nothing.iterations == 0
    assert not nothing.X.any()


def test_one_operator_needs_one_iteration():
    """With a single operator, or commuting operators, the preconditioner is the exact inverse."""
    for name in ("kronecker", "kronecker-singular", "kronecker-sum-commuting"):
        gram = GRAMS[name]
        solver = ConjugateGradient(tol=1e-9)
        _, info = solver.solve(solver.factor(gram), outputs(gram), 0.1)
        assert info.iterations <= 2


def test_the_preconditioner_of_a_sum_helps():
    X = np.random.default_rng(0).standard_normal((60, 3))
    gram = (Gaussian(2.0) * Dense(instances.B) + Matern(1.5, 3.0) * MixedEffect(0.9, 3)).gram(X)
    Y, alpha = outputs(gram), 1e-3
    solver = ConjugateGradient(tol=1e-9)
    _, info = solver.solve(solver.factor(gram), Y, alpha)
    plain = conjugate_gradient(lambda C: gram.matmat(C) + alpha * C, Y, lambda R: R.copy(), None, 1e-9, 2000)
    assert info.iterations < plain.iterations / 4


def test_unknown_grams_raise():
    class Own(Gram):
        shape, output_dim = (2, 2), 1
        matmat = entries = rescale = None

        def diagonal_blocks(self):
            return np.ones((2, 1, 1))

    Own.__abstractmethods__ = frozenset()
    with pytest.raises(TypeError, match="ConjugateGradient has no preconditioner for a Own"):
        ConjugateGradient().factor(Own())


# --------------------------------------------------------------------------------------------------- low rank


@pytest.mark.parametrize("gram", instances.each(instances.GRAMS))
def test_pivoted_cholesky_of_full_rank_is_exact(gram):
    F = pivoted_cholesky(gram, 1000, tol=1e-14)
    assert_allclose(F @ F.T, gram.dense(), atol=1e-10)


def test_pivoted_cholesky_stops_at_the_rank():
    X = np.random.default_rng(0).standard_normal((30, 2))
    gram = DenseBlocks(Linear()(X), 1)
    assert pivoted_cholesky(gram, 20).shape == (30, 2)
    assert pivoted_cholesky(DenseBlocks(np.zeros((4, 4)), 2), 3).shape == (4, 0)


def test_the_remainder_of_pivoted_cholesky_is_positive():
    gram = CurlFree(Gaussian(2.0)).gram(np.random.default_rng(0).standard_normal((15, 2)))
    rest = [gram.dense() - F @ F.T for F in (pivoted_cholesky(gram, r) for r in (3, 8, 15))]
    assert all(np.linalg.eigvalsh(R).min() > -1e-10 for R in rest)
    assert np.trace(rest[0]) > np.trace(rest[1]) > np.trace(rest[2])


@pytest.mark.parametrize("rank", [1, 4, 1000])
def test_the_low_rank_preconditioner_is_its_formula(rank):
    gram = GRAMS["dense-blocks"]
    F = pivoted_cholesky(gram, rank)
    R = outputs(gram)
    expected = reference.solve(F @ F.T, R, 0.3)
    assert_allclose(LowRankPreconditioner(F)(0.3)(R), expected, rtol=1e-9, atol=1e-11)


def test_rank_saves_iterations():
    gram = CurlFree(Gaussian(1.5)).gram(np.random.default_rng(0).standard_normal((40, 2)))
    iterations = []
    for rank in (1, 80):
        solver = ConjugateGradient(tol=1e-9, rank=rank)
        iterations.append(solver.solve(solver.factor(gram), outputs(gram), 1e-2)[1].iterations)
    assert iterations[1] <= 5 < iterations[0]
    with pytest.raises(ValueError, match="rank must be an integer >= 1, got 0"):
        ConjugateGradient(rank=0).factor(gram)


# -------------------------------------------------------------------------------------------- missing outputs


@pytest.mark.parametrize("operator", instances.each(instances.OPERATORS))
@pytest.mark.parametrize("share", [0.2, 0.6, 1.0])
@pytest.mark.parametrize("alpha", [1e-3, 1.0])
def test_missing_outputs(operator, share, alpha):
    rng = np.random.default_rng(0)
    base = Kronecker(Gaussian(1.5)(rng.standard_normal((20, 2))), operator)
    seen = rng.random((20, 3)) < share
    Y = np.where(seen, rng.standard_normal((20, 3)), np.nan)
    gram = Observed(base, *np.nonzero(seen))
    solver = MissingOutputs()
    C, info = solver.solve(solver.factor(gram), Y[seen][:, None], alpha)
    assert info.residual <= solver.tol
    expected, _ = reference.ridge(base.dense(), Y, alpha)
    assert np.linalg.norm(gram.spread(C) - expected) <= 1e-7 * np.linalg.norm(expected)


@pytest.mark.parametrize("alpha", [1e-8, 1e-2])
def test_few_iterations_solve_coupled_outputs_with_gaps_and_intercepts(alpha):
    """Preconditioned by factors of single outputs, at any alpha."""
    rng = np.random.default_rng(0)
    n, d = 30, 6
    correlation = np.full((d, d), 0.8) + 0.2 * np.eye(d)
    scales = np.logspace(-2, 2, d)
    gram = Kronecker(Gaussian(3.0)(rng.standard_normal((n, 2))), Dense(correlation * np.outer(scales, scales)))
    seen = rng.random((n, d)) < 0.5
    gram, roots = Observed(gram, *np.nonzero(seen)), rng.uniform(0.5, 2.0, n)
    y, E = rng.standard_normal((seen.sum(), 1)), np.eye(d)[gram.outputs] * roots[gram.rows][:, None]
    solver = ConjugateGradient()
    (C, info), b = solve_with_intercept(solver, solver.factor(gram), y, alpha, E)
    assert info.iterations <= 60
    assert_allclose(gram.matmat(C) + alpha * C + (E @ b)[:, None], y, atol=1e-5)
    assert_allclose(E.T @ C / np.abs(C).max(), 0.0, atol=1e-10)


def test_missing_outputs_of_an_operator_that_is_zero():
    gram = Observed(Kronecker(np.eye(3), LowRank(np.zeros((2, 1)))), np.array([0, 1]), np.array([0, 1]))
    C, _ = MissingOutputs().solve(MissingOutputs().factor(gram), np.ones((2, 1)), 0.5)
    assert_allclose(C, 2.0)


@pytest.mark.parametrize("name", ["kronecker", "observed-sum", "observed-blocks"])
def test_missing_outputs_are_for_separable_kernels(name):
    with pytest.raises(ValueError, match="a separable kernel and missing outputs: use solver='auto'"):
        MissingOutputs().factor(GRAMS[name])


@pytest.mark.parametrize(("solver", "gram"), ITERATIVE)
def test_outputs_and_a_poor_start_stay_as_they_were(solver, gram):
    Y, start = outputs(gram), outputs(gram, 1)
    if isinstance(solver, MissingOutputs):
        Y, start = Y[:, :1], start[:, :1]
    given = Y.copy(), start.copy()
    state = solver.factor(gram)
    found, _ = solver.solve(state, Y, 0.5, start=start)
    assert np.array_equal(Y, given[0])
    assert np.array_equal(start, given[1])
    assert_allclose(found, solver.solve(state, Y, 0.5)[0], atol=1e-5)


@pytest.mark.parametrize("solve", [conjugate_gradient, conjugate_gradients])
@pytest.mark.parametrize("begin", [None, 1.0])
def test_a_preconditioner_may_return_what_it_was_given(solve, begin):
    rng = np.random.default_rng(2)
    A = rng.standard_normal((9, 9))
    A, B = A @ A.T + np.eye(9), rng.standard_normal((9, 2))
    start = None if begin is None else np.full((9, 2), begin)
    given = B.copy()
    found = solve(lambda X: A @ X, B, lambda R: R, start, 1e-12, 100)
    assert_allclose(found.X, np.linalg.solve(A, B), rtol=1e-8)
    assert np.array_equal(B, given)
    assert start is None or (start == begin).all()


@pytest.mark.parametrize("name", GRAMS)
def test_a_pivoted_factor_leaves_the_gram_as_it_was(name):
    gram = GRAMS[name]
    if gram.shape[0] * gram.output_dim != len(gram.dense()):
        return
    before = gram.dense().copy()
    pivoted_cholesky(gram, 5)
    assert np.array_equal(gram.dense(), before)


def test_a_pivoted_factor_leaves_a_gram_of_one_output_as_it_was():
    K = Gaussian(1.0)(np.random.default_rng(0).standard_normal((7, 2)))
    given = K.copy()
    F = pivoted_cholesky(DenseBlocks(K, 1), 7)
    assert_allclose(F @ F.T, given, atol=1e-9)
    assert np.array_equal(K, given)
