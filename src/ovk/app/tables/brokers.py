"""Streams of brokers as records. Only the session file stores the position in the stream.

There are no acknowledgements and no consumer groups: the session file contains the next message and the number of its
rows that were read. It is written together with the model, so that a crash cannot separate the two.

A new broker is a subclass of `Broker` in its own file, with a scheme in `PORTS`, the query parameter of its URL in
`QUERY_PARAMETERS` and a case in `open_broker`. Credentials come from the environment or a file, never from arguments.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from ovk.app.tables.records import PORTS, Batch, Records, csv_rows, is_number, parse_json
from ovk.base import check_int

#: The query parameter that a URL may have, by scheme.
QUERY_PARAMETERS = {"nats": "subject", "kafka": "partition"}

#: Names of credentials in a file; the environment variables are ``OVK_BROKER_USER`` and so on.
CREDENTIALS = ("user", "password", "token", "creds", "ca", "cert", "key", "tls")

#: Prefix of the environment variables; OVK_BROKER_FILE names a file of credentials.
PREFIX = "OVK_BROKER_"


class BrokerError(ValueError):
    """A broker cannot be reached, rejects the connection, or does not have the requested stream.

    See Also
    --------
    StreamLostError, open_broker

    Examples
    --------
    >>> from ovk.app.tables import BrokerError, open_broker
    >>> try:
    ...     open_broker("nats://user:secret@127.0.0.1/STREAM")
    ... except BrokerError as error:
    ...     print(error)
    the address must not contain a password: set OVK_BROKER_USER and OVK_BROKER_PASSWORD, or OVK_BROKER_FILE
    """


class StreamLostError(BrokerError):
    """A stream lost messages or became unreachable while it was read.

    See Also
    --------
    BrokerError, open_broker

    Examples
    --------
    >>> from ovk.app.tables import MissingMessagesError, StreamLostError
    >>> issubclass(MissingMessagesError, StreamLostError)
    True
    """

    @classmethod
    def unreachable(cls, label: str, reconnect_timeout: float, error: object) -> Self:
        return cls(
            f"{label} has been unreachable for {reconnect_timeout:.0f} s ({error}): progress is saved; continue with "
            "--resume when it is available again"
        )


@dataclass(frozen=True)
class Address:
    """A URL such as ``nats://host:4222/STREAM?subject=a.b`` or ``kafka://host:9092/TOPIC?partition=0``."""

    scheme: str
    hosts: str
    name: str
    selector: str = ""  # the subject or the partition

    @classmethod
    def parse(cls, text: str) -> Address:
        parts = urlsplit(text)
        if parts.scheme not in PORTS:
            raise BrokerError(f"the address must begin with {' or '.join(f'{s}://' for s in PORTS)}, got {text!r}")
        if "@" in parts.netloc:
            raise BrokerError(
                f"the address must not contain a password: set {PREFIX}USER and {PREFIX}PASSWORD, or {PREFIX}FILE"
            )
        name = parts.path.strip("/")
        if not parts.netloc or not name or "/" in name:
            raise BrokerError(f"the address must have the form {parts.scheme}://host:port/NAME, got {text!r}")
        allowed = QUERY_PARAMETERS[parts.scheme]
        options = parse_qsl(parts.query, keep_blank_values=True)
        if unknown := [option for option, _ in options if option != allowed]:
            raise BrokerError(f"the only parameter of the address is {allowed!r}, got {unknown[0]!r}")
        if len(options) > 1:
            raise BrokerError(f"{text!r} names more than one {allowed}: read each with its own command")
        hosts = [one if ":" in one else f"{one}:{PORTS[parts.scheme]}" for one in parts.netloc.split(",")]
        return cls(parts.scheme, ",".join(hosts), name, "".join(value for _, value in options))

    @property
    def label(self) -> str:
        return f"{self.scheme}://{self.hosts}/{self.name}"


def credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Credentials by name, from the environment and the file that it names."""
    found: dict[str, str] = {}
    if path := environment.get(f"{PREFIX}FILE"):
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeError) as error:
            raise BrokerError(f"the credentials file {path} ({PREFIX}FILE) cannot be read: {error}") from error
        for number, line in enumerate(lines, 1):
            if not line.strip() or line.lstrip().startswith("#"):
                continue
            name, mark, value = (one.strip() for one in line.partition("="))
            if not mark or name not in CREDENTIALS:
                names = ", ".join(CREDENTIALS)
                raise BrokerError(f"line {number} of {path} ({PREFIX}FILE) must read NAME = VALUE, with one of {names}")
            found[name] = value
    for name in CREDENTIALS:
        if value := environment.get(f"{PREFIX}{name.upper()}", ""):
            found[name] = value
    return found


class Message(NamedTuple):
    place: int  # sequence number or offset
    data: bytes


#: The cells of a row in the order of the columns, or the fault of a row that cannot be read.
MessageRow = Sequence[Any] | str


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of "jsonl" or "csv" messages; a message that cannot be read is one faulty row."""

    form: str
    names: Sequence[str]
    delimiter: str = ","

    @classmethod
    def find(cls, message: Message, form: str | None, columns: Sequence[str] | None, label: str) -> Self | None:
        """The reader for a first message, None if the message does not show the columns."""
        start = message.data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
        form = form or ("jsonl" if start in (b"{", b"[") else "csv")
        if form == "jsonl":
            if columns is None:
                columns = next((list(row) for row in _objects(message.data) if isinstance(row, dict) and row), None)
            return None if columns is None else cls(form, list(columns))
        line = message.data[: 1 << 16].decode("utf-8", "replace").removeprefix("\ufeff").splitlines()[:1]
        delimiter = max(",;\t|", key=line[0].count) if line else ","
        if columns is not None:
            return cls(form, list(columns), delimiter)
        names = [name.strip() for name in next(csv.reader(line, delimiter=delimiter), [])]
        if not any(names):
            return None
        if all(is_number(name) for name in names):
            raise ValueError(
                f"the first message of {label} has no column names ({_excerpt(message.data)}): add a header line, or "
                "name the columns with --columns (columns= in Python)"
            )
        return cls(form, names, delimiter)

    def rows(self, data: bytes) -> list[MessageRow]:
        return self._json(data) if self.form == "jsonl" else self._csv(data)

    def _json(self, data: bytes) -> list[MessageRow]:
        """Objects, arrays of objects, or an object per line; an absent key is a missing value."""
        known = set(self.names)
        cells: list[MessageRow] = []
        for row in _objects(data):
            if isinstance(row, str):
                cells.append(row)
            elif known.isdisjoint(row):
                cells.append(f"{_excerpt(json.dumps(row))} has none of the columns")
            else:
                cells.append([row.get(name) for name in self.names])
        return cells

    def _csv(self, data: bytes) -> list[MessageRow]:
        """Lines of values, without a header."""
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        width = len(self.names)
        read = csv_rows(io.StringIO(text, newline=""), self.delimiter, sys.maxsize)
        cells: list[MessageRow] = read.rows
        for i in sorted(read.faults, reverse=True):
            cells[i : i + 1] = [read.faults[i]] * read.n_lines(i)
        if cells and isinstance(cells[0], list) and [name.strip() for name in cells[0]] == list(self.names):
            del cells[0]
        # Nearly all messages need no change.
        if any(isinstance(row, str) or len(row) != width for row in cells):
            known = [(row, isinstance(row, str) or len(row) == width) for row in cells if row]
            cells = [row if fits else f"{len(row)} fields instead of {width}" for row, fits in known]
        return cells


def _objects(data: bytes) -> list[dict[str, Any] | str]:
    """The objects of a message, and faults for anything else."""
    try:
        whole = parse_json(data.decode("utf-8"))
    except (ValueError, RecursionError, UnicodeError):
        lines = data.splitlines()
        if len(lines) < 2 or not data.lstrip().startswith(b"{"):
            return [f"{_excerpt(data)} is not JSON, or has a key twice"]
        return [one for line in lines if line.strip() for one in _objects(line)]
    every = whole if isinstance(whole, list) else [whole]
    return [one if isinstance(one, dict) else f"{_excerpt(json.dumps(one))} is not a JSON object" for one in every]


