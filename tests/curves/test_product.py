"""Product grids agree with flattened grids, without forming d x d matrices."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ovk import FunctionalRidge, FunctionalRidgeCV, MovKL, load, save
from ovk.curves import Components, Grid, ProductGrid
from ovk.curves.product import KroneckerMatrix
from ovk.kernels import Gaussian, Laplacian, Linear, Matern, OnCurves, Periodic
from ovk.operators import Dense, Integral, Multiplication, TensorProduct

RNG = np.random.default_rng(0)
SIDES = [Grid([0.0, 0.3, 0.4, 1.0]), Grid(np.arange(5) / 5, period=1.0)]
GRID = ProductGrid(SIDES)


def flattened_integral() -> np.ndarray:
    """W^1/2 k W^1/2 with k((t, u), (t', u')) evaluated point by point."""
    k, m, P, w = Laplacian(1.0), Periodic(Gaussian(0.3), 1.0), GRID.checked(), GRID.weights()
    K = [[k(a[None, :1], b[None, :1])[0, 0] * m(a[None, 1:], b[None, 1:])[0, 0] for b in P] for a in P]
    return np.sqrt(w)[:, None] * np.array(K) * np.sqrt(w)


KERNELS = [Laplacian(1.0), Periodic(Gaussian(0.3), 1.0)]


@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3), st.booleans(), st.randoms())
def test_a_kronecker_matrix_is_its_dense_form(shapes, flip, random):
    rng = np.random.default_rng(random.randint(0, 10**6))
    factors = [rng.standard_normal(shape) for shape in shapes]
    plain = factors[0]
    for A in factors[1:]:
        plain = np.kron(plain, A)
    order = rng.permutation(plain.shape[1])
    M, dense = KroneckerMatrix(factors, order), plain[:, order]
    if flip:
        M, dense = M.T, dense.T
    assert M.shape == dense.shape
    Y, Z = rng.standard_normal((3, len(dense))), rng.standard_normal((dense.shape[1], 2))
    np.testing.assert_allclose(np.asarray(M), dense)
    np.testing.assert_allclose(Y @ M, Y @ dense)
    np.testing.assert_allclose(M @ Z, dense @ Z)
    np.testing.assert_allclose(M @ Z[:, 0], dense @ Z[:, 0])
    np.testing.assert_allclose(Y @ M**2, Y @ dense**2)
    np.testing.assert_allclose(M[:, ::2], dense[:, ::2])
    np.testing.assert_allclose(M.sum(axis=1), dense.sum(axis=1))


def test_weights_integrate_over_the_domain():
    x, y = GRID.checked().T
    assert GRID.inner(np.ones(20), np.ones(20)) == pytest.approx(1.0)
    # exact for trigonometric polynomials along the circle, and for straight lines along the interval
    assert GRID.inner(1.0 + x, 1.0 + np.cos(2 * np.pi * y)) == pytest.approx(1.5)
    vector = ProductGrid([Components(3), *SIDES])
    assert len(vector) == 60
    assert vector.weights().sum() == pytest.approx(3.0)


def test_operators_on_a_product_equal_the_flattened_dense_ones():
    T, dense = Integral(KERNELS, GRID), flattened_integral()
    Y = RNG.standard_normal((3, 20))
    assert np.abs(T.apply(Y) - Y @ dense).max() < 1e-10
    assert np.abs(T.dense() - dense).max() < 1e-10
    spectrum = T.eigh()
    assert isinstance(spectrum.vectors, KroneckerMatrix)
    V = np.asarray(spectrum.vectors)
    assert np.abs((V * spectrum.values) @ V.T - dense).max() < 1e-10
    assert (np.diff(spectrum.values) >= 0).all()
    few, plain = Integral(KERNELS, GRID, n_eigen=4), Dense(dense).eigh()
    expected = (plain.vectors[:, -4:] * plain.values[-4:]) @ plain.vectors[:, -4:].T
    assert np.abs(few.apply(Y) - Y @ expected).max() < 1e-10
    np.testing.assert_allclose(Multiplication(grid=GRID).apply(Y), Y * np.exp(-(GRID.checked() ** 2).sum(axis=1)))


@pytest.mark.parametrize("intercept", [False, True])
def test_a_fit_on_a_product_is_that_of_the_flattened_operator(intercept, tmp_path):
    X = RNG.standard_normal((30, 2))
    Y = np.sin(X[:, :1] + GRID.checked()[:, 0]) * np.cos(X[:, 1:] * GRID.checked()[:, 1])
    roots = GRID.roots()
    model = FunctionalRidge(Gaussian(1.0) * Integral(KERNELS), 1e-2, grid=GRID, fit_intercept=intercept).fit(X, Y)
    flat = FunctionalRidge(
        Gaussian(1.0) * Dense(flattened_integral()), 1e-2, grid=Grid(np.arange(20.0), quadrature=roots**2),
        fit_intercept=intercept,
    ).fit(X, Y)  # fmt: skip
    new = RNG.standard_normal((4, 2))
    assert np.abs(model.predict(new) - flat.predict(new)).max() < 1e-10
    mean, std = model.predict(new, return_std=True)
    assert np.abs(std - flat.predict(new, return_std=True)[1]).max() < 1e-8
    choice = FunctionalRidgeCV(Gaussian(1.0) * Integral(KERNELS), grid=GRID, n_eigen=[3, 8], fit_intercept=intercept)
    assert choice.fit(X, Y).n_eigen_ in (3, 8)
    save(model, tmp_path / "m.ovk")
    np.testing.assert_array_equal(load(tmp_path / "m.ovk").predict(new), mean)


def test_prediction_on_a_finer_grid_converges():
    X = RNG.uniform(-1, 1, (40, 1))

    def field(x, P):
        return np.sin(x + P[:, 0]) * np.cos(x + 2 * np.pi * P[:, 1])

    fine = ProductGrid([Grid.regular(17), Grid(np.arange(16) / 16, period=1.0)])
    scattered = np.column_stack([RNG.uniform(0, 1, 30), RNG.uniform(0, 1, 30)])
    errors = []
    for size in (6, 12, 24):
        grid = ProductGrid([Grid.regular(size), Grid(np.arange(size) / size, period=1.0)])
        kernel = Gaussian(1.0) * Integral([Gaussian(0.5), Periodic(Gaussian(0.5), 1.0)])
        model = FunctionalRidge(kernel, 1e-8, grid=grid, fit_intercept=False).fit(X, field(X, grid.checked()))
        new = np.array([[0.3], [-0.4]])
        np.testing.assert_allclose(model.predict(new, grid=grid), model.predict(new), atol=1e-6)
        errors.append(np.abs(model.predict(new, grid=fine) - field(new, fine.checked())).max())
        assert np.abs(model.predict(new, grid=scattered) - field(new, scattered)).max() < 3 * errors[-1] + 1e-4
    assert errors[0] > errors[2]
    assert errors[2] < 1e-3
    lines = grid.interpolation(fine)
    smooth = np.cos(2 * np.pi * grid.checked()[:, 1])
    assert np.abs(smooth @ lines - np.cos(2 * np.pi * fine.checked()[:, 1])).max() < 0.01


def test_kernels_of_fields():
    X = RNG.standard_normal((5, 20))
    np.testing.assert_allclose(OnCurves(Linear(), GRID)(X), (X * GRID.weights()) @ X.T)
    slopes = OnCurves(Linear(), GRID, derivative=1)(X)
    tables = X.reshape(5, 4, 5)
    along = np.einsum("nij,ik->nkj", tables, SIDES[0].derivative()), tables @ SIDES[1].derivative()
    expected = sum((part.reshape(5, -1) * GRID.weights()) @ part.reshape(5, -1).T for part in along)
    np.testing.assert_allclose(slopes, expected)
    two = OnCurves(Matern(1.5, 1.0), ProductGrid([Components(2), *SIDES]))(RNG.standard_normal((3, 40)))
    assert two.shape == (3, 3)


def test_components_are_fitted_apart_and_movkl_learns_fields():
    X = RNG.standard_normal((25, 2))
    grid = ProductGrid([Components(2), Grid.regular(4), Grid.regular(3)])
    P = grid.checked()
    Y = np.where(P[:, 0] == 0, np.sin(X[:, :1] + P[:, 1]), X[:, 1:] * (1 + P[:, 2]))
    kernel = Gaussian(1.0) * Integral([None, Gaussian(0.5), Gaussian(0.5)])
    both = FunctionalRidge(kernel, 1e-3, grid=grid).fit(X, Y)
    alone = FunctionalRidge(Gaussian(1.0) * Integral(Gaussian(0.5)), 1e-3, grid=ProductGrid(grid.axes[1:]))
    np.testing.assert_allclose(both.predict(X)[:, :12], alone.fit(X, Y[:, :12]).predict(X), atol=1e-10)
    learned = MovKL(grid=grid, alpha=0.01, tol=1e-2).fit(X, Y)
    assert learned.score(X, Y) > 0.9


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: len(ProductGrid([])), "sequence of grids"),
        (lambda: len(ProductGrid([GRID, [0.0, 1.0]])), "one variable"),
        (lambda: GRID.interpolation(np.zeros((3, 3))), "2 columns"),
        (lambda: GRID.interpolation(ProductGrid.regular((3, 3, 3))), "2 axes"),
        (lambda: GRID.interpolation([[2.0, 0.0]]), "must lie in"),
        (lambda: Components(2).interpolation([0.5]), "integers below 2"),
        (lambda: GRID.derivative(), "several variables"),
        (lambda: Integral([Gaussian(1.0)], GRID).eigh(), "one per axis"),
        (lambda: Integral(grid=GRID, eigenfunctions="analytic").eigh(), "does not support a ProductGrid"),
        (lambda: TensorProduct([Gaussian(1.0)]).dense(), "output operators"),
        (lambda: TensorProduct([Dense([[1.0]])]).resolve(3), "1 outputs but Y has 3"),
    ],
)
def test_what_makes_no_sense_is_refused(call, match):
    with pytest.raises(ValueError, match=match):
        call()
