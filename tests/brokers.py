"""A real NATS server for tests, rows in messages, and learners as processes of their own."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NATSServer:
    """nats-server with JetStream on the loopback address, which can be killed and started again."""

    def __init__(self, folder, port=None, config=""):
        self.folder, self.port = Path(folder), port or free_port()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._config = self.folder / "server.conf"
        self._config.write_text(config)
        self.start()

    @property
    def url(self):
        return f"nats://127.0.0.1:{self.port}"

    def start(self):
        program = shutil.which("nats-server") or str(Path(sys.executable).parent / "nats-server")
        command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.folder)]
        self.process = subprocess.Popen(
            [*command, "-c", str(self._config)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 600
        while time.monotonic() < until and self.process.poll() is None:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("nats-server did not start")

    def kill(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def run(self, action, **options):
        """``await action(jetstream)`` on a connection of its own."""

        async def connected():
            import nats

            client = await nats.connect(self.url, **options)
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

    def messages(self, stream):
        """Everything in a stream."""

        async def read(context):
            info = await context.stream_info(stream)
            found = []
            for sequence in range(info.state.first_seq, info.state.last_seq + 1):
                found.append((await context.get_msg(stream, sequence)).data)
            return found

        return self.run(read)


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


def ovk(*arguments, env=None):
    """``ovk`` as a process of its own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **(env or {})}
    return subprocess.Popen(
        [sys.executable, "-m", "ovk.cli", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def written_again(path, process):
    """Wait until a file is written, or written again, by a process that is still at work."""

    def when():
        return path.stat().st_mtime_ns if path.exists() else None

    before, until = when(), time.monotonic() + 600
    while when() == before and process.poll() is None and time.monotonic() < until:
        time.sleep(0.002)
    assert process.poll() is None
