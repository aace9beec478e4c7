"""Displays of autoregressions and networks."""

import numpy as np
import pytest

from ovk import OKVAR
from ovk.plotting import JacobianDisplay, NetworkDisplay, SeriesDisplay
from reproduce.data import make_gene_network


@pytest.fixture(scope="module")
def made():
    return make_gene_network(4, 2, 8, random_state=0)


@pytest.fixture(scope="module")
def model(made):
    return OKVAR(lag=2).fit(made.series)


def test_a_network_has_an_arrow_for_each_edge(model, made):
    truth = made.adjacency.toarray()
    display = NetworkDisplay.from_estimator(model, truth=truth, top_k=5)
    assert len(display.ax_.patches) == 5
    strengths = [strength for _, _, strength in display.arrows()]
    assert strengths == sorted(strengths)
    assert strengths[-1] == 1.0
    dashed = sum(patch.get_linestyle() != "-" for patch in display.ax_.patches)
    assert dashed == sum(truth[i, j] == 0 for i, j, _ in display.arrows())
    assert len(NetworkDisplay.from_estimator(model, plot=False).arrows()) == 8


def test_the_jacobian_is_the_mean_at_its_lag(model):
    display = JacobianDisplay.from_estimator(model, lag=2)
    np.testing.assert_allclose(display.jacobian, model.jacobian().mean(axis=0)[:, 4:])
    assert len(display.ax_.texts) == 16
    with pytest.raises(ValueError, match="lag must be from 1 to 2, the lag of the model, got"):
        JacobianDisplay.from_estimator(model, lag=3)


def test_many_variables_are_marked_by_their_signs():
    x = np.random.default_rng(0).standard_normal((30, 15))
    texts = {text.get_text() for text in JacobianDisplay.from_estimator(OKVAR().fit(x)).ax_.texts}
    assert texts <= {"+", "-", ""}


def test_series_with_predictions_one_step_ahead(model, made):
    display = SeriesDisplay.from_estimator(model, 1, variables=[2, 0])
    assert len(display.axes_) == 2
    np.testing.assert_array_equal(display.observed, made.series[1][:, [2, 0]])
    np.testing.assert_allclose(display.predicted[2:], model.predict(made.series[1])[1:-1][:, [2, 0]])
    assert np.isnan(display.predicted[:2]).all()
    with pytest.raises(ValueError, match="series must be an index below 2, got 2"):
        SeriesDisplay.from_estimator(model, 2)
