"""Leave-one-out errors of ridge regression into a feature space, in closed form.

The prediction with row i left out is the one with row i's target replaced by that prediction, so with the smoother
S (fitted values S T) the left-out residual is

    t_i - h_without_i(x_i) = (T - S T)_i / (1 - S_ii),

and its squared norm in the feature space is the error. This holds for landmarks that stay fixed and for the graph
penalty (row i then stays, as an input without an output). With features Phi of the inputs, the first rows P labelled,
and Phi' N Phi = U e U' for the penalty N beyond alpha, S = (P U) diag(1 / (e + alpha)) (P U)'.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from ovk._validation import Array
from ovk.operators import Spectrum
from ovk.solvers.eigen import eigenpairs
from ovk.solvers.leave_one_out import KroneckerLeaveOneOut


def exact_path(
    K: Array, T: Array, spectrum: Spectrum | None, alphas: Array, intercept: bool = False
) -> Iterator[Array]:
    """Left-out residuals (n, r) at each alpha, for the kernel matrix K and an operator of the given spectrum."""
    plain = Spectrum(np.ones(T.shape[1]), np.eye(T.shape[1])) if spectrum is None else spectrum
    yield from KroneckerLeaveOneOut(eigenpairs(K), T, np.ones(len(K)) if intercept else None).path(plain, alphas)


def smoother_path(Phi: Array, M: sparse.csr_array | None, T: Array, alphas: Array) -> Iterator[Array]:
    """The same for features Phi (n, m) of all inputs and a penalty M (None for J'J: no graph)."""
    labelled = Phi[: len(T)]
    e, U = np.linalg.eigh(Phi.T @ (M @ Phi) if M is not None else labelled.T @ labelled)
    P = labelled @ U
    inner, squares = P.T @ T, P**2
    for alpha in alphas:
        D = 1.0 / (np.maximum(e, 0.0) + alpha)
        yield (T - P @ (D[:, None] * inner)) / (1.0 - squares @ D)[:, None]
