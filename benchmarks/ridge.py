"""One ridge regression compared with scikit-learn's KernelRidge."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import lapack
from sklearn.kernel_ridge import KernelRidge

from benchmarks.data import Patients, Split, patients
from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OVKRidge
from ovk.kernels import Gaussian, median_distance
from ovk.operators import Identity, MixedEffect

OURS, PEER, LIMIT = "OVKRidge.fit", "sklearn KernelRidge.fit", "limit: gram + Cholesky + solve"
ALPHA = 0.1


def cases(settings: Settings) -> Iterator[Case]:
    """An operator with one distinct eigenvalue, and one with two."""
    rows = patients(settings)
    for name, operator, distinct in (("Identity", Identity(), 1), ("MixedEffect(0.5)", MixedEffect(0.5), 2)):
        yield _case(name, operator, distinct, rows, settings)


def _ours(operator: Any, scale: float) -> OVKRidge:
    return OVKRidge(Gaussian(scale) * operator, alpha=ALPHA, fit_intercept=False)


def _peer(scale: float) -> KernelRidge:
    return KernelRidge(kernel="rbf", gamma=0.5 / scale**2, alpha=ALPHA)


def bare(split: Split, scale: float) -> None:
    """One gram, one factorisation, one solve: the cost without a library."""
    A = Gaussian(scale)(split.X)
    A[np.diag_indices_from(A)] += ALPHA
    L, _ = lapack.dpotrf(A.T, lower=1, clean=0, overwrite_a=1)
    lapack.dpotrs(L, split.Y, lower=1)


def _case(name: str, operator: Any, distinct: int, rows: Patients, settings: Settings) -> Case:
    n = settings.pick(toy=150, quick=1500, default=4700)
    split = rows.shuffled(n)
    scale = median_distance(split.X)

    def checks(seconds: Seconds) -> list[Check]:
        target = f"time at most 1.3 x {distinct} distinct eigenvalue(s) x the peer's"
        return [Check(target, seconds[OURS] / seconds[PEER], 1.3 * distinct)]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        shuffled = _errors(operator, split)
        splits = settings.pick(toy=1, quick=2, default=5, long=10)
        grouped = [_errors(operator, one) for one in rows.grouped(n, splits)]
        mean = {key: float(np.mean([errors[key] for errors in grouped])) for key in shuffled}
        return {
            "test MSE, rows shuffled": shuffled,
            f"test MSE, patients held out ({splits} splits)": mean,
        }, []

    return Case(
        name,
        {"n": n, "d": 2, "alpha": ALPHA, "length_scale": scale, "operator": name},
        [
            Contender(OURS, lambda: _ours(operator, scale).fit(split.X, split.Y)),
            Contender(PEER, lambda: _peer(scale).fit(split.X, split.Y)),
            Contender(LIMIT, lambda: bare(split, scale)),
        ],
        settings.pick(toy=1, quick=5, default=7, long=15),
        checks,
        scores,
    )


def _errors(operator: Any, split: Split) -> dict[str, float]:
    scale = median_distance(split.X)
    models = {"ovk": _ours(operator, scale), "sklearn": _peer(scale)}
    errors = {key: split.mse(model.fit(split.X, split.Y).predict(split.X_test)) for key, model in models.items()}
    return {**errors, "the mean": split.mse(np.zeros_like(split.Y_test))}


BENCHMARK = Benchmark("ridge", "one alpha on the Parkinson rows, two outputs", cases)
