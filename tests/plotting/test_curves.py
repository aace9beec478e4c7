"""Displays of curves and of learned weights."""

import numpy as np
import pytest

from ovk import FunctionalRidge, FunctionalRidgeCV, MovKL
from ovk.curves import Grid, ProductGrid
from ovk.kernels import Gaussian, Linear
from ovk.operators import Identity, Integral
from ovk.plotting import FunctionalPredictionDisplay, KernelWeightsDisplay, LeaveOneOutDisplay, PredictionDisplay

T = np.linspace(0, 1, 12)
X = np.linspace(-1, 1, 15)[:, None]
Y = np.sin(3 * T + X)


def fitted_points(display):
    """Indices of the drawn points that belong to the fitted grid."""
    return np.isin(display.points.round(12), T.round(12))


def deviations(display):
    """The standard deviations in the band of a display."""
    low, high = display.band
    np.testing.assert_allclose(low + high, 2 * display.mean)
    return (high - low) / 4


def test_a_band_of_a_level():
    model = FunctionalRidge(alpha=0.1).fit(X, Y)
    display = FunctionalPredictionDisplay.from_estimator(model, X[:3], Y[:3], level=0.8)
    found = model.predict_interval(X[:3], 0.8)
    np.testing.assert_allclose([ends[:, fitted_points(display)] for ends in display.band], (found.lower, found.upper))
    edges = display.axes_[0].collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edges.min(), edges.max()], [display.band[0][0].min(), display.band[1][0].max()])
    assert "80% interval" in [text.get_text() for text in display.figure_.legends[0].get_texts()]


def test_curves_with_bands():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(X, Y)
    display = FunctionalPredictionDisplay.from_estimator(model, X[:5], Y[:5], names=list("abcde"))
    mean, std = model.predict(X[:5], return_std=True)
    np.testing.assert_allclose(display.mean[:, fitted_points(display)], mean)
    np.testing.assert_allclose(deviations(display)[:, fitted_points(display)], std)
    assert [axes.get_title() for axes in display.axes_[:5]] == list("abcde")
    assert not display.figure_.axes[5].get_visible()
    assert len(display.axes_[0].lines) == 2
    assert len(display.axes_[0].collections) == 1
    bare = FunctionalPredictionDisplay.from_estimator(model, X[:2], band=False)
    assert bare.band is None
    assert len(bare.axes_[0].lines) == 1


def test_where_curves_are_drawn():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(X, Y)
    display = FunctionalPredictionDisplay.from_estimator(model, X[:2], Y[:2])
    assert len(display.points) > 200
    assert (display.points.min(), display.points.max()) == (T[0], T[-1])
    np.testing.assert_allclose(display.mean, model.predict(X[:2], grid=display.points))
    given = FunctionalPredictionDisplay.from_estimator(model, X[:2], grid=[0.1, 0.2])
    np.testing.assert_allclose(given.points, [0.1, 0.2])
    mean, std = model.predict(X[:2], return_std=True, grid=[0.1, 0.2])
    np.testing.assert_allclose((given.mean, deviations(given)), (mean, std))


@pytest.mark.parametrize(("start", "first"), [(0.0, 0.0), (0.05, 0.0), (-0.3, -0.3), (7.0, 7.0)])
def test_a_closed_curve_is_drawn_over_its_period(start, first):
    times = start + np.arange(12) / 12
    closed = np.sin(2 * np.pi * times + X)
    model = FunctionalRidge(alpha=0.01, grid=Grid(times, period=1.0)).fit(X, closed)
    display = FunctionalPredictionDisplay.from_estimator(
        model, X[:2], ([[first, first + 1, first + 2.25]] * 2, [[0, 1, 2]] * 2)
    )
    np.testing.assert_allclose([display.points.min(), display.points.max()], [first, first + 1.0])
    np.testing.assert_allclose(display.mean[:, 0], display.mean[:, -1])
    np.testing.assert_allclose(deviations(display)[:, 0], deviations(display)[:, -1])
    np.testing.assert_allclose(display.observed[0][0], [first, first + 1.0, first + 0.25])


