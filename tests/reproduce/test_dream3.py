"""The reproduction of DREAM3: the recipe sees no truth, rivals find what is plain, and the leak leaks."""

from itertools import combinations

import numpy as np
import pytest
from reproduce.dream3 import areas, least_aupr, masked_by_the_truth, permutation_spread
from reproduce.dream3_rivals import RIVALS, random_forest
from sklearn.metrics import average_precision_score, roc_auc_score

from reproduce import dream3_recipe
from reproduce.data import available, load_dream3

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def plain():
    """Four variables; the first drives the second, the second the third."""
    rng = np.random.default_rng(0)
    A = np.array([[0.5, 0, 0, 0], [0.8, 0.5, 0, 0], [0, 0.8, 0.5, 0], [0, 0, 0, 0.5]])
    series = []
    for _ in range(2):
        x = rng.standard_normal((100, 4))
        for t in range(99):
            x[t + 1] = A @ x[t] + 0.5 * rng.standard_normal(4)
        series.append(x)
    truth = (A.T != 0).astype(float)
    np.fill_diagonal(truth, 0)
    return series, truth


@pytest.mark.parametrize("name", list(RIVALS))
def test_rivals_are_no_straw_men(name, plain):
    series, truth = plain
    rival = (lambda series: random_forest(series, trees=50)) if name.startswith("random forest") else RIVALS[name]
    scores = rival(series)
    assert (np.diagonal(scores) == 0).all()
    # Forests of rates of change are made for smooth curves; here they only have to be above chance.
    assert areas(scores, truth).auroc > (70 if name.startswith("random forest") else 90)


def test_areas_of_a_perfect_and_of_random_scores(plain):
    _, truth = plain
    assert areas(truth, truth) == (100.0, 100.0)
    mean, spread = permutation_spread(truth)
    rng = np.random.default_rng(1)
    found = np.array([areas(rng.uniform(size=truth.shape), truth) for _ in range(300)])
    np.testing.assert_allclose(mean, found.mean(axis=0), atol=4 * max(spread) / 17)
    np.testing.assert_allclose(spread, found.std(axis=0), rtol=0.2)


def test_no_ranking_has_less_than_the_least_aupr():
    # All orders of 3 edges among 8 pairs.
    found = {}
    for places in combinations(range(8), 3):
        scores, truth = np.arange(8.0)[::-1], np.isin(np.arange(8), places)
        auroc = 100 * roc_auc_score(truth, scores)
        found[auroc] = min(found.get(auroc, 100.0), 100 * average_precision_score(truth, scores))
    for auroc, least in found.items():
        assert least_aupr(auroc, 3, 8) <= least + 1e-6
        assert least_aupr(auroc, 3, 8) >= least - 15


def test_the_masked_score_returns_the_truth_it_was_given(plain):
    series, truth = plain
    assert areas(masked_by_the_truth(series, truth), truth + truth.T).auroc == 100.0


def test_the_recipe_finds_something_in_a_simulated_network():
    made = dream3_recipe.simulated(1, seed=9000)[0]
    scores = dream3_recipe.jacobian_ranks(made.series)
    assert scores.shape == (10, 10)
    assert areas(scores, made.adjacency.toarray()).auroc > 50


@pytest.mark.skipif(not available()["dream3/E1"], reason="needs OVK_DATA with dream3")
def test_the_recipe_reads_series_of_the_challenge():
    scores = dream3_recipe.jacobian_ranks(load_dream3("E1").series)
    assert np.isfinite(scores).all()
    assert scores.max() <= 1.0
