"""Streams of brokers opened: one, or the partitions of a topic side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Self, TypedDict, Unpack
from urllib.parse import quote

from ovk.streams.brokers import Broker, BrokerRecords
from ovk.streams.credentials import Address, BrokerError, credentials

#: Seconds that a broker may be away before we give up.
PATIENCE = 300.0


class Partitions:
    """The partitions of a topic, or several subjects of a stream, which have no common order: each is read by itself.

    Attributes
    ----------
    label : what to call all of them in a message
    names : of the partitions, which may be part of a file's name

    Examples
    --------
    >>> from ovk.streams import Partitions
    >>> len(Partitions("kafka://127.0.0.1:9092/readings", []))
    0
    """

    def __init__(self, label: str, parts: Sequence[BrokerRecords]) -> None:
        self.label, self._parts = label, list(parts)
        self.names = [quote(records.broker.part, safe="") for records in parts]

    def __iter__(self) -> Iterator[BrokerRecords]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def part_read(self) -> float | None:
        """The part of the rows that were read so far, which is not known."""
        return None

    def close(self) -> None:
        """Leave the server."""
        for records in self._parts:
            records.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class BrokerOptions(TypedDict, total=False):
    """How a stream is read; see `open_broker`."""

    form: str | None
    columns: Sequence[str] | None
    id_column: str | None
    id_memory: int
    follow: bool
    accept_gap: bool


def open_broker(address: str, *, patience: float = PATIENCE, **options: Unpack[BrokerOptions]) -> BrokerRecords:
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
    >>> from ovk.streams import BrokerError, open_broker
    >>> try:
    ...     open_broker("nats://127.0.0.1:1/STREAM")
    ... except (BrokerError, ImportError) as error:
    ...     print(error)
    there is no NATS server at 127.0.0.1:1: check the address, and that the server runs
    """
    partitions = open_partitions(address, patience=patience, **options)
    if len(partitions) == 1:
        return next(iter(partitions))
    partitions.close()
    label, first = partitions.label, next(iter(partitions)).label
    raise BrokerError(
        f"{label} has {len(partitions)} partitions, which have no common order: read one, {first}, or all of them with "
        "open_partitions"
    )


def open_partitions(address: str, *, patience: float = PATIENCE, **options: Unpack[BrokerOptions]) -> Partitions:
    """Open all partitions of a Kafka topic, or those that the address names, or several subjects of a NATS stream.

    Parameters
    ----------
    address : as in `open_broker`, with any number of ``?partition=0&partition=2`` or ``?subject=a&subject=b``
    patience : seconds that the server may be away
    options : as in `open_broker`; ids are remembered for each partition by itself

    Examples
    --------
    >>> from ovk.streams import BrokerError, open_partitions
    >>> try:
    ...     open_partitions("nats://127.0.0.1:1/STREAM?subject=a&subject=b")
    ... except (BrokerError, ImportError) as error:
    ...     print(error)
    there is no NATS server at 127.0.0.1:1: check the address, and that the server runs
    """
    where = Address.parse(address)
    # In the order of their numbers, however they were named: sums are added up in that order.
    where = replace(where, parts=tuple(sorted(where.parts, key=lambda part: (len(part), part))))
    if options.get("form") not in (None, "csv", "jsonl"):
        raise BrokerError(f"messages hold csv or jsonl, got {options['form']!r}")
    opened: list[BrokerRecords] = []
    try:
        first = _broker(where, where.parts[0] if where.parts else "", patience)
        opened.append(_records(first, options))
        for part in (where.parts or first.parts)[1:]:
            opened.append(_records(_broker(where, part, patience), options))
    except BaseException:
        Partitions("", opened).close()
        raise
    return Partitions(where.label, opened)


def _broker(where: Address, part: str, patience: float) -> Broker:
    if where.scheme == "nats":
        from ovk.streams.jetstream import JetStream

        return JetStream(where, credentials(), patience, part)
    from ovk.streams.kafka import KafkaPartition

    return KafkaPartition(where, credentials(), patience, part)


def _records(broker: Broker, options: BrokerOptions) -> BrokerRecords:
    try:
        return BrokerRecords(broker, **options)
    except BaseException:
        broker.close()
        raise
