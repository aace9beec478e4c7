"""A server in a separate process, for tests and benchmarks, which can be killed and restarted."""

from __future__ import annotations

import json
import multiprocessing
import os
import queue
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

#: Maximum seconds of start and shutdown.
PATIENCE = 1800.0


def _serve(arguments: list[str], report: Connection) -> None:
    """Run the command in a forked process, with standard error in a pipe."""
    os.dup2(report.fileno(), 2)
    report.close()
    from ovk.app.cli import main

    main(["serve", *arguments, "--port", "0"])


class ForkedProcess:
    """``ovk serve`` in a process forked from one with all imports, so that it starts quickly.

    It implements the part of `subprocess.Popen` that `ServerProcess` uses.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["ovk.app.cli.app", "ovk.app.serve.app", "ovk.app.serve.run"])
        ours, theirs = context.Pipe(duplex=False)
        self._process = context.Process(target=_serve, args=(list(arguments), theirs), daemon=True)
        self._process.start()
        theirs.close()
        self.stderr = os.fdopen(os.dup(ours.fileno()), encoding="utf-8")
        ours.close()
        self.pid = self._process.pid or 0

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def send_signal(self, number: int) -> None:
        """Any signal."""
        os.kill(self.pid, number)

    def poll(self) -> int | None:
        """The exit code, None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait for the exit code."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("ovk serve", timeout)
        return self._process.exitcode


class ServerProcess:
    """``ovk serve`` on a free port of this machine.

    Parameters
    ----------
    arguments : arguments of ``ovk serve``
    module : module to run instead, with these arguments
    forked : whether to fork from a process with all imports
    """

    def __init__(self, arguments: Sequence[Any], *, module: str | None = None, snapshot_of: bool = False) -> None:
        words = list(map(str, arguments))
        command = [sys.executable, "-m", "ovk", "serve", *words, "--port", "0"]
        if module is not None:
            command = [sys.executable, "-m", module, *words]
        self.lines: list[dict[str, Any]] = []
        self.other: list[str] = []
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.process: Any
        if snapshot_of:
            self.process = ForkedProcess(words)
        else:
            self.process = subprocess.Popen(
                command,
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = 0

    def _read(self) -> None:
        for line in self.process.stderr:
            try:
                event = json.loads(line)
            except ValueError:
                self.other.append(line)
                continue
            self.lines.append(event)
            self._events.put(event)
        self._events.put(None)

    def wait_for(self, event: str) -> dict[str, Any]:
        """Wait until the server has logged an event."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                found = self._events.get(timeout=until - time.monotonic())
            except queue.Empty:
                break
            if found is None:
                raise RuntimeError(f"the server ended: {''.join(self.other)} {self.lines}")
            if found["event"] == event:
                return found
        raise RuntimeError(f"the server did not log {event!r} within {PATIENCE:g} s: {self.lines}")

    def start(self) -> ServerProcess:
        """Wait until it listens."""
        self.port = int(self.wait_for("listening")["port"])
        return self

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def kill(self) -> None:
        """Kill it, as the system does when memory runs out."""
        self.process.kill()
        self._ended()

    def terminate(self) -> int:
        """Send SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self._ended()

    def end(self) -> int:
        """Wait for its end; returns the exit code."""
        return self._ended()

    def _ended(self) -> int:
        try:
            code = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self._reader.join(timeout=PATIENCE)
        self.process.stderr.close()
        return code

    def limit_files(self, most: int | None) -> None:
        """Limit the size of its files to simulate a full disk; None removes the limit."""
        _, hard = resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (hard if most is None else most, hard))

    def hold_to(self, cores: set[int]) -> None:
        """Restrict it to these cores."""
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            os.sched_setaffinity(int(task.name), cores)

    def memory(self) -> int:
        """Its resident memory in bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def processor_seconds(self) -> float:
        """Processor time that it has used so far."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def __enter__(self) -> ServerProcess:
        return self.start()

    def __exit__(self, *error: object) -> None:
        if self.process.poll() is None:
            self.kill()
