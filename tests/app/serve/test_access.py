"""No variant of a URL allows more than the scopes of the token."""

import asyncio
import http.client
import json
import re
from collections import Counter
from urllib.parse import quote, unquote

import pytest
from benchmarks.service_process import ServerProcess
from starlette.routing import Route

from ovk.app.serve import Tokens, create_app
from ovk.app.serve.service import LearnQueue
from serving_rows import rows

X, Y = (table.tolist() for table in rows(1))
TENSOR = {"name": "X", "shape": [1, 3], "datatype": "FP64", "data": X}
#: Method, URL, scope and body of every route; infer waits for a label, which also requires the scope learn.
ROUTES = [
    ("POST", "/v2/models/point/infer", "predict", {"inputs": [TENSOR], "parameters": {"await_label": True}}),
    ("POST", "/v2/models/point/learn", "learn", {"rows": X, "targets": Y}),
    ("POST", "/v2/models/point/promote", "admin", {"name": "point"}),
    ("GET", "/v2/models/point/events", "predict", None),
    ("GET", "/v2/models/point/ready", "predict", None),
    ("GET", "/v2/models/point", "predict", None),
    ("POST", "/v2/models/point/versions/1/infer", "predict", {"inputs": [TENSOR]}),
    ("GET", "/v2/models/point/versions/1/ready", "predict", None),
    ("GET", "/v2/models/point/versions/1", "predict", None),
    ("GET", "/v2/health/live", None, None),
    ("GET", "/v2/health/ready", None, None),
    ("GET", "/v2", "predict", None),
    ("POST", "/invocations", "predict", {"instances": X}),
    ("GET", "/ping", None, None),
    ("GET", "/version", None, None),
    ("GET", "/metrics", "predict", None),
    ("GET", "/openapi.json", None, None),
    ("GET", "/", None, None),
]
#: The scope of each handler, independent of the table in the application.
NEEDED = {
    "learn": "learn",
    "promote": "admin",
    "live": None,
    "ready": None,
    "version": None,
    "openapi": None,
    "page": None,
}

TOKENS = {name: f"{name}-token-of-sixteen" for name in ("predict", "learn", "learn,predict", "admin")}
#: The scopes of each client.
ASKING = {
    "nobody": set(),
    "stranger": set(),
    "predict": {"predict"},
    "learn": {"learn"},
    "learn,predict": {"learn", "predict"},
    "admin": {"predict", "learn", "admin"},
}

CONTROL = [*(f"%{code:02X}" for code in (*range(0x20), 0x7F)), "%C2%80", "%C2%85", "%C2%9F", "%E2%80%A8", "%E2%80%A9"]
SEPARATORS = [
    "%85",
    "%A0",
    "%2F",
    "%5C",
    "%3B",
    "%20",
    "%23",
    "%3F",
    "%2E%2E%2F",
    "%C2%A0",
    "%EF%BC%8F",
    "/",
    "//",
    ";",
]


def spellings(address, extra):
    """Variants of a URL: characters after it, inside its last segment, before that, and instead of a slash."""
    start, _, word = address.rpartition("/")
    middle = len(word) // 2
    found = [address + extra, f"{start}/{word[:middle]}{extra}{word[middle:]}", f"{start}{extra}/{word}"]
    return [*found, f"{start}/{extra}{word}", start + extra + word]


def ask(app, method, address, asking, body):
    """Status of the response and name of the handler, for a call as a server makes it."""
    headers = [(b"host", b"models.example"), (b"content-type", b"application/json")]
    if asking != "nobody":
        headers.append((b"authorization", f"Bearer {TOKENS.get(asking, 'a-token-nobody-knows')}".encode()))
    scope = {
        "type": "http",
        "method": method,
        "path": unquote(address),
        "raw_path": address.encode(),
        "query_string": b"",
        "root_path": "",
        "scheme": "http",
        "headers": headers,
        "client": ("10.1.2.3", 50000),
        "server": ("models.example", 80),
    }
    content = b"" if body is None else json.dumps(body).encode()
    messages = iter([{"type": "http.request", "body": content}])
    status = 0

    async def receive():
        # The client disconnects after its request, which ends the event stream.
        return next(messages, {"type": "http.disconnect"})

    async def send(message):
        nonlocal status
        status = message.get("status", status)

    async def call():
        await app(scope, receive, send)
        return status, getattr(scope.get("endpoint"), "__name__", None)

    return call()


