"""Learners with default settings on streams: ovk, river, scikit-learn, and the last label.

Every learner predicts each row before it learns its label, with one configuration for all streams. The last three
streams were not used during development.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from benchmarks.harness import Benchmark, Case, Check, Contender, Seconds, Settings
from ovk.online import AutoStream, AutoStreamClassifier
from reproduce.data import load_codrna, load_elec2, load_household

Array = npt.NDArray[Any]
OURS, FOREST, LAST = "ovk", "river ARF", "no change"
SLOW = (FOREST, "river AMF", "river HAT", "river kNN")


class Stream(NamedTuple):
    """Rows in their order; the outputs are (n, d) numbers or (n,) labels.

    `bound` is the target for the error. Without `lag`, our learner runs alone and may not use the last label as an
    input; the others never do. Learners in `SLOW` are skipped if `slow` is false.
    """

    name: str
    X: Array
    Y: Array
    bound: float | None = None
    lag: bool = True
    slow: bool = True

    @property
    def classes(self) -> bool:
        return self.Y.ndim == 1

    def error(self, Z: Array, untested: int = 1) -> float:
        """Share of mistakes; mean over outputs of the mean squared error, over the variance where there are several.

        As in `ovk.progressive`, the first row does not count, since nothing can predict it.
        """
        Y, Z = self.Y[untested:], Z[untested:]
        if self.classes:
            return float(np.mean(Z != Y))
        errors = np.mean((Z - Y) ** 2, axis=0)
        return float(errors[0] if Y.shape[1] == 1 else np.mean(errors / self.Y.var(axis=0)))


def from_river(generators: list[tuple[Any, int]], *, classes: bool) -> tuple[Array, Array]:
    """Rows of generators of river, one after the other."""
    rows = [row for generator, n in generators for row in generator.take(n)]
    X = np.array([list(map(float, x.values())) for x, _ in rows])
    return X, np.array([int(y) for _, y in rows]) if classes else np.array([[float(y)] for _, y in rows])


def numbered(y: Any) -> Array:
    """Labels as 0, 1, ...: river's logistic regression treats other labels as true and predicts 0 and 1."""
    return np.unique(np.asarray(y), return_inverse=True)[1]


def lorenz(n: int) -> tuple[Array, Array]:
    """The first coordinate one step ahead, from its last six values."""

    def slope(s: Array) -> Array:
        return np.array([10.0 * (s[1] - s[0]), s[0] * (28.0 - s[2]) - s[1], s[0] * s[1] - 8.0 / 3.0 * s[2]])

    s, h, path = np.ones(3), 0.01, []
    for _ in range(2000 + n + 6):
        path.append(s[0])
        a = slope(s)
        b = slope(s + h / 2 * a)
        c = slope(s + h / 2 * b)
        s = s + h / 6 * (a + 2 * b + 2 * c + slope(s + h * c))
    x = np.array(path[2000:])
    return np.stack([x[5 - lag : 5 - lag + n] for lag in range(6)], axis=1), x[6:, None]


def household(n: int) -> tuple[Array, Array]:
    """Seven outputs from their last three values and the time of day; gaps are filled forward."""
    bunch = load_household(n_rows=n + 3)
    gaps = np.isnan(bunch.target).any(axis=1)
    Y = bunch.target[np.maximum.accumulate(np.where(gaps, 0, np.arange(len(gaps))))]
    angle = bunch.data[3:, 1:2] / 1440.0 * 2.0 * np.pi
    return np.hstack([Y[2:-1], Y[1:-2], Y[:-3], np.sin(angle), np.cos(angle)]), Y[3:]


