"""Labelled graphs as the set of their labelled paths (Ralaivola et al. 2005).

The linear path kernel of two molecules counts the common paths of up to m bonds; with `Tanimoto` on top it is
the share of common paths. A path is the sequence of labels of its atoms and bonds, in the lexicographically smaller of
its two directions.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from reproduce.support import check_int

GraphPath = tuple[str, ...]


def path_features(graph: Any, max_bonds: int = 6, label: str = "label") -> frozenset[GraphPath]:
    """The labelled paths of a graph: all simple paths of up to `max_bonds` bonds.

    Parameters
    ----------
    graph : networkx graph with the attribute `label` of nodes (and of edges, where bonds differ), or a pair (labels of
        the nodes 0..n-1, edges (i, j) or (i, j, label))
    max_bonds : int >= 0
        0 gives only the atoms.
    label : str
        Name of the attribute of nodes and edges, such as "element".

    Examples
    --------
    Ethanol without hydrogen, C-C-O:

    >>> from reproduce.path_fingerprints import path_features
    >>> sorted(path_features((["C", "C", "O"], [(0, 1), (1, 2)]), max_bonds=2))
    [('C',), ('C', '', 'C'), ('C', '', 'C', '', 'O'), ('C', '', 'O'), ('O',)]
    """
    most = check_int(max_bonds, "max_bonds", least=0)
    labels, neighbours = _read(graph, label)
    found: set[GraphPath] = set()
    for node in labels:
        for path in _walk(node, (labels[node],), {node}, most, labels, neighbours):
            found.add(min(path, path[::-1]))
    return frozenset(found)


class PathFingerprints(TransformerMixin, BaseEstimator):
    """Graphs as rows of a sparse matrix, with a column for each labelled path of the training graphs.

    The last column is the square root of the number of paths that occur only in new graphs, so that inner products,
    norms and `Tanimoto` between new and training graphs are exact.

    Parameters
    ----------
    max_bonds : int >= 0
        Length of the longest paths.
    label : str
        Name of the attribute of nodes and edges in networkx graphs.

    Attributes
    ----------
    paths_ : the columns in order

    Examples
    --------
    >>> from reproduce.path_fingerprints import PathFingerprints
    >>> from ovk.kernels import Tanimoto
    >>> ethanol = (["C", "C", "O"], [(0, 1), (1, 2)])
    >>> methanol = (["C", "O"], [(0, 1)])
    >>> X = PathFingerprints(max_bonds=2).fit_transform([ethanol, methanol])
    >>> Tanimoto()(X).round(2)
    array([[1. , 0.6],
           [0.6, 1. ]])
    """

    paths_: list[GraphPath]

    def __init__(self, max_bonds: int = 6, label: str = "label") -> None:
        self.max_bonds = max_bonds
        self.label = label

    def fit(self, graphs: Iterable[Any], y: Any = None) -> Self:
        """Collect the paths of training graphs."""
        self.paths_ = sorted(set().union(*(path_features(graph, self.max_bonds, self.label) for graph in graphs)))
        return self

    def transform(self, graphs: Iterable[Any]) -> sparse.csr_array:
        """(n, paths + 1) zeros and ones, and the last column."""
        check_is_fitted(self)
        number = {path: column for column, path in enumerate(self.paths_)}
        rows, columns, values, n = [], [], [], 0
        for n, graph in enumerate(graphs, start=1):
            paths = path_features(graph, self.max_bonds, self.label)
            known = [number[path] for path in paths if path in number]
            rows += [n - 1] * (len(known) + 1)
            columns += [*known, len(number)]
            values += [1.0] * len(known) + [float(np.sqrt(len(paths) - len(known)))]
        return sparse.csr_array((values, (rows, columns)), shape=(n, len(number) + 1))


def _walk(
    node: Hashable,
    path: GraphPath,
    visited: set[Hashable],
    bonds: int,
    labels: Mapping[Hashable, str],
    neighbours: Mapping[Hashable, Mapping[Hashable, str]],
) -> Iterator[GraphPath]:
    yield path
    if bonds == 0:
        return
    for other, bond in neighbours[node].items():
        if other not in visited:
            further = (*path, bond, labels[other])
            yield from _walk(other, further, visited | {other}, bonds - 1, labels, neighbours)


def _read(graph: Any, label: str) -> tuple[dict[Hashable, str], dict[Hashable, dict[Hashable, str]]]:
    """Labels of the nodes, and for each node its neighbours with the labels of the bonds."""
    if hasattr(graph, "nodes") and hasattr(graph, "adj"):
        missing = [node for node, data in graph.nodes(data=True) if label not in data]
        if missing:
            raise ValueError(f"each node of graph must have the attribute {label!r}, node {missing[0]!r} has none")
        labels = {node: str(data[label]) for node, data in graph.nodes(data=True)}
        adjacent = {
            node: {other: str(data.get(label, "")) for other, data in graph.adj[node].items() if other != node}
            for node in graph.nodes
        }
        return labels, adjacent
    if not (isinstance(graph, tuple) and len(graph) == 2):
        raise ValueError(
            f"graph must be a networkx graph or a pair (labels of nodes, edges), got {type(graph).__name__}"
        )
    names, edges = graph
    labels = {number: str(name) for number, name in enumerate(names)}
    adjacent = {number: {} for number in labels}
    for edge in edges:
        i, j, bond = edge if len(edge) == 3 else (*edge, "")
        if i not in labels or j not in labels:
            raise ValueError(f"edges must join the nodes 0..{len(labels) - 1}, got {tuple(edge)}")
        if i != j:
            adjacent[i][j] = adjacent[j][i] = str(bond)
    return labels, adjacent
