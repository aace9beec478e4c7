"""Curves as outputs: integrals for sums, other grids, gaps, and one curve left out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk
import reference
from ovk import FunctionalRidge, FunctionalRidgeCV
from ovk.curves import Grid
from ovk.kernels import Gaussian, Linear
from ovk.operators import Dense, Identity, Integral, Multiplication

RNG = np.random.default_rng(0)
T = np.sort(RNG.uniform(0, 1, 9))
X = RNG.uniform(-1, 1, (14, 2))
Y = np.sin(4 * T + 2 * X[:, :1]) * X[:, 1:] + 0.1 * RNG.standard_normal((14, 9))
NEW = RNG.uniform(-1, 1, (4, 2))
KERNELS = {
    "identity": Gaussian(1.0) * Identity(),
    "integral": Gaussian(1.0) * Integral(),
    "truncated": Gaussian(1.0) * Integral(n_eigen=4),
    "singular": Gaussian(1.0) * Multiplication(np.where(T > 0.5, 0.0, 1.0)),
    "sum": Gaussian(1.0) * Integral() + Linear() * Multiplication(),
}


def written_out(kernel, alpha, X, Y, new):
    """sum_ij of the ridge solution in the curves' own values: no coordinates."""
    w = reference.quadrature(Grid(T))
    parts = kernel.terms()
    n, d = Y.shape
    K, k = np.zeros((n * d, n * d)), np.zeros((len(new) * d, n * d))
    for part in parts:
        operator = part.operator.replace(grid=Grid(T)) if hasattr(part.operator, "grid") else Identity(d)
        # T y (t_a) = sum_b M_ab y_b with M = W^-1/2 (matrix in coordinates) W^1/2
        M = operator.dense() * np.sqrt(w)[None, :] / np.sqrt(w)[:, None]
        K += np.kron(part.kernel(X), M)
        k += np.kron(part.kernel(new, X), M)
    c = np.linalg.solve(K + alpha * np.eye(n * d), Y.reshape(-1))
    return (k @ c).reshape(len(new), d)


@pytest.mark.parametrize("name", KERNELS)
def test_equals_the_functional_equations_written_out(name):
    model = FunctionalRidge(KERNELS[name], alpha=0.05, grid=T, fit_intercept=False).fit(X, Y)
    assert_allclose(model.predict(NEW), written_out(KERNELS[name], 0.05, X, Y, NEW), atol=1e-9)


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("name", KERNELS)
def test_on_the_fitted_grid_evaluation_is_prediction(name, intercept):
    model = FunctionalRidge(KERNELS[name], alpha=0.05, grid=T, fit_intercept=intercept).fit(X, Y)
    assert_allclose(model.predict(NEW, grid=T), model.predict(NEW), atol=1e-9)
    assert_allclose(model.predict(NEW, grid=Grid(T[:4])), model.predict(NEW)[:, :4], atol=1e-9)


def test_the_sampling_does_not_matter():
    """The same curves sampled twice as finely: the difference falls by four."""

    def curves(d):
        t = np.linspace(0, 1, d)
        Z = np.sin(4 * t + 2 * X[:, :1]) * X[:, 1:]
        kernel = Gaussian(1.0) * Integral() + Linear() * Multiplication() + Gaussian(2.0) * Identity()
        return FunctionalRidge(kernel, alpha=0.05, grid=t).fit(X, Z).predict(NEW, grid=np.linspace(0, 1, 11))

    finest = curves(161)
    errors = [np.abs(curves(d) - finest).max() for d in (11, 21, 41)]
    assert 3.3 < errors[0] / errors[1] < 5.0
    assert 3.3 < errors[1] / errors[2] < 5.5


