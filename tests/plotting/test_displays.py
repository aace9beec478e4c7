"""Displays compute and draw their numbers without a window."""

import builtins

import numpy as np
import pytest
from matplotlib import pyplot as plt

from ovk import OutputKernelRidge, OVKRidge, OVKRidgeCV
from ovk.evaluation import RecentErrors
from ovk.kernels import Gaussian
from ovk.operators import Dense
from ovk.plotting import (
    LeaveOneOutDisplay,
    ObservedDisplay,
    OutputGraphDisplay,
    OutputStructureDisplay,
    PredictionDisplay,
    RelevanceDisplay,
)


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(30, 1))
    return X, np.column_stack([np.sin(6 * X[:, 0]), np.cos(6 * X[:, 0])]) + 0.1 * rng.standard_normal((30, 2))


def test_output_structure_shows_the_correlation_of_the_operator(data):
    model = OVKRidge(Gaussian(0.3) * Dense([[4.0, 1.0], [1.0, 1.0]])).fit(*data)
    display = OutputStructureDisplay.from_estimator(model, names=["a", "b"])
    np.testing.assert_allclose(display.correlation, [[1.0, 0.5], [0.5, 1.0]])
    assert [label.get_text() for label in display.ax_.get_xticklabels()] == ["a", "b"]
    assert "0.50" in [text.get_text() for text in display.ax_.texts]


def test_learned_structure_as_a_matrix_and_as_a_graph(data):
    X, Y = data
    model = OutputKernelRidge(Gaussian(0.3)).fit(X, np.column_stack([Y, -Y[:, 0]]))
    scale = np.sqrt(np.diagonal(model.T_))
    expected = model.T_ / np.outer(scale, scale)
    np.testing.assert_allclose(OutputStructureDisplay.from_estimator(model).correlation, expected, atol=1e-12)
    graph = OutputGraphDisplay.from_estimator(model, names=["a", "b", "c"], threshold=0.5)
    assert [edge[:2] for edge in graph.edges] == [(0, 2)]
    assert graph.edges[0][2] == pytest.approx(expected[0, 2])
    assert {"a", "b", "c"} <= {text.get_text() for text in graph.ax_.texts}
    # Negative correlations are dashed, which is visible in greyscale.
    assert graph.ax_.lines[0].get_linestyle() == "--"


def test_correlated_outputs_are_neighbours_on_the_circle():
    T = np.eye(6)
    T[0, 3] = T[3, 0] = 0.9
    T[1, 5] = T[5, 1] = -0.8
    place = OutputGraphDisplay.from_matrix(T, plot=False).positions()
    np.testing.assert_allclose(np.linalg.norm(place, axis=1), 1.0)
    for i, j in ((0, 3), (1, 5)):
        np.testing.assert_allclose(np.linalg.norm(place[i] - place[j]), 1.0)
    assert OutputGraphDisplay.from_matrix(np.eye(2)).edges == []
    with pytest.raises(ValueError, match="threshold must be a number in"):
        OutputGraphDisplay.from_matrix(T, threshold=2.0)


def test_leave_one_out_marks_the_choice(data):
    model = OVKRidgeCV(Gaussian(0.3), np.logspace(-3, 1, 5), omegas=[0.0, 0.5, 0.9]).fit(*data)
    display = LeaveOneOutDisplay.from_estimator(model)
    assert display.best == (model.alpha_, model.best_error_)
    assert len(display.ax_.lines) == 4
    assert {line.get_linestyle() for line in display.ax_.lines[:3]} == {"-", "--", "-."}


def test_leave_one_out_without_operators(data):
    display = LeaveOneOutDisplay.from_estimator(OVKRidgeCV([Gaussian(0.3), Gaussian(3.0)]).fit(*data))
    assert display.errors.shape == (1, 25)


def test_a_prediction_is_drawn_over_the_inputs_in_their_own_units():
    X = np.linspace(1960, 2010, 60)[:, None]
    display = PredictionDisplay.from_estimator(OVKRidgeCV().fit(X, np.sin(X / 5)), plot=False)
    assert np.allclose([display.x[0], display.x[-1]], [1957.5, 2012.5])
    assert np.abs(display.mean[30:-30, 0] - np.sin(display.x[30:-30] / 5)).max() < 0.1


def test_prediction_draws_each_output_with_its_band(data):
    X, Y = data
    model = OVKRidge(Gaussian(0.3), alpha=0.1).fit(X, Y)
    display = PredictionDisplay.from_estimator(model, X, Y)
    assert len(display.axes_) == 2
    mean, std = model.predict(display.x[:, None], return_std=True)
    np.testing.assert_allclose(display.mean, mean)
    np.testing.assert_allclose(display.std, std)


def test_prediction_needs_one_input():
    model = OVKRidge(Gaussian(1.0)).fit(np.eye(3), np.ones(3))
    with pytest.raises(ValueError, match=r"one input, got 3: .*PredictionErrorDisplay"):
        PredictionDisplay.from_estimator(model)


def test_displays_can_draw_on_given_axes(data):
    _, ax = plt.subplots()
    display = OutputStructureDisplay.from_matrix(np.eye(3), ax=ax)
    assert display.ax_ is ax
    assert display.figure_ is ax.figure


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(ImportError, match="plots require the extra 'plot' of ovk: pip install matplotlib"):
        OutputStructureDisplay.from_matrix(np.eye(2))


@pytest.mark.parametrize("turn", [0, 1])
def test_figures_are_closed_after_each_test(turn):
    """Figures that stay open make a later test fail, because matplotlib warns at 20."""
    assert not plt.get_fignums()
    plt.figure()


def test_outcomes_against_predictions_with_the_interval_of_new_rows():
    recent = RecentErrors.empty(1)
    recent.update(np.zeros((300, 1)), np.ones((300, 1)))
    display = ObservedDisplay.from_recent(recent, 0)
    assert (len(display.outcomes), display.half) == (300, 1.0)
    assert (display.ax_.get_xlabel(), display.ax_.get_ylabel()) == ("prediction", "outcome")


def test_the_most_relevant_column_is_on_top():
    display = RelevanceDisplay({"temperature": 0.8, "wind": 0.1}).plot()
    assert [label.get_text() for label in display.ax_.get_yticklabels()] == ["wind", "temperature"]


@pytest.mark.parametrize(("rows", "image"), [(100, False), (6000, True)])
def test_many_points_are_drawn_as_an_image(rows, image):
    y = np.random.default_rng(0).standard_normal(rows)
    (points,) = (line for line in ObservedDisplay(y, y, 1.0, "y").plot().ax_.lines if line.get_marker() == ".")
    assert points.get_rasterized() is image
