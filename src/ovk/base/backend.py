"""Arrays of other libraries: torch, CuPy, and any with the array API standard.

Without scikit-learn's ``array_api_dispatch`` such arrays are copied to NumPy (`to_host`). With it, inputs on a device
become a `DeviceMatrix`, and the matrices with n columns that are made from them (grams, factors, eigenvectors) stay on
that device. These take nearly all of the time and memory. Everything else is small and stays on the host:
outputs, coefficients, eigenvalues, operators (d, d). So the product of a `DeviceMatrix` with a NumPy array is a NumPy
array, and code that only multiplies by such matrices is the same for both.

For NumPy arrays nothing changes: callers only test whether an array is foreign. NumPy also computes with the memory of
torch tensors on the processor, where torch would be slower; only the results become tensors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config

from ovk._extras import required
from ovk.base.types import Array, Mask

#: Libraries whose arrays lack ``__array_namespace__``; array-api-compat wraps their functions.
WRAPPED_LIBRARIES = ("torch", "cupy")


def is_foreign(A: Any) -> bool:
    """Whether A is an array of another library than NumPy."""
    if isinstance(A, (np.ndarray, np.generic)):
        return False
    return hasattr(A, "__array_namespace__") or (_library(A) in WRAPPED_LIBRARIES and hasattr(A, "__dlpack__"))


def is_dispatched(A: Any) -> bool:
    """Whether A is an array of another library that scikit-learn's setting keeps on its device."""
    return is_foreign(A) and bool(get_config()["array_api_dispatch"])


def shares_memory(A: Any) -> bool:
    """Whether NumPy computes with the memory of an array of another library: for torch tensors on the processor."""
    return _library(A) == "torch" and A.device.type == "cpu"


def is_on_device(A: Any) -> bool:
    """Whether A is dispatched, and computations with it run on its device."""
    return is_dispatched(A) and not shares_memory(A)


def _library(A: Any) -> str:
    return type(A).__module__.partition(".")[0]


def namespace(A: Any) -> Any:
    """The functions of the array API for A."""
    if isinstance(A, (np.ndarray, np.generic)):
        return np
    with required("arrays on a device", "array-api"):
        from array_api_compat import array_namespace
    return array_namespace(A)


def to_host(A: Any) -> Any:
    """An array of another library, or a `DeviceMatrix`, as a NumPy array; anything else unchanged."""
    if isinstance(A, DeviceMatrix):
        A = A.values
    if not is_foreign(A):
        return A
    library = _library(A)
    if library == "torch":
        return A.cpu().numpy()
    if library == "cupy":
        return A.get()
    if library == "array_api_strict":
        A = A.to_device(namespace(A).Device("CPU_DEVICE"))
    return np.asarray(A)


def to_device_of(reference: Any, values: Any) -> Any:
    """NumPy arrays, also inside tuples, on the device and in the floating-point type of the array `reference`."""
    if isinstance(values, tuple):
        return tuple(to_device_of(reference, part) for part in values)
    on, xp = DeviceMatrix(reference), namespace(reference)
    return on._moved(values, reference.dtype if xp.isdtype(reference.dtype, "real floating") else xp.float64)


def returned(values: Any, X: Any) -> Any:
    """NumPy arrays, also inside tuples, on the device of the inputs X as given; unchanged if X has none."""
    return to_device_of(X, values) if is_dispatched(X) else values


