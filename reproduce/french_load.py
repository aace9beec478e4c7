"""Electric load of the regions of France, predicted day by day: the motivating example of the projected forecaster.

Each day at 20:00 the load of 12 regions is predicted from the loads of the day and the week before, temperatures and
the calendar, then learned. No step uses later days: inputs and outputs are standardised by earlier days, width and
ridge are chosen by the progressive error on the first 500 days, and all results are for the days after them.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import gammaln

from ovk.evaluation import ACI, Conformal, ConformalPID, ProgressiveResult, Regions, StronglyAdaptive, progressive
from ovk.features import KORS, Nystrom
from ovk.kernels import Gaussian
from ovk.online import PKAWV
from ovk.operators import Identity
from reproduce.data import load_french_load
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, track

#: Days on which the parameters are chosen, and days of warm-up for the scaling.
CHOOSING, WARM_UP = 500, 100
LENGTHS, ALPHAS = (40.0, 80.0), (0.003, 0.01, 0.03)
COVERAGE = 0.9
METHODS: tuple[type[Conformal], ...] = (ACI, ConformalPID, StronglyAdaptive)
#: Memory of the covariance of residuals, in days.
MEMORY = 200
#: The first lockdown of 2020, an abrupt change.
LOCKDOWN = (np.datetime64("2020-03-17"), np.datetime64("2020-05-11"))
SHOWN = "Ile_de_Fra"
COLOURS = ("#0072B2", "#000000", "#009E73", "#D55E00")


def forecaster(length_scale: float, alpha: float) -> PKAWV:
    """At most 300 days as a dictionary, chosen by KORS."""
    features = Nystrom(KORS(mu=1e-4), budget=300)
    return PKAWV(Gaussian(length_scale) * Identity(), alpha=alpha, features=features, random_state=0)


def predicted(model: PKAWV, X: Array, Y: Array, intervals: Conformal | None = None) -> ProgressiveResult:
    """Daily predictions, each made before the day is learned."""
    return progressive(
        model, X, Y, scale="running", untested=WARM_UP, baselines=[], intervals=intervals, progress=False
    )


def choose(X: Array, Y: Array) -> tuple[float, float]:
    """Width and ridge with the least progressive error on these days."""

    def error(candidate: tuple[float, float]) -> float:
        return float(predicted(forecaster(*candidate), X, Y).mse.mean())

    return min(product(LENGTHS, ALPHAS), key=error)


def rmse(F: Array, Y: Array) -> float:
    """Root mean squared error over the days after the choice."""
    return float(np.sqrt(np.mean((F - Y)[CHOOSING:] ** 2)))


def mape(F: Array, Y: Array) -> float:
    """Mean absolute error in percent of the load, over the same days."""
    return float(100 * np.mean(np.abs(F - Y)[CHOOSING:] / Y[CHOOSING:]))


@reproduction("french_load", "Gaillard 2019, motivating example: electricity consumption (no number published)")
def french_load(data_home: str | Path | None = None, days: int | None = None) -> Result:
    """Progressive forecast of 12 regional loads with intervals, against last week's value and published forecasts."""
    bunch = load_french_load(data_home=data_home)
    X, Y, national = bunch.data[:days], bunch.target[:days], bunch.national_load[:days, None]
    length_scale, alpha = choose(X[:CHOOSING], Y[:CHOOSING])
    model = forecaster(length_scale, alpha)
    result = predicted(model, X, Y, ACI(COVERAGE))
    F = np.asarray(result.predictions)
    lags = {name: i for i, name in enumerate(bunch.feature_names)}
    week, day = (X[:, [lags[f"{name}{lag}"] for name in bunch.target_names]] for lag in (".336", ".48"))
    setting = f"length {length_scale:g}, alpha = {alpha:g}, {model.n_features_} days as dictionary"
    forecasts = {"PKAWV": F, "yesterday's load": day, "last week's load": week}
    rows = []
    for name, G in forecasts.items():
        rows.append(Row(f"regions, MW: {name}", rmse(G, Y), setting=f"{mape(G, Y):.2f}% off" + _and(name, setting)))
    operator = {
        "grid operator, one day ahead": bunch.national_forecast[:days, :1],
        "grid operator, within the day": bunch.national_forecast[:days, 1:],
    }
    for name, G in {**{name: G.sum(axis=1, keepdims=True) for name, G in forecasts.items()}, **operator}.items():
        number, off = rmse(G, national), f"{mape(G, national):.2f}% off"
        ours, theirs = (None, number) if name in operator else (number, None)
        rows.append(Row(f"nation, MW: {name}", ours, theirs, off))
    time = bunch.time[:days].astype("datetime64[D]")
    locked = (time >= LOCKDOWN[0]) & (time < LOCKDOWN[1])
    for region, Method in track(list(product(("each", "box", "ellipsoid"), METHODS)), "french_load, intervals"):
        regions = Method(COVERAGE, region, memory=MEMORY).regions_then_learn(F[WARM_UP:], Y[WARM_UP:])
        rows.append(_interval_row(f"{region}: {Method.__name__}", regions, Y, locked))
    return Result(
        title="Electric load of the regions of France, day by day",
        measure="root mean squared error in MW, small is good; coverage of intervals, 0.9 was asked for",
        data=f"load at 20:00 of 12 regions, {len(Y)} days from {time[0]} to {time[-1]}; after the first {CHOOSING}",
        rows=rows,
        remarks=[
            "Every day is predicted before it is learned; scaling, width and ridge use earlier days alone. The "
            "temperatures of the day itself are among the inputs, as published with the data: a forecast in service "
            "has forecasts of them.",
            "The grid operator's forecasts are of the nation: beside them stands the sum of the 12 predictions. It "
            "knows more than these inputs, such as holidays, which the data leave out together with their days.",
            "each: an interval for each region, coverage the mean of 12; box, ellipsoid: all 12 regions at once; "
            "the width given for the ellipsoid is that of a box of the same volume. "
            "Lockdown: 17 March to 10 May 2020.",
        ],
        figures=_figures(result, Y, time, forecasts, bunch) if days is None else {},
    )


