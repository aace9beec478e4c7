"""Predictions passed on at once: printed, or published to a broker, under ids by which it drops what comes twice."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from ovk.streams.credentials import Address, credentials
from ovk.streams.jetstream import JetStreamPublisher
from ovk.streams.partitions import PATIENCE

#: Rows of a message; messages begin behind multiples of it.
ROWS = 256


class PrintedPredictions:
    """Predictions as lines of CSV on standard output, each as soon as it is made.

    Parameters
    ----------
    columns : how predictions are written
    """

    #: What a session keeps of a folder of predictions; there is none.
    done = lines = 0

    def __init__(self, columns: Any) -> None:
        self._columns = columns
        sys.stdout.write(self._columns.header)

    def add(self, predictions: Any) -> None:
        """Print predictions."""
        sys.stdout.writelines(self._columns.lines(predictions))
        sys.stdout.flush()

    def commit(self, *, finished: bool = True) -> None:
        """Everything is printed by now."""

    def close(self) -> None:
        """Standard output stays open."""


class PublishedPredictions:
    """Predictions as messages of NATS JetStream: JSON arrays of objects, one a row, as in the lines of CSV.

    The id of a message is made of the stream, the session and the rows it holds. A run that is killed publishes the
    rows behind its last checkpoint again, with the same bits and the same ids, and the server drops them, if they come
    within its duplicate window.

    Parameters
    ----------
    address : ``nats://host:4222/SUBJECT``
    columns : how predictions become objects: `PredictionColumns`, or those of classes
    session : identifier of the session
    stream : what the rows come from
    part : name of the partition, one of several, which is then told with each row
    """

    #: What a session keeps of a folder of predictions; there is none.
    done = lines = 0

    def __init__(self, address: str, columns: Any, session: str, stream: str, part: str = "") -> None:
        self._part = {"partition": part} if part else {}
        self._publisher = JetStreamPublisher(Address.parse(address), credentials(), PATIENCE)
        self._columns, self._name = columns, f"{stream}:{session[:16]}"

    def add(self, predictions: Any) -> None:
        """Publish predictions; returns when the server has them."""
        self._publisher.publish(list(self._messages(predictions)))

    def _messages(self, predictions: Any) -> Iterator[tuple[str, bytes]]:
        group: list[dict[str, Any]] = []
        for row, cells in zip(predictions.rows, self._columns.flat(predictions), strict=True):
            if group and row // ROWS > group[0]["row"] // ROWS:
                yield self._message(group)
                group = []
            group.append({**self._part, **cells})
        if group:
            yield self._message(group)

    def _message(self, rows: list[dict[str, Any]]) -> tuple[str, bytes]:
        name = f"{self._name}:{rows[0]['row']}-{rows[-1]['row']}"
        return name, json.dumps(rows, allow_nan=False).encode()

    def commit(self, *, finished: bool = True) -> None:
        """Everything is published by now."""

    def close(self) -> None:
        """Leave the server."""
        self._publisher.close()
