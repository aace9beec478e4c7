"""Text files of any compression and encoding, opened once: a pipe cannot be opened twice."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import select
import stat
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

from ovk._extras import required

# Lines that come through a pipe: whoever sends them one by one waits for an answer to each.

#: Seconds without a new line after which those that have come are passed on. A program that writes as fast as it can
#: does not rest so long, so that its rows come in blocks as full as those of a file.
PAUSE = 0.05

#: Bytes asked for at a time.
READ_SIZE = 1 << 16

#: Most letters of a line; a longer one is taken for several.
MAX_LINE = 1 << 23

# A carriage return at the very end may be the first half of a line's end.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r(?=[^\n]))")


def is_pipe(raw: Any) -> bool:
    """Whether bytes come from a pipe, a socket or a terminal, of which the system tells when there are more."""
    if os.name == "nt" or not isinstance(raw, io.FileIO):
        return False
    mode = os.fstat(raw.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or raw.isatty()


class PipedText(io.TextIOBase):
    """Text out of a pipe, line by line, which tells how many lines have come."""

    def __init__(self, buffered: io.BufferedReader, encoding: str) -> None:
        self.buffer, self._encoding = buffered, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._lines: deque[str] = deque()
        self._rest, self._ended = "", False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        """The next line, when it has come; empty at the end."""
        while not self._lines and not self._ended:
            self._fill()
        return self._lines.popleft() if self._lines else ""

    def ready(self, most: int) -> int:
        """Number of lines that have come, at least 1 and hardly more than `most`; waits for the first of them."""
        while len(self._lines) < most and not self._ended:
            if self._lines and not select.select([self.buffer.fileno()], [], [], PAUSE)[0]:
                break
            self._fill()
        return max(len(self._lines), 1)

    def _fill(self) -> None:
        data = self.buffer.read1(READ_SIZE)
        self._ended = not data
        text = self._rest + self._decoder.decode(data, final=self._ended)
        lines = _LINE.findall(text)
        self._lines.extend(lines)
        self._rest = text[sum(map(len, lines)) :]
        if self._rest and (self._ended or len(self._rest) > MAX_LINE):
            self._lines.append(self._rest)
            self._rest = ""

    def close(self) -> None:
        self.buffer.close()
        super().close()


#: The name of standard input, as everywhere on the command line.
STDIN = "-"

#: Endings of the names of compressed files.
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")


def _zstandard(file: Any) -> Any:
    with required("Zstandard", "files"):
        import pyarrow
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")


#: What decompresses bytes that begin so, whatever the file is called: a pipe has no name. A table may begin with the
#: letters of bzip2, but not with the marks of a block or of the end (digits of pi and of its root) behind them.
OPENERS: dict[re.Pattern[bytes], Callable[[Any], Any]] = {
    re.compile(rb"\x1f\x8b"): lambda file: gzip.GzipFile(fileobj=file),
    re.compile(rb"\xfd7zXZ\0"): lzma.LZMAFile,
    re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"): bz2.BZ2File,
    re.compile(rb"\x28\xb5\x2f\xfd"): _zstandard,
}

#: Bytes that are enough to tell.
MAGIC_BYTES = 10

#: Byte order marks. The longer ones first: UTF-16's is the beginning of UTF-32's.
MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

#: Bytes that are looked at to tell the encoding.
HEAD = 1 << 16


class _Decompressed(io.BufferedReader):
    """Bytes that are decompressed on their way; closed together with those they are made of."""

    def __init__(self, raw: Any, source: io.BufferedReader) -> None:
        super().__init__(raw, HEAD)
        self._source = source

    def close(self) -> None:
        super().close()
        self._source.close()


def open_text(path: Path) -> TextIO:
    """The text of a file, or of standard input, decompressed if its first bytes say so.

    The encoding is told by a byte order mark; without one it is UTF-8, or Windows' Latin letters if the first bytes
    are not UTF-8. Letters that cannot be read do no harm in columns that are not asked for.
    """
    raw: Any
    if str(path) == STDIN:
        raw = sys.stdin.buffer
        if isinstance(raw, io.BufferedReader):
            # Which would wait until its own buffer is full, while rows that came through a pipe could be learned.
            raw = raw.raw
    else:
        raw = io.FileIO(path)
    buffered = io.BufferedReader(raw, HEAD)
    for beginning, opener in OPENERS.items():
        if beginning.match(buffered.peek(MAGIC_BYTES)):
            return decoded(_Decompressed(opener(buffered), buffered), path.name)
    return decoded(buffered, path.name)


def decoded(buffered: io.BufferedReader, label: str) -> TextIO:
    """The text of bytes, in the encoding that the first of them tell."""
    try:
        encoding = _encoding(buffered.peek(HEAD), label)
    except BaseException:
        buffered.close()
        raise
    if is_pipe(buffered.raw):
        return cast(TextIO, PipedText(buffered, encoding))
    return io.TextIOWrapper(buffered, encoding=encoding, errors="replace", newline="")


def _encoding(head: bytes, label: str) -> str:
    for mark, encoding in MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise ValueError(
            f"{label} is not a text file (it holds zero bytes): give CSV or JSON lines, or name a Parquet file .parquet"
        )
    try:
        # The head may end within a letter.
        codecs.getincrementaldecoder("utf-8")().decode(head, final=False)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def part_read(file: TextIO) -> float | None:
    """The part of a file that was read so far, from 0 to 1; None for pipes and where decompression does not tell."""
    raw = getattr(file.buffer, "raw", None)
    if isinstance(raw, gzip.GzipFile):
        raw = getattr(raw.fileobj, "raw", None)
    if not isinstance(raw, io.FileIO) or isinstance(file, PipedText) or raw.closed:
        return None
    size = os.fstat(raw.fileno()).st_size
    return min(raw.tell() / size, 1.0) if size else None


def stem_suffix(path: str | os.PathLike[str]) -> str:
    """The ending that tells the format: ``.csv`` for ``a.csv.gz``."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
