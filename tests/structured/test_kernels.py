"""Kernels of outputs: against their definitions, positive semi-definite, diagonals, saving."""

from collections import Counter

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.linalg import expm
from scipy.stats import kendalltau
from sklearn.base import clone

import ovk
import reference
from ovk.base import as_adjacency, laplacian
from ovk.kernels import ScalarKernel
from ovk.structured import (
    Delta,
    Diffusion,
    Hierarchy,
    Jaccard,
    Kendall,
    KSpectrum,
    RegularizedLaplacian,
    nodes,
)

TREE = {"cat": "pet", "dog": "pet", "pet": "animal", "wolf": "animal", "oak": "plant"}
RNG = np.random.default_rng(0)
GRAPH = sparse.csr_array(np.triu(RNG.random((12, 12)) < 0.2, 1) * 1.0)
GRAPH = sparse.csr_array(GRAPH + GRAPH.T)

KERNELS = [
    ("delta", Delta(), ["a", "b", "a", 3, (1, 2)]),
    ("hierarchy", Hierarchy(TREE, decay=0.5), ["cat", "dog", "wolf", "oak", "animal", {"cat", "oak"}]),
    ("hierarchy-normalised", Hierarchy(TREE, normalise=True), ["cat", "dog", "wolf", "oak"]),
    ("jaccard", Jaccard(), [{1, 2}, {2, 3}, set(), {1, 2, 3, 4}, set()]),
    ("min-max", Jaccard(), [{"a": 2.0, "b": 1.0}, {"a": 0.5}, {"b": 3.0, "c": 1.0}, {}]),
    ("spectrum", KSpectrum(2), ["abab", "ba", "", "bbbb"]),
    ("spectrum-normalised", KSpectrum(2, normalise=True), ["abab", "ba", "", "bbbb"]),
    ("diffusion", Diffusion(GRAPH, 0.7), list(range(12))),
    ("diffusion-normalised", Diffusion(GRAPH, 0.7, normalised=True), [3, 1, 4, 1, 5]),
    ("regularised-laplacian", RegularizedLaplacian(GRAPH, 2.0), list(range(12))),
    ("kendall", Kendall(), RNG.permuted(np.tile(np.arange(4.0), (6, 1)), axis=1)),
    ("sum", 0.5 * Jaccard() + Delta() * Jaccard(), [{1, 2}, {2, 3}, {1}]),
]
EACH = pytest.mark.parametrize(("kernel", "objects"), [pytest.param(k, y, id=name) for name, k, y in KERNELS])


@EACH
def test_symmetric_positive_semi_definite_with_its_diagonal(kernel, objects):
    K = kernel(objects)
    np.testing.assert_allclose(K, K.T, atol=1e-12)
    assert np.linalg.eigvalsh(K)[0] > -1e-9
    np.testing.assert_allclose(kernel.diag(objects), np.diagonal(K), atol=1e-12)


@EACH
def test_blocks_are_parts_of_the_whole(kernel, objects):
    K = kernel(objects)
    np.testing.assert_allclose(kernel(objects[1:], objects[:2]), K[1:, :2], atol=1e-12)


@EACH
def test_clone_and_save(kernel, objects, tmp_path):
    ovk.save(kernel, tmp_path / "kernel.ovk")
    for copy in (clone(kernel), ovk.load(tmp_path / "kernel.ovk")):
        np.testing.assert_array_equal(copy(objects), kernel(objects))


def test_the_list_has_every_object_kernel():
    exported = {getattr(ovk.structured, name) for name in ovk.structured.__all__}
    kinds = {c for c in exported if isinstance(c, type) and issubclass(c, ScalarKernel)}
    assert kinds <= {type(kernel) for _, kernel, _ in KERNELS}


weighted = st.dictionaries(st.sampled_from("abcd"), st.floats(0.125, 4.0))


@settings(max_examples=25, deadline=None)
@given(weighted, weighted)
def test_min_max_is_its_definition(y, z):
    assert Jaccard()([y], [z])[0, 0] == pytest.approx(reference.min_max(y, z))
    assert Jaccard()([set(y)], [set(z)])[0, 0] == pytest.approx(reference.min_max(Counter(set(y)), Counter(set(z))))


def test_kendall_is_kendalls_tau():
    a, b = RNG.permutation(6), RNG.permutation(6)
    assert Kendall()(a[None], b[None])[0, 0] == pytest.approx(kendalltau(a, b).statistic)


