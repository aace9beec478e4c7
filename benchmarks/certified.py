"""Certified truncation: time grows like n^1.5, compared with n^2 without truncation."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from benchmarks.online_click import paper_operator
from ovk import OLOK
from ovk.kernels import Gaussian
from ovk.objectives import InverseSqrt
from ovk.online import Tolerance
from ovk.operators import Dense

P, D, MILLION = 120, 16, 1_000_000
#: Hours for a million rows according to the paper: without and with truncation.
PAPER = 5.0, 0.5


def stream(n: int, truncation: Tolerance | None, product: float) -> Callable[[], None]:
    """Learn n synthetic rows, generated in chunks to save memory; alpha eta = product."""
    start = 10 if product >= 1 else 1

    def run() -> None:
        rng = np.random.default_rng(0)
        mixing = rng.standard_normal((P, D)) / np.sqrt(P)
        model = OLOK(
            Gaussian.from_mu(2.0 * P) * Dense(paper_operator(D)),
            product,
            InverseSqrt(1.0, start=start),
            truncation=truncation,
            max_support=400_000,
        )
        for first in range(0, n, 10_000):
            X = rng.standard_normal((min(10_000, n - first), P))
            model.partial_fit(X, np.sin(X @ mixing))

    return run


def exponent(seconds: Seconds, sizes: dict[str, int]) -> float:
    """Slope of log time against log n."""
    n = np.log([float(size) for size in sizes.values()])
    return float(np.polyfit(n, np.log([seconds[name] for name in sizes]), 1)[0])


def growth(settings: Settings, title: str, truncation: Tolerance | None, product: float, ns: list[int]) -> Case:
    """Growth of the time with n, and its extrapolation to a million rows."""
    sizes = {f"n = {n:,}": n for n in ns}

    def checks(seconds: Seconds) -> list[Check]:
        slope = exponent(seconds, sizes)
        last, n = next(reversed(sizes.items()))
        hours = seconds[last] * (MILLION / n) ** slope / 3600
        found = [Check("exponent of n", slope, 1.6 if truncation else 2.1)]
        if truncation:
            how = "extrapolated" if n < MILLION else "measured"
            paper = f"(paper: {PAPER[0]:g} with all points, {PAPER[1]:g} truncated)"
            found.append(Check(f"hours for a million rows, {how} {paper}", hours, PAPER[1]))
        return found

    return Case(
        title,
        {"p": P, "d": D, "alpha * eta": product, "tol": truncation.tol if truncation else None},
        [Contender(name, stream(n, truncation, product)) for name, n in sizes.items()],
        1,
        checks,
    )


def cases(settings: Settings) -> Iterator[Case]:
    """Strong and weak decay with a truncation bound, and no truncation."""
    sizes = settings.pick(
        toy=[300, 600],
        quick=[25_000, 50_000, 100_000],
        default=[100_000, 200_000, 400_000],
        long=[250_000, 500_000, MILLION],
    )
    kept = settings.pick(toy=[300, 600], quick=[5000, 10_000, 20_000], default=[10_000, 20_000, 40_000])
    yield growth(settings, "tolerance 1e-12, alpha eta = 3", Tolerance(1e-12), 3.0, sizes)
    yield growth(settings, "tolerance 1e-12, alpha eta = 0.3", Tolerance(1e-12), 0.3, sizes)
    yield growth(settings, "all points kept, alpha eta = 0.3", None, 0.3, kept)


BENCHMARK = Benchmark("certified", "certified truncation over long streams", cases)
