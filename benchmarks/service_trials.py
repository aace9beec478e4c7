"""Trials of a server process: kills, readers during learning, invalid requests.

``python -m benchmarks.service_trials`` runs them at full length and prints the results; the tests run short versions.
"""

from __future__ import annotations

import argparse
import http.client
import json
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

import ovk
from benchmarks.service_client import ServiceClient
from benchmarks.service_fuzz import fuzzed_requests
from benchmarks.service_process import ServerProcess
from ovk import PKAWV
from ovk.app.serve import Checkpoint
from ovk.app.serve.checkpoint import learn_log
from ovk.app.serve.log import Entry, Log
from ovk.app.serve.protocol import RequestRows
from ovk.base.execution import one_blas_thread
from ovk.kernels import Gaussian

#: Maximum seconds of a trial.
LONGEST = 1500.0


def make_rows(n: int, p: int = 10, d: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """(n, p) inputs and (n, d) outputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    return X, np.sin(X[:, :d]) + X[:, d : 2 * d] * X[:, 2 * d : 3 * d] + 0.1 * rng.standard_normal((n, d))


def make_model(directory: Path) -> Path:
    """The file of a PKAWV with 100 points, p = 10 and d = 3."""
    X, Y = make_rows(200)
    path = directory / "point.ovk"
    ovk.save(PKAWV(Gaussian(3.0)).fit(X, Y), path)
    return path


def kill_trial(
    directory: Path, rows: int, kills: int, *, checkpoint: int, seed: int = 0, snapshot_of: bool = False
) -> dict[str, Any]:
    """A client sends rows while the server is killed and restarted; then all results are compared byte for byte."""
    rng = np.random.default_rng(seed)
    model = make_model(directory)
    X, Y = make_rows(rows, seed=1)
    requests = []
    while sum(len(part) for part in requests) < rows:
        start = sum(len(part) for part in requests)
        requests.append(range(start, min(rows, start + int(rng.integers(1, 51)))))
    arguments = [model, "--data", directory / "data", "--checkpoint", checkpoint, "--keep-log"]
    place: dict[str, ServerProcess] = {"server": ServerProcess(arguments, snapshot_of=snapshot_of).start()}
    progress, receipts, repeats = [0], {}, [0]
    until = time.monotonic() + LONGEST

    def send() -> None:
        client: ServiceClient | None = None
        for k, part in enumerate(requests):
            body = {"id": f"request {k}", "rows": X[part].tolist(), "targets": Y[part].tolist()}
            while time.monotonic() < until:
                try:
                    client = client or ServiceClient(place["server"].port, timeout=20)
                    status, reply = client.post("/v2/models/point/learn", body)
                    if status == 202:
                        receipts[k] = reply["sequence"], reply["rows"]
                        break
                    time.sleep(0.02)
                except (OSError, http.client.HTTPException, ValueError):
                    if client is not None:
                        client.close()
                    client, repeats[0] = None, repeats[0] + 1
                    time.sleep(0.02)
            progress[0] = k + 1
        if client is not None:
            client.close()

    sender = threading.Thread(target=send, daemon=True)
    start = time.monotonic()
    sender.start()
    for k in range(kills):
        while progress[0] < len(requests) * (k + 1) // (kills + 1) and time.monotonic() < until:
            time.sleep(0.002)
        time.sleep(float(rng.uniform(0, 0.05)))
        place["server"].kill()
        place["server"] = ServerProcess(arguments, snapshot_of=snapshot_of).start()
    sender.join(timeout=max(until - time.monotonic(), 1))
    replays = [line for line in place["server"].lines if line["event"] == "log replayed"]
    code = place["server"].terminate()
    seconds = time.monotonic() - start
    found = ovk.load(directory / "data" / "point" / "checkpoint.ovk")
    order = sorted(receipts, key=lambda k: receipts[k][0])
    numbers = [receipts[k][0] for k in order]
    twin, again = ovk.load(model), Checkpoint.start({"point": ovk.load(model)}, found.origin)
    with one_blas_thread(tiles=1):
        for k in order:
            part = requests[k]
            twin.predict_then_learn(X[part], Y[part])
            entry = Entry(f"request {k}", RequestRows.of_matrix(X[part]), RequestRows.of_matrix(Y[part]))
            again = again.after(receipts[k][0], entry)
    from_log = learn_log(Checkpoint.start({"point": ovk.load(model)}, found.origin), Log(directory / "data" / "point"))
    return {
        "requests": len(requests),
        "rows": found.rows,
        "acknowledged_rows": sum(count for _, count in receipts.values()),
        "kills": kills,
        "repeats": repeats[0],
        "replayed_at_last": sum(line["records"] for line in replays),
        "exit_code": code,
        "seconds": seconds,
        "every_request_once": numbers == list(range(1, len(requests) + 1)),
        "learner_equal": _bytes(found.model, directory) == _bytes(twin, directory),
        "checkpoint_equal": (directory / "data" / "point" / "checkpoint.ovk").read_bytes() == _bytes(again, directory),
        "log_equal": _bytes(from_log, directory) == _bytes(found, directory),
    }


def _bytes(value: Any, directory: Path) -> bytes:
    ovk.save(value, directory / "bytes.ovk")
    return (directory / "bytes.ovk").read_bytes()


def readers_trial(directory: Path, seconds: float, *, readers: int = 8, rate: float = 20.0) -> dict[str, Any]:
    """Readers with `rate` requests per second each, during learning of 100 rows per request; latencies and differences.

    Without load, there is one reader at the same rate.
    """
    model = make_model(directory)
    X, Y = make_rows(4000, seed=2)
    probes = X[:4]
    bodies = [
        json.dumps({"inputs": [{"name": "X", "shape": [1, 10], "datatype": "FP64", "data": x.tolist()}]}).encode()
        for x in probes
    ]
    arguments = [model, "--data", directory / "data", "--keep-log"]
    answers: list[tuple[int, int, list[float]]] = []
    errors: list[str] = []
    clients: list[ServiceClient] = []

    def read(port: int, until: float, latencies: list[float], number: int) -> None:
        client = ServiceClient(port)
        clients.append(client)
        due = time.perf_counter() + number / (rate * readers)
        k = number
        # At least once, even if this thread starts late.
        while not latencies or time.perf_counter() < until:
            time.sleep(max(due - time.perf_counter(), 0.0))
            k += 1
            begin = time.perf_counter()
            status, reply = client.request("POST", "/v2/models/point/infer", bodies[k % 4])
            latencies.append(time.perf_counter() - begin)
            due = max(due + 1 / rate, begin)
            if status != 200:
                errors.append(f"{status} {reply.decode()[:100]}")
                continue
            content = json.loads(reply)
            answers.append((k % 4, content["parameters"]["sequence"], content["outputs"][0]["data"]))

    def write(port: int, until: float) -> None:
        client, k = ServiceClient(port), 0
        clients.append(client)
        while k == 0 or time.perf_counter() < until:
            part = slice(100 * (k % 40), 100 * (k % 40) + 100)
            body = {"id": f"w{k}", "rows": X[part].tolist(), "targets": Y[part].tolist()}
            status, reply = client.post("/v2/models/point/learn", body)
            if status not in (202, 429):
                errors.append(f"{status} {reply}")
            k += status == 202
            time.sleep(0.1)

    with ServerProcess(arguments) as server:
        quiet: list[float] = []
        read(server.port, time.perf_counter() + max(seconds / 4, 1.0), quiet, 0)
        until = time.perf_counter() + seconds
        busy: list[list[float]] = [[] for _ in range(readers)]
        work = [
            threading.Thread(target=read, args=(server.port, until, busy[i], i), daemon=True) for i in range(readers)
        ]
        work.append(threading.Thread(target=write, args=(server.port, until), daemon=True))
        for thread in work:
            thread.start()
        for thread in work:
            thread.join(timeout=seconds + 600)
        for client in clients:
            client.close()
        code = server.terminate()
    known = _predictions_at(model, directory / "data" / "point", probes)
    wrong = sum(known.get((probe, sequence)) != values for probe, sequence, values in answers)
    alone, loaded = (float(np.quantile(one, 0.99)) for one in (quiet, np.concatenate(busy)))
    return {
        "predictions": len(answers),
        "records": max(sequence for _, sequence, _ in answers),
        "boundaries_seen": len({sequence for _, sequence, _ in answers}),
        "errors": errors[:3],
        "not_of_a_boundary": wrong,
        "p99_alone_ms": 1e3 * alone,
        "p99_loaded_ms": 1e3 * loaded,
        "p99_ratio": loaded / alone,
        "exit_code": code,
    }


def _predictions_at(model: Path, log: Path, probes: Any) -> dict[tuple[int, int], list[float]]:
    """Predictions of a learner after each record of the log."""
    learner = ovk.load(model)
    found = {}
    with one_blas_thread(tiles=1):
        records = [(0, None), *((number, Entry.decode(content)) for number, content in Log(log).replay(after=0))]
        for number, entry in records:
            if entry is not None and entry.rows is not None and entry.targets is not None:
                learner.predict_then_learn(entry.rows.matrix, entry.targets.matrix)
            for i in range(len(probes)):
                found[i, number] = learner.predict(probes[i : i + 1]).ravel().tolist()
    return found


def fuzz_trial(directory: Path, count: int, *, snapshot_of: bool = False) -> dict[str, Any]:
    """Invalid requests, some with a wrong token; statuses, growth of memory, and whether the state changed."""
    model = make_model(directory)
    tokens = directory / "tokens"
    tokens.write_text("predict,learn,admin 0123456789abcdef\n")
    tokens.chmod(0o600)
    statuses: dict[int, int] = {}
    rng = np.random.default_rng(0)
    with ServerProcess([model, "--data", directory / "data", "--tokens", tokens], snapshot_of=snapshot_of) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        memory = 0
        for k, request in enumerate(fuzzed_requests(count, ["point"], rng)):
            if k == count // 5:
                memory = server.memory()  # caches are warm by now
            known = k % 7 != 0
            headers = {**request.headers, "Authorization": f"Bearer {'0123456789abcdef' if known else 'f' * (k % 40)}"}
            try:
                connection.request(request.method, request.path, request.body, headers)
                reply = connection.getresponse()
                reply.read()
                status = reply.status if known or reply.status in (401, 404, 405, 400) else -1
            except (OSError, http.client.HTTPException):
                # Refusing a body before it is read closes the connection.
                connection.close()
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
                status = 0
            statuses[status] = statuses.get(status, 0) + 1
        grown = server.memory() - memory
        connection.close()
        code = server.terminate()
    found = ovk.load(directory / "data" / "point" / "checkpoint.ovk")
    return {
        "requests": count,
        "statuses": dict(sorted(statuses.items())),
        "server_errors": sum(n for status, n in statuses.items() if status >= 500 or status < 0),
        "grown_mb": grown / 1e6,
        "state_equal": _bytes(found, directory)
        == _bytes(Checkpoint.start({"point": ovk.load(model)}, found.origin), directory),
        "exit_code": code,
    }


def main() -> None:
    """Run all trials at full length."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.service_trials", description=__doc__)
    parser.add_argument("--only", choices=["kill", "readers", "fuzz"], help="this one alone")
    chosen = parser.parse_args().only
    trials = {
        "kill": lambda directory: kill_trial(directory, 20_000, 20, checkpoint=3000, snapshot_of=True),
        "readers": lambda directory: readers_trial(directory, 60.0),
        "fuzz": lambda directory: fuzz_trial(directory, 5000),
    }
    for name, trial in trials.items():
        if chosen in (None, name):
            with tempfile.TemporaryDirectory() as directory:
                print(name, json.dumps(trial(Path(directory)), indent=1), flush=True)


if __name__ == "__main__":
    main()
