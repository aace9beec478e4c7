"""Ctrl-C and SIGTERM while the real process runs: what was learned is saved, and the end is that of a quiet run."""

import csv
import os
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from household import series
from ovk.cli import main
from ovk.sessions.learn import load_session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")

ASK = [
    *("--targets", "a,b", "--lags", "1,2,3", "--time", "Date,Time", "--model", "olok"),
    *("--warm-up", "100", "--block", "50", "--checkpoint", "200"),
]


def hear_signals():
    """A test that runs in the background may have inherited that Ctrl-C is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments, program=("-m", "ovk.cli")):
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_signals,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "COLUMNS": "300"},
    )


def finish(process):
    """Exit code and standard error of a process that ends by itself, without an end of its input."""
    code = process.wait(600)
    _, err = process.communicate()
    assert "Traceback" not in err
    return code, err


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["stream", *map(str, arguments)])
    assert not end.value.code


def feed(process, lines):
    """Write lines, and wait until they were read."""
    import fcntl
    import termios

    process.stdin.write("".join(lines))
    process.stdin.flush()
    wait_for(lambda: struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))) == (0,), process)


def wait_for(condition, process, seconds=600.0):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.005)


def contents(folder):
    """The model and the parts of predictions."""
    return (folder / "m.ovk").read_bytes(), {p.name: p.read_bytes() for p in (folder / "parts").glob("part-*")}


def places(folder, option="--save"):
    folder.mkdir(exist_ok=True)
    return [option, folder / "m.ovk", "--predictions", folder / "parts"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file of 800 rows, and the folder of a run over it that was left alone."""
    folder = tmp_path_factory.mktemp("table")
    path = series(folder / "t.csv", 800)
    run(path, *ASK, *places(folder / "whole"))
    return path, contents(folder / "whole")


def test_a_process_that_waits_for_rows_saves_its_blocks_and_leaves(table, tmp_path):
    """In the midst of a read that waits for a pipe, between two checkpoints, twice in the same part."""
    path, whole = table
    lines = path.read_bytes().decode().splitlines(keepends=True)
    folder = tmp_path / "signalled"
    model = folder / "m.ovk"
    for option, stop, least, number in (("--save", 530, 400, signal.SIGINT), ("--resume", 570, 500, signal.SIGTERM)):
        process = start("stream", "-", *ASK, *places(folder, option))
        feed(process, lines[: stop + 1])
        wait_for(lambda least=least: model.exists() and load_session(model).offset >= least, process)
        # Now it learns the blocks behind the checkpoint, or waits for the next one.
        time.sleep(0.3)
        process.send_signal(number)
        left, err = finish(process)
        assert left == 128 + number
        found = re.search(
            r"^ovk: interrupted: ([\d,]+) rows are safe in (.*): continue with --resume (.*)\n\Z", err, re.M
        )
        assert found, err
        assert found[2] == found[3] == str(model)
        offset = int(found[1].replace(",", ""))
        assert offset == load_session(model).offset
        assert offset % 50 == 0
        assert offset >= least
        rows = [
            int(row["row"])
            for part in sorted((folder / "parts").glob("part-*"))
            for row in csv.DictReader(part.read_text(encoding="utf-8").splitlines())
        ]
        assert rows == list(range(101, offset + 1))
    run(path, *places(folder, "--resume"))
    assert contents(folder) == whole


LONG = [*ASK, "--checkpoint", "500"]


@pytest.fixture(scope="module")
def long_table(tmp_path_factory):
    """A file of 4000 rows, long enough for a signal to come in the midst, and what a run over it leaves."""
    folder = tmp_path_factory.mktemp("long")
    path = series(folder / "t.csv", 4000)
    run(path, *LONG, *places(folder / "whole"))
    return path, contents(folder / "whole")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_process_that_learns_finishes_its_block(long_table, tmp_path, number):
    path, whole = long_table
    folder = tmp_path / "signalled"
    model = folder / "m.ovk"
    process = start("stream", path, *LONG, *places(folder, "--resume"))
    wait_for(model.exists, process)
    process.send_signal(number)
    code, err = finish(process)
    assert code == 128 + number
    offset = load_session(model).offset
    assert f"{offset:,} rows are safe in" in err
    assert offset < 4000
    run(path, *LONG, *places(folder, "--resume"))
    assert contents(folder) == whole


def test_nothing_is_said_to_be_safe_that_is_not(tmp_path):
    lines = series(tmp_path / "t.csv", 500).read_bytes().decode().splitlines(keepends=True)
    parts = tmp_path / "parts"
    process = start("stream", "-", *ASK, "--predictions", parts)
    feed(process, lines)
    wait_for((parts / "part-000001.csv").exists, process)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "ovk: interrupted: nothing was saved; with --save the run could be continued\n")
    # Within the warm-up there is nothing to save either.
    model = tmp_path / "m.ovk"
    process = start("stream", "-", *ASK, "--resume", model)
    feed(process, lines[:50])
    assert process.stderr.readline().startswith("there is no")
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    assert finish(process) == (143, f"ovk: interrupted before anything was learned: there is no {model} yet\n")
    assert not model.exists()


SLOW = """
import os, sys, time
from pathlib import Path
from ovk.cli import main
from ovk.persistence import atomic

flag, sync = Path(sys.argv.pop(1)), os.fsync

def slow(descriptor):
    if flag.exists():
        flag.with_suffix(".here").touch()
        time.sleep(10_000)
    sync(descriptor)

atomic.os.fsync = slow
main(sys.argv[1:])
"""


def test_a_second_signal_gives_up_at_once(table, tmp_path):
    """The disk takes hours for the checkpoint of the first one: the last checkpoint stays whole."""
    path, whole = table
    lines = path.read_bytes().decode().splitlines(keepends=True)
    folder, flag = tmp_path / "signalled", tmp_path / "slow"
    model = folder / "m.ovk"
    process = start(flag, "stream", "-", *ASK, *places(folder), program=("-c", SLOW))
    feed(process, lines[:300])
    # There are rows for one checkpoint only.
    wait_for(model.exists, process)
    before = model.read_bytes()
    flag.touch()
    process.send_signal(signal.SIGINT)
    wait_for(flag.with_suffix(".here").exists, process)
    process.send_signal(signal.SIGINT)
    code, err = finish(process)
    assert code == 130
    assert err.startswith(f"ovk: interrupted twice: {model} is as the last checkpoint left it")
    assert model.read_bytes() == before
    run(path, *places(folder, "--resume"))
    assert contents(folder) == whole


def test_interrupted_while_it_imports(tmp_path):
    """The list of imports tells when it is in the midst of them."""
    process = start("stream", tmp_path / "t.csv", program=("-X", "importtime", "-m", "ovk.cli"))
    for line in process.stderr:
        if "numpy.version" in line:
            break
    process.send_signal(signal.SIGINT)
    code, err = finish(process)
    assert code == 130
    assert "ovk: interrupted\n" in err
    assert "Error" not in err
