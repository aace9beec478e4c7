"""Ctrl-C while the command ``ovk`` is importing: one line instead of a traceback.

Imports take a second, most of it in packages that turn an interruption into other errors. Until they are complete, the
signal ends the process immediately. SIGTERM likewise ends ``ovk serve`` with exit code 0.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Sequence
from types import FrameType


def is_command(arguments: Sequence[str]) -> bool:
    """Whether these are the arguments of the command ``ovk``.

    >>> is_command(["python", "-m", "ovk", "demo"]), is_command(["python", "/usr/bin/ovk"])
    (True, True)
    """
    if "-m" in arguments:
        return arguments[arguments.index("-m") + 1 :][:1] == ["ovk"]
    return any(os.path.basename(word) in ("ovk", "ovk.exe") for word in arguments[:2])


def _exit_on_interrupt(number: int, frame: FrameType | None) -> None:
    os.write(2, b"ovk: interrupted\n")
    os._exit(130)


def is_service(arguments: Sequence[str]) -> bool:
    """Whether these are the arguments of ``ovk serve``.

    >>> is_service(["python", "-m", "ovk", "serve", "m.ovk"]), is_service(["python", "/usr/bin/ovk", "demo"])
    (True, False)
    """
    return is_command(arguments) and "serve" in arguments[:5]


def _exit_on_terminate(number: int, frame: FrameType | None) -> None:
    os.write(2, b"ovk: terminated before the service started\n")
    os._exit(0)


def imported() -> None:
    """Imports are complete: Ctrl-C raises `KeyboardInterrupt` again."""
    if signal.getsignal(signal.SIGINT) is _exit_on_interrupt:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if is_command(sys.orig_argv) and threading.current_thread() is threading.main_thread():
    # Do not change a signal that is ignored (``nohup``) or has another handler.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit_on_interrupt)
    # `ovk serve` installs its own handler later.
    if is_service(sys.orig_argv) and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _exit_on_terminate)
