"""Partitions of Kafka topics, read from the offset in the session file."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ovk._extras import required
from ovk.app.tables.brokers import Address, Broker, BrokerError, Message, MissingMessagesError, StreamLostError

#: Seconds of a poll, which delays signals, and to wait for an answer.
POLL_TIMEOUT, ANSWER_TIMEOUT = 0.2, 10.0

#: Maximum messages of a poll.
MAX_MESSAGES = 500


class KafkaPartition(Broker):
    """A partition of a topic. Gaps between offsets are normal (compaction, transactions)."""

    dense = False

    def __init__(self, address: Address, known: Mapping[str, str], reconnect_timeout: float) -> None:
        with required("kafka://", "kafka"):
            import confluent_kafka
        self._kafka, self.label, self._topic = confluent_kafka, address.label, address.name
        self._reconnect_timeout, self._hosts = reconnect_timeout, address.hosts
        #: The last error of the library, and whether access was denied.
        self._last_error, self._denied = "", False
        options = {
            "bootstrap.servers": address.hosts,
            # The library requires a group; nothing is committed to it.
            "group.id": "ovk",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._on_error,
            "log_level": 0,
        }
        try:
            self._consumer = confluent_kafka.Consumer({**options, **security(known)})
        except confluent_kafka.KafkaException as error:
            raise BrokerError(f"the TLS certificates cannot be used: {error.args[0].str()}") from error
        try:
            self._partition = _choose_partition(address, self._partitions())
        except BaseException:
            self._consumer.close()
            raise
        self.identity = f"kafka {self._topic}[{self._partition}]"
        self.label = f"{address.label}?partition={self._partition}"
        self._at: int | None = None
        #: Whether the broker reported the end of the partition.
        self._at_end = False

    def _on_error(self, error: Any) -> None:
        # _ALL_BROKERS_DOWN follows from another error, which is the reason.
        codes = self._kafka.KafkaError
        if error.code() != codes._ALL_BROKERS_DOWN:
            self._last_error = error.str().partition(": ")[2].partition(" (after ")[0]
            self._denied = error.code() in (codes._AUTHENTICATION, codes._SSL) or "SSL routines" in self._last_error

    def _partitions(self) -> list[int]:
        """Numbers of the partitions. Growing timeouts report denied access early."""
        wait = ANSWER_TIMEOUT / 8
        while True:
            try:
                topic = self._consumer.list_topics(self._topic, timeout=wait).topics.get(self._topic)
                if topic is None or topic.error is not None or not topic.partitions:
                    raise BrokerError(f"there is no topic {self._topic!r} on {self._hosts}")
                return sorted(map(int, topic.partitions))
            except self._kafka.KafkaException as error:
                # Errors are delivered during polls.
                self._consumer.poll(0)
                if self._denied:
                    raise BrokerError(
                        f"the Kafka broker at {self._hosts} denied access ({self._last_error}): check "
                        "OVK_BROKER_USER, OVK_BROKER_PASSWORD, OVK_BROKER_TLS and the certificates"
                    ) from error
                if wait >= ANSWER_TIMEOUT:
                    raise BrokerError(
                        f"no Kafka broker answers at {self._hosts} ({self._last_error or 'no answer'}): check the "
                        "address, OVK_BROKER_TLS, and that the broker is running"
                    ) from error
                wait = min(4 * wait, ANSWER_TIMEOUT)

    def _place(self, offset: int) -> Any:
        return self._kafka.TopicPartition(self._topic, self._partition, offset)

    def bounds(self) -> tuple[int, int]:
        until = time.monotonic() + self._reconnect_timeout
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(self._place(0), timeout=ANSWER_TIMEOUT)
                return int(low), int(high)
            except self._kafka.KafkaException as error:
                self._check_reconnect_timeout(until, error)
                time.sleep(POLL_TIMEOUT)

    def _check_reconnect_timeout(self, until: float, error: Any) -> None:
        if time.monotonic() > until:
            raise StreamLostError.unreachable(self.label, self._reconnect_timeout, error)

    def read(self, place: int) -> list[Message]:
        if self._at != place:
            self._consumer.assign([self._place(place)])
            self._at, self._at_end = place, False
        until = time.monotonic() + self._reconnect_timeout
        while True:
            found: list[Message] = []
            for message in self._consumer.consume(MAX_MESSAGES, timeout=POLL_TIMEOUT):
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    found.append(Message(offset, message.value() or b""))
                    self._at_end = False
                elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                    self._at = None
                    raise self._gap(place)
                elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                    # Reported once, perhaps together with the last messages.
                    self._at_end = True
                elif error.fatal():
                    raise BrokerError(f"{self.label} cannot be read: {error}")
                else:
                    # The library repeats the attempt with growing pauses.
                    self._check_reconnect_timeout(until, error)
            if found:
                self._at = found[-1].place + 1
                return found
            if self._at_end:
                return []
            self._check_reconnect_timeout(until, self._last_error)

    def _gap(self, place: int) -> BrokerError:
        low, high = self.bounds()
        if place < low:
            return MissingMessagesError(self.label, place, low)
        return BrokerError(f"{self.label} ends with message {high - 1}, before {place}: it was recreated or truncated")

    def close(self) -> None:
        self._consumer.close()


def _choose_partition(address: Address, numbers: Sequence[int]) -> int:
    """The partition in the URL, or the only one of the topic."""
    listed = ", ".join(map(str, numbers))
    if not address.selector and len(numbers) > 1:
        first = f"{address.label}?partition={numbers[0]}"
        raise BrokerError(
            f"{address.label} has the partitions {listed}, which have no common order: learn each with a separate "
            f"command, and merge the models: ovk stream '{first}' --model pkawv --save first.ovk, for every other "
            "partition K ovk stream '...?partition=K' --template first.ovk --save K.ovk, then ovk merge"
        )
    if address.selector and address.selector not in map(str, numbers):
        raise BrokerError(f"{address.label} has no partition {address.selector!r}: it has {listed}")
    return int(address.selector or numbers[0])


def security(known: Mapping[str, str]) -> dict[str, str]:
    """Credentials as options of the library."""
    files = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
    found = {option: known[name] for name, option in files.items() if name in known}
    tls = bool(found) or bool(known.get("tls"))
    if "user" in known:
        found |= {"sasl.mechanism": "PLAIN", "sasl.username": known["user"], "sasl.password": known.get("password", "")}
        return {**found, "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT"}
    return {**found, "security.protocol": "SSL"} if tls else found
