"""Irregularly sampled curves on a common grid."""

import time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from ovk import FunctionalRidgeCV
from ovk.curves import Grid, GridError, ProductGrid, common_grid


def irregular(n, least, most, rng, full=0):
    """Times and noiseless values of sine waves, the first `full` of them on a grid of 80 points."""
    times = [np.linspace(0, 1, 80) if i < full else rng.uniform(0, 1, rng.integers(least, most)) for i in range(n)]
    return times, [np.sin(2 * np.pi * t) for t in times]


def test_curves_of_their_own_points_meet():
    grid, Y = common_grid([[0.0, 1.0], [0.5, 1.0, 2.0]], [[1.0, 2.0], [3.0, 4.0, 5.0]])
    assert grid.points.tolist() == [0.0, 0.5, 1.0, 2.0]
    assert np.array_equal(Y, [[1.0, np.nan, 2.0, np.nan], [np.nan, 3.0, 4.0, 5.0]], equal_nan=True)


def test_few_points_are_taken_as_they_are():
    rng = np.random.default_rng(0)
    times, values = irregular(10, 20, 21, rng)
    assert len(common_grid(times[:2], values[:2])[0]) == 40
    assert len(common_grid(times, values)[0]) == 50
    grid, Y = common_grid(times, values, points="all")
    assert len(grid) == 200
    assert np.count_nonzero(~np.isnan(Y)) == 200


@pytest.mark.parametrize("within", ["mean", "nearest"])
def test_bins_hold_values_near_their_centre(within):
    times, values = irregular(60, 15, 40, np.random.default_rng(1))
    grid, Y = common_grid(times, values, points=40, within=within)
    assert_allclose(np.diff(grid.points), (grid.points[-1] - grid.points[0]) / 39)
    for row, t in zip(Y, times, strict=True):
        near = np.abs(t[:, None] - grid.points).min(axis=0) <= 0.5 * (grid.points[1] - grid.points[0])
        assert np.array_equal(~np.isnan(row), near)
    error = np.nanmax(np.abs(Y - np.sin(2 * np.pi * grid.points)))
    # Half a bin at the steepest slope; means are moved to the centre.
    assert error <= 2 * np.pi * 0.5 / 39
    if within == "mean":
        assert np.nanmedian(np.abs(Y - np.sin(2 * np.pi * grid.points))) < 0.01


def test_means_and_nearest_values():
    times, values = [[0.0, 0.2, 1.0]], [[1.0, 3.0, 5.0]]
    assert_allclose(common_grid(times, values, points=2)[1], [[2.0, 5.0]])
    assert_allclose(common_grid(times, values, points=2, within="nearest")[1], [[1.0, 5.0]])
    # The second curve has means 2 at 0.1 and 6 at 0.55, and at the centre 0.5 the value on the line between them.
    found = common_grid([[0.0, 1.0], [0.0, 0.2, 0.55]], [[0.0, 0.0], [1.0, 3.0, 6.0]], points=3)[1]
    assert_allclose(found, [[0.0, np.nan, 0.0], [2.0, 2.0 + 4.0 * 0.4 / 0.45, np.nan]])


def test_an_empty_curve_and_values_that_are_missing():
    for within in ("mean", "nearest"):
        for points in (3, "all"):
            times, values = [[0.0, 0.5, 1.0], [], [0.5]], [[1.0, np.nan, 2.0], [], [7.0]]
            _, Y = common_grid(times, values, points=points, within=within)
            expected = [[1.0, np.nan, 2.0], [np.nan] * 3, [np.nan, 7.0, np.nan]]
            assert np.array_equal(Y, expected, equal_nan=True)
            assert common_grid(times[:2], values[:2], points=points)[1].shape == (2, 2)


@pytest.mark.parametrize("within", ["mean", "nearest"])
def test_a_period_closes(within):
    grid, Y = common_grid([[0.0, 0.24, 0.5, 0.99]], [[0.0, 1.0, 0.0, 0.0]], period=1.0, points=4, within=within)
    assert_allclose(grid.points, [0.0, 0.25, 0.5])
    assert_allclose(Y[0, [1, 2]], [1.0, 0.0], atol=0.05)
    assert_allclose(Y[0, 0], 0.0, atol=0.03)


def test_times_are_folded_into_the_period():
    grid, Y = common_grid([[0.0, 0.5, 1.0], [0.25, 1.5]], [[1.0, 2.0, 4.0], [5.0, 6.0]], period=1.0)
    assert_allclose(grid.points, [0.0, 0.25, 0.5])
    assert grid.period == 1.0
    assert_allclose(Y, [[2.5, np.nan, 2.0], [np.nan, 5.0, 6.0]])
    # Rounding: 1.3 less 1 is not quite 0.3, and -1e-17 not quite 1.
    grid, Y = common_grid([[0.3, 1.3, 2.0], [0.3, -1e-17, 0.7]], [[1.0, 2.0, 3.0], [4.0, np.nan, 5.0]], period=1.0)
    assert_allclose(grid.points, [0.0, 0.3, 0.7], atol=1e-12)
    assert_allclose(Y, [[3.0, 1.5, np.nan], [np.nan, 4.0, 5.0]])
    # What fits into a period stays where it is.
    assert_allclose(common_grid([[5.0, 5.5]], [[1.0, 2.0]], period=1.0)[0].points, [5.0, 5.5])


