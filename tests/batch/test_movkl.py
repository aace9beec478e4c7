"""Multiple operator-valued kernel learning: against the plain alternation, and properties of the result."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning

import ovk
import reference
from batch.reference import long_form
from ovk import FunctionalRidge, MovKL, MovKLClassifier, MovKLCV, OVKRidge
from ovk.batch import kernel_grid
from ovk.batch.movkl.alternation import combination_weights
from ovk.curves import Grid
from ovk.kernels import Gaussian, Linear, Periodic, Polynomial
from ovk.operators import Dense, Identity, Integral, MixedEffect, Multiplication
from ovk.ovkernels import CurlFree, Diagonal, DivFree

RNG = np.random.default_rng(0)
T = np.linspace(0, 1, 9)
X = RNG.uniform(-1, 1, (12, 2))
Y = np.sin(4 * T + 2 * X[:, :1]) * X[:, 1:] + 0.1 * RNG.standard_normal((12, 9))
NEW = RNG.uniform(-1, 1, (5, 2))
HOLES = RNG.random(Y.shape) < 0.2
WEIGHT = np.linspace(0.5, 2.0, len(X))
SCALARS = [Gaussian(0.7), Gaussian(2.0), Polynomial(2)]
OPERATORS = {
    "one": [Integral()],
    "commuting": [Identity(), Integral()],
    "three": [Identity(), Multiplication(Gaussian.from_mu(1.0)), Integral()],
    "singular": [Identity(), Multiplication(np.where(T > 0.5, 0.0, 1.0)), Integral(n_eigen=4)],
}


def kernels(name):
    return [k * operator for operator in OPERATORS[name] for k in SCALARS]


def dense_grams(model):
    return [kernel.gram(X).dense() for kernel in model.kernel_.kernels]


@pytest.mark.parametrize("r", [1.0, 1.5, 2.0, 4.0, np.inf])
@pytest.mark.parametrize("name", OPERATORS)
def test_finds_the_optimum_of_the_plain_alternation(name, r):
    model = MovKL(kernels(name), alpha=0.05, r=r, grid=T, tol=1e-7, max_iter=2000).fit(X, Y)
    rounds = 400 if r == 1.0 else 200
    weights, C, _, objectives = reference.movkl(dense_grams(model), Y * Grid(T).roots(), 0.05, r, rounds)
    # With r = 1 the plain alternation has not converged; its objective is not below ours.
    assert model.objective_ <= objectives[-1] * (1 + 1e-9)
    assert_allclose(model.objective_, objectives[-1], rtol=1e-3 if r == 1.0 else 1e-8)
    if r > 1:
        assert_allclose(model.weights_, weights, atol=1e-4)
        assert_allclose(model.dual_coef_, C, atol=2e-4 * np.abs(C).max())


@pytest.mark.parametrize("name", ["commuting", "three"])
def test_the_weights_have_the_requested_precision(name):
    model = MovKL(kernels(name), alpha=0.05, grid=T, tol=1e-12, max_iter=2000).fit(X, Y)
    weights, *_ = reference.movkl(dense_grams(model), Y * Grid(T).roots(), 0.05, 2.0, 600)
    assert model.solver_info_.route == "ConjugateGradient"
    assert_allclose(model.weights_, weights, atol=1e-9)


@pytest.mark.parametrize("solver", ["auto", "cg", "gauss-seidel"])
@pytest.mark.parametrize("name", OPERATORS)
def test_every_solver_equals_the_dense_solution_at_the_learned_weights(name, solver):
    model = MovKL(kernels(name), alpha=0.3, grid=T, solver=solver, max_iter=4, tol=1e-30)
    with pytest.warns(ConvergenceWarning, match="within max_iter=4 iterations"):
        model.fit(X, Y)
    K = sum(w * G for w, G in zip(model.weights_, dense_grams(model), strict=True))
    right = (Y * Grid(T).roots()).ravel()
    assert_allclose(model.dual_coef_.ravel(), np.linalg.solve(K + 0.3 * np.eye(len(K)), right), atol=1e-8)


def test_case_one_equals_case_two_when_the_operators_coincide(monkeypatch):
    """The same operator in two forms, so that nothing is grouped, against one operator."""
    one = MovKL([k * Integral() for k in SCALARS], alpha=0.05, grid=T, tol=1e-10, max_iter=900).fit(X, Y)
    matrix = Integral(grid=T).dense()
    faces = [Integral(), Dense(matrix), Dense(matrix + 0.0)]
    monkeypatch.setattr("ovk.batch.movkl.alternation.common_eigenvectors", lambda matrices: None)
    two = MovKL([k * face for k, face in zip(SCALARS, faces, strict=True)], 0.05, grid=T, tol=1e-10, max_iter=900)
    two.fit(X, Y)
    assert two.solver_info_.route == "ConjugateGradient"
    assert one.solver_info_.route != "ConjugateGradient"
    assert_allclose(two.weights_, one.weights_, atol=1e-6)
    assert_allclose(two.predict(NEW), one.predict(NEW), atol=1e-8)


@pytest.mark.parametrize("r", [1.0, 1.3, 2.0, 8.0])
@pytest.mark.parametrize("intercept", [False, True])
def test_what_must_hold(r, intercept):
    model = MovKL(kernels("three"), alpha=0.02, r=r, grid=T, fit_intercept=intercept).fit(X, Y)
    assert (np.diff(model.history_[:, 0]) <= 1e-12 * model.objective_).all()
    assert abs((model.weights_**r).sum() - 1.0) < 1e-10
    assert (model.weights_ >= 0).all()
    # f_k = d_k sum_i K_k(., x_i) c_i and its norm
    shares = model.shares(X) * Grid(T).roots()
    for share, norm, weight, gram in zip(shares, model.kernel_norms_, model.weights_, dense_grams(model), strict=True):
        c = model.dual_coef_.ravel()
        assert_allclose(share.ravel(), weight * gram @ c, atol=1e-9)
        assert_allclose(norm**2, weight**2 * c @ gram @ c, atol=1e-10)


def test_with_r_inf_all_weights_are_one_and_f_is_ridge_regression():
    model = MovKL(kernels("three"), alpha=0.02, r=np.inf, grid=T).fit(X, Y)
    assert (model.weights_ == 1.0).all()
    assert model.n_iter_ == 1
    plain = FunctionalRidge(sum(kernels("three")), 0.02, grid=T, fit_intercept=False).fit(X, Y)
    assert_allclose(model.predict(NEW), plain.predict(NEW), atol=1e-8)


@pytest.mark.parametrize("intercept", [False, True])
def test_shares_add_up(intercept):
    model = MovKL(kernels("three"), alpha=0.02, grid=T, fit_intercept=intercept).fit(X, Y)
    shares = model.shares(NEW)
    assert shares.shape == (9, 5, 9)
    offset = model.intercept_ / Grid(T).roots() if intercept else 0.0
    assert_allclose(shares.sum(axis=0) + offset, model.predict(NEW), atol=1e-10)


def test_the_one_norm_drops_useless_kernels():
    Z = X @ RNG.standard_normal((2, 3))
    model = MovKL([Linear() * Identity(), Gaussian(0.01) * Identity()], alpha=0.1, r=1.0).fit(X, Z)
    assert model.weights_[1] < 1e-3
    assert model.grid_ is None


def test_a_kernel_dropped_too_early_is_restored(monkeypatch):
    from ovk.batch.movkl import alternation

    slow = MovKL(kernels("three"), alpha=0.02, r=1.0, grid=T, tol=1e-6, max_iter=2000).fit(X, Y)
    monkeypatch.setattr(alternation, "MIN_WEIGHT", 0.2)
    hasty = MovKL(kernels("three"), alpha=0.02, r=1.0, grid=T, tol=1e-6, max_iter=2000).fit(X, Y)
    assert hasty.objective_ <= slow.objective_ * 1.2
    assert (np.diff(hasty.history_[:, 0]) <= 1e-12 * hasty.objective_).all()


def test_the_sampling_does_not_matter():
    def curves(d):
        t = np.linspace(0, 1, d)
        Z = np.sin(4 * t + 2 * X[:, :1]) * X[:, 1:]
        return MovKL(kernels("three"), alpha=0.05, grid=t, tol=1e-8, max_iter=500).fit(X, Z)

    finest = curves(161)
    for measure in (lambda m: m.predict(NEW, grid=np.linspace(0, 1, 11)), lambda m: m.weights_):
        errors = [np.abs(measure(curves(d)) - measure(finest)).max() for d in (11, 21, 41)]
        assert 3.0 < errors[0] / errors[1] < 5.5
        assert 3.0 < errors[1] / errors[2] < 5.5


# -------------------------------------------------------------------------------------------------- other outputs


def test_sample_weights_are_repetitions():
    weight = RNG.integers(1, 4, len(X)).astype(float)
    twice = np.repeat(np.arange(len(X)), weight.astype(int))
    for intercept in (False, True):
        model = MovKL(kernels("three"), 0.05, grid=T, fit_intercept=intercept, tol=1e-9, max_iter=500)
        expected = model.fit(X[twice], Y[twice]).predict(NEW)
        assert_allclose(model.fit(X, Y, weight).predict(NEW), expected, atol=1e-6)


@pytest.mark.parametrize("intercept", [False, True])
def test_gaps(intercept):
    seen = Y.copy()
    seen[HOLES] = np.nan
    model = MovKL(kernels("three"), 0.05, grid=T, fit_intercept=intercept).fit(X, seen)
    plain = FunctionalRidge(model.kernel_, 0.05, grid=T, fit_intercept=intercept).fit(X, seen)
    assert_allclose(model.predict(NEW), plain.predict(NEW), atol=1e-7)
    assert (np.diff(model.history_[:, 0]) <= 1e-10 * model.objective_).all()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_long_form_equals_gaps(intercept, weighted):
    seen = Y.copy()
    seen[np.random.default_rng(3).random(Y.shape) < 0.4] = np.nan
    weight = np.linspace(0.5, 2.0, len(X)) if weighted else None
    for model in (
        MovKL(kernels("three"), 0.05, grid=T, fit_intercept=intercept),
        MovKLCV(kernels("three"), [0.01, 0.1], grid=T, fit_intercept=intercept),
    ):
        expected = model.fit(X, seen, weight).predict(NEW, return_std=True)
        objective, errors = model.objective_, getattr(model, "errors_", 0.0)
        rows, y, task, *w = long_form(X, seen, weight)
        found = model.fit(rows, y, *w, task=task).predict(NEW, return_std=True)
        assert_allclose(found[0], expected[0], atol=1e-6)
        assert_allclose(found[1], expected[1], atol=1e-6)
        assert_allclose(model.objective_, objective, rtol=1e-6)
        assert_allclose(getattr(model, "errors_", 0.0), errors, rtol=1e-5)


def test_many_values_with_gaps_use_conjugate_gradients(monkeypatch):
    seen = Y.copy()
    seen[HOLES] = np.nan
    expected = MovKL(kernels("three"), 0.05, grid=T).fit(X, seen)
    model = MovKL(kernels("three"), 0.05, grid=T, solver="cg").fit(X, seen)
    assert model.solver_info_.route == "ConjugateGradient"
    assert model.solver_info_.iterations < np.count_nonzero(~HOLES)
    assert_allclose(model.predict(NEW), expected.predict(NEW), atol=1e-7)


def test_several_tasks():
    tasks = np.column_stack([np.sin(X[:, 0]), np.sin(X[:, 0]) + 0.1, X[:, 1]])
    model = MovKL([k * T for k in SCALARS for T in (Identity(), MixedEffect(0.8))], 0.01).fit(X, tasks)
    assert model.grid_ is None
    assert model.score(X, tasks) > 0.98
    single = MovKL(alpha=0.01).fit(X, tasks[:, 0])
    assert single.predict(NEW).shape == (5,)
    assert single.shares(NEW).shape == (8, 5)


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_kernels_of_any_kind(holes, intercept):
    """Curl-free, divergence-free, diagonal, entrywise and separable kernels together, against dense matrices."""
    field = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])
    field[HOLES[:, :2]] = np.nan if holes else 0.0
    given = [
        CurlFree(Gaussian(1.0)),
        DivFree(Gaussian(1.0)),
        Diagonal([Gaussian(0.5), Gaussian(2.0)]),
        (Gaussian(1.0) * MixedEffect(0.5)) & (Linear() * Identity()),
        Gaussian(0.7) * Identity(),
    ]
    model = MovKL(given, 0.1, fit_intercept=intercept, tol=1e-11, max_iter=2000).fit(X, field)
    d, seen = model.weights_, ~np.isnan(field).ravel()
    assert_allclose((d**2).sum(), 1.0)
    grams = [kernel.gram(X).dense()[np.ix_(seen, seen)] for kernel in model.kernel_.kernels]
    S = sum(w * G for w, G in zip(d, grams, strict=True)) + 0.1 * np.eye(seen.sum())
    E = np.tile(np.eye(2), (len(X), 1))[seen] if intercept else np.zeros((seen.sum(), 0))
    border = np.block([[S, E], [E.T, np.zeros((E.shape[1],) * 2)]])
    c = np.linalg.solve(border, np.append(field.ravel()[seen], np.zeros(E.shape[1])))[: seen.sum()]
    assert_allclose(model.dual_coef_.ravel()[seen], c, atol=1e-8)
    norms = np.array([w * np.sqrt(c @ G @ c) for w, G in zip(d, grams, strict=True)])
    assert_allclose(d, combination_weights(norms, 2.0), atol=1e-7)
    assert_allclose(model.shares(NEW).sum(axis=0) + (model.intercept_ if intercept else 0), model.predict(NEW))


def test_the_number_of_eigenfunctions_has_the_smallest_leave_one_out_error():
    options = {"alphas": [0.01, 0.1], "grid": T, "r": 1.0}
    model = MovKLCV(kernels("commuting"), **options, n_eigen=[1, 4]).fit(X, Y)
    assert model.errors_.shape == (2, 2)
    for q, errors in zip((1, 4), model.errors_, strict=True):
        given = [k * operator for operator in (Identity(), Integral(n_eigen=q)) for k in SCALARS]
        plain = MovKLCV(given, **options).fit(X, Y)
        assert_allclose(errors, plain.errors_, rtol=1e-8)
        if q == model.n_eigen_:
            assert_allclose(model.predict(NEW), plain.predict(NEW), atol=1e-9)
    best = np.unravel_index(model.errors_.argmin(), (2, 2))
    assert (model.n_eigen_, model.alpha_) == ((1, 4)[best[0]], options["alphas"][best[1]])
    with pytest.raises(ValueError, match="at least one number"):
        MovKLCV(kernels("commuting"), **options, n_eigen=[]).fit(X, Y)


def test_leave_one_out_with_kernels_of_any_kind():
    field = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1], X[:, 0] * X[:, 1]])
    model = MovKLCV([CurlFree(Gaussian(1.0)), Gaussian(0.7) * Identity()], [0.03, 0.3]).fit(X, field)
    total = 0.0
    for i in range(len(X)):
        kept = np.arange(len(X)) != i
        left = OVKRidge(model.kernel_, model.alpha_, fit_intercept=False).fit(X[kept], field[kept])
        total += float(((field[i] - left.predict(X[i : i + 1])[0]) ** 2).sum())
    assert_allclose(model.errors_.min(), total, rtol=1e-6)


def test_several_classes_and_sets_of_labels():
    rng = np.random.default_rng(1)
    rows = rng.uniform(-1, 1, (90, 2))
    names = np.array(["a", "b", "c"])[(rows[:, 0] > -0.3).astype(int) + (rows[:, 0] > 0.4)]
    model = MovKLClassifier([Gaussian(0.5) * MixedEffect(0.2), Linear() * Identity()], 0.01).fit(rows, names)
    assert model.decision_function(rows).shape == (90, 3)
    coded = np.where(names[:, None] == model.classes_, 1.0, -1.0)
    plain = MovKL(model.kernels, 0.01, fit_intercept=True).fit(rows, coded)
    assert (model.predict(rows) == model.classes_[plain.predict(rows).argmax(axis=1)]).all()
    assert model.score(rows, names) > 0.9
    sets = [{"left"} if x < 0 else {"right", "up"} if y > 0 else set() for x, y in rows]
    tags = MovKLClassifier(alpha=0.01).fit(rows, sets)
    assert tags.label_sets_
    assert tags.classes_.tolist() == ["left", "right", "up"]
    assert tags.score(rows, sets) > 0.9
    assert tags.score(rows, [one | {"unknown"} for one in sets]) < tags.score(rows, sets)
    with pytest.raises(ValueError, match="only empty sets"):
        MovKLClassifier().fit(rows, [set()] * 90)


def test_label_curves():
    labels = (Y > 0.2).astype(int)
    model = MovKLClassifier(alpha=0.01, grid=T).fit(X, labels)
    assert model.score(X, labels) > 0.9
    assert model.predict(NEW).shape == (5, 9)
    assert model.decision_function(NEW, grid=[0.5]).shape == (5, 1)
    holes = labels.astype(float)
    holes[0, :4] = np.nan
    assert MovKLClassifier(alpha=0.01, grid=T).fit(X, holes).score(X, holes) > 0.9
    with pytest.raises(ValueError, match="two classes, got 4"):
        MovKLClassifier(grid=T).fit(X, labels + np.arange(9) // 8 * 3)


# ---------------------------------------------------------------------------------------------------- leave-one-out


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_loo_curves_equal_refitting_with_the_same_weights(name, intercept):
    model = MovKLCV(kernels(name), [0.05], grid=T, fit_intercept=intercept).fit(X, Y)
    total = 0.0
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        left = FunctionalRidge(model.kernel_, 0.05, grid=T, fit_intercept=intercept).fit(X[rest], Y[rest])
        total += float(Grid(T).inner(*[Y[i] - left.predict(X[i : i + 1])[0]] * 2))
    assert_allclose(model.errors_[0], total, rtol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", OPERATORS)
def test_leave_one_fold_out_of_weighted_curves(name, intercept):
    model = MovKLCV(kernels(name), [0.05], grid=T, folds=4, fit_intercept=intercept).fit(X, Y, WEIGHT)
    total = 0.0
    for fold in range(4):
        out = np.arange(len(X)) % 4 == fold
        left = FunctionalRidge(model.kernel_, 0.05, grid=T, fit_intercept=intercept).fit(X[~out], Y[~out], WEIGHT[~out])
        residuals = Y[out] - left.predict(X[out])
        total += float(WEIGHT[out] @ Grid(T).inner(residuals, residuals))
    assert_allclose(model.errors_[0], total, rtol=1e-7)


def test_the_alpha_of_the_smallest_error_is_kept():
    model = MovKLCV(kernels("three"), [0.05, 0.5], grid=T, folds=4).fit(X, Y)
    assert model.alpha_ == model.alphas_[model.errors_.argmin()]


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", ["one", "commuting", "three"])
def test_copies_are_left_out_together(name, intercept):
    twice = np.concatenate([np.arange(len(X)), [0, 3]])
    model = MovKLCV(kernels(name), [0.05], grid=T, fit_intercept=intercept).fit(X[twice], Y[twice])
    total = 0.0
    for i in twice:
        rest = twice[twice != i]
        left = FunctionalRidge(model.kernel_, 0.05, grid=T, fit_intercept=intercept).fit(X[rest], Y[rest])
        total += float(Grid(T).inner(*[Y[i] - left.predict(X[i : i + 1])[0]] * 2))
    assert_allclose(model.errors_[0], total, rtol=1e-7)


@pytest.mark.parametrize("intercept", [False, True])
def test_leave_one_out_of_weighted_curves_with_gaps(intercept):
    seen = Y.copy()
    seen[HOLES] = np.nan
    model = MovKLCV(kernels("three"), [0.05], grid=T, fit_intercept=intercept).fit(X, seen, WEIGHT)
    total = 0.0
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        ridge = FunctionalRidge(model.kernel_, 0.05, grid=T, fit_intercept=intercept)
        left = ridge.fit(X[rest], seen[rest], WEIGHT[rest]).predict(X[i : i + 1])[0]
        total += WEIGHT[i] * np.nansum((seen[i] - left) ** 2 * Grid(T).weights())
    assert_allclose(model.errors_[0], total, rtol=1e-7)


# ------------------------------------------------------------------------------------------------------ the paper


def test_the_kernel_set_of_the_paper():
    grid = kernel_grid(X)
    assert len(grid) == 24
    assert all(kernel.scalar.diag(X).mean() == pytest.approx(1.0) for kernel in grid)
    assert {type(kernel.operator) for kernel in grid} == {Identity, Multiplication, Integral}
    model = MovKL(grid, alpha=0.05, grid=T).fit(X, Y)
    assert MovKL(alpha=0.05, grid=T).fit(X, Y).weights_.shape == (24,)
    assert model.kernel_.kernels[-1].operator.grid is not None
    assert [k.scalar.length_scale for k in kernel_grid(X, bandwidths=[0.5, 2.0], degrees=())[:2]] == [0.5, 2.0]
    with pytest.raises(ValueError, match="at least one"):
        kernel_grid(X, bandwidths=0, degrees=())


@pytest.mark.parametrize("alpha", [0.05, 0.8, 0.9, 1.0])
def test_the_inner_iteration_of_the_paper_contracts_only_if_the_first_term_dominates(alpha):
    """System (15) by Gauss-Seidel: with a kernel first it diverges; with the ridge first it needs a large alpha."""
    d = 12
    grid = Grid.regular(d)
    blocks = [np.eye(d) / 24.0] * 8
    blocks += [Multiplication(Gaussian.from_mu(1.0), grid).dense() / 24.0] * 8
    blocks += [Integral(grid=grid).dense() / 24.0] * 8
    for first in (0, 8, 16):
        order = [blocks[first], *blocks[:first], *blocks[first + 1 :], alpha * np.eye(d)]
        assert reference.split_iteration_radius(order) > 1.0
    largest = np.linalg.eigvalsh(sum(blocks)).max()
    assert_allclose(largest, 0.847, atol=1e-3)
    radius = reference.split_iteration_radius([alpha * np.eye(d), *blocks])
    assert_allclose(radius, largest / alpha, rtol=1e-10)
    assert (radius < 1.0) == (alpha > largest)


# ---------------------------------------------------------------------------------------------- bad input, saving


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MovKL(r=0.5), r"r must be a number in \[1, inf\], got 0.5"),
        (MovKL(alpha=0.0), "alpha must be positive and finite, got 0"),
        (MovKL([]), "sequence of at least one kernel"),
        (MovKL(Gaussian() * Identity()), "sequence of at least one kernel"),
        (MovKL(grid=T[:4]), "one point for each of the 9 columns of Y, got 4"),
        (MovKL(tol=0.0), "tol must be"),
        (MovKLCV(alphas=[]), "alphas must be a sequence of positive numbers"),
        (MovKLCV(folds=1), "folds must be an integer >= 2"),
        (MovKL(grid=T[::-1]), "points of a grid must increase"),
        (MovKL(grid=np.append(T[:-1], np.inf)), "must be finite, but point 8 is inf"),
        (MovKL([Gaussian(1.0) * Integral(lambda s, t: -np.minimum(s, t.T))], grid=T), "must be positive semi-definite"),
        (MovKL([Gaussian(1.0) * Multiplication(T - 0.5)], grid=T), "non-negative and finite on the grid"),
    ],
)
def test_bad_input(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "weights_")


def test_a_grid_of_one_point():
    with pytest.raises(ValueError, match="at least 2 points, got 1"):
        MovKL(grid=[0.5]).fit(X, Y[:, :1])


@pytest.mark.parametrize("r", [1.0, 2.0])
def test_a_zero_operator_gets_no_weight(r):
    """Multiplication by zero is singular."""
    nothing = Gaussian(1.0) * Multiplication(np.zeros(9))
    model = MovKL([nothing, *kernels("one")], alpha=0.05, r=r, grid=T).fit(X, Y)
    assert model.weights_[0] == 0.0
    assert_allclose(model.predict(NEW), MovKL(kernels("one"), 0.05, r, grid=T).fit(X, Y).predict(NEW), atol=1e-4)
    assert np.array_equal(MovKL([nothing], alpha=0.05, grid=T).fit(X, Y).predict(NEW), np.zeros((5, 9)))


def test_an_intercept_requires_observations():
    model = MovKLCV(kernels("one"), [0.1], grid=T, fit_intercept=True)
    with pytest.raises(ValueError, match="2 or more different inputs"):
        model.fit(np.ones((12, 2)), Y)


def test_weights_of_large_and_small_norms():
    for scale in (1e-200, 1.0, 1e200):
        assert_allclose(combination_weights(scale * np.array([1.0, 2.0, 0.0]), 2.0) ** 2 @ np.ones(3), 1.0)
    assert_allclose(combination_weights(np.array([1.0, 3.0]), 1.0), [0.25, 0.75])
    assert_allclose(combination_weights(np.array([1.0, 3.0]), np.inf), 1.0)


def test_nothing_to_learn():
    model = MovKL([Linear() * Identity()], alpha=1.0).fit(X, np.zeros((12, 2)))
    assert np.array_equal(model.predict(NEW), np.zeros((5, 2)))


@pytest.mark.parametrize("kind", [MovKL, MovKLCV, MovKLClassifier])
def test_saving(kind, tmp_path):
    given = {"alphas": [0.1, 1.0]} if kind is MovKLCV else {"alpha": 0.1}
    model = kind(kernels("three"), **given, grid=T).fit(X, (Y > 0).astype(int) if kind is MovKLClassifier else Y)
    ovk.save(model, tmp_path / "model")
    again = ovk.load(tmp_path / "model")
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    assert np.array_equal(again.predict(NEW, grid=[0.3, 0.41]), model.predict(NEW, grid=[0.3, 0.41]))


def test_closed_curves():
    circle = Grid((np.arange(9) + 0.5) / 9, period=1.0)
    operators = [Identity(), *(Integral(Periodic(Gaussian(s), 1.0)) for s in (0.1, 0.3))]
    model = MovKLCV([k * T for k in SCALARS for T in operators], [0.01, 0.1], grid=circle).fit(X, Y)
    assert model.solver_info_.route == "Cholesky"
    assert model.predict(NEW, grid=[0.0, 1.0])[:, 0] == pytest.approx(model.predict(NEW, grid=[0.0, 1.0])[:, 1])


def test_kernels_of_very_different_size_are_named():
    """Weights of an unscaled polynomial kernel measure its size."""
    rng = np.random.default_rng(0)
    X, Y = 20.0 * rng.standard_normal((20, 2)), rng.standard_normal((20, 2))
    with pytest.warns(UserWarning, match=r"the kernels differ in scale.*Polynomial.*Gaussian.*kernel_grid"):
        MovKL([Gaussian(10.0) * Identity(), Polynomial(3) * Identity()], 1.0, tol=0.5).fit(X, Y)
    # Warnings are errors in tests: those of kernel_grid have one size.
    MovKL(None, 1.0, tol=0.5).fit(X, Y)
