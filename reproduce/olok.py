"""Table 1 and figure 1 of the OLOK paper (Audiffren and Kadri 2015), in its settings and in settings that learn.

Choices where the paper is silent: outputs and inputs are standardised on the first tenth of the rows; the second output
of Wine is alcohol; "eta = 0.1, eta_t = 1/sqrt(t), lambda = 3" breaks eta_t lambda < 1 for t < 9 as printed, so it is
run as 0.1/sqrt(t) and as 1/sqrt(t) from t = 10. The Click data are not public; synthetic data of the same shape replace
them.

Two descriptions can be read in two ways, and both are run. Parkinson has 19 measured attributes; the paper counts 20,
which are those with `subject#`, the number of the person. The synthetic set is "generated as described in" Argyriou,
Evgeniou and Pontil (2008), which includes noise of variance 0.01; errors of 1e-5, below that variance, are only
possible without noise, and nothing is said about scaling: the second reading has neither.
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
from ovk.online import OLOK, PaperWindow, Window
from ovk.operators import Dense
from ovk.ovkernels import Separable
from reproduce.data import load_parkinsons, load_wine, make_multitask
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, track

WIDTHS = tuple(np.logspace(-3, 2, 6).tolist())  # the paper's mu
SYNTHETIC = {"vv-RLS": 1e-5, "OLOK": 1e-5, "T-OLOK": 5e-5}
PARKINSONS = {"vv-RLS": 9.1e-2, "OLOK": 9.5e-2, "T-OLOK": 1.0e-1}
PUBLISHED = {
    "synthetic": SYNTHETIC,
    "synthetic, no noise, not scaled": SYNTHETIC,
    "wine": {"vv-RLS": 2e-4, "OLOK": 2.3e-4, "T-OLOK": 2.3e-4},
    "parkinsons": PARKINSONS,
    "parkinsons, subject# as an input": PARKINSONS,
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


#: The paper does not state its epsilon; t_0 exceeds these data sets, and nothing is dropped, unless it is near 0.4.
EPSILONS = (0.4, 0.45)
WINDOWS = (100, 500, 2000)
BATCH_ALPHAS = np.logspace(-8, 1, 10)


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

    def make(window: Window | None) -> Callable[[float, int], Any]:
        return lambda mu, d: OLOK(coupled(mu, d), alpha, InverseSqrt(eta), truncation=window)

    # The paper's step size decays on; `truncation=s` holds it once the window is full.
    return [
        Setting(f"OLOK, {name}", "OLOK", make(None)),
        *[
            Setting(f"T-OLOK, {name}, last {s}", "T-OLOK", make(Window(s, hold_steps=False)), drawn=s > WINDOWS[0])
            for s in WINDOWS
        ],
        *[
            Setting(f"T-OLOK, {name}, last {s}, step size held", "T-OLOK", make(Window(s)), drawn=False)
            for s in WINDOWS[1:]
        ],
    ]


def progressive_error(model: Any, X: Array, Y: Array) -> tuple[float, float, Array]:
    """Progressive mean squared error, seconds, and the error of each row."""
    start = time.process_time()
    errors = ((model.predict_then_learn(X, Y) - Y) ** 2).mean(axis=1)
    return float(errors.mean()), time.process_time() - start, errors


def choose_batch(X: Array, Y: Array, rows: int) -> dict[str, Any]:
    """Kernel and alpha of vv-RLS by five folds on at most `rows` of the first four fifths."""
    some = np.random.default_rng(0).permutation(4 * len(X) // 5)[:rows]
    grid = {"kernel": [coupled(mu, Y.shape[1]) for mu in WIDTHS], "alpha": BATCH_ALPHAS}
    folds = KFold(5, shuffle=True, random_state=0)
    search = GridSearchCV(OVKRidge(fit_intercept=False), grid, cv=folds, scoring="neg_mean_squared_error", refit=False)
    best: dict[str, Any] = search.fit(X[some], Y[some]).best_params_
    return best


def batch_error(best: dict[str, Any], X: Array, Y: Array) -> float:
    """Test error of vv-RLS on the last fifth."""
    split = 4 * len(X) // 5
    model = OVKRidge(**best, fit_intercept=False).fit(X[:split], Y[:split])
    return float(((model.predict(X[split:]) - Y[split:]) ** 2).mean())


def scaled(X: Array, Y: Array, seed: int, raw: bool = False) -> tuple[Array, Array]:
    """Rows in random order, scaled by the mean and deviation of the first tenth unless `raw`."""
    order = np.random.default_rng(seed).permutation(len(X))
    X, Y, tenth = X[order], Y[order], len(X) // 10

    def scale(A: Array) -> Array:
        spread = A[:tenth].std(axis=0)
        result: Array = (A - A[:tenth].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return result

    return (X, Y) if raw else (scale(X), scale(Y))


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
    if name.startswith("synthetic"):
        noise = 0.0 if "no noise" in name else 0.1
        X, Y = make_multitask(10_000, 50, 20, noise=noise, random_state=0, return_X_y=True)
    elif name == "click shape":
        X, Y = make_multitask(20_000, 120, 16, random_state=0, return_X_y=True)
    elif name == "wine":
        X, Y = load_wine(targets=("quality", "alcohol"), data_home=data_home, return_X_y=True)
    else:
        bunch = load_parkinsons(data_home=data_home)
        X, Y = bunch.data, bunch.target
        if "subject#" in name:
            X = np.column_stack([bunch.groups, X])
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
        d, raw = Y.shape[1], "not scaled" in name
        orders = [scaled(X, Y, seed, raw) for seed in range(repeats)]
        mu, alpha, eta = choose(*orders[0])
        if name != "click shape":
            best = choose_batch(*orders[0], batch_rows)
            start = time.process_time()
            found = [batch_error(best, *order) for order in orders]
            seconds = (time.process_time() - start) / repeats
            width = 2.0 * best["kernel"].kernel.length_scale ** 2
            chosen = f"+- {np.std(found):.1g} over {repeats} orders, mu = {width:g}, alpha = {best['alpha']:g}"
            batch[name] = float(np.mean(found))
            rows.append(Row(f"{name}: vv-RLS", batch[name], PUBLISHED[name]["vv-RLS"], f"{chosen}; {seconds:.0f} s"))
        for setting in [*stated(len(X)), *learning(alpha, eta)]:
            runs = [progressive_error(setting.make(mu, d), *order) for order in orders]
            errors, seconds = [run[0] for run in runs], min(run[1] for run in runs)
            spread = f"+- {np.std(errors):.1g} over {repeats} orders, mu = {mu:g}; {seconds:.1f} s"
            rows.append(
                Row(f"{name}: {setting.name}", float(np.mean(errors)), PUBLISHED[name][setting.published], spread)
            )
            if setting.drawn:
                curves.setdefault(name, {})[setting.name] = runs[0][2]
    return Result(
        title="Online learning with operator-valued kernels: vv-RLS, OLOK and truncated OLOK",
        measure="mean squared error, of standardised outputs (1 is the mean) unless not scaled; OLOK: each row before "
        "it is learned; processor seconds",
        data="; ".join(sets),
        rows=rows,
        remarks=[
            "The published errors are on a scale that the paper does not state; ours are on outputs standardised by "
            "the first tenth of the rows, except where they are not scaled. Compare within a set.",
            "The paper counts 20 attributes for Parkinson: the 19 measured ones and subject#, the number of the "
            "person. With it, a model that sees shuffled rows may tell people apart. The synthetic set is described "
            "with noise of variance 0.01, which is above the published errors; both readings of both are shown.",
            "alpha = 3 on standardised outputs learns next to nothing; the settings that learn were chosen by the "
            "progressive error on the first tenth.",
            f"vv-RLS: width and alpha by five folds on {batch_rows} rows of the first order, then fitted on four "
            "fifths of all rows in each order, and tested on the rest. Parkinson rows come from 42 people and are "
            "shuffled here: for new people all methods are no better than the mean (see the reproduction "
            "`parkinsons`).",
            "With epsilon up to 0.3 the paper's t_0 exceeds these sets, and nothing is dropped. T-OLOK keeps the last "
            "points with a step size that decays on, as in the paper, or one that is held once the window is full.",
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
