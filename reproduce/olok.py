"""Table 1 and figure 1 of the OLOK paper (Audiffren and Kadri 2015), in its settings and in settings that learn.

Choices where the paper is silent: outputs and inputs are standardised on the first tenth of the rows (the paper's
errors of 1e-5 suggest another scale); the second output of Wine is alcohol; "eta = 0.1, eta_t = 1/sqrt(t), lambda = 3"
breaks eta_t lambda < 1 for t < 9 as printed, so it is run as 0.1/sqrt(t) and as 1/sqrt(t) from t = 10. The Click data
are not public; synthetic data of the same shape replace them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold

from ovk.batch import OVKRidge
from ovk.kernels import Gaussian
from ovk.objectives import InverseSqrt
from ovk.online import OLOK, PaperWindow
from ovk.operators import Dense
from ovk.ovkernels import Separable
from reproduce.data import load_parkinsons, load_wine, make_multitask
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, track

WIDTHS = tuple(np.logspace(-3, 2, 6).tolist())  # the paper's mu
PUBLISHED = {
    "synthetic": {"vv-RLS": 1e-5, "OLOK": 1e-5, "T-OLOK": 5e-5},
    "wine": {"vv-RLS": 2e-4, "OLOK": 2.3e-4, "T-OLOK": 2.3e-4},
    "parkinsons": {"vv-RLS": 9.1e-2, "OLOK": 9.5e-2, "T-OLOK": 1.0e-1},
    "click shape": {"OLOK": 1e-4, "T-OLOK": 3e-4},
}


def coupled(mu: float, d: int) -> Separable:
    """The paper's kernel: exp(-|x - z|^2 / mu) J, J one on the diagonal and a tenth elsewhere."""
    return Separable(Gaussian.from_mu(mu), Dense(0.9 * np.eye(d) + 0.1))


class Setting(NamedTuple):
    """A learner of the table; `drawn` is whether it is in the figure."""

    name: str
    published: str
    make: Callable[[float, int], Any]  # from mu and d
    drawn: bool = True


#: The paper does not state its epsilon; t_0 exceeds most of these data sets unless epsilon is near 0.4.
EPSILONS = (0.1, 0.2, 0.3, 0.4, 0.45)
WINDOWS = (100, 500, 2000)


def stated(n: int) -> list[Setting]:
    """The learners as the paper states them on n rows, the width chosen on the first tenth."""
    printed, later = ("0.1/sqrt(t)", InverseSqrt(0.1)), ("1/sqrt(t) from t = 10", InverseSqrt(1.0, start=10))
    plain = [
        Setting(f"OLOK, alpha = 3, {name}", "OLOK", lambda mu, d, s=s: OLOK(coupled(mu, d), 3.0, s))  # type: ignore[misc]
        for name, s in (printed, later)
    ]
    return [*plain, *[_truncated(epsilon, *printed, n) for epsilon in EPSILONS], _truncated(0.4, *later, n, drawn=True)]


def _truncated(epsilon: float, name: str, schedule: InverseSqrt, n: int, drawn: bool = False) -> Setting:
    truncation = PaperWindow(epsilon)
    eta = float(schedule.rate(np.array([1]))[0])
    last = int(truncation.size(np.array([n]), eta, 3.0)[0])
    kept = f"t_0 = {truncation.first(eta, 3.0):.3g}, " + (f"last {last} kept" if last < n else "nothing dropped")
    return Setting(
        f"T-OLOK, alpha = 3, {name}, epsilon = {epsilon:g} ({kept})",
        "T-OLOK",
        lambda mu, d: OLOK(coupled(mu, d), 3.0, schedule, truncation=truncation),
        drawn,
    )


def learning(alpha: float, eta: float) -> list[Setting]:
    """Learners with a penalty and a step size that were chosen on the first tenth."""
    name = f"alpha = {alpha:g}, {eta:g}/sqrt(t)"

    def make(window: int | None) -> Callable[[float, int], Any]:
        return lambda mu, d: OLOK(coupled(mu, d), alpha, InverseSqrt(eta), truncation=window)

    return [
        Setting(f"OLOK, {name}", "OLOK", make(None)),
        *[Setting(f"T-OLOK, {name}, last {s}", "T-OLOK", make(s), drawn=s > WINDOWS[0]) for s in WINDOWS],
    ]


def progressive_error(model: Any, X: Array, Y: Array) -> tuple[float, float, Array]:
    """Progressive mean squared error, seconds, and the error of each row."""
    start = time.perf_counter()
    errors = ((model.predict_then_learn(X, Y) - Y) ** 2).mean(axis=1)
    return float(errors.mean()), time.perf_counter() - start, errors


def batch_error(X: Array, Y: Array, rows: int) -> tuple[float, float, str]:
    """Test error of vv-RLS on the last fifth; width and alpha by five folds on at most `rows` of the rest."""
    split = 4 * len(X) // 5
    some = np.random.default_rng(0).permutation(split)[:rows]
    grid = {"kernel": [coupled(mu, Y.shape[1]) for mu in WIDTHS], "alpha": np.logspace(-4, 1, 6)}
    folds = KFold(5, shuffle=True, random_state=0)
    start = time.perf_counter()
    search = GridSearchCV(OVKRidge(fit_intercept=False), grid, cv=folds, scoring="neg_mean_squared_error", refit=False)
    best = search.fit(X[some], Y[some]).best_params_
    model = OVKRidge(**best, fit_intercept=False).fit(X[:split], Y[:split])
    seconds = time.perf_counter() - start
    mu = 2.0 * best["kernel"].kernel.length_scale ** 2
    error = float(((model.predict(X[split:]) - Y[split:]) ** 2).mean())
    return error, seconds, f"mu = {mu:g}, alpha = {best['alpha']:g}; last fifth"


