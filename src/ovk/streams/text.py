"""Text files of any compression and encoding, opened once: a pipe cannot be opened twice."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO, cast

from ovk._extras import required
from ovk.streams.pipes import PipedText, is_pipe

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
LONGEST_BEGINNING = 10

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
        if beginning.match(buffered.peek(LONGEST_BEGINNING)):
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
    """The ending that tells the format: ``.csv`` for ``a.csv.gz``.

    >>> stem_suffix("a.csv.xz"), stem_suffix("b.JSONL")
    ('.csv', '.jsonl')
    """
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
