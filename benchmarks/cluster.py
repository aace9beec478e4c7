"""Two workers compared with one: a million rows on a local Dask cluster.

The workers generate the rows, so that no disk is involved. The memory of a worker does not depend on the number of
rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Settings
from ovk import OVKRidge
from ovk.app.parallel import fit
from ovk.app.parallel.engines import local_cluster
from ovk.kernels import Gaussian

P, D = 20, 5


def chunks(seed: int, rows: int) -> Iterator[tuple[Any, Any]]:
    """A part: rows of 20 inputs and 5 outputs, 4096 at a time."""
    rng = np.random.default_rng(seed)
    W = np.random.default_rng(0).standard_normal((P, D)) / P**0.5
    for start in range(0, rows, 4096):
        X = rng.standard_normal((min(4096, rows - start), P))
        yield X, np.sin(X @ W) + 0.1 * rng.standard_normal((len(X), D))


def _peak() -> float:
    """Peak memory of this process in MB."""
    import resource

    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss) / 1e3


class Workers:
    """Clusters of one and of two workers, with one thread each."""

    def __init__(self, settings: Settings) -> None:
        self.n: int = settings.pick(toy=400, quick=100_000, default=1_000_000)
        self.m: int = settings.pick(toy=20, default=1000, quick=1000)
        count: int = settings.pick(toy=4, quick=40, default=40)
        self.parts = [partial(chunks, seed, self.n // count) for seed in range(count)]
        self.estimator = OVKRidge(Gaussian(5.0), 0.1, landmarks=next(chunks(99, self.m))[0])
        # At toy size processes would take longer to start than to run.
        self._opened = ExitStack()
        self.clients = {
            count: self._opened.enter_context(local_cluster(count, processes=settings.size != "toy"))
            for count in (1, 2)
        }
        self.models: dict[int, OVKRidge] = {}
        self.seconds: dict[int, list[float]] = {1: [], 2: []}
        self.busiest: dict[int, list[float]] = {1: [], 2: []}

    def run(self, count: int) -> None:
        client, start = self.clients[count], time.perf_counter()
        before = client.run(time.process_time)
        self.models[count] = fit(self.estimator, self.parts, client)
        self.seconds[count].append(time.perf_counter() - start)
        # The time on an idle machine: the processor time of the busiest worker.
        after = client.run(time.process_time)
        self.busiest[count].append(max(after[worker] - before[worker] for worker in after))

    def scores(self) -> tuple[dict[str, Any], list[Check]]:
        memory = [peak for client in self.clients.values() for peak in client.run(_peak).values()]
        ratio = min(self.busiest[2]) / min(self.busiest[1])
        self._opened.close()
        same = float(np.abs(self.models[1].dual_coef_ - self.models[2].dual_coef_).max())
        checks = [
            Check("processor time of the busier of two workers over that of one", ratio, 0.65),
            Check("memory of a worker (MB)", max(memory), 600),
            Check("largest difference of coefficients", same, 0),
        ]
        scores = {
            "rows": self.n,
            "wall-clock time of two workers over one": min(self.seconds[2]) / min(self.seconds[1]),
            "processor seconds of one": min(self.busiest[1]),
            "processor seconds of the busier of two": min(self.busiest[2]),
        }
        return scores, checks


def _nothing() -> None:
    pass


def cases(settings: Settings) -> Iterator[Case]:
    workers = Workers(settings)
    given = {"rows": workers.n, "inputs": P, "outputs": D, "landmarks": workers.m, "parts": len(workers.parts)}
    contenders = [Contender(f"{count} workers", partial(workers.run, count), light=_nothing) for count in (1, 2)]
    yield Case("cluster", given, contenders, 1, scores=workers.scores)


BENCHMARK = Benchmark("cluster", "a million rows over one and two workers", cases)
