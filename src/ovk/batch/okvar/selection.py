"""Selection of OKVAR settings, and networks averaged over many fits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from ovk.base import Array, check_choice, check_int, in_interval, track
from ovk.batch.okvar.model import OKVAR
from ovk.batch.okvar.networks import Network, choose, off_diagonal, rank_average
from ovk.batch.okvar.regression import TARGETS
from ovk.batch.okvar.series import TimeSeries, read_series

#: Steps ahead at which `best_okvar` compares forecasts.
FORECAST_STEPS = 4


def best_okvar(
    models: Sequence[OKVAR], X: Any, *, series: Any = None, times: Any = None, criterion: str = "bic"
) -> tuple[OKVAR, Array]:
    """The best of several settings, fitted to all series, and the criterion of each.

    All criteria measure predictions; the setting that predicts best need not find the most edges. For networks, do not
    choose between targets ("next", "increment", "integral") but use the `consensus` over them.

    Parameters
    ----------
    models : sequence of `OKVAR`
        Candidates.
    X, series, times
        As in `OKVAR.fit`.
    criterion : {"bic", "series", "forecast"}
        The Bayesian information criterion; the mean one-step error of held-out series; or the mean logarithm, over
        variables, of the error four steps ahead in held-out series. Lower is better.

    Returns
    -------
    tuple
        The best model, and an array with the criterion of each model.

    See Also
    --------
    OKVAR, consensus

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.batch import best_okvar
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.standard_normal((20, 4)).cumsum(axis=0) for _ in range(4)]
    >>> model, values = best_okvar([OKVAR("linear", alpha) for alpha in (0.1, 1.0, 1e6)], walks)
    >>> model.alpha, values.shape
    (1.0, (3,))
    """
    check_choice(criterion, "criterion", ("bic", "series", "forecast"))
    fitted: list[OKVAR] = [clone(model) for model in _model_list(models)]
    values = []
    for model in track(fitted, "selecting"):
        if criterion == "bic":
            values.append(model.fit(X, series=series, times=times).bic_)
        else:
            every = read_series(clone(model), X, series, times)
            values.append(_one_step_error(model, every) if criterion == "series" else _forecast_error(model, every))
    best = fitted[int(np.argmin(values))]
    return (best if criterion == "bic" else best.fit(X, series=series, times=times)), np.array(values)


def _one_step_error(model: OKVAR, series: list[TimeSeries]) -> float:
    """Mean over held-out series of the mean squared one-step error, standardised."""
    if len(series) < 2:
        raise ValueError(f"criterion='series' requires at least 2 series, got {len(series)}: use criterion='bic'")
    errors = []
    for fitted, left in _leave_one_out(model, series):
        observed, predicted = fitted.dynamics_.one_step_pairs([left])
        errors.append(float(np.nanmean(((observed - predicted) / fitted.scale_) ** 2)) if len(observed) else np.nan)
    return float(np.nanmean(errors))


def _forecast_error(model: OKVAR, series: list[TimeSeries]) -> float:
    """Mean logarithm, over variables, of the squared error `FORECAST_STEPS` steps ahead in held-out series.

    One step ahead, predicting no change is nearly optimal; further ahead, the action of other variables matters.
    Logarithms keep one hard variable from dominating the mean.
    """
    longest = max(map(len, series))
    if len(series) < 2 or longest < model.lag + FORECAST_STEPS:
        raise ValueError(
            f"criterion='forecast' requires 2 series, one with {model.lag + FORECAST_STEPS} points, got {len(series)} "
            f"with at most {longest}: use criterion='bic'"
        )
    gaps = np.concatenate(
        [one.dynamics_.forecast_errors(left, FORECAST_STEPS)[:, -1] for one, left in _leave_one_out(model, series)]
    )
    return float(np.mean(np.log(np.nanmean(gaps**2, axis=0) + np.finfo(float).tiny)))


def _leave_one_out(model: OKVAR, series: list[TimeSeries]) -> Iterator[tuple[OKVAR, TimeSeries]]:
    for k, left in enumerate(series):
        yield model.refitted(series[:k] + series[k + 1 :]), left


def _model_list(models: OKVAR | Sequence[OKVAR]) -> list[OKVAR]:
    listed = [models] if isinstance(models, OKVAR) else list(models)
    if not listed or not all(isinstance(model, OKVAR) for model in listed):
        raise ValueError(f"models must be a non-empty sequence of OKVAR, got {listed!r}")
    return listed


def consensus(
    models: OKVAR | Sequence[OKVAR],
    X: Any,
    *,
    series: Any = None,
    times: Any = None,
    over: str = "settings",
    average: str = "ranks",
    n_subsamples: int = 20,
    fraction: float = 0.7,
    threshold: float | None = None,
    top_k: int | None = None,
    aggregate: Any = "mean_abs",
    balance: float = 0.0,
    n_jobs: int | None = None,
    random_state: int | np.random.Generator | None = None,
) -> Network:
    """One network from many fits.

    Parameters
    ----------
    models : `OKVAR` or sequence of `OKVAR`
        Settings to fit.
    X, series, times
        As in `OKVAR.fit`.
    over : {"settings", "series", "subsamples", "targets"}
        Fit each model to all series together, to each series separately, to random segments of all series, or to all
        series with each target ("next", "increment" and, for a lag of 1, "integral"). Which target shows the network
        best depends on the experiment, and predictions do not reveal it.
    average : {"ranks", "shares"}
        Scores of the network: ranks in (0, 1] averaged over all fits, or the share of fits in which an edge is among
        the `top_k` strongest. With "subsamples", the latter is stability selection: with q of p possible edges chosen
        in each fit and a threshold above one half, the expected number of false edges is at most q^2 / ((2 threshold -
        1) p), if false edges are exchangeable (Meinshausen and Buhlmann 2010).
    n_subsamples : int
        Number of subsamples.
    fraction : float in (0, 1]
        Part of every series in each subsample.
    threshold, top_k : float and int, optional
        Edges to choose. With ranks, as in `OKVAR.network`. With shares, edges with a share of at least `threshold`,
        default 0.6; `top_k` is the number of edges chosen in each fit, default two per variable.
    aggregate, balance
        As in `OKVAR.edge_scores`.
    n_jobs : int, optional
        Number of processes, as in joblib.
    random_state : int, Generator or None
        Seed or generator for the subsamples.

    Returns
    -------
    Network
        Averaged scores and chosen edges, without signs.

    See Also
    --------
    OKVAR, best_okvar, rank_average

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.batch import consensus
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.standard_normal((20, 4)).cumsum(axis=0) for _ in range(4)]
    >>> models = [OKVAR("linear", alpha, target="integral") for alpha in (1.0, 10.0)]
    >>> consensus(models, walks, top_k=3).chosen.sum()
    np.int64(3)

    Stability selection:

    >>> network = consensus(OKVAR("linear"), walks, over="subsamples", average="shares", fraction=0.5, random_state=0)
    >>> network.scores.shape, bool(network.scores.max() <= 1.0)
    ((4, 4), True)
    """
    listed = _model_list(models)
    check_choice(average, "average", ("ranks", "shares"))
    check_choice(over, "over", ("settings", "series", "subsamples", "targets"))
    if over == "targets":
        forms = [(model, target) for model in listed for target in TARGETS if model.lag == 1 or target != "integral"]
        listed, over = [clone(model).set_params(target=target) for model, target in forms], "settings"
    reader: OKVAR = clone(listed[0])
    subsets = _subsets(read_series(reader, X, series, times), over, n_subsamples, fraction, random_state)
    fits = [delayed(_fit_and_score)(model, some, aggregate, balance) for model in listed for some in subsets]
    found = list(track(Parallel(n_jobs=n_jobs, return_as="generator")(fits), "learning networks", len(fits)))
    if average == "ranks":
        scores = rank_average(found)
        chosen = choose(scores, threshold, top_k, None, None)
    else:
        off = off_diagonal(len(found[0]))
        k = min(2 * len(off), int(off.sum())) if top_k is None else check_int(top_k, "top_k")
        scores = np.mean([choose(one, None, k, None, None) for one in found], axis=0)
        chosen = off & (scores >= in_interval(0.6 if threshold is None else threshold, "threshold", 0, 1))
    return Network(scores, chosen, np.zeros_like(scores), reader.names_)


def _subsets(
    series: list[TimeSeries], over: str, count: int, fraction: float, random_state: Any
) -> list[list[TimeSeries]]:
    """The series of each fit: all of them, each alone, or a random segment of consecutive points of each."""
    if over == "settings":
        return [series]
    if over == "series":
        return [[one] for one in series]
    rng, share = np.random.default_rng(random_state), in_interval(fraction, "fraction", 0.01, 1)

    def segment(one: TimeSeries) -> TimeSeries:
        length = max(2, round(share * len(one)))
        first = int(rng.integers(0, max(len(one) - length, 0) + 1))
        return one.part(first, first + length)

    return [[segment(one) for one in series] for _ in range(check_int(count, "n_subsamples"))]


def _fit_and_score(model: OKVAR, series: list[TimeSeries], aggregate: Any, balance: float) -> Array:
    return model.refitted(series).edge_scores(aggregate=aggregate, balance=balance)
