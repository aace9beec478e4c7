"""Rows in messages: JSON objects, arrays or lines of them, or CSV lines, many rows a message."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

from ovk.streams.records import FIELD, is_number


class Message(NamedTuple):
    """A message: its place in the stream (sequence number, offset) and its bytes."""

    place: int
    data: bytes


class MessageRows(NamedTuple):
    """The rows of a message: cells in the order of the columns, or the fault of a row that cannot be read."""

    place: int
    cells: list[Sequence[Any] | str]


class RowReader(ABC):
    """Reads the rows of messages.

    Attributes
    ----------
    names : of the columns
    """

    form: str
    names: tuple[str, ...]

    @abstractmethod
    def rows(self, message: Message) -> MessageRows:
        """The rows of a message; a message that cannot be read is one faulty row."""

    def state(self) -> dict[str, Any]:
        """What `restored` takes."""
        return {"form": self.form, "names": list(self.names)}

    @staticmethod
    def restored(state: dict[str, Any]) -> RowReader:
        """The reader of that state."""
        return JSONRows(state["names"]) if state["form"] == "jsonl" else CSVRows(state["names"], state["delimiter"])


class JSONRows(RowReader):
    """Objects, arrays of objects, or an object a line; a key that a row lacks is missing."""

    form = "jsonl"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._known = set(names)

    def rows(self, message: Message) -> MessageRows:
        names, known = self.names, self._known
        cells: list[Sequence[Any] | str] = []
        for row in _objects(message.data):
            if isinstance(row, str):
                cells.append(row)
            elif known.isdisjoint(row):
                cells.append(f"{_short(json.dumps(row))} has none of the columns")
            else:
                cells.append([row.get(name) for name in names])
        return MessageRows(message.place, cells)


def _objects(data: bytes) -> list[dict[str, Any] | str]:
    """The objects of a message, and the faults of what is none."""
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError, UnicodeError):
        lines = data.splitlines()
        if len(lines) < 2 or not data.lstrip().startswith(b"{"):
            return [f"{_short(data)} is not JSON"]
        return [one for line in lines if line.strip() for one in _objects(line)]
    listed = whole if isinstance(whole, list) else [whole]
    return [one if isinstance(one, dict) else f"{_short(json.dumps(one))} is not a JSON object" for one in listed]


def _short(text: str | bytes) -> str:
    """The beginning of something, for a message.

    >>> _short(b"x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'... (1000 bytes)"
    """
    whole = text.encode("utf-8", "replace") if isinstance(text, str) else text
    more = f"... ({len(whole)} bytes)" if len(whole) > 40 else ""
    return repr(whole[:40].decode("utf-8", "replace")) + more


class CSVRows(RowReader):
    """Lines of values; a line that repeats the names of the columns is no row."""

    form = "csv"

    def __init__(self, names: Sequence[str], delimiter: str = ",") -> None:
        self.names, self.delimiter = tuple(names), delimiter

    def state(self) -> dict[str, Any]:
        return {**super().state(), "delimiter": self.delimiter}

    def rows(self, message: Message) -> MessageRows:
        text = message.data.decode("utf-8", "replace").removeprefix("\ufeff")
        width, header = len(self.names), list(self.names)
        cells: list[Sequence[Any] | str] = []
        limit = csv.field_size_limit(FIELD)
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter)
        try:
            while True:
                try:
                    cells.extend(reader)
                    break
                except csv.Error as error:
                    cells.append(f"{error}")
        finally:
            csv.field_size_limit(limit)
        if cells and isinstance(cells[0], list) and [name.strip() for name in cells[0]] == header:
            del cells[0]
        # MessageRows of the right width, which are nearly all, are passed on as they are.
        if any(isinstance(row, str) or len(row) != width for row in cells):
            wrong = "{} fields where the columns are {}".format
            cells = [
                row if isinstance(row, str) or len(row) == width else wrong(len(row), width) for row in cells if row
            ]
        return MessageRows(message.place, cells)


def reader_for(message: Message, form: str | None, columns: Sequence[str] | None, label: str) -> RowReader | None:
    """The reader that a first message asks for; None if it does not tell the columns."""
    start = message.data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    form = form or ("jsonl" if start in (b"{", b"[") else "csv")
    if form == "jsonl":
        if columns is not None:
            return JSONRows(columns)
        first = next((row for row in _objects(message.data) if isinstance(row, dict) and row), None)
        return None if first is None else JSONRows(list(first))
    line = message.data[: 1 << 16].decode("utf-8", "replace").removeprefix("\ufeff").splitlines()[:1]
    delimiter = max(",;\t|", key=line[0].count) if line else ","
    if columns is not None:
        return CSVRows(columns, delimiter)
    names = [name.strip() for name in next(csv.reader(line, delimiter=delimiter), [])]
    if not any(names):
        return None
    if all(is_number(name) for name in names):
        raise ValueError(
            f"the first message of {label} holds no names of columns ({_short(message.data)}): put a line of names in "
            "front of it, or name them with --columns (columns= in Python)"
        )
    return CSVRows(names, delimiter)
