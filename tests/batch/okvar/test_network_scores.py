"""Areas under curves of networks, given the true edges."""

import networkx as nx
import numpy as np
import pytest

from ovk.batch import Network


def _network(seed=0, d=6):
    scores = np.random.default_rng(seed).random((d, d))
    return Network(scores, scores > 0.5, np.sign(scores), tuple("abcdef"[:d]))


def _truth(seed=1, d=6):
    return np.random.default_rng(seed).random((d, d)) < 0.3


def test_areas_are_those_of_pairs_and_ranks():
    network, truth = _network(), _truth()
    off = ~np.eye(6, dtype=bool)
    links, others = network.scores[off & truth], network.scores[off & ~truth]
    assert network.auroc(truth) == pytest.approx(np.mean(links[:, None] > others))
    # The mean over true edges of the precision at their rank.
    every = np.concatenate([links, others])
    precision = [np.mean(np.isin(every[every >= score], links)) for score in links]
    assert network.auprc(truth) == pytest.approx(np.mean(precision))


def test_truth_may_be_a_graph_and_the_diagonal_does_not_matter():
    network, truth = _network(), _truth()
    graph = nx.DiGraph()
    graph.add_nodes_from("fedcba")
    graph.add_edges_from(("abcdef"[i], "abcdef"[j]) for i, j in np.argwhere(truth))
    assert network.auroc(graph) == network.auroc(truth) == network.auroc(truth | np.eye(6, dtype=bool))
    graph.remove_node("c")
    with pytest.raises(ValueError, match="truth must be a graph on the names of the variables, got none for 'c'"):
        network.auprc(graph)


@pytest.mark.parametrize(
    ("truth", "message"),
    [(np.eye(5), "shape \\(6, 6\\)"), (np.eye(6), "got 0 of 30"), (np.ones((6, 6)), "got 30 of 30")],
)
def test_unusable_truth_is_refused(truth, message):
    with pytest.raises(ValueError, match=f"truth must .*{message}"):
        _network().auroc(truth)
