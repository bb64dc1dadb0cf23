"""A stream over the directory of a running broker, which rolls, deletes, adds and creates again."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from stratalog.errors import OffsetOutOfRangeError
from stratalog.jobs.reading.following import Follower
from stratalog.jobs.reading.offsets import StreamOffset
from stratalog.jobs.reading.options import ReadOptions
from tests.fixtures.broker_4_3_1 import PROPERTIES
from tests.fixtures.records import consumer
from tests.jobs.reading.making import rows_of
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, delete_records, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import resolve
from tests.waiting import PATIENCE_S, until

TOPIC, ROUNDS = "orders", 12
SMALL_SEGMENTS = {"internal.segment.bytes": "6000"}
FASTER = {"log.retention.check.interval.ms": "200", "log.segment.delete.delay.ms": "100"}

Row = tuple[int, int, bytes]
"""Partition, offset and value."""


class Stream:
    """Triggers with a checkpoint in text; every trigger is planned twice, the second time after a restart."""

    def __init__(self, log_dir: Path) -> None:
        self._options = ReadOptions.parse(
            {
                "path": str(log_dir),
                "subscribe": TOPIC,
                "startingOffsets": "earliest",
                "isolation": "read_committed",
            },
            streaming=True,
        )
        self._follower = Follower(self._options)
        self._at = self._follower.initial().to_json()
        self.rows: list[Row] = []

    def trigger(self, at_most: int | None = None) -> None:
        start = StreamOffset.from_json(self._at)
        end = self._follower.advance(start, at_most=at_most)
        rows = self._read(start, end)
        self._follower.close()
        self._follower = Follower(self._options)
        assert self._read(start, end) == rows
        self.rows += rows
        self._at = end.to_json()

    def next_offset(self, partition: int) -> int:
        return int(self._at[TOPIC][str(partition)])

    def _read(self, start: StreamOffset, end: StreamOffset) -> list[Row]:
        rows = rows_of(self._follower.plan(start, end), ("partition", "offset", "value"))
        return [(row["partition"], row["offset"], row["value"]) for row in rows]


def consumed(broker: Broker, partition: int, count: int) -> list[Row]:
    """The last `count` committed records of a partition, by Kafka's own client."""
    client = consumer(broker.bootstrap, "witness", isolation_level="read_committed")
    client.assign([TopicPartition(TOPIC, partition, OFFSET_BEGINNING)])
    found: list[Row] = []
    end = time.monotonic() + PATIENCE_S
    while len(found) < count:
        assert time.monotonic() < end, f"only {len(found)} of {count} records came"
        for message in client.consume(500, 1):
            assert message.error() is None
            found.append((partition, message.offset(), message.value()))
    client.close()
    return found


def test_each_committed_record_is_read_once_beside_the_broker(tmp_path: Path) -> None:
    chance = random.Random(6)
    with Broker(had(resolve), tmp_path, properties=PROPERTIES | FASTER) as broker:
        create_topic(broker.bootstrap, TOPIC, config=SMALL_SEGMENTS)
        log = broker.log_dir / f"{TOPIC}-0"
        until(log.exists)
        stream = Stream(broker.log_dir)
        plain = producer(broker.bootstrap, linger_ms=20)
        transactional = producer(broker.bootstrap, linger_ms=20, transactional_id="tx")
        transactional.init_transactions(PATIENCE_S)
        committed: list[bytes] = []  # of the first partition, in the order of their offsets
        first_kept = 0
        for number in range(ROUNDS):
            transactional.begin_transaction()
            values = [b"%d in a transaction, %d" % (number, each) for each in range(20)]
            produce(transactional, TOPIC, [{"value": value} for value in values], batch=5)
            others = [b"%d beside it, %d" % (number, each) for each in range(10)]
            stream.trigger(at_most=chance.choice([None, 3, 30]))
            if number % 3 == 2:
                transactional.abort_transaction(PATIENCE_S)
            else:
                transactional.commit_transaction(PATIENCE_S)
                committed += values
            produce(plain, TOPIC, [{"value": value} for value in others], batch=5)
            committed += others
            if number == ROUNDS // 2:
                # Retention of records that were already read does not concern the stream.
                first_kept = stream.next_offset(0)
                delete_records(broker.bootstrap, TOPIC, 0, first_kept)
                until(lambda: not (log / f"{0:020d}.log").exists())
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        (created,) = admin.create_partitions([NewPartitions(TOPIC, 2)]).values()
        created.result(PATIENCE_S)
        until(lambda: (broker.log_dir / f"{TOPIC}-1").exists())
        added = [b"new %d" % each for each in range(10)]
        produce(
            producer(broker.bootstrap, linger_ms=20), TOPIC, [{"value": each} for each in added], partition=1
        )

        def is_all_read() -> bool:
            stream.trigger()
            return len(stream.rows) >= len(committed) + len(added)

        until(is_all_read)
        rows = [sorted(row for row in stream.rows if row[0] == partition) for partition in (0, 1)]
        assert [value for _, _, value in rows[0]] == committed
        assert [value for _, _, value in rows[1]] == added
        kept = [row for row in rows[0] if row[1] >= first_kept]
        assert consumed(broker, 0, len(kept)) == kept
        assert consumed(broker, 1, len(added)) == rows[1]

        (deleted,) = admin.delete_topics([TOPIC]).values()
        deleted.result(PATIENCE_S)
        until(lambda: not log.exists())
        create_topic(broker.bootstrap, TOPIC, partitions=2)
        more = [{"value": b"another topic"}] * (stream.next_offset(0) + 50)
        produce(producer(broker.bootstrap, linger_ms=20), TOPIC, more)
        with pytest.raises(
            OffsetOutOfRangeError,
            match=r"orders-0 in .*: the topic was deleted and created again: its id was",
        ):
            stream.trigger()