class DeviceMatrix:
    """A matrix on a device.

    Sums, products and parts of such matrices stay on the device, in their floating-point type. A product ``@`` with a
    NumPy array is a NumPy array of double precision. Conversion to NumPy happens only through `host`.
    """

    #: NumPy arrays and numbers defer to the operators of this class.
    __array_ufunc__ = None

    def __init__(self, values: Any) -> None:
        self.values = values
        self.xp = namespace(values)

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise TypeError("this step does not run on a device: pass NumPy arrays, or see the how-to on accelerators")

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.values.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def T(self) -> DeviceMatrix:
        return DeviceMatrix(self.values.T)

    @property
    def precision(self) -> float:
        """The rounding error of 1."""
        return float(self.xp.finfo(self.values.dtype).eps)

    @property
    def is_single(self) -> bool:
        return bool(self.values.dtype == self.xp.float32)

    def double(self) -> DeviceMatrix:
        """The matrix in double precision."""
        return DeviceMatrix(self.xp.astype(self.values, self.xp.float64)) if self.is_single else self

    def host(self) -> Array:
        return np.asarray(to_host(self.values), dtype=np.float64)

    def copy(self) -> DeviceMatrix:
        return DeviceMatrix(self.xp.asarray(self.values, copy=True))

    def like(self, A: Any) -> DeviceMatrix:
        """A NumPy array on this device, in this floating-point type."""
        return A if isinstance(A, DeviceMatrix) else DeviceMatrix(self._moved(A, self.values.dtype))

    def _moved(self, A: Any, dtype: Any) -> Any:
        A = np.asarray(A)
        # torch shares the memory of an array, and warns if it is read-only.
        A = A if A.flags.writeable else A.copy()
        return self.xp.asarray(A, dtype=dtype, device=self.values.device)

    def _operand(self, B: Any) -> Any:
        if isinstance(B, DeviceMatrix):
            return B.values
        return float(B) if np.ndim(B) == 0 else self._moved(B, self.values.dtype)

    def __matmul__(self, B: Any) -> Any:
        product = DeviceMatrix(self.values @ self._operand(B))
        return product if isinstance(B, DeviceMatrix) else product.host()

    def __rmatmul__(self, B: Array) -> Array:
        return DeviceMatrix(self._operand(B) @ self.values).host()

    def __mul__(self, B: Any) -> DeviceMatrix:
        return DeviceMatrix(self.values * self._operand(B))

    __rmul__ = __mul__

    def __add__(self, B: Any) -> DeviceMatrix:
        return DeviceMatrix(self.values + self._operand(B))

    __radd__ = __add__

    def __pow__(self, exponent: float) -> DeviceMatrix:
        return DeviceMatrix(self.values**exponent)

    def __getitem__(self, key: Any) -> DeviceMatrix:
        """Rows, by a slice, a mask or numbers; with ``np.ix_(rows, columns)`` a submatrix."""
        if isinstance(key, slice):
            # The standard has no slices beyond the end.
            return DeviceMatrix(self.values[slice(*key.indices(len(self))), ...])
        if isinstance(key, tuple):
            rows, columns = (np.ravel(numbers) for numbers in key)
            return self[rows].columns(columns)
        return self._taken(np.flatnonzero(key) if key.dtype == bool else key, 0)

    def columns(self, numbers: Any) -> DeviceMatrix:
        return self._taken(numbers, 1)

    def _taken(self, numbers: Any, axis: int) -> DeviceMatrix:
        return DeviceMatrix(self.xp.take(self.values, self._moved(numbers, self.xp.int64), axis=axis))

    def finite_rows(self) -> Mask:
        """(n,) whether all entries of a row are finite."""
        return np.asarray(to_host(self.xp.all(self.xp.isfinite(self.values), axis=1)))

    def with_ones(self) -> DeviceMatrix:
        """The matrix with a further column of ones."""
        ones = self.xp.ones((len(self), 1), dtype=self.values.dtype, device=self.values.device)
        return DeviceMatrix(self.xp.concat([self.values, ones], axis=1))


# Decompositions.


def eigh(A: DeviceMatrix) -> tuple[Array, DeviceMatrix]:
    """Eigenvalues (n,), ascending, and eigenvectors (n, n) of a symmetric matrix."""
    values, vectors = A.xp.linalg.eigh(A.values)
    return DeviceMatrix(values).host(), DeviceMatrix(vectors)


