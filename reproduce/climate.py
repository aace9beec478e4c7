"""Clustered networks of climate variables at real stations, on a map.

The slides show 125 stations of the United States with up to 12 variables, settings chosen at one station by the
Bayesian information criterion, a network at each of the others, and clusters of networks on the map. Those series are
not public in that form. This reproduction uses 35 Canadian stations with three variables: daily means of temperature,
precipitation and its logarithm. There is no ground truth. The test is whether the clusters agree with locations, which
the method does not use.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from ovk.batch import OKVAR, best_okvar, rank_average
from ovk.kernels import Gaussian, Linear
from reproduce.data import load_canadian_weather
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array

VARIABLES = ("temperature", "precipitation", "log precipitation")
#: Days of a step: weekly means reduce the noise of daily means.
DAYS, CLUSTERS, PERMUTATIONS = 7, 3, 2000
#: Degrees to the next station from which on a name is shown on the map.
ROOM = 5.0


def weekly(curves: Array) -> Array:
    """Means of weeks, (n, 52), of days (n, 365)."""
    whole = curves[:, : DAYS * (curves.shape[1] // DAYS)]
    return np.asarray(whole.reshape(len(curves), -1, DAYS).mean(axis=2))


def without_season(curve: Array) -> Array:
    """A yearly curve (weeks, d) without its mean and first two harmonics: seasons would link all variables."""
    t = 2.0 * np.pi * np.arange(len(curve)) / len(curve)
    waves = np.column_stack([np.ones_like(t), *(wave(k * t) for k in (1, 2) for wave in (np.cos, np.sin))])
    return np.asarray(curve - waves @ np.linalg.lstsq(waves, curve, rcond=None)[0])


def networks(sites: list[Array]) -> tuple[OKVAR, Array]:
    """The settings chosen at the first site, and (sites - 1, edges) directed scores of the others."""
    candidates = [OKVAR(kernel, alpha) for kernel in (Linear(), Gaussian(3.0)) for alpha in (1.0, 10.0, 100.0)]
    model, _ = best_okvar(candidates, sites[0])
    off = ~np.eye(len(VARIABLES), dtype=bool)
    scores = []
    for site in sites[1:]:
        # The sign of an effect is more informative than its size: mean derivative, not mean absolute derivative.
        J = model.fit(site).dynamics_.standard_jacobian().mean(axis=0).T
        scores.append(J[off])
    return model, np.array(scores)


def scatter(places: Array, labels: Array) -> float:
    """Mean squared distance of stations to the centre of their cluster, relative to the centre of all."""
    inside = sum(((places[labels == k] - places[labels == k].mean(axis=0)) ** 2).sum() for k in np.unique(labels))
    return float(inside / ((places - places.mean(axis=0)) ** 2).sum())


def chart(places: Array, names: Any, labels: Array, scores: Array) -> Any:
    """The map, and the mean network of each cluster."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    world, table = figure.subplots(1, 2, width_ratios=[1.7, 1.0])
    styles = (("o", "#0072B2"), ("^", "#D55E00"), ("s", "#009E73"))
    for cluster, (marker, colour) in enumerate(styles):
        own = labels == cluster
        world.plot(-places[own, 1], places[own, 0], marker, color=colour, label=f"cluster {cluster + 1}")
    gaps = np.linalg.norm(places[:, None] - places, axis=2) + np.diag(np.full(len(places), np.inf))
    for name, (north, west), nearest in zip(names, places, gaps.min(axis=1), strict=True):
        # Names of nearby stations would overlap.
        if nearest > ROOM:
            world.annotate(str(name), (-west, north), xytext=(4, 4), textcoords="offset points", fontsize=7)
    world.set(title="Which network each station has", xlabel="degrees east", ylabel="degrees north")
    world.legend(loc="upper right")
    off = ~np.eye(len(VARIABLES), dtype=bool)
    edges = [f"{VARIABLES[i]} → {VARIABLES[j]}" for i, j in np.argwhere(off)]
    for cluster, (marker, colour) in enumerate(styles):
        mean = scores[labels == cluster].mean(axis=0)
        table.plot(mean, np.arange(len(edges)) + 0.15 * (cluster - 1), marker, color=colour)
    table.axvline(0.0, color="0.7", linewidth=0.8)
    table.set_yticks(np.arange(len(edges)), edges, fontsize=8)
    table.invert_yaxis()
    table.locator_params(axis="x", nbins=5)
    table.set(title="Mean of the derivatives in each cluster", xlabel="derivative, standardised")
    return figure


@reproduction("climate", "Lim et al. 2014, climate networks (the slides' example, on public stations)")
def climate(data_home: str | Path | None = None) -> Result:
    """Clusters of networks on the map, against clusters at random."""
    loaded = load_canadian_weather(data_home=data_home)
    weeks = [weekly(curves) for curves in (loaded.data, loaded.precipitation, loaded.target)]
    sites = [without_season(site) for site in np.stack(weeks, axis=2)]
    model, scores = networks(sites)
    places, regions = np.asarray(loaded.coordinates, dtype=np.float64)[1:], np.asarray(loaded.region)[1:]
    spread = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    labels = AgglomerativeClustering(CLUSTERS).fit_predict(spread)
    found, rng = scatter(places, labels), np.random.default_rng(0)
    chance = np.array([scatter(places, rng.permutation(labels)) for _ in range(PERMUTATIONS)])
    consensus = rank_average([np.abs(square(one)) for one in scores])
    strongest = np.unravel_index(int(consensus.argmax()), consensus.shape)
    same = float(
        np.mean([np.max(np.bincount(labels[regions == name])) / np.sum(regions == name) for name in np.unique(regions)])
    )
    return Result(
        title="Climate networks of Canadian stations",
        measure="scatter of stations around the middle of their cluster, as a share of all scatter; small is good",
        data="35 Canadian stations, three variables, weekly means less the seasons",
        rows=[
            Row("scatter of clusters on the map", found, setting=f"{CLUSTERS} clusters of {len(scores)} networks"),
            Row("scatter of clusters at random", float(chance.mean()), setting=f"+- {chance.std():.3f}"),
            Row("share of random clusters with as little scatter", float((chance <= found).mean())),
            Row("mean share of a region in its largest cluster", same, setting=f"{len(np.unique(regions))} regions"),
        ],
        remarks=[
            f"Chosen at {loaded.place[0]}: {model.kernel}, alpha {model.alpha:g}.",
            f"The strongest edge of the consensus is {VARIABLES[strongest[0]]} -> {VARIABLES[strongest[1]]}.",
            "The slides' stations, twelve variables and map are not public in that form, and no number was published; "
            "series of mean years are short (52 weeks) and smooth, so that little can be learned from one of them.",
            "Coordinates are as published, and one of them is of another place.",
        ],
        figures={"map": chart(places, np.asarray(loaded.place)[1:], labels, scores)},
    )


def square(edges: Array) -> Array:
    """Scores of edges as a matrix with zeros on its diagonal."""
    d = len(VARIABLES)
    matrix = np.zeros((d, d))
    matrix[~np.eye(d, dtype=bool)] = edges
    return matrix