@pytest.fixture
def app(models, tmp_path):
    tokens = Tokens({secret: set(name.split(",")) for name, secret in TOKENS.items()})
    app = create_app([models / "point.ovk"], data=tmp_path, tokens=tokens)
    app.state.server.open()
    yield app
    app.state.server.close()


@pytest.fixture
def submitted(monkeypatch):
    """The submitted entries."""
    real, entries = LearnQueue.submit, []

    async def submit(self, entry):
        entries.append(entry)
        return await real(self, entry)

    monkeypatch.setattr(LearnQueue, "submit", submit)
    return entries


def test_every_route_is_in_the_table_of_this_test(app):
    expected = Counter(
        (method, address.replace("point", "{model}").replace("s/1", "s/{version}")) for method, address, *_ in ROUTES
    )
    assert Counter((method, route.path) for route in app.routes for method in route.methods - {"HEAD"}) == expected
    assert all(type(route) is Route for route in app.routes)


@pytest.mark.parametrize("asking", ASKING)
def test_plain_addresses_need_their_scope(app, asking):
    async def run():
        for method, address, scope, body in ROUTES:
            status, _ = await ask(app, method, address, asking, body)
            needed = {scope} - {None} | ({"learn"} if body and "parameters" in body else set())
            allowed = needed <= ASKING[asking]
            refusal = 401 if asking in ("nobody", "stranger") else 403
            assert (status in (200, 202)) if allowed else (status == refusal), (method, address)

    asyncio.run(run())


@pytest.mark.parametrize("filtered", [True, False])
@pytest.mark.parametrize("asking", ASKING)
def test_no_spelling_of_an_address_gets_more_than_the_token_allows(app, submitted, monkeypatch, asking, filtered):
    """The check in the handler suffices even if control characters are accepted."""
    if not filtered:
        monkeypatch.setattr("ovk.app.serve.access.CONTROL", re.compile("(?!)"))
    allowed = ASKING[asking]

    async def run():
        for method, address, _, body in ROUTES:
            for extra in (*CONTROL, *SEPARATORS, *map(quote, CONTROL), *map(quote, SEPARATORS[:-3])):
                for spelling in spellings(address, extra):
                    status, ran = await ask(app, method, spelling, asking, body)
                    assert status < 500, spelling
                    if 200 <= status < 300:
                        assert {NEEDED.get(ran, "predict")} - {None} <= allowed, (spelling, ran)
                    if filtered and extra in CONTROL:
                        assert (status, ran) == (400, None), (spelling, status)

    asyncio.run(run())
    assert "learn" in allowed or not submitted
    assert "admin" in allowed or not any(entry.promote for entry in submitted)
    waiting = app.state.server.services["point"].queue.ledger
    assert {"learn", "predict"} <= allowed or not len(waiting)


def test_methods_do_not_get_round_the_scope(app, submitted):
    async def run():
        for _, address, scope, body in ROUTES:
            for method in ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "post", "LEARN"):
                status, _ = await ask(app, method, address, "nobody", body)
                assert status in ((200, 401, 405) if scope is None else (401, 405)), (method, address)

    asyncio.run(run())
    assert not submitted


def test_a_newline_behind_learn_is_refused_by_the_server_process(models, tmp_path):
    """Regression: the router matched learn, while the access check took the URL for a prediction."""
    (tmp_path / "tokens").write_text(f"predict {TOKENS['predict']}\n")
    arguments = [models / "point.ovk", "--data", tmp_path / "data", "--tokens", tmp_path / "tokens"]
    with ServerProcess(arguments, snapshot_of=True) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {TOKENS['predict']}"}
        for word, body in (("learn", {"rows": X, "targets": Y}), ("promote", {"name": "point"})):
            for end, expected in (("", 403), ("%0A", 400), ("%0a", 400), ("%0D%0A", 400)):
                connection.request("POST", f"/v2/models/point/{word}{end}", json.dumps(body), headers)
                reply = connection.getresponse()
                assert reply.status == expected, (word, end)
                message = json.loads(reply.read())["error"]
                assert "control character" in message if end else "does not allow" in message
        connection.close()
        assert server.terminate() == 0
