"""The nodes of a graph as points, so that inner products say how near they are in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lapack

from ovk._validation import Array
from ovk.structured.nodes import node_kernel


def node_features(A: sparse.csr_array, graph_kernel: Any, beta: float, *, normalised: bool, centre: bool) -> Array:
    """phi of the nodes of a graph as rows, (n, r), with phi phi' the graph kernel (centred, where asked).

    Parameters
    ----------
    A : (n, n) links, checked by `as_adjacency`
    graph_kernel : name of a kernel of nodes, "adjacency" for the positive part of A, or an (n, n) kernel matrix
    """
    if isinstance(graph_kernel, str) and graph_kernel == "adjacency":
        e, V = np.linalg.eigh(A.toarray())
        K = (V * np.maximum(e, 0.0)) @ V.T
    elif isinstance(graph_kernel, str):
        K = node_kernel(graph_kernel, A, beta, normalised)(range(A.shape[0]))
    else:
        K = np.asarray(graph_kernel, dtype=np.float64)
        if K.shape != A.shape or not np.allclose(K, K.T):
            raise ValueError(
                f"graph_kernel must be a name or a symmetric ({A.shape[0]}, {A.shape[0]}) matrix over the known "
                f"nodes, got shape {K.shape}"
            )
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
    # What is left of an indefinite matrix is not small; one product with any vector shows it.
    probe = np.cos(np.arange(n))
    if np.linalg.norm(K @ probe - F @ (F.T @ probe)) > 1e-7 * largest * n:
        raise ValueError("graph_kernel must be positive semi-definite, but it has negative eigenvalues")
    return F
