"""GLAD drifters: currents in the Gulf of Mexico at unobserved locations.

Entire drifters are held out, and each method chooses its widths, weights and noise by cross-validation over drifters,
because the rows of one drifter are only minutes apart.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ovk.batch import VectorField
from ovk.kernels import Gaussian, Matern
from ovk.operators import Identity
from ovk.ovkernels import CurlFree, DivFree, OperatorKernel
from reproduce.data import load_glad
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, Indices

#: A larger distance between two rows means another drifter (km).
JUMP = 20.0
WIDTH = 20.0  # km, start of the search


def drifters(X: Array) -> Indices:
    """The drifter of each row."""
    steps = np.linalg.norm(np.diff(X, axis=0), axis=1)
    return np.concatenate([[0], np.cumsum(steps > JUMP)])


def kernels() -> dict[str, OperatorKernel]:
    """The same profiles with and without coupling."""
    return {
        "components apart, Gaussian": Gaussian(WIDTH) * Identity(),
        "Helmholtz, Gaussian": CurlFree(Gaussian(WIDTH)) + DivFree(Gaussian(WIDTH)),
        "divergence-free, Gaussian": DivFree(Gaussian(WIDTH)),
        "components apart, Matern 3/2": Matern(1.5, WIDTH) * Identity(),
        "Helmholtz, Matern 5/2": CurlFree(Matern(2.5, WIDTH)) + DivFree(Matern(2.5, WIDTH)),
    }


@reproduction("glad", "Berlinghieri et al. 2023, Gaussian processes at the Helm(holtz)")
def glad(data_home: str | Path | None = None, folds: int = 5, tuning_size: int = 400) -> Result:
    """Root mean squared error of the velocity of held-out drifters."""
    bunch = load_glad(data_home=data_home)
    X, V = np.asarray(bunch.data), 1e2 * np.asarray(bunch.target)
    drifter = drifters(X)
    order = np.random.RandomState(0).permutation(int(drifter.max()) + 1)
    fold = (np.argsort(order) % folds)[drifter]
    sums: dict[str, Array] = {}
    rows = []
    for name, kernel in kernels().items():
        prediction = np.empty_like(V)
        for k in range(folds):
            train = fold != k
            model = VectorField(
                kernel, criterion="loo", fit_intercept=True, restarts=1, tuning_size=tuning_size, random_state=0
            )
            prediction[~train] = model.fit(X[train], V[train], groups=drifter[train]).predict(X[~train])
        squares = ((V - prediction) ** 2).sum(axis=1)
        sums[name] = np.asarray(np.bincount(drifter, weights=squares), dtype=np.float64)
        middle = float(np.median(np.sqrt(sums[name] / np.bincount(drifter))))
        error = float(np.sqrt(sums[name].sum() / len(V)))
        rows.append(Row(name, error, setting=f"median over drifters {middle:.2f}"))
    rows.append(Row("mean of all drifters", float(np.sqrt(((V - V.mean(axis=0)) ** 2).sum(axis=1).mean()))))
    gain, error = _gain(sums["components apart, Gaussian"], sums["Helmholtz, Gaussian"])
    rows.append(
        Row("gain of Helmholtz over components apart in percent, Gaussian", gain, setting=f"standard error {error:.1f}")
    )
    return Result(
        title="GLAD: velocity of drifters that were held out",
        measure="root mean squared error in cm/s, small is good",
        data=f"GLAD, {len(X)} velocities of {int(drifter.max()) + 1} drifters",
        rows=rows,
        remarks=[
            f"{folds} folds of whole drifters; widths, weights and noise by leaving out drifters, {tuning_size} rows.",
            "The standard error of the gain is that of leaving out one drifter at a time (jackknife).",
            "The publication compares fields by eye on these data and has no held-out number.",
        ],
    )


def _gain(before: Array, after: Array) -> tuple[float, float]:
    """Reduction of the RMSE in percent with its standard error, from sums of squares by drifter."""
    each = np.arange(len(before))
    without = [100 * (1 - np.sqrt(after[each != k].sum() / before[each != k].sum())) for k in each]
    error = np.sqrt((len(each) - 1) * np.var(without))
    return float(100 * (1 - np.sqrt(after.sum() / before.sum()))), float(error)
