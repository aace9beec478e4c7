"""Addresses of brokers, and who we are to them: told by the environment or a file, never on a command line."""

from __future__ import annotations

import csv
import io
import json
import os
import ssl
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from ovk.app.tables.records import FIELD, is_number

#: Schemes of addresses, with the port that is meant where none is given.
PORTS = {"nats": 4222, "kafka": 9092}

#: What a broker may be told, as names in a file; in the environment ``OVK_BROKER_USER`` and so on.
KNOWN = ("user", "password", "token", "creds", "ca", "cert", "key", "tls")

#: The variables begin with this; the one that names a file of credentials ends with FILE.
PREFIX = "OVK_BROKER_"


class BrokerError(ValueError):
    """A broker cannot be reached, refuses us, or does not have what was asked for.

    Examples
    --------
    >>> from ovk.app.tables import BrokerError, open_broker
    >>> try:
    ...     open_broker("nats://user:secret@127.0.0.1/STREAM")
    ... except BrokerError as error:
    ...     print(error)
    the address must not hold a password, which others can read: set the variables OVK_BROKER_USER and OVK_BROKER_PASSWORD, or name a file with them in OVK_BROKER_FILE
    """  # noqa: E501


class StreamLost(BrokerError):
    """A stream that was being read has lost messages, or stays away: no fault of the call.

    Examples
    --------
    >>> from ovk.app.tables import Gap, StreamLost
    >>> issubclass(Gap, StreamLost)
    True
    """


@dataclass(frozen=True)
class Address:
    """Where a stream is: ``nats://host:4222/STREAM?subject=a.b`` or ``kafka://host:9092/TOPIC?partition=0``.

    >>> Address.parse("kafka://127.0.0.1/readings?partition=2")
    Address(scheme='kafka', hosts='127.0.0.1:9092', name='readings', part='2')
    """

    scheme: str
    hosts: str
    name: str
    part: str = ""

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address in a text."""
        parts = urlsplit(text)
        if parts.scheme not in PORTS:
            raise BrokerError(f"the address must begin with {' or '.join(f'{s}://' for s in PORTS)}, got {text!r}")
        if "@" in parts.netloc:
            raise BrokerError(
                "the address must not hold a password, which others can read: set the variables "
                f"{PREFIX}USER and {PREFIX}PASSWORD, or name a file with them in {PREFIX}FILE"
            )
        name = parts.path.strip("/")
        if not parts.netloc or not name or "/" in name:
            raise BrokerError(f"the address must read {parts.scheme}://host:port/NAME, got {text!r}")
        allowed = {"nats": "subject", "kafka": "partition"}[parts.scheme]
        options = parse_qsl(parts.query, keep_blank_values=True)
        if unknown := [option for option, _ in options if option != allowed]:
            raise BrokerError(f"the address may hold ?{allowed}=, got {unknown[0]!r}")
        if len(options) > 1:
            raise BrokerError(f"{text!r} names more than one {allowed}: read each with its own command")
        hosts = [one if ":" in one else f"{one}:{PORTS[parts.scheme]}" for one in parts.netloc.split(",")]
        return cls(parts.scheme, ",".join(hosts), name, "".join(value for _, value in options))

    @property
    def label(self) -> str:
        """The address for a message."""
        return f"{self.scheme}://{self.hosts}/{self.name}"


def is_address(text: str) -> bool:
    """Whether a text is the address of a broker, and not the path of a file.

    >>> is_address("nats://127.0.0.1/STREAM"), is_address("data/t.csv")
    (True, False)
    """
    return any(text.startswith(f"{scheme}://") for scheme in PORTS)


def credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the environment and the file it names say: user, password, token, creds, ca, cert, key, tls.

    >>> credentials({"OVK_BROKER_USER": "me", "OVK_BROKER_PASSWORD": "secret"})
    {'user': 'me', 'password': 'secret'}
    """
    found: dict[str, str] = {}
    if path := environment.get(f"{PREFIX}FILE"):
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise BrokerError(f"the file of credentials {path} ({PREFIX}FILE) cannot be read: {error}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, mark, value = (one.strip() for one in line.partition("="))
            if not mark or name not in KNOWN:
                raise BrokerError(
                    f"line {number} of {path} ({PREFIX}FILE) must read NAME = VALUE, with one of {', '.join(KNOWN)}"
                )
            found[name] = value
    for name in KNOWN:
        if value := environment.get(f"{PREFIX}{name.upper()}", ""):
            found[name] = value
    return found


def tls_context(known: Mapping[str, str]) -> Any:
    """The TLS context that credentials ask for, None for none."""
    if not any(known.get(name) for name in ("ca", "cert", "key", "tls")):
        return None
    try:
        context = ssl.create_default_context(cafile=known.get("ca"))
        if "cert" in known:
            context.load_cert_chain(known["cert"], known.get("key"))
    except (OSError, ssl.SSLError) as error:
        raise BrokerError(f"the certificates for TLS cannot be used: {error}") from error
    return context


# Rows in messages: JSON objects, arrays or lines of them, or CSV lines, many rows a message.


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
