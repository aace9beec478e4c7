"""What hostile clients might measure, write into the log, or use up."""

import http.client
import json
import logging
import time
from statistics import median

import pytest
from benchmarks.service_client import ServiceClient
from benchmarks.service_process import ServerProcess

from ovk.app.serve import Tokens
from ovk.app.serve.run import JsonLines
from serving_rows import rows

SECRET = "0123456789abcdef" * 2
#: What would forge a line, hide it from a terminal, or end a string of JSON.
HOSTILE = [
    '"}\n{"event": "forged"',
    "\r\n\r\nforged",
    "\x1b[2J\x1b[31mforged",
    "\u2028forged",
    '\\", "level": "x',
    "\x00",
]


def test_tokens_are_compared_by_digest_and_always_with_all(monkeypatch):
    """So the time cannot depend on how much of a token is right, nor on which one it is."""
    compared = []

    def compare(known, given):
        compared.append((len(known), len(given)))
        return known == given

    monkeypatch.setattr("ovk.app.serve.access.hmac.compare_digest", compare)
    tokens = Tokens({SECRET: {"predict"}, "x" * 32: {"learn"}, "y" * 40: {"admin"}})
    for given in (SECRET, SECRET[:-1], "y" * 40, "", "z" * 100):
        compared.clear()
        tokens.scopes(f"Bearer {given}")
        assert compared == [(32, 32)] * 3


@pytest.mark.long
def test_a_token_that_is_nearly_right_takes_no_longer():
    """Processor time, in turns. A comparison byte by byte would differ most between the first and the last byte."""
    tokens = Tokens({SECRET: {"predict"}})
    wrong = {"first": "x" + SECRET[1:], "last": SECRET[:-1] + "x"}
    taken = {name: [] for name in wrong}
    for _ in range(2000):
        for name, token in wrong.items():
            start = time.thread_time_ns()
            for _ in range(20):
                tokens.scopes(f"Bearer {token}")
            taken[name].append(time.thread_time_ns() - start)
    first, last = (sorted(values)[: len(values) // 2] for values in taken.values())
    assert abs(median(first) / median(last) - 1) < 0.1


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_that_a_client_sends_forges_a_line_of_the_log(text):
    record = logging.makeLogRecord({"msg": "%s", "args": (text,), "levelname": "WARNING", "path": text})
    line = JsonLines().format(record)
    assert line.isascii()
    assert line.isprintable()
    found = json.loads(line)
    assert (found["event"], found["path"], found["level"]) == (text, text, "warning")


@pytest.mark.long
def test_a_server_that_logs_every_request_logs_lines_of_json(models, tmp_path):
    with ServerProcess([models / "point.ovk", "--data", tmp_path, "--access-log"], snapshot_of=True) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        for text in HOSTILE:
            quoted = "".join(f"%{byte:02X}" for byte in text.encode())
            for path in (f"/v2/models/{quoted}/infer", f"/{quoted}?{quoted}"):
                connection.request("GET", path, headers={"User-Agent": '"}', "Referer": '"}'})
                connection.getresponse().read()
            body = json.dumps({"id": text, "rows": [[0, 0, 0]], "targets": [[0, 0]], "infer_id": text})
            connection.request("POST", "/v2/models/point/learn", body, {"Content-Type": "application/json"})
            connection.getresponse().read()
        connection.close()
        assert server.terminate() == 0
        assert not server.other
        assert {line["event"] for line in server.lines} >= {"listening", "stopped"}
        assert not any(line["event"].startswith("forged") for line in server.lines)
        assert sum("HTTP/1.1" in line["event"] for line in server.lines) == 3 * len(HOSTILE)


@pytest.mark.long
def test_memory_is_flat_over_twenty_thousand_requests(models, tmp_path):
    """Predictions, learning, rejected requests, unknown URLs and new connections, in turns."""
    X, Y = (table.tolist() for table in rows(5))
    with ServerProcess([models / "point.ovk", "--data", tmp_path, "--checkpoint", 5000]) as server:
        client = ServiceClient(server.port)
        reached = []
        for k in range(20_000):
            kind = k % 5
            if kind == 0:
                status, _ = client.post("/v2/models/point/learn", {"id": f"r{k}", "rows": X, "targets": Y})
                assert status in (202, 429)
            elif kind == 1:
                assert client.post("/v2/models/point/infer", {"rows": X})[0] == 200
            elif kind == 2:
                assert client.post("/v2/models/point/infer", {"rows": [[k]]})[0] == 400
            elif kind == 3:
                assert client.request("GET", f"/unknown/{k}")[0] == 404
            else:
                client.close()
                client = ServiceClient(server.port)
                assert client.request("GET", "/metrics")[0] == 200
            if k % 1000 == 999:
                reached.append(server.memory())
        client.close()
        assert server.terminate() == 0
    # The last 10,000 ids of learning requests are kept, so it may grow a little.
    assert max(reached[10:]) - max(reached[5:10]) < 8 << 20, reached
