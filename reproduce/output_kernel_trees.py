"""Output kernel trees (Geurts et al. 2006): extremely randomised trees whose leaves are means in a feature space."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from reproduce.support import Array, Indices, check_int


@dataclass(frozen=True)
class KernelTree:
    """One tree, as arrays over its nodes.

    Attributes
    ----------
    feature : input that a node splits, -1 for a leaf
    threshold : smaller or equal inputs go left
    left, right : children
    members : sparse (nodes, n), the row of a leaf has 1 / size at the training rows in it
    """

    feature: Indices
    threshold: Array
    left: Indices
    right: Indices
    members: sparse.csr_array

    def leaves(self, X: Array) -> Indices:
        """The leaf of each row."""
        at = np.zeros(len(X), dtype=np.intp)
        moving = np.flatnonzero(self.feature[at] >= 0)
        while len(moving):
            node = at[moving]
            low = X[moving, self.feature[node]] <= self.threshold[node]
            at[moving] = np.where(low, self.left[node], self.right[node])
            moving = moving[self.feature[at[moving]] >= 0]
        return at


def grow(X: Array, G: Array, features: int, least: int, rng: np.random.RandomState) -> KernelTree:
    """A tree on inputs X (n, p) whose outputs have the Gram matrix G (n, n).

    A node draws `features` random non-constant inputs, splits each at a random threshold, and keeps the split with the
    smallest variance in the feature space, which is the one with the largest

        1_L' G 1_L / n_L + 1_R' G 1_R / n_R.
    """
    feature, threshold, left, right = [-1], [0.0], [0], [0]
    rows: list[Indices] = []
    owners: list[int] = []
    todo: list[tuple[int, Indices]] = [(0, np.arange(len(X)))]
    while todo:
        node, some = todo.pop()
        cut = _best_cut(X, some, G[np.ix_(some, some)], features, least, rng)
        if cut is None:
            rows.append(some)
            owners.append(node)
            continue
        column, place = cut
        low = X[some, column] <= place
        feature[node], threshold[node] = column, place
        left[node], right[node] = len(feature), len(feature) + 1
        for part in (some[low], some[~low]):
            todo.append((len(feature), part))
            feature.append(-1)
            threshold.append(0.0)
            left.append(0)
            right.append(0)
    sizes = np.array([len(part) for part in rows])
    entries = (np.repeat(1.0 / sizes, sizes), (np.repeat(owners, sizes), np.concatenate(rows)))
    members = sparse.csr_array(entries, shape=(len(feature), len(X)))
    return KernelTree(np.array(feature), np.array(threshold), np.array(left), np.array(right), members)


def _best_cut(
    X: Array, some: Indices, G: Array, features: int, least: int, rng: np.random.RandomState
) -> tuple[int, float] | None:
    n = len(some)
    total, trace = float(G.sum()), float(np.trace(G))
    if n < 2 * least or trace / n - total / n**2 <= 1e-12 * max(trace / n, 1e-300):
        return None
    columns, low, high = _varying(X, some, features, rng)
    if len(columns) == 0:
        return None
    # Below the largest value, so that neither side is empty.
    places = np.minimum(rng.uniform(low, high), np.nextafter(high, low))
    side = (X[np.ix_(some, columns)] <= places).astype(np.float64)
    n_left = side.sum(axis=0)
    inner = np.einsum("ij,ij->j", side, G @ side)
    across = G.sum(axis=0) @ side
    score = inner / n_left + (total - 2.0 * across + inner) / (n - n_left)
    score[(n_left < least) | (n - n_left < least)] = -np.inf
    best = int(score.argmax())
    return (int(columns[best]), float(places[best])) if np.isfinite(score[best]) else None


def _varying(X: Array, some: Indices, features: int, rng: np.random.RandomState) -> tuple[Indices, Array, Array]:
    """Random columns that vary among some rows, with their ranges; drawn a few at a time, because there may be many."""
    order = rng.permutation(X.shape[1])
    found: list[tuple[Indices, Array, Array]] = []
    for start in range(0, len(order), 4 * features):
        columns = order[start : start + 4 * features]
        part = X[np.ix_(some, columns)]
        low, high = part.min(axis=0), part.max(axis=0)
        vary = high > low
        found.append((columns[vary], low[vary], high[vary]))
        if sum(len(columns) for columns, _, _ in found) >= features:
            break
    columns, low, high = (np.concatenate(parts)[:features] for parts in zip(*found, strict=True))
    return columns, low, high


class OutputKernelTrees:
    """Regression into the feature space of an output kernel by an ensemble of extremely randomised trees (OK3).

    Inputs are columns of numbers; outputs enter only through their kernel matrix. The prediction is the average over
    trees of the mean feature in the leaf, so it is given by the weights of the training outputs.

    Parameters
    ----------
    n_estimators : int
        Number of trees.
    max_features : int, float in (0, 1] or "sqrt"
        Inputs per node: number, fraction, or the square root of their number.
    min_samples_leaf : int
    random_state : int, RandomState or None

    Attributes
    ----------
    trees_ : list of `KernelTree`

    Examples
    --------
    >>> import numpy as np
    >>> from reproduce.output_kernel_trees import OutputKernelTrees
    >>> X, y = [[0.0], [0.1], [1.0], [1.1]], np.array([0, 0, 1, 1])
    >>> model = OutputKernelTrees(20, random_state=0).fit(X, y[:, None] == y)
    >>> model.weights([[0.05], [1.2]]) @ y
    array([0., 1.])
    """

    def __init__(
        self,
        n_estimators: int = 100,
        *,
        max_features: Any = 1.0,
        min_samples_leaf: int = 1,
        random_state: Any = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.random_state = random_state

    def fit(self, X: Any, G: Any) -> Self:
        """Grow the trees on inputs X (n, p) and the kernel matrix G (n, n) of the outputs."""
        inputs, gram = _dense(X), np.asarray(G, dtype=np.float64)
        rng = check_random_state(self.random_state)
        features, least = self._features(inputs.shape[1]), check_int(self.min_samples_leaf, "min_samples_leaf")
        trees = check_int(self.n_estimators, "n_estimators")
        self.trees_ = [grow(inputs, gram, features, least, rng) for _ in range(trees)]
        return self

    def weights(self, X: Any) -> Array:
        """Weights of the training outputs in the predictions, (m, n)."""
        inputs = _dense(X)
        total: Any = sum(tree.members[tree.leaves(inputs)] for tree in self.trees_)
        return np.asarray(total.toarray()) / len(self.trees_)

    def _features(self, p: int) -> int:
        wanted = self.max_features
        if isinstance(wanted, str) and wanted == "sqrt":
            return max(1, int(np.sqrt(p)))
        if isinstance(wanted, float) and 0.0 < wanted <= 1.0:
            return max(1, int(wanted * p))
        if isinstance(wanted, (str, float)):
            raise ValueError(f"max_features must be a whole number, a part in (0, 1] or 'sqrt', got {wanted!r}")
        return min(check_int(wanted, "max_features"), p)


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)