def streams(settings: Settings) -> Iterator[Stream]:
    """All streams, shorter ones at quick size."""
    from river.datasets import synth

    n = settings.pick(toy=60, quick=4500, default=15_000)
    drifts = (n // 3, 2 * n // 3)
    yield Stream("lorenz", *lorenz(2 * n // 3), 0.14)  # -26.5 dB of the variance
    gra = synth.FriedmanDrift("gra", position=drifts, seed=1)
    yield Stream("friedman drift", *from_river([(gra, n)], classes=False), 2.2)
    plane = synth.Hyperplane(seed=1, n_features=10, n_drift_features=5, mag_change=0.001)
    yield Stream("hyperplane", *from_river([(plane, n)], classes=True), 0.070)
    sea = [(synth.SEA(variant=v, noise=0.1, seed=v), n // 4) for v in range(4)]
    yield Stream("sea", *from_river(sea, classes=True), 0.126)
    agrawal = [(synth.Agrawal(classification_function=f, seed=f), n // 3) for f in (0, 3, 6)]
    yield Stream("agrawal", *from_river(agrawal, classes=True), 0.075)
    if settings.size != "toy":
        long = settings.pick(toy=0, quick=5000, default=None)
        X, y = load_elec2(return_X_y=True)
        yield Stream("elec2", X[:long], numbered(y)[:long], 0.108)
        yield Stream("elec2, inputs alone", X[:long], numbered(y)[:long], 0.135, lag=False)
        X, y = load_codrna(return_X_y=True)
        # The file has six blocks of one class each, in which there is nothing to distinguish.
        order = np.random.default_rng(0).permutation(len(X))[: long or 30_000]
        yield Stream("cod-rna", X[order], numbered(y)[order], 0.073)
        # With a model for each of seven outputs, the slow learners take 90 minutes for 100,000 rows.
        yield Stream("household", *household(long or 100_000), 0.080, slow=settings.size != "default")
    yield Stream("planes (new)", *from_river([(synth.Planes2D(seed=1), n)], classes=False))
    drifting = synth.RandomRBFDrift(
        seed_model=1,
        seed_sample=1,
        n_classes=4,
        n_features=8,
        n_centroids=20,
        change_speed=0.0005,
        n_drift_centroids=10,
    )
    yield Stream("drifting centroids (new)", *from_river([(drifting, n)], classes=True))
    yield Stream("waveform (new)", *from_river([(synth.Waveform(seed=1), n)], classes=True))


def ours(stream: Stream, chunk: int = 1000) -> Array:
    """Our predictions, from chunks."""
    learner = AutoStreamClassifier(lag=stream.lag) if stream.classes else AutoStream(lag=stream.lag)
    cuts = range(0, len(stream.X), chunk)
    return np.concatenate([learner.predict_then_learn(stream.X[i : i + chunk], stream.Y[i : i + chunk]) for i in cuts])


def no_change(stream: Stream) -> Array:
    """The previous label."""
    first = stream.Y[:1] if stream.classes else np.zeros_like(stream.Y[:1])
    return np.concatenate([first, stream.Y[:-1]])


def river(stream: Stream, make: Callable[[], Any]) -> Array:
    """A learner of river, one for each output."""
    names = [f"x{j}" for j in range(stream.X.shape[1])]
    columns = [stream.Y] if stream.classes else list(stream.Y.T)
    models, Z = [make() for _ in columns], np.zeros((len(stream.X), len(columns)), dtype=stream.Y.dtype)
    for i, row in enumerate(stream.X.tolist()):
        x = dict(zip(names, row, strict=True))
        for j, (model, column) in enumerate(zip(models, columns, strict=True)):
            guess = model.predict_one(x)
            Z[i, j] = 0 if guess is None else guess
            model.learn_one(x, column[i].item())
    return Z[:, 0] if stream.classes else Z


def sklearn_linear(stream: Stream) -> Array:
    """scikit-learn's scaler and gradient descent, row by row."""
    from sklearn.linear_model import SGDClassifier, SGDRegressor
    from sklearn.preprocessing import StandardScaler

    columns = [stream.Y] if stream.classes else list(stream.Y.T)
    Z = np.zeros((len(stream.X), len(columns)), dtype=stream.Y.dtype)
    scaler = StandardScaler()
    labels = np.unique(stream.Y) if stream.classes else None
    models = [SGDClassifier(random_state=0) if stream.classes else SGDRegressor(random_state=0) for _ in columns]
    for i in range(len(stream.X)):
        x = stream.X[i : i + 1]
        x = scaler.partial_fit(x).transform(x)
        for j, (model, column) in enumerate(zip(models, columns, strict=True)):
            if i:
                Z[i, j] = model.predict(x)[0]
            model.partial_fit(x, column[i : i + 1], **({"classes": labels} if stream.classes else {}))
    return Z[:, 0] if stream.classes else Z


def rivals(stream: Stream) -> dict[str, Callable[[], Array]]:
    """Default learners of other libraries that support the stream."""
    from river import forest, linear_model, neighbors, preprocessing, tree

    def scaled(model: Any) -> Any:
        return preprocessing.StandardScaler() | model

    if stream.classes:
        linear = linear_model.SoftmaxRegression if len(np.unique(stream.Y)) > 2 else linear_model.LogisticRegression
        made: dict[str, Callable[[], Any]] = {
            FOREST: lambda: forest.ARFClassifier(seed=1),
            "river AMF": lambda: forest.AMFClassifier(seed=1),
            "river HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
            "river kNN": lambda: scaled(neighbors.KNNClassifier()),
            "river linear": lambda: scaled(linear()),
        }
    else:
        made = {
            FOREST: lambda: forest.ARFRegressor(seed=1),
            "river AMF": lambda: forest.AMFRegressor(seed=1),
            "river HAT": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=1),
            "river kNN": lambda: scaled(neighbors.KNNRegressor()),
            "river linear": lambda: scaled(linear_model.LinearRegression()),
        }
    found = {
        name: lambda make=make: river(stream, make) for name, make in made.items() if stream.slow or name not in SLOW
    }
    return {**found, "scikit-learn linear": lambda: sklearn_linear(stream), LAST: lambda: no_change(stream)}  # type: ignore[dict-item]


def cases(settings: Settings) -> Iterator[Case]:
    """One case for each stream."""
    for stream in streams(settings):
        yield _case(stream)


def _case(stream: Stream) -> Case:
    errors: dict[str, float] = {}
    first: dict[str, float] = {}
    runs: dict[str, Callable[[], Array]] = {OURS: lambda: ours(stream), **(rivals(stream) if stream.lag else {})}

    def run(name: str) -> None:
        with np.errstate(all="ignore"):
            Z = runs[name]()
            errors[name], first[name] = stream.error(Z), stream.error(Z, untested=0)

    def checks(seconds: Seconds) -> list[Check]:
        if FOREST not in seconds:
            return []
        return [Check("times the rows a second of river's forest", seconds[FOREST] / seconds[OURS], 2.5, at_least=True)]

    def scores() -> tuple[dict[str, Any], list[Check]]:
        finite = {name: error if np.isfinite(error) else np.inf for name, error in errors.items()}
        rank = 1 + sum(error < finite[OURS] for error in finite.values())
        targets = [] if stream.bound is None else [Check("error", errors[OURS], stream.bound)]
        found = {f"error: {name}": error for name, error in errors.items()}
        return {**found, "our rank": rank, "our error with the first row": first[OURS]}, targets

    contenders = [Contender(name, lambda name=name: run(name)) for name in runs]  # type: ignore[misc]
    return Case(stream.name, {"n": len(stream.X), "p": stream.X.shape[1]}, contenders, 1, checks, scores, 1)


BENCHMARK = Benchmark("streams", "learners without settings on streams", cases)
