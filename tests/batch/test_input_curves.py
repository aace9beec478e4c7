"""Curves predicted from curves and numbers."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import ovk
from ovk import FunctionalRidge, FunctionalRidgeCV
from ovk.curves import Grid, GridError, ProductGrid
from ovk.kernels import Gaussian, Linear, OnCurves
from ovk.operators import Identity, Integral

S, T = np.linspace(0, 1, 60), np.linspace(0, 1, 30)


def problem(kind, n, rng):
    """Input curves (n, 60), numbers (n, 2) and output curves (n, 30) without noise."""
    waves = np.stack([np.ones(60), np.sin(np.pi * S), np.cos(np.pi * S), np.sin(2 * np.pi * S)])
    weights = rng.standard_normal((n, 4)) / [1.0, 1.0, 2.0, 2.0]
    curves, numbers = weights @ waves, rng.standard_normal((n, 2))
    mean = curves.mean(axis=1, keepdims=True)
    if kind == "additive":
        return curves, numbers, np.sin(2 * np.pi * T + 2 * mean) + numbers[:, :1] * np.cos(np.pi * T)
    if kind == "interaction":
        return curves, numbers, (1 + numbers[:, :1]) * np.sin(2 * np.pi * T + mean) + numbers[:, 1:] * T
    if kind == "only the numbers count":
        return curves, numbers, (1 + numbers[:, :1]) * np.sin(2 * np.pi * T + numbers[:, 1:])
    assert kind == "only the curve counts"
    return curves, numbers, np.sin(2 * np.pi * T + 2 * mean) + weights[:, 1:2] * T


def errors(kind, units):
    rng = np.random.default_rng(0)
    curves, numbers, truth = problem(kind, 160, rng)
    X, Y = np.hstack([curves, numbers * units]), truth[:100] + 0.1 * rng.standard_normal((100, 30))
    models = [FunctionalRidgeCV(grid=T, input_grid=S), FunctionalRidgeCV(grid=T)]
    return [np.sqrt(np.mean((model.fit(X[:100], Y).predict(X[100:]) - truth[100:]) ** 2)) for model in models]


@pytest.mark.parametrize(
    ("kind", "share"),
    [
        ("additive", 0.75),
        ("interaction", 1.2),
        ("only the numbers count", 0.2),
        ("only the curve counts", 1.05),
    ],
)
def test_numbers_beside_curves_count_as_they_should(kind, share):
    """Concatenated columns are good only if the curve matters more than the numbers."""
    found, pasted = errors(kind, 1.0)
    assert found < share * pasted


def test_uninformative_numbers_are_ignored():
    """Leave-one-out drops a column of noise, and keeps useful ones."""
    rng, waves = np.random.default_rng(7), np.stack([np.ones(60), np.sin(np.pi * S)])
    weights = rng.standard_normal((160, 2))
    curves, number = weights @ waves, rng.standard_normal((160, 1))
    both, truth = np.hstack([curves, number]), weights[:, :1] * np.sin(2 * np.pi * T) + weights[:, 1:] * T**2
    noise = 0.1 * rng.standard_normal((160, 30))

    def fitted(X, truth):
        model = FunctionalRidgeCV(grid=T, input_grid=S).fit(X[:60], (truth + noise)[:60])
        return model, np.sqrt(np.mean((model.predict(X[60:]) - truth[60:]) ** 2))

    model, error = fitted(both, truth)
    assert_allclose(error, fitted(curves, truth)[1], rtol=1e-6)
    moved = both + np.eye(61)[60]
    assert_allclose(model.predict(moved), model.predict(both))
    _, used = fitted(both, truth + number * np.cos(np.pi * T))
    assert used < 0.25 * fitted(curves, truth + number * np.cos(np.pi * T))[1]


def test_units_of_the_numbers_do_not_matter():
    plain, other = errors("interaction", 1.0)[0], errors("interaction", np.array([1000.0, 0.001]))[0]
    assert_allclose(other, plain, rtol=1e-6)


def test_input_curves_alone_are_compared_by_integrals():
    rng = np.random.default_rng(1)
    curves, _, Y = problem("only the curve counts", 60, rng)
    model = FunctionalRidgeCV(grid=T, input_grid=S).fit(curves, Y)
    assert model.errors_.shape == (3, 4, 25)
    kernel = model.kernel_.scalar.left
    assert isinstance(kernel, OnCurves)
    assert_allclose(kernel.grid.checked(), S)


@pytest.mark.long
def test_with_gaps_the_kernel_is_chosen_too(tmp_path):
    rng = np.random.default_rng(2)
    curves, numbers, truth = problem("additive", 80, rng)
    numbers = np.hstack([numbers, np.ones((80, 1))])  # one that is the same for all
    X, Y = np.hstack([curves, numbers]), truth + 0.1 * rng.standard_normal(truth.shape)
    Y[::2, 20:] = np.nan
    model = FunctionalRidgeCV(grid=T, input_grid=S).fit(X, Y)
    assert model.errors_.shape == (12, 4, 25)
    assert np.sqrt(np.mean((model.predict(X) - truth) ** 2)) < 0.15
    ovk.save(model, tmp_path / "model.ovk")
    assert_allclose(ovk.load(tmp_path / "model.ovk").predict(X), model.predict(X))


def test_bad_input_grids():
    X, Y = np.ones((5, 3)), np.ones((5, 30))
    with pytest.raises(ValueError, match="at least the 60 columns of input_grid, got 3"):
        FunctionalRidgeCV(grid=T, input_grid=S).fit(X, Y)
    with pytest.raises(ValueError, match="input_grid and kernel cannot be combined"):
        FunctionalRidgeCV(Gaussian(1.0), grid=T, input_grid=S[:3]).fit(X, Y)


# --------------------------------------------------------------------------------------------------- gaps in the inputs


def test_gaps_are_filled_along_the_curve():
    line = Grid([0.0, 1.0, 2.0, 4.0, 5.0])
    Y = np.array([[np.nan, 1.0, np.nan, 4.0, np.nan], [1.0, 2.0, 3.0, 4.0, 5.0]])
    assert_allclose(line.filled(Y), [[1.0, 1.0, 2.0, 4.0, 4.0], Y[1]])
    # Around the period 8 from 4 to 9, the next 1: 5 is a fifth of the way, 8 (that is 0) four fifths.
    circle = Grid([0.0, 1.0, 2.0, 4.0, 5.0], period=8.0)
    assert_allclose(circle.filled(Y[:1]), [[4.0 - 3.0 * 0.8, 1.0, 2.0, 4.0, 4.0 - 3.0 * 0.2]])
    assert np.isnan(Y[0, 0])  # what was given stays as it was
    with pytest.raises(GridError, match="the curve in row 1 has no observed value: remove the row"):
        line.filled([[1.0] * 5, [np.nan] * 5])
    with pytest.raises(GridError, match="curves must have 5 columns"):
        line.filled(np.ones((2, 4)))
    plane = ProductGrid.regular((2, 2))
    assert_allclose(plane.filled(np.ones((1, 4))), 1.0)
    with pytest.raises(GridError, match="of functions of several variables are not supported"):
        plane.filled([[1.0, np.nan, 1.0, 1.0]])


@pytest.mark.parametrize("period", [None, 1.1])
def test_input_curves_may_have_gaps(period, tmp_path):
    rng = np.random.default_rng(5)
    curves, numbers, Y = problem("additive", 60, rng)
    gaps = np.where(rng.random(curves.shape) < 0.5, np.nan, curves)
    grid = Grid(S, period)
    X, filled = np.hstack([gaps, numbers]), np.hstack([grid.filled(gaps), numbers])
    model = FunctionalRidgeCV(grid=T, input_grid=grid).fit(X[:40], Y[:40])
    plain = FunctionalRidgeCV(grid=T, input_grid=grid).fit(filled[:40], Y[:40])
    assert_allclose(model.predict(X[40:]), plain.predict(filled[40:]))
    assert_allclose(model.predict_interval(X[40:]).upper, plain.predict_interval(filled[40:]).upper)
    ovk.save(model, tmp_path / "model.ovk")
    assert_allclose(ovk.load(tmp_path / "model.ovk").predict(X[40:]), model.predict(X[40:]))
    assert model.__sklearn_tags__().input_tags.allow_nan
    assert not FunctionalRidgeCV().__sklearn_tags__().input_tags.allow_nan


def test_missing_numbers_after_a_curve_raise():
    rng = np.random.default_rng(6)
    curves, numbers, Y = problem("additive", 20, rng)
    X = np.hstack([curves, numbers])
    model = FunctionalRidgeCV(grid=T, input_grid=S).fit(X, Y)
    without, endless, empty = X[:3].copy(), X[:3].copy(), X[:3].copy()
    without[2, 61], endless[1, 4], empty[1, :60] = np.nan, np.inf, np.nan
    for call in (model.predict, lambda X: model.fit(X, Y[:3])):
        with pytest.raises(ValueError, match=r"NaN, first in row 2, column 61, which is not part .*: fill missing"):
            call(without)
        with pytest.raises(ValueError, match="infinity"):
            call(endless)
        with pytest.raises(ValueError, match="the curve in row 1 has no observed value"):
            call(empty)
    with pytest.raises(ValueError, match=r"for gaps in input curves, set input_grid"):
        FunctionalRidge(grid=T).fit(without, Y[:3])


# ---------------------------------------------------------------------------------------- kernels without an operator


def test_a_scalar_kernel_gets_an_operator_that_is_chosen():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (40, 1))
    Y = np.sin(4 * T + 2 * X) + 0.3 * rng.standard_normal((40, 30))
    model = FunctionalRidgeCV(Gaussian(), grid=T).fit(X, Y)
    assert isinstance(model.kernel_.operator, Integral)
    assert_allclose(model.predict(X), FunctionalRidgeCV(grid=T).fit(X, Y).predict(X))
    several = FunctionalRidgeCV([Linear(), Gaussian(), "linear"], grid=T).fit(X, Y)
    assert several.errors_.shape == (3, 4, 25)
    apart = FunctionalRidgeCV(Gaussian() * Identity(), grid=T).fit(X, Y)
    assert isinstance(apart.kernel_.operator, Identity)
    truth = np.sin(4 * T + 2 * X)
    assert np.mean((several.predict(X) - truth) ** 2) < 0.7 * np.mean((apart.predict(X) - truth) ** 2)
