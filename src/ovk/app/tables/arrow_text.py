"""Blocks of plain CSV lines, split into columns by pyarrow, ten times faster than by the standard library.

A block is plain if each line is a row, and both readers find the same cells in it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from ovk.base import TextCells

#: Number of rows that the standard library reads before pyarrow is imported: importing takes longer than reading them.
ROWS_BEFORE_ARROW = 10_000

#: Minimum number of lines in a block that pyarrow splits faster.
MIN_LINES = 64


class Parsed(NamedTuple):
    """Rows of a text, by index from 0."""

    n_rows: int
    kept: Sequence[int]  # rows with cells, in order; the others are empty or faulty
    cells: list[Sequence[Any]]  # by column
    faults: list[tuple[int, str]]


def arrow_installed() -> bool:
    return find_spec("pyarrow") is not None


def wrong_width(found: int, width: int) -> str:
    """The fault of a row with too many or too few cells."""
    return f"{found} field{'s' * (found != 1)} instead of {width}"


def _is_plain(lines: list[str], data: bytes, delimiter: str) -> bool:
    # Most blocks contain none of these bytes, and testing for them is ten times faster than counting them.
    if b"\0" in data or data.startswith(b"\xef\xbb\xbf"):
        return False
    if b"\r" in data and data.count(b"\r") != data.count(b"\r\n"):
        return False
    if b'"' not in data:
        return True
    # Quotes around whole cells only, none within them.
    quoted = "".join(line for line in lines if '"' in line)
    mark = re.escape(delimiter)
    whole = re.compile(rf'(?:^|{mark})"[^"\r\n]*"(?={mark}|\r?$)', re.MULTILINE)
    return 2 * len(whole.findall(quoted)) == quoted.count('"')


def parse_plain(
    lines: list[str], data: bytes, delimiter: str, width: int, columns: Sequence[int] | None
) -> Parsed | None:
    """The cells of lines, also given as joined bytes; None if they are not plain, or pyarrow cannot read them."""
    if not _is_plain(lines, data, delimiter):
        return None
    import pyarrow
    from pyarrow import csv

    filled: Sequence[int] = range(len(lines))
    if min(map(len, lines)) <= len("\r\n"):
        filled = [i for i, line in enumerate(lines) if line not in ("\n", "\r\n")]
        data = "".join([lines[i] for i in filled]).encode()
    ragged: dict[int, str] = {}

    def skip(row: Any) -> str:
        ragged[filled[row.number - 1]] = wrong_width(row.actual_columns, width)
        return "skip"

    names = [str(j) for j in range(width)]
    wanted = names if columns is None else [names[j] for j in columns]
    try:
        table = csv.read_csv(
            pyarrow.py_buffer(data),
            # One block, in which rows are numbered.
            csv.ReadOptions(use_threads=False, column_names=names, block_size=len(data) + 1),
            csv.ParseOptions(delimiter=delimiter, invalid_row_handler=skip),
            csv.ConvertOptions(include_columns=wanted, column_types=dict.fromkeys(names, pyarrow.string())),
        )
    except (pyarrow.ArrowException, ValueError, OverflowError):
        return None
    kept = [i for i in filled if i not in ragged] if ragged else filled
    if len(table) != len(kept):
        # A line without an end, such as a part of a too long one.
        return None
    cells: list[Sequence[Any]] = [TextCells.joined(table.column(name).chunks) for name in wanted]
    return Parsed(len(lines), kept, cells, sorted(ragged.items()))
