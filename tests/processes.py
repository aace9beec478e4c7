"""Processes of tests: ports for servers, and ``ovk`` that stops at a given step until it may go on or is killed."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

#: Seconds after which a test gives up waiting: many times what the slowest machine needs.
PATIENCE = 1800.0


def free_port():
    """A port of this machine for a server.

    Not one of those that the system gives to connections by itself: these could be taken between now and the start of
    the server, or while it is down.
    """
    try:
        first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    except OSError:
        first = 32768
    choose = random.SystemRandom()
    for _ in range(1000):
        port = choose.randrange(20_000 if first > 21_000 else 1024, first)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise RuntimeError("no port is free")


def wait_until(condition, what, process=None):
    """Wait for a condition; a process that should bring it about must not end before."""
    until = time.monotonic() + PATIENCE
    while not condition():
        if process is not None and process.poll() is not None and not condition():
            raise AssertionError(f"the process ended with {process.returncode} before {what}")
        assert time.monotonic() < until, f"still no {what}"
        time.sleep(0.005)


def environment():
    return {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "COLUMNS": "300"}


def ovk(*arguments):
    """``ovk`` as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "ovk", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )


PAUSED = """
import os, sys, time
from pathlib import Path
from ovk.app.cli import main

directory, pauses, replace, renamed = Path(sys.argv[1]), sys.argv[2].split(","), os.replace, 0

def counted(*arguments, **options):
    global renamed
    replace(*arguments, **options)
    renamed += 1
    if str(renamed) in pauses:
        (directory / f"here-{renamed}").touch()
        while not (directory / f"go-{renamed}").exists():
            time.sleep(0.01)

os.replace = counted
main(sys.argv[3:])
"""


class PausedRun:
    """``ovk`` that pauses behind some of the renames by which it brings files to safety.

    A checkpoint is two of them, that of the predictions and that of the model, so that an even number is the end of a
    checkpoint and an odd one the midst of it.

    Parameters
    ----------
    directory : for the signs by which the process and the test agree
    pauses : numbers of renames
    arguments : of the command
    """

    def __init__(self, directory, pauses, *arguments):
        self._directory = Path(directory)
        self._directory.mkdir()
        words = [str(self._directory), ",".join(map(str, pauses)), *map(str, arguments)]
        self.process = subprocess.Popen(
            [sys.executable, "-c", PAUSED, *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )

    def wait(self, pause):
        """Wait until it has paused there."""
        wait_until((self._directory / f"here-{pause}").exists, f"pause {pause}", self.process)

    def go_on(self, pause):
        """End a pause."""
        (self._directory / f"go-{pause}").touch()

    def kill(self):
        """SIGKILL."""
        self.process.send_signal(signal.SIGKILL)
        assert self.process.wait(PATIENCE) == -signal.SIGKILL

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.process.kill()
        self.process.wait(PATIENCE)
