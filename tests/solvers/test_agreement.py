"""Every solver agrees with a dense solve on every gram, and reports the route it took."""

import numpy as np
import pytest

import instances
import reference
from ovk.kernels import Gaussian
from ovk.operators import Dense, Identity
from ovk.ovkernels import DenseBlocks, Kronecker, Observed
from ovk.solvers import Cholesky, ConjugateGradient, Eigen, GaussSeidel, MissingOutputs, as_solver, select
from ovk.solvers.solver_choice import solve_with_intercept

ALPHAS = [1e-3, 0.1, 10.0]


def outputs(gram, seed=0):
    return np.random.default_rng(seed).standard_normal((gram.shape[0], gram.output_dim))


def suits(solver, gram):
    """Whether the solver supports the gram."""
    if isinstance(solver, MissingOutputs):
        return isinstance(gram, Observed) and gram.base.terms() is not None and len(gram.base.terms()) == 1
    if isinstance(solver, (Cholesky, Eigen)):
        return gram.decouple() is not None
    return True


def close(found, expected, tol=1e-8):
    assert np.linalg.norm(found - expected) <= tol * np.linalg.norm(expected)


ROUTES = [
    pytest.param(gram, solver, id=f"{g}-{s}")
    for g, gram in instances.GRAMS
    for s, solver in instances.SOLVERS
    if suits(solver, gram)
]
HOLES = [route for route in ROUTES if isinstance(route.values[0], Observed)]
COMPLETE = [route for route in ROUTES if route not in HOLES]
KERNEL_ROUTES = [
    pytest.param(K.gram(instances.inputs(None, 6, seed=3)), solver, id=f"{k}-{s}")
    for k, K in instances.OVKERNELS
    for s, solver in instances.SOLVERS
    if s in ("cholesky", "eigen", "conjugate-gradient") and suits(solver, K.gram(instances.inputs(None, 6, seed=3)))
]


def at(alphas, routes):
    """Pairs of solver and alpha; Gauss-Seidel would take millions of sweeps at a small alpha."""
    return [
        pytest.param(*route.values, alpha, id=f"{route.id}-{alpha}")
        for route in routes
        for alpha in alphas
        if alpha >= 0.1 or not isinstance(route.values[1], GaussSeidel)
    ]


@pytest.mark.pairwise
@pytest.mark.parametrize(("gram", "solver", "alpha"), at(ALPHAS, [*ROUTES, *KERNEL_ROUTES]))
def test_solution(gram, solver, alpha):
    Y = outputs(gram)
    before = Y.copy()
    C, info = solver.solve(solver.factor(gram), Y, alpha)
    close(C, reference.solve(gram.dense(), Y, alpha))
    assert np.array_equal(Y, before)
    assert info.route == type(solver).__name__
    assert info.jitter == 0.0
    if isinstance(solver, (Cholesky, Eigen)):
        assert info.iterations == 0
        assert np.isnan(info.residual)
    else:
        assert info.iterations > 0
        assert info.residual <= solver.tol


@pytest.mark.parametrize("solver", instances.each(instances.SOLVERS, without={"missing-outputs"}))
@pytest.mark.parametrize("operator", instances.each(instances.OPERATORS))
def test_every_operator(solver, operator):
    gram = Kronecker(Gaussian(1.0)(instances.inputs(None, 6)), operator)
    Y = outputs(gram)
    C, _ = solver.solve(solver.factor(gram), Y, 0.3)
    close(C, reference.solve(np.kron(gram.grams[0], reference.operator(operator)), Y, 0.3))


@pytest.mark.parametrize("gram", instances.each(instances.GRAMS))
@pytest.mark.parametrize("alpha", ALPHAS)
def test_the_selected_route(gram, alpha):
    solver = select(gram)
    Y = outputs(gram)
    C, info = solver.solve(solver.factor(gram), Y, alpha)
    assert info.route == type(solver).__name__
    close(C, reference.solve(gram.dense(), Y, alpha), 1e-7)


@pytest.mark.parametrize(("gram", "solver"), ROUTES)
def test_one_factorisation_serves_many_alphas_and_outputs(gram, solver):
    state = solver.factor(gram)
    for alpha, seed in [(1.0, 1), (0.2, 2), (1.0, 3), (0.2, 1)]:
        Y = outputs(gram, seed)
        close(solver.solve(state, Y, alpha).C, reference.solve(gram.dense(), Y, alpha))


@pytest.mark.parametrize(("gram", "solver"), ROUTES)
def test_condition(gram, solver):
    _, info = solver.solve(solver.factor(gram), outputs(gram), 0.5)
    exact = np.linalg.cond(gram.dense() + 0.5 * np.eye(len(gram.dense())))
    if isinstance(solver, (Cholesky, Eigen)):
        # In the 1-norm, an estimate, of the worst scalar problem (which may be better than the whole).
        assert 0.05 * exact <= info.condition <= 20 * exact
    else:
        assert np.isnan(info.condition)


