"""The manifold penalty: predictions at neighbouring inputs, labelled or not, should be similar.

    minimise  sum_{i, q observed} w_i (y_iq - f_q(x_i) - b_q)^2 + alpha |f|^2
              + alpha_graph sum_{lm} w_lm |f(x_l) - f(x_m)|^2

over all inputs, labelled or not. The double sum is tr(F' P F) with F the values of f and P = 2 alpha_graph L, L the
Laplacian of the graph. With W the weights of the observed outputs (zero where nothing was observed), the coefficients
of f = sum_i K(., x_i) c_i solve

    alpha C + (W + P) K C = W (Y - b),      1'C = 0 for an intercept b, which P does not affect (P 1 = 0).

If every row has all of its outputs or none, W + P acts on points only, and the system decouples in the eigenvectors of
the output operator like that of plain ridge regression; otherwise it is one system of all n d values. With features
Phi of the inputs (landmarks), Phi' P Phi is added to the sums over rows Phi' W Phi.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import lu_factor, lu_solve

from ovk.base import Array, Targets, as_adjacency, check_int, laplacian, ridge_and_scales
from ovk.batch.ridge.ridge_system import same_inputs, takes_gram
from ovk.kernels import ScalarKernel
from ovk.ovkernels import OperatorKernel, Stacked
from ovk.solvers import SolverInfo

#: Rows of the kernel matrix held at a time in the search for neighbours.
MAX_ROWS_HELD = 1024


def neighbour_graph(kernel: ScalarKernel, X: Any, n_neighbors: int) -> sparse.csr_array:
    """w_ij = k(x_i, x_j) / sqrt(k(x_i, x_i) k(x_j, x_j)) for neighbours, else 0.

    Two inputs are neighbours if one is among the `n_neighbors` most similar to the other; negative w_ij become 0.
    """
    n = X.shape[0]
    count = min(check_int(n_neighbors, "n_neighbors"), n - 1)
    if count == 0:
        return sparse.csr_array((n, n))
    norms = np.sqrt(np.maximum(kernel.diag(X), 0.0))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    rows, columns, values = [], [], []
    for start in range(0, n, MAX_ROWS_HELD):
        own = np.arange(start, min(start + MAX_ROWS_HELD, n))
        S = kernel(X[own], X) * scale[own, None] * scale
        S[np.arange(len(own)), own] = -np.inf
        near = np.argpartition(-S, count - 1, axis=1)[:, :count]
        rows.append(np.repeat(own, count))
        columns.append(near.ravel())
        values.append(np.maximum(np.take_along_axis(S, near, axis=1), 0.0).ravel())
    W = sparse.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(n, n))
    return sparse.csr_array(W.maximum(W.T))


def graph_of_inputs(graph: Any, kernel: ScalarKernel | None, X: Any, n_neighbors: int) -> sparse.csr_array:
    """Weights between the inputs X, labelled ones first, from a graph, its Laplacian, or nearest neighbours in k."""
    if graph is None:
        if kernel is None:
            raise ValueError("the nearest-neighbour graph requires a kernel k * T: pass a graph of the inputs to fit")
        # Copies of an input count once; otherwise they would be each other's nearest neighbours.
        _, first = np.unique(same_inputs(X), return_index=True)
        links = sparse.coo_array(neighbour_graph(kernel, X[first], n_neighbors))
        at = tuple(first[place] for place in links.coords)
        return sparse.csr_array((links.data, at), shape=(X.shape[0], X.shape[0]))
    return weights_of(graph, X.shape[0])


def weighted_inputs(X: Any, targets: Targets, graph: Any) -> tuple[Any, Targets, sparse.csr_array | None]:
    """Inputs, outputs and graph without the rows of weight 0."""
    weights = None if graph is None else weights_of(graph, X.shape[0])
    if targets.weight is None:
        return X, targets, weights
    keep = np.flatnonzero(targets.weight > 0)
    return X[keep], targets.rows(keep), None if weights is None else weights[keep][:, keep]


def weights_of(graph: Any, n: int) -> sparse.csr_array:
    """Weights between n inputs, from a graph or its Laplacian D - A, which has negative entries."""
    L = sparse.csr_array(graph) if sparse.issparse(graph) or isinstance(graph, (np.ndarray, list)) else None
    if L is not None and L.ndim == 2 and L.shape[0] == L.shape[1] and (L.data < 0).any():
        off = sparse.csr_array(L - sparse.diags_array(L.diagonal()))
        sums = np.abs(np.asarray(L.sum(axis=1))).max()
        if (off.data > 0).any() or not sums <= 1e-8 * np.abs(L.data).max():
            raise ValueError(
                "graph with negative entries must be a Laplacian D - A, with off-diagonal entries <= 0 and rows that "
                "sum to 0; instead of a normalised Laplacian, pass the weights"
            )
        graph = -off
    A, _ = as_adjacency(graph)
    if A.shape[0] != n:
        raise ValueError(f"graph must have one row for each of the {n} inputs, labelled ones first, got {A.shape[0]}")
    return A


def check_manifold(kernel: Any, loss: str = "squared", *, streamed: bool = False) -> None:
    if takes_gram(kernel):
        raise ValueError("alpha_graph > 0 does not support Precomputed(): use Precomputed(matrix) with indices")
    if loss != "squared":
        raise ValueError(f"alpha_graph > 0 requires loss='squared', got {loss!r}")
    if streamed:
        raise ValueError("alpha_graph > 0 requires all inputs at once: pass arrays X and y instead of chunks")


def with_unlabelled(X: Any, more: Any) -> Any:
    return sparse.csr_array(sparse.vstack([X, more])) if sparse.issparse(X) else np.concatenate([X, more])


def penalty_matrix(graph: sparse.csr_array, alpha_graph: float) -> sparse.csr_array:
    """P = 2 alpha_graph L."""
    return sparse.csr_array(2.0 * alpha_graph * laplacian(graph, normalised=False))


def penalised_ridge(
    kernel: OperatorKernel, X: Any, targets: Targets, alpha: float | Array, P: sparse.csr_array, *, intercept: bool
) -> tuple[Array, Array | None, SolverInfo]:
    """Coefficients (n, d) and intercept (d,) for the inputs X, some of which may have no outputs (rows of nan)."""
    # An alpha for each output is scaled in, as in `ridge_system`.
    ridge, own = ridge_and_scales(alpha)
    scales = np.ones(targets.d) if own is None else own
    if ridge == 0:
        raise ValueError("alpha must be positive with alpha_graph > 0, got 0: unlabelled inputs are unconstrained")
    seen = ~np.isnan(targets.Y)
    W = seen * (1.0 if targets.weight is None else targets.weight[:, None])
    gram = kernel.gram(X) if own is None else kernel.gram(X).rescale(None, None, own)
    right = W * np.where(seen, targets.Y, 0.0) * scales
    # If each row has all of its outputs or none, the problem decouples.
    decoupled = (gram.decouple() if (W[:, :1] == W).all() else None) or Stacked(gram)
    parts, biases = [], []
    for q, R in enumerate(decoupled.split(right)):
        # The unknowns are points, with one column of ones, or all pairs of a point and an output.
        d = len(R) // len(W)
        w = W[:, 0] if d == 1 else W.reshape(-1)
        E = np.tile(np.eye(d), (len(W), 1))
        M = sparse.diags_array(w) + (P if d == 1 else sparse.kron(P, sparse.eye_array(d)))
        A = M @ decoupled.matrix(q)
        A[np.diag_indices_from(A)] += ridge
        factors = lu_factor(A, overwrite_a=True, check_finite=False)
        C = lu_solve(factors, R, check_finite=False)
        if intercept:
            Z = lu_solve(factors, w[:, None] * E, check_finite=False)
            biases.append(np.linalg.solve(E.T @ Z, E.T @ C))
            C = C - Z @ biases[-1]
        parts.append(C)
    offset = decoupled.join(biases)[0] / scales if intercept else None
    return decoupled.join(parts) * scales, offset, SolverInfo("LU")
