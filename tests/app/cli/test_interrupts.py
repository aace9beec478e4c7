"""After Ctrl-C or SIGTERM, the model is saved, and a resumed run gives the result of an uninterrupted one."""

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
from ovk.app.cli import main
from ovk.app.sessions import load_session
from processes import PATIENCE

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")

ASK = [
    *("--targets", "a,b", "--lags", "1,2,3", "--time", "Date,Time", "--model", "olok"),
    *("--warm-up", "100", "--block", "50", "--checkpoint", "200"),
]


def hear_signals():
    """A test in the background may inherit an ignored Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*arguments, program=("-m", "ovk")):
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
    """Exit code and standard error of a process whose input stays open."""
    code = process.wait(PATIENCE)
    _, err = process.communicate()
    assert "Traceback" not in err
    return code, err


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["stream", *map(str, arguments)])
    assert not end.value.code


def feed(process, lines):
    """Write lines and wait until they are read."""
    import fcntl
    import termios

    process.stdin.write("".join(lines))
    process.stdin.flush()
    wait_for(lambda: struct.unpack("i", fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))) == (0,), process)


def wait_for(condition, process, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.005)


def contents(directory):
    """Contents of the model file and the prediction files."""
    return (directory / "m.ovk").read_bytes(), {p.name: p.read_bytes() for p in (directory / "parts").glob("part-*")}


def places(directory, option="--save"):
    directory.mkdir(exist_ok=True)
    return [option, directory / "m.ovk", "--predictions", directory / "parts"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A file of 800 rows, and the directory of an uninterrupted run."""
    directory = tmp_path_factory.mktemp("table")
    path = series(directory / "t.csv", 800)
    run(path, *ASK, *places(directory / "whole"))
    return path, contents(directory / "whole")


#: A process that leaves a sign, named after the rows it has learned, before it waits for the next ones.
TELLING = """
import sys
from pathlib import Path
from ovk.app.cli import main
from ovk.app.sessions.session import StreamRun

signs, read = Path(sys.argv.pop(1)), StreamRun.read

def telling(self):
    (signs / str(self.session.offset)).touch()
    return read(self)

StreamRun.read = telling
main(sys.argv[1:])
"""


@pytest.mark.long
def test_a_waiting_process_saves_its_blocks_and_exits(table, tmp_path):
    """Signals during a blocking read from a pipe, between two checkpoints, twice in the same prediction file."""
    path, whole = table
    lines = path.read_bytes().decode().splitlines(keepends=True)
    directory, signs = tmp_path / "signalled", tmp_path / "signs"
    model = directory / "m.ovk"
    signs.mkdir()
    for option, stop, least, number in (("--save", 530, 500, signal.SIGINT), ("--resume", 570, 550, signal.SIGTERM)):
        process = start(signs, "stream", "-", *ASK, *places(directory, option), program=("-c", TELLING))
        feed(process, lines[: stop + 1])
        wait_for((signs / str(least)).exists, process)
        process.send_signal(number)
        left, err = finish(process)
        assert left == 128 + number
        found = re.search(
            r"^ovk: interrupted: ([\d,]+) rows are saved in (.*); continue with --resume (.*)\n\Z", err, re.M
        )
        assert found, err
        assert found[2] == found[3] == str(model)
        offset = int(found[1].replace(",", ""))
        assert offset == load_session(model).offset
        assert offset == least
        rows = [
            int(row["row"])
            for part in sorted((directory / "parts").glob("part-*"))
            for row in csv.DictReader(part.read_text(encoding="utf-8").splitlines())
        ]
        assert rows == list(range(101, offset + 1))
    run(path, *places(directory, "--resume"))
    assert contents(directory) == whole


INSIDE = """
import os, sys
from ovk.app.cli import main
from ovk.app.sessions import Session

number, learn = int(sys.argv[1]), Session.predict_then_learn

def interrupted(self, batch):
    found = learn(self, batch)
    if self.offset == 450:
        os.kill(os.getpid(), number)
    return found

Session.predict_then_learn = interrupted
main(sys.argv[2:])
"""


@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.long), signal.SIGTERM])
def test_a_learning_process_finishes_its_block(table, tmp_path, number):
    """The signal arrives while a block is learned, between two checkpoints."""
    path, whole = table
    directory = tmp_path / "signalled"
    model = directory / "m.ovk"
    process = start(int(number), "stream", path, *ASK, *places(directory, "--resume"), program=("-c", INSIDE))
    code, err = finish(process)
    assert code == 128 + number
    assert load_session(model).offset == 500
    assert "500 rows are saved in" in err
    run(path, *ASK, *places(directory, "--resume"))
    assert contents(directory) == whole


@pytest.mark.long
def test_only_saved_rows_are_reported_as_saved(tmp_path):
    lines = series(tmp_path / "t.csv", 500).read_bytes().decode().splitlines(keepends=True)
    parts = tmp_path / "parts"
    process = start("stream", "-", *ASK, "--predictions", parts)
    feed(process, lines)
    wait_for((parts / "part-000001.csv").exists, process)
    process.send_signal(signal.SIGINT)
    assert finish(process) == (130, "ovk: interrupted: nothing was saved; pass --save to make a run resumable\n")
    # During the warm-up there is nothing to save.
    model = tmp_path / "m.ovk"
    process = start("stream", "-", *ASK, "--resume", model)
    feed(process, lines[:50])
    assert process.stderr.readline().startswith(f"{model} does not exist yet")
    process.send_signal(signal.SIGTERM)
    assert finish(process) == (143, f"ovk: interrupted before anything was learned: {model} was not written\n")
    assert not model.exists()


SLOW = """
import os, sys, time
from pathlib import Path

sync = os.fsync

def slow(descriptor):
    if (signs / "slow").exists():
        (signs / "here").touch()
        time.sleep(10_000)
    sync(descriptor)

os.fsync = slow
"""


@pytest.mark.long
def test_a_second_signal_stops_immediately(table, tmp_path):
    """The first signal starts a checkpoint that never ends; the previous checkpoint stays intact."""
    path, whole = table
    lines = path.read_bytes().decode().splitlines(keepends=True)
    directory, signs = tmp_path / "signalled", tmp_path / "signs"
    model = directory / "m.ovk"
    signs.mkdir()
    process = start(signs, "stream", "-", *ASK, *places(directory), program=("-c", SLOW + TELLING))
    feed(process, lines[:300])
    # There are rows for one checkpoint only; the process waits for more.
    wait_for((signs / "250").exists, process)
    before = model.read_bytes()
    (signs / "slow").touch()
    process.send_signal(signal.SIGINT)
    wait_for((signs / "here").exists, process)
    process.send_signal(signal.SIGINT)
    code, err = finish(process)
    assert code == 130
    assert err.startswith(f"ovk: interrupted twice: {model} contains the last checkpoint")
    assert model.read_bytes() == before
    run(path, *places(directory, "--resume"))
    assert contents(directory) == whole


def test_interrupted_during_imports(tmp_path):
    """``-X importtime`` shows when the process is importing."""
    process = start("stream", tmp_path / "t.csv", program=("-X", "importtime", "-m", "ovk"))
    for line in process.stderr:
        if "numpy.version" in line:
            break
    process.send_signal(signal.SIGINT)
    code, err = finish(process)
    assert code == 130
    assert "ovk: interrupted\n" in err
    assert "Error" not in err
