"""Kernels of curl-free and divergence-free vector fields.

With u = (x - z) / l, s = |u|^2 and phi the profile of a stationary kernel, in units of the length scale,

    curl-free:        K = -grad grad' phi          = -4 phi''(s) u u' - 2 phi'(s) I
    divergence-free:  K = (grad grad' - I laplace) phi = 4 phi''(s) (u u' - s I) - 2 (p - 1) phi'(s) I

Both have the form  K = a u u' + b I  with  a = e phi'',  b = g s phi'' + h phi'.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from ovk.base import Array, Indices, dense_inputs
from ovk.kernels import Matern, NotDifferentiableError, Stationary
from ovk.ovkernels.base import OperatorKernel
from ovk.ovkernels.grams import DenseBlocks, Gram


@dataclass(eq=False, repr=False)
class _FieldKernel(OperatorKernel, saved=False):
    """K = a(s) u u' + b(s) I."""

    kernel: Stationary
    dims: int | None = None

    @abstractmethod
    def _form(self, p: int) -> tuple[float, float, float]:
        """The coefficients e, g and h of  a = e phi'',  b = g s phi'' + h phi'."""

    @property
    def output_dim(self) -> int | None:
        return self.dims

    def _scale(self) -> float:
        if not isinstance(self.kernel, Stationary):
            raise ValueError(
                f"kernel of {type(self).__name__} must be Gaussian, Matern or RationalQuadratic, got {self.kernel!r}"
            )
        if isinstance(self.kernel, Matern) and self.kernel.nu <= 1:
            raise ValueError(f"nu of the kernel of {type(self).__name__} must be greater than 1, got {self.kernel.nu}")
        return self.kernel.single_scale()

    def resolve(self, X: Any, d: int) -> Self:
        p = X.shape[1]
        if d != p or (self.dims is not None and self.dims != p):
            raise ValueError(
                f"{type(self).__name__} requires as many outputs as inputs, but X has {p} features and Y has {d} "
                "outputs" + ("" if self.dims is None else f" and dims={self.dims}")
            )
        if p < 2:
            raise ValueError(f"{type(self).__name__} requires at least 2 dimensions, got {p}")
        kernel = self.kernel.resolve(X) if isinstance(self.kernel, Stationary) else self.kernel
        resolved = type(self)(kernel, p)
        resolved._scale()
        return resolved

    def _units(self, X: Any, Z: Any | None) -> tuple[Array, Array, Array]:
        """x / l, z / l and s, (n, m)."""
        scale = self._scale()
        X = dense_inputs(X, type(self).__name__)
        Z = X if Z is None else dense_inputs(Z, type(self).__name__)
        return X / scale, Z / scale, self.kernel.scaled_distances(X, None if Z is X else Z)

    def _ab(self, s: Array, p: int, second: Array | None = None) -> tuple[Array, Array]:
        e, g, h = self._form(p)
        second = self.kernel.profile(s, 2) if second is None else second
        return e * second, g * s * second + h * self.kernel.profile(s, 1)

    def _blocks(self, x: Array, z: Array, a: Array, b: Array) -> Gram:
        p = x.shape[1]
        K = np.empty((len(x), p, len(z), p))
        u = [x[:, i, None] - z[None, :, i] for i in range(p)]
        for i in range(p):
            left = a * u[i]
            for j in range(i + 1):
                K[:, i, :, j] = K[:, j, :, i] = left * u[j] + (b if i == j else 0.0)
        return DenseBlocks(K.reshape(len(x) * p, len(z) * p), p)

    def gram(self, X: Any, Z: Any | None = None) -> Gram:
        x, z, s = self._units(X, Z)
        return self._blocks(x, z, *self._ab(s, x.shape[1]))

    def diagonal_blocks(self, X: Any) -> Array:
        self._scale()
        p = X.shape[1]
        _, b = self._ab(np.zeros(1), p)
        return np.broadcast_to(b[0] * np.eye(p), (X.shape[0], p, p)).copy()

    def pairs(self, X: Any, s: Indices, Z: Any | None = None, t: Indices | None = None) -> Array:
        x, z, distances = self._units(X, Z)
        t = s if t is None else t
        a, b = self._ab(distances, x.shape[1])
        left = x[np.arange(len(s)), s][:, None] - z[:, s].T
        right = x[:, t] - z[np.arange(len(t)), t][None, :]
        return np.asarray(a * left * right + b * (s[:, None] == t[None, :]))

    def jacobian(self, X: Any, Z: Any, C: Array) -> Array:
        # f_i = sum a u_i (u.c) + b c_i;  ds/dx_k = 2 u_k / l, du_i/dx_k = delta_ik / l:
        # df_i/dx_k = (1/l) sum 2 a' u_k u_i (u.c) + a (delta_ik (u.c) + u_i c_k) + 2 b' u_k c_i
        scale = self._scale()
        if isinstance(self.kernel, Matern) and self.kernel.nu <= 1.5:
            raise NotDifferentiableError(f"nu must be greater than 3/2 for a Jacobian, got {self.kernel.nu}")
        e, g, h = self._form(X.shape[1])
        x, z, s = self._units(X, Z)
        p = x.shape[1]
        second, third = self.kernel.profile(s, 2), self.kernel.profile(s, 3)
        a, a1, b1 = e * second, e * third, g * (second + s * third) + h * second
        u = [x[:, i, None] - z[None, :, i] for i in range(p)]
        c = C if C.ndim == 3 else C[None]
        along = sum(u[i] * c[:, :, i] for i in range(p))
        J = np.empty((len(x), p, p))
        for i in range(p):
            for k in range(p):
                term = 2.0 * a1 * u[k] * u[i] * along + 2.0 * b1 * u[k] * c[:, :, i] + a * u[i] * c[:, :, k]
                if i == k:
                    term += a * along
                J[:, i, k] = term.sum(axis=1) / scale
        return J

    def gradient(self, X: Any, Z: Any | None = None) -> dict[str, Gram]:
        x, z, s = self._units(X, Z)
        second = self.kernel.profile(s, 2)
        return {name: self._blocks(x, z, da, db) for name, (da, db) in self._changes(s, second, x.shape[1]).items()}

    def _changes(self, s: Array, second: Array, p: int) -> dict[str, tuple[Array, Array]]:
        """Derivatives of a u u' + b I in every hyper-parameter, as the derivatives of a and b."""
        # du/dl = -u / l, ds/dl = -2 s / l
        scale, (e, g, h), third = self._scale(), self._form(p), self.kernel.profile(s, 3)
        da = -(2.0 / scale) * e * (s * third + second)
        db = -(2.0 / scale) * s * (g * (second + s * third) + h * second)
        result = {"kernel__length_scale": (da, db)}
        first_change, second_change = self.kernel.shape_gradient(s, 1), self.kernel.shape_gradient(s, 2)
        for name in first_change:
            change = second_change[name]
            result[f"kernel__{name}"] = e * change, g * s * change + h * first_change[name]
        return result

    # With weights W of the entries, sum W (a u u' + b I) = sum_nm a_nm (u'W u)_nm + b_nm tr W_nm.
    def gradient_product(self, weights: Array, X: Any) -> tuple[float, dict[str, float]]:
        x, _, s = self._units(X, None)
        (n, p), second = x.shape, self.kernel.profile(s, 2)
        W = weights.reshape(n, p, n, p)
        u = [x[:, i, None] - x[None, :, i] for i in range(p)]
        trace: Any = sum(W[:, i, :, i] for i in range(p))
        along: Any = sum(u[i] * sum(W[:, i, :, j] * u[j] for j in range(p)) for i in range(p))

        def product(a: Array, b: Array) -> float:
            return float(np.vdot(a, along) + np.vdot(b, trace))

        changes = self._changes(s, second, p)
        return product(*self._ab(s, p, second)), {name: product(*change) for name, change in changes.items()}

    def norm_bound(self) -> float | None:
        if self.dims is None:
            return None
        self._scale()
        return float(self._ab(np.zeros(1), self.dims)[1][0])


