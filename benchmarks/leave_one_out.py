"""Fifty alphas by leave-one-out, compared with cross-validation by scikit-learn and himalaya."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import GridSearchCV, KFold

from benchmarks.data import Array, Patients, Split, patients
from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OVKRidgeCV
from ovk.kernels import Gaussian, median_distance
from ovk.solvers.eigen import eigenpairs

OURS, GRID, HIMALAYA = "OVKRidgeCV.fit", "sklearn GridSearchCV.fit", "himalaya KernelRidgeCV.fit"
LIMIT = "limit: one eigh of the gram"
ALPHAS = np.logspace(-4, 2, 50)
#: Ratio of test errors up to which they count as equal.
EQUAL = 1.01


def cases(settings: Settings) -> Iterator[Case]:
    """Two sizes against other libraries; then smooth kernels, whose grams have low rank."""
    rows = patients(settings)
    for n in settings.pick(toy=(150,), quick=(1000,), default=(2000, 4700)):
        yield _case(n, rows, settings)
    n = settings.pick(toy=200, quick=1000, default=2000)
    split = rows.shuffled(min(n, len(rows.X)))
    yield _low_rank("low rank: 30 x the median length scale", split.X, 30 * median_distance(split.X), settings)
    plane = np.random.default_rng(0).standard_normal((n, 2))
    yield _low_rank("low rank: p=2", plane, median_distance(plane), settings)


def _ours(scale: float) -> OVKRidgeCV:
    return OVKRidgeCV(Gaussian(scale), alphas=ALPHAS, fit_intercept=False)


def _grid(scale: float, alphas: Array = ALPHAS) -> GridSearchCV:
    ridge = KernelRidge(kernel="rbf", gamma=0.5 / scale**2)
    return GridSearchCV(ridge, {"alpha": alphas}, cv=5, scoring="neg_mean_squared_error")


def _himalaya(cv: Any = 5) -> Any:
    # One alpha for all outputs, as in ovk; the kernel is precomputed, so its time does not count.
    from himalaya.kernel_ridge import KernelRidgeCV

    return KernelRidgeCV(alphas=ALPHAS, kernel="precomputed", cv=cv, solver_params={"local_alpha": False})


def _one_fold(n: int) -> list[tuple[Any, Any]]:
    """The first of five folds: as much memory as all of them."""
    return [next(KFold(5).split(np.empty(n)))]


def _case(n: int, rows: Patients, settings: Settings) -> Case:
    split = rows.shuffled(n)
    X, Y, scale = split.X, split.Y, median_distance(split.X)
    large = n > 3000
    fitted: dict[str, Any] = {}

    def keep(name: str, fit: Callable[..., Any]) -> Callable[..., Any]:
        def run(*prepared: Any) -> None:
            fitted[name] = fit(*prepared)

        return run

    def checks(seconds: Seconds) -> list[Check]:
        return [
            Check("at least 12x GridSearchCV", seconds[GRID] / seconds[OURS], 12.0, at_least=True),
            Check("at least 10x himalaya", seconds[HIMALAYA] / seconds[OURS], 10.0, at_least=True),
        ]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        shuffled = _errors(split, scale, fitted[OURS], fitted[GRID], fitted[HIMALAYA])
        result: dict[str, Any] = {
            "chosen alpha": {
                "ovk": float(fitted[OURS].alpha_),
                "sklearn": float(fitted[GRID].best_params_["alpha"]),
                "himalaya": float(fitted[HIMALAYA].best_alphas_[0]),
            },
            "test MSE, rows shuffled": shuffled,
        }
        splits = settings.pick(toy=1, quick=2, default=0 if large else 2, long=1 if large else 5)
        if splits:
            grouped = [_fit_errors(one) for one in rows.grouped(n, splits)]
            mean = {key: float(np.mean([errors[key] for errors in grouped])) for key in shuffled}
            result[f"test MSE, patients held out ({splits} splits)"] = mean
        worst = max(shuffled["ovk"] / shuffled[peer] for peer in ("sklearn", "himalaya"))
        return result, [Check("test MSE equal (to 1 %) or better", worst, EQUAL)]

    def gram() -> tuple[Array]:
        return (Gaussian(scale)(X),)

    return Case(
        f"n={n}",
        {"n": n, "d": 2, "alphas": len(ALPHAS), "length_scale": scale},
        [
            Contender(OURS, keep(OURS, lambda: _ours(scale).fit(X, Y))),
            Contender(
                GRID,
                keep(GRID, lambda: _grid(scale).fit(X, Y)),
                light=lambda: _grid(scale, ALPHAS[:1]).fit(X, Y),
            ),
            Contender(
                HIMALAYA,
                keep(HIMALAYA, lambda K: _himalaya().fit(K, Y)),
                gram,
                light=lambda K: _himalaya(_one_fold(n)).fit(K, Y),
            ),
            Contender(LIMIT, np.linalg.eigh, gram),
        ],
        settings.pick(toy=1, quick=3, default=1 if large else 3, long=3 if large else 8),
        checks,
        scores,
    )


def _errors(split: Split, scale: float, ours: Any, grid: Any, himalaya: Any) -> dict[str, float]:
    cross = Gaussian(scale)(split.X_test, split.X)
    return {
        "ovk": split.mse(ours.predict(split.X_test)),
        "sklearn": split.mse(grid.predict(split.X_test)),
        "himalaya": split.mse(himalaya.predict(cross)),
        "the mean": split.mse(np.zeros_like(split.Y_test)),
    }


def _fit_errors(split: Split) -> dict[str, float]:
    scale = median_distance(split.X)
    G = Gaussian(scale)(split.X)
    models = (
        _ours(scale).fit(split.X, split.Y),
        _grid(scale).fit(split.X, split.Y),
        _himalaya().fit(G, split.Y),
    )
    return _errors(split, scale, *models)


def _low_rank(name: str, X: Array, scale: float, settings: Settings) -> Case:
    tol = 1e-8 * float(ALPHAS.min())  # as OVKRidgeCV does with its default tolerance
    pivoted, full = "eigenpairs, pivoted Cholesky", "eigenpairs, full"

    def gram() -> tuple[Array]:
        return (Gaussian(scale)(X),)

    def scores() -> tuple[dict[str, Any], list[Check]]:
        pairs = eigenpairs(*gram(), tol)
        route = Check("the pivoted route is taken (0: full eigh)", float(not pairs.full), 1.0, at_least=True)
        return {"numerical rank": len(pairs.g), "of": len(X), "tolerance (trace)": tol}, [route]

    return Case(
        name,
        {"n": len(X), "p": X.shape[1], "length_scale": scale},
        [Contender(pivoted, lambda G: eigenpairs(G, tol), gram), Contender(full, eigenpairs, gram)],
        settings.pick(toy=1, quick=5, default=5, long=12),
        lambda seconds: [Check("faster than the full route", seconds[full] / seconds[pivoted], 1.0, at_least=True)],
        scores,
    )


BENCHMARK = Benchmark("leave_one_out", "fifty alphas on the Parkinson rows, two outputs", cases)
