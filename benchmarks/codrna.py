"""One pass over cod-rna with a budget of 500: progressive error and seconds, beside the rivals of the literature.

The rows are shuffled with a fixed seed. What needs data to be set is set on the first rows, for everybody alike: the
scale of every input by 25 steps on the error of a small ridge regression on 3,000 rows, and the options of each
contender by its progressive error on the first 10,000, from a grid. The pass then begins at the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import minimize
from sklearn.svm import SVC

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from benchmarks.rivals import FOGD, NOGD, ConKONS, ProsNKONS
from benchmarks.rivals.pipelines import river_bayesian, river_features, sklearn_fourier, sklearn_nystroem
from ovk import PKAWVClassifier
from ovk.datasets import load_codrna
from ovk.features import KORS, Nystrom, Uniform
from ovk.kernels import Gaussian

Array = npt.NDArray[np.float64]

OURS, KORS_NAME, BATCH = "PKAWVClassifier, uniform", "PKAWVClassifier, KORS", "SVC, batch"
WIDTHS = (0.5, 1.0, 2.0, 4.0)
STEPS = (0.1, 0.3, 1.0, 3.0)
#: How strongly the scales of the inputs are drawn together.
TOGETHER = 2e-3


class Rows(NamedTuple):
    """Shuffled rows with scaled inputs, and labels -1 and 1."""

    X: Array
    y: Array
    scales: Array  # of the standardised inputs


def rows(settings: Settings) -> Rows:
    """All of cod-rna, or made-up rows at toy size."""
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
    first = settings.pick(toy=100, quick=1000, default=3000)
    X = (X - X[:first].mean(axis=0)) / X[:first].std(axis=0)
    scales = relevances(X[:first], y[:first])
    return Rows(X / scales, y, scales)


def relevances(X: Array, y: Array, steps: int = 25) -> Array:
    """A length scale for each input: least error on one half of a ridge regression fitted on the other."""
    half = len(X) // 2
    A, B, a, b = X[:half], X[half:], y[:half], y[half:]
    D, E = ((P.T[:, :, None] - A.T[:, None, :]) ** 2 for P in (A, B))

    def error(t: Array) -> tuple[float, Array]:
        w, alpha = np.exp(t[:-1]), np.exp(t[-1])
        K, k = (np.exp(-0.5 * np.tensordot(w, S, 1)) for S in (D, E))
        factor = cho_factor(K + alpha * np.eye(half), lower=True)
        c = cho_solve(factor, a)
        r = k @ c - b
        # The residual's derivative is dk c - k (K + alpha)^-1 dK c.
        u = cho_solve(factor, k.T @ r)
        slope = [w[j] * (-0.5 * (r @ ((E[j] * k) @ c)) + 0.5 * (u @ ((D[j] * K) @ c))) for j in range(len(w))]
        # A few rows know little about inputs that matter little: without this their scales run away.
        apart = np.append(t[:-1] - t[:-1].mean(), 0.0)
        value = r @ r / len(b) + TOGETHER * apart @ apart
        return float(value), 2 / len(b) * np.array([*slope, -alpha * (u @ c)]) + 2 * TOGETHER * apart

    start = np.append(np.full(X.shape[1], -2 * np.log(2.0)), np.log(0.1))
    found = minimize(error, start, jac=True, method="L-BFGS-B", options={"maxiter": steps})
    return np.exp(-0.5 * found.x[:-1])


Make = Callable[..., Any]


def contenders(budget: int) -> dict[str, tuple[Make, dict[str, tuple[Any, ...]]]]:
    """Each learner of the stream with the grid of its options."""

    def ours(selection: Any, width: float, alpha: float) -> PKAWVClassifier:
        features = Nystrom(selection, budget=budget)
        return PKAWVClassifier(Gaussian(width), alpha, features, random_state=0)

    def kons(method: Any, width: float, alpha: float, mu: float) -> Any:
        return method(Gaussian(width), budget, mu=mu, alpha=alpha)

    alphas = {"width": WIDTHS, "alpha": (0.01, 0.1, 1.0)}
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


def mistakes(model: Any, X: Array, y: Array) -> Array:
    """(n,) 1 where the class predicted before the label was seen is wrong; a score of 0 is wrong."""
    labels = {"classes": (-1.0, 1.0)} if isinstance(model, PKAWVClassifier) else {}
    predicted = np.asarray(model.predict_then_learn(X, y, **labels), dtype=np.float64)
    return (predicted * y <= 0).astype(np.float64)


def tuned(make: Make, grid: dict[str, tuple[Any, ...]], X: Array, y: Array) -> dict[str, Any]:
    """The options with the least progressive error on these rows."""
    choices = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    return min(choices, key=lambda options: mistakes(make(**options), X, y).mean()) if len(choices) > 1 else choices[0]


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
    """One pass for everybody."""
    X, y, scales = rows(settings)
    budget = settings.pick(toy=20, quick=200, default=500)
    tail = settings.pick(toy=100, quick=3000, default=20_000)
    first = settings.pick(toy=100, quick=1000, default=10_000)
    learners = contenders(budget)
    options = {name: tuned(make, grid, X[:first], y[:first]) for name, (make, grid) in learners.items()}
    fit, chosen = batch(X, y, first)
    wrong: dict[str, Array] = {}

    def stream(name: str) -> None:
        wrong[name] = mistakes(learners[name][0](**options[name]), X, y)

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
            "scales": scales.round(3).tolist(),
            "options": {**options, BATCH: chosen},
        },
        [*(Contender(name, partial(stream, name)) for name in learners), Contender(BATCH, machine)],
        1,
        checks,
        scores,
    )


BENCHMARK = Benchmark("codrna", "one pass over cod-rna, 59,535 rows, budget 500", cases)