def _and(name: str, setting: str) -> str:
    return f"; {setting}" if name == "PKAWV" else ""


def _interval_row(name: str, regions: Regions, Y: Array, locked: Array) -> Row:
    later = np.arange(WARM_UP, len(Y)) >= CHOOSING
    width = regions.width[later]
    finite = np.isfinite(width).all(axis=1)
    loads = Y[CHOOSING:][finite]
    if regions.scatter is None:
        part = 100 * np.mean(width[finite] / loads)
    else:
        # The box with the volume of the ellipsoid; its bounding box is far larger.
        d = Y.shape[1]
        ball = 0.5 * d * np.log(np.pi) - gammaln(0.5 * d + 1)
        log_det = np.linalg.slogdet(regions.scatter[later][finite])[1]
        with np.errstate(divide="ignore"):
            radius = np.log(np.maximum(regions.radius[later][finite, 0], 0.0))
        volume = ball + d * radius + 0.5 * log_det
        part = 100 * np.mean(np.exp((volume - np.log(loads).sum(axis=1)) / d))
    text = f"mean width {part:.1f}% of the load, {np.mean(~finite):.1%} of days without bounds"
    if locked.any():
        text += f"; lockdown {np.mean(regions.covered[locked[WARM_UP:]]):.2f}"
    return Row(f"coverage, {name}", float(np.mean(regions.covered[later])), setting=text)


def _figures(
    result: ProgressiveResult, Y: Array, time: Array, forecasts: dict[str, Array], bunch: Any
) -> dict[str, Any]:
    """The days around the lockdown with intervals, errors over the years, and coverage."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    from ovk.plotting import IntervalDisplay

    assert result.intervals is not None
    assert result.intervals.regions is not None
    days = Figure(figsize=(8, 4), layout="constrained")
    ax = days.subplots()
    q = list(bunch.target_names).index(SHOWN)
    shown = (time >= np.datetime64("2020-02-01")) & (time < np.datetime64("2020-07-01"))
    found = result.intervals.regions
    when = time[shown]
    ax.fill_between(
        when,
        found.lower[shown, q],
        found.upper[shown, q],
        color="#BBD7EA",
        linewidth=0,
        label="90% interval (ACI; gaps: no bounds)",
    )
    ax.plot(when, found.predictions[shown, q], color="#0072B2", linewidth=1.8, label="PKAWV")
    ax.plot(when, Y[shown, q], linestyle="none", marker="o", markersize=3, color="#000000", label="load")
    first, last = (day.astype(float) for day in LOCKDOWN)  # matplotlib counts days since 1970
    ax.axvspan(first, last, color="0.93", zorder=0, label="lockdown")
    ax.set_ylabel("MW")
    ax.set_title("Ile-de-France, 20:00")
    ax.legend(fontsize=8, ncols=4, loc="upper right")
    ax.set_ylim(top=1.12 * float(Y[shown, q].max()))
    errors = Figure(figsize=(8, 4), layout="constrained")
    ax = errors.subplots()
    national = bunch.national_load
    lines = {name: G.sum(axis=1) for name, G in forecasts.items()}
    lines["grid operator, one day ahead"] = bunch.national_forecast[:, 0]
    styles: tuple[dict[str, Any], ...] = (
        {"linewidth": 2.2},
        {"linestyle": ":"},
        {"linestyle": "-."},
        {"linestyle": "--"},
    )
    for (name, line), style, colour in zip(lines.items(), styles, COLOURS, strict=True):
        off = 100 * np.abs(line - national) / national
        means = np.convolve(off[WARM_UP:], np.ones(90) / 90, mode="valid")
        ax.plot(time[WARM_UP + 89 :], means, color=colour, label=name, **style)
    ax.axvline(time[CHOOSING], color="0.5", linewidth=0.8)
    ax.annotate("parameters chosen", (time[CHOOSING], 0.2), xytext=(4, 0), textcoords="offset points")
    ax.set_ylim(bottom=0)
    ax.set_ylabel("national load, % off, over 90 days")
    ax.legend(fontsize=8, ncols=2)
    ax.grid(True, color="0.9", linewidth=0.6)
    coverage = IntervalDisplay.from_result(result, window=100)
    return {"lockdown": days, "errors": errors, "coverage": coverage.figure_}
