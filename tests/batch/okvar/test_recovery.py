"""OKVAR recovers simulated networks."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from ovk import OKVAR
from ovk.batch import consensus
from ovk.kernels import Gaussian, Linear
from ovk.objectives import L1
from reproduce.data import make_gene_network


def area(scores, truth):
    off = ~np.eye(len(truth), dtype=bool)
    return roc_auc_score(truth[off] != 0, scores[off])


@pytest.fixture(scope="module")
def linear():
    rng = np.random.default_rng(0)
    d = 8
    A = 0.5 * np.eye(d)
    A[rng.integers(0, d, 10), rng.integers(0, d, 10)] += 0.4
    A *= 0.9 / max(0.9, np.abs(np.linalg.eigvals(A)).max())
    x = np.zeros((300, d))
    for t in range(299):
        x[t + 1] = A @ x[t] + rng.standard_normal(d)
    return x, A.T


@pytest.mark.parametrize("target", ["next", "increment"])
@pytest.mark.parametrize("kernel", [Linear(), Gaussian(8.0)], ids=str)
def test_a_sparse_linear_autoregression(linear, target, kernel):
    x, truth = linear
    assert area(OKVAR(kernel, 1.0, target=target).fit(x).edge_scores(), truth) > 0.95


def test_a_sparse_linear_autoregression_with_sparse_coefficients(linear):
    x, truth = linear
    assert area(OKVAR(Gaussian(8.0), 0.1, L1(0.1), tol=0.01).fit(x).edge_scores(), truth) > 0.95


def test_a_sparse_linear_autoregression_by_stability(linear):
    x, truth = linear
    how = {"over": "subsamples", "average": "shares", "n_subsamples": 20, "fraction": 0.5, "top_k": 10}
    found = consensus(OKVAR("linear", 1.0), x, **how, random_state=0)
    assert area(found.scores, truth) > 0.95
    assert (truth[found.chosen] != 0).mean() > 0.8


def test_the_linear_coefficients_themselves(linear):
    x, truth = linear
    J = OKVAR("linear", 1e-6).fit(x).jacobian(x[:1])[0]
    assert np.abs(J - truth.T).max() < 0.25


def test_false_discoveries_are_few(linear):
    x, truth = linear
    network = OKVAR("linear", 1.0).fit(x).network(fdr=0.1, random_state=0)
    assert network.chosen.sum() >= 6
    assert (truth[network.chosen] == 0).mean() <= 0.3


def test_false_edges_are_rare_without_action():
    x = np.random.default_rng(1).standard_normal((150, 6)).cumsum(axis=0) * 0.1
    assert OKVAR("linear", 1.0).fit(x).network(fdr=0.05, random_state=0).chosen.sum() <= 2


def test_a_nonlinear_network_of_ten_genes():
    # Every fourth of 100 points of the same curves.
    made = make_gene_network(10, 40, 100, noise=0.01, random_state=0)
    series = [one[::4] for one in made.series]
    model = OKVAR(Gaussian(10.0), 1.0, target="integral", memory=3.0).fit(series)
    assert area(model.edge_scores(), made.adjacency.toarray()) > 0.95
