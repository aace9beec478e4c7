"""`ovk stream` from brokers: kills of learners and servers at random times, and speed relative to a file.

NATS is a real server; Kafka is the in-process mock cluster of its client library. Model and predictions must be
byte-identical to those of an undisturbed run from a file with the same rows, and messages of 500 rows must be learned
at 70% of the speed of the file or faster.
"""

from __future__ import annotations

import asyncio
import io
import json
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

import numpy as np

import ovk
from benchmarks.harness import Benchmark, Case, Check, Contender, Settings
from ovk.app.cli import main

FILE, NATS, KAFKA, FAST = "file", "NATS, killed", "Kafka mock, killed", "NATS, left alone"
NAMES = ("x0", "x1", "x2", "x3", "a", "b")


def rows(n: int, seed: int) -> list[list[float]]:
    """Rows of four inputs and two outputs."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)).round(4)
    Y = np.column_stack([np.sin(X[:, 0]) + X[:, 1], X[:, 2] * X[:, 3]]).round(4)
    found: list[list[float]] = np.hstack([X, Y]).tolist()
    return found


def csv_text(some: list[list[float]]) -> str:
    """Rows as CSV with a header."""
    return "\n".join([",".join(NAMES), *(",".join(map(repr, row)) for row in some)]) + "\n"


class Server:
    """nats-server with JetStream on the loopback address."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"nats://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        program = shutil.which("nats-server") or str(Path(sys.executable).parent / "nats-server")
        command = [program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", str(self.directory)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 600
        while time.monotonic() < until:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        raise RuntimeError("nats-server did not start")

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def publish(self, stream: str, messages: list[bytes], twice: float) -> int:
        """Publish messages, some of them a second time under the same id; returns how many the server dropped."""

        async def send() -> int:
            import nats

            client = await nats.connect(self.url)
            context = client.jetstream(timeout=600)
            await context.add_stream(name=stream, subjects=[stream])
            rng, dropped = np.random.default_rng(0), 0
            for i, message in enumerate(messages):
                for _ in range(1 + int(rng.uniform() < twice)):
                    ack = await context.publish(stream, message, headers={"Nats-Msg-Id": str(i)})
                    dropped += bool(ack.duplicate)
            await client.close()
            return dropped

        return asyncio.run(send())


class Mock:
    """The mock cluster of the Kafka client, in this process."""

    def __init__(self) -> None:
        from confluent_kafka import Producer

        self.producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
        brokers = self.producer.list_topics(timeout=600).brokers.values()
        self.hosts = ",".join(f"{broker.host}:{broker.port}" for broker in brokers)

    def publish(self, topic: str, messages: list[bytes]) -> None:
        for message in messages:
            self.producer.produce(topic, message, partition=0)
        if self.producer.flush(600):
            raise RuntimeError("the mock cluster did not take all messages")


class Runs:
    """All runs, in a temporary directory."""

    def __init__(self, settings: Settings) -> None:
        self._held = tempfile.TemporaryDirectory(prefix="ovk-brokers-")
        self.directory = Path(self._held.name)
        self.n: int = settings.pick(toy=1500, quick=20_000, default=50_000, long=200_000)
        self.m: int = settings.pick(toy=800, quick=3000, default=10_000)
        self.toy = settings.size == "toy"
        self.kills: int = settings.pick(toy=0, quick=3, default=5, long=20)
        self.servers: int = settings.pick(toy=0, quick=1, default=3)
        self.mock_kills: int = settings.pick(toy=0, quick=2, default=10)
        self.every, self.block = (256, 64) if settings.size == "toy" else (4096, 512)
        self.died = 0
        self.times: dict[str, list[float]] = {FILE: [], FAST: []}
        self.found: dict[str, dict[str, Any]] = {}
        listed = rows(self.n, 0)
        (self.directory / "rows.csv").write_text(csv_text(listed))
        (self.directory / "few.csv").write_text(csv_text(rows(self.m, 1)))
        size = 500 if self.n > 10_000 else 50
        messages = [csv_text(listed[i : i + size]).encode() for i in range(0, self.n, size)]
        self.server = Server(self.directory / "server")
        self.dropped = self.server.publish("ROWS", messages, 0.01 if self.n > 10_000 else 0.3)
        self.mock = Mock()
        self.mock.publish("rows", self._with_ids())

    def _with_ids(self) -> list[bytes]:
        """Rows with ids as JSON, ten per message; a later message repeats one in a hundred."""
        rng = np.random.default_rng(2)
        listed = [{"id": i, **dict(zip(NAMES, row, strict=True))} for i, row in enumerate(rows(self.m, 1))]
        order: list[int] = []
        for i in range(self.m):
            order.append(i)
            if rng.uniform() < 0.01:
                order.append(int(rng.integers(max(0, i - 500), i + 1)))
        return [json.dumps([listed[j] for j in order[i : i + 10]]).encode() for i in range(0, len(order), 10)]

    def command(self, name: str, source: str | Path, *more: str) -> list[str]:
        asked = [
            "--model",
            "pkawv",
            "--targets",
            "a,b",
            "--block",
            self.block,
            "--checkpoint",
            self.every,
            "--warm-up",
            256,
            "--json",
        ]
        where = ["--resume", self.directory / f"{name}.ovk", "--predictions", self.directory / name]
        return [sys.executable, "-m", "ovk", "stream", *map(str, [source, *asked, *where]), *more]

    def clear(self, name: str) -> None:
        shutil.rmtree(self.directory / name, ignore_errors=True)
        (self.directory / f"{name}.ovk").unlink(missing_ok=True)

    def alone(self, name: str, source: str | Path, *more: str) -> None:
        """An undisturbed run; its time excludes the start of Python."""
        self.clear(name)
        self.found[name] = self.finished(self.command(name, source, *more))
        self.times.setdefault(name, []).append(float(self.found[name]["seconds"]))

    def file(self) -> None:
        self.alone(FILE, self.directory / "rows.csv")
        self.alone("few", self.directory / "few.csv")

    def fast(self) -> None:
        self.alone(FAST, f"{self.server.url}/ROWS")

    def killed(self, name: str, source: str, kills: int, servers: int, *more: str) -> None:
        """A run whose process and server are killed at random times."""
        self.clear(name)
        rng = np.random.default_rng(5)
        model = self.directory / f"{name}.ovk"
        falls = set(rng.permutation(kills)[:servers].tolist())
        for kill in range(kills):
            process = subprocess.Popen(
                self.command(name, source, *more), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            before = _written(model)
            # Usually some time after a checkpoint, sometimes during the start.
            patience = time.monotonic() + (30.0 if rng.uniform() < 0.8 else rng.uniform(0.0, 2.0))
            while process.poll() is None and _written(model) == before and time.monotonic() < patience:
                time.sleep(0.002)
            time.sleep(rng.uniform(0.0, 0.3))
            if kill in falls:
                self.server.kill()
                time.sleep(rng.uniform(0.0, 0.5))
                self.server.start()
                time.sleep(rng.uniform(0.0, 0.5))
            process.send_signal(signal.SIGKILL)
            self.died += process.wait() == -signal.SIGKILL
        self.found[name] = self.finished(self.command(name, source, *more))

    def finished(self, command: list[str]) -> dict[str, Any]:
        """The output of a completed command; at toy size it runs in this process to save time."""
        if not self.toy:
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            return dict(json.loads(done.stdout))
        printed = io.StringIO()
        with redirect_stdout(printed), suppress(SystemExit):
            main(command[3:])
        return dict(json.loads(printed.getvalue()))

    def nats(self) -> None:
        self.killed(NATS, f"{self.server.url}/ROWS", self.kills, self.servers)

    def kafka(self) -> None:
        source = f"kafka://{self.mock.hosts}/rows?partition=0"
        self.killed(KAFKA, source, self.mock_kills, 0, "--id-column", "id")

    def different(self, one: str, other: str) -> int:
        """Prediction and model files that are not byte-identical, and the number of differing rows."""
        directories = self.directory / one, self.directory / other
        names = {path.name for directory in directories for path in directory.glob("part-*.csv")}
        pairs = [tuple(directory / name for directory in directories) for name in names]
        unlike = sum(not (a.exists() and b.exists() and a.read_bytes() == b.read_bytes()) for a, b in pairs)
        models = []
        for name in (one, other):
            ovk.save(ovk.load(self.directory / f"{name}.ovk").evaluator.model, self.directory / "alone.ovk")
            models.append((self.directory / "alone.ovk").read_bytes())
        return unlike + (models[0] != models[1]) + abs(self.found[one]["rows"] - self.found[other]["rows"])

    def scores(self) -> tuple[dict[str, Any], list[Check]]:
        rate = min(self.times[FILE]) / min(self.times[FAST])
        checks = [
            Check("differences, NATS with kills", self.different(FILE, NATS), 0),
            Check("differences, NATS left alone", self.different(FILE, FAST), 0),
            Check("differences, Kafka mock with kills", self.different("few", KAFKA), 0),
            Check("time of a file over that of NATS", rate, 0.7, at_least=True),
        ]
        scores = {
            "rows": self.found[NATS]["rows"],
            "rows of the mock": self.found[KAFKA]["rows"],
            "messages that the server dropped": self.dropped,
            "processes killed": self.died,
            "servers killed": self.servers,
            "rows a second from NATS": self.n / min(self.times[FAST]),
        }
        self.server.kill()
        self._held.cleanup()
        return scores, checks


def _written(path: Path) -> int | None:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _nothing() -> None:
    pass


def cases(settings: Settings) -> Iterator[Case]:
    runs = Runs(settings)
    given = {"rows": runs.n, "kills": runs.kills, "server kills": runs.servers, "rows of the mock": runs.m}
    contenders = [
        Contender(name, run, light=_nothing)
        for name, run in ((FILE, runs.file), (FAST, runs.fast), (NATS, runs.nats), (KAFKA, runs.kafka))
    ]
    yield Case("brokers", given, contenders, 1, scores=runs.scores)


BENCHMARK = Benchmark("brokers", "ovk stream from NATS and Kafka, killed and resumed, and its speed", cases)
