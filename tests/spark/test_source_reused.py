"""A DataFrame that is used again after a real broker, started on its directory since, has changed the log."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession

from tests.fixtures.broker_4_3_1 import PROPERTIES
from tests.fixtures.records import T0, consumer
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, delete_records, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import resolve
from tests.waiting import until

pytestmark = pytest.mark.kafka

RECORDS_COUNT, KEYS, DELETED = 600, 25, 250
SMALL_SEGMENTS = {"internal.segment.bytes": "6000"}
COMPACTED = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}


def rows(frame: DataFrame) -> list[tuple[int, bytes, bytes]]:
    return sorted((row.offset, bytes(row.key), bytes(row.value)) for row in frame.collect())


def consumed(broker: Broker, topic: str) -> list[tuple[int, bytes, bytes]]:
    """All that Kafka's own client reads of a partition."""
    client = consumer(broker.bootstrap, "witness")
    client.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    _, end = client.get_watermark_offsets(TopicPartition(topic, 0))
    found = []
    while not found or found[-1][0] < end - 1:
        for message in client.consume(500, 1):
            assert message.error() is None
            found.append((message.offset(), message.key(), message.value()))
    client.close()
    return found


def test_rows_are_right_or_an_error_says_what_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    with Broker(had(resolve), tmp_path, properties=PROPERTIES | {"log.cleaner.enable": "false"}) as broker:
        create_topic(broker.bootstrap, "compacted", config=SMALL_SEGMENTS | COMPACTED)
        create_topic(broker.bootstrap, "retained", config=SMALL_SEGMENTS)
        records = [
            {"key": b"k%d" % (n % KEYS), "value": b"value %d" % n, "timestamp": T0 + n}
            for n in range(RECORDS_COUNT)
        ]
        for topic in ("compacted", "retained"):
            produce(producer(broker.bootstrap, linger_ms=50), topic, records, batch=10)
        broker.stop()
    log_dir = broker.log_dir
    source = spark.read.format("stratalog").option("minPartitions", "6")
    compacted = source.option("subscribe", "compacted").load(str(log_dir))
    retained = source.option("subscribe", "retained").load(str(log_dir))
    forgiving = source.option("failOnDataLoss", "false").load(str(log_dir))
    written = [(n, record["key"], record["value"]) for n, record in enumerate(records)]
    assert rows(compacted) == rows(retained) == rows(forgiving) == written

    faster = {"log.retention.check.interval.ms": "200", "log.segment.delete.delay.ms": "100"}
    with Broker(had(resolve), tmp_path, properties=PROPERTIES | faster) as broker:
        delete_records(broker.bootstrap, "retained", 0, DELETED)
        checkpoint = log_dir / "cleaner-offset-checkpoint"
        until(lambda: checkpoint.exists() and "compacted 0" in checkpoint.read_text())
        until(lambda: not (log_dir / "retained-0" / f"{0:020d}.log").exists())
        left = consumed(broker, "compacted")
        assert len(left) < RECORDS_COUNT

        assert rows(compacted) == left  # beside the running broker
        broker.stop()

    assert rows(compacted) == left
    with pytest.raises(
        PythonException, match=r"retained-0: offsets \d+ to .* the log now begins at offset \d+"
    ):
        retained.collect()
    found = rows(forgiving)
    assert found == written[-len(found) :]
    assert RECORDS_COUNT - DELETED <= len(found) < RECORDS_COUNT
