"""OLOK with many outputs, and its memory over a million rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OLOK
from ovk.kernels import Gaussian
from ovk.online import Window
from ovk.operators import MixedEffect

P, WINDOW = 20, 1000


def learner(window: int) -> OLOK:
    """An operator with two distinct eigenvalues for any number of outputs."""
    return OLOK(Gaussian(np.sqrt(P)) * MixedEffect(0.5), 0.01, 0.5, truncation=Window(window))


def resident_mib() -> float:
    """Current memory of the process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def memory(rows: int, window: int) -> tuple[dict[str, Any], list[Check]]:
    """Growth of the resident set between the first tenth of the rows and the last."""
    if not Path("/proc/self/statm").exists():
        return {}, []
    rng, model, chunk = np.random.default_rng(0), learner(window), max(1, rows // 100)
    first = 0.0
    for i in range(100):
        X = rng.standard_normal((chunk, P))
        model.partial_fit(X, X[:, :2])
        first = resident_mib() if i == 9 else first
    grown = resident_mib() - first
    name = f"MiB by which the process grew over {rows:,} rows"
    return {name: grown}, [Check(f"{name}: less than 10", grown, 10.0)]


def cases(settings: Settings) -> Iterator[Case]:
    """The same rows with increasing numbers of outputs."""
    n, window = settings.pick(toy=200, quick=2560, default=10_240), settings.pick(toy=50, quick=WINDOW, default=WINDOW)
    outputs = settings.pick(toy=[2, 4], quick=[2, 16, 256], default=[2, 4, 8, 16, 32, 64, 128, 256])
    rng = np.random.default_rng(0)
    X = rng.standard_normal((window + n, P))
    Y = np.sin(X @ rng.standard_normal((P, outputs[-1])))

    def learned(d: int) -> Contender:
        def prepare() -> tuple[OLOK]:
            return (learner(window).partial_fit(X[:window], Y[:window, :d]),)

        return Contender(f"d = {d}", lambda model: model.predict_then_learn(X[window:], Y[window:, :d]), prepare)

    def checks(seconds: Seconds) -> list[Check]:
        few, many = outputs[0], outputs[-1]
        ratio = seconds[f"d = {many}"] / seconds[f"d = {few}"]
        return [Check(f"{many // few} times the outputs cost less than {many // few} times as much", ratio, many / few)]

    yield Case(
        "outputs",
        {"n": n, "p": P, "window": window},
        [learned(d) for d in outputs],
        settings.pick(toy=1, quick=3, default=5),
        checks,
        lambda: memory(settings.pick(toy=5000, quick=200_000, default=1_000_000), window),
    )


BENCHMARK = Benchmark("online_outputs", "first-order learning with 2 to 256 outputs", cases)
