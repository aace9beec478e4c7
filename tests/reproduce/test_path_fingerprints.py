"""Labelled paths against all orderings of the nodes, and Tanimoto against sets."""

from itertools import pairwise, permutations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproduce.path_fingerprints import PathFingerprints, path_features

from ovk.kernels import Tanimoto


def naive_paths(labels, edges, most):
    """Every ordered choice of nodes that is a path."""
    bonds = {frozenset(edge[:2]): str(edge[2]) for edge in edges}
    found = set()
    for size in range(1, most + 2):
        for nodes in permutations(range(len(labels)), size):
            links = [bonds.get(frozenset(pair)) for pair in pairwise(nodes)]
            if None not in links:
                path = [labels[nodes[0]]]
                for node, link in zip(nodes[1:], links, strict=True):
                    path += [link, labels[node]]
                found.add(min(tuple(path), tuple(path[::-1])))
    return found


@st.composite
def molecules(draw):
    n = draw(st.integers(1, 5))
    labels = [draw(st.sampled_from("CNO")) for _ in range(n)]
    pairs = [(i, j) for i in range(n) for j in range(i)]
    edges = [(i, j, draw(st.sampled_from("-="))) for i, j in pairs if draw(st.booleans())]
    return labels, edges


@settings(max_examples=40, deadline=None)
@given(molecules(), st.integers(0, 4))
def test_paths_are_those_of_the_definition(molecule, most):
    assert path_features(molecule, most) == naive_paths(*molecule, most)


@settings(max_examples=20, deadline=None)
@given(st.lists(molecules(), min_size=2, max_size=5))
def test_tanimoto_of_fingerprints_is_that_of_the_sets_for_new_graphs_too(graphs):
    maker = PathFingerprints(max_bonds=3).fit(graphs[1:])
    train, new = maker.transform(graphs[1:]), maker.transform(graphs[:1])
    sets = [path_features(graph, 3) for graph in graphs]
    expected = [len(sets[0] & other) / len(sets[0] | other) for other in sets[1:]]
    np.testing.assert_allclose(Tanimoto()(new, train)[0], expected, atol=1e-12)


def test_networkx_graphs_give_the_same():
    graph = nx.Graph()
    for number, label in enumerate("CCO"):
        graph.add_node(number, label=label)
    graph.add_edge(0, 1, label="-")
    graph.add_edge(1, 2, label="=")
    assert path_features(graph, 2) == path_features((["C", "C", "O"], [(0, 1, "-"), (1, 2, "=")]), 2)
    renamed = nx.Graph()
    renamed.add_nodes_from((node, {"element": data["label"]}) for node, data in graph.nodes(data=True))
    renamed.add_edges_from((i, j, {"element": data["label"]}) for i, j, data in graph.edges(data=True))
    assert path_features(renamed, 2, label="element") == path_features(graph, 2)
    maker = PathFingerprints(max_bonds=2, label="element").fit([renamed])
    np.testing.assert_array_equal(maker.transform([renamed]).toarray()[0, :-1], 1.0)
    with pytest.raises(ValueError, match="the attribute 'element', node 0 has none"):
        path_features(graph, label="element")
    graph.add_node(3)
    with pytest.raises(ValueError, match="node 3 has none"):
        path_features(graph)


def test_a_ring_is_walked_in_both_directions_and_never_closed():
    ring = (["C"] * 3, [(0, 1), (1, 2), (2, 0)])
    assert {len(path) for path in path_features(ring, 6)} == {1, 3, 5}


def test_what_is_wrong_is_named():
    with pytest.raises(ValueError, match="max_bonds must be an integer >= 0"):
        path_features((["C"], []), -1)
    with pytest.raises(ValueError, match=r"nodes 0..0, got \(0, 4\)"):
        path_features((["C"], [(0, 4)]))
    with pytest.raises(ValueError, match="graph must be a networkx graph or a pair"):
        path_features("CCO")
