"""A write-ahead log of numbered, checksummed records, and the records themselves (`Entry`).

The log is a directory of segments ``log-<number of the first record>.wal``. A segment begins with MAGIC; then come
frames, one for each group of records that was synced together:

    b"OVKF"                      4 bytes
    length of the body           4 bytes
    number of the first record   8 bytes
    crc32 of these 16 bytes      4 bytes
    crc32 of the body            4 bytes
    body                         for each record its length (4 bytes) and its content

A frame is written only after the previous one was synced, so a crash can only leave the last frame incomplete. That
frame was never acknowledged and is cut off. Any other fault is damage, and reading raises `CorruptLogError`.
"""

from __future__ import annotations

import errno
import json
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any

from ovk.app.serve.access import CorruptLogError
from ovk.app.serve.protocol import RequestRows
from ovk.persistence import sync_directory

MAGIC = b"ovk-log1"
FRAME = b"OVKF"
FRAME_HEADER = struct.Struct("<4sIQ")
CHECKSUMS = struct.Struct("<II")
RECORD_LENGTH = struct.Struct("<I")
#: Bytes of a frame before its body.
FRAME_OVERHEAD = FRAME_HEADER.size + CHECKSUMS.size


class Log:
    """The log of one model. With `keep`, segments that a checkpoint no longer needs are not removed."""

    def __init__(self, directory: Path, *, segment_bytes: int = 16 << 20, keep: bool = False) -> None:
        self.directory, self.segment_bytes, self.keep = directory, segment_bytes, keep
        #: Number of the last record, and bytes of an incomplete last frame that were cut off.
        self.sequence, self.cut = 0, 0
        #: Whether a partly written frame could not be removed; only a restart truncates it.
        self.broken = False
        #: Set by a checkpoint: the next record begins a new segment, so that the next checkpoint can remove this one.
        self.full = False
        self._descriptor: int | None = None
        self._size = 0

    def segments(self) -> list[Path]:
        return sorted(self.directory.glob("log-*.wal"))

    def replay(self, after: int) -> Iterator[tuple[int, bytes]]:
        """The records with numbers above `after`. An incomplete last frame is cut off."""
        self.sequence = after
        segments = self.segments()
        expected: int | None = None
        for k, path in enumerate(segments):
            first = _first_number(path)
            if expected is None and first > after + 1:
                raise CorruptLogError(
                    f"{path} begins with record {first}, but the checkpoint ends with record {after}: restore the "
                    "segments in between"
                )
            if expected is not None and first != expected:
                raise CorruptLogError(
                    f"{path} begins with record {first}, but the previous one ends with {expected - 1}"
                )
            expected = first
            for number, content in self._read(path, first, last=k == len(segments) - 1):
                expected = number + 1
                if number > after:
                    self.sequence = number
                    yield number, content
        if expected is not None and expected <= after:
            raise CorruptLogError(
                f"{segments[-1]} ends with record {expected - 1}, but the checkpoint ends with {after}: the log was "
                "truncated or replaced"
            )

    def _read(self, path: Path, expected: int, *, last: bool) -> Iterator[tuple[int, bytes]]:
        content = path.read_bytes()
        offset = len(MAGIC)
        if content[:offset] != MAGIC:
            if last and len(content) <= offset and MAGIC.startswith(content.rstrip(b"\0")):
                self._cut(path, 0, len(content))
                return
            raise CorruptLogError(f"{path} is damaged at offset 0: it is not a log")
        while offset < len(content):
            fault, body, end = _frame(content, offset, expected)
            if fault:
                # The fault of a crash extends to the end of the last segment, and no complete frame follows it.
                if last and end >= len(content) and not _has_frame_from(content, offset + 1):
                    self._cut(path, offset, len(content) - offset)
                    return
                raise CorruptLogError(
                    f"{path} is damaged at offset {offset}: {fault}, and acknowledged records follow; restore the "
                    "file from a backup, or start with another --data directory"
                )
            for record in _records(body, path, offset):
                yield expected, record
                expected += 1
            offset = end

    def _cut(self, path: Path, size: int, lost: int) -> None:
        """Truncate a segment to `size` bytes; remove it if none are left."""
        self.cut += lost
        if size == 0:
            path.unlink()
            sync_directory(str(self.directory))
            return
        with open(path, "r+b") as file:
            file.truncate(size)
            os.fsync(file.fileno())

    def append(self, records: Sequence[bytes]) -> range:
        """Write and sync records, and return their numbers. If that raises OSError, none of them is in the log."""
        if self.broken:
            raise OSError(errno.EIO, "an earlier record could be neither written nor removed: restart the server")
        first = self.sequence + 1
        body = b"".join(RECORD_LENGTH.pack(len(record)) + record for record in records)
        head = FRAME_HEADER.pack(FRAME, len(body), first)
        frame = head + CHECKSUMS.pack(zlib.crc32(head), zlib.crc32(body)) + body
        descriptor = self._open_segment(first)
        try:
            _write(descriptor, frame)
            os.fdatasync(descriptor)
        except OSError:
            self.broken = True
            os.ftruncate(descriptor, self._size)
            os.fdatasync(descriptor)
            self.broken = False
            raise
        self._size += len(frame)
        self.sequence += len(records)
        return range(first, self.sequence + 1)

    def _open_segment(self, first: int) -> int:
        if self._descriptor is not None and self._size < self.segment_bytes and not self.full:
            return self._descriptor
        self.full = False
        self.close()
        path = self.directory / f"log-{first:020d}.wal"
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        try:
            _write(descriptor, MAGIC)
            os.fdatasync(descriptor)
            sync_directory(str(self.directory))
        except OSError:
            os.close(descriptor)
            with suppress(OSError):
                path.unlink()
            raise
        self._descriptor, self._size = descriptor, len(MAGIC)
        return descriptor

    def forget(self, through: int) -> None:
        """Remove segments whose records all have numbers up to `through`."""
        pairs = [] if self.keep else list(pairwise(self.segments()))
        old = [path for path, following in pairs if _first_number(following) <= through + 1]
        for path in old:
            path.unlink()
        if old:
            sync_directory(str(self.directory))

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _first_number(path: Path) -> int:
    number = path.stem.removeprefix("log-")
    if not number.isdigit():
        raise CorruptLogError(f"{path} is not a log segment: its name has no number; move it to another directory")
    return int(number)