def _excerpt(text: str | bytes) -> str:
    whole = text.encode("utf-8", "replace") if isinstance(text, str) else text
    more = f"... ({len(whole)} bytes)" if len(whole) > 40 else ""
    return repr(whole[:40].decode("utf-8", "replace")) + more


#: Maximum number of ids that are stored with an id column.
MAX_IDS = 100_000

#: Empty reads before the end of a stream, after which the server is asked whether the missing messages still exist.
MAX_EMPTY_READS = 10


class Broker(ABC):
    """A stream of messages on a server, which can be read from any place."""

    label: str  # name in messages
    identity: str  # differs from that of another stream of the same name
    dense: bool  # whether places are consecutive, so that a gap means lost messages

    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """The first place that still exists, and the place after the last one."""

    @abstractmethod
    def read(self, place: int) -> list[Message]:
        """Messages from that place on, in order; none if none arrived for about a second.

        Reconnects with growing pauses. A place that no longer exists is an error or, where places are dense, gives the
        first message after it.
        """

    def first_kept(self, place: int) -> int | None:
        """The first place, from that one on, whose message still exists; None if there is none."""
        first, stop = self.bounds()
        return max(place, first) if place < stop else None

    @abstractmethod
    def close(self) -> None: ...


class MissingMessagesError(StreamLostError):
    """Messages after the last one that was learned no longer exist."""

    def __init__(self, label: str, first: int, stop: int) -> None:
        self.first, self.stop = first, stop
        several = f"messages {first} to {stop - 1} of {label} are"
        which = f"message {first} of {label} is" if stop == first + 1 else several
        super().__init__(
            f"{which} gone: deleted by the server before being learned; to continue anyway, use --accept-gap "
            "(accept_gap=True in Python)"
        )


