"""Graphs: Cora, Dictyostelium, yeast and the in-silico networks of DREAM3."""

from __future__ import annotations

import numpy as np
import pytest

from reproduce.data import load_cora, load_dicty, load_dream3, load_yeast_kegg


def symmetric(matrix):
    return (matrix - matrix.T).nnz == 0


def test_cora(load):
    cora = load(load_cora)
    assert symmetric(cora.adjacency)
    assert cora.adjacency.nnz == 2 * 5278
    assert cora.adjacency.diagonal().sum() == 0
    assert cora.data.nnz == 49216
    assert set(cora.data.data) == set(cora.adjacency.data) == {1}
    assert np.bincount(cora.target).tolist() == [351, 217, 418, 818, 426, 298, 180]
    sizes = dict(zip(cora.target_names, np.bincount(cora.target), strict=True))
    assert sizes["Neural_Networks"] == 818
    assert sizes["Rule_Learning"] == 180
    # Papers cite their own kind.
    rows, columns = cora.adjacency.nonzero()
    assert (cora.target[rows] == cora.target[columns]).mean() > 0.8


def test_dicty(load):
    amoeba = load(load_dicty)
    assert len(amoeba.genes) == len(set(amoeba.genes)) == 1219
    assert symmetric(amoeba.adjacency)
    assert amoeba.adjacency.nnz == 2 * 23025
    assert amoeba.adjacency.diagonal().sum() == 0
    assert amoeba.adjacency.data.min() == 0.15
    assert amoeba.adjacency.data.max() == 0.999
    first = amoeba.genes.index("DDB_G0286509")
    assert amoeba.adjacency[first, 6] == 0.214
    assert amoeba.data[0, 0] == 9776.11
    assert amoeba.target.sum() == 7553
    assert set(np.unique(amoeba.target)) == {0, 1}
    assert amoeba.target_names[0] == "GO:0005811"


def test_yeast_kegg(load):
    yeast = load(load_yeast_kegg)
    assert symmetric(yeast.adjacency)
    assert yeast.adjacency.nnz == 336
    np.testing.assert_array_equal(yeast.kernel, yeast.kernel.T)
    np.testing.assert_array_equal(np.diag(yeast.kernel), 1)
    assert np.linalg.eigvalsh(yeast.kernel).min() > 0.2
    assert (np.count_nonzero(yeast.kernel, axis=1) == 1).sum() == 55
    np.testing.assert_array_equal(yeast.target, yeast.adjacency.toarray())


@pytest.mark.parametrize(("name", "edges"), [("E1", 11), ("E2", 15), ("Y1", 10), ("Y2", 25), ("Y3", 22)])
def test_dream3(load, name, edges):
    genes = load(load_dream3, name)
    assert [one.shape for one in genes.series] == [(21, 10)] * 4
    assert genes.times.tolist() == list(range(0, 201, 10))
    assert genes.feature_names == [f"G{i}" for i in range(1, 11)]
    assert genes.adjacency.nnz == genes.signs.nnz == edges
    assert set(genes.signs.data) <= {-1, 1}
    assert genes.adjacency.diagonal().sum() == 0
    for g, one in enumerate(genes.series):
        np.testing.assert_array_equal(genes.data[genes.groups == g], one[:-1])
        np.testing.assert_array_equal(genes.target[genes.groups == g], one[1:])


def test_dream3_direction_and_sign(load):
    coli = load(load_dream3, "E1")
    assert coli.signs[1, 0] == -1  # the first line of the file: G2 represses G1
    assert coli.signs[2, 3] == 1  # G3 activates G4
    assert coli.series[0][0, 0] == 0.2251567
