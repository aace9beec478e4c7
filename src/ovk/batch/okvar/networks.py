"""Networks from learned dynamics: scores of the effect of each variable on each other variable, and chosen edges."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import rankdata
from sklearn.metrics import average_precision_score, roc_auc_score

from ovk._extras import required
from ovk.base import Aggregate, Array, Indices, Mask, Registered, check_int, in_interval, members_of_groups, positive
from ovk.batch.okvar.regression import SeriesRegression

_AGGREGATES: dict[str, Callable[[Array], Array]] = {
    "mean": lambda J: np.abs(np.mean(J, axis=0)),
    "median": lambda J: np.abs(np.median(J, axis=0)),
    "mean_abs": lambda J: np.mean(np.abs(J), axis=0),
    "max_abs": lambda J: np.max(np.abs(J), axis=0),
}


@dataclass(frozen=True, eq=False, repr=False)
class Network(Registered):
    """Scores of directed edges, and the chosen edges.

    Parameters
    ----------
    scores : (d, d) array
        How strongly variable i (row) acts on variable j (column); zero on the diagonal.
    chosen : (d, d) booleans
        The edges.
    signs : (d, d) array
        -1, 0 or 1: the sign of the action, 0 if unknown.
    names : tuple of str
        Names of the variables.

    See Also
    --------
    OKVAR, consensus, rank_average

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch import Network
    >>> scores = np.array([[0.0, 0.9], [0.1, 0.0]])
    >>> network = Network(scores, scores > 0.5, np.sign(scores), ("a", "b"))
    >>> network
    Network(variables=2, edges=1)
    >>> network.edges
    [('a', 'b', 0.9)]
    >>> network.auroc([[0, 1], [0, 0]]), network.auprc([[0, 1], [0, 0]])
    (1.0, 1.0)
    """

    _stored = {"scores": "d d nan", "chosen": "d d any", "signs": "d d"}

    def __repr__(self) -> str:
        return f"Network(variables={len(self.names)}, edges={int(np.sum(self.chosen))})"

    scores: Array
    chosen: Mask
    signs: Array
    names: tuple[str, ...]

    @property
    def edges(self) -> list[tuple[str, str, float]]:
        """(source, target, score) of the chosen edges, strongest first."""
        places = np.argwhere(self.chosen)
        places = places[np.argsort(-self.scores[tuple(places.T)], kind="stable")]
        return [(self.names[i], self.names[j], float(self.scores[i, j])) for i, j in places]

    def auroc(self, truth: Any) -> float:
        """Area under the receiver operating characteristic of the scores, given the true edges.

        Parameters
        ----------
        truth : (d, d) booleans, or a directed graph on the names
            Whether variable i (row) acts on variable j (column). The diagonal is ignored.

        Returns
        -------
        float
            Between 0 and 1; .5 on average for random scores.
        """
        return float(roc_auc_score(*self._labelled(truth)))

    def auprc(self, truth: Any) -> float:
        """Area under the curve of precision and recall (average precision), given the true edges.

        Parameters
        ----------
        truth : (d, d) booleans, or a directed graph on the names
            Whether variable i (row) acts on variable j (column). The diagonal is ignored.

        Returns
        -------
        float
            Between 0 and 1; the share of true edges on average for random scores.
        """
        return float(average_precision_score(*self._labelled(truth)))

    def _labelled(self, truth: Any) -> tuple[Mask, Array]:
        """Labels and scores of the pairs of different variables."""
        if hasattr(truth, "has_edge"):
            unknown = [name for name in self.names if name not in truth]
            if unknown:
                raise ValueError(f"truth must be a graph on the names of the variables, got none for {unknown[0]!r}")
            truth = [[truth.has_edge(a, b) for b in self.names] for a in self.names]
        edges, off = np.asarray(truth, dtype=np.float64), off_diagonal(len(self.scores))
        if edges.shape != self.scores.shape:
            raise ValueError(f"truth must have the shape {self.scores.shape} of the scores, got {edges.shape}")
        labels = edges[off] != 0
        if labels.all() or not labels.any():
            raise ValueError(f"truth must have edges and pairs without one, got {int(labels.sum())} of {labels.size}")
        return labels, self.scores[off]

    def to_networkx(self) -> Any:
        """A ``networkx.DiGraph`` of all variables and the chosen edges, with the attributes ``score`` and ``sign``."""
        with required("graphs", "graph"):
            import networkx as nx
        graph = nx.DiGraph()
        graph.add_nodes_from(self.names)
        for i, j in np.argwhere(self.chosen):
            graph.add_edge(self.names[i], self.names[j], score=float(self.scores[i, j]), sign=int(self.signs[i, j]))
        return graph


def _aggregated(J: Array, aggregate: Aggregate) -> Array:
    if callable(aggregate):
        result = np.asarray(aggregate(J), dtype=np.float64)
        if result.shape != J.shape[1:]:
            raise ValueError(f"aggregate must map shape {J.shape} to {J.shape[1:]}, got {result.shape}")
        return np.abs(result)
    if aggregate not in _AGGREGATES:
        raise ValueError(f"aggregate must be a function or one of {', '.join(_AGGREGATES)}, got {aggregate!r}")
    return _AGGREGATES[aggregate](J)


def edge_scores(J: Array, aggregate: Aggregate, balance: float) -> Array:
    """Scores (d, d) of all edges from a Jacobian (n, d, d lag) on standardised states, as in `OKVAR.edge_scores`."""
    d = J.shape[1]
    scores = np.max([_aggregated(J[:, :, k : k + d], aggregate) for k in range(0, J.shape[2], d)], axis=0)
    np.fill_diagonal(scores, 0.0)
    if balance:
        means = scores.mean(axis=1, keepdims=True)
        scores = scores / np.where(means > 0, means, 1.0) ** positive(balance, "balance")
    return np.ascontiguousarray(scores.T)


def edge_signs(J: Array) -> Array:
    """Signs (d, d) of the mean derivatives in the newest state, 0 on the diagonal."""
    d = J.shape[1]
    return np.asarray(np.sign(J.mean(axis=0)[:, :d]).T * off_diagonal(d))


def off_diagonal(d: int) -> Mask:
    return ~np.eye(d, dtype=bool)


def choose(
    scores: Array, threshold: float | None, top_k: int | None, p_values: Array | None, fdr: float | None
) -> Mask:
    """The edges above a threshold, the k strongest, or those that pass Benjamini and Hochberg at the level `fdr`.

    Without any of the three, all edges with a positive score.
    """
    off = off_diagonal(len(scores))
    if sum(option is not None for option in (threshold, top_k, fdr)) > 1:
        raise ValueError("threshold, top_k and fdr cannot be combined: pass one of them")
    if threshold is not None:
        return np.asarray(off & (scores > positive(threshold, "threshold", zero=True)))
    if top_k is not None:
        k = min(check_int(top_k, "top_k", least=0), int(off.sum()))
        order = np.argsort(-np.where(off, scores, -np.inf), axis=None, kind="stable")[:k]
        chosen = np.zeros(scores.size, dtype=bool)
        chosen[order] = True
        return chosen.reshape(scores.shape) & off & (scores > 0)
    if fdr is not None and p_values is not None:
        p = np.sort(p_values[off])
        passed = np.flatnonzero(p <= in_interval(fdr, "fdr", 0, 1) * np.arange(1, len(p) + 1) / len(p))
        limit = p[passed[-1]] if len(passed) else -1.0
        return np.asarray(off & (p_values <= limit))
    return np.asarray(off & (scores > 0))


def pooled_p_values(scores: Array, null: Array) -> Array:
    """p-values of scores (d, d) from scores (r, d, d) under the null hypothesis, pooled over all pairs; never zero."""
    pool = np.sort(null[:, off_diagonal(len(scores))].reshape(-1))
    above = len(pool) - np.searchsorted(pool, scores, side="left")
    return np.asarray((above + 1.0) / (len(pool) + 1.0))


def rank_average(scores: Sequence[Array]) -> Array:
    """Mean of the ranks of several matrices of scores, independent of their scales.

    Parameters
    ----------
    scores : sequence of (d, d) arrays
        Scores of edges; the diagonal is ignored.

    Returns
    -------
    array
        (d, d) mean ranks in (0, 1], zero on the diagonal.

    See Also
    --------
    consensus, Network

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.batch import rank_average
    >>> rank_average([np.array([[0.0, 3.0], [1.0, 0.0]]), np.array([[0.0, 0.2], [0.1, 0.0]])])
    array([[0. , 1. ],
           [0.5, 0. ]])
    """
    if len(scores) == 0:
        raise ValueError("scores must contain at least one matrix, got an empty sequence")
    off = off_diagonal(len(scores[0]))
    ranks = np.zeros((len(scores), *off.shape))
    for rank, one in zip(ranks, scores, strict=True):
        # In (0, 1], with mean ranks for ties.
        rank[off] = rankdata(one[off]) / max(off.sum(), 1)
    return np.asarray(ranks.mean(axis=0))


def surrogate_targets(regression: SeriesRegression, rng: np.random.Generator) -> Array:
    """Targets (n, d) that depend only on each variable's own past.

    What its past explains, plus the residual of another series, rotated in time and with a random sign: this keeps the
    shape of the residual and removes its dependence on other variables.
    """
    Y, d = regression.Y, regression.Y.shape[1]
    own = regression.apply(regression.Z[:, :d]) if regression.decaying is None else regression.decaying
    result = np.full_like(Y, np.nan)
    members = members_of_groups(regression.groups)
    for q in range(d):
        seen = ~np.isnan(Y[:, q])
        columns = np.column_stack([regression.E, own[:, q]])
        explained = columns @ np.linalg.lstsq(columns[seen], Y[seen, q], rcond=None)[0]
        rest = np.where(seen, Y[:, q] - explained, 0.0)
        for rows, source in zip(members, _permuted_within_lengths(members, rng), strict=True):
            shift = int(rng.integers(len(rows)))
            result[rows, q] = explained[rows] + rng.choice([-1.0, 1.0]) * np.roll(rest[source], shift)
        result[~seen, q] = np.nan
    return result


def _permuted_within_lengths(members: list[Indices], rng: np.random.Generator) -> list[Indices]:
    result = list(members)
    for length in {len(rows) for rows in members}:
        same = [k for k, rows in enumerate(members) if len(rows) == length]
        for k, other in zip(same, rng.permutation(same), strict=True):
            result[k] = members[other]
    return result
