"""Operators for outputs in clusters, trees and graphs, near their mean, and Kronecker products."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import takewhile
from typing import Any, Self

import numpy as np
from scipy import sparse

from ovk.base import Array, PartsMixin, cached, check_int, in_interval, positive
from ovk.curves import KroneckerMatrix
from ovk.operators.base import (
    EvenlyCoupled,
    MatrixOperator,
    OutputOperator,
    Spectrum,
    checked_symmetric,
    equalised,
    one_per_output,
)


@dataclass(eq=False, repr=False)
class Cluster(MatrixOperator):
    """Operator for outputs in clusters, T = (1 - within) I + (within - between) S + between 11'.

    S_ij = 1 if i and j are in the same cluster. An output is f_t = g + g_c + v_t, the sum of a global, a cluster and an
    individual function, with the penalty |g|^2 / between + sum_c |g_c|^2 / (within - between) + sum_t |v_t|^2 /
    (1 - within). With between = 0 and m_c outputs in cluster c, the squared norm of f is

        sum_c m_c |mean_c f|^2 / (1 - within + within m_c) + sum_c sum_{t in c} |f_t - mean_c f|^2 / (1 - within).

    Parameters
    ----------
    assignments : sequence of d labels
        The cluster of each output.
    within : float in [0, 1]
        Correlation of outputs in the same cluster.
    between : float in [0, within]
        Correlation of outputs in different clusters.

    See Also
    --------
    Tree, MixedEffect, GraphLaplacian

    Examples
    --------
    >>> from ovk.operators import Cluster
    >>> Cluster(["a", "a", "b"], within=0.5).dense()
    array([[1. , 0.5, 0. ],
           [0.5, 1. , 0. ],
           [0. , 0. , 1. ]])
    """

    assignments: Sequence[Hashable]
    within: float = 0.5
    between: float = 0.0

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return len(self.assignments)

    def _same(self) -> Array:
        if len(self.assignments) == 0:
            raise ValueError("assignments must have at least one entry, got none")
        numbers: dict[Hashable, int] = {}
        labels = np.array([numbers.setdefault(label, len(numbers)) for label in self.assignments])
        return np.asarray((labels[:, None] == labels[None, :]).astype(np.float64))

    @cached
    def _matrix(self) -> Array:
        within = in_interval(self.within, "within", 0.0, 1.0)
        between = in_interval(self.between, "between", 0.0, within)
        same = self._same()
        return (1.0 - within) * np.eye(len(same)) + (within - between) * same + between

    def gradient(self) -> dict[str, Array]:
        same = self._same()
        return {"within": same - np.eye(len(same)), "between": 1.0 - same}


@dataclass(eq=False, repr=False)
class Tree(MatrixOperator):
    """Operator for outputs at the leaves of a tree: T_ij is the shared length of their paths from the root, T_ii = 1.

    Every node v has a function g_v that all outputs below it share; a node at depth k has weight w_v = decay^k (0 for
    the root). With s_i^2 the sum of the weights from the root to output i, the squared norm of f is

        min sum_v |g_v|^2 / w_v   subject to   f_i = sum_{v above i} g_v / s_i.

    Parameters
    ----------
    hierarchy : nested sequence or mapping
        ``[[0, 1], [2, [3, 4]]]``: the outputs 0..d-1 at the leaves; or ``{child: parent}``, where the outputs are the
        integers 0..d-1 and inner nodes may have any name.
    decay : float > 0
        Below 1, nodes near the root have more weight; above 1, nodes near the leaves.

    See Also
    --------
    Cluster, GraphLaplacian

    Examples
    --------
    >>> from ovk.operators import Tree
    >>> Tree([[0, 1], 2]).dense().round(3)
    array([[1.   , 0.667, 0.408],
           [0.667, 1.   , 0.408],
           [0.408, 0.408, 1.   ]])
    """

    hierarchy: Any
    decay: float = 1.0

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return len(self._paths())

    @cached
    def _paths(self) -> list[tuple[Hashable, ...]]:
        """Nodes from the root to each output."""
        if isinstance(self.hierarchy, Mapping):
            paths = _paths_from_parents(self.hierarchy)
        else:
            paths = {}
            _walk(self.hierarchy, ("root",), paths)
        d = len(paths)
        if d == 0 or set(paths) != set(range(d)):
            leaves = sorted(paths, key=str)
            raise ValueError(f"hierarchy must have the outputs 0..d-1 as leaves, each once, got the leaves {leaves}")
        return [paths[i] for i in range(d)]

    @cached
    def _matrix(self) -> Array:
        decay = in_interval(self.decay, "decay", 1e-6, 1e6)
        paths = self._paths()
        # The nodes above both i and j are the common prefix of their paths.
        weights = decay ** np.arange(max(len(path) for path in paths))
        T = np.empty((len(paths), len(paths)))
        for i, a in enumerate(paths):
            for j, b in enumerate(paths[: i + 1]):
                shared = len(list(takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))))
                T[i, j] = T[j, i] = weights[:shared].sum()
        norm = np.sqrt(np.diagonal(T))
        T /= norm[:, None] * norm[None, :]
        np.fill_diagonal(T, 1.0)
        return T


def _walk(node: Any, path: tuple[Hashable, ...], paths: dict[Any, tuple[Hashable, ...]]) -> None:
    if isinstance(node, (list, tuple)):
        for k, child in enumerate(node):
            _walk(child, (*path, (len(path), k)), paths)
        return
    if node in paths:
        raise ValueError(f"hierarchy has the output {node!r} twice")
    paths[node] = path


def _paths_from_parents(parent: Mapping[Any, Any]) -> dict[Any, tuple[Hashable, ...]]:
    inner = set(parent.values())
    paths: dict[Any, tuple[Hashable, ...]] = {}
    for leaf in parent:
        if leaf in inner:
            continue
        path, node = [leaf], leaf
        while node in parent:
            node = parent[node]
            if node in path:
                raise ValueError(f"hierarchy has a cycle through {node!r}")
            path.append(node)
        paths[leaf] = tuple(reversed(path))
    if len({path[0] for path in paths.values()}) > 1:
        # A forest: join its trees at an unnamed root.
        paths = {leaf: (None, *path) for leaf, path in paths.items()}
    return paths


@dataclass(eq=False, repr=False)
class GraphLaplacian(MatrixOperator):
    """Operator for outputs on a graph: T is the pseudo-inverse of the Laplacian L, so that linked outputs are similar.

    With similarities m_ij >= 0 between outputs, the squared norm of f = (f_1, ..., f_d) is

        1/2 sum_ij m_ij |f_i - f_j|^2 + sum_i m_ii |f_i|^2  =  sum_ij L_ij <f_i, f_j>,
        L_ii = m_ii + sum_{j != i} m_ij,  L_ij = -m_ij.

    If the diagonal of M is zero, L is singular. The pseudo-inverse then excludes functions that all outputs of a
    connected component share, and the outputs of each component sum to zero. A positive `self_weight` allows shared
    functions; the smaller it is, the weaker their penalty.

    Parameters
    ----------
    M : (d, d) array or scipy sparse matrix
        Similarities: symmetric and non-negative.
    self_weight : float or (d,) array, >= 0
        Added to the diagonal of M.

    See Also
    --------
    Cluster, Dense

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.operators import GraphLaplacian
    >>> path = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 1.0], [0.0, 1.0, 0.0]])
    >>> GraphLaplacian(path, self_weight=1.0).dense()
    array([[0.625, 0.25 , 0.125],
           [0.25 , 0.5  , 0.25 ],
           [0.125, 0.25 , 0.625]])
    """

    M: Any
    self_weight: float | Array = 0.0

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return int(np.shape(self.M)[0])

    @cached
    def laplacian(self) -> Array:
        """L, (d, d)."""
        M = checked_symmetric(self.M.toarray() if sparse.issparse(self.M) else self.M, "M")
        if (M < 0).any():
            raise ValueError(f"M must be non-negative, got {M.min():.6g}")
        own = np.diagonal(M) + one_per_output(self.self_weight, "self_weight", len(M))
        L = -M
        np.fill_diagonal(L, 0.0)
        np.fill_diagonal(L, own - L.sum(axis=1))
        return L

    @cached
    def eigh(self) -> Spectrum:
        values, vectors = np.linalg.eigh(self.laplacian())
        rounding = 64.0 * len(values) * np.finfo(float).eps * max(values[-1], 1e-300)
        inverse = np.divide(1.0, values, out=np.zeros_like(values), where=values > rounding)
        # 1/x reverses the order, but the zeros of L remain zeros of T.
        order = np.argsort(inverse, kind="stable")
        inverse = inverse[order]
        close = np.flatnonzero(np.diff(inverse) > 1e-12 * inverse[1:]) + 1
        for group in np.split(np.arange(len(inverse)), close):
            inverse[group] = inverse[group].mean()
        return Spectrum(inverse, vectors[:, order])

    @cached
    def _matrix(self) -> Array:
        decomposition = self.eigh()
        T = (decomposition.vectors * decomposition.values) @ decomposition.vectors.T
        return np.asarray(0.5 * (T + T.T))

    def gradient(self) -> dict[str, Array]:
        # dT = -T dL T where L is regular; on its null space the pseudo-inverse is not differentiable.
        T = self._matrix()
        each = -np.einsum("ia,aj->aij", T, T)
        return {"self_weight": each.sum(axis=0) if np.ndim(self.self_weight) == 0 else each}


@dataclass(eq=False, repr=False)
class MeanRegularized(EvenlyCoupled):
    """Operator that pulls outputs towards their mean, T = I / (own + spread) + (spread / own) / (own + spread) 11' / d.

    The squared norm of f = (f_1, ..., f_d) is that of regularised multi-task learning,

        own sum_t |f_t|^2 + spread sum_t |f_t - mean f|^2,

    so T^-1 = own I + spread (I - 11' / d). With spread = 0 the outputs are not coupled. T is a multiple of
    `MixedEffect`, parametrised by the weights of the penalty.

    Parameters
    ----------
    own : float > 0
        Weight of each output's norm (rho_1).
    spread : float >= 0
        Weight of the distance from the mean (rho_2).
    output_dim : int, optional
        Number of outputs; taken from Y by default.

    See Also
    --------
    MixedEffect

    References
    ----------
    Evgeniou and Pontil (2004), Regularized multi-task learning.

    Examples
    --------
    >>> from ovk.operators import MeanRegularized
    >>> MeanRegularized(0.5, 0.5, output_dim=2).dense()
    array([[1.5, 0.5],
           [0.5, 1.5]])
    """

    own: float = 1.0
    spread: float = 1.0
    output_dim: int | None = None

    @classmethod
    def from_shared(cls, lambda_1: float, lambda_2: float, output_dim: int) -> Self:
        """The operator of f_t = f_0 + v_t with the penalty (lambda_1 / d) sum_t |v_t|^2 + lambda_2 |f_0|^2.

        Minimising over f_0 with all f_t fixed gives f_0 = lambda_1 / (lambda_1 + lambda_2) mean f, and

            own = lambda_1 lambda_2 / (d (lambda_1 + lambda_2)),  spread = lambda_1^2 / (d (lambda_1 + lambda_2)).

        >>> T = MeanRegularized.from_shared(2.0, 4.0, output_dim=2)
        >>> T.dense()
        array([[1.25, 0.25],
               [0.25, 1.25]])
        """
        a, b = positive(lambda_1, "lambda_1"), positive(lambda_2, "lambda_2")
        total = check_int(output_dim, "output_dim") * (a + b)
        return cls(a * b / total, a**2 / total, output_dim)

    def _weights(self) -> tuple[float, float]:
        return positive(self.own, "own"), positive(self.spread, "spread", zero=True)

    def _parts(self) -> tuple[float, float]:
        own, spread = self._weights()
        return 1.0 / (own + spread), spread / (own * (own + spread) * self.dim())

    def gradient(self) -> dict[str, Array]:
        own, spread = self._weights()
        d = self.dim()
        mean = np.full((d, d), 1.0 / d)
        # The eigenvalues are 1 / own on constant vectors and 1 / (own + spread) on their orthogonal complement.
        rest = -(np.eye(d) - mean) / (own + spread) ** 2
        return {"own": rest - mean / own**2, "spread": rest}


@dataclass(eq=False, repr=False)
class TensorProduct(PartsMixin, OutputOperator):
    """Kronecker product of operators, T = T_1 (x) ... (x) T_k, for outputs that form a table; T is never formed.

    A row of Y is a table in C order, and T_i acts along its i-th axis. Eigenvalues and eigenvectors are products of
    those of the T_i, and products with T cost d (d_1 + ... + d_k) instead of d^2 for d = d_1 ... d_k outputs.

    Parameters
    ----------
    operators : sequence of output operators
        T_1, ..., T_k, each with its number of outputs.

    See Also
    --------
    Integral, ovk.curves.ProductGrid

    Examples
    --------
    Outputs for 3 sites and 2 hours, coupled along both.

    >>> import numpy as np
    >>> from ovk.operators import Dense, MixedEffect, TensorProduct
    >>> T = TensorProduct([MixedEffect(0.5, output_dim=3), Dense([[1.0, 0.5], [0.5, 1.0]])])
    >>> T.output_dim, T.eigh().distinct
    (6, array([0.25, 0.75, 1.  , 3.  ]))
    """

    _parts_name = "operators"

    operators: Sequence[OutputOperator]

    @cached
    def _factors(self) -> list[OutputOperator]:
        parts = self.operators
        if not isinstance(parts, Sequence) or not parts or not all(isinstance(T, OutputOperator) for T in parts):
            raise ValueError(f"operators must be a sequence of output operators, got {parts!r}")
        for T in parts:
            T.dim()
        return list(parts)

    @property
    def output_dim(self) -> int:  # type: ignore[override]
        return int(np.prod([T.dim() for T in self._factors()]))

    @cached
    def matrix(self) -> KroneckerMatrix:
        """T as a Kronecker product of matrices."""
        return KroneckerMatrix([T.dense() for T in self._factors()])

    def dense(self) -> Array:
        return np.asarray(self.matrix())

    def apply(self, Y: Any) -> Array:
        return np.asarray((Y if isinstance(Y, np.ndarray) else Y.toarray()) @ self.matrix())

    @cached
    def eigh(self) -> Spectrum:
        parts = [T.eigh() for T in self._factors()]
        values = np.asarray(reduce(np.multiply.outer, [part.values for part in parts])).ravel()
        order = np.argsort(values, kind="stable")
        vectors: Any = KroneckerMatrix([np.asarray(part.vectors) for part in parts], order)
        return Spectrum(equalised(values[order]), vectors)
