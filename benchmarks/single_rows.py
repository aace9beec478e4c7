"""One row at a time: cost of a call compared with the same mathematics in plain NumPy.

The references have no validation, scaling, transactions or options: they are a lower bound for a Python interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dtrsv
from scipy.linalg.lapack import dpotrf
from sklearn.base import clone

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk import KAWV, OLOK, PKAWV, AutoStream, OLOKClassifier, PKAWVClassifier
from ovk.features import Given, Nystrom
from ovk.kernels import Gaussian

Array = npt.NDArray[np.float64]

TWIN, RIVER = "plain NumPy", "river adapter"
WIDTH, ALPHA, BLOCK = 3.0, 1.0, 128
#: Rows of a round.
ROWS = 128


class RidgeTwin:
    """The projected forecaster on m points, by the growing factor of a block of rows."""

    def __init__(self, points: Array) -> None:
        m = len(points)
        self.points, self.S, self.B = points, np.zeros((m, m)), np.zeros(m)
        L = np.linalg.cholesky(self._kernel(points[:, None]) + 1e-9 * np.eye(m))
        self.whitening = np.linalg.inv(L)
        self._start()

    def _kernel(self, x: Array) -> Array:
        difference = self.points - x
        return np.exp((-0.5 / WIDTH**2) * np.einsum("...ij,...ij->...i", difference, difference))

    def _start(self) -> None:
        m = len(self.B)
        self.root = dpotrf(self.S + ALPHA * np.eye(m), lower=1)[0]
        self.z = dtrsv(self.root, self.B, lower=1)
        self.U, self.Phi, self.y, self.e = (np.empty(shape) for shape in ((BLOCK, m), (BLOCK, m), BLOCK, BLOCK))
        self.C, self.n = np.zeros((BLOCK, BLOCK), order="F"), 0

    def _parts(self, x: Array) -> tuple[Array, Array, Array, float, float]:
        n = self.n
        phi = self.whitening @ self._kernel(x)
        u = dtrsv(self.root, phi, lower=1)
        w = dtrsv(self.C[:n, :n], self.U[:n] @ u, lower=1) if n else u[:0]
        return phi, u, w, float(u @ self.z + w @ self.e[:n]), 1.0 + float(u @ u - w @ w)

    def predict(self, x: Array) -> float:
        *_, ridge, pivot = self._parts(x)
        return ridge / pivot

    def learn(self, x: Array, y: float) -> float:
        n = self.n
        phi, u, w, ridge, pivot = self._parts(x)
        c = pivot**0.5
        self.Phi[n], self.U[n], self.y[n], self.C[n, :n], self.C[n, n], self.e[n] = phi, u, y, w, c, (y - ridge) / c
        self.n += 1
        if self.n == BLOCK:
            self.S += self.Phi.T @ self.Phi
            self.B += self.Phi.T @ self.y
            self._start()
        return ridge / pivot


class ExactTwin:
    """The exact forecaster, by the growing factor of all rows."""

    def __init__(self, most: int, p: int) -> None:
        self.X, self.e, self.C, self.n = np.empty((most, p)), np.empty(most), np.zeros((most, most), order="F"), 0

    def _parts(self, x: Array) -> tuple[Array, float, float]:
        difference = self.X[: self.n] - x
        k = np.exp((-0.5 / WIDTH**2) * np.einsum("ij,ij->i", difference, difference)) / ALPHA
        w = dtrsv(self.C[: self.n, : self.n], k, lower=1) if self.n else k
        return w, float(w @ self.e[: self.n]), 1.0 + 1.0 / ALPHA - float(w @ w)

    def predict(self, x: Array) -> float:
        _, ridge, pivot = self._parts(x)
        return ridge / pivot

    def learn(self, x: Array, y: float) -> float:
        n = self.n
        w, ridge, pivot = self._parts(x)
        self.X[n], self.C[n, :n], self.C[n, n], self.e[n] = x, w, pivot**0.5, (y - ridge) / pivot**0.5
        self.n += 1
        return ridge / pivot


class GradientTwin:
    """Gradient steps on a ring of the last points."""

    def __init__(self, window: int, p: int) -> None:
        self.X, self.A, self.window, self.t = np.zeros((window, p)), np.zeros(window), window, 0

    def predict(self, x: Array) -> float:
        difference = self.X - x
        return float(np.exp((-0.5 / WIDTH**2) * np.einsum("ij,ij->i", difference, difference)) @ self.A)

    def learn(self, x: Array, y: float) -> float:
        z = self.predict(x)
        self.t += 1
        eta = min(self.t, self.window) ** -0.5
        self.A *= 1.0 - 1e-3 * eta
        place = self.t % self.window
        self.X[place], self.A[place] = x, eta * (y - z)
        return z


def cases(settings: Settings) -> Iterator[Case]:
    """Learning and predicting, second and first order, and through river's interface."""
    rng = np.random.default_rng(0)
    first, rounds = settings.pick(toy=150, quick=1000, default=1000), settings.pick(toy=1, quick=20, default=60)
    n = first + (rounds + 1) * ROWS
    X = rng.standard_normal((n, 8))
    y = np.sin(X[:, 0]) + 0.5 * X[:, 1] ** 2 + 0.1 * rng.standard_normal(n)
    m, window = settings.pick(toy=20, quick=100, default=100), settings.pick(toy=50, quick=500, default=500)
    kernel, features = Gaussian(WIDTH), Nystrom(Given(X[:m]))
    regressors = {
        f"PKAWV, m={m}": (PKAWV(kernel, ALPHA, features), RidgeTwin(X[:m]), 80, 60),
        f"OLOK, window {window}": (OLOK(kernel, truncation=window), GradientTwin(window, 8), 80, 80),
    }
    for name, (model, twin, learn, predict) in regressors.items():
        yield from _regression(name, model, twin, (X, y), first, rounds, (learn, predict))
    begin, few = min(first, 300), settings.pick(toy=1, quick=3, default=3)
    some = begin + (few + 1) * ROWS
    exact = KAWV(kernel, ALPHA), ExactTwin(some, 8), (X[:some], y[:some])
    yield from _regression(f"KAWV, {begin} rows and more", *exact, begin, few, (None, None))
    yield _classification(kernel, features, window, (X, y > 0.5), first, rounds)
    yield _without_settings(settings, X, y)


