"""Choosing settings: the Bayesian information criterion, and leaving one series out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from ovk._progress import ProgressBar
from ovk._types import Array
from ovk.batch.okvar.alternate import OKVARSolution
from ovk.batch.okvar.model import OKVAR
from ovk.batch.okvar.series import TimeSeries, read_series

#: Steps ahead at which `best_okvar` compares forecasts.
AHEAD = 4


def leave_one_series_out(model: OKVAR, X: Any, *, series: Any = None, times: Any = None) -> Array:
    """Mean squared one-step error on each series of a model learned from the others, in standardised units, (s,).

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.batch import leave_one_series_out
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.standard_normal((20, 4)).cumsum(axis=0) for _ in range(4)]
    >>> leave_one_series_out(OKVAR("linear"), walks).shape
    (4,)
    """
    every = read_series(clone(model), X, series, times)
    if len(every) < 2:
        raise ValueError(f"leaving one series out needs at least 2 series, got {len(every)}")
    errors = np.full(len(every), np.nan)
    for k, (fitted, left) in enumerate(without_each(model, every)):
        observed, predicted = fitted.dynamics_.one_step_pairs([left])
        if len(observed):
            errors[k] = float(np.nanmean(((observed - predicted) / fitted.scale_) ** 2))
    return errors


def forecast_error(model: OKVAR, series: list[TimeSeries], steps: int) -> float:
    """Mean logarithm, over variables, of the squared error of forecasts `steps` ahead, each series left out in turn.

    One step ahead nearly all that is predicted is that a variable stays where it is; further ahead what acts on it
    shows. Logarithms keep one variable that is hard to predict from deciding alone.
    """
    if len(series) < 2 or max(map(len, series)) < model.lag + steps:
        raise ValueError(
            f"criterion='forecast' needs at least 2 series, one of them of {model.lag + steps} points or more, got "
            f"{len(series)} of at most {max(map(len, series))}: use criterion='bic'"
        )
    gaps = np.concatenate([one.dynamics_.forecast_errors(left, steps) for one, left in without_each(model, series)])
    squares = np.nanmean(gaps**2, axis=0)
    return float(np.mean(np.log(squares + np.finfo(float).tiny)))


def without_each(model: OKVAR, series: list[TimeSeries]) -> Iterator[tuple[OKVAR, TimeSeries]]:
    """For each series, the model fitted to the others, and that series."""
    for k, left in enumerate(series):
        yield fitted_to(model, [one for j, one in enumerate(series) if j != k]), left


def fitted_to(model: OKVAR, series: list[TimeSeries]) -> OKVAR:
    """A copy of the model, fitted to series that were read before."""
    fresh: OKVAR = clone(model)
    return fresh.fit([one.values for one in series], times=[one.times for one in series])


def listed_models(models: OKVAR | Sequence[OKVAR]) -> list[OKVAR]:
    """One model or several as a list, which must hold nothing else."""
    listed = [models] if isinstance(models, OKVAR) else list(models)
    if not listed or not all(isinstance(model, OKVAR) for model in listed):
        raise ValueError(f"models must hold at least one OKVAR and nothing else, got {listed!r}")
    return listed


def best_okvar(
    models: Sequence[OKVAR], X: Any, *, series: Any = None, times: Any = None, criterion: str = "bic"
) -> tuple[OKVAR, Array]:
    """The best of several settings, fitted to all series, and the criterion of each.

    No criterion is about networks: they judge predictions, and the setting that predicts best need not find the most
    edges. Where networks are the aim, do not choose between targets ("next", "increment", "integral") but take the
    `consensus` over them.

    Parameters
    ----------
    models : sequence of `OKVAR`
    X, series, times : as in `OKVAR.fit`
    criterion : {"bic", "series", "forecast"}
        The Bayesian information criterion; the mean error one step ahead when one series is left out; or the mean
        logarithm, over variables, of the error four steps ahead when one series is left out. Small is good.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.batch import best_okvar
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.standard_normal((20, 4)).cumsum(axis=0) for _ in range(4)]
    >>> model, values = best_okvar([OKVAR("linear", alpha) for alpha in (0.1, 1.0, 1e6)], walks)
    >>> bool(values.argmin() < 2)
    True
    """
    listed = listed_models(models)
    if criterion not in ("bic", "series", "forecast"):
        raise ValueError(f"criterion must be 'bic', 'series' or 'forecast', got {criterion!r}")
    values = np.empty(len(listed))
    fitted = []
    with ProgressBar("choosing", len(listed)) as bar:
        for k, model in enumerate(listed):
            fresh: OKVAR = clone(model)
            fitted.append(fresh)
            if criterion == "bic":
                values[k] = fresh.fit(X, series=series, times=times).bic_
            elif criterion == "forecast":
                values[k] = forecast_error(model, read_series(clone(model), X, series, times), AHEAD)
            else:
                values[k] = float(np.nanmean(leave_one_series_out(model, X, series=series, times=times)))
            bar.update()
    best = fitted[int(np.argmin(values))]
    return (best if criterion == "bic" else best.fit(X, series=series, times=times)), values


def penalty_path(
    model: OKVAR, X: Any, weights: Sequence[float], *, series: Any = None, times: Any = None
) -> list[OKVAR]:
    """The model fitted at each weight of its penalty, the strongest first, each started from the one before.

    Examples
    --------
    >>> import numpy as np
    >>> from ovk import OKVAR
    >>> from ovk.batch import penalty_path
    >>> from ovk.penalties import L1
    >>> rng = np.random.default_rng(0)
    >>> walks = [rng.standard_normal((20, 4)).cumsum(axis=0) for _ in range(4)]
    >>> path = penalty_path(OKVAR(penalty=L1()), walks, [1.0, 10.0])
    >>> [fitted.penalty.weight for fitted in path]
    [10.0, 1.0]
    """
    if model.penalty is None or "weight" not in model.penalty.get_params():
        raise ValueError(f"penalty_path needs a model with a penalty that has a weight, got {model.penalty!r}")
    path: list[OKVAR] = []
    start: OKVARSolution | None = None
    for weight in sorted(map(float, weights), reverse=True):
        fresh: OKVAR = clone(model).set_params(penalty__weight=weight)
        start = fresh._fit(X, series, times, start)
        path.append(fresh)
    return path