def cholesky(A: DeviceMatrix, added: float) -> DeviceMatrix | None:
    """The lower factor of A + added I, or None if rounding makes it indefinite; may overwrite A."""
    xp, n = A.xp, len(A)
    # Correct whether or not the reshaped array is a copy.
    flat = xp.reshape(A.values, (-1,))
    flat[:: n + 1] += float(added)
    try:
        L = xp.linalg.cholesky(xp.reshape(flat, (n, n)))
    except (np.linalg.LinAlgError, RuntimeError):
        # torch raises a RuntimeError instead.
        return None
    # CuPy returns nan.
    return DeviceMatrix(L) if bool(xp.all(xp.isfinite(xp.linalg.diagonal(L)))) else None


def solve_triangular(L: DeviceMatrix, B: Any, *, transposed: bool = False) -> Any:
    """L^-1 B or L'^-1 B for a lower triangle, (n, k) or (n,); NumPy if B is."""
    right = L.like(B)
    columns = right.values if right.ndim == 2 else right.values[:, None]
    triangle, library = L.values.T if transposed else L.values, _library(L.values)
    if library == "torch":
        solved = L.xp.linalg.solve_triangular(triangle, columns, upper=transposed)
    elif library == "cupy":
        from cupyx.scipy.linalg import solve_triangular as solve

        solved = solve(triangle, columns, lower=not transposed)
    else:
        # The standard has no triangular solver.
        solved = L.xp.linalg.solve(triangle, columns)
    found = DeviceMatrix(solved if right.ndim == 2 else solved[:, 0])
    return found if isinstance(B, DeviceMatrix) else found.host()


def square_norms_of_inverse(L: DeviceMatrix) -> Array:
    """Sums of squares of the columns of L^-1, (n,), for a lower triangle."""
    xp, L_values = L.xp, L.values
    eye = xp.eye(len(L), dtype=L_values.dtype, device=L_values.device)
    return DeviceMatrix(xp.sum(solve_triangular(L, DeviceMatrix(eye)).values ** 2, axis=0)).host()


# Distances.


def paired(X: Any, Z: Any | None) -> tuple[DeviceMatrix, DeviceMatrix] | None:
    """X and Z (None means X) on the device of either; None if both are on the host."""
    if isinstance(X, DeviceMatrix):
        return X, X if Z is None else X.like(Z)
    return (Z.like(X), Z) if isinstance(Z, DeviceMatrix) else None


def squared_distances(X: DeviceMatrix, Z: DeviceMatrix, scale: float | Array, *, exact: bool = False) -> Any:
    """|x - z|^2 / scale^2, (n, m), an array of the device's library; the scale is a number or (p,).

    It is [x, |x|^2, 1] . [-2 z, 1, |z|^2] for centred points, or with `exact` a sum of squared differences, which is
    also accurate for the root of a distance near zero.
    """
    xp, inverse = X.xp, 1.0 / np.asarray(scale, dtype=np.float64)
    x, z = (X * inverse).values, (Z * inverse).values
    if exact:
        return sum_over_inputs(xp, x, z, lambda difference: difference**2)
    centre = xp.mean(z, axis=0)
    x, z = x - centre, z - centre
    own, other = (xp.sum(a * a, axis=1)[:, None] for a in (x, z))
    left = xp.concat([x, own, xp.ones_like(own)], axis=1)
    right = xp.concat([-2.0 * z, xp.ones_like(other), other], axis=1)
    found = left @ right.T
    # torch can do this in place.
    return found.clamp_(min=0.0) if _library(found) == "torch" else xp.clip(found, 0.0)


def sum_over_inputs(xp: Any, x: Any, z: Any, function: Any) -> Any:
    """sum_j function(x_j - z_j), (n, m), one input at a time, so that no (n, m, p) array is formed."""
    total = function(x[:, None, 0] - z[None, :, 0])
    for j in range(1, x.shape[1]):
        total = total + function(x[:, None, j] - z[None, :, j])
    return total
