"""The latency between signals and what follows them, the first motivation of the MovKL paper, on generated recordings.

Kadri et al. (2012) do not fix the latency between brain signals and a movement in advance, but learn it "by means of
several operator-valued kernels". Their recordings may not be redistributed, and their latency is not known; here it is.
In each recording two smooth signals x are seen from -1 to 1, and the response from 0 to 1 is

    y(t) = x_1(t - lag) - x_2(t - lag) / 2 + noise for t > onset, and noise before.

`OnCurves(window=, lag=)` reads the signals earlier, `Integral(lag=)` lets the response begin late.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ovk.batch import FunctionalRidge, FunctionalRidgeCV, MovKLCV, tune
from ovk.curves import Grid
from ovk.kernels import Gaussian, Linear, OnCurves
from ovk.operators import Integral
from ovk.ovkernels import Separable
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, track

LAG, ONSET, NOISE, SMOOTHNESS = 0.3, 0.2, 0.5, 0.1
#: Candidates; the true ones are among them.
LAGS = tuple(np.round(np.linspace(0.0, 0.8, 9), 2).tolist())
ONSETS = (0.0, 0.1, 0.2, 0.3, 0.4)
SIGNALS, RESPONSE = Grid.regular(81, -1.0, 1.0), Grid.regular(41)
WINDOW = (0.0, 1.0)
ALPHAS = np.logspace(-4, 1, 11)


def recordings(n: int, seed: int, lag: float = LAG, onset: float = ONSET) -> tuple[Array, Array, Array]:
    """Signals (n, 2 * 81), responses (n, 41) and the responses without noise.

    >>> X, Y, truth = recordings(3, 0)
    >>> X.shape, Y.shape, bool((truth[:, RESPONSE.points < ONSET] == 0).all())
    ((3, 162), (3, 41), True)
    """
    rng = np.random.default_rng(seed)
    times, after = np.asarray(SIGNALS.points), np.asarray(RESPONSE.points)
    # Random waves, with a correlation of exp(-(t - s)^2 / (2 0.1^2)).
    waves = rng.standard_normal((n, 2, 60)) / SMOOTHNESS
    phases, heights = rng.uniform(0, 2 * np.pi, (n, 2, 60)), np.sqrt(2.0 / 60.0)

    def signals(t: Array) -> Array:
        return np.asarray(heights * np.cos(waves[..., None] * t + phases[..., None]).sum(axis=2))

    early = signals(after - lag)
    truth = (early[:, 0] - 0.5 * early[:, 1]) * (after > onset)
    X = signals(times) + 0.05 * rng.standard_normal((n, 2, len(times)))
    return X.reshape(n, -1), truth + NOISE * rng.standard_normal(truth.shape), truth


def read(lag: float, onset: float | None = None) -> Separable:
    """Linear kernel of the signals `lag` before the response, and responses from `onset` on."""
    inputs = OnCurves(Linear(), SIGNALS, channels=2, window=WINDOW, lag=lag)
    return Separable(1.0 * inputs, Integral(Gaussian(SMOOTHNESS), RESPONSE, lag=onset))


def share(model: Any, right: Separable) -> float:
    """The share of the weights of MovKL on the true value."""
    true = [repr(kernel) == repr(right) for kernel in model.kernels]
    assert sum(true) == 1
    return float(model.weights_[true].sum() / model.weights_.sum())


def found_in(seed: int, n: int) -> dict[str, float]:
    """Errors and latencies of one set of recordings with a lag, and of one whose responses also begin late."""
    found: dict[str, float] = {}
    options: dict[str, Any] = {"grid": RESPONSE, "fit_intercept": False}
    alphas = ALPHAS[2:10:2]
    for what, onset in (("lag", -1.0), ("onset", ONSET)):
        X, Y, _ = recordings(n, seed, onset=onset)
        new, _, truth = recordings(500, 1000 + seed, onset=onset)

        def error(
            name: str, model: Any, what: str = what, data: tuple[Array, Array, Array, Array] = (X, Y, new, truth)
        ) -> Any:
            X, Y, new, truth = data
            model = model.fit(X, Y)
            found[f"{what}, error: {name}"] = float(np.mean((model.predict(new) - truth) ** 2) / np.mean(truth**2))
            return model

        right = read(LAG) if what == "lag" else read(LAG, ONSET)
        error(f"the true {what}", FunctionalRidgeCV([right], ALPHAS, **options))
        if what == "lag":
            whole = Separable(OnCurves(Linear(), SIGNALS, channels=2), Integral(Gaussian(SMOOTHNESS), RESPONSE))
            error("whole recordings", FunctionalRidgeCV([whole], ALPHAS, **options))
            kernels = [read(lag) for lag in LAGS]
        else:
            kernels = [read(LAG, value) for value in ONSETS]
        error(f"no {what}", FunctionalRidgeCV([read(LAG) if what == "onset" else read(0.0)], ALPHAS, **options))
        for r, norm in ((1.0, "l_1"), (2.0, "l_2")):
            model = error(f"MovKL, {norm}", MovKLCV(kernels, alphas, r=r, folds=5, **options))
            found[f"{what}: share of the weights on the true one, MovKL, {norm}"] = share(model, right)
        first = read(LAG / 2) if what == "lag" else read(LAG, ONSET / 2)
        chosen = FunctionalRidgeCV([first], ALPHAS, **options).fit(X, Y)
        start = FunctionalRidge(chosen.kernel_, float(np.mean(chosen.alpha_)), **options)
        tuned = tune(start, X, Y, noise="shared", restarts=1, max_iter=100)
        found[f"{what}, error: tuned"] = float(np.mean((tuned.predict(new) - truth) ** 2) / np.mean(truth**2))
        name = "kernel__kernel__kernel__lag" if what == "lag" else "kernel__operator__lag"
        found[f"{what}: tuned"] = float(tuned.get_params()[name])
    return found


@reproduction("latency", "A latency that is learned, as in Kadri et al. 2012, on generated recordings")
def latency(data_home: str | Path | None = None, n: int = 200, repeats: int = 3) -> Result:
    """Errors and latencies found by MovKL over a grid of lags, and by the gradient of the evidence."""
    sets = [found_in(seed, n) for seed in track(list(range(repeats)), "latency")]
    found = {name: [one[name] for one in sets] for name in sets[0]}
    rows = [
        Row(name, float(np.mean(values)), None, f"+- {np.std(values):.2g} over {repeats} sets")
        for name, values in found.items()
    ]
    return Result(
        title="A latency that is learned",
        measure="squared error of new responses relative to that of 0, small is good; latencies in units of time",
        data=f"generated recordings, {n} with two signals; true lag {LAG:g}, true onset {ONSET:g}",
        rows=rows,
        remarks=[
            "No number was published: the latency of the paper's recordings is not known.",
            f"Candidates of the lag are {LAGS[0]:g} to {LAGS[-1]:g}, of the onset {ONSETS[0]:g} to {ONSETS[-1]:g}, in "
            "steps of 0.1; the gradient of the evidence starts at half of the true value.",
        ],
    )
