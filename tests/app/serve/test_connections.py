"""Clients that open connections and send nothing, or send slowly, cannot occupy all connections."""

import json
import socket
import time
from contextlib import ExitStack, suppress
from math import inf

import httpx
import pytest
from benchmarks.service_process import ServerProcess

from ovk.app.serve import Limits
from ovk.app.serve.access import HEALTH_ONLY
from ovk.app.serve.connections import MAX_PIPELINED, MAX_RESERVED_CONNECTIONS, Connections
from processes import PATIENCE, wait_until
from serving_rows import rows

X, Y = (table.tolist() for table in rows(1))
BODY = json.dumps({"rows": X}).encode()
HEAD = b"POST /v2/models/point/infer HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
#: What a hostile client sends before it stops.
STARTS = {
    "silent": b"",
    "slow header": HEAD[:-10],
    "slow body": HEAD + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:5],
    "slow body of another request": b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{",
    "silent after a request": b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def opened(port, content, stack, source="127.0.0.1"):
    one = stack.enter_context(socket.socket())
    one.bind((source, 0))
    one.settimeout(PATIENCE)
    one.connect(("127.0.0.1", port))
    one.sendall(content)
    return one


def ended(one):
    """Wait until the server has closed a connection."""
    with suppress(ConnectionError):
        while one.recv(1 << 16):
            pass


def served(server):
    """A client of the same address is served, on new connections."""
    for _ in range(3):
        assert httpx.get(f"{server.url}/v2/health/ready", timeout=PATIENCE).status_code == 200
        assert httpx.post(f"{server.url}/v2/models/point/infer", content=BODY, timeout=PATIENCE).status_code == 200


class Stub:
    """A connection whose client the server has waited for since a time; None if it is being answered."""

    def __init__(self, connections, address="a", since=None, deadline=1e9):
        self.connections, self.address, self.transport = connections, address, self
        self.since, self.deadline = (0.0, inf) if since is None else (since, deadline)
        self.app_state, self.open = {"other": 1}, True
        connections.admit(self)

    def abort(self):
        self.open = False
        self.connections.forget(self)


def test_the_connection_that_was_waited_for_longest_makes_room():
    connections = Connections(Limits(connections=3))
    several = [Stub(connections, since=since) for since in (5.0, None, 2.0, 7.0, 3.0, 9.0)]
    assert [one.since for one in several if one.open] == [0.0, 7.0, 9.0]


def test_at_most_so_many_connections_of_an_address_and_twice_as_many_in_total():
    connections = Connections(Limits(connections=2))
    first = Stub(connections, "a", since=1.0)
    others = [Stub(connections, address, since=2.0) for address in "abb"]
    assert first.open
    # A third address needs the room of the connection that was waited for longest, of whatever address.
    last = Stub(connections, "c", since=3.0)
    assert [first.open, *(one.open for one in (*others, last))] == [False, True, True, True, True]
    assert not any(HEALTH_ONLY in one.app_state for one in (*others, last))


def test_the_reserve_is_for_health_checks_and_is_limited_too():
    connections = Connections(Limits(connections=1))
    answered = [Stub(connections), Stub(connections, "b")]
    reserve = [Stub(connections, "ab"[k % 2]) for k in range(MAX_RESERVED_CONNECTIONS)]
    assert all(one.app_state == {"other": 1, HEALTH_ONLY: True} for one in reserve)
    assert not Stub(connections).open
    reserve[0].deadline = 1e9
    assert Stub(connections).open
    assert [one.open for one in (*answered, *reserve)] == [True, True, False, *[True] * (MAX_RESERVED_CONNECTIONS - 1)]
    answered[0].abort()
    assert HEALTH_ONLY not in Stub(connections).app_state


def test_connections_expire_at_their_deadlines():
    connections, now = Connections(Limits(connections=2)), time.monotonic()
    late, early = (Stub(connections, since=now, deadline=now + seconds) for seconds in (-1.0, 60.0))
    answered = Stub(connections, "b")
    connections.expire()
    assert (late.open, early.open, answered.open) == (False, True, True)


@pytest.fixture(scope="module")
def small(models):
    """A server that takes four connections of an address and waits for a quarter of a second."""
    with ServerProcess([models / "point.ovk", "--max-connections", 4, "--timeout", 0.25], snapshot_of=True) as running:
        yield running
        assert running.terminate() == 0
        assert not running.other


@pytest.mark.parametrize("kind", STARTS)
def test_idle_connections_make_room(small, kind):
    with ExitStack() as stack:
        hostile = [opened(small.port, STARTS[kind], stack) for _ in range(30)]
        served(small)
        for one in hostile[:20]:
            ended(one)


@pytest.mark.long
@pytest.mark.parametrize("kind", STARTS)
def test_a_thousand_connections_keep_nobody_out(models, kind):
    with ServerProcess([models / "point.ovk"], snapshot_of=True) as server, ExitStack() as stack:
        hostile = [opened(server.port, STARTS[kind], stack) for _ in range(1000)]
        served(server)
        for one in hostile[:700]:
            ended(one)
        served(server)
        assert server.terminate() == 0


@pytest.mark.long
def test_a_thousand_connections_of_many_addresses_keep_nobody_out(models):
    with ServerProcess([models / "point.ovk"], snapshot_of=True) as server, ExitStack() as stack:
        for k in range(1000):
            opened(server.port, b"", stack, source=f"127.0.1.{k % 10}")
        served(server)
        assert server.terminate() == 0


@pytest.mark.long
@pytest.mark.parametrize("kind", list(STARTS)[:3])  # the others have their response, and 75 seconds
def test_the_server_does_not_wait_for_ever(small, kind):
    """Also if no other client requests the connection."""
    with ExitStack() as stack:
        ended(opened(small.port, STARTS[kind], stack))
    served(small)


def test_connections_that_are_all_being_answered_leave_a_reserve_for_health_checks(models):
    """Event streams are answered until their clients leave."""
    with (
        ServerProcess([models / "point.ovk", "--max-connections", 4], snapshot_of=True) as server,
        ExitStack() as stack,
    ):
        events = b"GET /v2/models/point/events HTTP/1.1\r\nHost: localhost\r\n\r\n"
        streams = [opened(server.port, events, stack) for _ in range(4)]
        for one in streams:
            assert one.recv(1 << 16).startswith(b"HTTP/1.1 200")
        for _ in range(40):
            opened(server.port, b"", stack)
        ready = opened(server.port, b"GET /v2/health/ready HTTP/1.1\r\nHost: localhost\r\n\r\n", stack)
        reply = ready.recv(1 << 16)
        assert reply.startswith(b"HTTP/1.1 200")
        # It does not keep a place of the reserve.
        assert b"\r\nconnection: close\r\n" in reply
        ended(ready)
        refused = httpx.post(f"{server.url}/v2/models/point/infer", content=BODY, timeout=PATIENCE)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "2")
        assert refused.json() == {"error": "all connections are in use: retry later"}
        # Another address is served.
        with httpx.Client(transport=httpx.HTTPTransport(local_address="127.0.0.2")) as other:
            reply = other.post(f"{server.url}/v2/models/point/infer", content=BODY, timeout=PATIENCE)
            assert reply.status_code == 200
        streams.pop().close()
        wait_until(
            lambda: httpx.post(f"{server.url}/v2/models/point/infer", content=BODY).status_code == 200,
            "free connection",
        )
        assert server.terminate() == 0
        warned = [line for line in server.lines if line["event"] == "all connections are in use"]
        assert [(line["address"], line["of_address"]) for line in warned] == [("127.0.0.1", 4)]


