"""Operators learned from pairs of functions: exact recovery, and agreement with slow implementations."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ovk import GradientMetric, OperatorRidge, load, save
from ovk.base import SingularSystemError
from ovk.batch.operator_learning.exact import FactoredRidge, symmetric_gram
from ovk.batch.operator_learning.search import KernelCandidate, fill_gaps, leave_one_out, stretch
from ovk.batch.ridge.ridge_system import SinglePrecisionSystem
from ovk.curves import Grid, PrincipalComponents, ProductGrid
from ovk.kernels import Gaussian, Linear, Matern

RNG = np.random.default_rng(0)
K = np.arange(1, 4)
CIRCLE = Grid(np.arange(24) / 24, period=1.0)


def waves(t):
    return np.vstack([np.cos(2 * np.pi * K[:, None] * t), np.sin(2 * np.pi * K[:, None] * t)])


def heat(a, t):
    """The solution of the heat equation on the points t with initial coefficients a."""
    return (a * np.tile(np.exp(-0.05 * K**2), 2)) @ waves(t)


def bent(a, t):
    """A smooth nonlinear operator."""
    return np.sin(a[:, :1] + 2 * np.pi * t) + 0.3 * (a[:, 1:2] ** 2) * np.cos(2 * np.pi * t)


A, NEW = RNG.standard_normal((60, 6)), RNG.standard_normal((7, 6))
X, T = A @ waves(CIRCLE.checked()), CIRCLE.checked()
#: One kernel, one ridge, one decay: nothing to choose.
FIXED = {"kernel": Gaussian(1.5), "alpha": 1e-6, "decay": 0.5, "input_grid": CIRCLE, "output_grid": CIRCLE}


@pytest.fixture(scope="module")
def model():
    return OperatorRidge(**FIXED).fit(X, bent(A, T))


def test_a_linear_operator_is_learned_from_clean_pairs_and_predicted_between_the_points():
    model = OperatorRidge(input_grid=CIRCLE, output_grid=CIRCLE).fit(X, heat(A, T))
    new = NEW @ waves(T)
    assert np.linalg.norm(model.predict(new) - heat(NEW, T)) < 1e-6 * np.linalg.norm(heat(NEW, T))
    errors = []
    for size in (12, 24, 48):
        t = np.arange(size) / size
        circle = Grid(t, period=1.0)
        coarse = OperatorRidge(Linear(), 1e-11, decay=1.0, input_grid=circle, output_grid=circle)
        fine = np.linspace(0, 1, 90, endpoint=False)
        found = coarse.fit(A @ waves(t), heat(A, t)).predict(NEW @ waves(t), grid=fine)
        errors.append(np.abs(found - heat(NEW, fine)).max())
    # cubic splines: of fourth order
    assert errors[1] < errors[0] / 8
    assert errors[2] < errors[1] / 8


def test_the_solution_is_that_of_kernel_ridge_in_coordinates(model):
    Y = bent(A, T)
    basis, outputs = PrincipalComponents.of(X, CIRCLE), PrincipalComponents.of(Y, CIRCLE)
    s = stretch(basis.scales, 0.5)
    Z, N = (basis.coordinates(F) / basis.scales * s for F in (X, NEW @ waves(T)))
    n = len(Z)
    # The bordered system of an unpenalised intercept.
    border = np.block([[Gaussian(1.5)(Z) + 1e-6 * np.eye(n), np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
    solution = np.linalg.solve(border, np.vstack([outputs.coordinates(Y), np.zeros((1, len(outputs.scales)))]))
    expected = outputs.functions(np.hstack([Gaussian(1.5)(N, Z), np.ones((len(N), 1))]) @ solution)
    np.testing.assert_allclose(model.predict(NEW @ waves(T)), expected, atol=1e-6)
    white = np.linalg.solve(border, np.vstack([Gaussian(1.5)(Z, N), np.ones((1, len(N)))]))
    variance = 1.0 + 1e-6 - np.einsum("ij,ij->j", np.vstack([Gaussian(1.5)(Z, N), np.ones((1, len(N)))]), white)
    ridge = FactoredRidge.of(Gaussian(1.5), Z, 1e-6)
    np.testing.assert_allclose(ridge.variances(N), variance, rtol=1e-4, atol=1e-9)


def test_leave_one_out_residuals_equal_refits():
    Y = bent(A, T)[:20]
    outputs = PrincipalComponents.of(Y)
    S, scales = outputs.coordinates(Y), np.array([2.0, 1.0, 0.5, 0.2, 0.1, 0.1])
    (found,) = leave_one_out(KernelCandidate(Linear() + Gaussian(1.0), 0.5), A[:20], scales, S, [1e-3])
    # The same by eigenvectors, which are used for many ridges.
    many = leave_one_out(KernelCandidate(Linear() + Gaussian(1.0), 0.5), A[:20], scales, S, [1e-4, 1e-3, 1e-2, 1e-1])[1]
    np.testing.assert_allclose(many.residuals, found.residuals, atol=1e-9)
    np.testing.assert_allclose(many.amplitudes, found.amplitudes, rtol=1e-8)
    Z = A[:20] * stretch(scales, 0.5)
    for i in (0, 7):
        rest = np.arange(20) != i
        ridge = FactoredRidge.of(Linear() + Gaussian(1.0), Z[rest], 1e-3)
        C, b = ridge.solve(S[rest])
        left = (Linear() + Gaussian(1.0))(Z[i : i + 1], Z[rest]) @ C + b
        np.testing.assert_allclose(found.residuals[i], (S[i] - left)[0], atol=1e-9)
        np.testing.assert_allclose(found.variances[i], ridge.variances(Z[i : i + 1])[0], rtol=1e-8)


def test_the_leave_one_out_error_is_relative_to_the_root_mean_square(model):
    """In coordinates of the outputs, from refits without each function."""
    Z, S = model.inputs_.coordinates(X) / model.inputs_.unit, model.outputs_.coordinates(bent(A, T))
    (found,) = leave_one_out(KernelCandidate(Gaussian(1.5), 0.5), Z, model.inputs_.scales, S, [1e-6])
    expected = np.sqrt(np.sum(found.residuals**2) / np.sum(S**2))
    assert model.loo_error_ == pytest.approx(expected, rel=1e-8)
    assert 0.01 < expected < 0.9


def test_the_chosen_candidate_has_the_smallest_error():
    Y, new = bent(A, T), NEW @ waves(T)
    error = [
        np.linalg.norm(
            OperatorRidge(kernel, input_grid=CIRCLE, output_grid=CIRCLE).fit(X, Y).predict(new) - bent(NEW, T)
        )
        for kernel in (None, Linear())
    ]
    assert error[0] < 0.5 * error[1]


def test_derivatives_agree_with_finite_differences(model):
    x, step = NEW[:2] @ waves(T), 1e-5
    J = model.jacobian(x)
    assert J.shape == (2, 24, 24)
    H = RNG.standard_normal(x.shape)
    numeric = (model.predict(x + step * H) - model.predict(x - step * H)) / (2 * step)
    np.testing.assert_allclose(np.einsum("ndp,np->nd", J, H), numeric, atol=1e-5)
    np.testing.assert_allclose(model.derivative(x, H), numeric, atol=1e-5)


def test_bands_have_their_nominal_coverage():
    a, b = RNG.standard_normal((150, 6)), RNG.standard_normal((100, 6))
    Y = bent(a, T) + 0.1 * RNG.standard_normal((150, 24))
    truth = bent(b, T) + 0.1 * RNG.standard_normal((100, 24))
    model = OperatorRidge([Gaussian(1.5), Gaussian(3.0)], input_grid=CIRCLE, output_grid=CIRCLE, decay=[0.0, 1.0])
    model.fit(a @ waves(T), Y)
    mean, std = model.predict(b @ waves(T), return_std=True)
    assert std.shape == mean.shape
    assert (std > 0).all()
    for level in (0.5, 0.9):
        low, high = model.predict_bands(b @ waves(T), level)
        assert np.mean((low <= truth) & (truth <= high)) == pytest.approx(level, abs=0.07)
    low, high = model.predict_bands(b @ waves(T), grid=np.array([0.1, 0.5]))
    assert low.shape == (100, 2)


def test_gaps_in_outputs_are_filled_from_the_others():
    Y = heat(A, T)
    gaps = np.where(RNG.uniform(size=Y.shape) < 0.4, np.nan, Y)
    filled = fill_gaps(gaps)
    assert np.array_equal(filled[~np.isnan(gaps)], Y[~np.isnan(gaps)])
    assert np.linalg.norm(filled - Y) < 0.05 * np.linalg.norm(Y)
    gaps[3] = np.nan
    model = OperatorRidge(Linear(), decay=1.0, input_grid=CIRCLE, output_grid=CIRCLE).fit(X, gaps)
    assert np.linalg.norm(model.predict(NEW @ waves(T)) - heat(NEW, T)) < 0.1 * np.linalg.norm(heat(NEW, T))


def test_fields_groups_and_files(tmp_path):
    grid = ProductGrid([CIRCLE, Grid.regular(6)])
    P = grid.checked()
    Y = np.sin(A[:, :1] + 2 * np.pi * P[:, 0]) * np.exp(-P[:, 1] * A[:, 1:2] ** 2)
    model = OperatorRidge(
        input_grid=CIRCLE, output_grid=grid, decay=[0.5, 1.0], kernel=[Gaussian(1.5), Matern(2.5, 3.0)]
    )
    model.fit(X, Y)
    assert model.groups_[0][0] == 0
    assert model.groups_[-1][1] == len(model.outputs_.scales)
    assert len(model.groups_) == len(model.kernels_) == len(model.alphas_) == len(model.decays_) <= 3
    finer = ProductGrid([Grid(np.arange(40) / 40, period=1.0), Grid.regular(11)])
    assert model.predict(X[:2], grid=finer).shape == (2, 440)
    save(model, tmp_path / "operator.ovk")
    again = load(tmp_path / "operator.ovk")
    np.testing.assert_array_equal(again.predict(X[:3]), model.predict(X[:3]))
    np.testing.assert_array_equal(again.predict_bands(X[:3])[0], model.predict_bands(X[:3])[0])


def test_groups_with_the_same_kernel_have_their_own_ridges():
    """The first coordinate is a smooth function with noise, the second is noise."""
    noise = np.random.default_rng(1).standard_normal((60, 2))
    Y = np.column_stack([2.0 * A[:, 0], np.zeros(60)]) + noise
    model = OperatorRidge(Gaussian(1.5), [1e-1, 1e2], decay=0.5, groups=2, input_grid=CIRCLE).fit(X, Y)
    assert model.alphas_ == [1e-1, 1e2]
    S = model.outputs_.coordinates(Y)
    for (a, b), alpha in zip(model.groups_, model.alphas_, strict=True):
        Z = model.Z_fit_ * stretch(model.scales_, 0.5)
        C, intercept = FactoredRidge.of(Gaussian(1.5), Z, alpha).solve(S[:, a:b])
        np.testing.assert_allclose(model.dual_coef_[:, a:b], C, atol=1e-9)
        np.testing.assert_allclose(model.intercept_[a:b], intercept, atol=1e-9)


def test_a_metric_can_be_learned():
    model = OperatorRidge(
        input_grid=CIRCLE, output_grid=CIRCLE, metric=GradientMetric(), kernel=Gaussian(1.5), alpha=1e-4
    )
    model.fit(X, bent(A, T))
    # Only two of six coefficients matter: the metric shrinks the others.
    values = np.linalg.eigvalsh(model.metric_.components_)
    assert values[2] < 0.6 * values[-1]
    x, step, H = NEW[:1] @ waves(T), 1e-5, RNG.standard_normal((1, 24))
    numeric = (model.predict(x + step * H) - model.predict(x - step * H)) / (2 * step)
    np.testing.assert_allclose(model.derivative(x, H), numeric, atol=1e-5)


def test_a_gram_computed_in_blocks_is_complete():
    Z = RNG.standard_normal((1500, 3))
    np.testing.assert_allclose(symmetric_gram(Gaussian(1.0) + Linear(), Z), (Gaussian(1.0) + Linear())(Z), atol=1e-12)


@pytest.mark.parametrize("n", [10, 40])
def test_principal_components_of_wide_and_narrow_tables_agree_with_the_svd(n):
    Y = RNG.standard_normal((n, 24)) @ np.diag(0.5 ** np.arange(24))
    basis = PrincipalComponents.of(Y, tol=1e-3)
    singular = np.linalg.svd(Y - Y.mean(axis=0), compute_uv=False)
    J = len(basis.scales)
    np.testing.assert_allclose(basis.scales, singular[:J] / np.sqrt(n), rtol=1e-6)
    np.testing.assert_allclose(basis.vectors.T @ basis.vectors, np.eye(J), atol=1e-12)
    left = np.linalg.norm(Y - basis.functions(basis.coordinates(Y))) / np.linalg.norm(Y - Y.mean(axis=0))
    assert left == pytest.approx(basis.beyond, rel=1e-4)
    assert left <= 1e-3


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"kernel": "gaussian"}, "kernel must be a scalar kernel"),
        ({"alpha": 0.0}, "alphas"),
        ({"decay": -1.0}, "decay"),
        ({"input_grid": [0.0, 1.0]}, "input_grid must have one point for each of the 24 columns of X, got 2"),
        ({"tol": -0.1}, "tol"),
        ({"groups": 0}, "groups"),
        ({"solver": "qr"}, "solver must be 'cholesky' or 'cg', got 'qr'"),
        ({"dtype": "float16"}, "dtype must be 'float64' or 'float32', got 'float16'"),
    ],
)
def test_bad_parameters_raise_and_do_not_change_the_model(wrong, match, model):
    before = model.predict(X[:2])
    params = model.get_params(deep=False)
    with pytest.raises(ValueError, match=match):
        model.set_params(**wrong).fit(X, bent(A, T))
    model.set_params(**params)
    np.testing.assert_array_equal(model.predict(X[:2]), before)
    with pytest.raises(ValueError, match="H must have the shape of X"):
        model.derivative(X[:2], X[:3])


def test_conjugate_gradient_gives_the_same():
    options = {**FIXED, "alpha": 1e-3}
    exact = OperatorRidge(**options).fit(X, bent(A, T))
    tiled = OperatorRidge(**options, solver="cg", rank=40).fit(X, bent(A, T))
    np.testing.assert_allclose(tiled.predict(X), exact.predict(X), atol=1e-6)


def test_a_single_precision_factor_gives_a_double_precision_solution():
    options = {**FIXED, "alpha": 1e-4}
    exact = OperatorRidge(**options).fit(X, bent(A, T))
    single = OperatorRidge(**options, dtype="float32").fit(X, bent(A, T))
    np.testing.assert_allclose(
        single.dual_coef_, exact.dual_coef_, rtol=1e-5, atol=1e-6 * np.abs(exact.dual_coef_).max()
    )
    np.testing.assert_allclose(single.predict(X), exact.predict(X), atol=1e-7)
    factor = SinglePrecisionSystem(Gaussian(1.5), single.Z_fit_, np.ones(60), 1.0, 1e-4)
    assert factor.jitter == 0.0
    R = RNG.standard_normal((60, 3))
    alone = factor.precondition(R)
    assert 1e-8 < np.linalg.norm((Gaussian(1.5)(single.Z_fit_) + 1e-4 * np.eye(60)) @ alone - R) < 1e-2
    # With coinciding points, a tiny ridge is lost to rounding.
    assert (
        SinglePrecisionSystem(Gaussian(9.0), np.repeat(single.Z_fit_, 3, axis=0), np.ones(180), 1.0, 1e-12).jitter > 0
    )


def test_an_indefinite_matrix_raises_in_single_precision_too():
    class Negative:
        diag = staticmethod(lambda Z: np.ones(len(Z)))
        __call__ = staticmethod(lambda Z, W: -Gaussian(1.5)(Z, W))

    with pytest.raises(SingularSystemError, match="or set dtype='float64'"):
        SinglePrecisionSystem(Negative(), X, np.ones(len(X)), 1.0, 1e-4)


def test_mostly_missing_outputs_warn():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 40))
    hidden = rng.uniform(size=Y.shape)
    with pytest.warns(UserWarning, match="7[0-9]% of the output values are missing; filling them can be slow"):
        fill_gaps(np.where(hidden < 0.75, np.nan, Y))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fill_gaps(np.where(hidden < 0.3, np.nan, Y))


def test_variances_of_groups_of_coordinates_add_up():
    model = OperatorRidge(input_grid=CIRCLE, kernel=Gaussian(1.5), decay=0.5, alpha=1e-3, groups=2).fit(X, bent(A, T))
    (a, b), (c, d) = model.groups_
    whole = model.predict(NEW @ waves(T), return_std=True)[1]
    amplitudes, parts = model.amplitudes_, []
    for start, stop in ((a, b), (c, d)):
        model.amplitudes_ = np.where((np.arange(d) >= start) & (np.arange(d) < stop), amplitudes, 0.0)
        parts.append(model.predict(NEW @ waves(T), return_std=True)[1])
    assert all((part > 0).any() for part in parts)
    np.testing.assert_allclose(whole**2, parts[0] ** 2 + parts[1] ** 2, rtol=1e-10)


def test_gaps_in_a_table_of_few_factors_are_filled_with_its_values():
    rng = np.random.default_rng(0)
    Y = rng.standard_normal((60, 2)) @ rng.standard_normal((2, 25)) + np.linspace(0.0, 3.0, 25)
    holes = np.where(rng.uniform(size=Y.shape) < 0.2, np.nan, Y)
    found = fill_gaps(holes)
    np.testing.assert_array_equal(found[~np.isnan(holes)], Y[~np.isnan(holes)])
    assert np.abs(found - Y).max() < 0.05 * Y.std()
