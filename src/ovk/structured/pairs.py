"""How well links are ranked: areas under curves, separately for pairs with one and with two new nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import average_precision_score, roc_auc_score

from ovk._types import Array


def link_aucs(truth: Any, scores: Any, new: Any, curves: Sequence[str] = ("roc", "pr")) -> dict[str, float]:
    """Areas under the ROC and the precision-recall curve, by kind of pair.

    Parameters
    ----------
    truth : (n, n) array or scipy sparse matrix, symmetric; a link is an entry other than 0
    scores : (n, n) array, larger for likelier links; entries of pairs of known nodes are not looked at
    new : (n,) booleans
        Nodes that were not in the training graph.
    curves : which of "roc" and "pr"

    Returns
    -------
    "roc new-known", "pr new-known", "roc new-new", "pr new-new"; nan for a kind of pair that has no link or only links

    Examples
    --------
    >>> import numpy as np
    >>> from ovk.structured import link_aucs
    >>> A = np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])
    >>> link_aucs(A, A + 0.1, [False, False, True])
    {'roc new-known': 1.0, 'pr new-known': 1.0, 'roc new-new': nan, 'pr new-new': nan}
    """
    links = np.asarray(truth.toarray() if hasattr(truth, "toarray") else truth) != 0
    values, mask = np.asarray(scores, dtype=np.float64), np.asarray(new)
    if links.shape != values.shape or links.ndim != 2 or links.shape != (len(mask), len(mask)):
        raise ValueError(
            "truth, scores and new must be about the same nodes, got shapes "
            f"{links.shape}, {values.shape}, {mask.shape}"
        )
    if mask.dtype != bool:
        raise ValueError(f"new must hold a boolean for each node, got dtype {mask.dtype}")
    one, two = np.flatnonzero(~mask), np.flatnonzero(mask)
    upper = np.triu_indices(len(two), 1)
    kinds = {
        "new-known": (links[np.ix_(two, one)].ravel(), values[np.ix_(two, one)].ravel()),
        "new-new": (links[np.ix_(two, two)][upper], values[np.ix_(two, two)][upper]),
    }
    areas = {"roc": roc_auc_score, "pr": average_precision_score}
    return {
        f"{curve} {kind}": float(areas[curve](there, score)) if there.any() and not there.all() else float("nan")
        for kind, (there, score) in kinds.items()
        for curve in curves
    }


def best_threshold(there: Any, scores: Array) -> float:
    """The threshold above which calling a pair a link has the largest F1; inf where no pair is a link.

    >>> best_threshold(np.array([False, True, True]), np.array([0.1, 0.4, 0.8]))
    0.25
    """
    there = np.asarray(there, dtype=bool)
    if not there.any():
        return float("inf")
    order = np.argsort(-scores, kind="stable")
    hits, ranked = np.cumsum(there[order]), scores[order]
    f1 = 2.0 * hits / (np.arange(1, len(order) + 1) + hits[-1])
    # A cut between equal scores cannot be made.
    f1[:-1][ranked[:-1] == ranked[1:]] = -1.0
    best = int(f1.argmax())
    after = ranked[best + 1] if best + 1 < len(ranked) else ranked[best] - 1.0
    return float(0.5 * (ranked[best] + after))