def test_headers_are_limited(small):
    def status(content):
        with ExitStack() as stack:
            one = opened(small.port, content, stack)
            return one.recv(1 << 16).split()[1]

    get = b"GET /ping%b HTTP/1.1\r\nHost: localhost\r\n%b\r\n"
    assert status(get % (b"", b"A: " + b"a" * 60_000 + b"\r\n")) == b"200"
    assert status(get % (b"", b"A: " + b"a" * 70_000 + b"\r\n")) == b"400"
    assert status(get % (b"", b"A: a\r\n" * 20_000)) == b"400"
    assert status(get % (b"?" + b"a" * 70_000, b"")) == b"400"
    # Without an end.
    assert status(b"GET /ping HTTP/1.1\r\nA: " + b"a" * 70_000) == b"400"
    assert status(b"GET /" + b"a" * 70_000) == b"400"
    # Neither do several requests on one connection add up.
    with httpx.Client(base_url=small.url, timeout=PATIENCE) as client:
        for _ in range(4):
            assert client.get("/ping", headers={"A": "a" * 40_000}).status_code == 200


def test_what_surrounds_a_body_is_limited(small):
    """Regression: the fields after a chunked body filled the memory."""
    chunked = HEAD + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % len(BODY) + BODY + b"\r\n"

    def reply(content):
        with ExitStack() as stack:
            one = opened(small.port, chunked, stack)
            one.sendall(content)
            return one.recv(1 << 16)

    assert reply(b"0\r\nA: a\r\n\r\n").startswith(b"HTTP/1.1 200")
    # The client belongs to the same page, whatever a field after the body says.
    assert reply(b"0\r\nOrigin: http://evil.example\r\n\r\n").startswith(b"HTTP/1.1 200")
    many = 4000 * (b"A: " + b"a" * 95 + b"\r\n")
    for endless in (b"0\r\nA: " + b"a" * 400_000, b"0\r\n" + many, b"5;" + b"a" * 400_000):
        assert b"The header is larger than" in reply(endless)


def test_few_requests_of_a_connection_may_wait(small):
    """Regression: each response admitted further ones, until the memory was full."""
    get = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with ExitStack() as stack:
        several = opened(small.port, MAX_PIPELINED * get, stack)
        replies = b""
        while replies.count(b"HTTP/1.1 200") < MAX_PIPELINED:
            replies += several.recv(1 << 16)
        too_many = opened(small.port, 10 * MAX_PIPELINED * get, stack)
        assert too_many.recv(1 << 16).startswith(b"HTTP/1.1 400")


def test_a_client_that_does_not_read_is_not_waited_for(small):
    """Its replies would fill the memory of the server."""
    with ExitStack() as stack:
        one = stack.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.connect(("127.0.0.1", small.port))
        one.settimeout(PATIENCE)
        page = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        with suppress(ConnectionError):
            while one.send(page * 100):
                pass
    served(small)


def test_web_sockets_are_not_spoken(small):
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"}
    assert httpx.get(f"{small.url}/ping", headers=upgrade, timeout=PATIENCE).status_code == 200
