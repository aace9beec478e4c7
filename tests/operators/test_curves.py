"""Operators on curves: O(d) sums, eigenfunctions, other grids, errors."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import instances
from ovk.curves import Grid
from ovk.kernels import Gaussian, Laplacian, Matern, Periodic
from ovk.operators import Identity, Integral, MixedEffect, Multiplication
from ovk.operators.curves import CurveOperator, exponential, gaussian_on_circle

UNEVEN = Grid(np.sort(np.random.default_rng(3).uniform(0, 2, 60)))
CIRCLE = Grid((np.arange(80) + 0.5) / 80, period=1.0)
CURVES = instances.each([(name, T) for name, T in instances.OPERATORS if isinstance(T, CurveOperator)])


@pytest.mark.parametrize("kernel", [None, Laplacian(0.3), Matern(0.5, 0.8)])
def test_exponential_kernels_are_applied_by_recursion(kernel, monkeypatch):
    T = Integral(kernel, UNEVEN)
    Y = np.random.default_rng(0).standard_normal((7, 60))
    expected = Y @ T.dense()

    def forbidden(self):
        raise AssertionError("the matrix was formed")

    monkeypatch.setattr(Integral, "_matrix", forbidden)
    assert_allclose(T.apply(Y), expected, atol=1e-13)


@pytest.mark.parametrize(
    ("found", "kernel", "grid"),
    [
        (exponential(0.4, 0.0, 1.0, 6), Laplacian(0.4), Grid.regular(1500)),
        (gaussian_on_circle(0.1, 1.0, 7), Periodic(Gaussian(0.1), 1.0), CIRCLE),
    ],
    ids=["exponential", "circle"],
)
def test_known_eigenfunctions(found, kernel, grid):
    """T phi = lambda phi and <phi_i, phi_j> = delta_ij, up to the quadrature's error."""
    T = Integral(kernel, grid)
    phi = grid.roots()[:, None] * found.functions(grid.checked())
    assert_allclose(phi.T @ phi, np.eye(len(found.values)), atol=1e-5)
    assert_allclose(T.apply(phi.T), (phi * found.values).T, atol=1e-5)
    assert (np.diff(found.values) <= 1e-15).all()


@pytest.mark.parametrize(
    ("kernel", "grid"), [(None, Grid.regular(400)), (Periodic(Gaussian(0.1), 1.0), CIRCLE)], ids=["interval", "circle"]
)
def test_analytic_and_numerical_truncations_agree(kernel, grid):
    a, b = (Integral(kernel, grid, n_eigen=5, eigenfunctions=kind) for kind in ("analytic", "grid"))
    assert_allclose(a.dense(), b.dense(), atol=1e-5)
    points = np.linspace(0.01, 0.98, 17)
    assert_allclose(a.evaluation_on(a.grid, points), b.evaluation_on(b.grid, points), atol=2e-3)


@pytest.mark.parametrize("T", CURVES)
def test_on_its_own_grid_the_evaluation_is_the_operator(T):
    assert_allclose(T.evaluation_on(T.grid, T.grid.checked()) * T.grid.roots(), T.dense(), atol=1e-12)


@pytest.mark.parametrize("T", [Identity(5), MixedEffect(0.3, 5)])
def test_operators_without_a_grid_are_interpolated(T):
    grid = Grid.regular(5)
    y = np.random.default_rng(0).standard_normal((1, 5))
    points = np.array([0.1, 0.25, 0.6])
    expected = (T.apply(y) / grid.roots()) @ grid.interpolation(points)
    assert_allclose(y @ T.evaluation_on(grid, points), expected)


def test_integrals_do_not_depend_on_the_grid():
    """The error on a coarse grid falls by four when the spacing is halved."""

    def smooth(d):
        grid = Grid.regular(d)
        y = np.sin(3 * grid.checked())
        return (grid.roots() * y)[None] @ Integral(grid=grid).evaluation_on(grid, np.linspace(0, 1, 5))

    finest = smooth(6401)
    errors = [np.abs(smooth(d) - finest).max() for d in (21, 41, 81)]
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(4.0, rel=0.1)


def test_multiplication_between_points():
    t = np.array([0.0, 0.5, 1.0])
    grid, y = Grid(t), np.array([[1.0, 1.0, 1.0]])
    coordinates = y * grid.roots()
    assert_allclose(coordinates @ Multiplication(np.cos, grid).evaluation_on(grid, np.array([0.25])), [[np.cos(0.25)]])
    values = Multiplication(np.cos(t), grid).evaluation_on(grid, np.array([0.25]))
    assert_allclose(coordinates @ values, [[0.5 * (1 + np.cos(0.5))]])
    assert_allclose(Multiplication(grid=grid).dense(), np.diag(np.exp(-(t**2))))


def test_an_open_grid_is_filled_in():
    for T in (Integral(), Multiplication()):
        assert T.output_dim is None
        assert len(T.resolve(7).grid) == 7
        with pytest.raises(ValueError, match="requires a grid; estimators"):
            T.dense()


@pytest.mark.parametrize(
    ("T", "message"),
    [
        (Integral(lambda X, Z: -np.minimum(X, Z.T), Grid.regular(5)), "kernel of Integral must be positive semi-defin"),
        (Integral(lambda X, Z: X - Z.T, Grid.regular(5)), "kernel of Integral must be symmetric"),
        (Integral("rough", Grid.regular(5)), "kernel must be a scalar kernel or a function of two times"),
        (Integral(grid=Grid.regular(5), n_eigen=6), "n_eigen must be at most 5, the number of points, got 6"),
        (Integral(grid=Grid.regular(5), n_eigen=0), "n_eigen must be an integer >= 1, got 0"),
        (Integral(grid=Grid.regular(5), eigenfunctions="analytic"), "requires n_eigen"),
        (Integral(grid=Grid.regular(5), eigenfunctions="some"), "must be 'grid' or 'analytic'"),
        (
            Integral(Gaussian(1.0), Grid.regular(5), 2, "analytic"),
            "use eigenfunctions='grid'",
        ),
        (Multiplication([1.0, -1.0], [0.0, 1.0]), "non-negative and finite on the grid, got -1 at t = 1"),
        (Multiplication(np.log, [0.0, 1.0]), "got -inf at t = 0"),
        (Multiplication([1.0], [0.0, 1.0]), r"2 numbers, one per point, got shape \(1,\)"),
        (Integral(grid=[0.0]), "at least 2 points"),
    ],
)
@pytest.mark.filterwarnings("ignore:divide by zero")
def test_bad_parameters(T, message):
    with pytest.raises(ValueError, match=message):
        T.eigh()
