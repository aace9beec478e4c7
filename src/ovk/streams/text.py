"""Text files of any compression and encoding, opened once: a pipe cannot be opened twice."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

#: The name of standard input, as everywhere on the command line.
STDIN = "-"

#: Compressed files, by the ending of their names.
COMPRESSED: dict[str, Callable[[Path], Any]] = {".gz": gzip.open, ".xz": lzma.open, ".bz2": bz2.open}

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


def open_text(path: Path) -> TextIO:
    """The text of a file, or of standard input, decompressed by the ending of its name.

    The encoding is told by a byte order mark; without one it is UTF-8, or Windows' Latin letters if the first bytes
    are not UTF-8. Letters that cannot be read do no harm in columns that are not asked for.
    """
    raw: Any
    if str(path) == STDIN:
        raw = sys.stdin.buffer
    elif path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file in it")
    else:
        raw = COMPRESSED.get(path.suffix.lower(), _plain)(path)
    buffered = io.BufferedReader(raw, HEAD)
    try:
        with readable(path.name):
            head = buffered.peek(HEAD)
        encoding = _encoding(head, path.name)
    except BaseException:
        buffered.close()
        raise
    return io.TextIOWrapper(buffered, encoding=encoding, errors="replace", newline="")


def _plain(path: Path) -> io.FileIO:
    return io.FileIO(path)


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


@contextmanager
def readable(label: str) -> Iterator[None]:
    """Turn what decompression raises for a damaged file into one kind of error that names it."""
    try:
        yield
    except (EOFError, lzma.LZMAError, zlib.error, OSError, UnicodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(
            f"{label} cannot be read on ({error}): it is damaged, cut short, or not what its name says"
        ) from error


def stem_suffix(path: str | os.PathLike[str]) -> str:
    """The ending that tells the format: ``.csv`` for ``a.csv.gz``.

    >>> stem_suffix("a.csv.xz"), stem_suffix("b.JSONL")
    ('.csv', '.jsonl')
    """
    path = Path(path)
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()