class BrokerRecords(Records):
    """The rows of a broker's stream, opened by `open_broker`.

    `n_repeated` rows were dropped because their id was repeated; `n_lost` messages were deleted before they were read.
    """

    def __init__(
        self,
        broker: Broker,
        form: str | None,
        columns: Sequence[str] | None,
        id_column: str | None,
        id_memory: int,
        *,
        follow: bool,
        accept_gap: bool,
    ) -> None:
        super().__init__(broker.label, False, None)
        self.broker, self.follow, self.accept_gap = broker, follow, accept_gap
        self.waits = follow
        self._form, self._columns, self._id_column = form, columns, id_column
        self._id_memory = check_int(id_memory, "id_memory")
        self.n_repeated = self.n_lost = 0
        first, self._end = broker.bounds()
        #: The next message to fetch, and the number of rows read of the first fetched one.
        self._next, self._read_rows = first, 0
        self._fetched: deque[tuple[int, list[MessageRow]]] = deque()
        self._ids: dict[int, None] = {}
        self._reader: RowReader | None = None
        self._unread: list[Message] = []
        self._id_place: int | None = None
        #: Number of empty reads in sequence, although the end is not reached.
        self._empty_reads = 0

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Column names without the id column, from the saved position or the first messages."""
        return tuple(name for name in self._known_reader().names if name != self._id_column)

    def _known_reader(self) -> RowReader:
        """The row reader; fetches messages until one shows the columns."""
        if self._reader is None and not self._unread and not self.follow and self._next >= self._end:
            raise BrokerError(f"{self.label} contains no messages yet: publish some, or wait for them with --follow")
        while self._reader is None and self._fetch():
            pass
        if self._reader is None:
            raise ValueError(f"no message of {self.label} has column names: send JSON objects, or CSV with a header")
        names = self._reader.names
        if self._id_column is not None and self._id_column not in names:
            raise BrokerError(f"there is no column {self._id_column!r} in {self.label}: its columns are {list(names)}")
        self._id_place = None if self._id_column is None else names.index(self._id_column)
        return self._reader

    def _fetch(self) -> bool:
        """Fetch messages, none if a followed stream pauses. False at the end of the stream."""
        if not self.follow and self._next >= self._end:
            return False
        try:
            messages = self.broker.read(self._next)
        except MissingMessagesError as gap:
            self._skip_gap(gap.stop)
            return True
        if not messages and not self.follow:
            return self._expects_more()
        self._empty_reads = 0
        for message in messages:
            if message.place < self._next:
                continue
            if message.place > self._next and self.broker.dense:
                self._skip_gap(message.place)
            self._next = message.place + 1
            if self._reader is None:
                self._unread.append(message)
                self._reader = RowReader.find(message, self._form, self._columns, self.label)
                if self._reader is not None:
                    self._fetched.extend((place, self._reader.rows(data)) for place, data in self._unread)
                    self._unread = []
            else:
                self._fetched.append((message.place, self._reader.rows(message.data)))
        return True

    def _expects_more(self) -> bool:
        """Whether messages are expected after an empty read. Unless places are dense, an empty read is the end."""
        self._empty_reads += 1
        if self.broker.dense and self._empty_reads >= MAX_EMPTY_READS:
            # The server is slow, or messages were deleted after `bounds` was called.
            self._empty_reads = 0
            kept = self.broker.first_kept(self._next)
            kept = self._end if kept is None else min(kept, self._end)
            if kept > self._next:
                self._skip_gap(kept)
        return self.broker.dense and self._next < self._end

    def _skip_gap(self, place: int) -> None:
        if not self.accept_gap:
            raise MissingMessagesError(self.label, self._next, place)
        self.n_lost += place - self._next
        self._next = place
        if not self._fetched:
            # The partly read message is deleted.
            self._read_rows = 0

    def _read(self, size: int) -> Batch | None:
        while self._reader is None:
            if not self._fetch():
                return None
            if self._reader is None and self.follow:
                return Batch([], [], [])
        self._known_reader()
        # Blocks begin at multiples of their size, even after a short one.
        wanted = size - self.offset % size
        found: list[Sequence[Any]] = []
        numbers: list[int] = []
        bad: list[tuple[int, str]] = []
        while (count := len(numbers) + len(bad)) < wanted:
            if self._fetched:
                self._take(wanted - count, found, numbers, bad)
            elif not self._fetch():
                break
            elif not self._fetched and self.follow:
                # The stream pauses: pass on the rows so far.
                return self._batch(found, numbers, bad)
        return self._batch(found, numbers, bad) if numbers or bad else None

    def _batch(self, found: list[Sequence[Any]], numbers: list[int], bad: list[tuple[int, str]]) -> Batch:
        cells: list[Sequence[Any]] = list(zip(*found, strict=True)) if found else [()] * len(self.names)
        return Batch(cells, numbers, bad)

    def _take(self, most: int, found: list[Sequence[Any]], numbers: list[int], bad: list[tuple[int, str]]) -> None:
        """Append at most `most` rows of the first fetched message."""
        place, rows = self._fetched[0]
        start = self._read_rows
        some = rows[start : start + most]
        number = self.offset
        for i, row in enumerate(some, start):
            if isinstance(row, str):
                number += 1
                bad.append((number, f"message {place}, row {i + 1}: {row}"))
                continue
            if self._id_place is not None:
                if self._seen(row[self._id_place]):
                    continue
                row = [*row[: self._id_place], *row[self._id_place + 1 :]]
            number += 1
            found.append(row)
            numbers.append(number)
        self.offset = number
        self._read_rows += len(some)
        if self._read_rows >= len(rows):
            self._fetched.popleft()
            self._read_rows = 0

    def _seen(self, cell: Any) -> bool:
        """Whether an id is among the remembered ones; remembers it."""
        digest = hashlib.blake2b(repr(cell).encode("utf-8", "surrogatepass"), digest_size=8).digest()
        key = int.from_bytes(digest, "big")
        if key in self._ids:
            self.n_repeated += 1
            return True
        self._ids[key] = None
        if len(self._ids) > self._id_memory:
            del self._ids[next(iter(self._ids))]
        return False

    def digest(self) -> str:
        names = () if self._reader is None else self.names
        return hashlib.sha256(f"{self.broker.identity} {names}".encode()).hexdigest()

    def position(self) -> dict[str, Any]:
        first = [place for place, _ in (*self._unread[:1], *islice(self._fetched, 1))]
        return {
            "stream": self.broker.identity,
            "message": first[0] if first else self._next,
            "row": self._read_rows,
            "reader": None if self._reader is None else dict(vars(self._reader)),
            "id_column": self._id_column,
            "ids": np.fromiter(self._ids, np.uint64, len(self._ids)),
            "repeated": self.n_repeated,
            "lost": self.n_lost,
        }

    def resume_at(self, offset: int, size: int, digest: str, position: Any) -> None:
        if not position:
            raise ValueError(f"the model was learning from a file, not from {self.label}: use --continue-with")
        if position["stream"] != self.broker.identity:
            raise ValueError(
                f"{self.label} is not the stream that the model was learning from ({position['stream']}), or it was "
                "recreated; to continue with it as a new stream, use --continue-with (continue_with= in Python)"
            )
        if position["id_column"] != self._id_column:
            raise ValueError(f"id_column must be that of the model, {position['id_column']!r}, got {self._id_column!r}")
        first, end = self.broker.bounds()
        self._next, self._read_rows = int(position["message"]), int(position["row"])
        if self._next > end:
            raise ValueError(
                f"{self.label} ends before message {self._next}, where learning stopped: it was recreated or truncated"
            )
        self._fetched.clear()
        self._unread.clear()
        self._reader = None if position["reader"] is None else RowReader(**position["reader"])
        self._ids = dict.fromkeys(np.asarray(position["ids"]).tolist())
        self.n_repeated, self.n_lost = int(position["repeated"]), int(position["lost"])
        self.offset = offset
        if first > self._next:
            self._skip_gap(first)

    def close(self) -> None:
        self.broker.close()


#: Seconds for which a broker may be unreachable.
RECONNECT_TIMEOUT = 300.0


def open_broker(
    address: str,
    *,
    form: str | None = None,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    id_memory: int = MAX_IDS,
    follow: bool = False,
    accept_gap: bool = False,
    reconnect_timeout: float = RECONNECT_TIMEOUT,
) -> BrokerRecords:
    """Open a stream of NATS JetStream or a partition of a Kafka topic for reading.

    A message contains one or more rows: JSON objects, an array or lines of them, or CSV lines. Credentials come from
    the variables OVK_BROKER_USER, OVK_BROKER_PASSWORD, OVK_BROKER_TOKEN, OVK_BROKER_CREDS (a file of NATS),
    OVK_BROKER_CA, OVK_BROKER_CERT, OVK_BROKER_KEY (files for TLS) and OVK_BROKER_TLS=1, or from the file in
    OVK_BROKER_FILE, which has lines such as ``user = me``.

    Parameters
    ----------
    address : str
        ``nats://host:4222/STREAM``, with ``?subject=a.b`` to read one subject, or ``kafka://host:9092/TOPIC``, with
        ``?partition=0`` if the topic has several.
    form : {"csv", "jsonl"}, optional
        Format of the messages; default according to the first message.
    columns : sequence of str, optional
        Column names; default the keys of the first object, or the first line of CSV.
    id_column, id_memory : str, optional, and int
        A row whose value in `id_column` is among the last `id_memory` values is dropped.
    follow : bool
        Whether to wait for new rows at the end of the stream.
    accept_gap : bool
        Whether to continue after messages that the server deleted before they were read.
    reconnect_timeout : float
        Seconds for which the server may be unreachable.

    Returns
    -------
    BrokerRecords
        The rows, read like those of `open_records`.

    See Also
    --------
    open_records, BrokerError, StreamLostError

    Examples
    --------
    >>> from ovk.app.tables import BrokerError, open_broker
    >>> try:
    ...     open_broker("nats://127.0.0.1:1/STREAM")
    ... except (BrokerError, ImportError) as error:
    ...     print(error)
    no NATS server answers at 127.0.0.1:1: check the address and that the server is running
    """
    where = Address.parse(address)
    if form not in (None, "csv", "jsonl"):
        raise BrokerError(f"form must be 'csv' or 'jsonl', got {form!r}")
    if where.scheme == "nats":
        from ovk.app.tables.jetstream import JetStream

        broker: Broker = JetStream(where, credentials(), reconnect_timeout)
    else:
        from ovk.app.tables.kafka import KafkaPartition

        broker = KafkaPartition(where, credentials(), reconnect_timeout)
    try:
        return BrokerRecords(broker, form, columns, id_column, id_memory, follow=follow, accept_gap=accept_gap)
    except BaseException:
        broker.close()
        raise
