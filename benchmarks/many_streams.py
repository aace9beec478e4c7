"""``python -m benchmarks.many_streams results.jsonl [--rows 1000] [--part 0/2]``: 24 streams under three conditions.

Each stream is also run with 80% of the labels missing and with labels delayed by `DELAY` rows. All learners have their
defaults. Results that the file already has are not computed again; without `--part`, a table is printed afterwards and
``--figure PATH`` draws it. The list of streams was fixed before the first run.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Settings
from benchmarks.streams import FOREST, LAST, OURS, Array, Stream, from_river, numbered, streams
from ovk.online import AutoStream, AutoStreamClassifier
from reproduce.data import load_wine

DELAY, MISSING = 200, 0.8
CONDITIONS = ("all labels", "80% missing", f"delay {DELAY}")
#: Rows that our learner processes at once with delayed labels; a label is never learned early.
BLOCK = 20
#: Outputs of a stream that are learned: learners of river have one model for each.
MAX_OUTPUTS = 2
LEAST = 1e-6


class _Rows(Settings):
    """Settings of streams with a given number of rows."""

    def __init__(self, rows: int) -> None:
        super().__init__(size="quick")
        object.__setattr__(self, "rows", rows)

    def pick(self, **_: Any) -> Any:
        """The number of rows."""
        return vars(self)["rows"]


def all_streams(rows: int) -> Iterator[Stream]:
    """The streams of `benchmarks.streams`, further synthetic ones with changes, and six real ones."""
    import river.datasets
    from river.datasets import synth

    datasets: Any = river.datasets

    for stream in streams(_Rows(rows)):
        if stream.lag:
            yield stream if stream.classes else stream._replace(Y=stream.Y[:, :MAX_OUTPUTS])
    third = rows // 3

    def parts(*generators: Any) -> tuple[Array, Array]:
        return from_river([(one, third) for one in generators], classes=True)

    thirds = (third, 2 * third)
    yield Stream(
        "friedman, local and abrupt",
        *from_river(
            [(synth.FriedmanDrift("lea", position=(third // 2, third, 2 * third), seed=5), rows)], classes=False
        ),
    )
    yield Stream(
        "friedman, gradual",
        *from_river(
            [(synth.FriedmanDrift("gsg", position=thirds, transition_window=third // 3, seed=5), rows)], classes=False
        ),
    )
    yield Stream(
        "sine, recurring", *parts(*(synth.Sine(classification_function=f, seed=5 + i) for i, f in enumerate((0, 1, 0))))
    )
    yield Stream(
        "mixed, recurring",
        *parts(*(synth.Mixed(classification_function=f, seed=5 + i) for i, f in enumerate((0, 1, 0)))),
    )
    yield Stream(
        "stagger, abrupt",
        *from_river([(synth.STAGGER(classification_function=f, seed=5), third) for f in (0, 1, 2)], classes=True),
    )
    led = synth.LEDDrift(seed=5, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4)
    yield Stream("led, drifting inputs", *from_river([(led, rows)], classes=True))
    yield Stream(
        "random tree, abrupt",
        *parts(*(synth.RandomTree(seed_tree=s, seed_sample=s, n_cat_features=2) for s in (5, 6, 7))),
    )
    for name, data in (
        ("bananas", datasets.Bananas()),
        ("phishing", datasets.Phishing()),
        ("segments", datasets.ImageSegments()),
    ):
        kept = list(data.take(rows))
        yield Stream(
            name, np.array([list(map(float, x.values())) for x, _ in kept]), numbered([str(y) for _, y in kept])
        )
    flow = np.array([y for _, y in datasets.WaterFlow()])[:rows]
    hours = np.array([x["Time"].hour + x["Time"].minute / 60.0 for x, _ in datasets.WaterFlow()])[:rows] * (
        2.0 * np.pi / 24.0
    )
    yield Stream("water flow", np.stack([np.sin(hours), np.cos(hours)], axis=1), flow[:, None])
    approval = list(datasets.TrumpApproval())[:rows]
    yield Stream(
        "approval", np.array([list(map(float, x.values())) for x, _ in approval]), np.array([[y] for _, y in approval])
    )
    X, y = load_wine(return_X_y=True)
    yield Stream("wine", X[:rows], np.reshape(y, (len(X), -1))[:rows].astype(float))


def learned_rows(n: int, condition: str) -> Array:
    """(n,) mask of the rows whose labels are learned; the first one always is."""
    known = np.ones(n, dtype=bool)
    if condition == CONDITIONS[1]:
        known = np.random.default_rng(0).uniform(size=n) >= MISSING
    known[0] = True
    return known


def ours(stream: Stream, known: Array, delay: int) -> Array:
    """Our predictions: (n, k) probabilities of the classes, or (n, d) numbers; nan before the first label."""
    classes = np.unique(stream.Y) if stream.classes else None
    model: Any = AutoStreamClassifier() if stream.classes else AutoStream()
    Y = stream.Y.astype(float)
    Y[~known] = np.nan
    labels = Y.astype(object) if stream.classes else Y
    if stream.classes:
        labels[~known] = None
    Z = np.full((len(Y), len(classes)) if classes is not None else Y.shape, np.nan)
    extra = {} if classes is None else {"classes": classes.astype(float)}
    if not delay:
        learn = model.predict_proba_then_learn if stream.classes else model.predict_then_learn
        for start in range(0, len(Y), 500):
            rows = slice(start, start + 500)
            Z[rows] = learn(stream.X[rows], labels[rows], **extra)
        return Z
    last, fitted = np.empty(labels.shape, dtype=labels.dtype), False
    last[:] = None if stream.classes else np.nan
    raw = Z.copy()
    for start in range(0, len(Y), BLOCK):
        old, rows = slice(start - delay - BLOCK, start - delay), slice(start, start + BLOCK)
        if old.start >= 0:
            if stream.classes:
                extra["predicted"] = raw[old]
            model.partial_fit_late(stream.X[old], labels[old], last[old], **extra)
            fitted = True
        if fitted:
            if stream.classes:
                raw[rows] = model.predict_proba(stream.X[rows], tempered=False)
                Z[rows] = model.temper(raw[rows])
            else:
                Z[rows] = model.predict(stream.X[rows])
            last[rows] = model.last_label_
    return Z


def rivals(stream: Stream) -> dict[str, Callable[[], Any]]:
    """Default learners of river; None predicts the last label."""
    from river import ensemble, forest, linear_model, neighbors, preprocessing, tree

    def scaled(model: Any) -> Any:
        return preprocessing.StandardScaler() | model

    if stream.classes:
        linear = linear_model.SoftmaxRegression if len(np.unique(stream.Y)) > 2 else linear_model.LogisticRegression
        return {
            FOREST: lambda: forest.ARFClassifier(seed=1),
            "river SRP": lambda: ensemble.SRPClassifier(seed=1),
            "river AMF": lambda: forest.AMFClassifier(seed=1),
            "river HAT": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
            "river kNN": lambda: scaled(neighbors.KNNClassifier()),
            "river linear": lambda: scaled(linear()),
            LAST: lambda: None,
        }
    return {
        FOREST: lambda: forest.ARFRegressor(seed=1),
        "river SRP": lambda: ensemble.SRPRegressor(seed=1),
        "river AMF": lambda: forest.AMFRegressor(seed=1),
        "river HAT": lambda: tree.HoeffdingAdaptiveTreeRegressor(seed=1),
        "river kNN": lambda: scaled(neighbors.KNNRegressor()),
        "river linear": lambda: scaled(linear_model.LinearRegression()),
        LAST: lambda: None,
    }


def theirs(stream: Stream, make: Callable[[], Any], known: Array, delay: int) -> Array:
    """Predictions of a learner of river, one for each output, row by row, as in `ours`."""
    names = [f"x{j}" for j in range(stream.X.shape[1])]
    inputs = [dict(zip(names, row, strict=True)) for row in stream.X.tolist()]
    columns = [stream.Y] if stream.classes else list(stream.Y.T)
    Z = np.full((len(inputs), len(np.unique(stream.Y)) if stream.classes else len(columns)), np.nan)
    for j, column in enumerate(columns):
        model, last = make(), column[0].item()
        for i, x in enumerate(inputs):
            if model is None:
                Z[i, ...] = np.eye(Z.shape[1])[last] if stream.classes else Z[i]
                if not stream.classes:
                    Z[i, j] = last
            elif stream.classes:
                Z[i] = [(model.predict_proba_one(x) or {}).get(k, 0.0) for k in range(Z.shape[1])]
            else:
                guess = model.predict_one(x)
                Z[i, j] = 0.0 if guess is None else guess
            if i >= delay and known[i - delay]:
                last = column[i - delay].item()
                if model is not None:
                    model.learn_one(inputs[i - delay], last)
    return Z


def scores(stream: Stream, Z: Array, delay: int) -> dict[str, float]:
    """Errors over the rows after the first label: mistakes and log loss, or the mean error over the variance."""
    first = max(1, delay + 2 * BLOCK if delay else 1)
    Y, Z = stream.Y[first:], np.nan_to_num(Z[first:], nan=0.0, posinf=1e9, neginf=-1e9)
    if not stream.classes:
        errors = np.mean((Y - Z) ** 2, axis=0) / np.maximum(np.var(Y, axis=0), 1e-12)
        return {"error": float(errors.mean())}
    total = Z.sum(axis=1, keepdims=True)
    P = np.where(total > 0.0, Z / np.where(total > 0.0, total, 1.0), 1.0 / Z.shape[1])
    given = np.maximum(P[np.arange(len(Y)), Y], LEAST)
    return {"error": float(np.mean(P.argmax(axis=1) != Y)), "log loss": float(-np.log(given).mean())}


def run(path: Path, rows: int, part: tuple[int, int]) -> None:
    """Append the results that the file does not have yet."""
    done = {(one["stream"], one["condition"], one["learner"]) for one in read(path)}
    for number, stream in enumerate(all_streams(rows)):
        if number % part[1] != part[0]:
            continue
        for condition in CONDITIONS:
            delay = DELAY if condition == CONDITIONS[2] else 0
            known = learned_rows(len(stream.X), condition)
            for name, make in {OURS: None, **rivals(stream)}.items():
                if (stream.name, condition, name) in done:
                    continue
                start = time.process_time()
                with np.errstate(all="ignore"):
                    Z = ours(stream, known, delay) if make is None else theirs(stream, make, known, delay)
                found = {"stream": stream.name, "classes": stream.classes, "condition": condition, "learner": name}
                found |= scores(stream, Z, delay) | {"rows": len(stream.X), "seconds": time.process_time() - start}
                with path.open("a") as file:
                    file.write(json.dumps(found) + "\n")


def read(path: Path) -> list[dict[str, Any]]:
    """The results in a file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def table(results: list[dict[str, Any]]) -> str:
    """Errors and mean ranks as Markdown."""
    learners = list(dict.fromkeys(one["learner"] for one in results))
    grouped: dict[tuple[str, str, bool], dict[str, dict[str, float]]] = {}
    for one in results:
        grouped.setdefault((one["stream"], one["condition"], one["classes"]), {})[one["learner"]] = one
    lines = [f"| stream | labels | {' | '.join(learners)} | ours / best |", "|---" * (len(learners) + 3) + "|"]
    ranks: dict[str, list[list[int]]] = {"accuracy": [], "log loss": [], "regression": []}
    for (stream, condition, classes), found in grouped.items():
        if len(found) < len(learners):
            continue
        errors = [found[name]["error"] for name in learners]
        best = min(error for name, error in zip(learners, errors, strict=True) if name != OURS)
        cells = " | ".join(f"**{error:.3g}**" if error == min(errors) else f"{error:.3g}" for error in errors)
        lines.append(f"| {stream} | {condition} | {cells} | {found[OURS]['error'] / max(best, 1e-12):.2f} |")
        ranks["accuracy" if classes else "regression"].append([1 + sum(other < e for other in errors) for e in errors])
        if classes:
            losses = [found[name]["log loss"] for name in learners]
            ranks["log loss"].append([1 + sum(other < e for other in losses) for e in losses])
    for name, found_ranks in ranks.items():
        if found_ranks:
            cells = " | ".join(f"{rank:.2f}" for rank in np.mean(found_ranks, axis=0))
            lines.append(f"| mean rank, {name} | {len(found_ranks)} cases | {cells} | |")
    return "\n".join(lines)