def test_gaps_do_not_count():
    seen = Y.copy()
    seen[RNG.random(Y.shape) < 0.3] = np.nan
    model = FunctionalRidge(KERNELS["integral"], alpha=0.05, grid=T, fit_intercept=False).fit(X, seen)
    w = reference.quadrature(Grid(T))
    M = KERNELS["integral"].operator.replace(grid=Grid(T)).dense() / np.sqrt(np.outer(w, w))
    # In the values themselves: the kernel of point values is k M, the noise of entry j is alpha / w_j.
    K = np.kron(Gaussian(1.0)(X), M)
    pairs = np.flatnonzero(~np.isnan(seen.ravel()))
    noise = np.diag(0.05 / np.tile(w, len(X))[pairs])
    c = np.linalg.solve(K[np.ix_(pairs, pairs)] + noise, seen.ravel()[pairs])
    expected = (np.kron(Gaussian(1.0)(NEW, X), M)[:, pairs] @ c).reshape(4, -1)
    assert_allclose(model.predict(NEW), expected, atol=1e-9)


def test_long_form_is_the_same_as_gaps():
    seen = Y.copy()
    seen[RNG.random(Y.shape) < 0.3] = np.nan
    rows, tasks = np.nonzero(~np.isnan(seen))
    model = FunctionalRidge(KERNELS["integral"], alpha=0.05, grid=T)
    expected = model.fit(X, seen).predict(NEW)
    assert_allclose(model.fit(X[rows], seen[rows, tasks], task=tasks).predict(NEW), expected, atol=1e-8)


def test_bands_are_those_of_curves():
    model = FunctionalRidge(KERNELS["integral"], alpha=0.05, grid=T, fit_intercept=False).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True)
    same, cov = model.predict(NEW, return_cov=True)
    assert_allclose(mean, model.predict(NEW))
    assert_allclose(same, mean)
    assert_allclose(std**2, np.einsum("nqq->nq", cov), atol=1e-12)
    # Far from the data the prior is back: k(x, x) k_T(t, t) = 1.
    assert_allclose(model.predict([[90.0, 90.0]], return_std=True, of="posterior")[1], 1.0)


def test_jacobian_by_differences():
    model = FunctionalRidge(KERNELS["integral"], alpha=0.05, grid=T).fit(X, Y)
    step = np.array([[1e-6, 0.0]])
    slope = (model.predict(NEW + step) - model.predict(NEW - step)) / 2e-6
    assert_allclose(model.jacobian(NEW)[:, :, 0], slope, atol=1e-7)


# ------------------------------------------------------------------------------------------- one curve left out


@pytest.mark.parametrize("intercept", [False, True])
def test_left_out_errors_equal_refitting(intercept):
    alphas, numbers = [0.01, 0.3], [2, 5, 9]
    model = FunctionalRidgeCV(Gaussian(1.0) * Integral(), alphas, grid=T, n_eigen=numbers, fit_intercept=intercept).fit(
        X, Y
    )
    w = reference.quadrature(Grid(T))
    for j, count in enumerate(numbers):
        for a, alpha in enumerate(alphas):
            total = 0.0
            for i in range(len(X)):
                rest = np.arange(len(X)) != i
                kernel = Gaussian(1.0) * Integral(n_eigen=count)
                left = FunctionalRidge(kernel, alpha, grid=T, fit_intercept=intercept).fit(X[rest], Y[rest])
                total += float((Y[i] - left.predict(X[i : i + 1])[0]) ** 2 @ w)
            assert_allclose(model.errors_[0, j, a] * Y.size, total, rtol=1e-8)
    assert model.best_rsse_ == pytest.approx(model.errors_.min() * Y.size)
    assert model.n_eigen_ == numbers[int(model.errors_[0].min(axis=1).argmin())]


def test_the_chosen_model_is_the_plain_one():
    model = FunctionalRidgeCV([Gaussian(s) * Integral() for s in (0.5, 2.0)], grid=T).fit(X, Y)
    plain = FunctionalRidge(model.kernel_, model.alpha_, grid=T).fit(X, Y)
    assert_allclose(model.predict(NEW), plain.predict(NEW), atol=1e-8)
    assert model.n_eigen_ is None


