"""Replies in JSON, and small things that all addresses need."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

R = TypeVar("R")

_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))

#: Bodies beyond this are read in another thread, so that others need not wait for them.
LARGE = 64 << 10

#: Says where the JSON of a request ends and the bytes of its tensors begin.
BINARY = b"inference-header-content-length"


def json_reply(content: Any, status: int = 200) -> Response:
    """A reply in JSON. It ends its line, for those who read it in a terminal."""
    body = _ENCODER.encode(content).encode() + b"\n"
    return Response(body, status, media_type="application/json")


async def beside(size: int, work: Callable[..., R], *arguments: Any) -> R:
    """Do small work at once, and large work in another thread."""
    if size <= LARGE:
        return work(*arguments)
    return await run_in_threadpool(work, *arguments)


def json_length(request: Request) -> str | None:
    """How many bytes of the body are JSON, as its header says; None where all are."""
    length: bytes | None = request.scope["ovk.headers"].get(BINARY)
    return None if length is None else length.decode("latin-1")


async def no_such_address(request: Request, error: Exception) -> Response:
    """For addresses and methods that do not exist."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    message = {404: "there is no such address", 405: "this address does not take that method"}.get(status, "refused")
    return json_reply({"error": message}, status)


async def pass_on(request: Request, error: Exception) -> Response:
    """For refusals, which the guard answers."""
    raise error


async def gone(request: Request, error: Exception) -> Response:
    """For clients that did not wait."""
    return json_reply({"error": "the connection was closed"}, 400)
