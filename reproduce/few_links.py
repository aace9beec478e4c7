"""Transductive and semi-supervised link prediction from few nodes with known links.

In Table 3 of the paper, 5, 10 and 20% of the nodes of a co-authorship network are labelled. Transductive: the inputs of
the test nodes are known during training. Semi-supervised: the inputs of half of the other nodes are known, and links
are predicted for the other half.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ovk.kernels import Precomputed
from ovk.structured import LinkPredictor
from reproduce.link_methods import EM, FEW, PKMR, LinkProblem
from reproduce.links import NETWORKS, InputsAndGraph
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array

#: Published results for the NIPS co-authorship network, in percent: AUC-ROC at 5, 10 and 20%, and AUC-PR.
PUBLISHED = {
    "transductive, EM": ((87.3, 92.9, 96.4), (13.8, 22.5, 41.1)),
    "transductive, kernel matrix regression": ((85.7, 92.4, 96.4), (9.7, 20.0, 38.8)),
    "transductive, IOKR": ((83.6, 93.6, 96.5), (12.0, 24.5, 43.7)),
    "semi-supervised, IOKR": ((86.0, 93.3, 95.7), (7.6, 13.8, 25.3)),
}
WEIGHTS = (0.0, 0.1, 1.0, 10.0)


def fitted(K: Array, A: Array, known: Any, others: Any, alpha: float, weight: float) -> LinkPredictor:
    """A model fitted to the links of some nodes and the inputs of others."""
    nodes = np.concatenate([known, others])
    model = LinkPredictor(
        Precomputed(K), beta=3.0, alpha=alpha, normalised=True, alpha_graph=weight, n_neighbors=10, cosine=True
    )
    links = A[np.ix_(known, known)]
    return model.fit(nodes[:, None], links, known=np.arange(len(known)))


def areas(model: LinkPredictor, problem: LinkProblem) -> dict[str, float]:
    """Areas under the curves for all nodes of a problem."""
    return problem.aucs(model.score_pairs(np.arange(len(problem.K))[:, None]))


def choose(K: Array, A: Array, known: Any, others: Any) -> tuple[float, float]:
    """alpha and the graph's weight, with a quarter of the known nodes held out, or each in turn for few nodes."""
    truth = A[np.ix_(known, known)]
    best, worth = (1.0, 0.0), -np.inf
    for alpha in (1.0, 10.0):
        for weight in WEIGHTS:
            values = []
            for quarter in range(4 if len(known) < FEW else 1):
                held, rest = known[quarter::4], np.setdiff1d(known, known[quarter::4])
                scores = fitted(K, A, rest, np.concatenate([held, others]), alpha, weight).score_pairs(known[:, None])
                inner = LinkProblem(K[np.ix_(known, known)], K[:0], truth, np.flatnonzero(~np.isin(known, held)))
                values.append(pairs(inner.aucs(scores), "roc"))
            if np.mean(values) > worth:
                best, worth = (alpha, weight), float(np.mean(values))
    return best


def pairs(found: dict[str, float], curve: str) -> float:
    """Mean over both kinds of pairs."""
    return float(np.nanmean([found[f"{curve} new-known"], found[f"{curve} new-new"]]))


def one_split(network: InputsAndGraph, share: float, seed: int) -> dict[str, dict[str, float]]:
    """Areas of every method for one draw of the labelled nodes."""
    K, A = network.K, network.A
    order = np.random.default_rng(seed).permutation(len(K))
    known, others = np.sort(order[: int(share * len(K))]), np.sort(order[int(share * len(K)) :])
    result = {}
    problem = LinkProblem(K, network.X, A, known)
    alpha, weight = choose(K, A, known, others)
    result["transductive, IOKR"] = areas(fitted(K, A, known, others, alpha, weight), problem)
    result["supervised, IOKR"] = areas(fitted(K, A, known, others, alpha, 0.0), problem)
    result["transductive, kernel matrix regression"] = problem.aucs(PKMR.scores(problem, **PKMR.choose(problem)))
    result["transductive, EM"] = problem.aucs(EM.scores(problem, **EM.choose(problem)))
    seen, unseen = others[::2], others[1::2]
    kept = np.sort(np.concatenate([known, unseen]))
    block = np.ix_(kept, kept)
    inner = LinkProblem(K[block], network.X[kept], A[block], np.flatnonzero(np.isin(kept, known)))
    alpha, weight = choose(K, A, known, seen)
    scores = fitted(K, A, known, seen, alpha, weight).score_pairs(kept[:, None])
    result["semi-supervised, IOKR"] = inner.aucs(scores)
    return result


@reproduction("few_links", "Brouard et al. 2016, table 3 (its settings, on public networks)")
def few_links(
    data_home: str | Path | None = None,
    networks: Sequence[str] = ("dicty", "cora"),
    shares: Sequence[float] = (0.05, 0.1, 0.2),
    splits: int = 3,
) -> Result:
    """Areas under the curves with 5, 10 and 20% of the nodes labelled."""
    rows = []
    for key in networks:
        *_, network = NETWORKS[key](data_home)
        for share in shares:
            parts = [one_split(network, share, seed) for seed in range(splits)]
            for name in parts[0]:
                for curve in ("roc", "pr"):
                    values = [pairs(part[name], curve) for part in parts]
                    label = f"{network.name}, {100 * share:.0f}% labelled: {name}, {curve}"
                    rows.append(Row(label, float(np.mean(values)), setting=f"+- {np.std(values):.3f}"))
    rows += published_rows()
    return Result(
        title="Few nodes with known links",
        measure="areas under curves, mean over both kinds of pairs, large is good",
        data="dicty PPI with both kernels (1219 genes), Cora (2708 papers)",
        rows=rows,
        remarks=[
            f"{splits} random draws of the labelled nodes. Alpha and the weight of the graph penalty (0 to 10) are "
            f"chosen with a quarter of the labelled nodes held out, each in turn where they are fewer than {FEW}. "
            "Normalised diffusion kernel, beta 3.",
            "Supervised: the same without the inputs of unlabelled nodes.",
            "EM completes the diffusion kernel of the labelled nodes with the eigenvectors of the inputs' kernel "
            "(Tsuda, Akaho and Asai 2003); time of the diffusion and number of steps are chosen in the same way.",
        ],
    )


def published_rows() -> list[Row]:
    """Table 3 of the paper, as areas."""
    return [
        Row(f"NIPS co-authorship, {share}% labelled: {name}, {curve} (not public)", None, number / 100)
        for name, curves in PUBLISHED.items()
        for curve, numbers in zip(("roc", "pr"), curves, strict=True)
        for share, number in zip((5, 10, 20), numbers, strict=True)
    ]