@pytest.mark.parametrize("normalised", [False, True])
def test_node_kernels_are_functions_of_the_laplacian(normalised):
    L = laplacian(GRAPH, normalised=normalised).toarray()
    every = range(12)
    np.testing.assert_allclose(Diffusion(GRAPH, 0.7, normalised)(every), expm(-0.7 * L), atol=1e-12)
    inverse = np.linalg.inv(np.eye(12) + 2.0 * L)
    np.testing.assert_allclose(RegularizedLaplacian(GRAPH, 2.0, normalised)(every), inverse, atol=1e-12)


@pytest.mark.parametrize("kernel", [Diffusion(GRAPH, 0.7), RegularizedLaplacian(GRAPH, 2.0)])
def test_large_components_use_sparse_products(kernel, monkeypatch):
    every, some = list(range(12)), [5, 2, 5]
    expected, diagonal = kernel(every, some), kernel.diag(every)
    monkeypatch.setattr(nodes, "MAX_EIGEN_NODES", 0)
    monkeypatch.setattr(nodes, "MAX_DIAGONAL_COLUMNS", 2)
    fresh = clone(kernel)
    assert all(part.eigenvectors is None for part in fresh._components()[0])
    np.testing.assert_allclose(fresh(every, some), expected, atol=1e-10)
    np.testing.assert_allclose(fresh(some, every), expected.T, atol=1e-10)
    np.testing.assert_allclose(fresh.diag(every), diagonal, atol=1e-10)


def test_a_long_path_needs_no_dense_matrix():
    n = 20_000
    path = sparse.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1]).tocsr()
    column = Diffusion(path, 1.0)([9_999, 10_000, 10_050], [10_000])[:, 0]
    small = expm(-laplacian(as_adjacency(path[:101, :101])[0], normalised=False).toarray())
    np.testing.assert_allclose(column, [small[49, 50], small[50, 50], small[100, 50]], atol=1e-12)


def test_different_components_and_isolated_nodes_have_similarity_zero():
    A = np.zeros((5, 5))
    A[0, 1] = A[1, 0] = A[2, 3] = A[3, 2] = 1.0
    K = Diffusion(A, 1.0)(range(5))
    assert not K[:2, 2:].any()
    np.testing.assert_allclose(K[4], [0, 0, 0, 0, 1])


def test_self_loops_change_nothing_and_names_are_nodes():
    graph = nx.path_graph(["a", "b", "c"])
    plain = Diffusion(graph, 1.0)(["a", "c"])
    graph.add_edge("b", "b")
    np.testing.assert_array_equal(Diffusion(graph, 1.0)(["a", "c"]), plain)
    resolved = Diffusion(graph, 1.0).resolve(["a"])
    assert sparse.issparse(resolved.graph)
    np.testing.assert_array_equal(resolved(["a", "c"]), plain)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: as_adjacency([[0, 1], [0, 0]]), r"symmetric.*\(0, 1\).*maximum"),
        (lambda: as_adjacency([[0, -1], [-1, 0]]), "non-negative and finite weights"),
        (lambda: as_adjacency(np.zeros((2, 3))), "square"),
        (lambda: as_adjacency(nx.DiGraph([(0, 1)])), "to_undirected"),
        (lambda: as_adjacency("graph"), "adjacency matrix or a networkx graph"),
        (lambda: Diffusion(GRAPH)([12]), "0 to 11"),
        (lambda: Diffusion(GRAPH)([0.5]), "integers"),
        (lambda: Diffusion(GRAPH, nodes=list("abcdefghijkl"))(["z"]), "names of nodes of the graph, got 'z'"),
        (lambda: Diffusion(GRAPH, -1.0)([0]), "beta"),
        (lambda: Hierarchy(TREE)(["fish"]), "'fish' is not in the hierarchy"),
        (lambda: Hierarchy({"a": "b", "b": "a"})(["a"]), "cycle"),
        (lambda: Jaccard()(["word"]), "string 'word'"),
        (lambda: Jaccard()([{"a": -1.0}]), "non-negative"),
        (lambda: Kendall()(np.ones((2, 1))), "at least two entries"),
    ],
)
def test_bad_outputs_raise(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_nodes_of_a_hierarchy_are_weighted_by_depth():
    k = Hierarchy({"cat": "pet", "dog": "pet", "pet": "animal", "wolf": "animal"}, decay=0.5)
    np.testing.assert_allclose(k(["cat"], ["cat", "dog", "wolf"]), [[1.75, 1.5, 1.0]])
