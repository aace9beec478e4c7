"""The log removes what a crash leaves, rejects other damage, and loses nothing on a full disk."""

import errno
import os

import pytest

from ovk.app.serve import CorruptLogError
from ovk.app.serve.log import FRAME_OVERHEAD, MAGIC, Log

GROUPS = [[b"one", b"two"], [b"three" * 20], [b"four", b"five"]]


def written(directory, **options):
    log = Log(directory, **options)
    list(log.replay(after=0))
    for group in GROUPS:
        log.append(group)
    log.close()
    return log


def replay(directory, after=0):
    log = Log(directory)
    return list(log.replay(after)), log


def test_what_was_appended_is_read_in_order(tmp_path):
    written(tmp_path)
    records, log = replay(tmp_path)
    assert records == list(enumerate([b"one", b"two", b"three" * 20, b"four", b"five"], start=1))
    assert replay(tmp_path, after=3)[0] == records[3:]
    assert log.append([b"six"]) == range(6, 7)
    log.close()
    assert replay(tmp_path)[0][-1] == (6, b"six")


def test_a_log_that_is_cut_anywhere_ends_with_the_last_whole_group(tmp_path):
    """For many lengths: groups before the cut are kept, the rest is removed, and appending works."""
    written(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    ends = [len(MAGIC)]
    for group in GROUPS:
        ends.append(ends[-1] + FRAME_OVERHEAD + sum(4 + len(record) for record in group))
    assert ends[-1] == len(whole)
    near_ends = {end + shift for end in ends for shift in (-1, 0, 1)}
    for size in sorted({*range(0, len(whole), 7), *near_ends} - {len(whole), len(whole) + 1}):
        path.write_bytes(whole[:size])
        records, log = replay(tmp_path)
        kept = sum(len(group) for group, end in zip(GROUPS, ends[1:], strict=True) if end <= size)
        assert len(records) == kept, size
        assert log.append([b"next"]) == range(kept + 1, kept + 2)
        log.close()
        assert len(replay(tmp_path)[0]) == kept + 1
        for other in tmp_path.iterdir():
            other.unlink()


@pytest.mark.parametrize("tail", [bytes(40), b"\xff" * 7, b"OVKF" + bytes(100)])
def test_rubbish_behind_the_end_is_cut_off(tmp_path, tail):
    written(tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(path.read_bytes() + tail)
    records, log = replay(tmp_path)
    assert len(records) == 5
    assert log.cut == len(tail)


def test_a_changed_bit_before_the_last_group_is_refused_with_file_and_offset(tmp_path):
    written(tmp_path)
    (path,) = tmp_path.iterdir()
    whole = path.read_bytes()
    last = len(whole) - FRAME_OVERHEAD - sum(4 + len(record) for record in GROUPS[-1])
    for place in range(0, last, 2):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(CorruptLogError, match="damaged at offset") as error:
            replay(tmp_path)
        assert str(path) in str(error.value)
    assert path.read_bytes() == damaged, "nothing is cut off a damaged log"


def test_missing_and_foreign_segments_are_refused(tmp_path):
    written(tmp_path, segment_bytes=1)
    first, second, _ = sorted(tmp_path.iterdir())
    content = second.read_bytes()
    second.unlink()
    with pytest.raises(CorruptLogError, match="begins with record 4"):
        replay(tmp_path)
    second.write_bytes(content[:-3])
    with pytest.raises(CorruptLogError, match="damaged at offset"):
        replay(tmp_path)
    second.write_bytes(content)
    first.unlink()
    with pytest.raises(CorruptLogError, match="restore the segments"):
        replay(tmp_path)
    assert len(replay(tmp_path, after=2)[0]) == 3
    # Even if a single record is missing.
    for learned in (6, 9):
        with pytest.raises(CorruptLogError, match="ends with record 5"):
            replay(tmp_path, after=learned)


def test_segments_go_when_a_checkpoint_has_them(tmp_path):
    log = written(tmp_path, segment_bytes=1)
    log.forget(2)
    assert [number for number, _ in replay(tmp_path, after=2)[0]] == [3, 4, 5]
    assert len(log.segments()) == 2
    log.keep = True
    log.forget(5)
    assert len(log.segments()) == 2


def test_a_disk_that_is_full_leaves_the_log_as_it_was(tmp_path, monkeypatch):
    """The disk is full after half of the frame."""
    log = written(tmp_path)
    list(log.replay(after=0))
    log.append([b"six"])
    real = os.write

    def full(descriptor, content):
        if len(content) <= 10:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(descriptor, content[: len(content) // 2])

    monkeypatch.setattr(os, "write", full)
    for _ in range(3):
        with pytest.raises(OSError, match="No space"):
            log.append([b"seven"])
    monkeypatch.setattr(os, "write", real)
    assert not log.broken
    assert log.append([b"eight"]) == range(7, 8)
    log.close()
    assert replay(tmp_path)[0][5:] == [(6, b"six"), (7, b"eight")]


def test_a_disk_that_cannot_even_take_back_ends_the_log_until_the_next_start(tmp_path, monkeypatch):
    log = written(tmp_path)
    list(log.replay(after=0))
    log.append([b"six"])

    def broken(descriptor, *arguments):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", broken)
        patch.setattr(os, "ftruncate", broken)
        with pytest.raises(OSError, match="Input/output"):
            log.append([b"seven"])
    with pytest.raises(OSError, match="restart"):
        log.append([b"eight"])
    log.close()
    assert len(replay(tmp_path)[0]) in (6, 7)  # the record may be on disk, but it was not acknowledged
