"""The order of syncs: a record is acknowledged only after it and its directory entries are on disk."""

import errno
import os
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from ovk import PKAWV
from ovk.app.serve import Checkpoint, CorruptLogError, Limits
from ovk.app.serve.access import RequestError
from ovk.app.serve.ledger import History, Ledger
from ovk.app.serve.log import CHECKSUMS, FRAME, FRAME_HEADER, MAGIC, RECORD_LENGTH, Entry, Log
from ovk.app.serve.protocol import RequestRows
from ovk.app.serve.service import ModelService


@pytest.fixture
def events(monkeypatch, tmp_path):
    """Names of synced files, and ``cut`` and ``gone`` for truncated and removed ones."""
    found = []

    def noted(name, word=None):
        real = getattr(os, name)

        def call(what, *args, **kwargs):
            place = what if isinstance(what, (str, Path)) else os.readlink(f"/proc/self/fd/{what}")
            if Path(place).is_relative_to(tmp_path):
                found.append(word or Path(place).name)
            return real(what, *args, **kwargs)

        monkeypatch.setattr(os, name, call)

    for name in ("fsync", "fdatasync"):
        noted(name)
    noted("ftruncate", "cut")
    noted("unlink", "gone")
    return found


def taken(events):
    found = events.copy()
    events.clear()
    return found


def open_files(directory):
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sorted(
        Path(os.readlink(link)).name for link in links if link.is_symlink() and str(directory) in os.readlink(link)
    )


def segment(first):
    return f"log-{first:020d}.wal"


def test_every_record_is_synced_before_it_has_a_number(events, tmp_path):
    log = Log(tmp_path)
    assert log.append([b"one", b"two"]) == range(1, 3)
    # The header of the segment, its name, the record.
    assert taken(events) == [segment(1), tmp_path.name, segment(1)]
    assert log.append([b"three"]) == range(3, 4)
    assert taken(events) == [segment(1)]
    log.full = True
    assert log.append([b"four"]) == range(4, 5)
    assert taken(events) == [segment(4), tmp_path.name, segment(4)]
    assert open_files(tmp_path) == [segment(4)]
    log.append([b"five"])
    assert taken(events) == [segment(4)]
    log.forget(3)
    assert taken(events)[-1] == tmp_path.name
    assert [path.name for path in log.segments()] == [segment(4)]
    log.close()
    assert open_files(tmp_path) == []
    again = Log(tmp_path)
    assert list(again.replay(3)) == [(4, b"four"), (5, b"five")]
    assert again.append([b"six"]) == range(6, 7)
    again.close()


def test_a_log_without_records_goes_on_behind_the_checkpoint(tmp_path):
    log = Log(tmp_path)
    assert list(log.replay(7)) == []
    assert log.append([b"eight"]) == range(8, 9)
    log.close()
    assert list(Log(tmp_path).replay(7)) == [(8, b"eight")]


@pytest.mark.parametrize("lost", [1, 5, 30])
def test_what_is_cut_off_a_torn_log_stays_cut_off(lost, events, tmp_path):
    log = Log(tmp_path)
    log.append([b"one"])
    # Content that looks like a frame header is not one.
    log.append([b"two" + FRAME + b"and more" + FRAME])
    log.close()
    path = tmp_path / segment(1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-lost])
    taken(events)
    assert list(Log(tmp_path).replay(0)) == [(1, b"one")]
    assert taken(events) == [segment(1)]
    assert list(Log(tmp_path).replay(0)) == [(1, b"one")]
    assert whole.startswith(path.read_bytes())


@pytest.mark.parametrize("size", range(len(MAGIC)))
def test_a_segment_that_was_only_begun_goes(size, events, tmp_path):
    log = Log(tmp_path)
    log.append([b"one"])
    log.close()
    begun = tmp_path / segment(2)
    begun.write_bytes(MAGIC[:size])
    taken(events)
    log = Log(tmp_path)
    assert list(log.replay(0)) == [(1, b"one")]
    assert (log.cut, begun.exists()) == (size, False)
    assert taken(events) == ["gone", tmp_path.name]


def test_a_record_that_could_not_be_synced_is_taken_back(events, tmp_path, monkeypatch):
    log, real = Log(tmp_path), os.fdatasync
    log.append([b"one"])
    before, calls = (tmp_path / segment(1)).read_bytes(), iter([True])

    def fail(descriptor):
        if next(calls, False):
            raise OSError(errno.EIO, "no")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fail)
    taken(events)
    with pytest.raises(OSError, match="no"):
        log.append([b"two"])
    assert taken(events) == ["cut", segment(1)]
    assert (tmp_path / segment(1)).read_bytes() == before
    assert log.append([b"two"]) == range(2, 3)
    log.close()
    assert list(Log(tmp_path).replay(0)) == [(1, b"one"), (2, b"two")]