def _frame(content: bytes, offset: int, expected: int | None) -> tuple[str, bytes, int]:
    """The fault of the frame at that offset ("" for none), its body, and its end as far as it is known."""
    body_offset = offset + FRAME_OVERHEAD
    if body_offset > len(content):
        return "a frame is truncated", b"", len(content)
    mark, length, first = FRAME_HEADER.unpack_from(content, offset)
    head_sum, body_sum = CHECKSUMS.unpack_from(content, offset + FRAME_HEADER.size)
    if mark != FRAME or zlib.crc32(content[offset : offset + FRAME_HEADER.size]) != head_sum:
        return "the header of a frame is wrong", b"", len(content)
    end = body_offset + length
    body = content[body_offset:end]
    if len(body) < length:
        return "a frame is truncated", b"", end
    if zlib.crc32(body) != body_sum:
        return "the checksum of a frame is wrong", b"", end
    if expected is not None and first != expected:
        return f"record {first} instead of {expected}", b"", offset
    return "", body, end


def _has_frame_from(content: bytes, offset: int) -> bool:
    while (offset := content.find(FRAME, offset)) >= 0:
        if not _frame(content, offset, None)[0]:
            return True
        offset += 1
    return False


def _records(body: bytes, path: Path, offset: int) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        (length,) = RECORD_LENGTH.unpack_from(body, start)
        start += RECORD_LENGTH.size
        if start + length > len(body):
            raise CorruptLogError(f"{path} is damaged at offset {offset}: a record is longer than its frame")
        yield body[start : start + length]
        start += length


def _write(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


@dataclass(frozen=True)
class Entry:
    """A log record: rows with targets; all or some labels of predicted rows; their expiry; or a promotion."""

    id: str | None
    rows: RequestRows | None = None
    targets: RequestRows | None = None
    promote: str | None = None
    #: Id of the prediction that the targets label, and whether labels of other outputs are still missing.
    label_of: str | None = None
    partial: bool = False
    #: Id of a prediction that accepts no further labels.
    expired: str | None = None

    def __len__(self) -> int:
        return 0 if self.rows is None else len(self.rows)

    @property
    def label_id(self) -> str:
        """The id of labels that were sent without one, so that a label sent twice is one request."""
        names = self.targets.names if self.partial and self.targets is not None else None
        return f"label of {self.label_of}" + ("" if names is None else f": {', '.join(sorted(names))}")

    @cached_property
    def _contents(self) -> tuple[bytes, bytes]:
        rows = b"" if self.rows is None else self.rows.encode()
        return rows, b"" if self.targets is None else self.targets.encode()

    @cached_property
    def digest(self) -> str:
        """Digest of the contents, to compare requests with the same id.

        It excludes the rows of a labelled prediction, which are no longer there when the label is repeated.
        """
        rows, targets = self._contents
        about = json.dumps([self.promote, self.label_of, self.partial]).encode()
        return blake2b(b"\n".join([about, b"" if self.label_of else rows, targets]), digest_size=8).hexdigest()

    def encode(self) -> bytes:
        rows, targets = self._contents
        head: dict[str, Any] = {"id": self.id, "promote": self.promote, "expired": self.expired}
        head |= {"label_of": self.label_of, "partial": self.partial, "rows": len(rows)}
        return json.dumps(head).encode() + b"\n" + rows + targets

    @classmethod
    def decode(cls, content: bytes) -> Entry:
        start = content.index(b"\n") + 1
        head: dict[str, Any] = json.loads(content[:start])
        middle = start + head.pop("rows")
        rows, targets = (
            RequestRows.decode(some) if some else None for some in (content[start:middle], content[middle:])
        )
        return cls(rows=rows, targets=targets, **head)
