"""The mock cluster of Kafka's client library, which lives in this process."""

from processes import PATIENCE


class Killed(BaseException):
    """Stands for SIGKILL: nothing behind it runs."""


class Mock:
    """A broker inside this process: it lives as long as its producer."""

    def __init__(self):
        import confluent_kafka

        self.producer = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
        brokers = self.producer.list_topics(timeout=600).brokers
        self.hosts = ",".join(f"{broker.host}:{broker.port}" for broker in brokers.values())

    def publish(self, topic, messages, partition=0):
        for message in messages:
            self.producer.produce(topic, message, partition=partition)
        assert self.producer.flush(PATIENCE) == 0
