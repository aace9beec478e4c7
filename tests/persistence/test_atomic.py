"""A saved file is complete at every moment."""

from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

import ovk.persistence
from ovk.persistence import NotSavableError, load, save
from ovk.persistence.container import replacing


@pytest.fixture
def umask():
    old = os.umask(0o027)
    yield 0o027
    os.umask(old)


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("call", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file(call, error, path, monkeypatch):
    save("old", path)

    def fail(*args):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(os, call, fail)
        with pytest.raises(type(error)):
            save("new", path)
    assert load(path) == "old"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_between_two_arrays(path, monkeypatch):
    save("old", path)
    calls = []
    raw = ovk.persistence.container.Spec.to_bytes

    def fail(self, array):
        calls.append(array)
        if len(calls) == 2:
            raise MemoryError
        return raw(self, array)

    monkeypatch.setattr("ovk.persistence.container.Spec.to_bytes", fail)
    with pytest.raises(MemoryError):
        save([np.zeros(10_000), np.ones(10_000)], path)
    assert load(path) == "old"
    assert list(path.parent.iterdir()) == [path]


def test_an_object_that_cannot_be_saved_leaves_the_old_file(path):
    save("old", path)
    with pytest.raises(NotSavableError):
        save([np.zeros(3), max], path)
    assert load(path) == "old"
    assert list(path.parent.iterdir()) == [path]


def test_content_reaches_the_disk_before_the_name_does(path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append(stat.S_ISDIR(os.fstat(fd).st_mode)), fsync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda *names: (events.append(names), replace(*names))[1])
    save(1, path)
    first, (source, target), last = events
    assert first is False  # the file
    assert os.path.dirname(source) == str(path.parent)
    assert target == str(path)
    assert last is True  # the directory


def test_a_directory_that_cannot_be_synced_is_no_failure(path, monkeypatch):
    fsync = os.fsync

    def refuse_directories(fd):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError("not here")
        fsync(fd)

    monkeypatch.setattr(os, "fsync", refuse_directories)
    save(1, path)
    assert load(path) == 1


def test_permissions_of_a_new_file_follow_the_umask(path, umask):
    save(1, path)
    assert mode(path) == 0o666 & ~umask


@pytest.mark.parametrize("bits", [0o600, 0o664, 0o666, 0o640])
def test_permissions_of_an_existing_file_are_kept(bits, path, umask):
    save(1, path)
    path.chmod(bits)
    save(2, path)
    assert mode(path) == bits


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_file_is_not_replaced(path):
    save(1, path)
    path.chmod(0o444)
    with pytest.raises(PermissionError):
        save(2, path)


def test_a_read_only_file_is_not_replaced_whoever_asks(path, monkeypatch):
    save(1, path)
    monkeypatch.setattr(os, "access", lambda name, bits: False)
    with pytest.raises(PermissionError, match="read-only"):
        save(2, path)
    assert load(path) == 1


def test_symbolic_links_are_written_through(tmp_path):
    real, directory = tmp_path / "real" / "model.ovk", tmp_path / "link directory"
    real.parent.mkdir()
    directory.mkdir()
    link = directory / "link.ovk"
    link.symlink_to(real)
    for value in (1, 2):  # the first time the link leads nowhere
        save(value, link)
        assert link.is_symlink()
        assert load(real) == load(link) == value
    assert list(directory.iterdir()) == [link]
    assert list(real.parent.iterdir()) == [real]


def test_places_where_no_file_can_be(tmp_path):
    with pytest.raises(IsADirectoryError):
        save(1, tmp_path)
    with pytest.raises(FileNotFoundError, match="does not exist"):
        save(1, tmp_path / "absent" / "model.ovk")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="regular file"):
        save(1, tmp_path / "pipe")


def test_a_long_name(tmp_path):
    path = tmp_path / ("x" * 255)
    save(1, path)
    assert load(path) == 1


def test_relative_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save(1, "model.ovk")
    assert load("model.ovk") == 1


KILL = """
    import os, random, signal, sys, time
    import numpy as np
    from ovk.persistence import load, save

    def leftovers():
        return [name for name in os.listdir(os.path.dirname(path)) if name.endswith(".tmp")]

    path, random = sys.argv[1], random.Random(0)
    started = time.perf_counter()
    save([0, np.zeros(100_000)], path)
    took = time.perf_counter() - started
    values, turn, interrupted = set(), 0, 0
    # On a machine with other things to do many of them are killed before they begin.
    while (turn < 25 and time.perf_counter() - started < 5) or len(values) < 2 or not interrupted:
        turn += 1
        child = os.fork()
        if child == 0:
            while True:
                save([turn, np.full(100_000, float(turn))], path)
        time.sleep(random.uniform(0.2, 5.0) * took)
        took *= 1.0 if values - {0} else 1.5
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        number, array = load(path)
        assert (array == number).all()
        values.add(number)
        interrupted += len(leftovers())
    save([0, np.zeros(1)], path)
    print(len(values), interrupted, len(leftovers()))
"""


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_killed_process_leaves_a_whole_file(path):
    # In a separate process with one thread: forking a test runner that has threads is not safe.
    source = str(Path(ovk.persistence.__file__).parents[2])
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": source}
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILL), str(path)],
        env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    values, interrupted, leftovers = map(int, result.stdout.split())
    assert values > 1  # saving did happen
    assert interrupted > 0  # and was interrupted half way
    assert leftovers == 0  # and what was left of it has been removed


def test_what_another_save_is_writing_is_not_taken_for_a_leftover(path):
    with replacing(str(path)) as first:
        first.write(b"first")
        first.flush()
        writing = {name.name for name in path.parent.iterdir()}
        save("second", path)
        assert {name.name for name in path.parent.iterdir()} == writing | {path.name}
        assert load(path) == "second"
    assert path.read_bytes() == b"first"
    assert list(path.parent.iterdir()) == [path]


def test_only_leftovers_of_ours_are_removed(tmp_path):
    (tmp_path / ".ovk-0123.tmp").write_bytes(b"left behind")
    (tmp_path / "notes.tmp").write_bytes(b"")
    (tmp_path / ".ovk-directory.tmp").mkdir()
    (tmp_path / ".ovk-link.tmp").symlink_to(tmp_path / "notes.tmp")
    os.mkfifo(tmp_path / ".ovk-pipe.tmp")
    save(1, tmp_path / "model.ovk")
    names = {name.name for name in tmp_path.iterdir()}
    assert names == {"model.ovk", "notes.tmp", ".ovk-directory.tmp", ".ovk-link.tmp", ".ovk-pipe.tmp"}


def test_a_new_file_that_was_taken_for_a_leftover_before_it_was_locked(path, monkeypatch):
    lock, calls = fcntl.flock, []

    def late(descriptor, how):
        if not calls:  # somebody removes it between its creation and its lock
            calls.append(descriptor)
            (name,) = path.parent.iterdir()
            name.unlink()
        lock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", late)
    save(1, path)
    assert calls
    assert load(path) == 1
    assert list(path.parent.iterdir()) == [path]


def test_a_file_system_without_locks(path, monkeypatch):
    def no_locks(descriptor, how):
        raise OSError("no locks available")

    leftover = path.parent / ".ovk-0123.tmp"
    leftover.write_bytes(b"left behind")
    monkeypatch.setattr(fcntl, "flock", no_locks)
    save(1, path)
    assert load(path) == 1
    assert leftover.exists()