def draw(results: list[dict[str, Any]], path: str) -> None:
    """Our error over that of the best other learner, for each stream and condition."""
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(one["stream"] for one in results))
    figure, axes = plt.subplots(figsize=(7, 0.26 * len(names) + 1.2), layout="constrained")
    for condition, marker in zip(CONDITIONS, "os^", strict=True):
        points = []
        for y, name in enumerate(names):
            some = [one for one in results if one["stream"] == name and one["condition"] == condition]
            own = [one["error"] for one in some if one["learner"] == OURS]
            other = [one["error"] for one in some if one["learner"] != OURS]
            if own and other and min(other) > 0.0:
                points.append((own[0] / min(other), y))
        axes.plot(*zip(*points, strict=True), marker, label=condition, alpha=0.8)
    axes.axvline(1.0, color="0.6")
    axes.set(xscale="log", xlabel="error of AutoStream over that of the best learner of river")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.legend()
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--part", help="K/N runs every N-th stream from the K-th on")
    parser.add_argument("--figure")
    options = parser.parse_args()
    part = [int(number) for number in (options.part or "0/1").split("/")]
    run(options.results, options.rows, (part[0], part[1]))
    if not options.part:
        print(table(read(options.results)))
    if options.figure:
        draw(read(options.results), options.figure)


if __name__ == "__main__":
    main()
