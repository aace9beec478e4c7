"""Learning the output operator, and many tasks with separate data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OutputKernelRidge, OVKRidge
from ovk.kernels import Gaussian
from ovk.operators import Identity, MixedEffect

OURS, EIGH = "OutputKernelRidge.fit, one alpha", "one eigh of the gram"
PATH = "OutputKernelRidge.fit, path of 12 alphas with leave-one-out"
LONG, APART = "long form, coupled tasks", "long form, tasks apart"


def cases(settings: Settings) -> Iterator[Case]:
    """A learned operator on many outputs; a hundred thousand observations of five hundred tasks."""
    yield _learned(settings)
    yield _long(settings)


def _learned(settings: Settings) -> Case:
    n, d = settings.pick(toy=(80, 6), quick=(500, 30), default=(2000, 100))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, 10))
    common = np.sin(X @ rng.standard_normal((10, 5)))
    Y = common @ rng.standard_normal((5, d)) + 0.5 * rng.standard_normal((n, d))
    kernel = Gaussian(float(np.sqrt(20.0)))
    # An alpha in the middle of the path, where T has its typical rank.
    G = kernel(X)
    alpha = float(1e-2 * np.sqrt(np.linalg.eigvalsh(Y.T @ G @ Y)[-1]))

    def checks(seconds: Seconds) -> list[Check]:
        return [
            Check("one alpha at most 4 x one eigh", seconds[OURS] / seconds[EIGH], 4.0),
            Check("a path of 12 at most 6 x one alpha", seconds[PATH] / seconds[OURS], 6.0),
        ]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        model = OutputKernelRidge(kernel, alpha, fit_intercept=False).fit(X, Y)
        rank = int(np.linalg.matrix_rank(model.T_, tol=1e-6 * float(np.trace(model.T_))))
        return {"rank of T": rank, "steps": model.n_iter_, "converged": model.converged_}, []

    return Case(
        f"n={n} d={d}",
        {"n": n, "d": d, "alpha": alpha, "penalty": "trace"},
        [
            Contender(OURS, lambda: OutputKernelRidge(kernel, alpha, fit_intercept=False).fit(X, Y)),
            Contender(EIGH, np.linalg.eigh, lambda: (kernel(X),)),
            Contender(PATH, lambda: OutputKernelRidge(kernel, fit_intercept=False).fit(X, Y)),
        ],
        settings.pick(toy=1, quick=3, default=3, long=9),
        checks,
        scores,
    )


def _long(settings: Settings) -> Case:
    n, d, m = settings.pick(toy=(400, 8, 10), quick=(10_000, 100, 100), default=(100_000, 500, 200))
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((n, 5)), rng.integers(d, size=n)
    own = rng.standard_normal((d, 5))
    y = np.sin(X[:, 0]) + 0.3 * np.einsum("ij,ij->i", own[task], np.cos(X)) + 0.3 * rng.standard_normal(n)
    new, which = rng.standard_normal((1000, 5)), rng.integers(d, size=1000)
    truth = np.sin(new[:, 0]) + 0.3 * np.einsum("ij,ij->i", own[which], np.cos(new))

    def fit(operator: Any) -> OVKRidge:
        model = OVKRidge(Gaussian(2.0) * operator, alpha=0.3, landmarks=m, fit_intercept=False, random_state=0)
        return model.fit(X, y, task=task)

    def checks(seconds: Seconds) -> list[Check]:
        return [Check("coupling at most 10 x tasks apart", seconds[LONG] / seconds[APART], 10.0)]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        errors = {
            name: float(np.mean((fit(operator).predict(new, task=which) - truth) ** 2))
            for name, operator in (("coupled", MixedEffect(0.5, d)), ("apart", Identity(d)))
        }
        better = Check("coupled error at most that of tasks apart", errors["coupled"] / errors["apart"], 1.0)
        return {"test MSE": errors}, [better]

    return Case(
        f"long form n={n} tasks={d}",
        {"n": n, "tasks": d, "landmarks": m, "alpha": 0.3},
        [Contender(LONG, lambda: fit(MixedEffect(0.5, d))), Contender(APART, lambda: fit(Identity(d)))],
        settings.pick(toy=1, quick=3, default=3, long=5),
        checks,
        scores,
    )


BENCHMARK = Benchmark("output_structure", "learning which outputs go together, and many tasks in long form", cases)