@pytest.mark.parametrize(("gram", "solver"), ROUTES)
def test_zero_outputs_have_zero_coefficients(gram, solver):
    C, _ = solver.solve(solver.factor(gram), np.zeros((gram.shape[0], gram.output_dim)), 0.5)
    assert not C.any()


# ----------------------------------------------------------------------------------------------------- select


def test_many_eigenvalues_are_left_to_eigenvectors():
    G = np.eye(3)
    for d, expected in [(8, Cholesky), (9, Eigen)]:
        assert type(select(Kronecker(G, Dense(np.diag(np.arange(1.0, d + 1)))))) is expected


def test_large_grams_are_left_to_iterations():
    """The choice depends only on shapes; no array of this size is touched."""

    def wide(n):
        return np.broadcast_to(1.0, (n, n))

    pairs = np.zeros(10_001, dtype=int)
    assert type(select(DenseBlocks(wide(10_000), 1))) is Cholesky
    assert type(select(DenseBlocks(wide(10_001), 1))) is ConjugateGradient
    assert type(select(Observed(Kronecker(wide(3), Identity(2)), pairs[1:], pairs[1:]))) is Cholesky
    coupled = Kronecker(wide(3), Dense([[1.0, 0.5], [0.5, 1.0]]))
    assert type(select(Observed(coupled, pairs, pairs))) is MissingOutputs
    # Factors of single outputs are affordable.
    assert type(select(Observed(coupled, pairs, np.arange(10_001) % 2))) is ConjugateGradient
    assert type(select(Observed(Kronecker(wide(3), Identity(2)), pairs, pairs))) is Cholesky
    two = Kronecker([wide(3), wide(3)], [Identity(2), Dense([[1.0, 0.5], [0.5, 1.0]])])
    assert type(select(Observed(two, pairs, pairs))) is ConjugateGradient


def test_names():
    gram = dict(instances.GRAMS)["kronecker-sum"]
    assert type(as_solver("auto", gram)) is ConjugateGradient
    for name, kind in [
        ("cholesky", Cholesky), ("eigen", Eigen), ("cg", ConjugateGradient), ("gauss-seidel", GaussSeidel)
    ]:  # fmt: skip
        assert type(as_solver(name, gram)) is kind
    own = Eigen(tol=1e-3)
    assert as_solver(own, gram) is own
    for wrong in ("lu", None, 3, Cholesky):
        with pytest.raises(ValueError, match=r"solver must be 'auto', one of \['cg', 'cholesky', .*got"):
            as_solver(wrong, gram)
    with pytest.raises(TypeError, match="there is no solver for a object"):
        select(object())


# -------------------------------------------------------------------------------------------------- intercept


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("gram", "solver", "alpha"), at([1e-2, 1.0], COMPLETE))
def test_intercept(gram, solver, alpha, weighted):
    n = gram.shape[0]
    Y = outputs(gram)
    weight = np.linspace(0.5, 2.0, n) if weighted else np.ones(n)
    u = np.sqrt(weight)
    scaled = gram.rescale(u, u, None)
    (C, info), b = solve_with_intercept(solver, solver.factor(scaled), Y * u[:, None], alpha, u)
    expected, offset = reference.ridge(gram.dense(), Y, alpha, weight, intercept=True)
    close(C * u[:, None], expected, 1e-7)
    close(b, offset, 1e-7)
    assert info.route == type(solver).__name__


@pytest.mark.parametrize(("gram", "solver", "alpha"), at([1e-2, 1.0], HOLES))
def test_intercept_of_observed_pairs(gram, solver, alpha):
    base = gram.base
    Y = np.full((base.shape[0], base.output_dim), np.nan)
    y = outputs(gram)
    Y[gram.rows, gram.outputs] = y[:, 0]
    E = np.zeros((len(y), base.output_dim))
    E[np.arange(len(y)), gram.outputs] = 1.0
    (c, _), b = solve_with_intercept(solver, solver.factor(gram), y, alpha, E)
    expected, offset = reference.ridge(base.dense(), Y, alpha, intercept=True)
    close(gram.spread(c), expected, 1e-7)
    close(b, offset, 1e-7)


def test_a_ridge_for_each_output_is_a_rescaling():
    """(K + diag(alpha_q)) C = Y as S K S + I, S = diag(alpha^-1/2)."""
    alphas = np.array([0.1, 1.0, 5.0])
    for _, gram in instances.GRAMS[:5]:
        Y, s = outputs(gram), 1.0 / np.sqrt(alphas)
        scaled = gram.rescale(None, None, s)
        solver = select(scaled)
        C, _ = solver.solve(solver.factor(scaled), Y * s, 1.0)
        close(C * s, reference.ridge(gram.dense(), Y, alphas)[0])
