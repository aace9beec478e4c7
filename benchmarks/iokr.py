"""Pre-images for many inputs at once, and structured outputs too many for an n x n matrix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import IOKR, OVKRidge
from ovk.features import NystromMap
from ovk.kernels import Gaussian, Tanimoto

ALL, LOOP = "IOKR.predict, top 10 of all candidates", "a loop over inputs, some of them"
SKETCHED, READY = "IOKR.fit, sketched", "OVKRidge.fit on outputs already sketched"
BITS = 64


def bits(n: int, p: int, seed: int = 0) -> tuple[Any, Any]:
    """Inputs (n, p), and fingerprints that depend on them."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    Y = (X @ rng.standard_normal((p, BITS)) + 0.5 * rng.standard_normal((n, BITS)) > 1.0).astype(np.float64)
    return X, Y


def loop(model: IOKR, X: Any, candidates: Any, k: int) -> list[Any]:
    """One input at a time, as in published code: weights, kernel of the candidates, scores."""
    best = []
    for x in X:
        w = model.weights(x[None])[0]
        scores = w @ Tanimoto()(model.anchors_, candidates) - 0.5 * Tanimoto().diag(candidates)
        best.append(candidates[np.argsort(-scores)[:k]])
    return best


def top_k(settings: Settings) -> Case:
    """n training points, n candidates, all inputs predicted."""
    n = settings.pick(toy=120, quick=1500, default=5000)
    some = settings.pick(toy=20, quick=20, default=25)
    X, Y = bits(n, 8)
    model = IOKR(Gaussian(3.0), Tanimoto(), alpha=0.1).fit(X, Y)

    def checks(seconds: Seconds) -> list[Check]:
        ratio = seconds[LOOP] * (n / some) / seconds[ALL]
        return [Check("20 times as fast as the loop, for as many inputs", ratio, 20.0, at_least=True)]

    return Case(
        "top-k",
        {"n": n, "candidates": n, "k": 10, "inputs of the loop": some},
        [
            Contender(ALL, lambda: model.predict(X, candidates=Y, return_top_k=10)),
            Contender(LOOP, lambda: loop(model, X[:some], Y, 10)),
        ],
        settings.pick(toy=1, quick=2, default=2, long=5),
        checks,
    )


def sketched(settings: Settings) -> Case:
    """Landmarks on both sides."""
    n = settings.pick(toy=400, quick=10_000, default=50_000)
    m = settings.pick(toy=50, quick=500, default=1000)
    X, Y = bits(n, 8)
    kernel = Gaussian(3.0)
    features = NystromMap.from_points(Tanimoto(), np.unique(Y[:m], axis=0))

    def ours() -> IOKR:
        return IOKR(kernel, Tanimoto(), 0.1, landmarks=m, output_landmarks=m, random_state=0).fit(X, Y)

    def checks(seconds: Seconds) -> list[Check]:
        return [
            Check("under two minutes", seconds[SKETCHED], 120.0),
            Check("at most 1.5 x the ridge regression alone", seconds[SKETCHED] / seconds[READY], 1.5),
        ]

    return Case(
        "sketched",
        {"n": n, "landmarks": m, "output_landmarks": m},
        [
            Contender(SKETCHED, ours),
            Contender(
                READY,
                lambda Psi: OVKRidge(kernel, 0.1, landmarks=m, fit_intercept=False, random_state=0).fit(X, Psi),
                lambda: (features.transform(Y),),
            ),
        ],
        settings.pick(toy=1, quick=2, default=2, long=3),
        checks,
    )


def cases(settings: Settings) -> Iterator[Case]:
    """Exact and sketched."""
    yield top_k(settings)
    yield sketched(settings)


BENCHMARK = Benchmark("iokr", "structured outputs: pre-images and sketches", cases)
