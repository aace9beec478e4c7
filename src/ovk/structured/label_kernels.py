"""Kernels of labels, label sets, rankings and strings.

Sets, strings and labels in a hierarchy consist of parts: an object is a sparse vector of their counts, and its kernel
an inner product of such vectors.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import manhattan_distances

from ovk.base import Array, check_int, in_interval
from ovk.kernels import Linear, ScalarKernel
from ovk.structured.outputs import ObjectKernel, distinct_outputs


class Delta(ObjectKernel):
    """Kernel of labels: k(y, z) = 1 if y = z, else 0.

    Regression into its feature space is kernel ridge classification, one class against the rest.

    See Also
    --------
    Hierarchy, Jaccard, IOKR

    Examples
    --------
    >>> from ovk.structured import Delta
    >>> Delta()(["cat", "dog"], ["dog", "cat", "dog"])
    array([[0., 1., 0.],
           [1., 0., 1.]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        _, numbers = distinct_outputs(X) if Z is None else distinct_outputs(X, Z)
        return np.asarray(np.equal.outer(numbers[0], numbers[-1]), dtype=np.float64)

    def diag(self, X: Any) -> Array:
        return np.ones(len(X))

    def norm_bound(self) -> float:
        return 1.0


def count_matrix(objects: Sequence[Mapping[Hashable, float]], numbers: dict[Hashable, int]) -> sparse.csr_array:
    """(n, parts) counts; `numbers` maps each part to its column and grows with new parts."""
    columns = [numbers.setdefault(part, len(numbers)) for one in objects for part in one]
    values = [float(value) for one in objects for value in one.values()]
    # scikit-learn's sparse distances require 32 bits.
    starts = np.concatenate([[0], np.cumsum([len(one) for one in objects])]).astype(np.int32)
    parts = (np.array(values, dtype=np.float64), np.array(columns, dtype=np.int32), starts)
    return sparse.csr_array(parts, shape=(len(objects), len(numbers)))


def count_matrices(
    X: Sequence[Mapping[Hashable, float]], Z: Sequence[Mapping[Hashable, float]] | None
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """The counts of two collections over the same columns; twice those of X if Z is None."""
    numbers: dict[Hashable, int] = {}
    left = count_matrix(X, numbers)
    if Z is None:
        return left, left
    right = count_matrix(Z, numbers)
    left.resize((left.shape[0], len(numbers)))
    return left, right


class CountedKernel(ObjectKernel, saved=False):
    """k(y, z) = <c(y), c(z)> with c(y) the counted parts of y; with `normalise`, divided by |c(y)| |c(z)|.

    An inner product, so it is positive semi-definite by construction.
    """

    normalise: bool

    @abstractmethod
    def parts(self, one: Any) -> Mapping[Hashable, float]:
        """The parts of one object and their amounts."""

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        left, right = count_matrices([self.parts(x) for x in X], None if Z is None else [self.parts(z) for z in Z])
        values: Array = np.asarray((left @ right.T).toarray(), dtype=np.float64)
        if not self.normalise:
            return values
        norms = [np.sqrt(np.asarray(side.multiply(side).sum(axis=1)).ravel()) for side in (left, right)]
        scale = np.multiply.outer(norms[0], norms[1])
        return np.asarray(np.divide(values, scale, out=np.zeros_like(values), where=scale > 0))

    def diag(self, X: Any) -> Array:
        squares = np.array([sum(value**2 for value in self.parts(x).values()) for x in X], dtype=np.float64)
        return (squares > 0).astype(np.float64) if self.normalise else squares


@dataclass(eq=False, repr=False)
class Hierarchy(CountedKernel):
    """Kernel of labels in a tree: the sum of the weights of all common ancestors of y and z, decay^j at depth j.

    A node is its own ancestor, so mistakes between siblings cost less than mistakes across the tree. An output is a
    node of the hierarchy, possibly an inner one, or a collection of nodes, which represents all their ancestors.

    Parameters
    ----------
    parents : mapping child -> parent
        Nodes without a parent are roots (depth 0).
    decay : float > 0
        Below 1, shared nodes near the root have more weight.
    normalise : bool
        Divide by the norms. Otherwise deep labels have larger norms than shallow ones.

    See Also
    --------
    Delta, ovk.operators.Tree, IOKR

    Examples
    --------
    >>> from ovk.structured import Hierarchy
    >>> k = Hierarchy({"cat": "pet", "dog": "pet", "pet": "animal", "wolf": "animal"})
    >>> k(["cat"], ["cat", "dog", "wolf", "animal"])
    array([[3., 2., 1., 1.]])
    """

    parents: Mapping[Any, Any]
    decay: float = 1.0
    normalise: bool = False

    def _above(self, node: Any) -> list[Hashable]:
        """The path from the root to this node."""
        if node not in self.parents and node not in self.parents.values():
            raise ValueError(f"label {node!r} is not in the hierarchy: add it to parents")
        way = [node]
        while way[-1] in self.parents:
            above = self.parents[way[-1]]
            if above in way:
                raise ValueError(f"parents has a cycle through {above!r}")
            way.append(above)
        return way[::-1]

    def parts(self, one: Any) -> Mapping[Hashable, float]:
        # Square roots of the weights: the kernel multiplies both sides.
        decay = in_interval(self.decay, "decay", 1e-6, 1e6)
        several = isinstance(one, (list, set, frozenset))
        nodes = {above: depth for node in (one if several else [one]) for depth, above in enumerate(self._above(node))}
        return {node: decay ** (0.5 * depth) for node, depth in nodes.items()}


class Jaccard(ObjectKernel):
    """Kernel of sets: k(y, z) = |y and z| / |y or z|; for weighted sets, sum of minima / sum of maxima.

    k = 1 for two empty sets. For sets as rows of 0 and 1, `ovk.kernels.Tanimoto` is the same kernel.

    See Also
    --------
    ovk.kernels.Tanimoto, LabelThresholds, IOKR

    Examples
    --------
    >>> from ovk.structured import Jaccard
    >>> Jaccard()([{"a", "b"}], [{"b", "c"}, {"a", "b"}, set()]).round(3)
    array([[0.333, 1.   , 0.   ]])
    >>> Jaccard()([{"a": 2, "b": 1}], [{"a": 1, "c": 1}])
    array([[0.25]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        left, right = count_matrices([_weights(x) for x in X], None if Z is None else [_weights(z) for z in Z])
        sizes = [np.asarray(side.sum(axis=1)).ravel() for side in (left, right)]
        total = np.add.outer(sizes[0], sizes[1])
        if all((side.data == 1.0).all() for side in (left, right)):
            common = np.asarray((left @ right.T).toarray(), dtype=np.float64)
        else:
            # min(a, b) = (a + b - |a - b|) / 2
            common = 0.5 * (total - manhattan_distances(left, right)) if left.shape[1] else np.zeros_like(total)
        union = total - common
        return np.asarray(np.divide(common, union, out=np.ones_like(union), where=union > 0))

    def diag(self, X: Any) -> Array:
        return np.ones(len(X))

    def norm_bound(self) -> float:
        return 1.0


def _weights(one: Any) -> Mapping[Hashable, float]:
    if isinstance(one, str):
        raise ValueError(f"an output of Jaccard() must be a set or a mapping to weights, got the string {one!r}")
    if not isinstance(one, Mapping):
        return dict.fromkeys(one, 1.0)
    for part, weight in one.items():
        if not (np.isfinite(weight) and weight >= 0):
            raise ValueError(f"weights of a set must be non-negative and finite, got {weight!r} for {part!r}")
    return one


class Kendall(ScalarKernel):
    """Kernel of rankings, Kendall's tau: k(y, z) = (concordant pairs - discordant pairs) / pairs.

    An output is a row of d ranks or scores, of which only the order counts. Tied pairs count zero, so a ranking with
    ties has a norm below 1.

    See Also
    --------
    Delta, IOKR

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.structured import Kendall
    >>> Kendall()(np.array([[1, 2, 3]]), np.array([[1, 2, 3], [2, 1, 3], [3, 2, 1]])).round(3)
    array([[ 1.   ,  0.333, -1.   ]])
    """

    def __call__(self, X: Any, Z: Any | None = None) -> Array:
        left = pairwise_signs(X)
        return Linear()(left, None if Z is None else pairwise_signs(Z))

    def diag(self, X: Any) -> Array:
        return np.asarray((pairwise_signs(X) ** 2).sum(axis=1))

    def norm_bound(self) -> float:
        return 1.0


def pairwise_signs(X: Any) -> Array:
    """Signs of the differences of all pairs, (n, d (d - 1) / 2), scaled to norm one without ties."""
    rows = np.asarray(X, dtype=np.float64)
    if rows.shape[1] < 2:
        raise ValueError(f"a ranking must have at least two entries, got {rows.shape[1]}")
    a, b = np.triu_indices(rows.shape[1], 1)
    return np.asarray(np.sign(rows[:, a] - rows[:, b]) / np.sqrt(len(a)))


@dataclass(eq=False, repr=False)
class KSpectrum(CountedKernel):
    """Kernel of strings: k(y, z) = sum over substrings a of length k of (count of a in y) (count of a in z).

    Any sequence of hashable items counts as a string.

    Parameters
    ----------
    k : int >= 1
        Length of the substrings. Shorter strings have none, and k = 0 with all others.
    normalise : bool
        Divide by the norms, so that long strings have no more weight than short ones.

    See Also
    --------
    Jaccard, IOKR

    Examples
    --------
    >>> from ovk.structured import KSpectrum
    >>> KSpectrum(2)(["abab"], ["ab", "ba", "bb"])
    array([[2., 1., 0.]])
    """

    k: int = 3
    normalise: bool = False

    def parts(self, one: Any) -> Mapping[Hashable, float]:
        if not isinstance(one, Iterable):
            raise ValueError(f"outputs of KSpectrum must be strings or sequences, got {one!r}")
        k, letters = check_int(self.k, "k"), one if isinstance(one, str) else tuple(one)
        return Counter(letters[i : i + k] for i in range(len(letters) - k + 1))