def _regression(
    name: str,
    model: Any,
    twin: Any,
    rows: tuple[Array, Array],
    first: int,
    rounds: int,
    limits: tuple[int | None, int | None],
) -> Iterator[Case]:
    """Learning and predicting; at sizes where arithmetic dominates, only the ratio is reported."""
    from ovk.online.river import RiverRegressor

    X, y = rows
    adapter = RiverRegressor(clone(model))
    model.partial_fit(X[:first], y[:first])
    names = [f"x{j}" for j in range(X.shape[1])]
    dicts = [dict(zip(names, x, strict=True)) for x in X.tolist()]
    for x, label in zip(dicts[:first], y[:first].tolist(), strict=True):
        adapter.learn_one(x, label)
    for x, label in zip(X[:first], y[:first].tolist(), strict=True):
        twin.learn(x, label)
    for number, (what, limit) in enumerate(zip(("learn", "predict"), limits, strict=True)):

        def each(step: Callable[[int], Any]) -> Callable[[], None]:
            place = iter(range(first, len(X) - ROWS, ROWS))

            def run() -> None:
                start = next(place)
                for i in range(start, start + ROWS):
                    step(i)

            return run

        steps: dict[str, Callable[[int], Any]] = (
            {
                "ovk": lambda i: model.partial_fit(X[i : i + 1], y[i : i + 1]),
                TWIN: lambda i: twin.learn(X[i], y[i]),
                RIVER: lambda i: adapter.learn_one(dicts[i], y[i]),
            }
            if number == 0
            else {
                "ovk": lambda i: model.predict(X[i : i + 1]),
                TWIN: lambda i: twin.predict(X[i]),
                RIVER: lambda i: adapter.predict_one(dicts[i]),
            }
        )

        def checks(seconds: Seconds, what: str = what, limit: int | None = limit) -> list[Check]:
            each_row = {contender: 1e6 * spent / ROWS for contender, spent in seconds.items()}
            ratio = Check("times plain NumPy", each_row["ovk"] / each_row[TWIN], 2.5)
            if limit is None:
                return [ratio]
            return [
                Check(f"us a row to {what}", each_row["ovk"], limit),
                ratio,
                Check("us a row through river's interface", each_row[RIVER], 150),
            ]

        contenders = [Contender(contender, each(step)) for contender, step in steps.items()]
        yield Case(f"{name}: {what}", {"rows": ROWS, "p": X.shape[1]}, contenders, rounds, checks, threads=1)


def _classification(kernel: Gaussian, features: Nystrom, window: int, rows: Any, first: int, rounds: int) -> Case:
    """Comparison of the classifiers."""
    X, labels = rows
    models = {
        "PKAWVClassifier": PKAWVClassifier(kernel, ALPHA, features),
        "OLOKClassifier": OLOKClassifier(kernel, truncation=window),
    }
    for model in models.values():
        model.partial_fit(X[:first], labels[:first], classes=[False, True])

    def run(model: Any) -> None:
        for i in range(first, first + ROWS):
            model.partial_fit(X[i : i + 1], labels[i : i + 1])

    def checks(seconds: Seconds) -> list[Check]:
        return [Check(f"us a row to learn, {name}", 1e6 * spent / ROWS, 80) for name, spent in seconds.items()]

    contenders = [Contender(name, lambda model=model: run(model)) for name, model in models.items()]  # type: ignore[misc]
    return Case("classifiers: learn", {"rows": ROWS, "p": X.shape[1]}, contenders, rounds, checks, threads=1)


def _without_settings(settings: Settings, X: Array, y: Array) -> Case:
    """`AutoStream` compared with river's forest: every row is predicted, then learned."""
    from river import forest

    first, rows = settings.pick(toy=100, quick=700, default=2500), settings.pick(toy=10, quick=100, default=300)
    X, y = np.resize(X, (first + rows, X.shape[1])), np.resize(y, first + rows)
    ours, theirs = AutoStream().partial_fit(X[:first], y[:first]), forest.ARFRegressor(seed=1)
    dicts = [dict(enumerate(x)) for x in X.tolist()]
    for x, label in zip(dicts[:first], y[:first].tolist(), strict=True):
        theirs.learn_one(x, label)

    def each_of_theirs() -> None:
        for i in range(first, first + rows):
            theirs.predict_one(dicts[i])
            theirs.learn_one(dicts[i], y[i])

    def each_of_ours() -> None:
        for i in range(first, first + rows):
            ours.predict_then_learn(X[i : i + 1], y[i : i + 1])

    def checks(seconds: Seconds) -> list[Check]:
        return [Check("times river's forest", seconds["AutoStream"] / seconds["river ARF"], 1.0)]

    contenders = [Contender("AutoStream", each_of_ours), Contender("river ARF", each_of_theirs)]
    return Case("without settings: predict and learn", {"rows": rows}, contenders, 3, checks, threads=1)


BENCHMARK = Benchmark("single_rows", "one row at a time, beside plain NumPy", cases)
