"""Drug retrieval: fingerprints from pharmacological actions, with a candidate list for each drug.

As in metabolite identification, each query has a list of candidates of about the right size, and the candidate whose
fingerprint is nearest to the predicted point in feature space is returned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import KFold

from ovk.kernels import Gaussian, Linear, ScalarKernel, Tanimoto
from ovk.structured import IOKR, PerExample
from reproduce.data import load_pharma
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array

ALPHAS = np.logspace(-3, 2, 11)
#: Maximum relative difference in the number of bits between candidates and the drug.
WINDOW = 0.05


def windows(bits: Array, queries: Any) -> list[Any]:
    """For each query, the drugs of about its size, including itself, in random order."""
    sizes = bits.sum(axis=1)
    rng = np.random.default_rng(0)
    return [rng.permutation(np.flatnonzero(np.abs(sizes - sizes[q]) <= WINDOW * sizes[q])) for q in queries]


def ranks(scores: list[Array], pools: list[Any], queries: Any) -> Array:
    """Rank of the true drug among its candidates; ties get the mean rank."""
    places = []
    for score, pool, query in zip(scores, pools, queries, strict=True):
        own = score[np.flatnonzero(pool == query)[0]]
        better, equal = np.sum(score > own + 1e-12), np.sum(np.abs(score - own) <= 1e-12)
        places.append(1.0 + better + 0.5 * (equal - 1))
    return np.array(places)


def smoothed(X: Array, Y: Array, X_new: Array, pools: list[Any], bits: Array) -> list[Array]:
    """Candidates by their similarity to the drugs with the most similar actions, weighted by that similarity."""
    W = Tanimoto()(X_new, X) ** 4
    return [w @ Tanimoto()(Y, bits[pool]) for w, pool in zip(W, pools, strict=True)]


@reproduction("drug_retrieval", "the pre-image problem of Brouard et al. 2016, on drugs and their actions")
def drug_retrieval(data_home: str | Path | None = None, folds: int = 5) -> Result:
    """Top-1 and top-10 accuracy of the drug among candidates of about its size."""
    bunch = load_pharma(data_home=data_home)
    actions, bits = np.asarray(bunch.target, dtype=np.float64), np.asarray(bunch.data, dtype=np.float64)
    kernels: dict[str, ScalarKernel] = {"Tanimoto": Tanimoto(), "Gaussian": Gaussian(), "linear": Linear()}
    found: dict[str, list[Array]] = {}
    sizes: list[int] = []
    for known, new in KFold(folds, shuffle=True, random_state=0).split(actions):
        pools = windows(bits, new)
        sizes += [len(pool) for pool in pools]
        for name, kernel in kernels.items():
            model = IOKR(Tanimoto(), kernel, ALPHAS).fit(actions[known], bits[known])
            scores = model.decision_function(actions[new], PerExample([bits[pool] for pool in pools]))
            found.setdefault(f"IOKR, {name} output kernel", []).append(ranks(scores, pools, new))
        scores = smoothed(actions[known], bits[known], actions[new], pools, bits)
        found.setdefault("average of drugs with similar actions", []).append(ranks(scores, pools, new))
    rows = []
    for name, parts in found.items():
        places = np.concatenate(parts)
        for k in (1, 10):
            rows.append(Row(f"{name}, top-{k}", float(np.mean(places <= k))))
    for k in (1, 10):
        rows.append(Row(f"chance, top-{k}", float(np.mean([min(k / size, 1.0) for size in sizes]))))
    return Result(
        title="Drugs retrieved from their actions",
        measure="accuracy, large is good",
        data="1260 drugs, 920 bits, 130 actions",
        rows=rows,
        remarks=[
            f"{folds} folds. The candidates of a drug are all drugs, known ones too, whose number of bits is within "
            f"{100 * WINDOW:.0f}% of its own: {int(np.median(sizes))} in the median.",
            "Alpha by leave-one-out in the output feature space; Tanimoto kernel of the actions.",
            "Many drugs share all their actions, which bounds what any method can do; equally good candidates count "
            "half.",
        ],
    )
