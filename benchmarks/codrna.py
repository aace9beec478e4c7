"""One pass over cod-rna with a budget of 500: progressive error and time, compared with published methods.

The rows are shuffled with a fixed seed. The first 10,000 rows determine the linear map of the inputs
(`GradientMetric`), and by progressive error the options of each contender from a grid. The pass then starts at the
first row. One contender uses none of this: it chooses its settings during the pass, from earlier rows only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.svm import SVC

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from benchmarks.rivals import FOGD, NOGD, ConKONS, ProsNKONS
from benchmarks.rivals.pipelines import river_bayesian, river_features, sklearn_fourier, sklearn_nystroem
from benchmarks.warm_up import Grid, Inputs, Make, mistakes, tuned, without_looking_ahead
from ovk import PKAWVClassifier
from ovk.features import KORS, Nystrom, Uniform
from ovk.kernels import Gaussian, Matern
from reproduce.data import load_codrna

Array = npt.NDArray[np.float64]

OURS, KORS_NAME, BATCH = "PKAWVClassifier, uniform", "PKAWVClassifier, KORS", "SVC, batch"
STRICT = "PKAWVClassifier, set on its way"
WIDTHS = (0.5, 1.0, 2.0, 4.0)
STEPS = (0.1, 0.3, 1.0, 3.0)
#: A wide smooth kernel plus a rougher one, or a single width.
SHAPES = {
    "smooth": Gaussian,
    "rough": lambda width: Matern(1.5, 2 * width),
    "both": lambda width: Matern(1.5, width) + 4.0 * Gaussian(2 * width),
}


class Rows(NamedTuple):
    """Shuffled rows, with raw and with mapped inputs; labels -1 and 1."""

    raw: Array
    X: Array
    y: Array
    metric: Array  # eigenvalues of the map of the standardised inputs


def rows(settings: Settings, first: int) -> Rows:
    """All of cod-rna, or synthetic rows at toy size; the first rows determine the map of the inputs."""
    if settings.size == "toy":
        rng = np.random.default_rng(0)
        X = rng.standard_normal((400, 3))
        y = np.where(np.sin(2 * X[:, 0]) + X[:, 1] > 0, 1.0, -1.0)
    else:
        X, y = load_codrna(return_X_y=True)
        order = np.random.default_rng(0).permutation(len(y))
        X, y = X[order], y[order].astype(np.float64)
        n = settings.pick(toy=None, quick=10_000, default=len(y))
        X, y = X[:n], y[:n]
    inputs = Inputs.learned(X[:first], y[:first])
    return Rows(X, inputs(X), y, np.linalg.eigvalsh(inputs.components))


def contenders(budget: int) -> dict[str, tuple[Make, Grid]]:
    """Each online learner with the grid of its options."""

    def ours(selection: Any, shape: str, width: float, alpha: float) -> PKAWVClassifier:
        features = Nystrom(selection, budget=budget)
        return PKAWVClassifier(SHAPES[shape](width), alpha, features, random_state=0)

    def kons(method: Any, width: float, alpha: float, mu: float) -> Any:
        return method(Gaussian(width), budget, mu=mu, alpha=alpha)

    alphas = {"shape": tuple(SHAPES), "width": WIDTHS, "alpha": (0.003, 0.03, 0.3)}
    descent = {"width": WIDTHS, "step": STEPS}
    newton = {"width": WIDTHS, "alpha": (0.1, 1.0), "mu": (0.1, 1.0)}
    return {
        OURS: (partial(ours, Uniform(size=budget)), alphas),
        KORS_NAME: (partial(ours, KORS(mu=0.1)), alphas),
        "FOGD": (lambda width, step: FOGD(Gaussian(width), 2 * budget, step), descent),
        "NOGD": (lambda width, step: NOGD(Gaussian(width), budget, budget, step), descent),
        "Pros-N-KONS": (partial(kons, ProsNKONS), newton),
        "CON-KONS": (partial(kons, ConKONS), newton),
        "river, Bayesian linear": (river_bayesian, {}),
        "river, RBFSampler + SGD": (
            lambda width, step: river_features(0.5 / width**2, 100, step),
            {"width": (0.5, 2.0), "step": (0.01, 0.1, 1.0)},
        ),
        "sklearn, RBFSampler + SGD": (
            lambda width, alpha: sklearn_fourier(0.5 / width**2, budget, alpha),
            {"width": WIDTHS, "alpha": (1e-5, 1e-4)},
        ),
        "sklearn, Nystroem + SGD": (
            lambda width, alpha: sklearn_nystroem(0.5 / width**2, budget, alpha),
            {"width": WIDTHS, "alpha": (1e-5, 1e-4)},
        ),
    }


def batch(X: Array, y: Array, first: int) -> tuple[Callable[[int], SVC], dict[str, float]]:
    """A support vector machine with width and C chosen on the first rows."""
    half = first // 2

    def machine(width: float, C: float) -> SVC:
        return SVC(C=C, gamma=0.5 / width**2, cache_size=1000)

    def error(options: tuple[float, float]) -> float:
        return float(np.mean(machine(*options).fit(X[:half], y[:half]).predict(X[half:first]) != y[half:first]))

    width, C = min(product(WIDTHS, (1.0, 10.0, 100.0)), key=error)
    return lambda n: machine(width, C).fit(X[:n], y[:n]), {"width": width, "C": C}


def cases(settings: Settings) -> Iterator[Case]:
    """One pass of each contender."""
    budget = settings.pick(toy=20, quick=200, default=500)
    tail = settings.pick(toy=100, quick=3000, default=20_000)
    first = settings.pick(toy=100, quick=1000, default=10_000)
    stages = settings.pick(toy=(50, 100), quick=(250, 1000), default=(30, 100, 300, 1000, 3000, 10_000))
    raw, X, y, metric = rows(settings, first)
    learners = contenders(budget)
    options = {name: tuned(make, grid, X[:first], y[:first]) for name, (make, grid) in learners.items()}
    fit, chosen = batch(X, y, first)
    wrong: dict[str, Array] = {}

    def stream(name: str) -> None:
        wrong[name] = mistakes(learners[name][0](**options[name]), X, y)

    def strict() -> None:
        wrong[STRICT] = without_looking_ahead(*learners[OURS], raw, y, stages)

    def machine() -> None:
        wrong[BATCH] = (fit(len(X) - tail).predict(X[-tail:]) != y[-tail:]).astype(np.float64)

    def checks(seconds: Seconds) -> list[Check]:
        rivals = [name for name in learners if name not in (OURS, KORS_NAME)]
        best = min(float(wrong[name].mean()) for name in rivals)
        ours, on_tail = float(wrong[OURS].mean()), float(wrong[OURS][-tail:].mean())
        return [
            Check("progressive error at most 4.7%", ours, 0.047),
            Check("error at most that of every rival", ours, best),
            Check(
                "error on the tail at most 1.05 x batch SVC's", on_tail / max(float(wrong[BATCH].mean()), 1e-9), 1.05
            ),
        ]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        overall = {name: float(e.mean()) for name, e in wrong.items() if name != BATCH}
        return {
            "progressive error": overall,
            f"error on the last {tail:,} rows": {n: float(e[-tail:].mean()) for n, e in wrong.items()},
        }, []

    yield Case(
        "one pass",
        {
            "n": len(y),
            "budget": budget,
            "tail": tail,
            "metric": metric.round(3).tolist(),
            "options": {**options, BATCH: chosen},
        },
        [
            *(Contender(name, partial(stream, name)) for name in learners),
            Contender(STRICT, strict),
            Contender(BATCH, machine),
        ],
        1,
        checks,
        scores,
    )


BENCHMARK = Benchmark("codrna", "one pass over cod-rna, 59,535 rows, budget 500", cases)
