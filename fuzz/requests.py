"""Invalid requests to a server in this process: the server does not fail and learns nothing."""

from __future__ import annotations

import itertools
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from benchmarks.service_fuzz import StrangeRequest, fuzzed_requests

import ovk
from ovk import PKAWV
from ovk.app.serve import Limits, create_app
from ovk.app.sessions import Settings, learn
from ovk.app.tables import open_records
from ovk.kernels import Gaussian
from serving_rows import rows, table

with warnings.catch_warnings():
    # Starlette warns that it prefers a successor of httpx.
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

#: Requests between two comparisons of the state of the server.
OFTEN = 20

#: Metrics that change only when a model learns.
LEARNED = ("ovk_rows_learned_total", "ovk_sequence", "ovk_queue_requests", "ovk_learner_failures", "ovk_rolling_error")


def tries(rng: np.random.Generator) -> Iterator[str | None]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        app = create_app(_models(directory), data=directory / "data", limits=Limits(body=100_000))
        with TestClient(
            app, base_url="http://localhost", client=("127.0.0.1", 50000), raise_server_exceptions=False
        ) as client:
            before = _state(client)
            requests = itertools.chain.from_iterable(
                fuzzed_requests(1000, ["point", "table"], rng) for _ in itertools.count()
            )
            for number, request in enumerate(requests):
                fault = _sent(client, request)
                if fault is None and number % OFTEN == 0:
                    if _state(client) != before:
                        fault = f"the server has learned, at the latest from {request}"
                    elif logs := list((directory / "data" / "point").glob("log-*")):
                        fault = f"the server has written {logs[0].name}, at the latest for {request}"
                yield fault


def _sent(client: TestClient, request: StrangeRequest) -> str | None:
    reply = client.request(request.method, request.path, content=request.body, headers=request.headers)
    if reply.status_code >= 500:
        return f"{request} was answered with {reply.status_code}: {reply.text[:200]}"
    if request.learns and (reply.status_code < 400 or "error" not in reply.text):
        return f"{request} was not refused: {reply.status_code} {reply.text[:200]}"
    return None


def _state(client: TestClient) -> set[str]:
    """The state of the models according to the server."""
    found = {line for line in client.get("/metrics").text.splitlines() if line.startswith(LEARNED)}
    assert {line.partition("{")[0] for line in found} >= {"ovk_rows_learned_total", "ovk_sequence"}
    return found


def _models(directory: Path) -> list[Path]:
    """A learner and a session."""
    X, Y = rows(150)
    ovk.save(PKAWV(Gaussian(1.0)).fit(X, Y), directory / "point.ovk")
    path = directory / "table.csv"
    lines = [f"{word},{x!r},{a!r},{b!r}" for word, x, a, b in table(200)]
    path.write_text("word,x,a,b\n" + "\n".join(lines) + "\n")
    with open_records(path) as records:
        learn(records, Settings(["a", "b"], lags=[1], warm_up=100), save_to=directory / "table.ovk")
    return [directory / "point.ovk", directory / "table.ovk"]
