"""Progress of a command: one line of a terminal, a line every ten seconds elsewhere."""

import io
import shutil
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from ovk.app.cli import output
from ovk.app.cli.output import Display, ProgressDisplay, announced
from ovk.base import ProgressBar
from processes import wait_until


@pytest.fixture
def screen(monkeypatch):
    def console(**options):
        file = io.StringIO()
        monkeypatch.setattr(output, "err", Console(file=file, soft_wrap=True, highlight=False, **options))
        return file

    return console


def test_bars_and_messages_share_one_line(screen, monkeypatch):
    """Two displays on one terminal left a line for every update."""
    file = screen(force_terminal=True, width=60)
    # The library's bars found a terminal, too.
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: True, write=file.write, flush=file.flush))
    monkeypatch.setattr(ProgressBar, "DELAY", 0.0)
    monkeypatch.setattr(ProgressBar, "INTERVAL", 0.0)
    with announced("soil.csv") as announce:
        announce("comparing kernels, some in learned metrics, on 2,958 of 3,000 rows")
        wait_until(lambda: "comparing" in file.getvalue(), "the display")
        with ProgressBar("tuning", total=2) as bar:
            bar.update()
            wait_until(lambda: "tuning" in file.getvalue(), "the display")
        written = file.getvalue()
    assert "\n" not in written
    assert "comparing kernels, some in learned metrics, on…  0:00" in written
    assert "50%" in written


def test_without_a_terminal_there_are_lines(screen, monkeypatch):
    monkeypatch.setattr(output, "LINE_INTERVAL", 0.05)
    file = screen(force_terminal=False, width=60)
    with announced("soil.csv") as announce:
        announce("comparing kernels")
        assert file.getvalue() == "comparing kernels...\n"
        wait_until(lambda: file.getvalue().count("\n") >= 3, "the display")
    assert file.getvalue().splitlines()[:3] == [
        "comparing kernels...",
        "comparing kernels  0:00",
        "comparing kernels  0:00",
    ]


def test_a_followed_stream_shows_that_it_is_alive(screen, monkeypatch):
    monkeypatch.setattr(output, "LINE_INTERVAL", 0.02)
    monkeypatch.setattr(output, "MIN_SECONDS_IDLE", 0.05)
    file = screen(force_terminal=False, width=60)
    records = SimpleNamespace(waits=True, fraction_read=lambda: None)
    with ProgressDisplay(records) as display:
        wait_until(lambda: "waiting for the first rows  0:00\n" in file.getvalue(), "the display")
        display.show(SimpleNamespace(session=SimpleNamespace(offset=1200), rows=1200, saved=1000))
        wait_until(lambda: "saved up to row 1,000, waiting for new rows  0:00\n" in file.getvalue(), "the display")


def test_a_display_ends_its_thread_and_its_line(screen):
    file = screen(force_terminal=True, width=60)
    with Display("learning", 0.5):
        wait_until(lambda: "learning" in file.getvalue(), "the display")
    ended = file.getvalue()
    time.sleep(0.3)
    assert file.getvalue() == ended


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tmux") is None, reason="requires tmux")
def test_in_tmux(tmp_path):
    """`ovk fit` occupies one line at a time, and leaves only its results."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6))
    Y = np.sin(X @ rng.standard_normal((6, 3)))
    Y[rng.uniform(size=Y.shape) < 0.3] = np.nan
    table, ended = tmp_path / "t.csv", tmp_path / "ended"
    np.savetxt(table, np.hstack([X, Y]), delimiter=",", header="a,b,c,d,e,f,x,y,z", comments="")
    fit = f"{sys.executable} -m ovk fit {table} --targets x,y,z --save {tmp_path / 'm.ovk'}"
    tmux = ["tmux", "-L", f"ovk-{tmp_path.name}"]
    start = f"{fit}; touch {ended}; sleep 60"
    subprocess.run([*tmux, "new-session", "-d", "-x", "90", "-y", "50", start], check=True)
    seen = set()
    try:
        while not ended.exists():
            found = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
            seen.add(tuple(line for line in found.splitlines() if "elapsed" in line or "comparing" in line))
            time.sleep(0.05)
        found = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    assert max(map(len, seen)) == 1
    assert "elapsed" not in found
    assert "model: " in found