def standardised(X: Array, Y: Array, seed: int) -> tuple[Array, Array]:
    """Rows in random order, scaled by the mean and deviation of the first tenth."""
    order = np.random.default_rng(seed).permutation(len(X))
    X, Y, tenth = X[order], Y[order], len(X) // 10

    def scale(A: Array) -> Array:
        spread = A[:tenth].std(axis=0)
        result: Array = (A - A[:tenth].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return result

    return scale(X), scale(Y)


def choose(X: Array, Y: Array) -> tuple[float, float, float]:
    """mu, alpha and eta with the smallest progressive error on the first tenth."""
    tenth = len(X) // 10
    d = Y.shape[1]

    def error(candidate: tuple[float, float, float]) -> float:
        mu, alpha, eta = candidate
        model = OLOK(coupled(mu, d), alpha, InverseSqrt(eta))
        value = progressive_error(model, X[:tenth], Y[:tenth])[0]
        return value if np.isfinite(value) else np.inf

    return min(product(WIDTHS, (1e-4, 1e-3, 1e-2), (0.3, 1.0, 3.0)), key=error)


def data(name: str, data_home: str | Path | None, n: int | None) -> tuple[Array, Array]:
    """Inputs and outputs of one of the paper's sets."""
    if name == "synthetic":
        X, Y = make_multitask(10_000, 50, 20, random_state=0, return_X_y=True)
    elif name == "click shape":
        X, Y = make_multitask(20_000, 120, 16, random_state=0, return_X_y=True)
    elif name == "wine":
        X, Y = load_wine(targets=("quality", "alcohol"), data_home=data_home, return_X_y=True)
    else:
        X, Y = load_parkinsons(data_home=data_home, return_X_y=True)
    return np.asarray(X)[:n], np.asarray(Y)[:n]


@reproduction("olok", "Audiffren and Kadri 2015, table 1 and figure 1")
def olok(
    data_home: str | Path | None = None,
    sets: Sequence[str] = tuple(PUBLISHED),
    repeats: int = 3,
    batch_rows: int = 1000,
    n: int | None = None,
) -> Result:
    """Mean squared error and running time of vv-RLS, OLOK and truncated OLOK."""
    rows: list[Row] = []
    curves: dict[str, dict[str, Array]] = {}
    batch: dict[str, float] = {}
    for name in track(list(sets), "olok"):
        X, Y = data(name, data_home, n)
        d = Y.shape[1]
        first = standardised(X, Y, 0)
        mu, alpha, eta = choose(*first)
        if name != "click shape":
            error, seconds, chosen = batch_error(*first, batch_rows)
            rows.append(Row(f"{name}: vv-RLS", error, PUBLISHED[name]["vv-RLS"], f"{chosen}; {seconds:.0f} s"))
            batch[name] = error
        for setting in [*stated(len(X)), *learning(alpha, eta)]:
            runs = [progressive_error(setting.make(mu, d), *standardised(X, Y, seed)) for seed in range(repeats)]
            errors, seconds = [run[0] for run in runs], min(run[1] for run in runs)
            spread = f"+- {np.std(errors):.1g} over {repeats} orders, mu = {mu:g}; {seconds:.1f} s"
            rows.append(
                Row(f"{name}: {setting.name}", float(np.mean(errors)), PUBLISHED[name][setting.published], spread)
            )
            if setting.drawn:
                curves.setdefault(name, {})[setting.name] = runs[0][2]
    return Result(
        title="Online learning with operator-valued kernels: vv-RLS, OLOK and truncated OLOK",
        measure="mean squared error of standardised outputs (1 is the mean); OLOK: each row before it is learned",
        data=", ".join(sets),
        rows=rows,
        remarks=[
            "The published errors are on a scale that the paper does not state; ours are on outputs standardised by "
            "the first tenth of the rows, so compare within a column, not across.",
            "alpha = 3 on standardised outputs learns next to nothing; the settings that learn were chosen by the "
            "progressive error on the first tenth.",
            f"vv-RLS: width and alpha by five folds on {batch_rows} rows, then fitted on four fifths of all rows. "
            "Parkinson rows come from 42 people and are shuffled here: for new people all methods are no better than "
            "the mean (see the reproduction `parkinsons`).",
            "Click: made data of its shape (120 inputs, 16 outputs); batch learning is left out, as in the paper.",
        ],
        figures=_figures(curves, batch),
    )


def _figures(curves: dict[str, dict[str, Array]], batch: dict[str, float]) -> dict[str, Any]:
    """Cumulative error against the number of examples, as in figure 1."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    styles = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
    colours = ("#000000", "#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7")
    figures = {}
    for name, learners in curves.items():
        figure = Figure(figsize=(7, 4.5), layout="constrained")
        ax = figure.subplots()
        for (label, errors), style, colour in zip(learners.items(), styles, colours, strict=False):
            count = np.arange(1, len(errors) + 1)
            so_far = np.cumsum(errors) / count
            ax.plot(count[9:], so_far[9:], linestyle=style, color=colour, label=label)
        if name in batch:
            ax.axhline(batch[name], color="#666666", linewidth=1, label="vv-RLS, test error")
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("examples")
        ax.set_ylabel("mean squared error so far")
        ax.set_title(name)
        ax.legend(fontsize=8, loc="upper left", bbox_to_anchor=(0.0, -0.12), frameon=False)
        figures[name.replace(" ", "-")] = figure
    return figures
