"""Many kernels on a stream: forecasters of learners, one function with all kernels, and a batch fit.

The OLOK paper mentions many kernels on a stream as future work. Rows are predicted, then learned; the best learner, the
best convex combination and the right kernels are known only in hindsight.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.optimize import nnls

from ovk import OLOK, MovKLCV, OnlineMovKL
from ovk.kernels import Gaussian
from ovk.online import MLPoly
from ovk.operators import Identity, MixedEffect
from ovk.ovkernels import OperatorKernel, WeightedSum
from reproduce.data import available, load_parkinsons
from reproduce.registry import Result, Row, reproduction
from reproduce.support import Array, track

LEARNER = OLOK(alpha=1e-3, schedule="auto", warm_up=0)
#: A width at which a Gaussian kernel ignores an input.
BLIND = 1e4


class Stream(NamedTuple):
    """Rows of length at most `bound`, kernels, whether their mean also has a learner, and sets of right kernels."""

    X: Array
    Y: Array
    kernels: list[OperatorKernel]
    bound: float
    even: bool = True
    right: tuple[tuple[int, ...], ...] = ()


def made(kind: str, n: int, rng: np.random.Generator) -> Stream:
    """Two inputs, two outputs that follow g(x_1) h(x_2) or g(x_1) + h(x_2), kernels on either input and on both.

    >>> made("product", 5, np.random.default_rng(0)).Y.shape
    (5, 2)
    """
    X = rng.uniform(-2, 2, (n, 2))
    g, h = np.sin(2 * X[:, 0]), np.cos(2 * X[:, 1])
    f = (g * h if kind == "product" else (g + h) / 2)[:, None] * [0.6, -0.4]
    Y = f + 0.1 * rng.standard_normal((n, 2))
    Y /= np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1.0)
    # A Gaussian kernel of both inputs is the product of one on each.
    widths = [(w, BLIND) for w in (0.3, 1.0)] + [(BLIND, w) for w in (0.3, 1.0)] + [(w, w) for w in (0.3, 1.0)]
    kernels: list[OperatorKernel] = [Gaussian(np.array(width)) * Identity(2) for width in widths]
    right = ((4,), (5,)) if kind == "product" else ((0, 2), (0, 3), (1, 2), (1, 3))
    return Stream(X, Y, kernels, 1.0, right=right)


def people(data_home: str | Path | None, n: int) -> Stream:
    """The two scores of Parkinson's disease, shuffled rows, standardised by the first 500 and cut to length 4."""
    X, Y = (np.asarray(part, dtype=np.float64) for part in load_parkinsons(data_home=data_home, return_X_y=True))
    rows = np.random.default_rng(0).permutation(len(X))[:n]
    X, Y = ((part[rows] - part[rows[:500]].mean(axis=0)) / part[rows[:500]].std(axis=0) for part in (X, Y))
    Y *= np.minimum(1.0, 4.0 / np.maximum(np.linalg.norm(Y, axis=1, keepdims=True), 1e-300))
    kernels = [
        Gaussian(width) * operator for width in (1.0, 3.0, 10.0) for operator in (Identity(2), MixedEffect(0.9, 2))
    ]
    return Stream(X, Y, kernels, 4.0)


def best_combination(Z: Array, Y: Array) -> Array:
    """Weights q >= 0 with sum 1 that minimise |sum_k q_k z_k - y|^2 over all rows; Z is (k, n, d).

    >>> Y = np.array([[1.0], [2.0]])
    >>> best_combination(np.stack([Y - 1.0, Y + 1.0]), Y).round(6)
    array([0.5, 0.5])
    """
    A, y = Z.reshape(len(Z), -1).T, Y.ravel()
    # A row with a large weight enforces the sum 1.
    heavy = 1e4 * float(np.sqrt((A**2).sum()))
    q, _ = nnls(np.vstack([A, np.full((1, len(Z)), heavy)]), np.append(y, heavy))
    return np.asarray(q / q.sum())


