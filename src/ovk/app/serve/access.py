"""Access control: tokens with scopes, limits, and the middleware that every request passes.

The middleware determines the scopes of a request; the handler that the router chose checks them (`needs`). Access never
depends on the text of a URL.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ovk.app.sessions import setting

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    Handler = Callable[[Request], Awaitable[Response]]

logger = logging.getLogger("ovk.app.serve")

#: What a token may allow; admin allows everything.
SCOPES = ("predict", "learn", "admin")


class Tokens:
    """Bearer tokens and their scopes.

    Only digests are stored, and a token is compared with all of them in constant time.

    Parameters
    ----------
    scopes : mapping from str to set of str
        For each token, the scopes that it allows: "predict", "learn", or "admin" for everything.

    See Also
    --------
    create_app, Limits

    Examples
    --------
    >>> from ovk.app.serve import Tokens
    >>> tokens = Tokens({"a-secret-of-sixteen": {"predict"}})
    >>> sorted(tokens.scopes("Bearer a-secret-of-sixteen")), tokens.scopes("Bearer wrong")
    (['predict'], None)
    """

    def __init__(self, scopes: Mapping[str, set[str]]) -> None:
        self._scopes = [
            (hashlib.sha256(token.encode()).digest(), frozenset(SCOPES if "admin" in allowed else allowed))
            for token, allowed in scopes.items()
        ]

    @classmethod
    def read(cls, path: str | Path) -> Tokens:
        """Read a file with one ``scope,scope token`` per line; empty lines and comments (#) are skipped."""
        if Path(path).stat().st_mode & 0o066:
            extra = {"file": str(path), "remedy": f"chmod 600 {path}"}
            logger.warning("other users can read or change the file of tokens", extra=extra)
        found: dict[str, set[str]] = {}
        for number, line in enumerate(Path(path).read_text(encoding="utf-8").splitlines(), start=1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            scopes = set(words[0].split(","))
            if len(words) != 2 or not scopes <= set(SCOPES):
                raise ValueError(
                    f"line {number} of {path} must contain scopes and a token, such as 'predict,learn 3f9a...'; "
                    f"scopes are {', '.join(SCOPES)}"
                )
            if len(words[1]) < 16:
                raise ValueError(f"the token in line {number} of {path} has fewer than 16 characters: use a longer one")
            found[words[1]] = scopes
        if not found:
            raise ValueError(f"{path} contains no token: add a line such as 'predict,learn 3f9a...', or omit the file")
        return cls(found)

    def scopes(self, header: str) -> frozenset[str] | None:
        """The scopes of the token in an ``Authorization`` header; None without a valid token."""
        kind, _, token = header.partition(" ")
        digest = hashlib.sha256(token.strip().encode("utf-8", "surrogateescape")).digest()
        found: frozenset[str] | None = None
        for known, scopes in self._scopes:
            if hmac.compare_digest(known, digest):
                found = scopes
        return found if kind.lower() == "bearer" else None


@lru_cache(maxsize=1024)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@lru_cache(maxsize=1024)
def is_local_name(host: bytes | None) -> bool:
    """Whether a ``Host`` header names this machine. A foreign domain that resolves to it does not (DNS rebinding)."""
    if host is None:
        return True
    name, colon, port = host.decode("latin-1").rpartition(":")
    if not colon or not port.isdigit():
        name = host.decode("latin-1")
    return is_loopback(name.lower().removeprefix("[").removesuffix("]"))


@dataclass(frozen=True)
class Limits:
    """Limits of a service. All but `label_bytes` are options of ``ovk serve``.

    Parameters
    ----------
    body, rows : int
        Maximum bytes and rows of a request.
    queue : int
        Maximum number of queued learning requests.
    seconds : float
        Maximum seconds of a request.
    connections : int
        Maximum connections of one address; all addresses together have twice as many. Only ``ovk serve`` counts them.
    checkpoint_rows, checkpoint_seconds : int, float
        Rows, and maximum seconds, between two checkpoints.
    label_seconds, label_bytes : float, int
        How long predictions wait for their labels, and the memory that their rows may use.

    See Also
    --------
    create_app, Tokens

    Examples
    --------
    >>> from ovk.app.serve import Limits
    >>> limits = Limits(rows=100)
    >>> limits.rows, limits.queue, limits.seconds
    (100, 256, 30.0)
    """

    body: int = setting("Maximum size of a request in bytes.", 8 << 20, option="--max-body", low=1024)
    rows: int = setting("Maximum number of rows in a request.", 10_000, option="--max-rows", low=1)
    queue: int = setting("Maximum number of queued learning requests.", 256, low=1)
    seconds: float = setting("Maximum duration of a request in seconds.", 30.0, option="--timeout", low=0.1)
    connections: int = setting("Maximum connections from one address.", 256, option="--max-connections", low=1)
    checkpoint_rows: int = setting("Rows between two checkpoints.", 10_000, option="--checkpoint", low=1)
    checkpoint_seconds: float = setting("Maximum seconds between two checkpoints.", 60.0, low=0.1)
    label_seconds: float = setting("Seconds that a prediction waits for its label.", 3600.0, low=0)
    label_bytes: int = 64 << 20


class RequestError(Exception):
    """A rejected request. The client sees the message, so it never contains a path or a stack trace."""

    def __init__(self, status: int, message: str, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after


class CorruptLogError(ValueError):
    """The log is damaged, and not by a crash; the message contains the file and the offset.

    See Also
    --------
    create_app

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from ovk.app.serve import CorruptLogError
    >>> from ovk.app.serve.log import Log
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     _ = (Path(directory) / "log-1.wal").write_bytes(b"something else")
    ...     try:
    ...         list(Log(Path(directory)).replay(after=0))
    ...     except CorruptLogError as error:
    ...         print(str(error).split(": ")[1])
    it is not a log
    """


#: What each scope allows, for messages.
ACTIONS = {"predict": "predicting", "learn": "learning", "admin": "promoting a model"}

#: The state of requests on connections beyond the limits, and the handlers that answer these.
HEALTH_ONLY, HEALTH_CHECKS = "ovk.health_only", ("live", "ready", "model_ready")

#: Control characters and line separators, which no URL contains.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

#: MLflow's error codes by status; other statuses are bad requests or internal errors.
MLFLOW_CODES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}

#: Headers of every response.
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
#: For every response except the status page: the browser may load nothing.
STRICT_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


def needs(scope: str | None, handler: Handler) -> Handler:
    """A handler that requires a scope; None admits every client."""

    @wraps(handler)
    async def checked(request: Request) -> Response:
        if HEALTH_ONLY in request.scope.get("state", ()) and handler.__name__ not in HEALTH_CHECKS:
            raise RequestError(503, "all connections are in use: retry later", retry_after=2)
        allowed: frozenset[str] | None = request.scope["ovk.scopes"]
        if scope is not None and allowed is None:
            given = request.scope["ovk.headers"].get(b"authorization", b"")[:7].lower() == b"bearer "
            raise RequestError(401, "the token is not recognised" if given else "a bearer token is required")
        if scope is not None and scope not in (allowed or ()):
            raise RequestError(403, f"this token does not allow {ACTIONS[scope]}")
        return await handler(request)

    return checked


class AuthMiddleware:
    """Sets the scopes of each request (``ovk.scopes``), None without a valid token; reports it to `observe`.

    If no tokens are configured, only this machine is served.
    """

    def __init__(self, app: ASGIApp, tokens: Tokens | None, observe: Callable[[str, int, float], None]) -> None:
        self.app, self.tokens, self.observe = app, tokens, observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0

        async def answer(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = list(message.get("headers", []))
                headers += HEADERS
                if not any(name == b"content-security-policy" for name, _ in headers):
                    headers.append(STRICT_POLICY)
                message = {**message, "headers": headers}
            await send(message)

        try:
            self._admit(scope)
            await self.app(scope, receive, answer)
        except RequestError as error:
            if not status:
                await _send_error(answer, scope, error)
        except Exception as error:
            logger.error("a request failed", extra={"path": scope["path"][:200]}, exc_info=error)
            if not status:
                await _send_error(answer, scope, RequestError(500, "internal error; see the log of the server"))
        # The handler's name, not the URL: the number of distinct URLs is unbounded.
        self.observe(getattr(scope.get("endpoint"), "__name__", "other"), status, time.perf_counter() - start)

    def _admit(self, scope: Scope) -> None:
        if CONTROL.search(scope["path"]):
            raise RequestError(400, "the URL contains a control character or line separator: remove it")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        scope["ovk.headers"] = headers
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            raise RequestError(403, "requests from pages of another origin are rejected")
        if self.tokens is not None:
            scope["ovk.scopes"] = self.tokens.scopes(headers.get(b"authorization", b"").decode("latin-1"))
            return
        client = scope.get("client")
        if not is_local_name(headers.get(b"host")) or (client is not None and not is_loopback(client[0])):
            raise RequestError(403, "without tokens, this server accepts only requests from its own machine")
        scope["ovk.scopes"] = frozenset(SCOPES)


async def _send_error(send: Send, scope: Scope, error: RequestError) -> None:
    content: dict[str, Any] = {"error": str(error)}
    if scope["path"] == "/invocations":
        code = MLFLOW_CODES.get(error.status, "BAD_REQUEST" if error.status < 500 else "INTERNAL_ERROR")
        content = {"error_code": code, "message": str(error)}
    body = json.dumps(content).encode() + b"\n"
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
