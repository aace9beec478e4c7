"""Tokens, limits, and responses to rejected requests."""

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from html import unescape

import numpy as np
import pytest

from ovk.app.serve import Tokens, is_loopback
from ovk.app.serve.access import is_local_name
from ovk.app.serve.log import Log
from ovk.app.serve.status import page_and_policy
from processes import PATIENCE, wait_until
from serving_rows import rows

SECRETS = {"predict": "p" * 20, "learn": "l" * 20, "admin": "a" * 20}


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens"
    path.write_text("# who\n\n" + "".join(f"{scope} {secret}\n" for scope, secret in SECRETS.items()))
    return path


def bearer(scope):
    return {"Authorization": f"Bearer {SECRETS[scope]}"}


def infer(client, X, **options):
    body = {"inputs": [{"name": "X", "shape": list(X.shape), "datatype": "FP64", "data": X.tolist()}]}
    return client.post("/v2/models/point/infer", json=body, **options)


def test_tokens_have_scopes(client_of, tokens, tmp_path):
    client = client_of("point", tokens=tokens, data=tmp_path / "data", address="10.1.2.3", base="http://models.example")
    X, Y = rows(3)
    body = {"id": "a", "rows": X.tolist(), "targets": Y.tolist()}
    unknown, none = {"error": "the token is not recognised"}, {"error": "a bearer token is required"}
    for headers, words in (
        ({}, none),
        ({"Authorization": "Bearer wrong"}, unknown),
        ({"Authorization": f"Basic {SECRETS['predict']}"}, none),
    ):
        reply = infer(client, X, headers=headers)
        assert (reply.status_code, reply.json()) == (401, words)
    assert client.post("/invocations", json={}).json()["error_code"] == "UNAUTHENTICATED"
    assert client.post("/invocations", json={}, headers=bearer("learn")).json() == {
        "error_code": "PERMISSION_DENIED",
        "message": "this token does not allow predicting",
    }
    # The names of the models are hidden from clients without access.
    missing = "/v2/models/nobody/learn"
    assert client.post(missing, json=body, headers=bearer("learn")).json() == {"error": "there is no model 'nobody'"}
    assert "models are point" in client.post(missing, json=body, headers=bearer("admin")).json()["error"]
    assert "point" not in client.get("/").text.partition("<script>")[0]
    assert infer(client, X, headers=bearer("predict")).status_code == 200
    learn, promote = "/v2/models/point/learn", "/v2/models/point/promote"
    refused = client.post(learn, json=body, headers=bearer("predict"))
    assert (refused.status_code, refused.json()) == (403, {"error": "this token does not allow learning"})
    assert client.post(learn, json=body, headers=bearer("learn")).status_code == 202
    assert infer(client, X, headers=bearer("learn")).status_code == 403
    assert client.post(promote, json={}, headers=bearer("learn")).status_code == 403
    assert client.post(promote, json={"name": "point"}, headers=bearer("admin")).status_code == 202
    for path in ("/metrics", "/v2/models/point", "/v2", "/v2/models/point/events"):
        assert client.get(path).status_code == 401, path
    for path in ("/", "/v2/health/live", "/v2/health/ready", "/ping", "/version"):
        assert client.get(path).status_code == 200, path


@pytest.mark.parametrize("line", ["predict", "predict short", "everything " + "x" * 20, "# nothing"])
def test_a_file_of_tokens_that_makes_no_sense_is_refused(tmp_path, line):
    (tmp_path / "tokens").write_text(line + "\n")
    with pytest.raises(ValueError, match="token"):
        Tokens.read(tmp_path / "tokens")


def test_without_tokens_only_this_machine_is_served(client_of):
    X, _ = rows(1)
    assert infer(client_of("point"), X).status_code == 200
    assert infer(client_of("point", address="192.168.1.7"), X).status_code == 403
    # A foreign page in a browser on this machine.
    assert infer(client_of("point"), X, headers={"Origin": "http://evil.example"}).status_code == 403
    assert infer(client_of("point"), X, headers={"Origin": "http://localhost"}).status_code == 200
    # A foreign page whose domain resolves to this machine (DNS rebinding).
    assert infer(client_of("point", base="http://rebound.example"), X).status_code == 403


@pytest.mark.parametrize("name", ["127.rebound.example", "127.0.0.1.rebound.example", "localhost.rebound.example"])
def test_a_name_that_begins_like_this_machine_is_not_this_machine(client_of, name):
    """Anybody can register such a name and point it here."""
    assert not is_loopback(name)
    assert not is_local_name(f"{name}:8080".encode())
    X, _ = rows(1)
    assert infer(client_of("point", base=f"http://{name}"), X).status_code == 403


