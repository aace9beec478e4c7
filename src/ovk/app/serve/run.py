"""The server process: socket, signals and structured logs."""

from __future__ import annotations

import json
import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette

from ovk._version import __version__
from ovk.app.serve.app import Server
from ovk.app.serve.connections import IDLE_SECONDS, Connection, Connections
from ovk.base import one_blas_thread

logger = logging.getLogger("ovk.app.serve")

#: Attributes of every log record; others come from `extra`.
_COMMON = {*vars(logging.makeLogRecord({})), "message", "asctime", "color_message", "taskName"}

#: Seconds after which a computing thread releases the GIL: a prediction may wait this long while rows are learned.
SWITCH_SECONDS = 0.0005


class JsonLines(logging.Formatter):
    """A line of JSON for each record: time, level, event and its `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line: dict[str, Any] = {"time": at, "level": record.levelname.lower(), "event": record.getMessage()}
        line |= {name: value for name, value in vars(record).items() if name not in _COMMON}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class _QuietServer(uvicorn.Server):
    """A server that exits with code 0 after a signal, when everything is saved."""

    def __init__(
        self, config: uvicorn.Config, server: Server, connections: Connections, announcement: dict[str, Any]
    ) -> None:
        super().__init__(config)
        self._server, self._connections, self._announcement = server, connections, announcement

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        # After the signal handlers are installed: a process that reads this line may send a signal.
        logger.info("listening", extra=self._announcement)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # once a second
            self._connections.expire()
        return await super().on_tick(counter)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # The base class would raise the signal again at the end.
        self._server.stopping.set()
        self.should_exit = True


def serve(app: Starlette, host: str, port: int, *, access_log: bool = False) -> bool:
    """Serve until SIGTERM or Ctrl-C, then write checkpoints. Returns whether these contain everything learned.

    Port 0 takes a free port, which the log names.
    """
    server: Server = app.state.server
    with _listening(host, port) as listener, one_blas_thread(tiles=1):
        if not server.opened:
            server.open()
        sys.setswitchinterval(SWITCH_SECONDS)
        address = listener.getsockname()
        extra = {"host": address[0], "port": address[1], "models": list(server.services), "version": __version__}
        connections = Connections(server.limits)
        options: dict[str, Any] = {"http": partial(Connection, connections), "ws": "none", "access_log": access_log}
        options |= {"timeout_keep_alive": int(IDLE_SECONDS), "timeout_graceful_shutdown": 15}
        config = uvicorn.Config(app, log_config=None, server_header=False, **options)
        try:
            _QuietServer(config, server, connections, extra).run(sockets=[listener])
        finally:
            server.close()
    unsaved = [service.name for service in server.services.values() if service.unsaved]
    if unsaved:
        extra = {"models": unsaved, "remedy": "nothing is lost: the log is replayed at the next start"}
        logger.error("stopped without a checkpoint", extra=extra)
    else:
        logger.info("stopped")
    return not unsaved


def log_as_json() -> None:
    """Configure the loggers of the server to write lines of JSON to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.captureWarnings(True)
    levels = {"ovk.app.serve": logging.INFO, "uvicorn.access": logging.INFO, "uvicorn.error": logging.WARNING}
    for name, level in {**levels, "py.warnings": logging.WARNING}.items():
        one = logging.getLogger(name)
        one.handlers, one.propagate = [handler], False
        one.setLevel(level)


@contextmanager
def _listening(host: str, port: int) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio sets TCP_NODELAY only if the protocol is given.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            raise OSError(error.errno, f"cannot listen at {host}:{port}: {error.strerror}") from error
        listener.listen(1024)
        yield listener