def errors(stream: Stream) -> tuple[dict[str, float], float]:
    """Mean squared errors of all, and the bound on the regret against the best combination."""
    X, Y, kernels, bound, even, right = stream
    n, half = len(X), len(X) // 2
    competitors = [*kernels, *[WeightedSum(kernels, np.full(len(kernels), 1.0 / len(kernels)))] * even]
    Z = np.stack([LEARNER.replace(kernel=kernel).predict_then_learn(X, Y) for kernel in competitors])
    Z *= np.minimum(1.0, bound / np.maximum(np.linalg.norm(Z, axis=2, keepdims=True), 1e-300))

    def error(F: Array, rows: slice = slice(None)) -> float:
        return float(((F - Y)[rows] ** 2).sum(axis=1).mean())

    combined = np.einsum("k,knd->nd", best_combination(Z, Y), Z)
    found = {
        "the best learner, known afterwards": min(error(F) for F in Z),
        "the best combination, known afterwards": error(combined),
        "even weights of all learners": error(Z.mean(axis=0)),
        "MLPoly": error(MLPoly().predict_then_learn(np.moveaxis(Z, 0, 1), Y)),
    }
    if right:
        sums = [WeightedSum([kernels[k] for k in some], np.ones(len(some))) for some in right]
        found["OLOK with the right kernels"] = min(
            error(LEARNER.replace(kernel=kernel).predict_then_learn(X, Y)) for kernel in sums
        )
    late = slice(half, None)
    for against in ("learners", "combinations", "sums"):
        F = OnlineMovKL(kernels, bound=bound, even=even, against=against).predict_then_learn(X, Y)
        found[f"OnlineMovKL, against {against}"] = error(F)
        found[f"second half: OnlineMovKL, against {against}"] = error(F, late)
    found["second half: the best combination, known afterwards"] = error(combined, late)
    # At most 400 rows: the batch fit shows the benefit of a combination within one function.
    some = np.random.default_rng(0).permutation(half)[:400]
    batch = MovKLCV(kernels, np.logspace(-2, 1, 4), folds=5).fit(X[some], Y[some])
    found["second half: MovKL, learned from 400 rows of the first"] = float(
        ((batch.predict(X[late]) - Y[late]) ** 2).sum(axis=1).mean()
    )
    return found, 8.0 * bound**2 * float(np.sqrt(np.log(len(Z)) / n))


@reproduction("online_kernels", "Many kernels on a stream, named as future work by Audiffren and Kadri 2015")
def online_kernels(data_home: str | Path | None = None, n: int = 3000) -> Result:
    """Mean squared errors of the forecaster, of its learners and of the best combination of them."""
    streams = {kind: made(kind, n, np.random.default_rng(0)) for kind in ("product", "sum")}
    X, Y, kernels, bound, _, right = streams["sum"]
    streams["sum, each learner sees one input"] = Stream(X, Y, kernels[:4], bound, even=False, right=right)
    if available(data_home)["parkinsons"]:
        streams["Parkinson"] = people(data_home, n)
    rows = []
    for name, stream in track(list(streams.items()), "streams"):
        found, allowed = errors(stream)
        rows += [Row(f"{name}: {way}", value, setting=f"{n:,} rows") for way, value in found.items()]
        excess = found["OnlineMovKL, against combinations"] - found["the best combination, known afterwards"]
        rows.append(Row(f"{name}: excess of OnlineMovKL over the best combination", excess, setting=f"{n:,} rows"))
        rows.append(Row(f"{name}: excess that its bound allows", allowed, setting="8 B^2 sqrt(ln m / T)"))
    return Result(
        title="Many kernels on a stream: learners, combinations, and the batch",
        measure="mean squared length of the error of each row, predicted before it was learned; small is good",
        data="generated outputs g(x1) h(x2) and g(x1) + h(x2), noise 0.1; Parkinson's telemonitoring, shuffled",
        rows=rows,
        remarks=[
            "A learner for each kernel, and one for their even sum except where learners see one input. The best "
            "learner and the best combination, whose weights are fixed, are computed from all outputs; nobody could "
            "have had them.",
            "The bound is about combinations of predictions: 8 B^2 sqrt(T ln m) over T rows. Against sums, there is "
            "one function with all kernels, as in the batch, which is shown for the second half of the rows.",
            "The right kernels are one of each input on the sum, one of both on the product, the best widths of the "
            "set, with equal weights in one OLOK.",
            "MLPoly weighs the same predictions for each output by itself, without being given a bound.",
            "No number was published: the paper names the problem as future work.",
        ],
    )
