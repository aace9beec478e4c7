"""Which reader a file needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from ovk.streams.parquet import ParquetRecords
from ovk.streams.records import CSVRecords, JSONRecords, Records, TextRecords, readable
from ovk.streams.text import COMPRESSED, STDIN, open_text, stem_suffix

#: Formats by the ending of a file's name.
FORMATS = {".csv": "csv", ".tsv": "csv", ".txt": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}

#: What a file is that begins with these bytes.
_NO_TEXT = {b"PK\x03\x04": "a spreadsheet or another zip file", b"\xd0\xcf\x11\xe0": "an old Excel file"}


def open_records(
    path: str | Path, form: str | None = None, *, strict: bool = False, columns: Sequence[int] | None = None
) -> Records:
    """Open a file for reading once: CSV, JSON lines or Parquet, compressed perhaps, or ``-`` for standard input.

    Parameters
    ----------
    path : the file
    form : "csv", "jsonl" or "parquet"; by default told by the ending of the name or the first character
    strict : bool
        Whether a row that cannot be read is an error; by default it is left out and named among the faults.
    columns : numbers of the columns to read; default all

    Examples
    --------
    >>> import os, tempfile
    >>> from ovk.streams import open_records
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "t.csv")
    ...     with open(path, "w") as file:
    ...         _ = file.write("a,b\\n1,2\\n3\\nx,?\\n")
    ...     with open_records(path) as records:
    ...         [(batch.columns, batch.rows, batch.bad) for batch in records.batches(10)]
    [([('1', 'x'), ('2', '?')], [1, 3], [(2, '1 field where the first line names 2')])]
    """
    path = Path(path)
    known = form or FORMATS.get(stem_suffix(path))
    if known not in (None, *FORMATS.values()):
        raise ValueError(f"the format must be csv, jsonl or parquet, got {form!r}")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder: give a file in it")
    if known == "parquet":
        if str(path) == STDIN or path.suffix.lower() in COMPRESSED:
            raise ValueError("Parquet is read from a file of its own, not from a pipe or a compressed one: unpack it")
        return ParquetRecords(path, strict, columns)
    label = "standard input" if str(path) == STDIN else path.name
    with readable(label):
        _refuse_spreadsheets(path, label)
        file = open_text(path)
    return records_of_text(file, known, label, strict, columns)


def _refuse_spreadsheets(path: Path, label: str) -> None:
    """Refuse a file of Excel and other zip files, whose first line would be taken for names."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        head = file.read(max(map(len, _NO_TEXT)))
    for begin, what in _NO_TEXT.items():
        if head.startswith(begin):
            raise ValueError(f"{label} is {what}, not a text file: save it as CSV and read that")


def records_of_text(
    file: TextIO, known: str | None, label: str, strict: bool, columns: Sequence[int] | None
) -> TextRecords:
    """The rows of an opened text, which is closed with them."""
    try:
        if known is None:
            known = "jsonl" if _first_letter(file) == "{" else "csv"
        kind = JSONRecords if known == "jsonl" else CSVRecords
        return kind(file, label, strict, columns)
    except BaseException:
        file.close()
        raise


def _first_letter(file: TextIO) -> str:
    """The first letter, without moving on."""
    head: bytes = file.buffer.peek(64)  # type: ignore[attr-defined]
    return head.decode(file.encoding, errors="replace").lstrip("\ufeff \t\r\n")[:1]
