"""A broker on what the sink wrote: no recovery of these logs, no complaint, and every record is served."""

from __future__ import annotations

import random
from collections import defaultdict

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests.jobs.writing.sinking import Writing, names_in
from tests.kafka.broker import Broker
from tests.kafka.clients import QUIET, create_topic, produce, producer
from tests.kafka.conftest import MakeBroker
from tests.kafka.tools import dump_log, dumpable_files
from tests.waiting import PATIENCE_S

PARTITIONS = 3
COUNT = 3000
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
Found = dict[int, list[tuple[int, bytes | None, bytes | None, int]]]


def consumed(broker: Broker, topic: str, count: int) -> Found:
    """Offsets, keys, values and times by partition, as librdkafka gives them."""
    settings = {
        "bootstrap.servers": broker.bootstrap,
        "group.id": "test",
        "enable.auto.commit": False,
        **QUIET,
    }
    consumer = Consumer({**settings, "check.crcs": True})
    found: Found = defaultdict(list)
    try:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        for seen in range(count):
            message = consumer.poll(PATIENCE_S)
            assert message is not None, f"no more records after {seen}"
            assert message.error() is None
            _, timestamp = message.timestamp()
            found[message.partition()].append((message.offset(), message.key(), message.value(), timestamp))
        assert consumer.poll(0.5) is None
        return dict(found)
    finally:
        consumer.close()


def test_a_broker_serves_what_the_sink_wrote(make_broker: MakeBroker) -> None:
    broker = make_broker(properties={"log.retention.ms": "-1"})
    draw = random.Random(11)
    keys = [b"key %d" % draw.randrange(500) for _ in range(COUNT)]
    for codec in CODECS:
        create_topic(broker.bootstrap, codec, partitions=PARTITIONS, config={"segment.bytes": str(1 << 20)})
    # The same keys by a producer, to see where they go; and one log that is not empty.
    create_topic(broker.bootstrap, "theirs", partitions=PARTITIONS)
    client = producer(broker.bootstrap, partitioner="murmur2_random", linger_ms=20)
    for key in keys:
        client.produce("theirs", key=key, value=b"")
    produce(client, "lz4", [{"key": b"first", "value": b"of a producer", "timestamp": 7}])
    broker.stop()

    rows = {
        "key": keys,
        "value": [draw.randbytes(400) + b"x" * 400 for _ in keys],
        "timestamp": [1_700_000_000_000_000 + 1_000 * number for number in range(COUNT)],
    }
    ends = {}
    for codec in CODECS:
        writing = Writing(str(broker.log_dir), topic=codec, compression=codec)
        for start in range(0, COUNT, 1000):
            writing.task({name: column[start : start + 1000] for name, column in rows.items()})
        report = writing.commit()
        assert report.records_count == COUNT
        ends |= report.ends
    assert not [name for name in names_in(broker.log_dir) if name.startswith("stratalog")]
    broker.start()

    complaint = rf"\b(WARN|ERROR)\b.*(({'|'.join(CODECS)})-\d|clean shutdown|recover|index)"
    assert broker.log_lines(complaint) == []
    topics = rf"partition=({'|'.join(CODECS)})-\d"
    assert broker.log_lines(rf"{topics}.*(Recovering unflushed|Deleted|Rebuil)") == []
    # The producers' state is that of the snapshot at the end of each log: no batch is read for it.
    for key, end in ends.items():
        assert broker.log_lines(rf"partition={key}\].*Loading producer state.*SnapshotFile\(offset={end},")
    places = {
        key: number for number, found in consumed(broker, "theirs", COUNT).items() for _, key, _, _ in found
    }
    for codec in CODECS:
        already = 1 if codec == "lz4" else 0
        expected: Found = defaultdict(list)
        if already:
            expected[0].append((0, b"first", b"of a producer", 7))
        for key, value, time in zip(*rows.values(), strict=True):
            found = expected[places[key]]  # type: ignore[index]
            found.append((len(found), key, value, time // 1000))  # type: ignore[arg-type, operator]
        assert consumed(broker, codec, COUNT + already) == expected
    produce(client, "zstd", [{"value": b"goes on"}], partition=1)
    assert consumed(broker, "zstd", COUNT + 1)[1][-1][2] == b"goes on"
    broker.stop()
    tell = dump_log(broker.jars, dumpable_files(broker.log_dir / "none-0"), "--index-sanity-check")
    assert "Mismatch" not in tell.stdout + tell.stderr
    assert "passed sanity check" in tell.stdout


def test_a_killed_brokers_directory_is_recovered_and_written_to(make_broker: MakeBroker) -> None:
    broker = make_broker(properties={"log.retention.ms": "-1"})
    create_topic(broker.bootstrap, "orders", partitions=PARTITIONS)
    produce(producer(broker.bootstrap), "orders", [{"key": b"k", "value": b"theirs", "timestamp": 5}])
    broker.kill()

    writing = Writing(str(broker.log_dir), topic="orders")
    writing.task({"key": [b"k"], "value": [b"ours"], "timestamp": [6_000], "partition": [0]})
    writing.commit()
    broker.start()

    assert consumed(broker, "orders", 2) == {0: [(0, b"k", b"theirs", 5), (1, b"k", b"ours", 6)]}
    assert broker.log_lines(r"\b(WARN|ERROR)\b.*(orders-\d|index)") == []
    assert broker.log_lines("Recovering unflushed segment.*orders") == []
