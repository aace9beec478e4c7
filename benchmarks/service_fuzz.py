"""Invalid requests to a server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np


class StrangeRequest(NamedTuple):
    """A request; `learns` marks learning requests, which must be refused."""

    kind: str
    method: str
    path: str
    body: bytes
    headers: dict[str, str]
    learns: bool


JSON = {"Content-Type": "application/json"}


def _deep(rng: np.random.Generator) -> bytes:
    n = int(rng.integers(20, 20_000))
    return b'{"inputs": ' + b"[" * n + b"]" * n + b"}"


def _tensor(**changes: Any) -> bytes:
    tensor = {"name": "X", "shape": [1, 3], "datatype": "FP64", "data": [0.1, 0.2, 0.3], **changes}
    return json.dumps({"inputs": [tensor], "targets": [tensor]}).encode()


def _random_json(rng: np.random.Generator, depth: int = 3) -> Any:
    pick = int(rng.integers(0, 9 if depth else 6))
    if pick < 6:
        return [None, True, -1, 1e308, "x" * int(rng.integers(0, 30)), 0.5][pick]
    if pick < 8:
        return [_random_json(rng, depth - 1) for _ in range(int(rng.integers(0, 4)))]
    names = ["inputs", "targets", "rows", "id", "parameters", "outputs", "name", "shape", "data", "datatype", "level"]
    chosen = rng.choice(names, int(rng.integers(1, 5)))
    return {str(name): _random_json(rng, depth - 1) for name in chosen}


#: Contents of a body, by kind.
BODIES: dict[str, Callable[[np.random.Generator], bytes]] = {
    "broken JSON": lambda rng: _tensor()[: int(rng.integers(0, 60))],
    "bytes": lambda rng: rng.bytes(int(rng.integers(0, 200))),
    "NaN": lambda rng: b'{"rows": [[NaN, 1, 2]], "targets": [[Infinity, 1]]}',
    "10^400": lambda rng: b'{"rows": [[1e400, 1, 2]], "targets": [[1' + b"0" * 400 + b", 1]]}",
    "a huge whole number": lambda rng: b'{"rows": [[' + b"9" * 5000 + b", 1, 2]]}",
    "wrong width": lambda rng: json.dumps({"rows": [[0.0] * int(rng.integers(4, 9))], "targets": [[1, 2]]}).encode(),
    "ragged": lambda rng: b'{"rows": [[1, 2, 3], [1]], "targets": [[1, 2], [1, 2]]}',
    "too few targets": lambda rng: b'{"rows": [[1, 2, 3], [1, 2, 3]], "targets": [[1, 2]]}',
    "texts as numbers": lambda rng: b'{"rows": [["1", "2", "3"]], "targets": [["4", "5"]]}',
    "deep nesting": _deep,
    "huge shape": lambda rng: _tensor(shape=[int(rng.integers(1 << 30, 1 << 39)), 3]),
    "negative shape": lambda rng: _tensor(shape=[-1, 3]),
    "shape of other things": lambda rng: _tensor(shape=["1", {}]),
    "unknown datatype": lambda rng: _tensor(datatype="FP65"),
    "binary without bytes": lambda rng: _tensor(parameters={"binary_data_size": 24}),
    "wrong level": lambda rng: json.dumps({"rows": [], "parameters": {"level": 2}}).encode(),
    "any JSON": lambda rng: json.dumps(_random_json(rng)).encode(),
    "an object of anything": lambda rng: json.dumps({"rows": _random_json(rng), "targets": _random_json(rng)}).encode(),
    "nothing": lambda rng: b"",
    "a lone surrogate": lambda rng: b'{"id": "\\ud800", "rows": [[1, 2, 3]], "targets": [[1, 2]]}',
    "an unknown label": lambda rng: b'{"infer_id": "never", "targets": [[1, 2]]}',
}

PATHS = (
    "/v2/models/../../etc/passwd/infer", "/v2/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v2/models/%00/learn",
    "/v2/models//infer", "/v2/models/" + "a" * 3000 + "/infer", "/..%2f..%2fcheckpoint.ovk",
    "/v2/models/point;x=1/learn",
    "/%F0%9F%92%A9", "/v2/models/point/learn/..", "/metrics/../metrics", "/v2/models/point%2flearn",
)  # fmt: skip


def fuzzed_requests(count: int, models: Sequence[str], rng: np.random.Generator) -> Iterator[StrangeRequest]:
    """Requests of which none may be learned."""
    kinds = list(BODIES)
    for k in range(count):
        model = models[int(rng.integers(len(models)))]
        if k % 10 == 8:
            method = str(rng.choice(["GET", "POST", "PUT", "DELETE", "OPTIONS"]))
            path = PATHS[int(rng.integers(len(PATHS)))]
            yield StrangeRequest("path", method, path, b"{}" if method == "POST" else b"", dict(JSON), False)
            continue
        if k % 10 == 9:
            headers = {"Content-Type": "application/octet-stream"}
            headers["Inference-Header-Content-Length"] = str(rng.choice(["-1", "99999999999999999999", "x", "5", "10"]))
            yield StrangeRequest("binary header", "POST", f"/v2/models/{model}/learn", _tensor(), headers, True)
            continue
        kind = kinds[int(rng.integers(len(kinds)))]
        path = str(rng.choice(["learn", "infer", "invocations", "promote"], p=[0.5, 0.3, 0.15, 0.05]))
        address = "/invocations" if path == "invocations" else f"/v2/models/{model}/{path}"
        yield StrangeRequest(kind, "POST", address, BODIES[kind](rng), dict(JSON), path == "learn")
