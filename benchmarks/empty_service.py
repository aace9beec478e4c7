"""A Starlette route that returns an empty JSON object, for GET and POST: the minimum cost of a service in Python."""

from __future__ import annotations

import json
import socket
import sys

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route


async def empty(request: Request) -> JSONResponse:
    """Return an empty object; the body of a POST request is read and parsed first."""
    if request.method == "POST":
        await request.json()
    return JSONResponse({})


def main() -> None:
    """Listen on a free port and print it."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1024)
        print(json.dumps({"event": "listening", "port": listener.getsockname()[1]}), file=sys.stderr, flush=True)
        app = Starlette(routes=[Route("/", empty, methods=["GET", "POST"])])
        config = uvicorn.Config(app, log_config=None, access_log=False, timeout_keep_alive=75)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
