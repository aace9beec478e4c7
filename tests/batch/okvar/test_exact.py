"""OKVAR agrees with ridge regression, with finite differences, and with a slow implementation of its definition."""

import numpy as np
import pytest

import reference
from ovk import OKVAR, OVKRidge
from ovk.batch.okvar.alternate import AlternatingMinimiser, Decomposable, OKVARSolution
from ovk.kernels import Gaussian, Linear, Matern, Polynomial
from ovk.objectives import L1, L1L2, PSDCone
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import Diagonal, Transformable
from ovk.solvers import PenaltySum, proximal_gradient
from reproduce.data import make_gene_network

KERNELS = [
    Gaussian(1.5) * Identity(),
    Gaussian(1.5) * MixedEffect(0.5),
    Transformable(Gaussian(1.0)),
    Gaussian(1.5) * MixedEffect(0.5) & Transformable(Gaussian(1.0)),
    Linear() * Identity() + 0.5 * Matern(2.5, 1.0) * MixedEffect(0.3),
    Polynomial(2) * Identity(),
    Diagonal([Gaussian(1.0), Linear(), Gaussian(2.0)]),
]
TARGETS = ["next", "increment", "integral"]


@pytest.fixture(scope="module")
def made():
    return make_gene_network(3, 2, 9, noise=0.02, random_state=0)


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_without_penalty_it_is_ridge_regression(kernel, made):
    model = OKVAR(kernel, 0.3, standardize=False).fit(made.series)
    ridge = OVKRidge(kernel, 0.3, fit_intercept=True).fit(made.data, made.target)
    np.testing.assert_allclose(model.predict(made.data), ridge.predict(made.data), atol=1e-9)
    np.testing.assert_allclose(model.dual_coef_, ridge.dual_coef_, atol=1e-8)
    plain = OKVAR(kernel, 0.3, standardize=False, fit_intercept=False).fit(made.series)
    np.testing.assert_allclose(
        plain.predict(made.data),
        OVKRidge(kernel, 0.3, fit_intercept=False).fit(made.data, made.target).predict(made.data),
    )


