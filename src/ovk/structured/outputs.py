"""Collections of outputs, rows of an array or a list of objects, and candidates for predictions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from ovk.base import Array, Indices, Outputs, check_not_masked
from ovk.batch import row_keys
from ovk.kernels import Precomputed, ScalarKernel


class ObjectKernel(ScalarKernel, saved=False):
    """A kernel of lists of objects (labels, sets, strings, nodes) instead of rows of numbers."""


def takes_objects(kernel: ScalarKernel) -> bool:
    """Whether a kernel is an `ObjectKernel`, or a sum or product with one."""
    if isinstance(kernel, ObjectKernel):
        return True
    parts = kernel.get_params(deep=False).values()
    return any(takes_objects(part) for part in parts if isinstance(part, ScalarKernel))


def as_outputs(outputs: Any, kernel: ScalarKernel, name: str) -> Outputs:
    """Checked outputs in the form that a kernel takes: a list of objects, or a float array of rows.

    For a kernel of vectors, a one-dimensional array is a column of numbers.
    """
    if outputs is None:
        raise ValueError(f"requires {name} to be passed, but the target {name} is None: pass one output for each input")
    check_not_masked(outputs, name, "every input needs an output")
    if hasattr(outputs, "__array__") and not isinstance(outputs, np.ndarray):
        outputs = np.asarray(outputs)
    if isinstance(outputs, str) or not isinstance(outputs, Iterable):
        raise ValueError(f"{name} must be a collection of outputs, got {outputs!r}")
    if takes_objects(kernel):
        # Python's numbers, unlike NumPy's, can be saved; they compare and hash alike.
        return outputs.tolist() if isinstance(outputs, np.ndarray) and outputs.ndim == 1 else list(outputs)
    if getattr(getattr(outputs, "dtype", None), "kind", "") == "c":
        raise ValueError(f"{name} must contain real numbers, got complex ones: pass their parts as two columns")
    if sparse.issparse(outputs):
        return sparse.csr_array(outputs)
    try:
        rows = np.asarray(outputs, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} must contain numbers for the output kernel {type(kernel).__name__} ({error}): use Delta() for "
            "labels, Jaccard() for sets, KSpectrum() for strings, Diffusion(graph) for nodes"
        ) from error
    if rows.ndim not in (1, 2):
        raise ValueError(f"{name} must have one or two dimensions, got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise ValueError(f"{name} must contain finite numbers, got NaN or infinity: drop such rows")
    return rows[:, None] if rows.ndim == 1 else rows


def count_outputs(outputs: Outputs) -> int:
    return int(outputs.shape[0]) if hasattr(outputs, "shape") else len(outputs)


def check_lengths(X: Any, outputs: Outputs) -> None:
    found = count_outputs(outputs)
    if found != X.shape[0]:
        raise ValueError(f"X and y have inconsistent numbers of samples: [{X.shape[0]}, {found}]")


def select_outputs(outputs: Any, rows: npt.ArrayLike) -> Any:
    """The outputs at positions (m,) or (m, k), in the form of the collection."""
    chosen = np.asarray(rows, dtype=np.intp)
    if sparse.issparse(outputs):
        matrix = sparse.csr_array(outputs)
        return matrix[chosen] if chosen.ndim == 1 else [matrix[row] for row in chosen]
    if hasattr(outputs, "__array__"):
        return np.asarray(outputs)[chosen]
    listed = outputs if isinstance(outputs, list) else list(outputs)
    return [listed[i] for i in chosen] if chosen.ndim == 1 else [[listed[i] for i in row] for row in chosen]


def concatenate_outputs(parts: list[Any]) -> Any:
    """Concatenated collections, in the form of the first."""
    if len(parts) == 1:
        return parts[0]
    if sparse.issparse(parts[0]):
        return sparse.csr_array(sparse.vstack(parts))
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [one for part in parts for one in part]


def hashable_keys(outputs: Outputs) -> list[Hashable]:
    """A hashable key for each output; equal outputs have equal keys."""
    rows = sparse.issparse(outputs) or isinstance(outputs, np.ndarray)
    return row_keys(outputs) if rows else [_key(one) for one in outputs]


def _key(one: Any) -> Hashable:
    if isinstance(one, Mapping):
        return frozenset(one.items())
    if isinstance(one, Set):
        return frozenset(one)
    if isinstance(one, np.ndarray):
        return (one.shape, one.tobytes())
    return tuple(map(_key, one)) if isinstance(one, (list, tuple)) else one


def distinct_outputs(*collections: Outputs) -> tuple[Indices, list[Indices]]:
    """Positions of the first occurrences of distinct outputs in the first collection.

    Also, for every collection, the number of each output among the distinct ones of all collections.
    """
    numbers: dict[Hashable, int] = {}
    keys = map(hashable_keys, collections)
    found = [np.array([numbers.setdefault(key, len(numbers)) for key in some], dtype=np.intp) for some in keys]
    return np.unique(found[0], return_index=True)[1], found


def squared_norms(kernel: ScalarKernel, outputs: Outputs) -> Array:
    """|phi(y)|^2 = k(y, y) of each output, (n,)."""
    if isinstance(kernel, Precomputed) and kernel.matrix is None:
        raise ValueError("output_kernel=Precomputed() is not supported: use Precomputed(matrix) and indices as outputs")
    return kernel.diag(outputs)


# Candidates for predictions: a list for each input, or blocks that are generated on demand.


@dataclass(eq=False)
class PerExample:
    """A separate collection of candidates for each input.

    Parameters
    ----------
    collections : sequence of arrays or lists
        The candidate outputs of each input.

    See Also
    --------
    Generated, IOKR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import IOKR
    >>> from ovk.structured import Delta, PerExample
    >>> X = np.array([[0.0], [1.0], [2.0]])
    >>> model = IOKR(output_kernel=Delta(), alpha=0.1).fit(X, ["low", "middle", "high"])
    >>> model.predict(X[:2], candidates=PerExample([["low", "high"], ["middle", "high"]]))
    ['low', 'middle']
    """

    shared = False

    collections: Sequence[Any]

    def blocks(self, row: int) -> Iterable[Any]:
        return [self.collections[row]]


@dataclass(eq=False)
class Generated:
    """Candidates generated in blocks, for more than can be stored.

    Parameters
    ----------
    make : callable
        Returns an iterable of blocks (arrays or lists of candidate outputs). Called without an argument if the
        candidates are shared, else with the index of the input. Repeated candidates are not detected across blocks.
    shared : bool
        Whether all inputs have the same candidates.

    See Also
    --------
    PerExample, IOKR

    Examples
    --------
    All 0/1 vectors with eight entries, in four blocks:

    >>> import numpy as np
    >>> from ovk import IOKR
    >>> from ovk.kernels import Tanimoto
    >>> from ovk.structured import Generated
    >>> def blocks():
    ...     for start in range(0, 256, 64):
    ...         yield (np.arange(start, start + 64)[:, None] >> np.arange(8)) & 1
    >>> X = np.eye(2)
    >>> Y = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 1]])
    >>> IOKR("linear", Tanimoto(), alpha=1e-6).fit(X, Y).predict(X, candidates=Generated(blocks))
    array([[1, 1, 0, 0, 0, 0, 0, 0],
           [0, 0, 0, 0, 0, 0, 1, 1]])
    """

    make: Callable[..., Iterable[Any]]
    shared: bool = True

    def blocks(self, row: int) -> Iterable[Any]:
        return self.make() if self.shared else self.make(row)


Candidates = PerExample | Generated


def check_candidates(candidates: Candidates, n: int) -> None:
    if isinstance(candidates, PerExample) and len(candidates.collections) != n:
        found = len(candidates.collections)
        raise ValueError(f"candidates must have a collection for each of the {n} inputs, got {found}")


def checked_blocks(candidates: Candidates, kernel: ScalarKernel, row: int) -> Iterator[tuple[Any, Outputs]]:
    """Non-empty blocks as passed, and in the form that the output kernel takes."""
    name = "candidates" if candidates.shared else f"candidates of input {row}"
    found = False
    for block in candidates.blocks(row):
        outputs = as_outputs(block, kernel, name)
        if count_outputs(outputs):
            found = True
            yield block, outputs
    if not found:
        raise ValueError(f"{name} are empty: pass at least one, or None for the training outputs")
