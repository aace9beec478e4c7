"""What stands before every request: who asks, security headers, one sentence for an error, and a clock.

The guard finds out which scopes a request has. The handler that the router chose checks whether they suffice (`needs`):
the text of an address decides nothing about access.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ovk.app.serve.access import SCOPES, RequestRefused, Tokens, is_local_name, is_loopback
from ovk.app.serve.metrics import ServiceMetrics

logger = logging.getLogger("ovk.app.serve")

Handler = Callable[[Request], Awaitable[Response]]

#: What a token without a scope does not allow.
DOING = {"predict": "predicting", "learn": "learning", "admin": "promoting a model"}

#: Control characters and separators of lines, which no address has.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")

#: The error codes of MLflow, by status; the others are those of a bad request, or of a server that failed.
MLFLOW_CODES = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED"}

#: Headers of every reply.
HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
]
#: Nothing may be loaded by what is not the page.
NO_CONTENT = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


def needs(scope: str | None, handler: Handler) -> Handler:
    """The handler, for requests that have a scope; None answers everybody."""

    @wraps(handler)
    async def checked(request: Request) -> Response:
        if scope is not None:
            _check_scope(request, scope)
        return await handler(request)

    return checked


def _check_scope(request: Request, needed: str) -> None:
    allowed: frozenset[str] | None = request.scope["ovk.scopes"]
    if allowed is None:
        given = request.scope["ovk.headers"].get(b"authorization", b"")[:7].lower() == b"bearer "
        raise RequestRefused(401, "the token is not recognised" if given else "this needs a bearer token")
    if needed not in allowed:
        raise RequestRefused(403, f"this token does not allow {DOING[needed]}")


class AuthMiddleware:
    """Finds out the scopes of each request (``ovk.scopes``): None without a token that is known.

    Parameters
    ----------
    app : what answers
    tokens : who may ask; None serves this machine alone
    metrics : where requests are counted
    """

    def __init__(self, app: ASGIApp, tokens: Tokens | None, metrics: ServiceMetrics) -> None:
        self.app, self.tokens, self.metrics = app, tokens, metrics

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
                    headers.append(NO_CONTENT)
                message = {**message, "headers": headers}
            await send(message)

        try:
            self._admit(scope)
            await self.app(scope, receive, answer)
        except RequestRefused as error:
            if not status:
                await _refuse(answer, scope, error)
        except Exception as error:
            logger.error("a request failed", extra={"path": scope["path"][:200]}, exc_info=error)
            if not status:
                await _refuse(answer, scope, RequestRefused(500, "the server failed; its log says why"))
        self.metrics.requests.observe(_route(scope), status, time.perf_counter() - start)

    def _admit(self, scope: Scope) -> None:
        """Refuse what nobody may ask, and note the scopes of the rest."""
        if CONTROL.search(scope["path"]):
            raise RequestRefused(400, "the address has a control character or a line separator: leave it out")
        headers: dict[bytes, bytes] = dict(scope["headers"])
        scope["ovk.headers"] = headers
        origin = headers.get(b"origin")
        if origin is not None and origin.partition(b"://")[2] != headers.get(b"host"):
            raise RequestRefused(403, "a page from elsewhere may not ask")
        allowed: frozenset[str] | None = frozenset(SCOPES)
        if self.tokens is None:
            client = scope.get("client")
            host = headers.get(b"host")
            if (client is not None and not is_loopback(client[0])) or not is_local_name(
                None if host is None else host.decode("latin-1")
            ):
                raise RequestRefused(403, "without tokens this server answers its own machine alone")
        else:
            header = headers.get(b"authorization")
            allowed = self.tokens.scopes(None if header is None else header.decode("latin-1"))
        scope["ovk.scopes"] = allowed


async def _refuse(send: Send, scope: Scope, error: RequestRefused) -> None:
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


def _route(scope: Scope) -> str:
    """What kind of request it was: a few words, whatever addresses are tried."""
    endpoint = scope.get("endpoint")
    return getattr(endpoint, "__name__", "other") if endpoint is not None else "other"
