"""Landmarks by randomly pivoted Cholesky."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ovk._params import Parameters, check_int, in_interval
from ovk._types import Array
from ovk.kernels import ScalarKernel
from ovk.ovkernels import OperatorKernel, as_operator_kernel
from ovk.solvers.random_pivots import random_pivots

#: Rows for each landmark that are looked at: with these, choosing costs no more than learning from them.
ROWS_EACH = 5


class RPCholesky(Parameters):
    """Landmarks where the kernel is not yet explained: each is drawn in proportion to k(x, x) minus what the landmarks
    so far say of it (randomly pivoted Cholesky; Chen, Epperly, Tropp and Webber, 2023).

    Give it as `landmarks` of `OVKRidge` or `IOKR` (where ``"rpcholesky"`` means ``RPCholesky()``), or let
    `Given.chosen` make a dictionary for a stream of it.

    Parameters
    ----------
    size : int
        Most landmarks.
    tol : float in [0, 1]
        Share of the kernel's trace that may stay unexplained: fewer landmarks where they are enough.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OVKRidge
    >>> from ovk.features import RPCholesky
    >>> from ovk.kernels import Gaussian
    >>> X = np.random.default_rng(0).standard_normal((400, 2))
    >>> model = OVKRidge(Gaussian(1.0), 1e-3, landmarks=RPCholesky(60), random_state=0).fit(X, np.sin(X))
    >>> model.X_fit_.shape[0] <= 60, bool(model.score(X, np.sin(X)) > 0.99)
    (True, True)
    """

    def __init__(self, size: int = 1000, tol: float = 1e-4) -> None:
        self.size = size
        self.tol = tol

    def points(self, kernel: Any, X: Any, rng: np.random.Generator) -> Any:
        """Rows of X, (m, p), for a scalar or operator-valued kernel with everything resolved."""
        size, tol = check_int(self.size, "size"), in_interval(self.tol, "tol", 0.0, 1.0)
        rows = np.arange(X.shape[0])
        if len(rows) > ROWS_EACH * size:
            rows = np.sort(rng.choice(len(rows), ROWS_EACH * size, replace=False))
        some = X[rows]
        k = _ScalarPart(kernel)
        found = random_pivots(lambda i, j: k(some[i], some[j]), k.diag(some), min(size, len(rows)), rng, tol)
        chosen = some[np.sort(found.pivots)]
        return chosen if sparse.issparse(chosen) else np.array(chosen, dtype=np.float64)

    def dictionary(self, kernel: Any, X: Any, budget: int | None, random_state: Any) -> Array:
        """Points for a stream whose inputs are known beforehand, `budget` of them at most."""
        X = np.asarray(X, dtype=np.float64)
        K = kernel if isinstance(kernel, ScalarKernel) else as_operator_kernel(kernel)
        resolved = K.resolve(X) if isinstance(K, ScalarKernel) else K.resolve(X, K.gram(X[:1]).output_dim)
        size = self.size if budget is None else min(budget, self.size)
        return np.asarray(self.replace(size=size).points(resolved, X, np.random.default_rng(random_state)))


class _ScalarPart:
    """A scalar kernel, the one of k T, or tr K(x, z) / d of any other."""

    def __init__(self, kernel: ScalarKernel | OperatorKernel) -> None:
        self._kernel: Any = kernel
        if isinstance(kernel, OperatorKernel):
            separable = kernel.as_separable()
            self._kernel = kernel if separable is None else separable.scalar

    def __call__(self, X: Any, Z: Any) -> Array:
        if isinstance(self._kernel, ScalarKernel):
            return self._kernel(X, Z)
        gram = self._kernel.gram(X, Z)
        terms = gram.terms()
        if terms is not None:
            total = sum(float(T.eigh().values.sum()) * G for G, T in terms)
            return np.asarray(total / gram.output_dim)
        blocks = gram.dense().reshape(X.shape[0], gram.output_dim, Z.shape[0], gram.output_dim)
        return np.asarray(np.einsum("iqjq->ij", blocks) / gram.output_dim)

    def diag(self, X: Any) -> Array:
        if isinstance(self._kernel, ScalarKernel):
            return self._kernel.diag(X)
        blocks = self._kernel.diagonal_blocks(X)
        return np.asarray(np.einsum("iqq->i", blocks) / blocks.shape[1])


def as_rpcholesky(landmarks: Any) -> RPCholesky | None:
    """The selection that a user means by `landmarks`; None if it is something else."""
    if isinstance(landmarks, str) and landmarks == "rpcholesky":
        return RPCholesky()
    return landmarks if isinstance(landmarks, RPCholesky) else None
