"""Signals that arrive where Python ignores exceptions."""

import signal
import subprocess
import sys
import time

import pytest

from ovk.app.sessions import Interrupted, StopSignals
from processes import PATIENCE


class Closing:
    """An object whose finaliser receives the signals."""

    def __init__(self, *signals):
        self.signals = signals

    def __del__(self):
        for number in self.signals:
            signal.raise_signal(number)


def wait():
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        time.sleep(0.01)


def test_a_signal_in_a_finaliser_takes_effect_after_it():
    with StopSignals() as stop:
        Closing(signal.SIGINT)
        with pytest.raises(Interrupted) as error:
            wait()
    assert error.value.signal == stop.received == signal.SIGINT


def test_a_second_signal_in_a_finaliser_stops():
    with StopSignals():
        with pytest.raises(Interrupted):
            signal.raise_signal(signal.SIGINT)
        Closing(signal.SIGINT)
        with pytest.raises(KeyboardInterrupt) as error:
            wait()
    assert not isinstance(error.value, Interrupted)


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_a_signal_interrupts_a_blocking_read():
    """Python ignores the exception in a callback from C, and then the process waits for a line."""
    program = """
import ctypes, os, signal, sys
from ovk.app.sessions import Interrupted, StopSignals

number = signal.SIGTERM
called = ctypes.CFUNCTYPE(None)(lambda: signal.raise_signal(number))
with StopSignals():
    try:
        called()
        os.read(0, 1)
    except Interrupted as error:
        print(error.signal == number)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.wait(PATIENCE) == 0
    assert process.communicate() == ("True\n", "")


def test_other_ignored_exceptions_are_reported_as_before(monkeypatch):
    seen = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    before = sys.unraisablehook

    class Broken:
        def __del__(self):
            raise ValueError("a fault")

    with StopSignals():
        Broken()
    assert [type(one.exc_value) for one in seen] == [ValueError]
    assert sys.unraisablehook is before
