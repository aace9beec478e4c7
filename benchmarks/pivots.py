"""Randomly pivoted Cholesky, compared with uniform landmarks and as a preconditioner with plain Nystrom and none.

The choice matters for uneven inputs, where a few regions contain most of the rows. For standard normal inputs, uniform
points precondition as well as any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.data import Array
from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import OVKRidge
from ovk.batch.operator_learning.exact import TiledRidge
from ovk.features import NystromMap, RPCholesky
from ovk.kernels import Gaussian, ScalarKernel, median_distance
from ovk.solvers.iterative import LowRankPreconditioner
from reproduce.data import load_codrna, load_elec2, load_household, load_parkinsons, load_wine

PIVOTED, UNIFORM = "OVKRidge, landmarks by RPCholesky", "OVKRidge, uniform landmarks"
SOLVE, PRODUCT = "TiledRidge: pivots and iterations", "limit: one product with the matrix"
DRAWS, ALPHA = 5, 0.1
#: Minutes of a window of household power, and between the starts of two windows.
WINDOW, APART = 20, 3
#: Relative residual, maximum iterations for it, and iterations after which others are stopped.
TOLERANCE, ALLOWED, PATIENCE = 1e-6, 60, 240

Rows = tuple[Array, Array]


def windows(n: int) -> Rows:
    """Household power in `WINDOW` consecutive minutes, and in the following minute: (n, WINDOW) and (n,)."""
    power = load_household(n_rows=(n + WINDOW) * APART * 2).target[:, 0]
    every = np.lib.stride_tricks.sliding_window_view(power, WINDOW + 1)[::APART]
    whole = every[np.isfinite(every).all(axis=1)]
    some = whole[np.random.default_rng(0).permutation(len(whole))[:n]]
    return some[:, :-1], some[:, -1]


def even(n: int) -> Rows:
    """Standard normal inputs with the same number of columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, WINDOW))
    return X, np.sin(X[:, 0]) + rng.standard_normal(n)


def tables(settings: Settings) -> Iterator[tuple[str, Rows]]:
    """Five public tables; at toy size a synthetic one."""
    if settings.size == "toy":
        yield "made up", even(400)
        return
    loaders: dict[str, Callable[[], Any]] = {
        "parkinsons": load_parkinsons,
        "wine": load_wine,
        "codrna": load_codrna,
        "elec2": load_elec2,
    }
    for name, load in loaders.items():
        bunch = load()
        yield name, (np.asarray(bunch.data, dtype=np.float64), np.asarray(bunch.target))
    yield "household", windows(20_000)


def standardised(A: Array) -> Array:
    """Columns of mean 0 and variance 1."""
    spread = A.std(axis=0)
    return np.asarray((A - A.mean(axis=0)) / np.where(spread > 0, spread, 1.0))


def numbers(y: Any) -> Array:
    """Outputs (n, d); the second of two classes as 1, the first as 0."""
    if y.dtype.kind not in "fiu":
        y = y == np.unique(y)[-1]
    return np.asarray(y, dtype=np.float64).reshape(len(y), -1)


