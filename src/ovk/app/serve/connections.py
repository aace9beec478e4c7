"""Limits on the number of client connections, and timeouts for slow clients."""

from __future__ import annotations

import asyncio
import logging
import time
from math import inf
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ovk.app.serve.access import HEALTH_ONLY, Limits

logger = logging.getLogger("ovk.app.serve")

#: Seconds that a client may take for the header of a request, and between two requests.
HEADER_SECONDS, IDLE_SECONDS = 10.0, 75.0

#: Largest header of a request in bytes, with its URL; a chunk of a body and the fields after it are limited as well.
MAX_HEADER = 64 << 10

#: Maximum number of requests of a connection that wait for the response to an earlier one.
MAX_PIPELINED = 32

#: Maximum number of connections beyond the limits, on which only health checks are answered.
MAX_RESERVED_CONNECTIONS = 32

#: Seconds between two lines of the log about connections beyond the limits.
LOG_SECONDS = 60.0


class Connections:
    """The open connections: at most `Limits.connections` of an address, and twice as many in total.

    Beyond these limits, the connection whose client the server has waited for longest makes room for a new one, so that
    clients that send nothing, or send slowly, cannot occupy all connections. If every connection is being answered, the
    new one is in the reserve for health checks.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._admitted: dict[str, set[Connection]] = {}
        self._reserve: set[Connection] = set()
        self._logged = -inf

    def admit(self, new: Connection) -> None:
        of_address = self._admitted.get(new.address, set())
        everyone = set().union(*self._admitted.values())
        most = self.limits.connections
        if self._has_room(of_address, most) and self._has_room(everyone, 2 * most):
            self._admitted.setdefault(new.address, set()).add(new)
            return
        if new.since - self._logged > LOG_SECONDS:
            self._logged = new.since
            extra = {"address": new.address, "of_address": len(of_address), "connections": len(everyone)}
            logger.warning("all connections are in use", extra=extra)
        if self._has_room(self._reserve, MAX_RESERVED_CONNECTIONS):
            self._reserve.add(new)
            new.app_state = {**new.app_state, HEALTH_ONLY: True}
        else:
            new.transport.abort()

    def _has_room(self, group: set[Connection], most: int) -> bool:
        """Whether one more is below the limit, after closing the one that has been waited for longest."""
        if len(group) < most:
            return True
        waiting = [one for one in group if one.deadline < inf]
        if waiting:
            min(waiting, key=lambda one: one.since).abort()
        return bool(waiting)

    def forget(self, one: Connection) -> None:
        self._reserve.discard(one)
        group = self._admitted.get(one.address, set())
        group.discard(one)
        if not group:
            self._admitted.pop(one.address, None)

    def expire(self) -> None:
        """Close the connections whose clients took too long."""
        now = time.monotonic()
        for one in [*self._reserve, *(one for group in self._admitted.values() for one in group)]:
            if one.deadline < now:
                one.abort()


class Connection(HttpToolsProtocol):
    """A connection, with the start and the deadline of the server's current wait for the client."""

    def __init__(self, connections: Connections, **options: Any) -> None:
        super().__init__(**options)
        self._all = connections
        self.address, self.since, self.deadline = "", 0.0, inf
        self._unread = 0  # bytes received since the last end of a header, part of a body, or end of a request

    def _wait(self, seconds: float) -> None:
        self.since = time.monotonic()  # not the time of the loop, which is the same for all that it does in one round
        self.deadline = self.since + seconds

    def _answer(self) -> None:
        """The request is complete. If its response was already sent, wait for the next request."""
        if self.cycle is None or self.cycle.response_complete:
            self._wait(IDLE_SECONDS)
        else:
            self.deadline = inf

    def abort(self) -> None:
        self._all.forget(self)
        self.transport.abort()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        self._wait(HEADER_SECONDS)
        self._all.admit(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._all.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unread += len(data)
        super().data_received(data)
        if self._unread > MAX_HEADER and not self.transport.is_closing():
            self.send_400_response(f"The header is larger than {MAX_HEADER} bytes.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._wait(HEADER_SECONDS)

    def on_headers_complete(self) -> None:
        if len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers) > MAX_HEADER:
            raise ValueError("the header is too large")  # the parser reports it, and the base class answers 400
        if len(self.pipeline) >= MAX_PIPELINED:
            raise ValueError("too many requests are waiting")
        self._unread = 0
        # A handler that reads the body answers 408 first.
        self._wait(self._all.limits.seconds + HEADER_SECONDS)
        super().on_headers_complete()
        self.headers = []  # the fields after a body are ignored
        if HEALTH_ONLY in self.app_state:
            self.cycle.keep_alive = False

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unread = 0
        super().on_message_complete()
        self._answer()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._wait(IDLE_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(self._all.limits.seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._answer()
