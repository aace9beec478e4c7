"""Average loss and running time against rows on two classification streams: cod-rna and SUSY.

The projected forecaster with its features (a KORS dictionary, Taylor, Fourier) is compared with first-order learning,
other learners with bounded memory, and linear ridge regression, all on labels -1 and 1 with the squared loss, in one
pass. Inputs are standardised by the first 1000 rows.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ovk.features import KORS, Fourier, Nystrom, Taylor, Uniform
from ovk.kernels import Gaussian, Polynomial
from ovk.objectives import InverseSqrt
from ovk.online import OLOK, PKAWV
from reproduce.data import DatasetNotFound, load_codrna
from reproduce.online_rivals import FourierGradient, NystromGradient, SketchedNewton
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, data_directory, track

#: Rows by which inputs are standardised, and rows learned at a time.
FIRST, CHUNK = 1000, 2048
LENGTH, ALPHA = 3.0, 0.1
#: Rows on which step sizes are chosen, and the step sizes (of a second-order method: its alpha).
TUNING, SETTINGS = 8000, (0.01, 0.03, 0.1, 0.3, 1.0)
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999", "#000000")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (8, 2, 1, 2)), (0, (1, 1)), (0, (3, 1, 1, 1)))

Pieces = Iterable[tuple[Array, Array]]


class Curve(NamedTuple):
    """Loss and time of a learner against the number of rows."""

    rows: Array
    loss: Array  # mean squared error of all predictions so far
    mistakes: Array  # share of wrong signs
    seconds: Array


def learners(p: int, budget: int, degree: int) -> dict[str, Any]:
    """The contenders for inputs of p features; of those with a step size or alpha, a function of it."""
    kernel = Gaussian(LENGTH)
    return {
        f"PKAWV, KORS, {budget} points": PKAWV(kernel, ALPHA, Nystrom(KORS(mu=0.01), budget=budget), random_state=0),
        f"PKAWV, Taylor of degree {degree}": PKAWV(kernel, ALPHA, Taylor(degree)),
        f"PKAWV, Fourier, {budget} features": PKAWV(kernel, ALPHA, Fourier(budget // 2), random_state=0),
        f"OLOK, last {100 * budget} rows": OLOK(kernel, 1e-4, InverseSqrt(5.0), truncation=100 * budget),
        f"Fourier gradient descent, {budget} features": partial(FourierGradient, kernel, budget),
        f"Nystrom gradient descent, {budget} points": partial(NystromGradient, kernel, budget, budget),
        f"sketched Newton, {budget} Fourier features, rank {budget // 4}": partial(
            SketchedNewton, kernel, budget, budget // 4
        ),
        # The inputs themselves, and a constant.
        "linear": PKAWV(Polynomial(1), ALPHA, Nystrom(Uniform(size=3 * p), budget=p + 1), random_state=0),
    }


def settled(model: Any, X: Array, y: Array) -> Any:
    """The model, with the step size or alpha of least loss on the rows given; scores do not look at later rows."""
    if not callable(model):
        return model
    losses = []
    for setting in SETTINGS:
        with np.errstate(over="ignore", invalid="ignore"):
            loss = float(np.mean((model(setting).predict_then_learn(X, y) - y) ** 2))
        losses.append(loss if np.isfinite(loss) else np.inf)
    return model(SETTINGS[int(np.argmin(losses))])


def follow(model: Any, pieces: Pieces) -> Curve:
    """Predict, then learn, chunk by chunk."""
    n, loss, wrong, seconds = 0, 0.0, 0.0, 0.0
    points = []
    for X, y in pieces:
        start = time.perf_counter()
        F = model.predict_then_learn(X, y)
        seconds += time.perf_counter() - start
        n += len(y)
        loss += float(np.sum((F - y) ** 2))
        wrong += float(np.sum(F * y <= 0))
        points.append((n, loss / n, wrong / n, seconds))
    return Curve(*np.array(points).T)


def pieces(X: Array, y: Array) -> list[tuple[Array, Array]]:
    """Rows in pieces, standardised by the first ones."""
    spread = X[:FIRST].std(axis=0)
    X = (X - X[:FIRST].mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    return [(X[a : a + CHUNK], y[a : a + CHUNK]) for a in range(0, len(X), CHUNK)]


@reproduction("codrna", "Gaillard 2019, cod-rna: average loss and running time (figures, no numbers published)")
def codrna(data_home: str | Path | None = None, n: int | None = None, budget: int = 200) -> Result:
    """Average loss and running time against rows on cod-rna."""
    X, y = load_codrna(data_home=data_home, return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))[:n]
    parts = pieces(np.asarray(X)[order], np.asarray(y)[order].astype(np.float64))
    first = [np.concatenate(columns)[:TUNING] for columns in zip(*parts[: -(-TUNING // CHUNK)], strict=True)]
    models = {name: settled(model, *first) for name, model in learners(X.shape[1], budget, 3).items()}
    curves = {name: follow(model, parts) for name, model in track(list(models.items()), "codrna")}
    return _result(
        "cod-rna, one pass: average loss and running time",
        f"cod-rna, {len(order):,} rows shuffled; the public training part has 59,535 of the talk's 270,000",
        curves,
    )


@reproduction("susy", "Gaillard 2019, SUSY: average loss and running time (figures, no numbers published)")
def susy(data_home: str | Path | None = None, n: int = 200_000, budget: int = 200) -> Result:
    """Average loss and running time against rows on SUSY, if the file exists."""
    path = susy_file(data_home)
    first = [np.concatenate(columns) for columns in zip(*susy_pieces(path, min(n, TUNING)), strict=True)]
    models = {name: settled(model, *first) for name, model in learners(18, budget, 2).items()}
    curves = {name: follow(model, susy_pieces(path, n)) for name, model in track(list(models.items()), "susy")}
    return _result(
        "SUSY, one pass: average loss and running time",
        f"SUSY, the first {int(next(iter(curves.values())).rows[-1]):,} rows; the public file has 5,000,000 rows of 18 "
        "inputs where the talk says 6,000,000 and 22",
        curves,
    )


def susy_file(data_home: str | Path | None) -> Path:
    """The path of the SUSY file."""
    home = data_directory(data_home)
    for name in ("SUSY.csv.gz", "SUSY.csv"):
        if (home / "susy" / name).is_file():
            return home / "susy" / name
    raise DatasetNotFound(
        f"this reproduction needs susy/SUSY.csv.gz, not found in {home}: it is the data set SUSY of the UCI Machine "
        "Learning Repository (one line an event: label 0 or 1, then 18 numbers); put it there, or name the directory "
        "by data_home or the variable OVK_DATA"
    )


def susy_pieces(path: Path, n: int) -> Iterator[tuple[Array, Array]]:
    """Rows of the file in pieces, standardised by the first ones; labels -1 and 1."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else open(path) as file:
        moments, done = None, 0
        while done < n and (lines := list(islice(file, min(CHUNK, n - done)))):
            table = np.loadtxt(lines, delimiter=",", ndmin=2)
            if moments is None:
                moments = table[:FIRST, 1:].mean(axis=0), table[:FIRST, 1:].std(axis=0)
            done += len(table)
            yield (table[:, 1:] - moments[0]) / moments[1], 2.0 * table[:, 0] - 1.0


