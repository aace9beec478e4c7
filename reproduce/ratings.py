"""Collaborative filtering: ratings as outputs, one for each user, items as inputs, the operator on users learned.

The MovKL paper mentions it as future work. Ratings are generated: a rating is a smooth function of the item's features,
with a part for the user's group and a part for the user. Each user rates a few items.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ovk import OutputKernelRidge, OVKRidgeCV
from ovk.kernels import Gaussian
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, track

ALPHAS = np.logspace(-2, 1, 7)
#: Candidates for the factorisation, chosen on a fifth of the ratings.
RANKS, PENALTIES = (1, 2, 3, 5), (0.1, 0.3, 1.0, 3.0)


def make_ratings(items: int, users: int, groups: int, rng: np.random.Generator) -> tuple[Array, Array]:
    """Features of items (items, 4), and ratings of all users (items, users).

    >>> X, Y = make_ratings(20, 6, 2, np.random.default_rng(0))
    >>> X.shape, Y.shape
    ((20, 4), (20, 6))
    """
    X = rng.uniform(-1.0, 1.0, (items, 4))

    def tastes(count: int) -> Array:
        waves = rng.standard_normal((4, 25)) * 1.5
        values: Array = (
            np.cos(X @ waves + rng.uniform(0, 2 * np.pi, 25)) @ rng.standard_normal((25, count)) * (2 / 25) ** 0.5
        )
        return values

    member = rng.integers(0, groups, users)
    likes = tastes(groups)[:, member] + 0.4 * tastes(users)
    return X, likes + 0.5 * rng.standard_normal(users) + 0.2 * rng.standard_normal(likes.shape)


def factorise(Y: Array, rank: int, penalty: float, rounds: int = 40) -> Array:
    """Ratings (items, users), nan where unknown, as mean + user + item + U V', by alternating ridge regressions."""
    rng = np.random.default_rng(0)
    seen = ~np.isnan(Y)
    mean = float(Y[seen].mean())
    m, d = Y.shape
    # A column of ones on either side represents the offsets of the other side.
    U = np.column_stack([np.ones(m), np.zeros(m), 0.1 * rng.standard_normal((m, rank))])
    V = np.column_stack([np.zeros(d), np.ones(d), 0.1 * rng.standard_normal((d, rank))])
    R = np.where(seen, Y - mean, 0.0)
    for _ in range(rounds):
        for left, right, ratings, known, fixed in ((U, V, R, seen, 0), (V, U, R.T, seen.T, 1)):
            free = np.arange(rank + 2) != fixed
            for i in range(len(left)):
                A = right[known[i]]
                target = ratings[i, known[i]] - A[:, fixed]
                B = A[:, free]
                left[i, free] = np.linalg.solve(B.T @ B + penalty * np.eye(rank + 1), B.T @ target)
    return np.asarray(mean + U @ V.T)


def factorised(Y: Array, rng: np.random.Generator) -> Array:
    """The same with rank and penalty chosen on a fifth of the ratings."""
    held = ~np.isnan(Y) & (rng.uniform(size=Y.shape) < 0.2)
    rest = np.where(held, np.nan, Y)
    errors = {
        (rank, penalty): float(((factorise(rest, rank, penalty, 15) - Y)[held] ** 2).mean())
        for rank in RANKS
        for penalty in PENALTIES
    }
    return factorise(Y, *min(errors, key=lambda pair: errors[pair]))


@reproduction("ratings", "Collaborative filtering, named as future work by Kadri et al. 2012")
def ratings(
    data_home: str | Path | None = None, repeats: int = 3, items: int = 100, users: int = 24, rated: int = 12
) -> Result:
    """Errors for unknown ratings, of items with and without other ratings."""
    names = ["users apart", "users coupled evenly", "operator on users learned", "matrix factorisation"]
    found: dict[tuple[str, str], list[float]] = {}
    for repeat in track(range(repeats), "ratings"):
        rng = np.random.default_rng(repeat)
        X, Y = make_ratings(items + 40, users, 3, rng)
        seen = np.zeros((items, users), dtype=bool)
        for user in range(users):
            seen[rng.choice(items, rated, replace=False), user] = True
        known = np.where(seen, Y[:items], np.nan)
        kernel = Gaussian(1.0)
        models = [
            OVKRidgeCV(kernel, ALPHAS, omegas=[0.0], leave_out="entry", fit_intercept=True),
            OVKRidgeCV(kernel, ALPHAS, omegas=[0.2, 0.5, 0.8, 0.95], leave_out="entry", fit_intercept=True),
            OutputKernelRidge(kernel, ALPHAS, leave_out="entry", fit_intercept=True),
        ]
        guesses = dict(zip(names, (model.fit(X[:items], known).predict(X) for model in models), strict=False))
        guesses[names[3]] = np.vstack([factorised(known, rng), np.tile(np.nanmean(known, axis=0), (40, 1))])
        for name, F in guesses.items():
            error = (F - Y) ** 2
            found.setdefault((name, "items that others rated"), []).append(float(error[:items][~seen].mean()))
            found.setdefault((name, "items that nobody rated"), []).append(float(error[items:].mean()))
    rows = [
        Row(f"{what}: {name}", float(np.sqrt(np.mean(errors))), setting=f"{repeats} draws")
        for (name, what), errors in sorted(found.items(), key=lambda pair: pair[0][1])
    ]
    return Result(
        title="Collaborative filtering by an operator on users",
        measure="root mean squared error of ratings, small is good (their noise is 0.2)",
        data=f"generated: {items} items with 4 features, {users} users of 3 groups, {rated} ratings by each",
        rows=rows,
        remarks=[
            "Ratings are outputs with gaps, one output for each user; alpha and omega by leaving out single ratings.",
            "Matrix factorisation (alternating ridge regressions with offsets; rank and penalty on a fifth of the "
            "ratings) does not see what items are like; for items that nobody rated it has the mean of each user.",
        ],
    )
