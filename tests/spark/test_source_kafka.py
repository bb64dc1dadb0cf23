"""The same query by Spark's Kafka source from a running broker, and by ours from that broker's directory.

The inputs of the queries are also compared with Kafka's own consumer (`witness.py`).

The broker runs on a copy of the checked-in directory that a killed broker left, so every codec, odd headers,
transactions (one of them open), compaction and a trimmed log are in it, and on a topic made from a seed.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from tests import profile
from tests.fixtures.broker_4_3_1 import CODECS, PROPERTIES
from tests.fixtures.records import T0
from tests.kafka.broker import Broker
from tests.kafka.clients import create_topic, produce, producer
from tests.kafka.conftest import had
from tests.kafka.jars import resolve
from tests.spark.connector import connector_jars
from tests.spark.witness import COLUMNS, Witness

pytestmark = pytest.mark.kafka

FIXTURE = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "killed" / "logs"
SEEDED, SEEDED_PARTITIONS, SEEDED_RECORDS = "seeded", 3, 400
EVERY_TOPIC = "codecs|headers|binary|idempotent|txn|logappend|trimmed|rolled|compacted|blocks"
COMMITTED = {"kafka.isolation.level": "read_committed"}
HEADERS = {"includeHeaders": "true"}


class Case(NamedTuple):
    name: str
    options: dict[str, str]
    query: Callable[[DataFrame], DataFrame] = lambda frame: frame


CASES = [
    Case("one topic", {"subscribe": "codecs"}),
    Case("two topics with headers", {"subscribe": "headers, binary"} | HEADERS),
    Case("a pattern", {"subscribePattern": EVERY_TOPIC} | HEADERS),
    Case("everything committed", {"subscribePattern": EVERY_TOPIC} | HEADERS | COMMITTED),
    Case("an assigned partition", {"assign": '{"seeded": [1]}'} | HEADERS),
    Case("two assigned partitions", {"assign": '{"seeded": [0, 2], "txn": [0]}'}),
    Case("aborted records too", {"subscribe": "txn"}),
    Case("committed records only", {"subscribe": "txn"} | COMMITTED),
    Case("a trimmed log", {"subscribe": "trimmed"}),
    Case("a compacted log", {"subscribe": "compacted"} | COMMITTED),
    Case("times of the log", {"subscribe": "logappend"}),
    Case("many small segments", {"subscribe": "rolled", "minPartitions": "5"}),
    Case(
        "from an offset",
        {"subscribe": "seeded", "startingOffsets": '{"seeded": {"0": 17, "1": -2, "2": 399}}'},
    ),
    Case(
        "between offsets",
        {
            "subscribe": "seeded",
            "startingOffsets": '{"seeded": {"0": 101, "1": 5, "2": 0}}',
            "endingOffsets": '{"seeded": {"0": 203, "1": -1, "2": 1}}',
        },
    ),
    Case("from a time", {"subscribe": "seeded", "startingTimestamp": str(T0 + 150_000)}),
    Case(
        "between times",
        {"subscribe": "seeded", "startingTimestamp": str(T0 + 90_000), "endingTimestamp": str(T0 + 250_000)},
    ),
    Case(
        "times by partition",
        {
            "subscribe": "seeded",
            "startingOffsetsByTimestamp": f'{{"seeded": {{"0": {T0}, "1": {T0 + 77_777}, "2": {T0}}}}}',
            "endingOffsetsByTimestamp": f'{{"seeded": {{"0": {T0 + 50_000}, "1": {T0 * 2}, "2": {T0 + 1}}}}}',
        },
    ),
    # A broker has not yet noted these times in its index.
    Case(
        "from the time of the last records", {"subscribe": "seeded", "startingTimestamp": str(T0 + 399_000)}
    ),
    Case(
        "marks in the place of times",
        {
            "subscribe": "seeded",
            "startingOffsetsByTimestamp": f'{{"seeded": {{"0": -2, "1": {T0 + 377_777}, "2": {T0}}}}}',
            "endingOffsetsByTimestamp": f'{{"seeded": {{"0": {T0 + 50_000}, "1": -1, "2": -1}}}}',
        },
    ),
    Case(
        "sums by topic",
        {"subscribePattern": EVERY_TOPIC} | COMMITTED,
        lambda frame: frame.groupBy("topic", "partition").agg(
            {"*": "count", "offset": "max", "timestamp": "min"}
        ),
    ),
    Case(
        "a filter and text",
        {"subscribe": "seeded"} | HEADERS,
        lambda frame: frame.where("offset % 7 = 3 and key is not null").selectExpr(
            "topic", "partition", "offset", "hex(key) as k", "length(value) as n", "size(headers) as h"
        ),
    ),
    Case(
        "an exploded header",
        {"subscribe": "headers,seeded"} | HEADERS,
        lambda frame: frame.selectExpr(
            "topic", "partition", "offset", "explode(headers) as header"
        ).selectExpr("topic", "partition", "offset", "header.key", "header.value"),
    ),
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    had(connector_jars)
    work = tmp_path_factory.mktemp("source")
    shutil.copytree(FIXTURE, work / "logs")
    # Cleaning would go on between the two reads of a query.
    settings = PROPERTIES | {"log.cleaner.enable": "false"}
    with Broker(had(resolve), work, properties=settings) as running:
        create_topic(running.bootstrap, SEEDED, partitions=SEEDED_PARTITIONS)
        for partition in range(SEEDED_PARTITIONS):
            produce_seeded(running, partition)
        yield running


@pytest.fixture(scope="module")
def witness(broker: Broker) -> Iterator[Witness]:
    found = Witness(had(resolve), broker.bootstrap)
    yield found
    found.close()


def produce_seeded(broker: Broker, partition: int) -> None:
    """Records of all kinds in batches of all codecs and sizes, with rising times a second apart."""
    seed = random.Random(partition)
    at = 0
    while at < SEEDED_RECORDS:
        count = min(seed.randint(1, 40), SEEDED_RECORDS - at)
        client = producer(broker.bootstrap, compression_type=seed.choice(CODECS), linger_ms=20)
        produce(
            client,
            SEEDED,
            [seeded_record(seed, at + number) for number in range(count)],
            partition=partition,
            batch=count,
        )
        at += count


def seeded_record(seed: random.Random, number: int) -> dict[str, Any]:
    def some(most: int) -> bytes | None:
        return None if seed.random() < 0.1 else seed.randbytes(seed.randint(0, most))

    names = ["a", "ключ", "", "x-trace-id"]
    headers = [(seed.choice(names), some(12)) for _ in range(seed.choice((0, 0, 1, 3)))]
    return {"key": some(20), "value": some(400), "timestamp": T0 + 1000 * number, "headers": headers}


def both(spark: SparkSession, broker: Broker, case: Case) -> tuple[list[Any], list[Any]]:
    """The rows of the case, in one order: Kafka's source, then ours."""
    kafka = {"kafka.bootstrap.servers": broker.bootstrap}
    theirs = spark.read.format("kafka").options(**case.options, **kafka).load()
    ours = spark.read.format("stratalog").options(**case.options).load(str(broker.log_dir))
    assert ours.schema == theirs.schema
    expected, found = ([*map(tuple, case.query(frame).collect())] for frame in (theirs, ours))
    return sorted(expected, key=repr), sorted(found, key=repr)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_query_gives_what_sparks_kafka_source_gives(
    spark: SparkSession, broker: Broker, case: Case
) -> None:
    expected, found = both(spark, broker, case)

    assert expected
    assert found == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_query_is_made_from_what_kafkas_consumer_gets(
    spark: SparkSession, broker: Broker, witness: Witness, case: Case
) -> None:
    columns = [*COLUMNS, *(["headers"] if "includeHeaders" in case.options else [])]

    frame = spark.read.format("stratalog").options(**case.options).load(str(broker.log_dir))
    found = sorted(map(as_consumed, frame.selectExpr(*columns).collect()), key=itemgetter(0, 1, 2))

    expected = witness.consumed(case.options)
    assert expected
    assert found == expected


