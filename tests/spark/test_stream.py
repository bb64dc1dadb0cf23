"""Streams on embedded Spark: triggers, limits, checkpoints, and errors in words."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType

import stratalog
from stratalog.log.api.partition_log import PartitionLog
from stratalog.spark.stream import StratalogStreamReader
from tests.log.model import batch
from tests.spark.streaming import come_to, ended, to_parquet

SMALL_SEGMENTS = {"internal.segment.bytes": 2000}
OLD_ID, NEW_ID = "CVmmc5E3Svq-PtfZ062cfg", "b3JkZXJzLW1hZGUtYW5ldw"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return tmp_path / "logs"


@pytest.fixture
def log(log_dir: Path) -> Iterator[PartitionLog]:
    with stratalog.open_log(
        log_dir / "orders-0", create=True, config=SMALL_SEGMENTS, topic_id=OLD_ID
    ) as opened:
        yield opened


def append(log: PartitionLog, numbers: range) -> None:
    for number in numbers:
        log.append(b"value %d" % number)


class Queries:
    """Queries one after the other over the same checkpoint, into the same Parquet files."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark, self.home = spark, home

    def start(self, *, available_now: bool = True, **options: str) -> StreamingQuery:
        home = self.home
        return to_parquet(
            self.spark,
            home / "logs",
            home / "out",
            home / "checkpoint",
            available_now=available_now,
            **options,
        )

    def run(self, **options: str) -> list[int]:
        """All that is available; the number of rows in each trigger that had some."""
        query = ended(lambda: self.start(**options))
        return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]

    def rows(self) -> list[tuple[int, int, bytes]]:
        """What is in the files of finished triggers."""
        frame = self.spark.read.parquet(str(self.home / "out"))
        return sorted((row.partition, row.offset, bytes(row.value)) for row in frame.collect())

    def last_offset(self) -> Any:
        newest = max((self.home / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
        return json.loads(newest.read_text().splitlines()[-1])


@pytest.fixture
def queries(spark: SparkSession, tmp_path: Path) -> Queries:
    return Queries(spark, tmp_path)


def rows_of(numbers: range, partition: int = 0) -> list[tuple[int, int, bytes]]:
    return [(partition, offset, b"value %d" % number) for offset, number in enumerate(numbers)]


def test_what_is_available_now_is_read_in_triggers_of_a_limited_size(
    log: PartitionLog, queries: Queries
) -> None:
    append(log, range(100))

    assert queries.run(maxOffsetsPerTrigger="40") == [40, 40, 20]
    assert queries.rows() == rows_of(range(100))
    assert queries.last_offset() == {"orders": {"0": 100}, "@topicIds": {"orders": {"0": OLD_ID}}}


def test_a_query_goes_on_at_its_checkpoint(log: PartitionLog, log_dir: Path, queries: Queries) -> None:
    append(log, range(50))
    assert queries.run() == [50]
    assert queries.run() == []

    append(log, range(50, 120))
    with stratalog.open_log(log_dir / "orders-1", create=True) as other:
        append(other, range(1000, 1010))
        assert queries.run() == [80]

    assert queries.rows() == rows_of(range(120)) + rows_of(range(1000, 1010), partition=1)


def test_a_running_query_follows_appends_rolls_and_new_partitions(
    log: PartitionLog, log_dir: Path, queries: Queries
) -> None:
    append(log, range(10))
    query = come_to(StreamingQuery.processAllAvailable, lambda: queries.start(available_now=False))

    append(log, range(10, 200))
    with stratalog.open_log(log_dir / "orders-1", create=True) as other:
        append(other, range(5))
        query.processAllAvailable()
        query.stop()

    assert len(list((log_dir / "orders-0").glob("*.log"))) > 2
    assert queries.rows() == rows_of(range(200)) + rows_of(range(5), partition=1)


def test_once_means_all_of_it_whatever_the_limit(
    log: PartitionLog, log_dir: Path, spark: SparkSession, tmp_path: Path
) -> None:
    append(log, range(30))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "3"}
    frame = spark.readStream.format("stratalog").options(**options).load(str(log_dir))

    writer = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = ended(writer.trigger(once=True).start)

    assert [progress["numInputRows"] for progress in query.recentProgress] == [30]


def test_a_schema_prunes_the_columns_of_a_stream(
    log: PartitionLog, log_dir: Path, spark: SparkSession, tmp_path: Path
) -> None:
    append(log, range(30))
    frame = (
        spark.readStream.format("stratalog")
        .schema("value binary, offset bigint")
        .option("startingOffsets", "earliest")
        .load(str(log_dir))
    )

    query = frame.writeStream.format("memory").queryName("pruned").trigger(availableNow=True)
    ended(query.option("checkpointLocation", str(tmp_path / "checkpoint")).start)

    assert spark.table("pruned").orderBy("offset").first() == (b"value 0", 0)
    spark.catalog.dropTempView("pruned")


def test_a_range_without_records_passes(log: PartitionLog, queries: Queries) -> None:
    """A compacted log has offsets whose records are gone; here it is all of the first trigger's."""
    append(log, range(10))
    assert queries.run() == [10]
    log.append_batch(batch(b"value 60", base_offset=60), keep_offsets=True)

    assert queries.run(maxOffsetsPerTrigger="25") == [1]
    assert queries.last_offset()["orders"] == {"0": 61}


def test_a_topic_made_anew_fails_the_query_in_words(
    log: PartitionLog, log_dir: Path, queries: Queries
) -> None:
    append(log, range(10))
    queries.run()
    log.close()
    shutil.rmtree(log_dir / "orders-0")
    with stratalog.open_log(log_dir / "orders-0", create=True, topic_id=NEW_ID) as again:
        append(again, range(1000, 1030))

    with pytest.raises(StreamingQueryException) as caught:
        queries.run()
    for part in (
        "orders-0",
        str(log_dir),
        f"its id was {OLD_ID} and is now {NEW_ID}",
        "failOnDataLoss=false",
    ):
        assert part in str(caught.value)

    assert queries.run(failOnDataLoss="false") == [30]
    assert queries.rows() == sorted(rows_of(range(10)) + rows_of(range(1000, 1030)))


def test_the_least_and_the_most_of_a_trigger_are_kept_together(log: PartitionLog, log_dir: Path) -> None:
    """Spark has a limit for only one of them; here it is called as Spark calls it, without a JVM."""
    options = {"path": str(log_dir), "minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "8"}
    reader = StratalogStreamReader(options, StructType())
    limit = reader.getDefaultReadLimit()
    ends = [reader.initialOffset()]
    for count in (10, 0, 2, 1):
        append(log, range(count))
        ends.append(reader.latestOffset(ends[-1], limit))
    reader.stop()

    assert limit == ReadMaxRows(8)
    assert [end["orders"]["0"] for end in ends] == [0, 8, 8, 8, 13]


@pytest.mark.parametrize(
    ("options", "limit"),
    [({}, ReadAllAvailable()), ({"minOffsetsPerTrigger": "5"}, ReadMinRows(5))],
)
def test_a_limit_is_what_the_options_say(options: dict[str, str], limit: ReadLimit) -> None:
    assert StratalogStreamReader({"path": "/data"} | options, StructType()).getDefaultReadLimit() == limit


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for a batch: a stream does not end"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}, "minOffsetsPerTrigger is 9, more than"),
        ({"subscribe": "bills"}, "subscribe names bills, which is not in"),
    ],
)
@pytest.mark.usefixtures("log")
def test_a_bad_option_fails_the_query_in_words(queries: Queries, options: dict[str, str], says: str) -> None:
    with pytest.raises((StreamingQueryException, AnalysisException)) as caught:
        queries.run(**options)

    assert says in str(caught.value)