def test_observations_are_dots_at_their_own_times():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(X, Y)
    gaps = Y[:3].copy()
    gaps[1, 3:] = np.nan
    display = FunctionalPredictionDisplay.from_estimator(model, X[:3], gaps, xlabel="hours", ylabel="degrees")
    dots = display.axes_[1].lines[1]
    assert dots.get_linestyle() == "None"
    assert dots.get_marker() == "o"
    np.testing.assert_allclose(dots.get_xydata(), np.column_stack([T[:3], Y[1, :3]]))
    assert [axes.get_xlabel() for axes in display.axes_] == ["hours"] * 3
    assert [axes.get_ylabel() for axes in display.axes_] == ["degrees", "", ""]
    own = [[0.1, 0.25], [0.5], [0.3, 0.6, 0.7]], [[1.0, 2.0], [3.0], [4.0, np.nan, 6.0]]
    display = FunctionalPredictionDisplay.from_estimator(model, X[:3], own, max_curves=3)
    np.testing.assert_allclose(display.axes_[0].lines[1].get_xydata(), [[0.1, 1.0], [0.25, 2.0]])
    np.testing.assert_allclose(display.axes_[2].lines[1].get_xydata(), [[0.3, 4.0], [0.7, 6.0]])
    with pytest.raises(ValueError, match="a curve for each of the 2 rows of X, got 3 and 3"):
        FunctionalPredictionDisplay.from_estimator(model, X[:2], own)
    with pytest.raises(ValueError, match=r"a value for each time of curve 0, got shapes \(2,\) and \(1,\)"):
        FunctionalPredictionDisplay.from_estimator(model, X[:1], ([[0.1, 0.2]], [[1.0]]))
    with pytest.raises(ValueError, match="got a tuple of 3"):
        FunctionalPredictionDisplay.from_estimator(model, X[:3], (Y[0], Y[1], Y[2]))


def test_leave_one_out_predictions_of_training_curves():
    model = FunctionalRidgeCV(grid=T).fit(X, np.where(np.arange(12) == X.round() + 5, np.nan, Y))
    display = FunctionalPredictionDisplay.from_leave_one_out(model, max_curves=4)
    seen, mean, std = model.loo_curves([0, 4, 9, 14])
    np.testing.assert_allclose((display.mean, deviations(display)), (mean, std))
    np.testing.assert_allclose(display.observed[1][2], seen[2][~np.isnan(seen[2])])
    assert display.names[1] == "row 4, left out"


def test_many_curves_are_cut_and_only_the_lowest_panels_have_a_label():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(X, Y)
    display = FunctionalPredictionDisplay.from_estimator(model, X, Y, names=list("abcdefghijklmno"))
    assert len(display.mean) == len(display.observed[0]) == len(display.observed[1]) == 12
    six = FunctionalPredictionDisplay.from_estimator(model, X, Y, band=False, max_curves=6)
    assert [axes.get_xlabel() for axes in six.axes_] == ["", "", "t", "t", "t", "t"]
    with pytest.raises(ValueError, match="max_curves must be an integer >= 1, got 0"):
        FunctionalPredictionDisplay.from_estimator(model, X, max_curves=0)


def test_candidates_of_curves_have_names():
    model = FunctionalRidgeCV(grid=T).fit(X, Y)
    assert LeaveOneOutDisplay.from_estimator(model).labels[:2] == ["Laplacian(1.0)", "Gaussian(0.05)"]
    model = FunctionalRidgeCV(grid=T, n_eigen=[2, 4]).fit(X, Y)
    assert LeaveOneOutDisplay.from_estimator(model).labels == ["2 eigenfunctions", "4 eigenfunctions"]


def test_the_error_for_several_inputs_names_the_display_of_curves():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(np.hstack([X, X**2]), Y)
    with pytest.raises(ValueError, match="one input, got 2: use FunctionalPredictionDisplay"):
        PredictionDisplay.from_estimator(model)


def test_curves_need_a_grid():
    plane = FunctionalRidge(grid=ProductGrid.regular((3, 4))).fit(X, Y)
    with pytest.raises(ValueError, match="requires a grid of one variable: for several, draw"):
        FunctionalPredictionDisplay.from_estimator(plane, X)
    with pytest.raises(ValueError, match="requires a model that was fitted with a grid"):
        FunctionalPredictionDisplay.from_estimator(FunctionalRidge().fit(X, Y[:, 0]), X)


def test_weights_by_operator_and_scalar_kernel():
    kernels = [Gaussian(0.5) * Identity(), Linear() * Identity(), 2.0 * Linear() * Integral(n_eigen=3)]
    model = MovKL(kernels, 0.1, grid=T).fit(X, Y)
    display = KernelWeightsDisplay.from_estimator(model)
    assert display.operators == ["Identity", "Integral 3"]
    assert display.scalars == ["Gaussian 0.5", "Linear"]
    np.testing.assert_allclose(display.weights[0], model.weights_[:2])
    np.testing.assert_allclose(display.weights[1], [np.nan, model.weights_[2]])
    assert len(display.ax_.texts) == 3


def test_two_scales_of_a_kernel_with_one_operator_have_separate_columns():
    kernels = [Linear() * Identity(), 2.0 * Linear() * Identity(), Linear() * Integral()]
    display = KernelWeightsDisplay.from_estimator(MovKL(kernels, 0.1, grid=T).fit(X, Y), plot=False)
    assert display.weights.shape == (2, 2)
    assert np.isnan(display.weights[1, 1])
