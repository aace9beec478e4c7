"""Parkinson telemonitoring: random and group-wise splits of the same rows.

The 5,875 recordings come from 42 people. In random splits, a test recording has training neighbours of the same person;
in splits by person it has none, and no method is much better than the mean. Both are reported wherever the data are
used.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.model_selection import GroupShuffleSplit, ShuffleSplit

from ovk.batch import OVKRidgeCV
from ovk.kernels import Gaussian
from reproduce.data import load_parkinsons
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, track

OMEGAS = (0.0, 0.25, 0.5, 0.75, 0.9)
ALPHAS = np.logspace(-4, 2, 19)


def split_errors(X: Array, Y: Array, train: Array, test: Array) -> tuple[float, float]:
    """Mean squared error of standardised outputs: independent, and operator by leave-one-out."""
    centre, spread = X[train].mean(axis=0), X[train].std(axis=0)
    mean, sd = Y[train].mean(axis=0), Y[train].std(axis=0)
    inputs, new = (X[train] - centre) / spread, (X[test] - centre) / spread
    outputs, truth = (Y[train] - mean) / sd, (Y[test] - mean) / sd

    def error(**options: object) -> float:
        model = OVKRidgeCV(Gaussian(), ALPHAS, fit_intercept=False, **options).fit(inputs, outputs)  # type: ignore[arg-type]
        return float(((model.predict(new) - truth) ** 2).mean())

    return error(), error(omegas=OMEGAS)


@reproduction("parkinsons", "vv-RLS column of Audiffren and Kadri 2015 (MSE 9.1e-2, scaling of outputs not stated)")
def parkinsons(data_home: str | Path | None = None, repeats: int = 3, n_train: int = 2000) -> Result:
    """Error of vector-valued ridge regression, shuffled and grouped by person."""
    bunch = load_parkinsons(data_home=data_home)
    rows = []
    splits = {
        "shuffled": ShuffleSplit(repeats, test_size=0.2, random_state=0).split(bunch.data),
        "grouped by person": GroupShuffleSplit(repeats, test_size=0.2, random_state=0).split(
            bunch.data, groups=bunch.groups
        ),
    }
    for name, parts in splits.items():
        errors = []
        for train, test in track(list(parts), f"parkinsons, {name}"):
            some = np.random.default_rng(0).permutation(train)[:n_train]
            errors.append(split_errors(bunch.data, bunch.target, some, test))
        apart, coupled = np.mean(errors, axis=0)
        rows += [
            Row(f"{name}, outputs apart", float(apart), setting=f"{repeats} splits, {n_train} training rows"),
            Row(f"{name}, operator by leave-one-out", float(coupled)),
        ]
    return Result(
        title="Parkinson telemonitoring, shuffled and grouped by person",
        measure="mean squared error of the two standardised outputs (1 is the training mean), small is good",
        data="UCI Parkinsons Telemonitoring, 5875 rows of 42 people",
        rows=rows,
        remarks=[
            "Gaussian kernel of median width; alpha and omega by closed-form leave-one-out.",
            "Leave-one-out over rows is itself a shuffled criterion: for new people it chooses too small an alpha.",
        ],
    )
