"""Interrupted learners, and predictions during learning."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from interruptions import count_calls, interrupt
from learners import EVERY, begun, rows


def interruptions(rng: np.random.Generator) -> Iterator[str | None]:
    """An error in any inner call leaves a learner unchanged, and learning can continue."""
    known: dict[str, tuple[Any, int, Any, Any]] = {}
    X1, X2 = rows("", 33, 1)[0], rows("", 30, 2)[0]
    while True:
        name = list(EVERY)[rng.integers(len(EVERY))]
        Y1 = rows(name, 33, 1)[1]
        if name not in known:
            model = begun(name)
            counted = copy.deepcopy(model)
            before = counted.predict(X2)
            calls = count_calls(lambda counted=counted, Y1=Y1: counted.partial_fit(X1, Y1))
            known[name] = model, calls, before, counted.predict(X2)
        model, calls, before, after = known[name]
        number, error = int(rng.integers(1, calls + 1)), [KeyboardInterrupt, MemoryError][rng.integers(2)]
        trial = copy.deepcopy(model)
        if interrupt(lambda trial=trial, Y1=Y1: trial.partial_fit(X1, Y1), number, error):
            if not np.array_equal(trial.predict(X2), before):
                yield f"{name} interrupted at call {number} of {calls} is not as it was"
                continue
            trial.partial_fit(X1, Y1)
        same = np.array_equal(trial.predict(X2), after)
        yield None if same else f"{name} interrupted at call {number} of {calls} goes on differently"


def threads(rng: np.random.Generator) -> Iterator[str | None]:
    """Three threads predict while one learns random chunks: each prediction is that between two calls."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        while True:
            name = list(EVERY)[rng.integers(len(EVERY))]
            X = rows(name, 40)[0]
            X1, Y1 = rows(name, 150, 1)
            model, cuts = begun(name), np.sort(rng.integers(0, 150, 6)).tolist()
            chunks = [slice(a, b) for a, b in zip([0, *cuts], [*cuts, 150], strict=True) if b > a]
            yield from _read_while_learning(name, model, X, X1, Y1, chunks)
    finally:
        sys.setswitchinterval(interval)


def _read_while_learning(name: str, model: Any, X: Any, X1: Any, Y1: Any, chunks: Any) -> Iterator[str | None]:
    alone = copy.deepcopy(model)
    boundaries = [alone.predict(X)]
    for chunk in chunks:
        alone.partial_fit(X1[chunk], Y1[chunk])
        boundaries.append(alone.predict(X))
    found: list[Any] = []
    errors: list[str] = []
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set() and len(found) < 5000:
            try:
                found.append(model.predict(X))
            except BaseException as error:
                errors.append(f"{name} read while learning raised {type(error).__name__}: {error}")
                return

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    try:
        for chunk in chunks:
            model.partial_fit(X1[chunk], Y1[chunk])
    finally:
        ended.set()
        for reader in readers:
            reader.join(20)
    yield from errors
    for prediction in found:
        if prediction.dtype.kind == "f":
            fine = min(np.abs(prediction - one).max() for one in boundaries) < 1e-9
        else:
            fine = any((prediction == one).all() for one in boundaries)
        yield None if fine else f"{name} read while learning gave a prediction of no state between two calls"
