"""open_log on a broker's own directory: beside it while it runs, instead of it while it is stopped."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from stratalog import LogDirLockedError, open_log
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, produce, producer
from tests.kafka.conftest import MakeBroker
from tests.waiting import PATIENCE_S

TOPIC = "orders"
COUNT = 300


def consumed(broker: Broker, count: int) -> list[tuple[int, bytes]]:
    """The records of the topic, by librdkafka."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            **QUIET,
        }
    )
    try:
        consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
        found = []
        while len(found) < count:
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no more records after {len(found)}"
            assert message.error() is None
            found.append((message.offset(), message.value()))
        return found
    finally:
        consumer.close()


def test_a_log_is_read_beside_its_broker_and_written_in_its_absence(make_broker: MakeBroker) -> None:
    broker = make_broker()
    create_topic(broker.bootstrap, TOPIC, config={"segment.bytes": str(1 << 20)})
    client = producer(broker.bootstrap, compression_type="lz4")
    directory = broker.log_dir / f"{TOPIC}-0"

    draw = random.Random(4)
    produce(client, TOPIC, [{"value": b"first"}])

    with open_log(directory, read_only=True) as view:
        seen = [(record.offset, record.value) for record in view.records()]
        assert seen == [(0, b"first")]
        while len(seen) < COUNT:
            # Large enough that segments of 1 MiB are rolled under the reader's eyes.
            values = [draw.randbytes(20_000) for _ in range(min(50, COUNT - len(seen)))]
            produce(client, TOPIC, [{"value": value} for value in values])
            found = list(view.records(len(seen)))
            assert [record.value for record in found] == values
            seen += [(record.offset, record.value) for record in found]
        assert len(view.to_arrow(["offset"])) == COUNT
        assert view.metrics()["NumLogSegments"] > 3
    with pytest.raises(LogDirLockedError):
        open_log(directory)
    assert not broker.log_lines(r"\b(WARN|ERROR)\b.*orders-0")

    broker.stop()
    with open_log(directory) as log:
        assert log.end_offset == COUNT
        first, last = log.append_many([b"ours"] * 3, codec="zstd")
        assert (first, last) == (COUNT, COUNT + 2)
    broker.start()

    assert consumed(broker, COUNT + 3) == [*seen, *((offset, b"ours") for offset in range(COUNT, COUNT + 3))]
    assert not broker.log_lines(r"\b(WARN|ERROR)\b.*(orders-0|clean shutdown|recover)")
    produce(client, TOPIC, [{"value": b"theirs"}])
    assert consumed(broker, COUNT + 4)[-1] == (COUNT + 3, b"theirs")