def test_a_segment_that_could_not_be_begun_leaves_nothing(tmp_path, monkeypatch):
    log = Log(tmp_path)

    def fail(descriptor):
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(OSError, match="no"):
            log.append([b"one"])
    assert list(tmp_path.iterdir()) == open_files(tmp_path) == []
    assert log.append([b"one"]) == range(1, 2)
    log.close()


def frame(number, body):
    head = FRAME_HEADER.pack(FRAME, len(body), number)
    return head + CHECKSUMS.pack(zlib.crc32(head), zlib.crc32(body)) + body


def test_records_and_names_that_cannot_be(tmp_path):
    (tmp_path / segment(1)).write_bytes(MAGIC + frame(1, RECORD_LENGTH.pack(10) + b"short"))
    with pytest.raises(CorruptLogError, match="a record is longer than its frame"):
        list(Log(tmp_path).replay(0))
    (tmp_path / segment(1)).rename(tmp_path / "log-first.wal")
    with pytest.raises(CorruptLogError, match="its name has no number"):
        list(Log(tmp_path).replay(0))


X = np.linspace(0, 1, 50)[:, None]


def test_shadows_that_cannot_learn_from_the_same_rows_are_refused():
    model = PKAWV().fit(X, X)
    with pytest.raises(ValueError, match="must have the same outputs"):
        Checkpoint.start({"one": model, "two": PKAWV().fit(X, np.hstack([X, X]))})
    with pytest.raises(ValueError, match="must use the same inputs"):
        Checkpoint.start({"one": model, "two": PKAWV().fit(np.hstack([X, X]), X)})
    assert len(Checkpoint.start({"one": model, "two": PKAWV().fit(X, X)}).models) == 2


def labelled(prediction, *names, partial=True, expired=None):
    rows = RequestRows.of_matrix(np.ones((1, 3)))
    targets = RequestRows.named(names, [np.ones(1) for _ in names])
    return Entry(f"label of {prediction}", rows, targets, label_of=prediction, partial=partial, expired=expired)


def test_rows_with_some_of_their_labels_wait_again_after_a_restart():
    history, complete = History().after(1, labelled("p", "y0"), ["y0", "y1"])
    assert complete is None
    ledger = Ledger(Limits(), ["y0", "y1"], history, print)
    assert len(ledger) == 1
    assert ledger.rows_of("p") is not None
    with pytest.raises(RequestError, match="already has labels of y0"):
        ledger.queued(labelled("p", "y0"), None)
    with pytest.raises(RequestError, match="no rows wait for labels"):
        ledger.queued(labelled("q", "y1"), None)


def test_rows_wait_for_labels_no_longer_than_the_limits_say(monkeypatch):
    now, expired = [100.0], []
    monkeypatch.setattr("ovk.app.serve.ledger.time.monotonic", lambda: now[0])
    rows = RequestRows.of_matrix(np.ones((1, 3)))
    ledger = Ledger(Limits(label_seconds=10.0), ["y0", "y1"], History(), expired.append)
    ledger.wait("first", rows)
    now[0] = 109.0
    ledger.wait("second", rows)
    assert len(ledger) == 2
    now[0] = 110.5
    assert ledger.rows_of("first") is None
    ledger.wait("third", rows)
    assert len(ledger) == 2
    assert ledger.rows_of("second") is not None
    few = Ledger(Limits(label_bytes=2 * rows.nbytes), ["y0"], History(), expired.append)
    for name in ("a", "b", "c"):
        few.wait(name, rows)
    assert [name for name in "abc" if few.rows_of(name) is not None] == ["b", "c"]
    assert expired == []


def test_rows_that_wait_take_the_memory_of_their_columns():
    columns = [np.zeros(1000), np.zeros(1000)]
    assert RequestRows.named(["a", "b"], columns).nbytes >= 16_000
    assert RequestRows.of_matrix(np.zeros((1000, 2))).nbytes >= 16_000
    words = RequestRows.named(["a"], [["word"] * 1000])
    assert words.nbytes >= 50_000


def test_the_rate_is_that_of_the_last_ten_seconds(monkeypatch):
    monkeypatch.setattr("ovk.app.serve.service.time.monotonic", lambda: 100.0)
    known = [(50.0, 10), (92.0, 1000), (95.0, 1300), (99.0, 1400)]
    assert ModelService.rate(SimpleNamespace(_recent=known)) == pytest.approx(50.0)
    assert ModelService.rate(SimpleNamespace(_recent=known[:2])) == 0.0
