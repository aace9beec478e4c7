"""Pairs of functions for operator learning and results, cached in files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ovk.datasets import make_navier_stokes
from reproduce.registry import Row
from reproduce.support import Array

#: Flows per file.
CHUNK = 1250


class Pairs(NamedTuple):
    """Training and test functions."""

    X: Array
    Y: Array
    X_test: Array
    Y_test: Array
    grid: Any


class Part(NamedTuple):
    """Rows of the table for one number of pairs, and the prediction for the first test function."""

    rows: list[Row]
    example: list[float]


def relative_error(predicted: Array, truth: Array) -> float:
    """Mean over functions of |predicted - truth| / |truth|, in percent."""
    return float(100.0 * np.mean(np.linalg.norm(predicted - truth, axis=1) / np.linalg.norm(truth, axis=1)))


def with_noise(Y: Array, level: float) -> Array:
    """Outputs with noise, relative to their root mean square."""
    return Y + level * np.sqrt(np.mean(Y**2)) * np.random.default_rng(0).standard_normal(Y.shape) if level else Y


def flows(n: int, test: int, directory: Path | None, **options: Any) -> Pairs:
    """Forcings and vorticities; solved once, then read from `directory`."""
    first = make_navier_stokes(test, random_state=0, **options)

    def chunk(number: int) -> tuple[Array, Array]:
        path = None if directory is None else directory / f"navier-stokes-{number}.npz"
        if path is not None and path.exists():
            with np.load(path) as kept:
                return kept["data"], kept["target"]
        more = make_navier_stokes(min(CHUNK, n), initial=first.initial, random_state=1 + number, **options)
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            np.savez(path, data=more.data, target=more.target)
        return more.data, more.target

    parts = [chunk(number) for number in range(-(-n // CHUNK))]
    X, Y = (np.concatenate([part[side] for part in parts])[:n] for side in (0, 1))
    return Pairs(X, Y, first.data, first.target, first.grid)


def drawn(make: Callable[..., Any], n: int, test: int, **options: Any) -> Pairs:
    """Pairs of a generator."""
    bunch = make(n + test, random_state=0, **options)
    return Pairs(bunch.data[:n], bunch.target[:n], bunch.data[n:], bunch.target[n:], bunch.grid)


def kept(directory: Path | None, label: str, learn: Callable[[], Part]) -> Part:
    """One part of the table, read from `directory` if an earlier run stored it."""
    if directory is None:
        return learn()
    path = directory / f"{label}.json"
    if not path.exists():
        found = learn()
        path.parent.mkdir(parents=True, exist_ok=True)
        content = {"rows": [asdict(row) for row in found.rows], "example": found.example}
        path.write_text(json.dumps(content, indent=2), encoding="utf-8")
    content = json.loads(path.read_text(encoding="utf-8"))
    return Part([Row(**row) for row in content["rows"]], content["example"])
