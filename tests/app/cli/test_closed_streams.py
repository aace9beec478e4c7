"""Standard streams that are closed or full, disks that are full, and files that change while they are followed."""

import os
import resource
import subprocess
import sys

import pytest

from household import series
from ovk.app.cli import main
from ovk.app.sessions import load_session
from processes import PATIENCE, PausedRun, environment

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="shells and limits of Unix")

ASK = ["--targets", "a,b", "--lags", "1,2", "--warm-up", "100", "--block", "50", "--checkpoint", "100"]


def shell(command, *arguments, limit=None):
    """Run ``ovk`` in a shell, which redirects its streams; returns exit code, output and errors."""

    def limited():
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    words = ["bash", "-c", f'exec "$0" -m ovk {command}', sys.executable, *map(str, arguments)]
    found = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE, preexec_fn=limited, env=environment()
    )
    assert "Traceback" not in found.stdout + found.stderr
    assert "bug in ovk" not in found.stderr
    return found.returncode, found.stdout, found.stderr


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main(["stream", *map(str, arguments)])
    assert not end.value.code


def contents(directory):
    parts = {path.name: path.read_bytes() for path in (directory / "parts").glob("part-*.csv")}
    return (directory / "m.ovk").read_bytes(), parts


def places(directory, option="--resume"):
    directory.mkdir(exist_ok=True)
    return [option, directory / "m.ovk", "--predictions", directory / "parts"]


FULL = pytest.param(
    "> /dev/full",
    3,
    "ovk: standard output: no space left on device\n",
    marks=pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full"),
)


@pytest.mark.parametrize(("redirection", "code", "words"), [("<&- >&-", 0, ""), ("2>&- >&-", 0, ""), FULL])
def test_output_that_cannot_be_printed(redirection, code, words):
    assert shell(f"--version {redirection}") == (code, "", words)


@pytest.mark.long
def test_closed_streams(tmp_path):
    """What would be printed is dropped; the model is the same, and no file takes the place of a closed stream."""
    table = series(tmp_path / "t.csv", 300)
    run(table, *ASK, "--model", "olok", *places(tmp_path / "whole"))
    for k, closed in enumerate((">&-", "2>&-", "<&- >&- 2>&-")):
        directory = tmp_path / str(k)
        assert shell(f'stream "${{@}}" {closed}', table, *ASK, "--model", "olok", *places(directory))[0] == 0
        assert contents(directory) == contents(tmp_path / "whole")
    code, _, err = shell('stream "${@}" <&-', "-", *ASK)
    assert (code, err) == (3, "ovk: standard input is empty: its first line must contain the column names\n")
    assert shell('predict "${@}" >&-', tmp_path / "whole" / "m.ovk", table)[0] == 0


@pytest.mark.long
def test_a_full_disk_leaves_the_last_checkpoint(tmp_path):
    """A limit on the size of files stands for the end of the disk; once there is room, the run goes on as if nothing
    had happened."""
    table, directory = series(tmp_path / "t.csv", 700), tmp_path / "full"
    run(table, *ASK, "--model", "olok", *places(tmp_path / "whole"))
    lines = table.read_bytes().splitlines(keepends=True)
    (tmp_path / "begin.csv").write_bytes(b"".join(lines[:301]))
    run(tmp_path / "begin.csv", *ASK, "--model", "olok", *places(directory))
    model = directory / "m.ovk"
    limit = (model.stat().st_size + (tmp_path / "whole" / "m.ovk").stat().st_size) // 2
    code, _, err = shell('stream "${@}"', table, *places(directory), limit=limit)
    assert code == 3
    assert " ".join(err.split()).startswith(f"ovk: {model}")
    assert err.rstrip().endswith("file too large")
    assert 300 <= load_session(model).offset < 700
    # No unfinished file remains.
    assert {path.name for path in directory.iterdir()} == {"m.ovk", "parts"}
    assert {path.suffix for path in (directory / "parts").iterdir()} == {".csv", ".json"}
    run(table, *places(directory))
    assert contents(directory) == contents(tmp_path / "whole")


@pytest.mark.long
def test_kills_of_a_stream_without_settings(tmp_path):
    """SIGKILL within and between checkpoints of `AutoStream`, and at moments that nobody chose."""
    table = series(tmp_path / "t.csv", 500)
    run(table, *ASK, *places(tmp_path / "whole"))
    directory = tmp_path / "killed"
    for k, pauses in enumerate(([1], [3], [2, 3])):
        with PausedRun(tmp_path / f"signs{k}", pauses, "stream", table, *ASK, *places(directory)) as paused:
            paused.wait(pauses[0])
            if len(pauses) == 2:
                paused.go_on(pauses[0])
            paused.kill()
    run(table, *ASK, *places(directory))
    assert contents(directory) == contents(tmp_path / "whole")


def test_files_that_change_between_two_runs(ovk, tmp_path):
    """Rotated under the same name, truncated, or with a last line that was not complete: nothing is learned."""
    table, model = series(tmp_path / "t.csv", 250), tmp_path / "m.ovk"
    small = [*ASK, "--model", "olok"]
    text = table.read_bytes()
    lines = text.splitlines(keepends=True)
    assert ovk("stream", table, *small, "--save", model)[0] == 0
    before = model.read_bytes()
    rotated = series(tmp_path / "other.csv", 300, seed=1).read_bytes()
    for changed, words in (
        (rotated, "the first 250 rows of t.csv are not those that were learned"),
        (b"".join(lines[:40]), "t.csv has 39 rows, but 250 were learned"),
        (lines[0], "t.csv has 0 rows, but 250 were learned"),
        (text.rstrip() + b"9\r\n" + lines[-1], "the first 250 rows of t.csv are not those that were learned"),
    ):
        table.write_bytes(changed)
        code, _, err = ovk("stream", table, "--resume", model)
        assert (code, words in err, "--continue-with" in err) == (3, True, True), err
        assert model.read_bytes() == before
    # Appended rows are learned.
    table.write_bytes(text + lines[-1])
    assert ovk("stream", table, "--resume", model)[0] == 0
    assert load_session(model).offset == 251
