"""OLOK on real streams, compared with a ring-buffer loop, river and scikit-learn: rows/s and progressive errors.

All learners see the rows in the same order, standardised by the first tenth; their step size is the best of a few on
that tenth. There are 100 random features, the default of both libraries, of the same width as the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np

from benchmarks.data import patients
from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from benchmarks.ring_buffer import Array, RingBuffer
from ovk import OLOK
from ovk.kernels import Gaussian
from ovk.objectives import Constant
from ovk.online import Window
from ovk.operators import Dense
from reproduce.data import load_codrna

OURS, LOOP = "OLOK", "loop with a ring buffer"
RIVER, ROWS, CHUNKS = "river", "scikit-learn, row by row", "scikit-learn, chunks of 256"
FEATURES, CHUNK, ALPHA = 100, 256, 1e-3


class Learner(Protocol):
    def predict_then_learn(self, X: Array, Y: Array) -> Array: ...


class Stream(NamedTuple):
    """Rows in order, and the `error` of predictions."""

    name: str
    X: Array
    Y: Array
    T: Array
    error: Callable[[Array, Array], float]

    @property
    def tenth(self) -> int:
        return len(self.X) // 10


class SGD:
    """scikit-learn's random features and stochastic gradient descent, one model for each output."""

    def __init__(self, scale: float, outputs: int, eta: float, chunk: int) -> None:
        from sklearn.kernel_approximation import RBFSampler
        from sklearn.linear_model import SGDRegressor

        self.sampler = RBFSampler(gamma=0.5 / scale**2, n_components=FEATURES, random_state=0)
        self.models = [
            SGDRegressor(alpha=1e-6, learning_rate="constant", eta0=eta, random_state=0) for _ in range(outputs)
        ]
        self.chunk = chunk

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        Z = np.zeros_like(Y)
        self.sampler.fit(X[:1])
        for start in range(0, len(X), self.chunk):
            rows = slice(start, start + self.chunk)
            phi = self.sampler.transform(X[rows])
            for q, model in enumerate(self.models):
                if hasattr(model, "coef_"):
                    Z[rows, q] = model.predict(phi)
                model.partial_fit(phi, Y[rows, q])
        return Z


class River:
    """river's random features and linear regression, one for each output where there are several."""

    def __init__(self, scale: float, outputs: int, eta: float) -> None:
        from river import compose, feature_extraction, linear_model, multioutput, optim

        linear = linear_model.LinearRegression(optimizer=optim.SGD(eta), intercept_lr=eta)
        head = linear if outputs == 1 else multioutput.PerOutputRegressor(linear)
        sampler = feature_extraction.RBFSampler(gamma=0.5 / scale**2, n_components=FEATURES, seed=0)
        self.model = compose.Pipeline(sampler, head)

    def predict_then_learn(self, X: Array, Y: Array) -> Array:
        names, targets = [f"x{i}" for i in range(X.shape[1])], list(range(Y.shape[1]))
        Z = np.zeros_like(Y)
        for i, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)):
            row = dict(zip(names, x, strict=True))
            guess = self.model.predict_one(row)
            if len(targets) == 1:
                Z[i] = guess
                self.model.learn_one(row, y[0])
            else:
                Z[i] = [(guess or {}).get(q, 0.0) for q in targets]
                self.model.learn_one(row, dict(zip(targets, y, strict=True)))
        return Z


def streams(settings: Settings) -> Iterator[Stream]:
    """Parkinson (two outputs) and cod-rna (two classes, as -1 and 1)."""
    rows = settings.pick(toy=150, quick=3000, default=None)
    people = patients(settings)
    yield _ordered("parkinsons", people.X, people.Y, 0.9 * np.eye(2) + 0.1, _squared, rows)
    if settings.size == "toy":
        X = np.random.default_rng(0).standard_normal((150, 8))
        y = np.sign(X[:, :1])
    else:
        X, y = load_codrna(return_X_y=True)
    yield _ordered("cod-rna", X, np.asarray(y, dtype=float).reshape(-1, 1), np.eye(1), _mistakes, rows)


