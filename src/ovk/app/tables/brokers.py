"""Streams of brokers as records: their position is part of what a session saves, and of nothing else.

No acknowledgements and no consumer groups: the session file says which message comes next, and how many of its rows
were read already. It is written together with the model, so that the two cannot disagree, whatever dies when.

A new broker is a subclass of `Broker` in a file of its own, with a scheme in `PORTS`, the option of its address in
`OPTIONS` and a case in `_broker`. Credentials come from environment variables or a file, never from a command line.
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

from ovk.app.tables.records import PORTS, Batch, Records, csv_rows, is_number
from ovk.base import check_int

#: The option that an address may hold, by scheme.
OPTIONS = {"nats": "subject", "kafka": "partition"}

#: What a broker may be told, as names in a file; in the environment ``OVK_BROKER_USER`` and so on.
SECRETS = ("user", "password", "token", "creds", "ca", "cert", "key", "tls")

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

    @classmethod
    def away(cls, label: str, patience: float, error: object) -> Self:
        """What to raise when a server has not come back."""
        return cls(
            f"{label} has been away for {patience:.0f} s ({error}): what was learned is saved, go on with --resume "
            "when it is back"
        )


@dataclass(frozen=True)
class Address:
    """Where a stream is: ``nats://host:4222/STREAM?subject=a.b`` or ``kafka://host:9092/TOPIC?partition=0``.

    `part` is the subject or the partition.
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
        allowed = OPTIONS[parts.scheme]
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


