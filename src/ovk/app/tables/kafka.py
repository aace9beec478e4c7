"""Partitions of Kafka topics, assigned to us at the offset that the session file says."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ovk._extras import required
from ovk.app.tables.brokers import Address, Broker, BrokerError, Gap, Message, StreamLost

#: Seconds of a poll, for whose end a signal waits, and of an answer.
POLL, ANSWER = 0.2, 10.0

#: Most messages of a poll.
MAX_MESSAGES = 500


class KafkaPartition(Broker):
    """A partition of a topic. Offsets may have holes (compaction, transactions): these are no gaps."""

    dense = False

    def __init__(self, address: Address, known: Mapping[str, str], patience: float) -> None:
        with required("kafka://", "kafka"):
            import confluent_kafka
        self._kafka, self.label, self._topic = confluent_kafka, address.label, address.name
        self._patience, self._hosts = patience, address.hosts
        #: What the library last said, and whether it was that the broker does not let us in.
        self._said, self._refused = "", False
        options = {
            "bootstrap.servers": address.hosts,
            # The library wants a name; nothing is ever committed under it.
            "group.id": "ovk",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "error_cb": self._heard,
            "log_level": 0,
        }
        try:
            self._consumer = confluent_kafka.Consumer({**options, **security(known)})
        except confluent_kafka.KafkaException as error:
            raise BrokerError(f"the certificates for TLS cannot be used: {error.args[0].str()}") from error
        try:
            self._partition = _chosen(address, self._partitions())
        except BaseException:
            self._consumer.close()
            raise
        self.identity = f"kafka {self._topic}[{self._partition}]"
        self.label = f"{address.label}?partition={self._partition}"
        self._at: int | None = None
        #: Whether the broker said that there is nothing more.
        self._at_end = False

    def _heard(self, error: Any) -> None:
        # That all brokers are down is what follows from the reason.
        codes = self._kafka.KafkaError
        if error.code() != codes._ALL_BROKERS_DOWN:
            self._said = error.str().partition(": ")[2].partition(" (after ")[0]
            self._refused = error.code() in (codes._AUTHENTICATION, codes._SSL) or "SSL routines" in self._said

    def _partitions(self) -> list[int]:
        """Numbers of the topic's partitions."""
        topic = self._topics().get(self._topic)
        if topic is None or topic.error is not None or not topic.partitions:
            raise BrokerError(f"there is no topic {self._topic!r} on {self._hosts}")
        return sorted(map(int, topic.partitions))

    def _topics(self) -> Mapping[str, Any]:
        """What the broker tells of the topic; asked again with longer timeouts, to hear soon why it refuses us."""
        wait = ANSWER / 8
        while True:
            try:
                topics: Mapping[str, Any] = self._consumer.list_topics(self._topic, timeout=wait).topics
                return topics
            except self._kafka.KafkaException as error:
                # Reasons are told to those who poll.
                self._consumer.poll(0)
                if self._refused:
                    raise BrokerError(
                        f"the Kafka broker at {self._hosts} refuses us ({self._said}): check OVK_BROKER_USER, "
                        "OVK_BROKER_PASSWORD, OVK_BROKER_TLS and the certificates"
                    ) from error
                if wait >= ANSWER:
                    raise BrokerError(
                        f"there is no Kafka broker at {self._hosts} ({self._said or 'no answer'}): check the address, "
                        "OVK_BROKER_TLS, and that the broker runs"
                    ) from error
                wait = min(4 * wait, ANSWER)

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
            raise StreamLost.away(self.label, self._patience, error)

    def read(self, place: int) -> list[Message]:
        if self._at != place:
            self._consumer.assign([self._place(place)])
            self._at, self._at_end = place, False
        until = time.monotonic() + self._patience
        while True:
            found: list[Message] = []
            for message in self._consumer.consume(MAX_MESSAGES, timeout=POLL):
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
                    # Said once, perhaps together with the last messages.
                    self._at_end = True
                elif error.fatal():
                    raise BrokerError(f"{self.label} cannot be read on: {error}")
                else:
                    # The library tries again by itself, with growing pauses.
                    self._give_up(until, error)
            if found:
                self._at = found[-1].place + 1
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


def _chosen(address: Address, numbers: Sequence[int]) -> int:
    """The partition that an address names, or the only one there is."""
    listed = ", ".join(map(str, numbers))
    if not address.part and len(numbers) > 1:
        first = f"{address.label}?partition={numbers[0]}"
        raise BrokerError(
            f"{address.label} has the partitions {listed}, which have no common order: learn each with its own "
            f"command, and merge the models: ovk stream '{first}' --model pkawv --save first.ovk, for every other "
            "partition K ovk stream '...?partition=K' --template first.ovk --save K.ovk, then ovk merge"
        )
    if address.part and address.part not in map(str, numbers):
        raise BrokerError(f"{address.label} has no partition {address.part!r}: it has {listed}")
    return int(address.part or numbers[0])


def security(known: Mapping[str, str]) -> dict[str, str]:
    """The library's names for credentials."""
    files = {"ca": "ssl.ca.location", "cert": "ssl.certificate.location", "key": "ssl.key.location"}
    found = {option: known[name] for name, option in files.items() if name in known}
    tls = bool(found) or bool(known.get("tls"))
    if "user" in known:
        found |= {"sasl.mechanism": "PLAIN", "sasl.username": known["user"], "sasl.password": known.get("password", "")}
        return {**found, "security.protocol": "SASL_SSL" if tls else "SASL_PLAINTEXT"}
    return {**found, "security.protocol": "SSL"} if tls else found
