"""Operator learning: Navier-Stokes and advection against published errors, Burgers and Darcy against small networks.

Published numbers are those of de Hoop, Huang, Qian and Stuart (2022), and of the kernel method of Batlle, Darcy,
Hosseini and Owhadi (2024), for the first two problems, whose distributions the generators follow. The
distributions of the other two differ between papers, so methods are only compared on the same draw: if torch is
installed, a small FNO and a DeepONet learn from the same pairs, each for `TIMES_OURS` times our time including tuning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import RidgeCV

from ovk import OperatorRidge
from ovk.curves import PrincipalComponents
from ovk.datasets import make_burgers
from reproduce import neural_operators
from reproduce.data import make_advection, make_darcy
from reproduce.operators_data import Pairs, Part, drawn, flows, kept, relative_error, with_noise
from reproduce.operators_pictures import picture_of_errors, picture_of_fields
from reproduce.registry import Result, Row, reproduction

SIZES = (1250, 2500, 5000, 10000, 20000)
#: Percent, by the number of training pairs.
PUBLISHED: dict[str, dict[str, dict[int, float]]] = {
    "Navier-Stokes": {
        "FNO": {1250: 0.50, 10000: 0.286, 20000: 0.26},
        "PCA-Net": {20000: 2.65},
        "linear": {20000: 5.41},
        "kernel": {20000: 0.127},
    },
    "advection": {
        "FNO": {1250: 13.7, 10000: 13.6, 20000: 13.5},
        "PCA-Net": {20000: 12.5},
        "linear": {20000: 11.34},
        "kernel": {20000: 11.64},
    },
}
#: Standard deviations of noise in outputs to learn from, relative to their root mean square.
NOISE = (0.0, 0.01, 0.05)
#: Training time of the networks relative to ours.
TIMES_OURS = 10.0
#: Problems whose distributions differ between papers.
PROBLEMS: tuple[tuple[str, Callable[..., Any], dict[str, Any]], ...] = (
    ("Burgers", make_burgers, {}),
    ("Darcy, two materials", make_darcy, {}),
    ("Darcy, smooth", make_darcy, {"smooth": True}),
)
REMARKS = [
    "Kernel, decay and ridge are chosen by leaving out one function at a time among at most 4,000 functions.",
    "Seconds are those of one processor; those of a prediction are of the fastest of three times all test functions.",
    "Navier-Stokes has one initial vorticity, drawn once; another draw is another problem, a little easier or "
    "harder than the published one.",
    "The points of advection are 1/199 apart, so that half a turn ends halfway between two of them: where a field "
    "jumps there, nothing tells which value is meant. That, and not the method, is most of every error.",
    f"FNO and DeepONet of Burgers and Darcy are small ones, trained on one core for {TIMES_OURS:g} times as long as "
    "ours took. Without torch their rows are left out.",
]


class Learned(NamedTuple):
    """Error of a fit in percent, and its cost in processor seconds."""

    error: float
    left_out: float
    fitting: float
    predicting: float


def learned(pairs: Pairs, n: int, noise: float = 0.0, **options: Any) -> tuple[Learned, OperatorRidge]:
    """`OperatorRidge` from the first n pairs, with noise on its outputs relative to their root mean square."""
    Y = with_noise(pairs.Y[:n], noise)
    start = time.process_time()
    model = OperatorRidge(input_grid=pairs.grid, output_grid=pairs.grid, **options).fit(pairs.X[:n], Y)
    fitting = time.process_time() - start
    seconds = []
    for _ in range(3):
        start = time.process_time()
        predicted = model.predict(pairs.X_test)
        seconds.append(time.process_time() - start)
    error = relative_error(predicted, pairs.Y_test)
    found = Learned(error, 100.0 * model.loo_error_, fitting, min(seconds) / len(pairs.X_test))
    return found, model


def linear_error(pairs: Pairs, n: int, noise: float = 0.0) -> float:
    """Linear ridge regression between the coordinates of the first n pairs, the ridge chosen by leave-one-out."""
    Y = with_noise(pairs.Y[:n], noise)
    inputs, outputs = PrincipalComponents.of(pairs.X[:n], pairs.grid), PrincipalComponents.of(Y, pairs.grid)
    Z, new = (inputs.coordinates(X) / inputs.unit for X in (pairs.X[:n], pairs.X_test))
    model = RidgeCV(n * np.logspace(-12, 0, 13)).fit(Z, outputs.coordinates(Y))
    return relative_error(outputs.functions(model.predict(new)), pairs.Y_test)


def curve(name: str, pairs: Pairs, sizes: Sequence[int], directory: Path | None) -> list[Part]:
    """Errors against the number of pairs, of ours and linear regression, with published errors."""

    def part(n: int) -> Part:
        ours, model = learned(pairs, n)
        rows = rows_of(name, n, ours, linear_error(pairs, n), model)
        return Part(rows, model.predict(pairs.X_test[:1])[0].tolist())

    return [kept(directory, f"{name}-{n}", partial(part, n)) for n in sizes]


def rows_of(name: str, n: int, ours: Learned, linear: float, model: Any) -> list[Row]:
    """Rows of the table for one number of pairs, with published errors."""
    known = PUBLISHED.get(name, {})
    setting = (
        f"{ours.fitting:.0f} s of fitting, {1e3 * ours.predicting:.2f} ms a prediction; left out {ours.left_out:.3g}%; "
    )
    setting += "; ".join(
        f"{k!r}, decay {p:g}, alpha {a:.0e}"
        for k, p, a in zip(model.kernels_, model.decays_, model.alphas_, strict=True)
    )
    rows = [
        Row(f"{name}, n = {n}: OperatorRidge", ours.error, known.get("kernel", {}).get(n), setting),
        Row(f"{name}, n = {n}: linear", linear, known.get("linear", {}).get(n)),
    ]
    rivals = [rival for rival in ("FNO", "PCA-Net") if n in known.get(rival, {})]
    return rows + [Row(f"{name}, n = {n}: {rival}", None, known[rival][n]) for rival in rivals]


def slope(name: str, errors: dict[int, float]) -> list[Row]:
    """Rate of decrease of the error."""
    if len(errors) < 2:
        return []
    rate = np.polyfit(np.log(list(errors)), np.log(list(errors.values())), 1)[0]
    return [Row(f"{name}: slope of log error against log n", float(rate))]


def from_noise(pairs: Pairs, n: int, noise: float) -> Part:
    """Ours from flows with noise in their outputs."""
    error = learned(pairs, n, noise)[0].error
    return Part([Row(f"Navier-Stokes, n = {n}, noise of {noise:.0%}: OperatorRidge", error)], [])


def beside_networks(name: str, draw: Callable[[], Pairs]) -> Part:
    """Ours, linear regression and, with torch, neural operators on the same pairs, at every level of noise."""
    rows, pairs = [], draw()
    n = len(pairs.X)
    for level in NOISE:
        label = f"{name}, n = {n}" + (f", noise of {level:.0%}" if level else "")
        ours, _ = learned(pairs, n, level)
        rows.append(Row(f"{label}: OperatorRidge", ours.error, None, f"{ours.fitting:.1f} s of fitting"))
        rows.append(Row(f"{label}: linear", linear_error(pairs, n, level)))
        seconds = TIMES_OURS * ours.fitting
        for rival, learn in neural_operators.RIVALS.items() if neural_operators.available() else ():
            predicted = learn(pairs.X, with_noise(pairs.Y, level), pairs.X_test, pairs.grid, seconds)
            error = relative_error(predicted, pairs.Y_test)
            rows.append(Row(f"{label}: {rival}", error, None, f"small, {seconds:.1f} s of training"))
    return Part(rows, [])


@reproduction("operators", "de Hoop et al. 2022; kernel results of Batlle et al. 2024")
def operators(
    data_home: str | Path | None = None,
    sizes: Sequence[int] = SIZES,
    shifts: Sequence[int] = SIZES,
    test: int = 200,
    size: int = 64,
    steps: int = 10,
    directory: str | Path | None = None,
    others: int = 200,
) -> Result:
    """Relative errors of learned operators against the number of pairs.

    Parameters
    ----------
    sizes, shifts : numbers of training flows and advected fields
    test : number of test pairs
    size, steps : of the flows; with 10 steps their relative error is about 2e-6
    directory : cache of flows and results, from which an interrupted run continues
    others : pairs of Burgers' and Darcy's equation
    """
    where = None if directory is None else Path(directory)
    flow = flows(max(sizes), test, where, size=size, steps=steps)
    # Testing advection is cheap, and its errors vary much between fields.
    fields = drawn(make_advection, max(shifts), 10 * test)
    rows: list[Row] = []
    example: list[float] = []
    found: dict[str, dict[str, dict[int, float]]] = {}
    for name, pairs, numbers in (("Navier-Stokes", flow, sizes), ("advection", fields, shifts)):
        parts = curve(name, pairs, numbers, where)
        rows += [row for part in parts for row in part.rows]
        errors = {row.name: row.ours for row in rows if row.ours is not None}
        found[name] = {
            method: {n: errors[f"{name}, n = {n}: {method}"] for n in numbers} for method in ("OperatorRidge", "linear")
        }
        rows += slope(name, found[name]["OperatorRidge"])
        example = example or parts[-1].example
    for noise in NOISE[1:]:
        rows += kept(where, f"Navier-Stokes-noise-{noise:g}", partial(from_noise, flow, min(sizes), noise)).rows
    for name, make, options in PROBLEMS:
        draw = partial(drawn, make, others, test, **options)
        rows += kept(where, f"{name}-{others}", partial(beside_networks, name, draw)).rows
    return Result(
        title="Operator learning: functions in, functions out",
        measure="mean relative L2 error in percent, small is good",
        data=f"generated, {test} functions to predict, {10 * test} of advection",
        rows=rows,
        remarks=REMARKS,
        figures={
            "errors": picture_of_errors(found, PUBLISHED),
            "fields": picture_of_fields(flow, np.array(example)),
        },
    )
