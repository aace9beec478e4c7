"""Every form of outputs and every kind of kernel agrees with one dense system."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge

from batch.reference import DenseRidge, long_form
from ovk import OVKRidge
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, Polynomial
from ovk.operators import Dense, Identity, MixedEffect
from ovk.ovkernels import CurlFree, Diagonal, DivFree, Separable, Transformable
from ovk.solvers import ConjugateGradient

B = np.array([[2.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 0.5]])
LOOKS = [np.eye(2), np.array([[1.0, 0.5], [0.0, 2.0]]), np.array([[0.5, 0.0], [1.0, -1.0]])]

KERNELS = {
    "identity": Gaussian(0.8) * Identity(),
    "mixed": Gaussian(0.8) * MixedEffect(0.4),
    "dense": Matern(1.5, 1.2) * Dense(B),
    "singular": Gaussian(0.8) * MixedEffect(1.0),
    "commuting": Gaussian(0.8) * MixedEffect(0.4) + Laplacian(1.5) * Identity(),
    "not commuting": Gaussian(0.8) * Dense(B) + Matern(1.5, 1.2) * Dense(np.diag([1.0, 2.0, 0.5])),
    "diagonal": Diagonal([Gaussian(0.5), Gaussian(1.5), Gaussian(0.5)]),
    "transformable": Transformable(Gaussian(0.8), LOOKS),
    "field": CurlFree(Gaussian(0.8)) + DivFree(Gaussian(1.3)),
}
FORMS = {
    "complete": {},
    "holes": {"form": "holes"},
    "long": {"form": "long"},
    "weights": {"weighted": True},
    "intercept": {"intercept": True},
    "alphas": {"per_output": True},
    "all with holes": {"form": "holes", "weighted": True, "intercept": True, "per_output": True},
    "all in long form": {"form": "long", "weighted": True, "intercept": True, "per_output": True},
    "all complete": {"weighted": True, "intercept": True, "per_output": True},
}


def fit_both(kernel, data, form="complete", weighted=False, intercept=False, per_output=False, **params):
    """The estimator and its reference implementation."""
    d = 2 if kernel is KERNELS["field"] else 3
    Y = (data.holes if form == "holes" else data.Y)[:, :d]
    alpha = np.array([0.2, 0.05, 0.4])[:d] if per_output else 0.1
    weight = data.weight if weighted else None
    X, task = data.X, None
    if form == "long":
        some = data.holes[:, :d]
        X, Y, task = long_form(data.X, some)
        weight = None if weight is None else weight[np.nonzero(~np.isnan(some))[0]]
    model = OVKRidge(kernel, alpha=alpha, fit_intercept=intercept, **params).fit(X, Y, weight, task=task)
    return model, DenseRidge(kernel.resolve(X, d), X, Y, alpha, weight, task, intercept)


@pytest.mark.pairwise
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", KERNELS)
def test_fit_and_posterior_equal_dense_algebra(name, form, data):
    model, slow = fit_both(KERNELS[name], data, **FORMS[form])
    expected = slow.predict(data.X_new)
    mean, cov = model.predict(data.X_new, return_cov=True, of="posterior")
    assert_allclose(model.predict(data.X_new), expected, rtol=0, atol=1e-8 * np.abs(expected).max())
    assert_allclose(mean, model.predict(data.X_new), rtol=0, atol=0)
    assert_allclose(cov, slow.covariance(data.X_new), rtol=0, atol=1e-8)
    _, std = model.predict(data.X_new, return_std=True, of="posterior")
    assert_allclose(std**2, np.einsum("nqq->nq", cov), rtol=0, atol=1e-12)
    assert (std >= 0).all()
    assert np.linalg.eigvalsh(cov).min() > -1e-10
    if FORMS[form].get("intercept"):
        assert_allclose(model.intercept_, slow.b, rtol=0, atol=1e-8 * np.abs(slow.b).max())
    else:
        assert model.intercept_ is None


@pytest.mark.parametrize(
    ("name", "form", "route"),
    [
        ("identity", "complete", "Cholesky"),
        ("mixed", "all complete", "Cholesky"),
        ("commuting", "complete", "Cholesky"),
        ("not commuting", "complete", "ConjugateGradient"),
        ("not commuting", "holes", "Cholesky"),
        ("diagonal", "complete", "Cholesky"),
        ("transformable", "complete", "Cholesky"),
        ("field", "complete", "Cholesky"),
        ("dense", "holes", "Cholesky"),
        ("dense", "long", "Cholesky"),
    ],
)
def test_route(name, form, route, data):
    model, _ = fit_both(KERNELS[name], data, **FORMS[form])
    assert model.solver_info_.route == route


@pytest.mark.parametrize(
    ("solver", "route"),
    [
        ("cholesky", "Cholesky"),
        ("eigen", "Eigen"),
        ("cg", "ConjugateGradient"),
        ("gauss-seidel", "GaussSeidel"),
        (ConjugateGradient(tol=1e-12), "ConjugateGradient"),
    ],
)
def test_every_solver_finds_the_same(solver, route, data):
    kernel, alpha = KERNELS["dense"], np.array([2.0, 3.0, 2.5])  # large enough for Gauss-Seidel
    model = OVKRidge(kernel, alpha=alpha, solver=solver, fit_intercept=True).fit(data.X, data.Y, data.weight)
    slow = DenseRidge(kernel, data.X, data.Y, alpha, data.weight, intercept=True)
    assert model.solver_info_.route == route
    assert_allclose(model.predict(data.X_new), slow.predict(data.X_new), rtol=1e-8)


def test_many_eigenvalues_take_the_eigen_route(data):
    rng = np.random.default_rng(1)
    F = rng.standard_normal((10, 10))
    kernel, Y = Gaussian(0.8) * Dense(F @ F.T), rng.standard_normal((25, 10))
    model = OVKRidge(kernel, alpha=0.1, fit_intercept=False).fit(data.X, Y)
    slow = DenseRidge(kernel, data.X, Y, 0.1)
    assert model.solver_info_.route == "Eigen"
    mean, cov = model.predict(data.X_new, return_cov=True, of="posterior")
    assert_allclose(mean, slow.predict(data.X_new), rtol=0, atol=1e-8)
    assert_allclose(cov, slow.covariance(data.X_new), rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Gaussian(0.8), {"kernel": "rbf", "gamma": 0.5 / 0.64}),
        (Laplacian(0.8), {"kernel": "laplacian", "gamma": 1.25}),
        (Linear(), {"kernel": "linear"}),
        (Polynomial(2, gamma=0.7, coef0=1.5), {"kernel": "poly", "degree": 2, "gamma": 0.7, "coef0": 1.5}),
    ],
)
def test_identity_equals_kernel_ridge_of_scikit_learn(ours, theirs, data):
    for weight in (None, data.weight):
        expected = KernelRidge(alpha=0.1, **theirs).fit(data.X, data.Y, weight)
        model = OVKRidge(ours * Identity(), alpha=0.1, fit_intercept=False).fit(data.X, data.Y, weight)
        assert_allclose(model.predict(data.X_new), expected.predict(data.X_new), rtol=1e-8)


def test_posterior_equals_gaussian_process_of_scikit_learn(data):
    theirs = GaussianProcessRegressor(RBF(0.8), alpha=0.1, optimizer=None).fit(data.X, data.Y)
    expected, spread = theirs.predict(data.X_new, return_std=True)
    model = OVKRidge(Gaussian(0.8), alpha=0.1, fit_intercept=False).fit(data.X, data.Y)
    mean, std = model.predict(data.X_new, return_std=True, of="posterior")
    assert_allclose(mean, expected, rtol=1e-8)
    assert_allclose(std, spread, rtol=1e-8)


def test_an_alpha_for_each_output_equals_separate_fits(data):
    alphas = [0.01, 0.1, 1.0]
    joint = OVKRidge(Gaussian(0.8), alpha=alphas, fit_intercept=True).fit(data.X, data.Y)
    for q, alpha in enumerate(alphas):
        alone = OVKRidge(Gaussian(0.8), alpha=alpha, fit_intercept=True).fit(data.X, data.Y[:, q])
        mean, std = joint.predict(data.X_new, return_std=True, of="posterior")
        expected, spread = alone.predict(data.X_new, return_std=True, of="posterior")
        assert_allclose(mean[:, q], expected, rtol=1e-9)
        assert_allclose(std[:, q], spread, rtol=1e-9)


def test_missing_equals_dropped_for_uncoupled_outputs(data):
    for operator in (Identity(), Dense(np.diag([1.0, 2.0, 0.5]))):
        kernel = Gaussian(0.8) * operator
        joint = OVKRidge(kernel, alpha=0.1).fit(data.X, data.holes, data.weight).predict(data.X_new)
        for q, factor in enumerate(np.diagonal(operator.resolve(3).dense())):
            seen = ~np.isnan(data.holes[:, q])
            alone = OVKRidge(float(factor) * Gaussian(0.8), alpha=0.1)
            alone.fit(data.X[seen], data.holes[seen, q], data.weight[seen])
            assert_allclose(joint[:, q], alone.predict(data.X_new), rtol=1e-9)


@pytest.mark.parametrize("form", ["complete", "all with holes"])
def test_permuting_outputs_permutes_predictions(form, data):
    order = [2, 0, 1]
    options = FORMS[form]
    model, _ = fit_both(KERNELS["dense"], data, **options)
    Y = data.holes if options.get("form") == "holes" else data.Y
    alpha = np.asarray(model.alpha)[order] if np.ndim(model.alpha) else model.alpha
    weight = data.weight if options.get("weighted") else None
    kernel = Separable(KERNELS["dense"].kernel, Dense(B[np.ix_(order, order)]))
    other = OVKRidge(kernel, alpha=alpha, fit_intercept=model.fit_intercept).fit(data.X, Y[:, order], weight)
    mean, std = model.predict(data.X_new, return_std=True, of="posterior")
    permuted, spread = other.predict(data.X_new, return_std=True, of="posterior")
    assert_allclose(permuted, mean[:, order], rtol=1e-8)
    assert_allclose(spread, std[:, order], rtol=1e-8)


def test_alpha_zero_interpolates(data):
    model = OVKRidge(Laplacian(0.5) * Dense(B), alpha=0.0).fit(data.X, data.Y)
    assert_allclose(model.predict(data.X), data.Y, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", ["dense", "not commuting", "diagonal", "transformable", "field"])
def test_jacobian_equals_finite_differences(name, data):
    model, _ = fit_both(KERNELS[name], data, intercept=True)
    step = 1e-5
    shifts = step * np.eye(2)
    slopes = [(model.predict(data.X_new + s) - model.predict(data.X_new - s)) / (2 * step) for s in shifts]
    assert_allclose(model.jacobian(data.X_new), np.stack(slopes, axis=2), rtol=0, atol=2e-6)


@pytest.mark.parametrize("form", ["complete", "holes", "long"])
@pytest.mark.parametrize("name", ["dense", "not commuting", "field"])
def test_norm(name, form, data):
    model, slow = fit_both(KERNELS[name], data, **FORMS[form])
    K = slow.kernel.gram(slow.X).dense()[np.ix_(slow.pairs, slow.pairs)]
    assert_allclose(model.expansion_.norm(), np.sqrt(slow.c @ K @ slow.c), rtol=1e-8)
    assert_allclose(model.expansion_(data.X_new), model.predict(data.X_new), rtol=0, atol=0)