def credentials(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the environment and the file it names say: user, password, token, creds, ca, cert, key, tls."""
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
            if not mark or name not in SECRETS:
                raise BrokerError(
                    f"line {number} of {path} ({PREFIX}FILE) must read NAME = VALUE, with one of {', '.join(SECRETS)}"
                )
            found[name] = value
    for name in SECRETS:
        if value := environment.get(f"{PREFIX}{name.upper()}", ""):
            found[name] = value
    return found


# Rows in messages: JSON objects, arrays or lines of them, or CSV lines, many rows a message.


class Message(NamedTuple):
    """A message: its place in the stream (sequence number, offset) and its bytes."""

    place: int
    data: bytes


class MessageRows(NamedTuple):
    """The rows of a message: cells in the order of the columns, or the fault of a row that cannot be read."""

    place: int
    cells: list[Sequence[Any] | str]


@dataclass(frozen=True)
class RowReader:
    """Reads the rows of messages that hold "jsonl" or "csv"; a message that cannot be read is one faulty row."""

    form: str
    names: Sequence[str]
    delimiter: str = ","

    @classmethod
    def find(cls, message: Message, form: str | None, columns: Sequence[str] | None, label: str) -> Self | None:
        """The reader that a first message asks for; None if it does not tell the columns."""
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
                f"the first message of {label} holds no names of columns ({_beginning(message.data)}): put a line of "
                "names in front of it, or name them with --columns (columns= in Python)"
            )
        return cls(form, names, delimiter)

    def rows(self, message: Message) -> MessageRows:
        """The rows of a message."""
        return MessageRows(message.place, (self._json if self.form == "jsonl" else self._csv)(message.data))

    def _json(self, data: bytes) -> list[Sequence[Any] | str]:
        """Objects, arrays of objects, or an object a line; a key that a row lacks is missing."""
        known = set(self.names)
        cells: list[Sequence[Any] | str] = []
        for row in _objects(data):
            if isinstance(row, str):
                cells.append(row)
            elif known.isdisjoint(row):
                cells.append(f"{_beginning(json.dumps(row))} has none of the columns")
            else:
                cells.append([row.get(name) for name in self.names])
        return cells

    def _csv(self, data: bytes) -> list[Sequence[Any] | str]:
        """Lines of values; a line that repeats the names of the columns is no row."""
        text = data.decode("utf-8", "replace").removeprefix("\ufeff")
        width = len(self.names)
        cells, faults = csv_rows(csv.reader(io.StringIO(text, newline=""), delimiter=self.delimiter), sys.maxsize)
        for i, fault in faults:
            cells[i] = fault
        if cells and isinstance(cells[0], list) and [name.strip() for name in cells[0]] == list(self.names):
            del cells[0]
        # Rows of the right width, which are nearly all, are passed on as they are.
        if any(isinstance(row, str) or len(row) != width for row in cells):
            wrong = "{} fields where the columns are {}".format
            cells = [
                row if isinstance(row, str) or len(row) == width else wrong(len(row), width) for row in cells if row
            ]
        return cells


def _objects(data: bytes) -> list[dict[str, Any] | str]:
    """The objects of a message, and the faults of what is none."""
    try:
        whole = json.loads(data)
    except (ValueError, RecursionError, UnicodeError):
        lines = data.splitlines()
        if len(lines) < 2 or not data.lstrip().startswith(b"{"):
            return [f"{_beginning(data)} is not JSON"]
        return [one for line in lines if line.strip() for one in _objects(line)]
    every = whole if isinstance(whole, list) else [whole]
    return [one if isinstance(one, dict) else f"{_beginning(json.dumps(one))} is not a JSON object" for one in every]


def _beginning(text: str | bytes) -> str:
    whole = text.encode("utf-8", "replace") if isinstance(text, str) else text
    more = f"... ({len(whole)} bytes)" if len(whole) > 40 else ""
    return repr(whole[:40].decode("utf-8", "replace")) + more


# The stream as records.

#: Ids of rows that are remembered with an id column.
MAX_IDS = 100_000

#: How often nothing may come before the end of a stream, until we ask whether what is missing is still there.
MAX_PAUSES = 10


class Broker(ABC):
    """A stream of messages on a server, read from any place on.

    `label` is what to call it in a message; `identity` tells it from another stream of the same name. Where places are
    `dense` they follow each other without holes, so that a hole means that messages were lost.
    """

    label: str
    identity: str
    dense: bool

    @abstractmethod
    def bounds(self) -> tuple[int, int]:
        """The first place that is still there, and the place behind the last one."""

    @abstractmethod
    def read(self, place: int) -> list[Message]:
        """Messages from that place on, in their order; none if nothing came for about a second.

        A server that goes away is tried again with growing pauses; a place that is no longer there is an error or,
        where places are dense, the first message behind it.
        """

    def first_kept(self, place: int) -> int | None:
        """The first place from there on whose message the server still has; None if it has none."""
        first, stop = self.bounds()
        return max(place, first) if place < stop else None

    @abstractmethod
    def close(self) -> None:
        """Leave the server."""


class Gap(StreamLost):
    """Messages between the last one that was learned and the first one that is still there are lost."""

    def __init__(self, label: str, first: int, stop: int) -> None:
        self.first, self.stop = first, stop
        several = f"messages {first} to {stop - 1} of {label} are"
        which = f"message {first} of {label} is" if stop == first + 1 else several
        super().__init__(
            f"{which} gone and could not be learned, for the server keeps only so much; to go on without, use "
            "--accept-gap (accept_gap=True in Python)"
        )


class BrokerRecords(Records):
    """The rows of a broker's stream, from where a session left it, to the last one there is or on and on.

    Made by `open_broker`, with the parameters described there. `n_repeated` rows were dropped because their id was seen
    before, and `n_lost` messages were gone before they could be read.
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
        #: The next message to be fetched, and how many rows of the first one that is held were read.
        self._next, self._read_rows = first, 0
        self._held: deque[MessageRows] = deque()
        self._ids: dict[int, None] = {}
        self._reader: RowReader | None = None
        self._unread: list[Message] = []
        self._id_place: int | None = None
        #: How often nothing came although the end is not reached.
        self._pauses = 0

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Names of the columns, without that of the ids: those of a position, or what the first messages tell."""
        return tuple(name for name in self._known_reader().names if name != self._id_column)

    def _known_reader(self) -> RowReader:
        """What reads rows; messages are fetched until one tells it."""
        if self._reader is None and not self._unread and not self.follow and self._next >= self._end:
            raise BrokerError(f"{self.label} holds no messages yet: publish some, or wait for them with --follow")
        while self._reader is None and self._fetch():
            pass
        if self._reader is None:
            raise ValueError(f"no message of {self.label} tells the names of the columns: is it JSON objects, or CSV?")
        names = self._reader.names
        if self._id_column is not None and self._id_column not in names:
            raise BrokerError(f"there is no column {self._id_column!r} in {self.label}: its columns are {list(names)}")
        self._id_place = None if self._id_column is None else names.index(self._id_column)
        return self._reader

    # Reading ----------------------------------------------------------------------------------------------------------

    def _fetch(self) -> bool:
        """Fetch further messages; False at the end of the stream. Where a stream is followed, none may come."""
        if not self.follow and self._next >= self._end:
            return False
        try:
            messages = self.broker.read(self._next)
        except Gap as gap:
            self._skip_gap(gap.stop)
            return True
        if not messages and not self.follow:
            return self._expects_more()
        self._pauses = 0
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
                    self._held.extend(map(self._reader.rows, self._unread))
                    self._unread = []
            else:
                self._held.append(self._reader.rows(message))
        return True

    def _expects_more(self) -> bool:
        """Whether more is to come although nothing came: where places have holes, a pause is the end."""
        self._pauses += 1
        if self.broker.dense and self._pauses >= MAX_PAUSES:
            # The server is slow, or messages before the end were removed after we had asked for it.
            self._pauses = 0
            kept = self.broker.first_kept(self._next)
            kept = self._end if kept is None else min(kept, self._end)
            if kept > self._next:
                self._skip_gap(kept)
        return self.broker.dense and self._next < self._end

    def _skip_gap(self, place: int) -> None:
        if not self.accept_gap:
            raise Gap(self.label, self._next, place)
        self.n_lost += place - self._next
        self._next = place
        if not self._held:
            # The message that was read in part is gone.
            self._read_rows = 0

    def _read(self, size: int) -> Batch | None:
        while self._reader is None:
            if not self._fetch():
                return None
            if self._reader is None and self.follow:
                return Batch([], [], [])
        self._known_reader()
        # Blocks begin at multiples of their size, wherever one that had to be short ended.
        wanted = size - self.offset % size
        found: list[Sequence[Any]] = []
        numbers: list[int] = []
        bad: list[tuple[int, str]] = []
        while (count := len(numbers) + len(bad)) < wanted:
            if self._held:
                self._take(wanted - count, found, numbers, bad)
            elif not self._fetch():
                break
            elif not self._held and self.follow:
                # Nothing new for a while: what is here is learned, and whoever reads us hears of the pause.
                return self._batch(found, numbers, bad)
        return self._batch(found, numbers, bad) if numbers or bad else None

    def _batch(self, found: list[Sequence[Any]], numbers: list[int], bad: list[tuple[int, str]]) -> Batch:
        cells: list[Sequence[Any]] = list(zip(*found, strict=True)) if found else [()] * len(self.names)
        return Batch(cells, numbers, bad)

    def _take(self, most: int, found: list[Sequence[Any]], numbers: list[int], bad: list[tuple[int, str]]) -> None:
        """At most so many rows of the first message that is held."""
        rows = self._held[0]
        start = self._read_rows
        some = rows.cells[start : start + most]
        number = self.offset
        for i, row in enumerate(some, start):
            if isinstance(row, str):
                number += 1
                bad.append((number, f"message {rows.place}, row {i + 1}: {row}"))
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
        if self._read_rows >= len(rows.cells):
            self._held.popleft()
            self._read_rows = 0

    def _seen(self, cell: Any) -> bool:
        """Whether a row of that id is among the last ones; from now on it is."""
        key = int.from_bytes(
            hashlib.blake2b(repr(cell).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big"
        )
        if key in self._ids:
            self.n_repeated += 1
            return True
        self._ids[key] = None
        if len(self._ids) > self._id_memory:
            del self._ids[next(iter(self._ids))]
        return False

    def place(self, row: int) -> str:
        return f"row {row}"

    def digest(self) -> str:
        names = () if self._reader is None else self.names
        return hashlib.sha256(f"{self.broker.identity} {names}".encode()).hexdigest()

    # Position ---------------------------------------------------------------------------------------------------------

    def position(self) -> dict[str, Any]:
        """The next message, the rows of it that were read, and what is needed to read on from there."""
        first = [message.place for message in self._unread[:1]] + [message.place for message in islice(self._held, 1)]
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
        """Go on from a position; `offset` rows were read by then."""
        if not position:
            raise ValueError(f"the model was learning from a file, not from {self.label}: use --continue-with")
        if position["stream"] != self.broker.identity:
            raise ValueError(
                f"{self.label} is not the stream that the model was learning from ({position['stream']}), or it was "
                "made anew since; to learn it as a further one, use --continue-with (in Python, continue_with=)"
            )
        if position["id_column"] != self._id_column:
            raise ValueError(
                f"the model tells rows apart by the id column {position['id_column']!r}: give the same one"
            )
        first, end = self.broker.bounds()
        self._next, self._read_rows = int(position["message"]), int(position["row"])
        if self._next > end:
            raise ValueError(
                f"{self.label} ends before message {self._next}, up to which it was learned: it was made anew or cut"
            )
        self._held.clear()
        self._unread.clear()
        self._reader = None if position["reader"] is None else RowReader(**position["reader"])
        self._ids = dict.fromkeys(np.asarray(position["ids"]).tolist())
        self.n_repeated, self.n_lost = int(position["repeated"]), int(position["lost"])
        self.offset = offset
        if first > self._next:
            self._skip_gap(first)

    def close(self) -> None:
        self.broker.close()


#: Seconds that a broker may be away before we give up.
PATIENCE = 300.0


def open_broker(
    address: str,
    *,
    form: str | None = None,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    id_memory: int = MAX_IDS,
    follow: bool = False,
    accept_gap: bool = False,
    patience: float = PATIENCE,
) -> BrokerRecords:
    """Open a stream of NATS JetStream or a partition of a Kafka topic for reading.

    Rows are JSON objects, arrays or lines of them, or CSV lines, many rows a message. Who we are is told by the
    variables OVK_BROKER_USER, OVK_BROKER_PASSWORD, OVK_BROKER_TOKEN, OVK_BROKER_CREDS (a file of NATS), OVK_BROKER_CA,
    OVK_BROKER_CERT, OVK_BROKER_KEY (files for TLS) and OVK_BROKER_TLS=1, or by a file of lines ``user = me`` that
    OVK_BROKER_FILE names.

    Parameters
    ----------
    address : ``nats://host:4222/STREAM``, with ``?subject=a.b`` to read one subject of it, or
        ``kafka://host:9092/TOPIC``, with ``?partition=0`` where it has several
    form : "csv" or "jsonl"; default by the first message
    columns : names of the columns; default the keys of the first object, or the first line of CSV
    id_column : column that tells rows apart: a row whose id was seen among the last `id_memory` ids is dropped
    follow : wait for new rows instead of ending with the last one that is there
    accept_gap : go on where messages are lost, because the server no longer kept them
    patience : seconds that the server may be away

    Examples
    --------
    >>> from ovk.app.tables import BrokerError, open_broker
    >>> try:
    ...     open_broker("nats://127.0.0.1:1/STREAM")
    ... except (BrokerError, ImportError) as error:
    ...     print(error)
    there is no NATS server at 127.0.0.1:1: check the address, and that the server runs
    """
    where = Address.parse(address)
    if form not in (None, "csv", "jsonl"):
        raise BrokerError(f"messages hold csv or jsonl, got {form!r}")
    broker = _broker(where, patience)
    try:
        return BrokerRecords(broker, form, columns, id_column, id_memory, follow=follow, accept_gap=accept_gap)
    except BaseException:
        broker.close()
        raise


def _broker(where: Address, patience: float) -> Broker:
    if where.scheme == "nats":
        from ovk.app.tables.jetstream import JetStream

        return JetStream(where, credentials(), patience)
    if where.scheme == "kafka":
        from ovk.app.tables.kafka import KafkaPartition

        return KafkaPartition(where, credentials(), patience)
    raise BrokerError(f"no broker reads {where.scheme}://")
