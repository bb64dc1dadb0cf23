"""What a plain consumer gets for the options of a read: the second witness, which shares no code with Spark.

Topics, the earliest and latest offsets and the offsets of times are asked of the broker, by librdkafka.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from confluent_kafka import TIMESTAMP_LOG_APPEND_TIME, Consumer, KafkaError, TopicPartition

from tests.fixtures.records import consumer

# As SQL over the frame of a source, whose rows are then as those of `consumed`.
COLUMNS = ("topic", "partition", "offset", "key", "value", "unix_millis(timestamp)", "timestampType")
EARLIEST, LATEST = -2, -1


def consumed(bootstrap: str, options: Mapping[str, str]) -> list[tuple[Any, ...]]:
    """The records that the options ask for, with their headers if these are asked for, in order."""
    isolation = options.get("kafka.isolation.level", "read_uncommitted")
    # At the end of a partition a fetch would wait half a second for more, and the next one for it.
    settings = {"isolation_level": isolation, "enable_partition_eof": True, "fetch_wait_max_ms": 10}
    client = consumer(bootstrap, "witness", **settings)
    try:
        return [
            row
            for topic, partition in _partitions(client, options)
            for row in _read(client, topic, partition, options)
        ]
    finally:
        client.close()


def _partitions(client: Consumer, options: Mapping[str, str]) -> list[tuple[str, int]]:
    if "assign" in options:
        assigned = json.loads(options["assign"])
        return sorted((topic, number) for topic, numbers in assigned.items() for number in numbers)
    topics = client.list_topics(timeout=30).topics
    if "subscribe" in options:
        names = [name.strip() for name in options["subscribe"].split(",")]
    else:
        names = [name for name in topics if re.fullmatch(options["subscribePattern"], name)]
    return sorted((name, number) for name in names for number in topics[name].partitions)


def _read(client: Consumer, topic: str, partition: int, options: Mapping[str, str]) -> list[tuple[Any, ...]]:
    start = _bound(client, topic, partition, options, "starting", EARLIEST)
    end = _bound(client, topic, partition, options, "ending", LATEST)
    client.assign([TopicPartition(topic, partition, start)])
    rows: list[tuple[Any, ...]] = []
    while True:
        message = client.poll(30)
        assert message is not None, f"{topic}-{partition} did not come to its end"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            return rows
        if message.offset() >= end:
            return rows
        kind, time_ms = message.timestamp()
        row = (
            topic,
            partition,
            message.offset(),
            message.key(),
            message.value(),
            time_ms,
            int(kind == TIMESTAMP_LOG_APPEND_TIME),
        )
        headers = ([*message.headers()] if message.headers() else None,)
        rows.append(row + headers if options.get("includeHeaders") == "true" else row)


def _bound(
    client: Consumer, topic: str, partition: int, options: Mapping[str, str], side: str, mark: int
) -> int:
    """The offset at which a read begins or ends, by the broker's own word."""
    earliest, latest = client.get_watermark_offsets(TopicPartition(topic, partition), timeout=30)
    timestamp = options.get(f"{side}Timestamp")
    times = options.get(f"{side}OffsetsByTimestamp")
    if times is not None:
        timestamp = json.loads(times)[topic][str(partition)]
    if timestamp is not None:
        (found,) = client.offsets_for_times([TopicPartition(topic, partition, int(timestamp))], timeout=30)
        return int(found.offset) if found.offset >= 0 else int(latest)
    offsets = options.get(f"{side}Offsets")
    offset = mark if offsets is None else json.loads(offsets)[topic][str(partition)]
    return int({EARLIEST: earliest, LATEST: latest}.get(offset, offset))
