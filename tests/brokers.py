"""A real NATS server for tests, and rows in messages."""

import asyncio
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import numpy as np
import pytest

from processes import PATIENCE, free_port


class NATSServer:
    """nats-server with JetStream on the loopback address, which can be killed and started again."""

    def __init__(self, directory, config=""):
        self.directory, self.name = Path(directory), f"ovk-{uuid.uuid4().hex}"
        self.directory.mkdir(parents=True, exist_ok=True)
        self._config = self.directory / "server.conf"
        self._config.write_text(config)
        for _ in range(20):
            self.port = free_port()
            if self._started():
                return
        raise RuntimeError("nats-server did not start")

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def start(self):
        """Start again, at the same port, after a kill."""
        if not self._started():
            raise RuntimeError("nats-server did not start again")

    def _started(self):
        """Start; False if it ends, because somebody else has the port."""
        program = shutil.which("nats-server") or str(Path(sys.executable).parent / "nats-server")
        command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.directory), "-n", self.name]
        self.process = subprocess.Popen(
            [*command, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            if self.name in self._greeting():
                return True
            time.sleep(0.02)
        self.kill()
        return False

    def _greeting(self):
        """What a server says first, its name included; nothing where none listens yet."""
        with socket.socket() as probe:
            probe.settimeout(5)
            try:
                probe.connect(("127.0.0.1", self.port))
                return probe.recv(4096).decode()
            except OSError:
                return ""

    def kill(self):
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def run(self, action, **options):
        """``await action(jetstream)`` on a connection of its own."""

        async def connected():
            import nats

            client = await nats.connect(self.url, connect_timeout=60, **options)
            try:
                return await action(client.jetstream(timeout=600))
            finally:
                await client.close()

        return asyncio.run(connected())

    def publish(self, stream, messages, subject=None, ids=None, **config):
        """Make a stream and publish messages; ids[i] is the id of message i."""

        async def send(context):
            from nats.js.errors import NotFoundError

            try:
                await context.stream_info(stream)
            except NotFoundError:
                await context.add_stream(name=stream, subjects=[f"{stream}.*"], **config)
            for i, data in enumerate(messages):
                headers = None if ids is None else {"Nats-Msg-Id": ids[i]}
                await context.publish(subject or f"{stream}.rows", data, headers=headers)

        self.run(send)


def table(n, seed=0):
    """Rows of two inputs and two outputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2)).round(4)
    Y = np.column_stack([np.sin(X[:, 0]), X[:, 0] * X[:, 1]]).round(4)
    return np.hstack([X, Y])


NAMES = ("u", "v", "a", "b")


def json_messages(rows, size):
    """Arrays of objects, `size` rows a message."""
    listed = [dict(zip(NAMES, row, strict=True)) for row in rows.tolist()]
    return [json.dumps(listed[i : i + size]).encode() for i in range(0, len(listed), size)]


def csv_lines(rows):
    return [",".join(map(repr, row)) for row in rows.tolist()]


def csv_messages(rows, size):
    lines = csv_lines(rows)
    header = ",".join(NAMES)
    return ["\n".join([header, *lines[i : i + size]]).encode() for i in range(0, len(lines), size)]


def csv_file(path, rows):
    Path(path).write_text("\n".join([",".join(NAMES), *csv_lines(rows)]) + "\n")
    return path


def certificates(directory):
    """A certificate for 127.0.0.1 that vouches for itself."""
    subject = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", *subject]
    files = ["-keyout", str(directory / "key.pem"), "-out", str(directory / "cert.pem")]
    try:
        subprocess.run([*command, *files], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no certificate could be made: {error}")