def as_consumed(row: Row) -> tuple[Any, ...]:
    """Bytes are arrays of them in a row, and headers rows in it."""

    def content(value: Any) -> Any:
        if isinstance(value, bytearray):
            return bytes(value)
        return [(name, content(text)) for name, text in value] if isinstance(value, list) else value

    return tuple(map(content, row))


@pytest.mark.parametrize("number", range(profile.examples(40, quick=2, ci=2)))
def test_any_range_of_offsets_gives_what_sparks_kafka_source_gives(
    spark: SparkSession, broker: Broker, number: int
) -> None:
    seed = random.Random(number)
    ranges = [sorted(seed.sample(range(SEEDED_RECORDS + 1), 2)) for _ in range(SEEDED_PARTITIONS)]
    starts, ends = (", ".join(f'"{p}": {each[side]}' for p, each in enumerate(ranges)) for side in (0, 1))
    options = {
        "subscribe": SEEDED,
        "startingOffsets": f'{{"{SEEDED}": {{{starts}}}}}',
        "endingOffsets": f'{{"{SEEDED}": {{{ends}}}}}',
    }
    if seed.random() < 0.5:
        options["maxRecordsPerPartition"] = str(seed.randint(20, 100))

    expected, found = both(spark, broker, Case("", options | HEADERS))

    assert len(expected) == sum(end - start for start, end in ranges)
    assert found == expected
