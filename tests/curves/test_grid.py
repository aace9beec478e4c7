"""Grids: quadrature, its order, interpolation, derivatives and errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_allclose

import reference
from ovk.curves import Grid, GridError

gaps = hnp.arrays(float, st.integers(1, 8), elements=st.floats(0.01, 2.0))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(gaps, st.booleans())
def test_weights_are_the_trapezoidal_rule_and_add_up_to_the_length(steps, closed):
    points = np.concatenate([[0.3], 0.3 + np.cumsum(steps)])
    period = float(points[-1] - points[0] + 0.7) if closed else None
    grid = Grid(points, period)
    assert_allclose(grid.weights(), reference.quadrature(grid), rtol=1e-12)
    assert_allclose(grid.weights().sum(), points[-1] - points[0] if period is None else period)
    assert_allclose(grid.roots() ** 2, grid.weights())


def test_the_error_is_of_second_order():
    def error(d):
        points = np.linspace(0, 1, d) ** 1.3
        return abs(float(Grid(points).inner(np.exp(points), np.cos(points))) - exact)

    exact = 0.5 * (np.e * (np.cos(1) + np.sin(1)) - 1)
    assert error(41) / error(81) == pytest.approx(4.0, rel=0.1)


def test_a_closed_regular_grid_integrates_waves_exactly():
    grid = Grid(np.arange(12) / 12, period=1.0)
    wave = np.cos(2 * np.pi * 4 * grid.checked())
    assert_allclose(grid.inner(wave, wave), 0.5)
    assert_allclose(grid.inner(wave, np.ones(12)), 0.0, atol=1e-15)


@pytest.mark.parametrize("period", [None, 1.5])
def test_interpolation(period):
    grid = Grid([0.0, 0.4, 1.0], period)
    Y = np.array([[1.0, 2.0, 0.0]])
    assert_allclose(Y @ grid.interpolation(grid.points), Y)
    assert_allclose(Y @ grid.interpolation([0.2, 0.7]), [[1.5, 1.0]])
    if period:
        assert_allclose(Y @ grid.interpolation([1.25, -0.25, 1.5, 3.2]), [[0.5, 0.5, 1.0, 1.5]])


def test_derivatives():
    points = np.array([0.0, 0.1, 0.4, 0.5, 1.0])
    assert_allclose(
        np.stack([points**2, 3 * points]) @ Grid(points).derivative(), [2 * points, np.full(5, 3.0)], atol=1e-12
    )
    grid = Grid(np.arange(200) / 200, period=1.0)
    wave = np.sin(2 * np.pi * grid.checked())
    assert_allclose(wave @ grid.derivative(), 2 * np.pi * np.cos(2 * np.pi * grid.checked()), atol=2e-3)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grid([0.0, 0.5, 0.2]).weights(), "must increase, but point 2 is 0.2 after 0.5: sort"),
        (lambda: Grid([0.0, 0.5, 0.5]).weights(), "must increase, but point 2 is 0.5 after 0.5"),
        (lambda: Grid([0.0]).weights(), "at least 2 points, got 1"),
        (lambda: Grid([]).weights(), "at least 2 points, got 0"),
        (lambda: Grid.regular(1), "at least 2 points, got 1"),
        (lambda: Grid([0.0, np.inf]).weights(), "must be finite, but point 1 is inf"),
        (lambda: Grid([np.nan, 1.0]).weights(), "must be finite, but point 0 is nan"),
        (lambda: Grid([[0.0, 1.0]]).weights(), r"sequence of numbers, got shape \(1, 2\)"),
        (lambda: Grid("ab").weights(), "must be numbers, got 'ab'"),
        (lambda: Grid([0.0, 1.0], period=1.0).weights(), "span less than the period 1, got 1: remove"),
        (lambda: Grid([0.0, 1.0], quadrature=[1.0, 0.0]).weights(), "2 positive and finite weights, one per point"),
        (lambda: Grid([0.0, 1.0]).interpolation([0.5, 1.5]), r"lie in \[0, 1\], the observed range; got 1.5$"),
        (lambda: Grid([0.0, 1.0]).interpolation([-2.0, 1.5]), r"the observed range; got -2$"),
        (lambda: Grid([0.0, 1.0]).interpolation([]), "sequence of finite numbers"),
    ],
)
def test_bad_grids(make, message):
    with pytest.raises(GridError, match=message):
        make()
