"""The map of climate networks: what is taken off the series, and what is measured on the map."""

import numpy as np
import pytest
from reproduce.climate import VARIABLES, networks, scatter, square, weekly, without_season

from reproduce import entry
from reproduce.data import available

pytestmark = pytest.mark.long


def test_weeks_are_means_and_seasons_go():
    days = np.arange(365.0)
    np.testing.assert_allclose(weekly(days[None])[0], 7.0 * np.arange(52) + 3.0)
    t = 2 * np.pi * np.arange(52) / 52
    season = np.column_stack([3 + np.cos(t) - 2 * np.sin(2 * t), np.sin(t), np.full(52, 5.0)])
    np.testing.assert_allclose(without_season(season), 0.0, atol=1e-12)
    quick = np.column_stack([np.cos(7 * t)] * 3)
    np.testing.assert_allclose(without_season(season + quick), quick, atol=1e-12)


def test_scatter_is_small_where_clusters_are_places():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 20)
    places = rng.standard_normal((40, 2)) + 20.0 * labels[:, None]
    assert scatter(places, labels) < 0.05
    assert scatter(places, rng.permutation(labels)) > 0.8
    assert scatter(places, np.zeros(40, dtype=int)) == pytest.approx(1.0)


def test_sites_of_one_mechanism_have_one_network():
    rng = np.random.default_rng(1)

    def site(sign):
        x = np.zeros((200, 3))
        for t in range(199):
            x[t + 1] = 0.5 * x[t] + [0.0, sign * 0.6 * x[t, 0], 0.0] + rng.standard_normal(3)
        return x

    _, scores = networks([site(s) for s in (1, 1, 1, -1, -1)])
    assert (np.sign([square(one)[0, 1] for one in scores]) == [1, 1, -1, -1]).all()
    assert scores.shape == (4, len(VARIABLES) * (len(VARIABLES) - 1))


def test_the_reproduction_says_whose_example_it_is():
    assert "Lim" in entry("climate").paper
    if not available()["canadian_weather"]:
        pytest.skip("the Canadian stations are not there: docs say where they are offered")
    result = entry("climate").run()
    assert 0.0 < result["scatter of clusters on the map"] < 1.0
    assert set(result.figures) == {"map"}
