"""Collections of outputs: rows of an array (vectors), or a list of objects (labels, sets, strings, nodes)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ovk._validation import Array
from ovk.kernels import Precomputed, ScalarKernel

#: (n, d) array or scipy sparse matrix, or a list of n objects.
Outputs: TypeAlias = Any


class ObjectKernel(ScalarKernel):
    """A kernel whose arguments are lists of objects rather than rows of numbers: labels, sets, strings, nodes."""


def takes_objects(kernel: ScalarKernel) -> bool:
    """Whether a kernel, or a part of a sum or product, is one of objects."""
    if isinstance(kernel, ObjectKernel):
        return True
    parts = kernel.get_params(deep=False).values()
    return any(takes_objects(part) for part in parts if isinstance(part, ScalarKernel))


def as_outputs(outputs: Any, kernel: ScalarKernel, name: str) -> Outputs:
    """Checked outputs in the form that a kernel takes: a list of objects, or a float array of rows.

    A one-dimensional array is a column of numbers to a kernel of vectors.
    """
    if outputs is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None: give one output for each input")
    if hasattr(outputs, "__array__") and not isinstance(outputs, np.ndarray):
        outputs = np.asarray(outputs)
    if isinstance(outputs, str) or not isinstance(outputs, Iterable):
        raise ValueError(f"{name} must be a collection of outputs, got {outputs!r}")
    if takes_objects(kernel):
        # tolist makes Python's numbers of numpy's, which compare and hash alike but can be saved.
        return outputs.tolist() if isinstance(outputs, np.ndarray) and outputs.ndim == 1 else list(outputs)
    if sparse.issparse(outputs):
        return sparse.csr_array(outputs)
    try:
        rows = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must hold numbers for the output kernel {type(kernel).__name__}: for labels use Delta(), for sets "
            f"Jaccard(), for strings KSpectrum(), for nodes of a graph Diffusion(graph) ({error})"
        ) from error
    if rows.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} must hold finite numbers, got NaN or infinity: leave such rows out")
    return rows[:, None] if rows.ndim == 1 else rows


def count(outputs: Outputs) -> int:
    """How many there are."""
    return int(outputs.shape[0]) if hasattr(outputs, "shape") else len(outputs)


def take(outputs: Outputs, rows: npt.ArrayLike) -> Outputs:
    """Some of them, in the given order."""
    chosen = np.asarray(rows, dtype=np.intp)
    return outputs[chosen] if hasattr(outputs, "shape") else [outputs[i] for i in chosen]


def join(parts: list[Outputs]) -> Outputs:
    """Several collections, one after the other."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts))
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [one for part in parts for one in part]


def keys(outputs: Outputs) -> list[Hashable]:
    """Something for each output that is equal for equal outputs and can be looked up."""
    if sparse.issparse(outputs):
        rows = sparse.csr_array(outputs)
        rows.sum_duplicates()
        bounds = zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        return [(rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()) for a, b in bounds]
    if isinstance(outputs, np.ndarray):
        # + 0.0 makes -0.0 the zero that it is.
        return [row.tobytes() for row in np.ascontiguousarray(outputs) + 0.0]
    return [_key(one) for one in outputs]


def _key(one: Any) -> Hashable:
    if isinstance(one, Mapping):
        return frozenset(one.items())
    if isinstance(one, Set):
        return frozenset(one)
    if isinstance(one, np.ndarray):
        return (one.shape, one.tobytes())
    return tuple(map(_key, one)) if isinstance(one, (list, tuple)) else one


def first_of_each(outputs: Outputs) -> npt.NDArray[np.intp]:
    """Positions of the distinct outputs, each where it stands first."""
    first: dict[Hashable, int] = {}
    for i, key in enumerate(keys(outputs)):
        first.setdefault(key, i)
    return np.fromiter(first.values(), dtype=np.intp, count=len(first))


def squared_norms(kernel: ScalarKernel, outputs: Outputs) -> Array:
    """|phi(y)|^2 = k(y, y) of each output, (n,)."""
    if isinstance(kernel, Precomputed) and kernel.matrix is None:
        raise ValueError(
            "output_kernel=Precomputed() knows no outputs but those of fit: use Precomputed(matrix), where an output "
            "is the number of an object"
        )
    return kernel.diag(outputs)
