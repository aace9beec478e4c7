"""A small client with one connection, cheap enough not to disturb measurements."""

from __future__ import annotations

import http.client
import json
from typing import Any


class ServiceClient:
    """One connection to a server on this machine."""

    def __init__(self, port: int, timeout: float = 600.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)

    def request(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of the response."""
        self._connection.request(method, path, body, headers or {"Content-Type": "application/json"})
        reply = self._connection.getresponse()
        return reply.status, reply.read()

    def post(self, path: str, content: Any) -> tuple[int, Any]:
        """Send JSON, get JSON."""
        status, body = self.request("POST", path, json.dumps(content).encode())
        return status, json.loads(body)

    def metric(self, name: str) -> float:
        """The first metric of that name."""
        lines = self.request("GET", "/metrics")[1].decode().splitlines()
        return float(next(line for line in lines if line.startswith(name)).rpartition(" ")[2])

    def __enter__(self) -> ServiceClient:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
