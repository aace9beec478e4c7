"""Choosing settings: the Bayesian information criterion, and leaving one series out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import clone

from ovk._progress import ProgressBar
from ovk._validation import Array
from ovk.batch.okvar.alternate import Fit
from ovk.batch.okvar.model import OKVAR


def leave_one_series_out(model: OKVAR, X: Any, *, series: Any = None, times: Any = None) -> Array:
    """Mean squared one-step error on each series of a model learned from the others, in standardised units, (s,).

    Examples
    --------
    >>> from ovk import OKVAR
    >>> from ovk.batch import leave_one_series_out
    >>> from ovk.datasets import make_gene_network
    >>> made = make_gene_network(4, random_state=0)
    >>> leave_one_series_out(OKVAR("linear"), made.series).shape
    (4,)
    """
    reader: OKVAR = clone(model)
    every = reader._read(X, series, times, reset=True)
    if len(every) < 2:
        raise ValueError(f"leaving one series out needs at least 2 series, got {len(every)}")
    errors = np.full(len(every), np.nan)
    for k, left in enumerate(every):
        fresh: OKVAR = clone(model)
        fresh.fit_series([one for j, one in enumerate(every) if j != k])
        truth, guess = fresh._one_step([left])
        if len(truth):
            errors[k] = float(np.nanmean(((truth - guess) / fresh.scale_) ** 2))
    return errors


def best_okvar(
    models: Sequence[OKVAR], X: Any, *, series: Any = None, times: Any = None, criterion: str = "bic"
) -> tuple[OKVAR, Array]:
    """The best of several settings, fitted to all series, and the criterion of each.

    Neither criterion is about networks: both judge predictions one step ahead, and the setting that predicts best need
    not find the most edges. Where networks are the aim, `consensus` over all settings is the safer choice.

    Parameters
    ----------
    models : sequence of `OKVAR`
    X, series, times : as in `OKVAR.fit`
    criterion : {"bic", "series"}
        The Bayesian information criterion, or the mean error when one series is left out; small is good.

    Examples
    --------
    >>> from ovk import OKVAR
    >>> from ovk.batch import best_okvar
    >>> from ovk.datasets import make_gene_network
    >>> made = make_gene_network(4, random_state=0)
    >>> model, values = best_okvar([OKVAR("linear", alpha) for alpha in (0.1, 1.0, 1e6)], made.series)
    >>> bool(values.argmin() < 2)
    True
    """
    listed = list(models)
    if not listed:
        raise ValueError("models must hold at least one OKVAR")
    if criterion not in ("bic", "series"):
        raise ValueError(f"criterion must be 'bic' or 'series', got {criterion!r}")
    values = np.empty(len(listed))
    fitted = []
    with ProgressBar("choosing", len(listed)) as bar:
        for k, model in enumerate(listed):
            fresh: OKVAR = clone(model)
            fitted.append(fresh)
            if criterion == "bic":
                values[k] = fresh.fit(X, series=series, times=times).bic_
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
    >>> from ovk import OKVAR
    >>> from ovk.batch import penalty_path
    >>> from ovk.datasets import make_gene_network
    >>> from ovk.penalties import L1
    >>> made = make_gene_network(4, random_state=0)
    >>> path = penalty_path(OKVAR(penalty=L1()), made.series, [1.0, 10.0])
    >>> [fitted.penalty.weight for fitted in path]
    [10.0, 1.0]
    """
    if model.penalty is None or "weight" not in model.penalty.get_params():
        raise ValueError(f"penalty_path needs a model with a penalty that has a weight, got {model.penalty!r}")
    reader: OKVAR = clone(model)
    every = reader._read(X, series, times, reset=True)
    path: list[OKVAR] = []
    start: Fit | None = None
    for weight in sorted(map(float, weights), reverse=True):
        fresh: OKVAR = clone(model).set_params(penalty__weight=weight)
        start = fresh._fit(every, start)
        # What scikit-learn keeps about the inputs when it checks them.
        fresh.__dict__.update({k: v for k, v in vars(reader).items() if k in ("n_features_in_", "feature_names_in_")})
        path.append(fresh)
    return path
