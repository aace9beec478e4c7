"""Streams of ten million rows: do memory, time per row, error and rounding stay constant?

``python -m benchmarks.long_streams`` prints a line for each learner; the tests run a short version. The stream is
stationary and generated in chunks. Time is processor time of the fastest chunks in each tenth of the stream. Drift is
the largest difference between predictions and those of a recomputation in 64 bits, relative to the largest prediction:
for sums over all rows, the normal equations accumulated again in a wider type; for learners that forget, a new learner
of the last rows, so many that earlier rows have no weight. `AutoStream` has no such reference; its error is checked.

``--defaults`` runs learners with default settings over a million rows and prints time per row, error and memory of
every tenth of the stream.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve
from sklearn.base import clone

from ovk import OLOK, PKAWV, AutoStream
from ovk.base.execution import one_blas_thread
from ovk.features import Fourier
from ovk.kernels import Gaussian
from ovk.objectives import Constant

Array = npt.NDArray[np.float64]

#: Rows of a chunk: a multiple of the block size of all learners, so that a new learner can start at any chunk.
CHUNK = 3072

ALPHA = 0.1


def chunks(start: int, stop: int) -> Iterator[tuple[Array, Array]]:
    """Chunks of a stationary stream, (n, 3) inputs and (n, 2) outputs, each with its own seed."""
    for k in range(start, stop):
        rng = np.random.default_rng([15, k])
        X = rng.uniform(-2, 2, (CHUNK, 3))
        F = np.stack([np.sin(2 * X[:, 0]) + 0.5 * X[:, 1], X[:, 2] * np.cos(X[:, 1])], axis=1)
        yield X, F + 0.1 * rng.standard_normal(F.shape)


@dataclass(frozen=True)
class LongRun:
    """A learner and the number of rows it learns.

    `memory`: number of rows after which a row has no weight, None for never. `twin`: whether a recomputation exists.
    """

    model: Any
    rows: int
    memory: int | None = None
    twin: bool = True


def _ridge(**forgetting: Any) -> PKAWV:
    features = Fourier(64)
    return PKAWV(Gaussian(1.5), ALPHA, features, forecaster="ridge", random_state=0, **forgetting)


RUNS = {
    "PKAWV": LongRun(_ridge(), 10_000_000),
    "OLOK, window": LongRun(OLOK(Gaussian(1.5), 1e-3, Constant(0.2), truncation=200), 10_000_000, 100_000),
    "PKAWV, discount": LongRun(_ridge(discount=0.999), 1_000_000, 60_000),
    "PKAWV, window": LongRun(_ridge(window=2048), 1_000_000, 10_000),
    "OLOK, discount": LongRun(
        OLOK(Gaussian(1.5), 1e-3, Constant(0.2), truncation=400, discount=0.98), 1_000_000, 20_000
    ),
    "AutoStream": LongRun(AutoStream(), 1_000_000, twin=False),
}

#: Learners with default settings.
DEFAULTS = {
    f"{type(model).__name__}()": LongRun(model, 1_000_000, twin=False) for model in (AutoStream(), PKAWV(), OLOK())
}


def long_run(run: LongRun, rows: int | None = None) -> dict[str, float]:
    """Learn the stream and measure growth of memory, change of time per row and of error, and drift."""
    model, seconds, errors, memory = learned(run, rows)
    count = len(seconds)
    with one_blas_thread():
        drift = _drift(model, run, count) if run.twin else None
    parts = tenths(count)[1:]
    times = 1e-6 * np.array([microseconds(seconds[part]) for part in parts])
    means = np.array([errors[part].mean() for part in parts])
    found = {
        "rows": count * CHUNK,
        "grown_mb": float(memory[-1] - memory[count // 10]),
        "microseconds_a_row": float(1e6 * np.median(times)),
        "slowest_over_fastest_tenth": float(times.max() / times.min()),
        "last_over_first_tenth": float(times[-1] / times[0]),
        "error_first": float(means[0]),
        "error_last": float(means[-1]),
        "largest_error_of_a_tenth": float(means.max()),
    }
    return found if drift is None else {**found, "drift": drift}


def by_tenths(run: LongRun, rows: int | None = None) -> str:
    """Learn the stream; a table of its tenths, and the ratio of the last to the second."""
    _, seconds, errors, memory = learned(run, rows)
    lines, table = ["   tenth   us a row   squared error   memory (MB)"], []
    for number, part in enumerate(tenths(len(seconds)), 1):
        # The stream has two outputs of variance about 1, and the noise has .01.
        table.append((microseconds(seconds[part]), errors[part].mean(), memory[part[-1]]))
        lines.append(f"   {number:5d} {table[-1][0]:10.1f} {table[-1][1]:15.5f} {table[-1][2]:13.1f}")
    time_ratio, error_ratio = (table[-1][k] / table[1][k] for k in (0, 1))
    count = len(seconds) * CHUNK
    lines.append(
        f"   {count:,} rows; last tenth over the second: time {time_ratio:.3f}, error {error_ratio:.3f}, "
        f"memory grown {table[-1][2] - table[1][2]:.1f} MB; {count / seconds.sum():,.0f} rows a second"
    )
    return "\n".join(lines)


def tenths(count: int) -> list[npt.NDArray[np.int64]]:
    """Numbers of the chunks in every tenth of the stream."""
    return np.array_split(np.arange(count), 10)


def microseconds(seconds: Array) -> float:
    """Time per row of the fastest chunks."""
    return float(1e6 * np.quantile(seconds, 0.05) / CHUNK)


def learned(run: LongRun, rows: int | None) -> tuple[Any, Array, Array, Array]:
    """The model after the stream, and processor time, squared error and memory at each chunk."""
    model, count = clone(run.model), max((rows or run.rows) // CHUNK, 20)
    seconds, errors, memory = np.empty(count), np.empty(count), np.empty(count)
    with one_blas_thread():
        for k, (X, Y) in enumerate(chunks(0, count)):
            begun = time.process_time()
            Z = model.predict_then_learn(X, Y)
            seconds[k] = time.process_time() - begun
            errors[k], memory[k] = np.mean((Z - Y) ** 2), resident_mb()
    return model, seconds, errors, memory


def _drift(model: Any, run: LongRun, count: int) -> float:
    X = next(chunks(count, count + 1))[0]
    if run.memory is None:
        found = _batch_predictions(model, count, X)
    else:
        fresh = clone(run.model)
        for rows, Y in islice(chunks(max(0, count - 1 - run.memory // CHUNK), count), count):
            fresh.partial_fit(rows, Y)
        found = fresh.predict(X)
    return float(np.abs(model.predict(X) - found).max() / np.abs(found).max())


def _batch_predictions(model: Any, count: int, X: Array) -> Array:
    """phi(x)' (S + alpha I)^-1 B with the sums S and B over all rows."""
    m, transform = model.features_.m, model.features_.transform
    S, B = np.zeros((m, m), np.longdouble), np.zeros((m, 2), np.longdouble)
    for rows, Y in chunks(0, count):
        Phi = transform(rows)
        S += Phi.T @ Phi
        B += Phi.T @ Y
    weights = solve(np.asarray(S, float) + ALPHA * np.eye(m), np.asarray(B, float), assume_a="pos")
    return np.asarray(transform(X) @ weights)


def resident_mb() -> float:
    """Current memory of this process, or its peak where that is unknown."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmRSS")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def main() -> None:
    """Run all at full length."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.long_streams", description=__doc__)
    parser.add_argument("--only", choices=[*RUNS, *DEFAULTS], nargs="+", help="these alone")
    parser.add_argument("--rows", type=int, help="for all of them, instead of ten and one million")
    parser.add_argument(
        "--defaults", action="store_true", help="learners without any argument, by tenths of the stream"
    )
    options = parser.parse_args()
    for name, run in (DEFAULTS if options.defaults else RUNS).items():
        if options.only is None or name in options.only:
            found = "\n" + by_tenths(run, options.rows) if options.defaults else json.dumps(long_run(run, options.rows))
            print(name, found, flush=True)


if __name__ == "__main__":
    main()
