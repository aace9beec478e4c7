"""Outputs in clusters, and outputs at the leaves of a tree."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from ovk._params import cached, in_interval
from ovk._types import Array
from ovk.operators.base import KeptMatrix


class Cluster(KeptMatrix):
    """T = (1 - within) I + (within - between) S + between 11', S_ij = 1 when i and j are in the same cluster.

    Outputs of one cluster share a part of weight `within`, all outputs one of weight `between`: f_t = g + g_c + v_t, at
    the price |g|^2 / between + sum_c |g_c|^2 / (within - between) + sum_t |v_t|^2 / (1 - within). With between = 0 and
    m_c outputs in cluster c, the norm of f is

        sum_c m_c |mean_c f|^2 / (1 - within + within m_c) + sum_c sum_{t in c} |f_t - mean_c f|^2 / (1 - within).

    Parameters
    ----------
    assignments : sequence of d labels
        The cluster of each output.
    within, between : floats, 0 <= between <= within <= 1

    Examples
    --------
    >>> from ovk.operators import Cluster
    >>> Cluster(["a", "a", "b"], within=0.5).dense()
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    def __init__(self, assignments: Sequence[Hashable], within: float = 0.5, between: float = 0.0) -> None:
        self.assignments = assignments
        self.within = within
        self.between = between

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return len(self.assignments)

    def _same(self) -> Array:
        if len(self.assignments) == 0:
            raise ValueError("assignments must name the cluster of at least one output, got none")
        numbers: dict[Hashable, int] = {}
        labels = np.array([numbers.setdefault(label, len(numbers)) for label in self.assignments])
        return np.asarray((labels[:, None] == labels[None, :]).astype(np.float64))

    @cached
    def _matrix(self) -> Array:
        within = in_interval(self.within, "within", 0.0, 1.0)
        between = in_interval(self.between, "between", 0.0, within)
        same = self._same()
        return (1.0 - within) * np.eye(len(same)) + (within - between) * same + between

    def gradient(self) -> dict[str, Array]:
        same = self._same()
        return {"within": same - np.eye(len(same)), "between": 1.0 - same}


class Tree(KeptMatrix):
    """T_ij = how much of their way from the root outputs i and j share, scaled so that T_ii = 1.

    Every node v of the tree is a function g_v that all outputs below it have in common; the node at depth k has weight
    w_v = decay^k (the root has depth 0). With s_i^2 the sum of the weights from the root to output i, the norm of f is
    that of the cheapest way to write it,

        min sum_v |g_v|^2 / w_v   subject to   f_i = sum_{v above i} g_v / s_i.

    Parameters
    ----------
    hierarchy : nested sequence or mapping
        ``[[0, 1], [2, [3, 4]]]``: the outputs 0..d-1 at the leaves; or ``{child: parent}``, where the outputs are the
        integers 0..d-1 and inner nodes may have any name.
    decay : float > 0
        Below 1, what is shared near the root weighs more; above 1, what is shared near the leaves.

    Examples
    --------
    >>> from ovk.operators import Tree
    >>> Tree([[0, 1], 2]).dense().round(3)
    array([[1.   , 0.667, 0.408],
           [0.667, 1.   , 0.408],
           [0.408, 0.408, 1.   ]])
    """

    def __init__(self, hierarchy: Any, decay: float = 1.0) -> None:
        self.hierarchy = hierarchy
        self.decay = decay

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return len(self._paths())

    @cached
    def _paths(self) -> list[tuple[Hashable, ...]]:
        """Nodes from the root to each output."""
        if isinstance(self.hierarchy, Mapping):
            paths = _paths_from_parents(self.hierarchy)
        else:
            paths = {}
            _walk(self.hierarchy, ("root",), paths)
        d = len(paths)
        if d == 0 or set(paths) != set(range(d)):
            raise ValueError(
                "hierarchy must hold each of the outputs 0..d-1 once as a leaf, got the leaves "
                f"{sorted(paths, key=str)}"
            )
        return [paths[i] for i in range(d)]

    @cached
    def _matrix(self) -> Array:
        decay = in_interval(self.decay, "decay", 1e-6, 1e6)
        paths = self._paths()
        # On the way to i and j alike: the common prefix, for the nodes of a tree determine their own way.
        weights = decay ** np.arange(max(len(path) for path in paths))
        T = np.empty((len(paths), len(paths)))
        for i, a in enumerate(paths):
            for j, b in enumerate(paths[: i + 1]):
                shared = _common(a, b)
                T[i, j] = T[j, i] = weights[:shared].sum()
        norm = np.sqrt(np.diagonal(T))
        T /= norm[:, None] * norm[None, :]
        np.fill_diagonal(T, 1.0)
        return T


def _common(a: tuple[Hashable, ...], b: tuple[Hashable, ...]) -> int:
    """Length of the common prefix."""
    for k, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return k
    return min(len(a), len(b))


def _walk(node: Any, path: tuple[Hashable, ...], paths: dict[Any, tuple[Hashable, ...]]) -> None:
    if isinstance(node, (list, tuple)):
        for k, child in enumerate(node):
            _walk(child, (*path, (len(path), k)), paths)
        return
    if node in paths:
        raise ValueError(f"hierarchy names the output {node!r} twice")
    paths[node] = path


def _paths_from_parents(parent: Mapping[Any, Any]) -> dict[Any, tuple[Hashable, ...]]:
    inner = set(parent.values())
    paths: dict[Any, tuple[Hashable, ...]] = {}
    for leaf in parent:
        if leaf in inner:
            continue
        way, node = [leaf], leaf
        while node in parent:
            node = parent[node]
            if node in way:
                raise ValueError(f"hierarchy has a cycle through {node!r}")
            way.append(node)
        paths[leaf] = tuple(reversed(way))
    if len({path[0] for path in paths.values()}) > 1:
        # A forest: its trees hang together at a root without a name.
        paths = {leaf: (None, *path) for leaf, path in paths.items()}
    return paths