def test_limits(client_of, tmp_path):
    client = client_of("point", data=tmp_path, limits={"body": 4000, "rows": 20})
    X, _ = rows(30)
    assert infer(client, X).status_code == 413
    assert infer(client, X[:5]).status_code == 200
    assert infer(client, np.empty((0, 3))).status_code == 400
    assert (
        client.post("/invocations", content=b" " * 5000, headers={"Content-Type": "application/json"}).status_code
        == 413
    )
    small = {"rows": [[0, 0, 0]] * 21, "targets": [[0, 0]] * 21}
    assert client.post("/v2/models/point/learn", json=small).status_code == 413

    for depth, words in ((16, "unknown key 'a'"), (17, "more than 16 levels")):
        # The object is the first level.
        nested = b'{"a": ' + b"[" * (depth - 1) + b"]" * (depth - 1) + b"}"
        reply = client.post("/invocations", content=nested, headers={"Content-Type": "application/json"})
        assert reply.status_code == 400
        assert words in reply.json()["message"]

    def endless():
        for _ in range(100):
            yield b" " * 1000

    chunked = client.post("/invocations", content=endless(), headers={"Content-Type": "application/json"})
    assert chunked.status_code == 413


@pytest.fixture
def stuck(monkeypatch):
    """A disk that blocks until it is released."""
    real, free = Log.append, threading.Event()

    def slow(self, records):
        assert free.wait(PATIENCE)
        return real(self, records)

    monkeypatch.setattr(Log, "append", slow)
    yield free
    free.set()


def test_a_full_queue_asks_to_come_again(client_of, tmp_path, stuck):
    client = client_of("point", data=tmp_path, limits={"queue": 2, "seconds": PATIENCE})
    X, Y = rows(2)
    body = {"rows": X.tolist(), "targets": Y.tolist()}
    with ThreadPoolExecutor(2) as others:
        waiting = [others.submit(client.post, "/v2/models/point/learn", json=body) for _ in range(2)]
        wait_until(lambda: 'ovk_queue_requests{model="point"} 2.0' in client.get("/metrics").text, "full queue")
        refused = client.post("/v2/models/point/learn", json=body)
        stuck.set()
        assert [reply.result(PATIENCE).status_code for reply in waiting] == [202, 202]
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")


def test_a_disk_that_takes_too_long_is_no_reason_to_wait_for_ever(client_of, tmp_path, stuck):
    client = client_of("point", data=tmp_path, limits={"seconds": 0.2})
    X, Y = rows(2)
    late = client.post("/v2/models/point/learn", json={"id": "a", "rows": X.tolist(), "targets": Y.tolist()})
    assert (late.status_code, late.headers["retry-after"]) == (503, "2")


def test_content_types_are_checked(client_of):
    client = client_of("point")
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/octet-stream"):
        reply = client.post("/invocations", content=b'{"instances": [[0, 0, 0]]}', headers={"Content-Type": kind})
        assert reply.status_code == 415, kind
    gzip = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    assert client.post("/invocations", content=b"x", headers=gzip).status_code == 415


def test_every_reply_has_security_headers(client_of):
    client = client_of("point")
    for path in (
        "/",
        "/metrics",
        "/nowhere",
        "/v2/models/x",
        "/v2/models/../../etc/passwd",
        "/v2/models/%2e%2e%2fpoint",
    ):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-frame-options"] == "DENY"
    policy = client.get("/").headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "connect-src 'self'" in policy


def test_the_page_brings_its_first_state_where_no_token_is_needed(client_of):
    text = client_of("point").get("/").text
    found = json.loads(unescape(re.search(r'<body data-first="([^"]*)">', text)[1]))
    assert found["models"] == ["point"]
    assert (found["view"]["rows"], found["view"]["outputs"]) == (0, ["y0", "y1"])


def test_the_page_loads_nothing():
    html, policy = page_and_policy()
    text = html.decode()
    assert not re.findall(r"""(?:src|href)=["'](?!#|data:)""", text)
    assert not re.findall(r"https?://(?!www\\.w3\\.org/2000/svg)", text.replace("http://www.w3.org/2000/svg", ""))
    assert " style=" not in text
    assert " onclick" not in text
    assert policy.count("sha256-") == 2


def test_no_trace_of_the_stack_leaves_the_process(client_of, monkeypatch, caplog):
    from ovk.app.serve.served_model import ServedEstimator

    def broken(self, *arguments):
        raise ZeroDivisionError("a secret of /etc/somewhere")

    client = client_of("point")
    monkeypatch.setattr(ServedEstimator, "predict", broken)
    reply = infer(client, rows(1)[0])
    assert reply.status_code == 500
    assert "secret" not in reply.text
    assert "Traceback" not in reply.text
    assert "a secret" in caplog.text
