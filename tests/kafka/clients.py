"""Topics, and records produced through librdkafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from tests.waiting import PATIENCE_S

# librdkafka keeps complaining on stderr after the broker was killed, which tests here do.
QUIET = {"log_level": 0}
TOPIC_ATTEMPTS = 3


def create_topic(
    bootstrap: str, name: str, *, partitions: int = 1, config: Mapping[str, str] | None = None
) -> None:
    """Create a topic of one replica and wait until the controller has it."""
    topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
    for attempt in range(TOPIC_ATTEMPTS):
        admin = _admin(bootstrap)  # kept alive: the futures of a collected client fail
        (created,) = admin.create_topics([topic]).values()
        try:
            created.result(PATIENCE_S / TOPIC_ATTEMPTS)
            return
        except TimeoutError:
            # On a busy machine a broker with ZooKeeper may lose its registration, and then registers again.
            if attempt == TOPIC_ATTEMPTS - 1:
                raise
        except KafkaException as error:
            code = error.args[0].code()
            if attempt > 0 and code == KafkaError.TOPIC_ALREADY_EXISTS:
                return  # the previous attempt succeeded late
            # librdkafka itself waits for a controller for less time than we do.
            if attempt == TOPIC_ATTEMPTS - 1 or code != KafkaError._TIMED_OUT:
                raise


def delete_topic(bootstrap: str, name: str) -> None:
    """Delete a topic and wait until the controller has done it."""
    admin = _admin(bootstrap)
    for deleted in admin.delete_topics([name]).values():
        deleted.result(PATIENCE_S)


def delete_records(bootstrap: str, topic: str, partition: int, before_offset: int) -> None:
    """Move the log start offset up, as retention would."""
    admin = _admin(bootstrap)
    for deleted in admin.delete_records([TopicPartition(topic, partition, before_offset)]).values():
        deleted.result(PATIENCE_S)


def leaders(bootstrap: str) -> set[int]:
    """The nodes that lead a partition; -1 if a partition has no leader."""
    topics = _admin(bootstrap).list_topics(timeout=PATIENCE_S).topics.values()
    return {partition.leader for topic in topics for partition in topic.partitions.values()}


def producer(bootstrap: str, **config: Any) -> Producer:
    """A librdkafka producer that sends at once; `compression_type="lz4"` sets `compression.type`."""
    settings = {"bootstrap.servers": bootstrap, "linger.ms": 0, **QUIET}
    return Producer(settings | {key.replace("_", "."): value for key, value in config.items()})


def produce(
    client: Producer, topic: str, records: Iterable[Mapping[str, Any]], *, partition: int = 0, batch: int = 0
) -> None:
    """Send records (the keyword arguments of Producer.produce) and wait for them.

    With `batch`, that many records are flushed together. They become one record batch if they fit into the
    client's `batch.num.messages` and were queued within its `linger.ms`.
    """
    for number, record in enumerate(records, start=1):
        client.produce(topic, partition=partition, **record)
        if batch and number % batch == 0:
            _flush(client)
    _flush(client)


def _flush(client: Producer) -> None:
    left = client.flush(PATIENCE_S)
    assert left == 0, f"{left} records were not delivered within a minute"


def _admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, **QUIET})
