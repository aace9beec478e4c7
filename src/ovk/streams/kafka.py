"""Partitions of Kafka topics, assigned to us at the offset that the session file says."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from ovk.streams.brokers import Broker, Gap
from ovk.streams.credentials import Address, BrokerError, StreamLost
from ovk.streams.messages import Message

#: Seconds of a poll, for whose end a signal waits, and of an answer.
POLL, ANSWER = 0.2, 10.0

#: Most messages of a poll.
MOST = 500


class KafkaPartition(Broker):
    """A partition of a topic. Offsets may have holes (compaction, transactions): these are no gaps."""

    dense = False

    def __init__(self, address: Address, known: Mapping[str, str], patience: float) -> None:
        try:
            import confluent_kafka
        except ImportError as error:
            raise ImportError("kafka:// needs confluent-kafka: install it with  pip install 'ovk[kafka]'") from error
        self._kafka, self.label, self._topic = confluent_kafka, address.label, address.name
        self._patience, self._hosts = patience, address.hosts
        self._said = ""
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": address.hosts,
                # The library wants a name; nothing is ever committed under it.
                "group.id": "ovk",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "error_cb": self._heard,
                "log_level": 0,
                **_security(known),
            }
        )
        try:
            self._partition = self._find_partition(address.options.get("partition"))
        except BaseException:
            self._consumer.close()
            raise
        self.identity = f"kafka {self._topic}[{self._partition}]"
        self.label = f"{address.label}?partition={self._partition}"
        self._at: int | None = None
        #: Whether the broker said that there is nothing more.
        self._at_end = False

    def _heard(self, error: Any) -> None:
        self._said = str(error)

    def _find_partition(self, wanted: str | None) -> int:
        try:
            topics = self._consumer.list_topics(self._topic, timeout=ANSWER).topics
        except self._kafka.KafkaException as error:
            if any(word in f"{self._said} {error}".lower() for word in ("sasl", "authentic", "ssl")):
                raise BrokerError(
                    f"the Kafka broker at {self._hosts} refuses us: check OVK_BROKER_USER, OVK_BROKER_PASSWORD and the "
                    "certificates for TLS"
                ) from error
            raise BrokerError(
                f"there is no Kafka broker at {self._hosts}: check the address, and that the broker runs"
            ) from error
        topic = topics.get(self._topic)
        if topic is None or topic.error is not None or not topic.partitions:
            raise BrokerError(f"there is no topic {self._topic!r} on {self._hosts}")
        numbers = sorted(topic.partitions)
        if wanted is None:
            if len(numbers) > 1:
                raise BrokerError(
                    f"{self.label} has {len(numbers)} partitions, which have no common order: read each with a session "
                    f"of its own, {self.label}?partition={numbers[0]} and so on"
                )
            return int(numbers[0])
        if not wanted.isdigit() or int(wanted) not in numbers:
            raise BrokerError(f"{self.label} has no partition {wanted!r}: it has {', '.join(map(str, numbers))}")
        return int(wanted)

    def _place(self, offset: int) -> Any:
        return self._kafka.TopicPartition(self._topic, self._partition, offset)

    def bounds(self) -> tuple[int, int]:
        until = time.monotonic() + self._patience
        while True:
            try:
                low, high = self._consumer.get_watermark_offsets(self._place(0), timeout=ANSWER)
                return int(low), int(high)
            except self._kafka.KafkaException as error:
                self._give_up(until, error)
                time.sleep(POLL)

    def _give_up(self, until: float, error: Any) -> None:
        if time.monotonic() > until:
            raise StreamLost(
                f"{self.label} has been away for {self._patience:.0f} s ({error}): what was learned is saved, go on "
                "with --resume when it is back"
            )

    def read(self, place: int) -> list[Message]:
        if self._at != place:
            self._consumer.assign([self._place(place)])
            self._at, self._at_end = place, False
        until = time.monotonic() + self._patience
        while True:
            found: list[Message] = []
            for message in self._consumer.consume(MOST, timeout=POLL):
                error = message.error()
                if error is None:
                    offset = message.offset()
                    assert offset is not None
                    found.append(Message(offset, message.value() or b""))
                elif error.code() == self._kafka.KafkaError._AUTO_OFFSET_RESET:
                    self._at = None
                    raise self._gap(place)
                elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                    self._at_end = True
                elif error.fatal():
                    raise BrokerError(f"{self.label} cannot be read on: {error}")
                else:
                    # The library tries again by itself, with growing pauses.
                    self._give_up(until, error)
            if found:
                self._at = found[-1].place + 1
                self._at_end = False
                return found
            if self._at_end:
                return []
            self._give_up(until, self._said)

    def _gap(self, place: int) -> BrokerError:
        low, high = self.bounds()
        if place < low:
            return Gap(self.label, place, low)
        return BrokerError(f"{self.label} ends with {high - 1}, before {place}: it was made anew or cut")

    def close(self) -> None:
        self._consumer.close()


def _security(known: Mapping[str, str]) -> dict[str, str]:
    """The library's names for credentials."""
    files = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
    found = {option: known[name] for name, option in files.items() if name in known}
    tls = bool(found) or bool(known.get("tls"))
    if "user" in known:
        found |= {"sasl.mechanism": "PLAIN", "sasl.username": known["user"], "sasl.password": known.get("password", "")}
        return {**found, "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT"}
    return {**found, "security.protocol": "SSL"} if tls else found
