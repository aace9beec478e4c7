"""Kernels between the nodes of a graph, r(L) with a decreasing function r of its Laplacian, and their features."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from scipy.linalg import lapack
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import expm_multiply, splu

from ovk.base import Array, Indices, as_adjacency, cached, laplacian, positive
from ovk.kernels import object_indices
from ovk.structured.outputs import ObjectKernel

#: Largest connected component whose eigenvectors are computed (once) instead of columns on demand.
MAX_EIGEN_NODES = 4000
#: Columns of a larger component computed at a time for a diagonal.
MAX_DIAGONAL_COLUMNS = 256


class GraphComponent(NamedTuple):
    """A connected component: its nodes, its Laplacian, and the eigenvectors of a small Laplacian."""

    nodes: Indices
    L: sparse.csr_array
    eigenvectors: tuple[Array, Array] | None


@dataclass(eq=False, repr=False)
class NodeKernel(ObjectKernel, saved=False):
    """k = r(L) between nodes; r >= 0 on the spectrum of the Laplacian L, so k is positive semi-definite.

    r(L) is block diagonal over the connected components. Components of up to `MAX_EIGEN_NODES` nodes are decomposed
    once; for larger ones only the required columns are computed, by products with (or sparse solves of) L.
    """

    graph: Any
    beta: float = 1.0
    normalised: bool = False
    nodes: Any = None

    @abstractmethod
    def transfer(self, eigenvalues: Array) -> Array:
        """r of the eigenvalues of L."""

    @abstractmethod
    def columns(self, L: sparse.csr_array, E: Array) -> Array:
        """r(L) E without eigenvectors."""

    def resolve(self, X: Any) -> Self:
        """The kernel with the graph as a sparse matrix and the names of its nodes, so that it can be saved."""
        if sparse.issparse(self.graph) and self.graph.format == "csr":
            return self
        A, names = as_adjacency(self.graph)
        return self.replace(graph=A, nodes=self.nodes if names is None else names)

    @cached
    def _components(self) -> tuple[list[GraphComponent], Indices, Indices]:
        """The components, the component of each node, and its position in it."""
        A, _ = as_adjacency(self.graph)
        L = laplacian(A, normalised=self.normalised)
        number, component_of = connected_components(A, directed=False)
        order = np.argsort(component_of, kind="stable")
        members = np.split(order, np.cumsum(np.bincount(component_of, minlength=number))[:-1])
        place = np.empty(len(order), dtype=np.intp)
        parts = []
        for nodes in members:
            place[nodes] = np.arange(len(nodes))
            inner = sparse.csr_array(L[nodes][:, nodes])
            pairs = np.linalg.eigh(inner.toarray()) if len(nodes) <= MAX_EIGEN_NODES else None
            parts.append(GraphComponent(nodes, inner, pairs))
        return parts, component_of.astype(np.intp), place

    @cached
    def _names(self) -> dict[Hashable, int] | None:
        names = as_adjacency(self.graph)[1] if self.nodes is None else self.nodes
        return None if names is None else {name: i for i, name in enumerate(names)}

    def _indices(self, X: Any) -> Indices:
        names, n = self._names(), len(self._components()[1])
        if names is not None:
            unknown = [x for x in X if x not in names]
            if unknown:
                raise ValueError(f"outputs must be names of nodes of the graph, got {unknown[0]!r}")
            return np.array([names[x] for x in X], dtype=np.intp)
        wrong = "outputs must be one column of node indices"
        return object_indices(X, n, wrong, "the nodes of the graph")

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        rows = self._indices(X)
        columns = rows if Z is None else self._indices(Z)
        parts, component_of, place = self._components()
        values = np.zeros((len(rows), len(columns)))
        for number in np.intersect1d(component_of[rows], component_of[columns]):
            i, j = np.flatnonzero(component_of[rows] == number), np.flatnonzero(component_of[columns] == number)
            values[np.ix_(i, j)] = self._within(parts[number], place[rows[i]], place[columns[j]])
        return values

    def _within(self, part: GraphComponent, rows: Indices, columns: Indices) -> Array:
        if part.eigenvectors is not None:
            e, V = part.eigenvectors
            return np.asarray((V[rows] * self.transfer(np.maximum(e, 0.0))) @ V[columns].T)
        # The kernel is symmetric: compute the distinct columns of the shorter side.
        if len(np.unique(rows)) < len(np.unique(columns)):
            return self._within(part, columns, rows).T
        distinct, back = np.unique(columns, return_inverse=True)
        E = np.zeros((part.L.shape[0], len(distinct)))
        E[distinct, np.arange(len(distinct))] = 1.0
        return self.columns(part.L, E)[rows][:, back]

    def diag(self, X: Any) -> Array:
        indices = self._indices(X)
        parts, component_of, place = self._components()
        values = np.empty(len(indices))
        for number in np.unique(component_of[indices]):
            i = np.flatnonzero(component_of[indices] == number)
            part, rows = parts[number], place[indices[i]]
            if part.eigenvectors is not None:
                e, V = part.eigenvectors
                values[i] = V[rows] ** 2 @ self.transfer(np.maximum(e, 0.0))
            else:
                distinct, back = np.unique(rows, return_inverse=True)
                blocks = np.split(distinct, range(MAX_DIAGONAL_COLUMNS, len(distinct), MAX_DIAGONAL_COLUMNS))
                values[i] = np.concatenate([np.diagonal(self._within(part, some, some)) for some in blocks])[back]
        return values


class Diffusion(NodeKernel):
    """Diffusion kernel of the nodes of a graph: k = exp(-beta L).

    The amount that has diffused from one node to the other after the time beta.

    Parameters
    ----------
    graph : (n, n) array, sparse matrix or undirected networkx graph
        Weights >= 0 of the links.
    beta : float >= 0
        Time. At 0 every node is similar to itself only.
    normalised : bool
        Use the normalised Laplacian D^-1/2 L D^-1/2, whose spectrum lies in [0, 2] for any degrees.
    nodes : sequence, optional
        Names of the nodes, if outputs are names. Without it (and with a matrix) an output is the index of a node.

    See Also
    --------
    RegularizedLaplacian, LinkPredictor, IOKR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.structured import Diffusion
    >>> path = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]])
    >>> Diffusion(path, beta=1.0)([0, 1, 2]).round(3)
    array([[0.526, 0.317, 0.158],
           [0.317, 0.367, 0.317],
           [0.158, 0.317, 0.526]])
    """

    def transfer(self, eigenvalues: Array) -> Array:
        return np.exp(-positive(self.beta, "beta", zero=True) * eigenvalues)

    def columns(self, L: sparse.csr_array, E: Array) -> Array:
        return np.asarray(expm_multiply(-positive(self.beta, "beta", zero=True) * L, E))


class RegularizedLaplacian(NodeKernel):
    """Regularised Laplacian kernel of the nodes of a graph: k = (I + beta L)^-1.

    Sums over random walks of any length, with damping.

    Parameters
    ----------
    graph : (n, n) array, sparse matrix or undirected networkx graph
        As in `Diffusion`.
    beta : float >= 0
        Larger values make distant nodes more similar.
    normalised, nodes
        As in `Diffusion`.

    See Also
    --------
    Diffusion, LinkPredictor, IOKR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.structured import RegularizedLaplacian
    >>> RegularizedLaplacian(np.array([[0, 1], [1, 0]]), beta=1.0)([0, 1]).round(3)
    array([[0.667, 0.333],
           [0.333, 0.667]])
    """

    def transfer(self, eigenvalues: Array) -> Array:
        return np.asarray(1.0 / (1.0 + positive(self.beta, "beta", zero=True) * eigenvalues))

    def columns(self, L: sparse.csr_array, E: Array) -> Array:
        system = sparse.eye_array(L.shape[0]) + positive(self.beta, "beta", zero=True) * L
        return np.asarray(splu(sparse.csc_matrix(system)).solve(E))


#: Graph kernels of `LinkPredictor` by name.
_KERNELS: dict[str, type[NodeKernel]] = {"diffusion": Diffusion, "regularized_laplacian": RegularizedLaplacian}


def node_features(A: sparse.csr_array, graph_kernel: Any, beta: float, *, normalised: bool, centre: bool) -> Array:
    """Features (n, r) of the nodes whose inner products are the graph kernel of the adjacency matrix A."""
    if isinstance(graph_kernel, str) and graph_kernel == "adjacency":
        e, V = np.linalg.eigh(A.toarray())
        K = (V * np.maximum(e, 0.0)) @ V.T
    elif isinstance(graph_kernel, str):
        if graph_kernel not in _KERNELS:
            allowed = sorted([*_KERNELS, "adjacency"])
            raise ValueError(f"graph_kernel must be one of {allowed} or a matrix, got {graph_kernel!r}")
        K = _KERNELS[graph_kernel](A, beta, normalised)(range(A.shape[0]))
    else:
        K = np.asarray(graph_kernel, dtype=np.float64)
        if K.shape != A.shape or not np.allclose(K, K.T):
            wanted = f"a name or a symmetric matrix of shape {A.shape}"
            raise ValueError(f"graph_kernel must be {wanted}, got shape {K.shape}")
    if centre:
        mean = K.mean(axis=0)
        K = K - mean - mean[:, None] + mean.mean()
    return _factor(K)


def _factor(K: Array) -> Array:
    """F, (n, r), with F F' = K, from a pivoted Cholesky factorisation."""
    n, largest = len(K), max(float(np.diagonal(K).max()), 1e-300)
    triangular, pivots, rank, _ = lapack.dpstrf(K.T, tol=1e-12 * largest, lower=1)
    F = np.zeros((n, max(rank, 1)))
    F[pivots - 1, :rank] = np.tril(triangular[:, :rank])
    # The residual of an indefinite matrix is large; one product reveals it.
    probe = np.cos(np.arange(n))
    if np.linalg.norm(K @ probe - F @ (F.T @ probe)) > 1e-7 * largest * n:
        raise ValueError("graph_kernel must be positive semi-definite, but it has negative eigenvalues")
    return F
