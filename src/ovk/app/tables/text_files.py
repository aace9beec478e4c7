"""Text from files and pipes of any compression and encoding, opened once because a pipe cannot be opened twice."""

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

#: Seconds without a new line after which the lines of a pipe are passed on. A program that writes without waiting for
#: answers does not pause so long, so that its rows arrive in full blocks, as from a file.
PIPE_PAUSE = 0.05

#: Bytes read from a pipe at a time.
PIPE_READ_BYTES = 1 << 16

#: Maximum characters of a line; a longer one is split.
MAX_LINE = 1 << 23

# A carriage return at the very end may be the first half of a line end.
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r(?=[^\n]))")


def is_pipe(raw: Any) -> bool:
    """Whether bytes come from a pipe, socket or terminal, on which `select` works."""
    if os.name == "nt" or not isinstance(raw, io.FileIO):
        return False
    mode = os.fstat(raw.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or raw.isatty()


class PipedText(io.TextIOBase):
    """Lines of a pipe, with the number of lines that have arrived."""

    def __init__(self, buffered: io.BufferedReader, encoding: str) -> None:
        self.buffer, self._encoding = buffered, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
        self._lines: deque[str] = deque()
        self._rest, self._ended = "", False

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def readline(self, size: int = -1, /) -> str:  # type: ignore[override]
        while not self._lines and not self._ended:
            self._fill()
        return self._lines.popleft() if self._lines else ""

    def ready(self, most: int) -> int:
        """Wait for a line; the number of lines that have arrived, from 1 to about `most`."""
        while len(self._lines) < most and not self._ended:
            if self._lines and not select.select([self.buffer.fileno()], [], [], PIPE_PAUSE)[0]:
                break
            self._fill()
        return max(len(self._lines), 1)

    def _fill(self) -> None:
        data = self.buffer.read1(PIPE_READ_BYTES)
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


#: The path that means standard input.
STDIN = "-"

#: Suffixes of compressed files.
COMPRESSED = (".gz", ".xz", ".bz2", ".zst")


def _zstandard(file: Any) -> Any:
    with required("Zstandard", "files"):
        import pyarrow
    return pyarrow.CompressedInputStream(pyarrow.PythonFile(file, mode="r"), "zstd")


#: Decompressors by the first bytes, since a pipe has no name. A table may begin with the letters of bzip2, but not with
#: the block mark or end mark (digits of pi and of its square root) after them.
OPENERS: dict[re.Pattern[bytes], Callable[[Any], Any]] = {
    re.compile(rb"\x1f\x8b"): lambda file: gzip.GzipFile(fileobj=file),
    re.compile(rb"\xfd7zXZ\0"): lzma.LZMAFile,
    re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"): bz2.BZ2File,
    re.compile(rb"\x28\xb5\x2f\xfd"): _zstandard,
}

#: Bytes that identify a compression.
MAGIC_BYTES = 10

#: Byte order marks, the longer ones first: that of UTF-16 is a prefix of that of UTF-32.
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

#: Bytes from which the encoding is detected.
HEAD_BYTES = 1 << 16


class _Decompressed(io.BufferedReader):
    """Decompressed bytes, closed together with their source."""

    def __init__(self, raw: Any, source: io.BufferedReader) -> None:
        super().__init__(raw, HEAD_BYTES)
        self._source = source

    def close(self) -> None:
        super().close()
        self._source.close()


def open_text(path: Path) -> TextIO:
    """The decompressed, decoded text of a file or of standard input."""
    raw: Any = sys.stdin.buffer if str(path) == STDIN else io.FileIO(path)
    if isinstance(raw, io.BufferedReader):
        # It would wait until its own buffer is full, although rows have arrived.
        raw = raw.raw
    buffered = io.BufferedReader(raw, HEAD_BYTES)
    for beginning, opener in OPENERS.items():
        if beginning.match(buffered.peek(MAGIC_BYTES)):
            return decoded(_Decompressed(opener(buffered), buffered), path.name)
    return decoded(buffered, path.name)


def decoded(buffered: io.BufferedReader, label: str) -> TextIO:
    """Text in the encoding of a byte order mark, otherwise UTF-8, or Windows-1252 if the first bytes are not UTF-8.

    Undecodable characters are replaced: they have no effect in unused columns.
    """
    try:
        encoding = _encoding(buffered.peek(HEAD_BYTES), label)
    except BaseException:
        buffered.close()
        raise
    if is_pipe(buffered.raw):
        return cast(TextIO, PipedText(buffered, encoding))
    return io.TextIOWrapper(buffered, encoding=encoding, errors="replace", newline="")


def _encoding(head: bytes, label: str) -> str:
    for mark, encoding in BYTE_ORDER_MARKS.items():
        if head.startswith(mark):
            return encoding
    if b"\0" in head:
        raise ValueError(
            f"{label} is not a text file (it contains zero bytes): use CSV or JSON lines, or the suffix .parquet"
        )
    try:
        # The head may end within a character.
        codecs.getincrementaldecoder("utf-8")().decode(head, final=False)
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8"


def fraction_read(file: TextIO) -> float | None:
    """Fraction of a file that has been read; None for pipes and some decompressors."""
    raw = getattr(file.buffer, "raw", None)
    if isinstance(raw, gzip.GzipFile):
        raw = getattr(raw.fileobj, "raw", None)
    if not isinstance(raw, io.FileIO) or isinstance(file, PipedText) or raw.closed:
        return None
    size = os.fstat(raw.fileno()).st_size
    return min(raw.tell() / size, 1.0) if size else None


def stem_suffix(path: str | os.PathLike[str]) -> str:
    """The suffix of the format: ``.csv`` for ``a.csv.gz``."""
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