def landmarks(name: str, rows: Rows, settings: Settings) -> Case:
    """Both kinds of landmarks on one table: unexplained part of the kernel, test errors, and time."""
    most, m = settings.pick(toy=200, quick=2000, default=8000), settings.pick(toy=20, quick=200, default=400)
    X, Y = standardised(rows[0]), standardised(numbers(rows[1]))
    order = np.random.default_rng(0).permutation(len(X))
    n = min(most, 3 * len(X) // 4)
    train, test = order[:n], order[n : n + n // 3]
    kernel = Gaussian(median_distance(X[train]))
    chosen: dict[str, Any] = {PIVOTED: RPCholesky(m, tol=0.0), UNIFORM: m}

    def fit(which: str, draw: int = 0) -> OVKRidge:
        return OVKRidge(kernel, ALPHA, landmarks=chosen[which], random_state=draw).fit(X[train], Y[train])

    def checks(seconds: Seconds) -> list[Check]:
        return [Check("at most twice the time of uniform landmarks", seconds[PIVOTED] / seconds[UNIFORM], 2.0)]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        left: dict[str, float] = {}
        errors: dict[str, float] = {}
        for which in chosen:
            models = [fit(which, draw) for draw in range(DRAWS)]
            left[which] = float(np.mean([unexplained(kernel, model.X_fit_, X[train]) for model in models]))
            errors[which] = float(np.mean([np.mean((model.predict(X[test]) - Y[test]) ** 2) for model in models]))
        return {"share of the trace left": left, "test MSE": errors}, [
            Check("trace left at most that of uniform landmarks", left[PIVOTED] / left[UNIFORM], 1.0),
            Check("test MSE at most 1.02 of theirs", errors[PIVOTED] / errors[UNIFORM], 1.02),
        ]

    return Case(
        f"landmarks, {name}",
        {"n": n, "p": X.shape[1], "landmarks": m, "draws": DRAWS, "alpha": ALPHA},
        [Contender(which, lambda which=which: fit(which)) for which in chosen],
        settings.pick(toy=1, quick=3, default=3, long=7),
        checks,
        scores,
    )


def unexplained(kernel: ScalarKernel, points: Array, X: Array) -> float:
    """tr(K - K_XD K_DD^-1 K_DX) / tr(K)."""
    phi = NystromMap.from_points(kernel, points).transform(X)
    return 1.0 - float(np.sum(phi**2) / kernel.diag(X).sum())


def iterations(
    kernel: ScalarKernel, X: Array, y: Array, alpha: float, inverses: dict[str, Callable[[Array], Array]]
) -> dict[str, float]:
    """Conjugate gradient iterations with each preconditioner, at most `PATIENCE` + 1, run simultaneously.

    They share the tiles of the kernel, which are nearly all of the cost.
    """
    norm = float(np.linalg.norm(y))
    R = {name: y.copy() for name in inverses}
    P = {name: inverse(y) for name, inverse in inverses.items()}
    energy = {name: float(np.vdot(y, P[name])) for name in inverses}
    found = dict.fromkeys(inverses, float(PATIENCE + 1))
    for step in range(1, PATIENCE + 1):
        going = [name for name in inverses if found[name] > PATIENCE]
        if not going:
            break
        directions = np.hstack([P[name] for name in going])
        images = kernel.product(X, X, directions) + alpha * directions
        for name, image in zip(going, images.T[:, :, None], strict=True):
            R[name] -= energy[name] / float(np.vdot(P[name], image)) * image
            if np.linalg.norm(R[name]) <= TOLERANCE * norm:
                found[name] = float(step)
            Z = inverses[name](R[name])
            previous, energy[name] = energy[name], float(np.vdot(R[name], Z))
            P[name] = Z + energy[name] / previous * P[name]
    return found


def preconditioners(name: str, rows: Rows, rank: int, settings: Settings) -> Case:
    """Matrix-free kernel ridge regression, to a relative residual of `TOLERANCE`."""
    X, Y = standardised(rows[0]), standardised(numbers(rows[1]))
    n = len(X)
    kernel, alpha = Gaussian(median_distance(X)), 1e-6 * n

    def ours() -> TiledRidge:
        made = TiledRidge.of(kernel, X, alpha, rank, seed=0)
        return TiledRidge(kernel, X, alpha, made.precondition, tol=TOLERANCE)

    def scores() -> tuple[dict[str, Any], list[Check]]:
        uniform = X[np.random.default_rng(1).choice(n, rank, replace=False)]
        inverses = {
            "randomly pivoted Cholesky": ours().precondition,
            "uniform Nystrom": LowRankPreconditioner(NystromMap.from_points(kernel, uniform).transform(X))(alpha),
            "none": np.copy,
        }
        found = iterations(kernel, X, Y, alpha, inverses)
        pivoted, _, none = found.values()
        return {f"iterations ({PATIENCE + 1}: more)": found}, [
            Check(f"at most {ALLOWED} iterations", pivoted, ALLOWED),
            Check("without a preconditioner several times as many", none / pivoted, 3.0, at_least=True),
        ]

    return Case(
        f"preconditioner, {name}",
        {"n": n, "p": X.shape[1], "rank": rank, "alpha": alpha, "length_scale": kernel.length_scale},
        [
            Contender(SOLVE, lambda: ours().solve(Y), light=lambda: TiledRidge.of(kernel, X, alpha, rank, 0)),
            Contender(PRODUCT, lambda: kernel.product(X, X, Y)),
        ],
        1,
        scores=scores,
    )


def cases(settings: Settings) -> Iterator[Case]:
    """Landmarks on every table, then the preconditioner on uneven and on even inputs."""
    for name, rows in tables(settings):
        yield landmarks(name, rows, settings)
    n = settings.pick(toy=300, quick=4000, default=8000, long=50_000)
    rank = settings.pick(toy=60, quick=400, default=800, long=1000)
    if settings.size != "toy":
        yield preconditioners("windows of a household's power", windows(n), rank, settings)
    yield preconditioners("standard normal inputs", even(n), rank, settings)


BENCHMARK = Benchmark("pivots", "randomly pivoted Cholesky, landmarks and preconditioner", cases)
