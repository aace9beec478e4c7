"""Graphs from users, and their Laplacians."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph


def as_adjacency(graph: Any) -> tuple[sparse.csr_array, list[Hashable] | None]:
    """(n, n) weights of an undirected graph, without self-loops, and the nodes of a networkx graph (else None)."""
    names = None
    if not sparse.issparse(graph) and hasattr(graph, "is_directed") and hasattr(graph, "nodes"):
        if graph.is_directed():
            raise ValueError("graph must be undirected, got a directed graph: pass graph.to_undirected()")
        import networkx

        names = list(graph.nodes)
        graph = networkx.to_scipy_sparse_array(graph, dtype=np.float64) if names else np.zeros((0, 0))
    try:
        A = sparse.csr_array(graph, dtype=np.float64)
    except (TypeError, ValueError) as error:
        found = type(graph).__name__
        raise ValueError(f"graph must be an adjacency matrix or a networkx graph, got {found}") from error
    if A.ndim != 2 or A.shape[0] != A.shape[1] or A.shape[0] == 0:
        raise ValueError(f"graph must be a square matrix with a row for each node, got shape {A.shape}")
    if not np.isfinite(A.data).all() or (A.data < 0).any():
        raise ValueError("graph must have non-negative and finite weights: clip or remove the others")
    gap = abs(A - A.T)
    if gap.nnz and gap.max() > 1e-10 * A.data.max(initial=1e-300):
        i, j = (int(c[gap.tocoo().data.argmax()]) for c in gap.tocoo().coords)
        raise ValueError(
            f"graph must be symmetric, but its entries ({i}, {j}) and ({j}, {i}) differ: convert a directed graph, for "
            "example with A.maximum(A.T)"
        )
    A = 0.5 * (A + A.T)
    A = sparse.csr_array(A - sparse.diags_array(A.diagonal()))
    A.eliminate_zeros()
    A.sort_indices()
    return A, names


def laplacian(A: sparse.csr_array, *, normalised: bool) -> sparse.csr_array:
    """L = D - A; normalised, D^-1/2 (D - A) D^-1/2, with zero rows for isolated nodes."""
    return sparse.csr_array(csgraph.laplacian(A, normed=normalised))