def test_curves_with_gaps_are_left_out_whole():
    seen = Y.copy()
    seen[RNG.random(Y.shape) < 0.2] = np.nan
    kernel = Gaussian(1.0) * Integral()
    model = FunctionalRidgeCV(kernel, [0.1], grid=T).fit(X, seen)
    errors = np.empty_like(Y)
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        errors[i] = seen[i] - FunctionalRidge(kernel, 0.1, grid=T).fit(X[rest], seen[rest]).predict(X[i : i + 1])[0]
    assert_allclose(model.output_errors_[0, 0, 0], np.nanmean(errors**2, axis=0) * Grid(T).weights(), rtol=1e-8)


# ------------------------------------------------------------------------------------------------ bad input, saving


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FunctionalRidge(grid=T[:5]), "grid has 5 points but Y has 9 columns"),
        (FunctionalRidge(grid=T[::-1]), "must increase"),
        (FunctionalRidge(Gaussian(1.0) * Integral(grid=np.linspace(0, 2, 9)), grid=T), "is not the estimator's"),
        (FunctionalRidgeCV(grid=T, n_eigen=[3], operators=[Identity()]), "n_eigen or operators, not both"),
        (FunctionalRidgeCV(Gaussian() * Identity(), grid=T, n_eigen=[3]), "about kernels k \\* Integral"),
        (FunctionalRidgeCV([Gaussian() * Integral(), Gaussian() * Identity()], grid=T, n_eigen=[3]), "the same T"),
        (FunctionalRidgeCV(grid=T, n_eigen=[]), "at least one number"),
        (FunctionalRidgeCV(grid=T, n_eigen=[10]), "n_eigen must be at most 9"),
        (FunctionalRidge(Gaussian(1.0) * Dense(np.eye(4)), grid=T), "4 outputs but Y has 9"),
    ],
)
def test_bad_input(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_bad_calls():
    model = FunctionalRidge(grid=T).fit(X, Y)
    with pytest.raises(ValueError, match="must lie in"):
        model.predict(NEW, grid=[2.0])
    with pytest.raises(ValueError, match="about the fitted grid"):
        model.predict(NEW, return_std=True, grid=T)
    with pytest.raises(ValueError, match="a model of curves"):
        FunctionalRidge().fit(X, Y[:, 0]).predict(NEW, grid=[0.5])


def test_without_a_grid_time_runs_from_0_to_1():
    model = FunctionalRidge().fit(X, Y)
    assert_allclose(model.grid_.checked(), np.linspace(0, 1, 9))
    assert isinstance(model.kernel_.operator, Integral)
    assert FunctionalRidge().fit(X, Y[:, 0]).predict(NEW).shape == (4,)


@pytest.mark.parametrize(
    "model", [FunctionalRidge(KERNELS["sum"], grid=T), FunctionalRidgeCV(grid=Grid(T), n_eigen=[3, 5])]
)
def test_saving(model, tmp_path):
    model.fit(X, Y)
    ovk.save(model, tmp_path / "model")
    again = ovk.load(tmp_path / "model")
    assert np.array_equal(again.predict(NEW), model.predict(NEW))
    points = np.linspace(T[0], T[-1], 30)
    assert np.array_equal(again.predict(NEW, grid=points), model.predict(NEW, grid=points))


def test_one_point_of_each_curve():
    X, Y = np.linspace(0, 1, 12)[:, None], np.random.default_rng(0).standard_normal((12, 7))
    model = FunctionalRidge(alpha=0.1).fit(X, Y)
    task = np.arange(12) % 7
    curves, bands = model.predict(X, return_std=True)
    some, widths = model.predict(X, return_std=True, task=task)
    assert_allclose(some, curves[np.arange(12), task], rtol=1e-10)
    assert_allclose(widths, bands[np.arange(12), task], rtol=1e-8)
