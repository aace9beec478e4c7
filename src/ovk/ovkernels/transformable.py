"""One scalar kernel, each output looking at the input in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ovk._params import dense_inputs
from ovk._types import Array, Indices, Transform
from ovk.grams import DenseBlocks, Gram
from ovk.kernels import NotDifferentiable, ScalarKernel, as_kernel
from ovk.kernels.base import contract
from ovk.ovkernels.base import OperatorKernel, by_entry


class Transformable(OperatorKernel):
    """K(x, z)_ij = k(T_i(x), T_j(z)).

    Parameters
    ----------
    kernel : scalar kernel k
    transforms : sequence of d transforms, or None
        Each a (q, p) matrix, which maps x to A x, or a function that maps (n, p) inputs to (n, q). None takes the
        coordinates, T_i(x) = x_i, one output for each input.

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import Transformable
    >>> Transformable(Gaussian(1.0))([0.0, 1.0], [0.0, 2.0]).round(4)
    array([[1.    , 0.1353],
           [0.6065, 0.6065]])
    """

    def __init__(self, kernel: Any, transforms: Sequence[Transform] | None = None) -> None:
        self.kernel = kernel
        self.transforms = transforms

    @property
    def output_dim(self) -> int | None:
        return None if self.transforms is None else len(self.transforms)

    @property
    def scalar(self) -> ScalarKernel:
        """k, whatever form it was given in."""
        return as_kernel(self.kernel)

    def resolve(self, X: Any, d: int) -> Self:
        super().resolve(X, d)
        if self.transforms is None and X.shape[1] != d:
            raise ValueError(
                f"Transformable() without transforms has an output for each input: X has {X.shape[1]} features "
                f"but Y has {d} outputs; give transforms"
            )
        kernel = self.scalar.resolve(np.concatenate(self.views(X)))
        return self if kernel is self.kernel else type(self)(kernel, self.transforms)

    def views(self, X: Any) -> list[Array]:
        """T_i(x) of every row, for each output i: arrays (n, q)."""
        X = dense_inputs(X, "Transformable")
        if self.transforms is None:
            return [X[:, i : i + 1] for i in range(X.shape[1])]
        return [self._view(i, transform, X) for i, transform in enumerate(self.transforms)]

    @staticmethod
    def _view(i: int, transform: Transform, X: Array) -> Array:
        if callable(transform):
            seen = np.asarray(transform(X), dtype=np.float64)
            if seen.ndim != 2 or len(seen) != len(X):
                raise ValueError(
                    f"transforms[{i}] must map (n, p) inputs to (n, q), but it gave {seen.shape} for {X.shape}"
                )
            return seen
        A = np.atleast_2d(np.asarray(transform, dtype=np.float64))
        if A.shape[1] != X.shape[1]:
            raise ValueError(f"transforms[{i}] is a matrix for {A.shape[1]} inputs but X has {X.shape[1]} features")
        return X @ A.T

    def _stack(self, X: Any) -> Array:
        """T_i(x_l) with the output running fastest, (n d, q)."""
        stacked = np.stack(self.views(X), axis=1)
        return stacked.reshape(-1, stacked.shape[2])

    def _gram(self, values: Array, X: Any) -> Gram:
        d = X.shape[1] if self.transforms is None else len(self.transforms)
        return DenseBlocks(values, d)

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        return self._gram(self.scalar(self._stack(X), None if Z is None else self._stack(Z)), X)

    def diagonal_blocks(self, X: Any) -> Array:
        views = self.views(X)
        d = len(views)
        stacked = np.stack(views, axis=1)
        return np.array([self.scalar(stacked[i]) for i in range(len(X))]).reshape(len(X), d, d)

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        return self.scalar(self._own(X, s), None if Z is None or t is None else self._own(Z, t))

    def _own(self, X: Any, s: Indices) -> Array:
        """Each row as its own output sees it."""
        return np.stack(self.views(X), axis=1)[np.arange(len(s)), s]

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        X = np.asarray(X, dtype=np.float64)
        support, weights = self._stack(Z), np.asarray(C).reshape(*C.shape[:-2], -1, 1)
        parts = []
        for i, view in enumerate(self.views(X)):
            inner = contract(self.scalar.slopes(view, support), view, support, weights)[:, 0]
            parts.append(inner @ self._matrix(i, X.shape[1]))
        return np.stack(parts, axis=1)

    def _matrix(self, i: int, p: int) -> Array:
        if self.transforms is None:
            return np.eye(p)[i : i + 1]
        transform = self.transforms[i]
        if callable(transform):
            raise NotDifferentiable(
                f"transforms[{i}] is a function, whose derivative is not known; give a matrix where a Jacobian is "
                "needed"
            )
        return np.atleast_2d(np.asarray(transform, dtype=np.float64))

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        changes = self.scalar.gradient(self._stack(X), None if Z is None else self._stack(Z))
        return {name: self._gram(change, X) for name, change in by_entry("kernel", changes).items()}

    def norm_bound(self) -> float | None:
        # |K(x, x)| <= trace
        bound, d = self.scalar.norm_bound(), self.output_dim
        return None if bound is None or d is None else d * bound
