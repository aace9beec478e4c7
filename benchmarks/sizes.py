"""Tables at sizes up to 20,000 rows: errors, intervals and times of the defaults, compared with strong alternatives.

The sets of `benchmarks.tables`, one split each. `OVKRidgeCV()` should be best, or within 2% of the best alternative.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.harness import Benchmark, Case, Check, Contender, Settings
from benchmarks.rivals.regressors import STRONG
from benchmarks.tables import FURTHER_TABLES, TABLES, Array, Part, Table, made_up, splits, unseen_tables
from ovk import OVKRidgeCV

OURS, LEVEL = "OVKRidgeCV()", 0.9
#: Training rows, and the share of them that a set must have.
SIZES, ENOUGH = (1000, 5000, 20_000), 0.75
#: Largest error, relative to the best alternative, that counts as equal.
EQUAL = 1.02
#: Bins of the predictions, in which coverage is measured too.
BINS = 5

Fit = Callable[[Array, Array, Any], Any]


def pairs(settings: Settings) -> Iterator[tuple[Table, int]]:
    """Sets and numbers of rows; the smallest size takes all sets."""
    tables = list(made_up()) if settings.size == "toy" else _tables()
    for table in tables:
        for size in SIZES[: 1 if settings.size == "toy" else None]:
            if size == SIZES[0] or (0.8 * len(table.X) >= ENOUGH * size and table.groups is None):
                yield table, size


def _tables() -> Iterator[Table]:
    yield from (load() for load in TABLES.values())
    yield from unseen_tables()
    for load in FURTHER_TABLES.values():
        try:
            yield load()
        except ImportError:  # of the package that holds the set
            continue


def rivals(settings: Settings, rows: int) -> dict[str, Fit]:
    """Alternatives that are installed; the largest size has no kernel matrix in double precision."""
    found = {name: fit for name, (package, fit) in STRONG.items() if find_spec(package) is not None}
    if settings.size == "toy":
        found = {"ExtraTrees": found["ExtraTrees"]}
    return {name: fit for name, fit in found.items() if rows <= SIZES[1] or not name.startswith("KernelRidge")}


def measured(part: Part, fit: Fit) -> tuple[dict[str, float], Any]:
    """Error and processor seconds of a fit, and the model."""
    start = time.process_time()
    model = fit(part.X, part.Y, part.groups)
    seconds = time.process_time() - start
    predicted = np.asarray(model.predict(part.X_test)).reshape(part.Y_test.shape)
    return {"aRRMSE": part.arrmse(predicted), "cpu seconds": seconds}, model


def intervals(part: Part, model: OVKRidgeCV) -> dict[str, float]:
    """Coverage of 90% intervals, mean and least over bins of the predictions; score relative to the deviations."""
    region = model.predict_interval(part.X_test, LEVEL, groups=part.groups)
    inside = region.contains(part.Y_test)
    order = np.argsort(region.predictions, axis=0)
    bins = [np.take_along_axis(inside, rows, axis=0).mean() for rows in np.array_split(order, BINS)]
    outside = np.maximum(region.lower - part.Y_test, 0.0) + np.maximum(part.Y_test - region.upper, 0.0)
    score = (region.width + 2.0 / (1.0 - LEVEL) * outside).mean(axis=0)
    deviation = part.Y.std(axis=0)
    known = deviation > 0
    return {
        "coverage": float(inside.mean()),
        "least of 5 bins": float(min(bins)),
        "interval score": float((score[known] / deviation[known]).mean()),
    }


def ours(X: Array, Y: Array, groups: Any) -> OVKRidgeCV:
    """`OVKRidgeCV()`."""
    return OVKRidgeCV().fit(X, Y, groups=groups)


def cases(settings: Settings) -> Iterator[Case]:
    """A case for each set and size; the last one also has the scores of all."""
    errors: dict[tuple[str, int], dict[str, float]] = {}
    regions: dict[tuple[str, int], dict[str, float]] = {}
    every = list(pairs(settings))
    for k, (table, size) in enumerate(every, start=1):
        yield _case(table, size, splits(table, 1, size)[0], settings, errors, regions, last=k == len(every))


def _case(table: Table, size: int, part: Part, settings: Settings, errors: Any, regions: Any, *, last: bool) -> Case:
    fits: dict[str, Fit] = {OURS: ours, **rivals(settings, size)}
    found = errors.setdefault((table.name, size), {})

    def learn(name: str) -> None:
        scores, model = measured(part, fits[name])
        found[name] = scores["aRRMSE"]
        if name == OURS:
            regions[table.name, size].update(intervals(part, model))

    contenders = [Contender(name, lambda name=name: learn(name)) for name in fits]
    described = {"rows": len(part.X), "inputs": part.X.shape[1], "outputs": part.Y.shape[1]}
    own = {"aRRMSE": found, "intervals": regions.setdefault((table.name, size), {})}

    def scores() -> tuple[dict[str, Any], list[Check]]:
        best = min(error for name, error in found.items() if name != OURS)
        checks = [Check("error relative to the best alternative", found[OURS] / best, 1.1)]
        if not last:
            return own, checks
        means, further = summary(errors, regions)
        return {**own, **means}, checks + further

    return Case(f"{table.name}, {size:,}", described, contenders, 1, scores=scores)


def summary(
    errors: dict[tuple[str, int], dict[str, float]], regions: dict[tuple[str, int], dict[str, float]]
) -> tuple[dict[str, Any], list[Check]]:
    """Geometric means at each size, ratios to the best alternative, and coverage."""
    others = {pair: min(e for name, e in each.items() if name != OURS) for pair, each in errors.items()}
    ratios = {pair: each[OURS] / others[pair] for pair, each in errors.items()}
    means: dict[str, Any] = {}
    for size in sorted({size for _, size in errors}):
        some = [each for (_, rows), each in errors.items() if rows == size]
        names = [name for name in some[0] if all(name in each for each in some)]
        means[f"{size:,}"] = {name: float(np.exp(np.mean([np.log(e[name]) for e in some]))) for name in names}
    worst = max(ratios, key=lambda pair: ratios[pair])
    coverage = [each["coverage"] for each in regions.values()]
    equal = float(np.mean([ratio <= EQUAL for ratio in ratios.values()]))
    scores = {
        "geometric mean of aRRMSE": means,
        "pairs": len(ratios),
        "worst": {f"{worst[0]}, {worst[1]:,}": ratios[worst]},
        "least of 5 bins, mean": float(np.mean([each["least of 5 bins"] for each in regions.values()])),
    }
    return scores, [
        Check("share of pairs best or within 2%", equal, 0.8, at_least=True),
        Check("largest ratio to the best alternative", ratios[worst], 1.1),
        Check("mean coverage of 90% intervals, from below", float(np.mean(coverage)), 0.88, at_least=True),
        Check("mean coverage of 90% intervals, from above", float(np.mean(coverage)), 0.92),
    ]


BENCHMARK = Benchmark("sizes", "tables of several sizes, with no arguments", cases)
