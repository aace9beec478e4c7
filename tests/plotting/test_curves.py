"""Displays of curves and of learned weights."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from ovk import FunctionalRidge, MovKL
from ovk.kernels import Gaussian, Linear
from ovk.operators import Identity, Integral
from ovk.plotting import FunctionalPredictionDisplay, KernelWeightsDisplay, PredictionDisplay

T = np.linspace(0, 1, 12)
X = np.linspace(-1, 1, 15)[:, None]
Y = np.sin(3 * T + X)


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    plt.close("all")


def test_a_band_of_a_level():
    model = FunctionalRidge(alpha=0.1).fit(X, Y)
    display = FunctionalPredictionDisplay.from_estimator(model, X[:3], Y[:3], level=0.8)
    found = model.predict_interval(X[:3], 0.8)
    np.testing.assert_allclose(display.interval, (found.lower, found.upper))
    assert display.std is None
    edges = display.axes_[0].collections[0].get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([edges.min(), edges.max()], [found.lower[0].min(), found.upper[0].max()])
    assert "80% interval" in [text.get_text() for text in display.figure_.legends[0].get_texts()]


def test_curves_with_bands():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(X, Y)
    display = FunctionalPredictionDisplay.from_estimator(model, X[:5], Y[:5], names=list("abcde"))
    mean, std = model.predict(X[:5], return_std=True)
    np.testing.assert_allclose(display.mean, mean)
    np.testing.assert_allclose(display.std, std)
    assert [axes.get_title() for axes in display.axes_[:5]] == list("abcde")
    assert not display.figure_.axes[5].get_visible()
    assert len(display.axes_[0].lines) == 2
    assert len(display.axes_[0].collections) == 1
    bare = FunctionalPredictionDisplay.from_estimator(model, X[:2], band=False)
    assert bare.std is None
    assert len(bare.axes_[0].lines) == 1


def test_many_curves_are_cut_and_only_the_lowest_panels_have_a_label():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(X, Y)
    display = FunctionalPredictionDisplay.from_estimator(model, X, Y, names=list("abcdefghijklmno"))
    assert display.mean.shape == display.observed.shape == (12, 12)
    six = FunctionalPredictionDisplay.from_estimator(model, X, Y, band=False, max_curves=6)
    assert [axes.get_xlabel() for axes in six.axes_] == ["", "", "t", "t", "t", "t"]
    with pytest.raises(ValueError, match="max_curves must be a whole number >= 1, got 0"):
        FunctionalPredictionDisplay.from_estimator(model, X, max_curves=0)


def test_functions_of_several_inputs_are_pointed_to_the_display_of_curves():
    model = FunctionalRidge(alpha=0.01, grid=T).fit(np.hstack([X, X**2]), Y)
    with pytest.raises(ValueError, match="one input, the model has 2: FunctionalPredictionDisplay"):
        PredictionDisplay.from_estimator(model)


def test_curves_need_a_grid():
    with pytest.raises(ValueError, match="without a grid"):
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


def test_two_scales_of_a_kernel_with_one_operator_stay_apart():
    kernels = [Linear() * Identity(), 2.0 * Linear() * Identity(), Linear() * Integral()]
    display = KernelWeightsDisplay.from_estimator(MovKL(kernels, 0.1, grid=T).fit(X, Y), plot=False)
    assert display.weights.shape == (2, 2)
    assert np.isnan(display.weights[1, 1])
