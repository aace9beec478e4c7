"""The plot of a progressive evaluation."""

import numpy as np
import pytest
from matplotlib import pyplot as plt

from ovk import OLOK
from ovk.evaluation import LastValue, progressive
from ovk.plotting import ProgressiveErrorDisplay


@pytest.fixture(autouse=True)
def _no_open_figures():
    yield
    plt.close("all")


def result(d=2, n=300, **kwargs):
    X = np.random.default_rng(0).uniform(size=(n, 1))
    return progressive(OLOK(), X, np.sin(X * np.arange(1, d + 1)), **kwargs)


def test_a_panel_for_each_output_and_a_curve_for_each_learner():
    found = result()
    display = ProgressiveErrorDisplay.from_result(found)
    assert len(display.axes_) == 2
    for q, panel in enumerate(display.axes_):
        assert len(panel.lines) == 3
        # Means of fewer than five outcomes are not drawn.
        shown = np.where(found.counts[:, q] >= 5, found.model.mse_curve[:, q], np.nan)
        np.testing.assert_array_equal(panel.lines[0].get_ydata(), shown)
        np.testing.assert_array_equal(panel.lines[0].get_xdata(), found.rows)
        assert len({line.get_linestyle() for line in panel.lines}) == 3
        assert panel.get_xscale() == "log"
    assert display.axes_[0].get_ylabel() == "mean squared error"
    legend = display.figure_.legends[0]
    assert [text.get_text() for text in legend.get_texts()] == ["OLOK", "last value", "running mean"]


def test_many_outputs_show_their_mean_and_some_can_be_chosen():
    found = result(d=8)
    display = ProgressiveErrorDisplay.from_result(found, error="mae", plot=False)
    assert display.titles == ("mean of all outputs",)
    np.testing.assert_allclose(display.curves["OLOK"][-9:, 0], found.model.mae_curve.mean(axis=1)[-9:])
    chosen = ProgressiveErrorDisplay.from_result(found, outputs=["y5", -1, 0, 1])
    assert chosen.titles == ("y5", "y7", "y0", "y1")
    assert len(chosen.axes_) == 4


def test_axes_of_the_user():
    _, axes = plt.subplots(1, 2)
    display = ProgressiveErrorDisplay.from_result(result(), axes=axes)
    assert list(display.axes_) == list(axes)
    assert axes[0].get_legend() is not None
    with pytest.raises(ValueError, match="one for each of the 2 panels, got 1"):
        ProgressiveErrorDisplay.from_result(result(), axes=axes[0])


def test_errors_of_zero_and_small_ranges_are_drawn_on_linear_axes():
    X = np.zeros((30, 1))
    display = ProgressiveErrorDisplay.from_result(progressive(OLOK(), X, X, baselines=[LastValue(), LastValue()]))
    assert display.ax_.get_yscale() == "linear"
    assert list(display.curves) == ["OLOK", "last value", "last value (2)"]


def test_invalid_arguments():
    with pytest.raises(ValueError, match="error must be 'mse' or 'mae', got 'r2'"):
        ProgressiveErrorDisplay.from_result(result(), error="r2")
    with pytest.raises(ValueError, match="output must be the name or index of one of y0, y1, got 'z'"):
        ProgressiveErrorDisplay.from_result(result(), outputs=["z"])
    with pytest.raises(ValueError, match="output must be the name or index"):
        ProgressiveErrorDisplay.from_result(result(), outputs=[2])
    with pytest.raises(ValueError, match="no rows to draw"):
        ProgressiveErrorDisplay.from_result(result(n=0))