class CurlFree(_FieldKernel):
    """Kernel of gradient fields: every f = sum K(., z_j) c_j has zero curl.

    Parameters
    ----------
    kernel : `Gaussian`, `Matern` (nu > 1) or `RationalQuadratic`
        Scalar kernel with a single length scale.
    dims : int, optional
        Number of inputs and outputs; taken from X by default.

    See Also
    --------
    DivFree, ovk.VectorField

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import CurlFree
    >>> CurlFree(Gaussian(1.0))([0.0, 0.0], [1.0, 0.0]).round(4)
    array([[0.    , 0.    ],
           [0.    , 0.6065]])
    """

    def _form(self, p: int) -> tuple[float, float, float]:
        return -4.0, 0.0, -2.0


class DivFree(_FieldKernel):
    """Kernel of fields without sources: every f = sum K(., z_j) c_j has zero divergence.

    Add a `CurlFree` kernel for general fields, which can then be split into the two parts of their Helmholtz
    decomposition.

    Parameters
    ----------
    kernel : `Gaussian`, `Matern` (nu > 1) or `RationalQuadratic`
        Scalar kernel with a single length scale.
    dims : int, optional
        Number of inputs and outputs; taken from X by default.

    See Also
    --------
    CurlFree, ovk.VectorField

    Examples
    --------
    >>> from ovk.kernels import Gaussian
    >>> from ovk.ovkernels import DivFree
    >>> DivFree(Gaussian(1.0))([0.0, 0.0], [1.0, 0.0]).round(4)
    array([[0.6065, 0.    ],
           [0.    , 0.    ]])
    """

    def _form(self, p: int) -> tuple[float, float, float]:
        return 4.0, -4.0, -2.0 * (p - 1)