def _result(title: str, data: str, curves: dict[str, Curve]) -> Result:
    rows = []
    for name, curve in curves.items():
        cost = f"{curve.mistakes[-1]:.2%} wrong signs, {curve.seconds[-1]:.1f} s"
        rows.append(Row(name, float(curve.loss[-1]), setting=cost))
    return Result(
        title=title,
        measure="mean squared error of labels -1 and 1, each predicted before it was seen; small is good",
        data=data,
        rows=rows,
        remarks=[
            f"Gaussian kernel of length {LENGTH:g}, inputs standardised by the first {FIRST} rows, alpha = {ALPHA:g}. "
            "The step of OLOK was the best of five on 8,000 rows; it may keep 100 times as many rows.",
            f"Step sizes of gradient descent and alpha of the sketched Newton method are the best of {len(SETTINGS)} "
            f"on the first {TUNING:,} rows, which they know before the pass. Their features have the kernel of the "
            "projected forecaster and its budget.",
            "Seconds are of this machine and this run, reading not counted.",
        ],
        figures=_figures(curves),
    )


def _figures(curves: dict[str, Curve]) -> dict[str, Any]:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return {}
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, curve), colour, style in zip(curves.items(), COLOURS, STYLES, strict=False):
        left.plot(curve.rows, curve.loss, color=colour, linestyle=style, label=name)
        right.plot(curve.rows, curve.seconds, color=colour, linestyle=style)
    left.set_ylabel("average loss")
    right.set_ylabel("seconds")
    right.set_yscale("log")
    for ax in (left, right):
        ax.set_xlabel("rows")
        ax.locator_params(axis="x", nbins=5)
        ax.xaxis.set_major_formatter("{x:,.0f}")
        ax.grid(True, color="0.9", linewidth=0.6)
    figure.legend(loc="outside upper center", ncols=3, fontsize=8, frameon=False, handlelength=3.5)
    return {"loss-and-time": figure}