def test_missing_outputs_agree_with_ridge_regression(made):
    series = [one.copy() for one in made.series]
    series[0][4, 1] = np.nan
    X, Y = (np.concatenate([one[part] for one in series]) for part in (slice(-1), slice(1, None)))
    known = ~np.isnan(X).any(axis=1)
    kernel = Gaussian(1.5) * MixedEffect(0.5)
    model = OKVAR(kernel, 0.3, standardize=False).fit(series)
    ridge = OVKRidge(kernel, 0.3, fit_intercept=True).fit(X[known], Y[known])
    np.testing.assert_allclose(model.predict(made.data), ridge.predict(made.data), atol=1e-9)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_jacobians_equal_finite_differences(kernel, target, made):
    model = OKVAR(kernel, 0.5, target=target).fit(made.series, times=made.times)
    X, step = made.data[:4], 1e-5
    slopes = [(model.drift(X + step * e) - model.drift(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(model.jacobian(X), np.stack(slopes, axis=-1), atol=1e-7)


def test_jacobians_with_lags_equal_finite_differences(made):
    model = OKVAR(Gaussian(2.0), 0.5, lag=2).fit(made.series)
    X, step = np.hstack([made.data[1:5], made.data[:4]]), 1e-5
    slopes = [(model.drift(X + step * e) - model.drift(X - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(model.jacobian(X), np.stack(slopes, axis=-1), atol=1e-7)


@pytest.mark.parametrize("penalty", [L1(0.02), L1L2(0.05)])
@pytest.mark.parametrize("target", ["next", "integral"])
@pytest.mark.parametrize("kernel", [KERNELS[1], KERNELS[3]], ids=str)
def test_sparse_coefficients_minimise_the_objective(kernel, target, penalty, made):
    # An integral is ill-conditioned: many steps for few digits.
    tol = 1e-5 if target == "next" else 1e-3
    model = OKVAR(kernel, 0.3, penalty, target=target, tol=tol).fit(made.series)
    regression = model.regression(made.series)
    smooth = reference.OKVARObjective(model, regression)
    best = smooth(model.dual_coef_) + penalty.value(model.dual_coef_)
    np.testing.assert_allclose(best, model.objective_[-1], rtol=1e-8)
    rng = np.random.default_rng(0)
    for size in (1e-1, 1e-2, 1e-3):
        for _ in range(10):
            other = model.dual_coef_ + size * rng.standard_normal(model.dual_coef_.shape)
            assert smooth(other) + penalty.value(other) >= best * (1 - tol)


@pytest.mark.parametrize("penalty", [L1(0.02), L1L2(0.05)])
@pytest.mark.parametrize("intercept", [False, True])
def test_splitting_finds_the_minimum_and_proximal_steps_confirm_it(penalty, intercept, made, monkeypatch):
    kernel = KERNELS[1]
    fast = OKVAR(kernel, 0.3, penalty, fit_intercept=intercept, tol=1e-5).fit(made.series)
    monkeypatch.setattr(
        "ovk.batch.okvar.alternate.ClosedFormCoefficients.splitting", lambda self, B, alpha, decay: None
    )
    slow = OKVAR(kernel, 0.3, penalty, fit_intercept=intercept, tol=1e-6, max_iter=100_000).fit(made.series)
    np.testing.assert_allclose(fast.objective_[-1], slow.objective_[-1], rtol=1e-6)
    np.testing.assert_allclose(fast.predict(made.data), slow.predict(made.data), atol=1e-3)
    assert fast.n_iter_ < 0.1 * slow.n_iter_


@pytest.mark.parametrize("target", ["increment", "integral"])
def test_splitting_gives_decaying_outputs_a_low_starting_point(target, made, monkeypatch):
    model = OKVAR(KERNELS[0], 0.3, L1(0.02), target=target)
    fast = model.fit(made.series).objective_[-1]
    steps = model.n_iter_
    monkeypatch.setattr(
        "ovk.batch.okvar.alternate.ClosedFormCoefficients.splitting", lambda self, B, alpha, decay: None
    )
    slow = model.fit(made.series).objective_[-1]
    assert steps < model.n_iter_
    assert fast <= slow * (1 + 1e-6)


def test_splitting_with_a_gram_of_low_rank(made, monkeypatch):
    full = OKVAR("linear", 0.3, L1(0.02), tol=1e-6).fit(made.series)
    monkeypatch.setattr("ovk.batch.okvar.alternate.MIN_ROWS_LOW_RANK", 1)
    low = OKVAR("linear", 0.3, L1(0.02), tol=1e-6).fit(made.series)
    np.testing.assert_allclose(low.objective_[-1], full.objective_[-1], rtol=1e-6)
    smooth = OKVAR(Gaussian(5.0), 0.3, tol=1e-6).fit(made.series)
    monkeypatch.setattr("ovk.batch.okvar.alternate.MIN_ROWS_LOW_RANK", 10_000)
    np.testing.assert_allclose(
        smooth.predict(made.data), OKVAR(Gaussian(5.0), 0.3).fit(made.series).predict(made.data), atol=1e-6
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS[:4], ids=str)
def test_closed_forms_minimise_the_objective(kernel, target, made):
    model = OKVAR(kernel, 0.3, target=target).fit(made.series)
    smooth = reference.OKVARObjective(model, model.regression(made.series))
    best = smooth(model.dual_coef_)
    np.testing.assert_allclose(best, model.objective_[-1], rtol=1e-8)
    rng = np.random.default_rng(0)
    for _ in range(20):
        assert smooth(model.dual_coef_ + 0.01 * rng.standard_normal(model.dual_coef_.shape)) >= best * (1 - 1e-9)


def test_coupled_decaying_outputs_agree_in_turns_and_at_once(made, monkeypatch):
    kernel = Gaussian(1.5) * Dense(np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 2.0]]))
    at_once = OKVAR(kernel, 0.3, target="integral").fit(made.series)
    monkeypatch.setattr("ovk.batch.okvar.alternate.MAX_DENSE_VALUES", 0)
    in_turns = OKVAR(kernel, 0.3, target="integral").fit(made.series)
    np.testing.assert_allclose(in_turns.objective_[-1], at_once.objective_[-1], rtol=1e-3)
    np.testing.assert_allclose(in_turns.drift(made.data), at_once.drift(made.data), atol=1e-2)


@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[3]], ids=str)
@pytest.mark.parametrize("penalty", [None, L1(0.05)])
@pytest.mark.parametrize("target", TARGETS)
def test_learning_the_operator_never_raises_the_objective(kernel, penalty, target, made):
    model = OKVAR(kernel, 0.1, penalty, True, operator_weight=0.05, target=target, tol=0.01).fit(made.series)
    assert len(model.objective_) >= 3
    assert (np.diff(model.objective_) <= 1e-9 * model.objective_[0]).all()
    assert np.linalg.eigvalsh(model.operator_)[0] >= -1e-10
    np.testing.assert_allclose(model.operator_, model.operator_.T)
    X, step = made.data[:3], 1e-5
    slopes = [(model.drift(X + step * e) - model.drift(X - step * e)) / (2 * step) for e in np.eye(3)]
    np.testing.assert_allclose(model.jacobian(X), np.stack(slopes, axis=-1), atol=1e-7)


def test_a_learned_operator_beats_the_initial_one(made):
    kernel = Gaussian(1.5) * Identity()
    fixed = OKVAR(kernel, 0.3).fit(made.series)
    learned = OKVAR(kernel, 0.3, learn_operator=True, operator_weight=0.1).fit(made.series)
    assert learned.objective_[-1] < fixed.objective_[-1] + 0.1 * 3
    assert not np.array_equal(learned.operator_, np.eye(3))


@pytest.mark.parametrize("penalty", [None, L1(0.05), L1L2(0.05)], ids=str)
@pytest.mark.parametrize("kernel", [KERNELS[0], KERNELS[3]], ids=str)
def test_converged_means_within_the_tolerance_of_the_minimum(kernel, penalty, made):
    """Also for a learned operator, whose proximal steps end at the minimum over both."""
    for learn in (False, True):
        model = OKVAR(kernel, 0.3, penalty, learn).fit(made.series)
        best = OKVAR(kernel, 0.3, penalty, learn, tol=1e-5, max_iter=50_000, max_rounds=100).fit(made.series)
        assert model.converged_
        assert best.converged_
        assert model.objective_[-1] <= (1 + 1e-3) * best.objective_[-1]


@pytest.mark.parametrize("penalty", [L1(0.05), L1L2(0.05)], ids=str)
def test_newton_steps_replace_most_proximal_steps_of_kernels_that_cannot_be_split(penalty, made, monkeypatch):
    """They end at the same minimum, which proximal steps alone reach after about 2,000 steps."""
    build = {"penalty": penalty, "tol": 1e-8, "max_iter": 50_000}
    series = [one.copy() for one in made.series]
    series[0][4, 1] = np.nan
    for learned in (made.series, series):
        model = OKVAR(KERNELS[3], 0.3, **build).fit(learned)
        with monkeypatch.context() as patch:
            patch.setattr(AlternatingMinimiser, "_newton", lambda self, gram: None)
            plain = OKVAR(KERNELS[3], 0.3, **build).fit(learned)
        assert model.converged_
        assert 4 * model.n_iter_ < plain.n_iter_
        np.testing.assert_allclose(model.dual_coef_, plain.dual_coef_, atol=1e-3 * np.abs(plain.dual_coef_).max())
        assert model.objective_[-1] <= (1 + 2e-8) * plain.objective_[-1]


@pytest.mark.long
@pytest.mark.parametrize("penalty", [None, L1(0.05)], ids=str)
def test_a_learned_operator_is_as_good_as_long_alternation(penalty, made):
    """The reference takes C and B in turn, with exact steps, until nothing changes."""
    model = OKVAR(KERNELS[0], 0.3, penalty, True).fit(made.series)
    regression = model.regression(made.series)
    coupling = Decomposable(model.kernel_.scalar(regression.Z))
    minimiser = AlternatingMinimiser(coupling, regression, 0.3, penalty, 1.0, 1e-6, 50_000, 1)
    fit = OKVARSolution(np.eye(3), np.zeros_like(model.dual_coef_), [])
    both = PenaltySum([L1(1.0), PSDCone()], tol=1e-10, max_iter=500)
    for _ in range(60):
        minimiser.learn_coefficients(fit, 1e-7, 50_000)
        A = minimiser.coupling.features(fit.C)

        def smooth(B, A=A):
            value, R = minimiser._squares(fit.C, minimiser.coupling.values(A, B))
            return value, minimiser.coupling.slope(A, 0.3 * fit.C - 2.0 * R)

        fit.B, _ = proximal_gradient(smooth, both, fit.B, tol=1e-6, max_iter=1000, warn=False)
    reached = minimiser.objective(fit.B, fit.C)
    assert model.objective_[-1] <= (1 + 1e-3) * reached
