"""Finger movements from brain signals: Tables 1 and 2 of the MovKL paper, on generated signals.

The paper's recordings cannot be redistributed. If the competition's files are in the directory ``bci`` of the data sets
(``sub1_comp.mat``), they are used, otherwise `make_bci`, which was fixed before any experiment.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ovk.batch import FunctionalRidge, FunctionalRidgeCV, MovKL, MovKLCV, kernel_grid
from ovk.kernels import Gaussian, median_distance
from ovk.objectives import lcr, rsse
from ovk.operators import Identity, Integral
from ovk.ovkernels import Separable
from reproduce.data import load_bci, make_bci
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, data_directory, ticker

#: Published: RSSE and LCR of the movement's state, RSSE of its amplitude.
PUBLISHED = {
    "KRR, scalar-valued": (68.32, 72.91, 88.21),
    "KRR, functional response": (49.40, 80.20, 79.86),
    "MovKL, l_inf": (45.44, 81.34, 76.52),
    "MovKL, l_1": (48.12, 80.66, 78.24),
    "MovKL, l_2": (39.36, 84.72, 75.15),
}
BEST = "MovKL, l_2"
NORMS = {"MovKL, l_inf": np.inf, "MovKL, l_1": 1.0, "MovKL, l_2": 2.0}
#: Ours: the same with operators of equal trace.
EQUAL = ", equal traces"
NORMS |= {name + EQUAL: r for name, r in NORMS.items()}
NONE = (None, None, None)
METHODS = [*PUBLISHED, *(name for name in NORMS if name.endswith(EQUAL))]
OPERATORS = ("identity", "multiplication", "integral")
WIDTHS = (0.5, 1.0, 2.0, 4.0)
EIGENFUNCTIONS = (5, 10, 20, 40)
ALPHAS = np.logspace(-4, 1, 11)
MOVKL_ALPHAS = np.logspace(-3, 2, 6)


def tuned(name: str, X: Array, Y: Array, grid: Any) -> Callable[[], Any]:
    """An estimator, with parameters chosen by cross-validation over curves of X, Y; each call gives a new one."""
    if name in NORMS:
        options = {"r": NORMS[name], "grid": grid, "fit_intercept": True, "max_iter": 500}
        kernels = kernel_grid(X, equal_trace=grid if name.endswith(EQUAL) else None)
        alpha = MovKLCV(kernels, MOVKL_ALPHAS, folds=5, **options).fit(X, Y).alpha_
        return lambda: MovKL(kernels, alpha, **options)
    scale = median_distance(X)
    if name == "KRR, scalar-valued":
        kernels = [Separable(Gaussian(width * scale), Identity()) for width in WIDTHS]
        model = FunctionalRidgeCV(kernels, ALPHAS, grid=grid, fit_intercept=True).fit(X, Y)
    else:
        kernels = [Separable(Gaussian(width * scale), Integral()) for width in WIDTHS]
        counts = [count for count in EIGENFUNCTIONS if count <= len(grid)]
        model = FunctionalRidgeCV(kernels, ALPHAS, grid=grid, n_eigen=counts, fit_intercept=True).fit(X, Y)
    kernel, chosen = model.kernel_, float(model.alpha_)
    return lambda: FunctionalRidge(kernel, chosen, grid=grid, fit_intercept=True)


def _curves(data_home: Any, n: int) -> tuple[Any, str]:
    file = data_directory(data_home) / "bci" / "sub1_comp.mat"
    if file.is_file():
        # The paper uses 5 hand-picked channels without naming them; here, the first five.
        return load_bci(file, channels=range(5)), "BCI Competition IV data set 4, subject 1, channels 0 to 4"
    return make_bci(n, random_state=0), f"make_bci, {n} segments of 200 bins, 5 channels, unknown lag"


@reproduction("movkl", "Kadri, Rakotomamonjy, Bach and Preux 2012, Tables 1 and 2")
def movkl(data_home: str | Path | None = None, splits: int = 20, n: int = 487) -> Result:
    """All five rows of both tables over random 65/35 splits."""
    curves, data = _curves(data_home, n)
    X, grid = curves.data, curves.grid
    tasks = {"state": curves.labels.astype(np.float64), "amplitude": curves.target}
    rng = np.random.default_rng(0)
    orders = [rng.permutation(len(X)) for _ in range(splits)]
    cut = round(0.65 * len(X))
    errors: dict[tuple[str, str], list[float]] = {}
    recognised: dict[str, list[float]] = {name: [] for name in METHODS}
    shares: dict[tuple[str, str], list[Array]] = {}
    last: dict[tuple[str, str], Any] = {}
    tick = ticker("splits", 2 * len(METHODS) * splits)
    for task, Y in tasks.items():
        first = orders[0][:cut]
        for name in METHODS:
            make = tuned(name, X[first], Y[first], grid)
            for order in orders:
                train, test = order[:cut], order[cut:]
                model = make().fit(X[train], Y[train])
                prediction = model.predict(X[test])
                errors.setdefault((task, name), []).append(rsse(Y[test], prediction, grid))
                if task == "state":
                    recognised[name].append(lcr(curves.labels[test], (prediction > 0.5).astype(int)))
                if name in NORMS:
                    by_operator = model.weights_.reshape(len(OPERATORS), -1).sum(axis=1)
                    shares.setdefault((task, name), []).append(by_operator / by_operator.sum())
                last[task, name] = model, test
                tick()
    rows, gaps = [], []
    for column, (label, task) in enumerate(
        (("RSSE, state", "state"), ("LCR %, state", ""), ("RSSE, amplitude", "amplitude"))
    ):
        for name in METHODS:
            values = np.array(errors[task, name] if task else recognised[name])
            error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
            rows.append(
                Row(
                    f"{label}: {name}",
                    float(values.mean()),
                    PUBLISHED.get(name, NONE)[column],
                    f"standard error {error:.2g}",
                )
            )
    for task in tasks:
        gaps.append(smallest(task, {name: np.array(errors[task, name]) for name in PUBLISHED}))
        for name in ("MovKL, l_1", "MovKL, l_2", "MovKL, l_1" + EQUAL, "MovKL, l_2" + EQUAL):
            share = np.mean(shares[task, name], axis=0)
            text = ", ".join(f"{operator} {part:.2f}" for operator, part in zip(OPERATORS, share, strict=True))
            gaps.append(f"Share of the weights by operator, {task}, {name}: {text}.")
    return Result(
        title="Finger movement prediction, Tables 1 and 2 of the MovKL paper",
        measure="RSSE over the test curves, small is good; LCR, labels correctly recognised, large is good",
        data=data,
        rows=rows,
        remarks=[
            f"{splits} random splits, 65% training; widths, eigenfunctions and alpha are chosen by leaving out curves "
            "of the first split's training part (one at a time; for MovKL in 5 sets) and kept for all splits.",
            "The published numbers are of other data: only the order of the rows can be compared.",
            *gaps,
            *([] if "make_bci" not in data else [picked(shares)]),
        ],
        figures=_figures(curves, last, tasks),
    )


def smallest(task: str, errors: dict[str, Array]) -> str:
    """Whether MovKL, l_2 has the smallest RSSE, as in the paper, and the difference otherwise."""
    best = min(errors, key=lambda name: float(errors[name].mean()))
    if best == BEST:
        return f"Smallest RSSE for the {task}: {best}, as in the paper."
    behind = errors[BEST] - errors[best]
    error = behind.std(ddof=1) / np.sqrt(len(behind)) if len(behind) > 1 else float("nan")
    return (
        f"Smallest RSSE for the {task}: {best}. In the paper it is {BEST}: that order does not appear here, where it "
        f"is {behind.mean():.2g} behind (standard error of the difference by split {error:.1g})."
    )


def picked(shares: dict[tuple[str, str], list[Array]]) -> str:
    """Whether the weights for the amplitude pick the operator through which `make_bci` moves the finger."""
    integral = OPERATORS.index("integral")
    parts = []
    for name in ("MovKL, l_1" + EQUAL, BEST + EQUAL):
        share = np.mean(shares["amplitude", name], axis=0)
        verdict = "the largest" if share.argmax() == integral else "not the largest"
        parts.append(f"{share[integral]:.0%} of the weights of {name}, {verdict} share")
    return (
        "make_bci moves the finger through an integral operator. For the amplitude it has "
        f"{' and '.join(parts)}. With the paper's scales it cannot win with l_1: it is at most 0.74 times the "
        "identity. Labels are the amplitude cut at a threshold, steps that no smooth operator makes."
    )


def _figures(curves: Any, last: dict[tuple[str, str], Any], tasks: dict[str, Array]) -> dict[str, Any]:
    try:
        import matplotlib.pyplot as plt

        from ovk.plotting import FunctionalPredictionDisplay, KernelWeightsDisplay
    except ImportError:
        return {}
    figure, axes = plt.subplots(1, 3, figsize=(11.0, 3.0), layout="constrained")
    one, segment = 20 % len(curves.data), len(curves.grid)
    for channel, signal in enumerate(curves.data[one].reshape(-1, segment)):
        axes[0].plot(signal + 4 * channel, color="black", linewidth=0.7)
    axes[0].set(title="features of the channels", xlabel="time bin", yticks=[])
    axes[1].plot(curves.labels[one], color="black")
    axes[1].set(title="moving or not", xlabel="time bin")
    axes[2].plot(curves.target[one], color="black")
    axes[2].set(title="amplitude", xlabel="time bin")
    model, test = last["amplitude", "MovKL, l_2"]
    prediction = FunctionalPredictionDisplay.from_estimator(
        model, curves.data[test[:4]], tasks["amplitude"][test[:4]], band=False
    )
    figures = {"signals": figure, "curves": prediction.figure_}
    for name in ("MovKL, l_2", "MovKL, l_2" + EQUAL):
        display = KernelWeightsDisplay.from_estimator(last["amplitude", name][0])
        figures["weights" + ("-equal" if name.endswith(EQUAL) else "")] = display.figure_
    return figures
