"""Semi-supervised ridge: inputs without outputs pull the predictions of neighbours together.

    minimise  sum_{i labelled} |phi(y_i) - h(x_i)|^2 + alpha |h|^2 + alpha_graph sum_{lm} w_lm |h(x_l) - h(x_m)|^2

over all inputs, labelled and not. The double sum is 2 tr(H' L H) with L the Laplacian of the weights. With J the rows
that are labelled and M = J'J + 2 alpha_graph L, the coefficients of h = sum_i k(., x_i) c_i solve

    (alpha I + M K) C = J' T,

and with features Phi of the inputs (landmarks) h(x) = phi(x)' B,  (alpha I + Phi' M Phi) B = Phi' J' T.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_factor, cho_solve, lu_factor, lu_solve

from ovk._validation import Array, whole
from ovk.kernels import ScalarKernel
from ovk.structured.graphs import as_adjacency, laplacian

#: Rows of the kernel matrix held at once while neighbours are looked for.
ROWS = 1024


def neighbour_graph(kernel: ScalarKernel, X: Any, n_neighbors: int) -> sparse.csr_array:
    """w_ij = k(x_i, x_j) / sqrt(k(x_i, x_i) k(x_j, x_j)) for near inputs, else 0.

    Near are inputs of which one is among the `n_neighbors` inputs most like the other; negative similarities count as
    none.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.kernels import Gaussian
    >>> from ovk.structured import neighbour_graph
    >>> neighbour_graph(Gaussian(1.0), np.array([[0.0], [0.1], [3.0]]), 1).toarray().round(3)
    array([[0.   , 0.995, 0.   ],
           [0.995, 0.   , 0.015],
           [0.   , 0.015, 0.   ]])
    """
    n = X.shape[0]
    count = min(whole(n_neighbors, "n_neighbors"), n - 1)
    if count == 0:
        return sparse.csr_array((n, n))
    norms = np.sqrt(np.maximum(kernel.diag(X), 0.0))
    scale = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    rows, columns, values = [], [], []
    for start in range(0, n, ROWS):
        own = np.arange(start, min(start + ROWS, n))
        S = kernel(X[own], X) * scale[own, None] * scale
        S[np.arange(len(own)), own] = -np.inf
        near = np.argpartition(-S, count - 1, axis=1)[:, :count]
        rows.append(np.repeat(own, count))
        columns.append(near.ravel())
        values.append(np.maximum(np.take_along_axis(S, near, axis=1), 0.0).ravel())
    W = sparse.csr_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=(n, n))
    return sparse.csr_array(W.maximum(W.T))


def penalty_matrix(graph: Any, n: int, labelled: int, alpha_graph: float) -> sparse.csr_array:
    """M = J'J + 2 alpha_graph L, for n inputs of which the first are labelled."""
    A, _ = as_adjacency(graph)
    if A.shape[0] != n:
        raise ValueError(
            f"graph must have a row for each of the {n} inputs, labelled ones first, got {A.shape[0]} rows"
        )
    J = sparse.diags_array((np.arange(n) < labelled).astype(np.float64))
    return sparse.csr_array(J + 2.0 * alpha_graph * laplacian(A, normalised=False))


def penalised_dual(
    K: Array, M: sparse.csr_array, T: Array, alpha: float, intercept: bool
) -> tuple[Array, Array | None]:
    """C, (n, r), and the intercept (r,), for targets T of the labelled inputs, which come first."""
    system = M @ K
    system[np.diag_indices_from(system)] += alpha
    right = np.zeros((len(K), T.shape[1]))
    right[: len(T)] = T
    factors = lu_factor(system, overwrite_a=True, check_finite=False)
    C: Array = lu_solve(factors, right, check_finite=False)
    if not intercept:
        return C, None
    # L 1 = 0, so the graph does not see the intercept b: C solves the system for T - b, and 1'C = 0.
    column: Array = lu_solve(factors, (np.arange(len(K)) < len(T)).astype(np.float64), check_finite=False)
    b = C.sum(axis=0) / column.sum()
    return C - np.outer(column, b), b


def penalised_primal(
    Phi: Array, M: sparse.csr_array, T: Array, alpha: float, intercept: bool
) -> tuple[Array, Array | None]:
    """B, (m, r), and the intercept (r,), for features Phi (n, m) of all inputs."""
    labelled = Phi[: len(T)]
    system = Phi.T @ (M @ Phi)
    system[np.diag_indices_from(system)] += alpha
    factors = cho_factor(system, lower=True)
    B: Array = cho_solve(factors, labelled.T @ T)
    if not intercept:
        return B, None
    # The intercept makes the labelled residuals T - Phi B - b sum to zero.
    total = labelled.sum(axis=0)
    column: Array = cho_solve(factors, total)
    b = (T.sum(axis=0) - total @ B) / (len(T) - total @ column)
    return B - np.outer(column, b), b
