"""Drug activity: which actions a drug has, from its fingerprint, with the actions learned together or apart.

Su et al. (2010) ask this of 2303 molecules and 59 cancer cell lines; here it is asked of 1260 drugs and their
pharmacological actions: Tanimoto kernel, one task for each action.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import KFold

from ovk._validation import Array
from ovk.batch import MultiTaskSVC, OVKRidge
from ovk.datasets import load_pharma
from ovk.kernels import Tanimoto
from ovk.operators import Dense
from ovk.reproduce.registry import Result, Row, reproduction

#: Shares of the labels of training drugs that are known.
SHARES = (1.0, 0.3)
ALPHA, C = 0.3, 1.0
#: How much of the operator is the correlation between actions; the rest is the identity.
COUPLING = (0.0, 0.5)


def correlation(Y: Array) -> Array:
    """Correlation of the actions of training drugs, nan where a label is not known, made positive semi-definite."""
    seen = ~np.isnan(Y)
    centred = np.where(seen, Y - np.nanmean(Y, axis=0), 0.0)
    scale = np.sqrt(np.maximum((centred**2).sum(axis=0), 1e-12))
    # With labels missing at random the products are over the drugs where both are known: rescaled to the same count.
    both = seen.astype(float).T @ seen
    full = np.sqrt(np.outer(seen.sum(axis=0), seen.sum(axis=0)))
    raw = (
        (centred.T @ centred) / np.outer(scale, scale) * np.divide(full, both, out=np.zeros_like(both), where=both > 0)
    )
    values, vectors = np.linalg.eigh(0.5 * (raw + raw.T))
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    size = np.sqrt(np.maximum(np.diagonal(positive), 1e-12))
    result: Array = positive / np.outer(size, size)
    return result


def mean_auc(Y: Array, scores: Array) -> float:
    """Area under the ROC curve, averaged over the actions of which a test drug has one and another has not."""
    columns = [q for q in range(Y.shape[1]) if 0 < Y[:, q].sum() < len(Y)]
    return float(np.mean([roc_auc_score(Y[:, q], scores[:, q]) for q in columns]))


@reproduction("drug_activity", "Su et al. 2010 as in the slides: multi-task against independent, Tanimoto kernel")
def drug_activity(
    data_home: str | Path | None = None, folds: int = 3, actions: int = 20, machine_actions: int = 5
) -> Result:
    """Mean AUC of ridge regression on the most frequent actions, and of MultiTaskSVC on fewer of them."""
    bunch = load_pharma(data_home=data_home)
    X, Y = np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target, dtype=np.float64)
    frequent = np.argsort(-Y.sum(axis=0), kind="stable")
    rows = []
    found: dict[tuple[str, float, float], float] = {}
    for method, count in (("ridge", actions), ("MultiTaskSVC", machine_actions)):
        labels = Y[:, np.sort(frequent[:count])]
        for share in SHARES:
            scores = {coupling: np.empty_like(labels) for coupling in COUPLING}
            aucs: dict[float, list[float]] = {coupling: [] for coupling in COUPLING}
            rng = np.random.default_rng(0)
            for train, test in KFold(folds, shuffle=True, random_state=0).split(X):
                known = labels[train].copy()
                known[rng.random(known.shape) >= share] = np.nan
                related = correlation(known)
                for coupling in COUPLING:
                    operator = Dense((1 - coupling) * np.eye(count) + coupling * related)
                    if method == "ridge":
                        model = OVKRidge(Tanimoto() * operator, ALPHA, fit_intercept=True)
                        scores[coupling][test] = model.fit(X[train], known).predict(X[test])
                    else:
                        machine = MultiTaskSVC(Tanimoto() * operator, C, bias="task", tol=1e-4)
                        scores[coupling][test] = machine.fit(X[train], known).decision_function(X[test])
                    aucs[coupling].append(mean_auc(labels[test], scores[coupling][test]))
            for coupling in COUPLING:
                found[method, share, coupling] = float(np.mean(aucs[coupling]))
                how = "independent" if coupling == 0 else "multi-task"
                setting = f"{count} actions, {100 * share:g}% of the labels, coupling {coupling:g}"
                rows.append(
                    Row(f"{method}, {how}, {100 * share:g}% of labels", found[method, share, coupling], setting=setting)
                )
    return Result(
        title="Drug activity: AUC with the actions learned together and apart",
        measure=f"area under the ROC curve, mean over actions and {folds} folds, large is good",
        data="1260 drugs with 920 fingerprint bits; the most frequent of 130 actions",
        rows=rows,
        remarks=[
            "The operator is the identity (independent) or half identity and half the correlation of the actions among "
            "the known training labels; kernel, alpha and C are the same for both.",
            "The published experiment is on other molecules, so there is no published number to stand beside.",
        ],
    )