@pytest.mark.parametrize("within", ["mean", "nearest"])
def test_new_curves_on_an_old_grid(within):
    times, values = irregular(60, 15, 40, np.random.default_rng(1))
    grid, Y = common_grid(times, values, points=30, within=within)
    same, again = common_grid(times[:9], values[:9], grid=grid, within=within)
    assert same is grid
    assert_allclose(again, Y[:9])
    # Of all points at which a curve was seen it has its own values.
    union, Y = common_grid(times, values, points="all")
    assert_allclose(common_grid(times, values, grid=union.points, within=within)[1], Y)


def test_bins_of_an_irregular_grid():
    times, values = [[0.0, 0.45, 0.6, 3.5, 5.4]], [[1.0, 2.0, 4.0, 5.0, 6.0]]
    found = common_grid(times, values, grid=[0.5, 1.0, 5.0], within="nearest")[1]
    assert_allclose(found, [[2.0, np.nan, 6.0]])
    # The means 7/3 at 0.35 and 5.5 at 4.45, moved to 0.5 along the line between them, and to 5 where it ends.
    found = common_grid(times, values, grid=[0.5, 1.0, 5.0])[1]
    assert_allclose(found, [[7 / 3 + (5.5 - 7 / 3) * (0.5 - 0.35) / (4.45 - 0.35), np.nan, 5.5]])
    # Around a period of 6, 5.9 is nearest to 0.5, 8.9 is 2.9 and nearest to 1, and 3.1 to 5.
    circle = Grid([0.5, 1.0, 5.0], period=6.0)
    for within in ("mean", "nearest"):
        found = common_grid([[5.9, 8.9, 3.1]], [[2.0, 2.0, 2.0]], grid=circle, within=within)[1]
        assert_allclose(found, [[2.0, 2.0, 2.0]])
        found = common_grid([[5.9, -3.1]], [[1.0, 1.0]], grid=circle, within=within)[1]
        assert_allclose(found, [[1.0, 1.0, np.nan]])


@pytest.mark.long
def test_curves_that_are_mostly_full_are_quick():
    """40 irregular curves among 120 once led to a grid of 1,169 points and a fit of a minute."""
    rng = np.random.default_rng(2)
    times, values = irregular(120, 15, 41, rng, full=80)
    assert len(common_grid(times, values, points="all")[0]) > 1000
    grid, Y = common_grid(times, values)
    assert 20 <= len(grid) <= 80
    assert np.count_nonzero(~np.isnan(Y)) <= 4000
    start = time.perf_counter()
    model = FunctionalRidgeCV(grid=grid).fit(rng.standard_normal((120, 2)), Y)
    assert time.perf_counter() - start < 30
    assert_allclose(model.predict(np.zeros((1, 2)))[0], np.sin(2 * np.pi * grid.points), atol=0.05)


def test_empty_bins_are_left_out():
    """A column without any value could not be fitted."""
    times, values = [[0.0, 0.1, 0.9], [0.0, 1.0]], [[1.0, 2.0, 3.0], [4.0, 5.0]]
    grid, Y = common_grid(times, values, points=11)
    assert_allclose(grid.points, [0.0, 0.1, 0.9, 1.0])
    assert_allclose(Y, [[1.0, 2.0, 3.0, np.nan], [4.0, np.nan, np.nan, 5.0]])
    rng = np.random.default_rng(0)
    for _ in range(20):
        times, values = irregular(20, 5, 8, rng)
        assert not np.isnan(common_grid(times, values)[1]).all(axis=0).any()


def test_sparse_curves_keep_their_values():
    times, values = irregular(200, 5, 6, np.random.default_rng(3))
    grid, Y = common_grid(times, values)
    assert len(grid) == 50
    assert np.count_nonzero(~np.isnan(Y)) > 900


def test_curves_that_fill_all_bins_keep_their_number_of_points():
    rng = np.random.default_rng(4)
    times = [np.linspace(0, 1, 90) + rng.uniform(-0.001, 0.001, 90) for _ in range(60)]
    grid, Y = common_grid(times, [np.sin(each) for each in times])
    assert len(grid) == 90
    assert not np.isnan(Y).any()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: common_grid([[0.0]], []), "same number of curves, got 1 and 0"),
        (lambda: common_grid([[0.0, 1.0]], [[1.0]]), "curve 0 must have one value per point"),
        (lambda: common_grid([[0.0, 0.0]], [[1.0, 2.0]]), "curve 0 has two values at the same point"),
    ],
)
def test_bad_curves(make, message):
    with pytest.raises(GridError, match=message):
        make()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"points": "some"}, "points must be a number, 'auto' or 'all', got 'some'"),
        ({"points": 1}, "points must be an integer >= 2, got 1"),
        ({"points": 2.5}, "points must be an integer >= 2, got 2.5"),
        ({"within": "median"}, "within must be 'mean' or 'nearest', got 'median'"),
        ({"period": 0.0}, "period must be"),
        ({"grid": [0.0, 1.0], "points": 5}, "grid and points cannot be combined"),
        (
            {"grid": Grid([0.0, 1.0], period=2.0), "period": 3.0},
            "grid has the period 2.0, got period=3.0: omit period",
        ),
        ({"grid": Grid([0.0, 1.0]), "period": 3.0}, "grid has the period None"),
        ({"grid": ProductGrid.regular((2, 2))}, "must be a grid of one variable"),
        ({"grid": [0.0, 0.1, 0.3]}, r"curve 0: grid points must lie in \[-0.1, 0.4\], half a grid spacing"),
    ],
)
def test_bad_arguments(given, message):
    with pytest.raises(ValueError, match=message):
        common_grid([[0.0, 1.0]], [[1.0, 2.0]], **given)
