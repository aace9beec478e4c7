"""Cost of HTTP: processor time of the server compared with the bare learner."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import ovk
from benchmarks.harness import Benchmark, Case, Check, Contender, Settings
from benchmarks.service_client import ServiceClient
from benchmarks.service_process import ServerProcess
from benchmarks.service_trials import make_model, make_rows, readers_trial
from ovk.app.serve import Checkpoint
from ovk.app.serve.log import Entry
from ovk.app.serve.protocol import RequestRows

#: Rows of a learning request.
ROWS = 100


def cases(settings: Settings) -> Iterator[Case]:
    """Throughput of learning, cost of a prediction, latency during learning."""
    rounds = settings.pick(toy=1, quick=10, default=30)
    requests = settings.pick(toy=5, quick=25, default=25)
    seconds = settings.pick(toy=0.3, quick=10.0, default=20.0, long=60.0)
    with tempfile.TemporaryDirectory() as directory:
        model = make_model(Path(directory))
        X, Y = make_rows(ROWS)
        learner = ovk.load(model)

        def learn() -> None:
            for _ in range(requests):
                learner.predict_then_learn(X, Y)

        states = [Checkpoint.start({"point": ovk.load(model)})]
        entry = Entry(None, RequestRows.of_matrix(X), RequestRows.of_matrix(Y))

        def learn_states() -> None:
            for number in range(requests):
                states[0] = states[0].after(number, entry)

        def scores() -> tuple[dict[str, Any], list[Check]]:
            found = service_costs(Path(directory), model, requests, rounds)
            readers = Path(directory) / "readers"
            readers.mkdir()
            trial = readers_trial(readers, seconds)
            checks = [
                Check("rows/s learned from JSON, of those in process", found["learn_ratio"], 0.3, at_least=True),
                Check(
                    "rows/s learned from tensors, of those in process", found["learn_tensors_ratio"], 0.3, at_least=True
                ),
                Check("a prediction, over starlette's empty JSON route", found["infer_ratio"], 3.0),
                Check("p99 of a prediction beside a writer, over that alone", trial["p99_ratio"], 5.0),
                Check("predictions of no block boundary", trial["not_of_a_boundary"], 0),
            ]
            return {**found, **trial}, checks

        name = f"PKAWV, 100 points, p = 10, d = 3, {ROWS} rows a request"
        described = {"requests": requests, "seconds_of_readers": seconds}
        contenders = [
            Contender("states of a service, without HTTP and log", learn_states),
            Contender("predict_then_learn in process", learn),
        ]
        yield Case(name, described, contenders, rounds, scores=scores, threads=1)


def service_costs(directory: Path, model: Path, requests: int, rounds: int) -> dict[str, float]:
    """Milliseconds of processor time: learning requests and predictions, the same in process, and empty routes.

    All take turns on one core, and the best round of each counts. The client runs on another core if there is one; its
    time does not count. Keys with ``_wall`` are wall-clock times.
    """
    X, Y = make_rows(ROWS)
    as_json = [
        (json.dumps({"id": f"b{k}", "rows": X.tolist(), "targets": Y.tolist()}).encode(), None)
        for k in range(rounds * requests)
    ]
    as_tensors = [_as_tensors(f"t{k}", X, Y) for k in range(rounds * requests)]
    tensor = {"name": "X", "shape": [1, 10], "datatype": "FP64", "data": X[0].tolist()}
    one = json.dumps({"inputs": [tensor]}).encode()
    learner = ovk.load(model)
    learner.predict_then_learn(X, Y)
    arguments = [model, "--data", directory / "data", "--checkpoint", 10**9, "--checkpoint-seconds", 10**6]
    allowed = os.sched_getaffinity(0)
    core = {max(allowed)}
    with (
        ExitStack() as end,
        ServerProcess(arguments) as server,
        ServerProcess([], module="benchmarks.empty_service") as empty,
    ):
        end.callback(os.sched_setaffinity, 0, allowed)
        server.hold_to(core)
        empty.hold_to(core)
        ours, bare = ServiceClient(server.port), ServiceClient(empty.port)
        taken = 0

        def learn(bodies: list[tuple[bytes, dict[str, str] | None]]) -> None:
            nonlocal taken
            for body, headers in bodies:
                _until_taken(ours, body, headers)
            taken += len(bodies)
            while json.loads(infer())["parameters"]["sequence"] < taken:
                time.sleep(0.002)

        def infer() -> bytes:
            status, reply = ours.request("POST", "/v2/models/point/infer", one)
            assert status == 200, reply
            return reply

        def several(work: Callable[[], Any]) -> None:
            for _ in range(requests):
                work()

        best: dict[str, float] = {}
        for k in range(rounds):
            part = slice(k * requests, (k + 1) * requests)
            turns: dict[str, tuple[Callable[[], float], Callable[[], None]]] = {
                "learn": (server.processor_seconds, partial(learn, as_json[part])),
                "learn_tensors": (server.processor_seconds, partial(learn, as_tensors[part])),
                "infer": (server.processor_seconds, partial(several, infer)),
                "empty": (empty.processor_seconds, partial(several, partial(bare.request, "GET", "/"))),
                "empty_with_body": (empty.processor_seconds, partial(several, partial(bare.request, "POST", "/", one))),
                "predict": (time.process_time, partial(several, partial(learner.predict, X[:1]))),
                "in_process": (time.process_time, partial(several, partial(learner.predict_then_learn, X, Y))),
            }
            for name, (clock, work) in turns.items():
                os.sched_setaffinity(0, core if name in ("in_process", "predict") else allowed - core or core)
                before, wall = clock(), time.perf_counter()
                work()
                for kind, seconds in (("ms", clock() - before), ("wall_ms", time.perf_counter() - wall)):
                    best[f"{name}_{kind}"] = min(best.get(f"{name}_{kind}", inf), 1e3 * seconds / requests)
        ours.close()
        bare.close()
    return {
        **best,
        "learn_ratio": best["in_process_ms"] / best["learn_ms"],
        "learn_tensors_ratio": best["in_process_ms"] / best["learn_tensors_ms"],
        "learn_wall_ratio": best["in_process_wall_ms"] / best["learn_wall_ms"],
        "infer_ratio": best["infer_ms"] / best["empty_ms"],
        "infer_over_body_ratio": best["infer_ms"] / best["empty_with_body_ms"],
        # Without the prediction itself, which an empty route does not make.
        "infer_overhead_ratio": (best["infer_ms"] - best["predict_ms"]) / best["empty_with_body_ms"],
    }


def _as_tensors(identifier: str, X: Any, Y: Any) -> tuple[bytes, dict[str, str]]:
    """A learning request with binary tensors, as clients of the protocol send them."""
    described = {
        name: [{"name": name, "shape": list(A.shape), "datatype": "FP64", "parameters": {"binary_data_size": A.nbytes}}]
        for name, A in (("inputs", X), ("targets", Y))
    }
    head = json.dumps({"id": identifier, **described}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(head))}
    return head + X.tobytes() + Y.tobytes(), headers


def _until_taken(client: ServiceClient, body: bytes, headers: dict[str, str] | None) -> None:
    """Send a request, and repeat it while the queue is full."""
    for _ in range(10_000):
        status, reply = client.request("POST", "/v2/models/point/learn", body, headers)
        if status == 202:
            return
        assert status == 429, reply
        time.sleep(0.01)


BENCHMARK = Benchmark("service", "ovk serve beside the bare learner and an empty route", cases)