def _ordered(name: str, X: Array, Y: Array, T: Array, error: Callable[[Array, Array], float], n: int | None) -> Stream:
    order = np.random.default_rng(0).permutation(len(X))[:n]
    X, Y = X[order], Y[order]
    tenth = len(X) // 10
    X = (X - X[:tenth].mean(axis=0)) / X[:tenth].std(axis=0)
    if error is _squared:
        Y = (Y - Y[:tenth].mean(axis=0)) / Y[:tenth].std(axis=0)
    return Stream(name, X, Y, T, error)


def _squared(Y: Array, Z: Array) -> float:
    return float(np.mean((Y - Z) ** 2))


def _mistakes(Y: Array, Z: Array) -> float:
    return float(np.mean(np.sign(Z) != Y))


def makers(stream: Stream, scale: float, window: int) -> dict[str, tuple[list[float], Callable[[float], Learner]]]:
    """Candidate step sizes, and each learner with one of them."""
    p, d = stream.X.shape[1], stream.Y.shape[1]
    kernel = Gaussian(scale) * Dense(stream.T)
    # With a moving window, decreasing steps would shrink the function.
    steps, small = [0.03, 0.1, 0.3, 1.0], [0.003, 0.01, 0.03, 0.1]
    tiny = [1e-4, 3e-4, 1e-3, 3e-3]  # river's random features are ten times as large
    return {
        OURS: (steps, lambda eta: OLOK(kernel, ALPHA, Constant(eta), truncation=Window(window))),
        LOOP: (steps, lambda eta: RingBuffer(p, stream.T, 2.0 * scale**2, ALPHA, eta, window, constant=True)),
        RIVER: (tiny, lambda eta: River(scale, d, eta)),
        ROWS: (small, lambda eta: SGD(scale, d, eta, 1)),
        CHUNKS: (small, lambda eta: SGD(scale, d, eta, CHUNK)),
    }


def cases(settings: Settings) -> Iterator[Case]:
    """One case for each stream."""
    window = settings.pick(toy=50, quick=1000, default=1000)
    for stream in streams(settings):
        yield _case(stream, window, settings)


def _case(stream: Stream, window: int, settings: Settings) -> Case:
    first = slice(0, stream.tenth)
    scale = float(Gaussian().resolve(stream.X[first]).length_scale)
    chosen: dict[str, Callable[[], Learner]] = {}
    settings_found: dict[str, Any] = {"n": len(stream.X), "window": window, "length scale": round(scale, 3)}
    with np.errstate(over="ignore", invalid="ignore"):
        for name, (steps, make) in makers(stream, scale, window).items():

            def loss(eta: float, make: Callable[[float], Learner] = make) -> float:
                Z = make(eta).predict_then_learn(stream.X[first], stream.Y[first])
                value = stream.error(stream.Y[first], Z)
                return value if np.isfinite(value) else np.inf

            eta = min(steps, key=loss)
            chosen[name] = lambda eta=eta, make=make: make(eta)  # type: ignore[misc]
            settings_found[f"eta of {name}"] = eta
    errors: dict[str, float] = {}

    def run(name: str) -> None:
        errors[name] = stream.error(stream.Y, chosen[name]().predict_then_learn(stream.X, stream.Y))

    def checks(seconds: Seconds) -> list[Check]:
        loop = seconds[LOOP] / seconds[OURS]
        return [
            Check("at least 3 x the loop", loop, 3.0, at_least=True),
            Check("the loop's error", abs(errors[OURS] - errors[LOOP]), 1e-6),
            Check("at least the rows a second of river", seconds[RIVER] / seconds[OURS], 1.0, at_least=True),
        ]

    return Case(
        stream.name,
        settings_found,
        [Contender(name, lambda name=name: run(name)) for name in chosen],  # type: ignore[misc]
        settings.pick(toy=1, quick=1, default=2, long=5),
        checks,
        lambda: ({f"progressive error: {name}": value for name, value in errors.items()}, []),
        1,
    )


BENCHMARK = Benchmark("online_peers", "first-order learning beside river and scikit-learn", cases)
