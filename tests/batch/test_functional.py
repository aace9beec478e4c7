"""Curves as outputs: integrals, other grids, gaps, and leave-one-curve-out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk
import reference
from ovk import FunctionalRidge, FunctionalRidgeCV
from ovk.base import Targets
from ovk.base.parameters import equal
from ovk.batch.curves import MAX_COMPARED_VALUES, binned_curves, default_operators
from ovk.curves import Components, Grid, ProductGrid
from ovk.kernels import Gaussian, Intercept, Laplacian, Linear, Periodic
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
    """The ridge solution in the values of the curves instead of coordinates."""
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
    """Sampling the curves twice as finely reduces the difference by a factor of four."""

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
    # In point values: the kernel of point values is k M, the noise of entry j is alpha / w_j.
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
    # Far from the data the variance is that of the prior: k(x, x) k_T(t, t) = 1.
    assert_allclose(model.predict([[90.0, 90.0]], return_std=True, of="posterior")[1], 1.0)


def test_jacobian_by_differences():
    model = FunctionalRidge(KERNELS["integral"], alpha=0.05, grid=T).fit(X, Y)
    step = np.array([[1e-6, 0.0]])
    slope = (model.predict(NEW + step) - model.predict(NEW - step)) / 2e-6
    assert_allclose(model.jacobian(NEW)[:, :, 0], slope, atol=1e-7)


# ------------------------------------------------------------------------------------------- leave-one-curve-out


@pytest.mark.parametrize("intercept", [False, True])
def test_loo_errors_equal_refitting(intercept):
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


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_loo_curves_equal_refitting(gaps, intercept):
    seen = Y.copy()
    if gaps:
        seen[np.random.default_rng(1).random(Y.shape) < 0.2] = np.nan
    kernel = Gaussian(1.0) * Integral()
    model = FunctionalRidge(kernel, 0.1, grid=T, fit_intercept=intercept).fit(X, seen)
    observed, mean, std = model.loo_curves([3, 8])
    assert_allclose(observed, seen[[3, 8]], atol=1e-9)
    assert_allclose(observed - mean, model.loo_residuals()[[3, 8]], atol=1e-9)
    for number, i in enumerate([3, 8]):
        rest = np.arange(len(X)) != i
        left = FunctionalRidge(kernel, 0.1, grid=T, fit_intercept=intercept).fit(X[rest], seen[rest])
        assert_allclose(mean[number], left.predict(X[i : i + 1])[0], atol=1e-9)
        noise = 0.1 / Grid(T).weights()
        own = left.predict(X[i : i + 1], return_std=True, of="posterior")[1][0] ** 2 + noise
        # Up to a factor for each time, common to all leave-one-out residuals.
        ratio = std[number] ** 2 / own
        assert_allclose(ratio, model.loo_curves([0])[2][0] ** 2 / _own_variance(kernel, seen, intercept), rtol=1e-6)
    assert len(model.loo_curves()[0]) == len(X)
    with pytest.raises(ValueError, match="fitted to rows of curves"):
        FunctionalRidge().fit(X, Y[:, 0]).loo_curves()


def _own_variance(kernel, seen, intercept):
    """Predictive variance at row 0 of the function fitted without it."""
    left = FunctionalRidge(kernel, 0.1, grid=T, fit_intercept=intercept).fit(X[1:], seen[1:])
    return left.predict(X[:1], return_std=True, of="posterior")[1][0] ** 2 + 0.1 / Grid(T).weights()


# -------------------------------------------------------------------------------------------- without any settings


def smooth_curves(n, d, rng):
    t, X = np.linspace(0, 10, d), rng.uniform(-1, 1, (n, 2))
    return t, X, np.sin(0.6 * t + 2 * X[:, :1]) * (1 + X[:, 1:])


def with_windows(Y, rng):
    """Half of the curves are observed on a part of the grid."""
    seen = Y.copy()
    for i in range(0, len(Y), 2):
        start = rng.integers(0, Y.shape[1] // 2)
        seen[i, :start] = seen[i, start + Y.shape[1] // 3 :] = np.nan
    return seen


@pytest.mark.parametrize("gaps", [False, True], ids=["complete", "gaps"])
def test_smooth_curves_are_predicted_by_smooth_curves(gaps):
    rng = np.random.default_rng(3)
    t, X, F = smooth_curves(60, 36, rng)
    noisy = F[:40] + 0.2 * rng.standard_normal((40, 36))
    seen = with_windows(noisy, rng) if gaps else noisy
    model = FunctionalRidgeCV(grid=t).fit(X[:40], seen)
    rough = FunctionalRidge(Gaussian() * Integral(Laplacian(10.0)), model.alpha_, grid=t).fit(X[:40], seen)

    def error(model):
        return np.sqrt(np.mean((model.predict(X[40:]) - F[40:]) ** 2))

    assert isinstance(model.kernel_.operator.kernel, Gaussian)
    assert error(model) < 0.9 * error(rough)
    assert model.intercept_ is None
    assert model.errors_.shape == (1, 4, 25)


def test_the_rough_operator_is_there_for_jumps():
    rng = np.random.default_rng(4)
    t, X = np.linspace(0, 1, 40), rng.uniform(-1, 1, (50, 1))
    Y = np.where(t > 0.6, 1.0 + X, 0.0) + 0.05 * rng.standard_normal((50, 40))
    assert equal(FunctionalRidgeCV(grid=t).fit(X, Y).kernel_.operator.kernel, Laplacian(1.0))


def test_the_selected_model_equals_the_plain_model_of_all_values():
    rng = np.random.default_rng(5)
    t, X, F = smooth_curves(60, 36, rng)
    seen = with_windows(F + 0.2 * rng.standard_normal(F.shape), rng)
    assert np.sum(~np.isnan(seen)) > MAX_COMPARED_VALUES
    model = FunctionalRidgeCV(grid=t).fit(X, seen)
    plain = FunctionalRidge(model.kernel_, model.alpha_, grid=t, fit_intercept=False).fit(X, seen - model.level_)
    assert_allclose(model.predict(X[:5]), plain.predict(X[:5]) + model.level_, atol=1e-8)
    assert model.output_errors_.shape[-1] < 36  # averages were compared


def test_the_intercept_is_a_function_of_the_operators_space():
    """(k + c) T is ridge regression with an intercept b of the penalty alpha |b|^2 / c in the norm of T."""
    grid = Grid(T)
    operator = Integral(Gaussian(0.3), grid=grid)
    kernel = (Gaussian(1.0) + Intercept(5.0)) * operator
    found = FunctionalRidge(kernel, 0.05, grid=T, fit_intercept=False).fit(X, Y).predict(NEW)
    s, roots = operator.eigh(), grid.roots()
    F = s.vectors * np.sqrt(s.values)  # f = F a, |f|_T = |a|
    root = np.linalg.cholesky(Gaussian(1.0)(X) + 1e-12 * np.eye(len(X)))
    design = np.hstack([np.kron(root, F), np.kron(np.ones((len(X), 1)), F)])
    penalty = 0.05 * np.concatenate([np.ones(len(X) * len(T)), np.full(len(T), 1 / 5.0)])
    a = np.linalg.solve(design.T @ design + np.diag(penalty), design.T @ (Y * roots).ravel())
    weights = np.linalg.solve(root, Gaussian(1.0)(X, NEW)).T
    expected = weights @ a[: -len(T)].reshape(len(X), -1) @ F.T + F @ a[-len(T) :]
    assert_allclose(found, expected / roots, atol=1e-7)


def test_coarser_curves_are_means_over_bins():
    grid = Grid(np.sort(np.random.default_rng(0).uniform(0, 1, 60)))
    Y = np.random.default_rng(1).standard_normal((80, 60))
    Y[:40, 30:] = np.nan
    coarse, averages, rows = binned_curves(grid, Targets(Y * grid.roots(), 60, False, None, None))
    size = 60 // len(coarse)
    assert size == 3
    assert_allclose(coarse.weights().sum(), grid.weights().sum())
    w = grid.weights()[:3]
    assert_allclose(averages.Y[0, 0] / coarse.roots()[0], (w @ Y[0, :3]) / w.sum())
    assert np.isnan(averages.Y[0, 10:]).all()
    assert np.array_equal(rows, np.arange(80))


def test_of_very_many_curves_some_are_compared():
    Y = np.random.default_rng(1).standard_normal((500, 30))
    Y[::2, 15:] = np.nan
    coarse, averages, rows = binned_curves(Grid.regular(30), Targets(Y, 30, False, None, np.ones(500)))
    assert len(coarse) == 15
    assert len(rows) == len(averages.Y) == len(averages.weight) < 120


def test_default_operators_along_several_axes():
    grid = ProductGrid([Components(2), Grid(np.arange(6) / 6, period=1.0), Grid.regular(5, 0.0, 2.0)])
    operators = default_operators(grid)
    assert [operator.dim() for operator in operators] == [60] * 4
    assert operators[1].kernel[0] is None
    assert equal(operators[1].kernel[1], Periodic(Gaussian(0.05), 1.0))
    assert equal(operators[1].kernel[2], Gaussian(0.1))


def test_times_that_few_curves_reach_have_finite_intervals():
    rng = np.random.default_rng(6)
    t, X, F = smooth_curves(240, 20, rng)
    noisy = F + 0.2 * rng.standard_normal(F.shape)
    seen = noisy[:40].copy()
    seen[5:, 17:] = np.nan
    model = FunctionalRidgeCV(grid=t).fit(X[:40], seen)
    regions = model.predict_interval(X[40:])
    assert np.isfinite(regions.upper).all()
    inside = regions.contains(noisy[40:])
    assert 0.85 < np.mean(inside) < 0.95


# ------------------------------------------------------------------------------------------------ bad input, saving


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (FunctionalRidge(grid=T[:5]), "one point for each of the 9 columns of Y, got 5"),
        (FunctionalRidge(grid=T[::-1]), "must increase"),
        (FunctionalRidge(Gaussian(1.0) * Integral(grid=np.linspace(0, 2, 9)), grid=T), "must be that of the estimator"),
        (FunctionalRidgeCV(grid=T, n_eigen=[3], operators=[Identity()]), "n_eigen and operators cannot be combined"),
        (FunctionalRidgeCV(Gaussian() * Identity(), grid=T, n_eigen=[3]), "requires a kernel k \\* Integral"),
        (FunctionalRidgeCV([Gaussian() * Integral(), Gaussian() * Identity()], grid=T, n_eigen=[3]), "the same T"),
        (FunctionalRidgeCV(grid=T, n_eigen=[]), "at least one candidate"),
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
    with pytest.raises(ValueError, match="return_cov and task refer to the fitted grid"):
        model.predict(NEW, return_cov=True, grid=T)
    with pytest.raises(ValueError, match="a model fitted to curves"):
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


@pytest.mark.parametrize("gaps", [False, True])
def test_curves_far_from_zero_are_learned_as_well(gaps):
    """The penalised intercept is relative to the mean level of the curves."""
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 1.0, 12)
    X, new = rng.uniform(-1.0, 1.0, (25, 2)), rng.uniform(-1.0, 1.0, (5, 2))
    Y = np.sin(3.0 * t + X[:, :1]) * X[:, 1:] + 2.0 * np.cos(5.0 * t) + 0.1 * rng.standard_normal((25, 12))
    if gaps:
        Y[rng.random(Y.shape) < 0.3] = np.nan
    near, far = (FunctionalRidgeCV(grid=t).fit(X, Y + level) for level in (0.0, 1e6))
    assert far.level_ == pytest.approx(near.level_ + 1e6)
    for part in ({}, {"grid": [0.1, 0.5]}, {"task": np.arange(5)}):
        assert_allclose(far.predict(new, **part), near.predict(new, **part) + 1e6, rtol=0, atol=1e-6)
    for mine, other in zip(far.predict(new, return_std=True), near.predict(new, return_std=True), strict=True):
        assert_allclose(mine - mine.mean(), other - other.mean(), atol=1e-6)
    assert_allclose(far.predict_interval(new).lower, near.predict_interval(new).lower + 1e6, rtol=0, atol=1e-5)
    assert_allclose(far.loo_residuals(), near.loo_residuals(), atol=1e-6)
    assert_allclose(far.jacobian(new), near.jacobian(new), atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize(("n", "d", "step"), [(150, 60, 4), (60, 200, 6)])
def test_curves_seen_here_and_there(n, d, step):
    """Most bins of sparse curves would be empty: a subset of the curves is used instead."""
    rng = np.random.default_rng(0)
    X, t = rng.standard_normal((n, 2)), np.linspace(0.0, 1.0, d)
    truth = np.sin(2.0 * np.pi * t + X[:, :1])
    there = (np.arange(d) - rng.integers(step, size=n)[:, None]) % step == 0
    seen = np.where(there, truth + 0.1 * rng.standard_normal((n, d)), np.nan)
    _, averages, _ = binned_curves(Grid(t), Targets(seen, d, False, None, None))
    assert np.sum(~np.isnan(averages.Y)) > MAX_COMPARED_VALUES // 3
    assert np.sqrt(np.mean((FunctionalRidgeCV(grid=t).fit(X, seen).predict(X) - truth) ** 2)) < 0.04


def test_a_single_output_has_no_level():
    X = np.random.default_rng(0).standard_normal((40, 2))
    curves = 50.0 + np.sin(X[:, :1] + np.linspace(0.0, 4.0, 20))
    model = FunctionalRidgeCV().fit(X, curves)
    assert model.level_ == pytest.approx(50.0, abs=1.0)
    assert model.fit(X, curves[:, 0]).level_ == 0.0


def test_messages_about_levels_and_missing_inputs():
    model = FunctionalRidge(grid=T).fit(X, Y)
    for level in (90, 0.0, 1.0):
        with pytest.raises(ValueError, match=r"level must be a number in \(0, 1\), such as 0.9, got"):
            model.predict_interval(NEW, level)
    gap = X.copy()
    gap[3, 0] = np.nan
    with pytest.raises(ValueError, match=r"^Input X contains NaN, first in row 3, column 0: fill missing") as raised:
        FunctionalRidge(grid=T).fit(gap, Y)
    assert "HistGradientBoosting" not in str(raised.value)


def test_the_level_of_weighted_curves_is_that_of_repeated_ones():
    weights = np.where(np.arange(14) < 7, 1, 3)
    lifted = Y + np.arange(14.0)[:, None]
    weighted = FunctionalRidgeCV(alphas=[0.1], grid=T).fit(X, lifted, sample_weight=weights)
    repeated = FunctionalRidgeCV(alphas=[0.1], grid=T).fit(np.repeat(X, weights, 0), np.repeat(lifted, weights, 0))
    assert_allclose(weighted.level_, np.average(lifted.mean(axis=1), weights=weights))
    assert_allclose(weighted.level_, repeated.level_)
    assert_allclose(weighted.predict(NEW), repeated.predict(NEW), rtol=1e-8)


def test_the_sum_of_left_out_errors_is_the_same_in_long_form():
    wide = FunctionalRidgeCV(alphas=[0.1], grid=T).fit(X, Y)
    task = np.tile(np.arange(Y.shape[1]), len(Y))
    long = FunctionalRidgeCV(alphas=[0.1], grid=T).fit(np.repeat(X, Y.shape[1], axis=0), Y.ravel(), task=task)
    assert_allclose(long.best_rsse_, long.best_error_ * Y.size)
    assert_allclose(long.best_rsse_, wide.best_rsse_, rtol=1e-6)
