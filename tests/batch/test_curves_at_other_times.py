"""Curves and their bands between the points of the fitted grid and slightly beyond its ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import reference
from ovk import FunctionalRidge
from ovk.curves import Components, Grid, ProductGrid
from ovk.kernels import Gaussian, Laplacian
from ovk.operators import Identity, Integral, Multiplication

RNG = np.random.default_rng(0)
T = np.sort(RNG.uniform(0, 1, 9))
X = RNG.uniform(-1, 1, (14, 2))
Y = np.sin(4 * T + 2 * X[:, :1]) * X[:, 1:] + 0.1 * RNG.standard_normal((14, 9))
NEW = RNG.uniform(-1, 1, (4, 2))


@pytest.mark.parametrize("region", ["each", "box"])
def test_intervals_at_other_times(region):
    model = FunctionalRidge(alpha=0.1, grid=T).fit(X, Y)
    fitted = model.predict_interval(NEW, 0.8, region=region)
    same = model.predict_interval(NEW, 0.8, region=region, grid=T[[2, 5]])
    assert_allclose(same.lower, fitted.lower[:, [2, 5]])
    assert_allclose(same.upper, fitted.upper[:, [2, 5]])
    middle = 0.5 * (T[2] + T[3])
    between = model.predict_interval(NEW, 0.8, region=region, grid=[middle])
    assert_allclose(between.predictions, model.predict(NEW, grid=[middle]))
    assert_allclose(between.width[:, 0], fitted.width[:, 2:4].mean(axis=1))
    assert between.contains(between.predictions).all()
    wide = model.predict_interval(NEW, 0.999, region=region, grid=[middle])
    assert np.isposinf(wide.upper).all()


@pytest.mark.parametrize("of", ["observation", "function", "posterior"])
def test_standard_deviations_at_other_times(of):
    model = FunctionalRidge(alpha=0.1, grid=T).fit(X, Y)
    mean, std = model.predict(NEW, return_std=True, of=of)
    other, some = model.predict(NEW, return_std=True, of=of, grid=T[[2, 5]])
    assert_allclose(other, mean[:, [2, 5]])
    assert_allclose(some, std[:, [2, 5]])
    middle = [0.5 * (T[2] + T[3])]
    other, between = model.predict(NEW, return_std=True, of=of, grid=middle)
    assert_allclose(other, model.predict(NEW, grid=middle))
    assert_allclose(between[:, 0], std[:, 2:4].mean(axis=1))


def test_interpolated_standard_deviations_are_close_to_those_of_the_process():
    """var f(x)(t) = a' cov f(x) a + k(x, x) (k(t, t) - E' T^+ E), a = T^+ E, for a separable kernel of any t."""
    d, kernel = 25, Gaussian(0.3)
    t, between = np.linspace(0, 1, d), np.linspace(0.02, 0.98, 13)
    Z = np.sin(4 * t + 2 * X[:, :1]) * X[:, 1:] + 0.1 * np.random.default_rng(1).standard_normal((14, d))
    model = FunctionalRidge(Gaussian(1.0) * Integral(kernel), 0.05, grid=t, fit_intercept=False).fit(X, Z)
    cov = model.predict(NEW, return_cov=True, of="posterior")[1]
    a = np.linalg.lstsq(kernel(t[:, None]), kernel(t[:, None], between[:, None]), rcond=1e-12)[0]
    rest = 1.0 - np.einsum("jm,jm->m", a, kernel(t[:, None], between[:, None]))
    exact = np.sqrt(np.einsum("jm,njk,km->nm", a, cov, a) + np.maximum(rest, 0.0))
    assert_allclose(model.predict(NEW, return_std=True, of="posterior", grid=between)[1], exact, rtol=0.01)


def test_a_little_beyond_the_ends():
    reach = 0.5 * np.diff(T).max()
    beyond = [T[0] - reach, T[-1] + 0.9 * reach]
    kernel = Gaussian(1.0) * Integral(Gaussian(0.3))
    for intercept in (False, True):
        model = FunctionalRidge(kernel, alpha=0.05, grid=T, fit_intercept=intercept).fit(X, Y)
        w, C = reference.quadrature(Grid(T)), model.dual_coef_
        times = Gaussian(0.3)(T[:, None], np.array(beyond)[:, None])
        expected = Gaussian(1.0)(NEW, X) @ (C * np.sqrt(w)) @ times
        if intercept:
            expected = expected + (model.intercept_ / np.sqrt(w))[[0, -1]]
        assert_allclose(model.predict(NEW, grid=beyond), expected, atol=1e-12)
        ends, (_, std) = model.predict_interval(NEW), model.predict(NEW, return_std=True)
        assert_allclose(model.predict_interval(NEW, grid=beyond).width, ends.width[:, [0, -1]])
        assert_allclose(model.predict(NEW, return_std=True, grid=beyond)[1], std[:, [0, -1]])
    with pytest.raises(ValueError, match=r"grid points must lie in .*, half a grid spacing beyond the observed range"):
        model.predict(NEW, grid=[T[0] - 1.1 * reach])
    # Operators without a kernel of time, and eigenfunctions of the interval, are undefined outside.
    for operator in (Identity(), Multiplication(), Integral(Laplacian(1.0), n_eigen=3, eigenfunctions="analytic")):
        model = FunctionalRidge(Gaussian(1.0) * operator, alpha=0.05, grid=T).fit(X, Y)
        with pytest.raises(ValueError, match=r"the observed range; got"):
            model.predict(NEW, grid=beyond)


def test_fields_a_little_beyond_the_ends():
    grid = ProductGrid([Components(2), Grid.regular(4), Grid.regular(5)])
    rng = np.random.default_rng(0)
    Z = np.outer(X[:, 0], rng.standard_normal(40))
    model = FunctionalRidge(Gaussian(1.0) * Integral(Gaussian(0.5)), alpha=0.1, grid=grid).fit(X, Z)
    points = np.array([[1.0, -0.1, 0.5], [0.0, 1.1, 1.1]])
    wider = ProductGrid([Components(2), Grid([-0.1, 1.1]), Grid([0.5, 1.1])])
    assert_allclose(model.predict(NEW, grid=points), model.predict(NEW, grid=wider)[:, [4, 3]], atol=1e-10)
    with pytest.raises(ValueError, match="must lie in"):
        model.predict(NEW, grid=np.array([[0.0, 1.2, 0.5]]))


def test_intervals_at_other_times_are_no_ellipsoids():
    with pytest.raises(ValueError, match="'ellipsoid' refers to the fitted grid: omit grid"):
        FunctionalRidge(grid=T).fit(X, Y).predict_interval(NEW, region="ellipsoid", grid=[0.5])
