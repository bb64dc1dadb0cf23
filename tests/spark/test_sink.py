"""The sink in a plain session: written rows are read back once, and errors are raised on the driver."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr
from pyspark.sql.types import BinaryType, StructField, StructType

from stratalog.clock import system_clock
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.jobs.writing.options import WriteOptions
from stratalog.jobs.writing.stage import stage_rows
from stratalog.jobs.writing.target import find_target
from stratalog.spark.sink import StagedMessage, StratalogWriter
from tests.fixtures.catalog import log_dirs
from tests.jobs.writing.sinking import contents_of, names_in, offsets_and_values, staged_in
from tests.manager.running import MARKER
from tests.spark.cluster import MASTER_VARIABLE
from tests.spark.streaming import ended
from tests.waiting import PATIENCE_S

OPTIONS = {"topic": "orders", "partitions": "3"}


def numbers(spark: SparkSession, count: int, tasks: int = 4) -> DataFrame:
    return spark.range(0, count, 1, tasks).selectExpr(
        "cast(id AS string) AS key",
        "concat('value ', id) AS value",
        "timestamp_millis(1000 * id) AS timestamp",
    )


def save(frame: DataFrame, directory: Path, **options: str) -> None:
    frame.write.format("stratalog").mode("append").options(**(OPTIONS | options)).save(str(directory))


def load(spark: SparkSession, directory: Path, topic: str = "orders") -> DataFrame:
    reader = spark.read.format("stratalog").options(subscribe=topic, includeHeaders="true")
    return reader.load(str(directory))


PROGRAM = """
import sys
from stratalog.spark.session import session
with session("told", master="local[1]") as spark:
    for _ in range(2):
        rows = spark.range(3).selectExpr("cast(id AS string) AS value").write.format("stratalog")
        rows.mode("append").options(topic="orders", partitions="1").save(sys.argv[1])
        print("written", file=sys.stderr, flush=True)
"""


def test_rows_come_back_with_keys_and_times(spark: SparkSession, tmp_path: Path) -> None:
    save(numbers(spark, 1000), tmp_path, compression="zstd")

    found = load(spark, tmp_path).selectExpr("cast(key AS string)", "cast(value AS string)", "timestamp")
    assert sorted(found.collect()) == sorted(numbers(spark, 1000).collect())
    assert staged_in(tmp_path) == []
    assert MARKER in names_in(tmp_path)


def test_two_writes_are_one_behind_the_other(spark: SparkSession, tmp_path: Path) -> None:
    save(numbers(spark, 10), tmp_path)
    save(numbers(spark, 10), tmp_path)

    rows = load(spark, tmp_path).groupBy("partition").agg(expr("count(*)"), expr("max(offset) + 1")).collect()
    assert sum(count for _, count, _ in rows) == 20
    assert all(count == end for _, count, end in rows)


def test_headers_and_partitions_are_columns(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr(
        "'v' AS value",
        "cast(id AS int) AS partition",
        "array(named_struct('key', 'h', 'value', cast(cast(id AS string) AS binary))) AS headers",
    )

    save(frame, tmp_path)

    rows = load(spark, tmp_path).select("partition", "key", "headers").orderBy("partition").collect()
    assert [(row.partition, row.key, row.headers[0].key, row.headers[0].value) for row in rows] == [
        (number, None, "h", b"%d" % number) for number in range(3)
    ]


def test_what_was_read_is_written_as_it_is(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    save(numbers(spark, 100), tmp_path / "a")

    save(load(spark, tmp_path / "a").repartition(1).sortWithinPartitions("offset"), tmp_path / "b")

    columns = ["key", "value", "partition", "offset", "timestamp"]
    first, second = (load(spark, tmp_path / name).select(*columns) for name in "ab")
    assert sorted(first.collect()) == sorted(second.collect())


def test_a_brokers_directory_says_how_many_partitions_there_are(spark: SparkSession, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(log_dirs("4.3.1", "clean")[0], data)
    before = load(spark, data, "codecs").count()

    writer = spark.range(50).selectExpr("cast(id AS string) AS value", "'codecs' AS topic").write
    writer.format("stratalog").mode("append").save(str(data))

    assert load(spark, data, "codecs").count() == before + 50


def test_a_task_that_fails_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    bad = spark.range(0, 100, 1, 4).selectExpr(
        "cast(id AS string) AS value", "if(id = 99, 9, 0) AS partition"
    )

    with pytest.raises(PythonException, match="partition 9 of the topic orders, which has 3"):
        save(bad, tmp_path)

    assert names_in(tmp_path) == []


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        (["value"], {"partitions": "none"}, "it must be JSON like"),
        (["value"], {"nosuch": "1"}, "there is no option nosuch"),
        (["value"], {"kafka.acks": "all"}, "no client is used here"),
        (["key"], {}, "there is no column value"),
        (["value", "cast(1 AS bigint) AS partition"], {}, "the column partition is bigint: cast it to int"),
        (["value", "1 AS other"], {}, "a record has no column other"),
    ],
)
def test_what_is_wrong_is_told_before_anything_is_written(
    spark: SparkSession, tmp_path: Path, columns: list[str], options: dict[str, str], words: str
) -> None:
    with pytest.raises(AnalysisException, match=words):
        save(numbers(spark, 1).selectExpr(*columns), tmp_path, **options)

    assert names_in(tmp_path) == []


def test_a_directory_in_use_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(AnalysisException, match="stop it, then run again"):
        save(numbers(spark, 1), tmp_path)


def test_a_log_is_not_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException, match="can only be appended to"):
        numbers(spark, 1).write.format("stratalog").mode("overwrite").options(**OPTIONS).save(str(tmp_path))


def test_a_path_that_does_not_exist_becomes_a_log_directory(spark: SparkSession, tmp_path: Path) -> None:
    save(numbers(spark, 3), tmp_path / "new" / "data")

    assert (tmp_path / "new" / "data" / ".kafka_cleanshutdown").exists()


def test_a_folder_of_something_else_is_not_written_to(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()

    with pytest.raises(AnalysisException, match="is not a log directory"):
        save(numbers(spark, 1), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_write_that_is_committed_does_not_fail_over_what_it_leaves(tmp_path: Path) -> None:
    schema = StructType([StructField("value", BinaryType())])
    writer = StratalogWriter({"path": str(tmp_path), **OPTIONS}, schema, overwrite=False)
    (task_file,) = staged_in(tmp_path)
    write = task_file.removeprefix("stratalog-write-").removesuffix(".task")
    segments = stage_rows(
        Disk(),
        find_target(Disk(), WriteOptions.parse({"path": str(tmp_path), **OPTIONS})),
        [pa.record_batch({"value": pa.array([b"a"])})],
        write=write,
        attempt="0",
        turn=0,
        clock=system_clock,
    )
    (tmp_path / f"stratalog-write-{write}-1-0.log").mkdir()  # which cannot be deleted as a file can

    writer.commit([StagedMessage(write, tuple(segments))])

    assert [value for _, value in offsets_and_values(contents_of(tmp_path), "orders-0")] == [b"a"]


def test_a_stream_is_written_once_though_it_is_run_again(spark: SparkSession, tmp_path: Path) -> None:
    data, checkpoint = tmp_path / "data", tmp_path / "checkpoint"
    data.mkdir()
    save(numbers(spark, 100), data)

    copy(spark, data, checkpoint)
    # Spark forgets its last commit, as if it had been killed between ours and its own.
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
    copy(spark, data, checkpoint)
    save(numbers(spark, 7), data)
    copy(spark, data, checkpoint)

    values = load(spark, data, "copy").select(col("value").cast("string")).collect()
    expected = [f"value {number}" for number in range(100)] + [f"value {number}" for number in range(7)]
    assert sorted(row.value for row in values) == sorted(expected)
    assert staged_in(data) == []
    assert "stratalog-write.json" in names_in(data)


def copy(spark: SparkSession, data: Path, checkpoint: Path) -> None:
    """Copy `orders` to `copy`, 40 records in a batch, as far as there are any."""
    source = spark.readStream.format("stratalog").option("subscribe", "orders")
    source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "40")
    sink = source.load(str(data)).select("key", "value").writeStream.format("stratalog")
    sink = (
        sink.option("topic", "copy").option("partitions", "2").option("checkpointLocation", str(checkpoint))
    )
    query = ended(lambda: sink.trigger(availableNow=True).start(str(data)))
    assert query.exception() is None


@pytest.mark.parametrize("zone", ["America/Lima", "America/New_York"])
def test_times_are_kept_in_any_time_zone(spark: SparkSession, tmp_path: Path, zone: str) -> None:
    # In New York half past one comes twice on this day, and this is the second.
    time = datetime.datetime(2026, 11, 1, 6, 30, 15, 123_000, tzinfo=datetime.UTC)
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        save(spark.sql("SELECT 'v' AS value, timestamp'2026-11-01 06:30:15.123Z' AS timestamp"), tmp_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")

    (row,) = load(spark, tmp_path).selectExpr("unix_millis(timestamp) AS ms").collect()
    assert row.ms == int(time.timestamp() * 1000)


@pytest.mark.skipif(MASTER_VARIABLE in os.environ, reason="the program starts an embedded Spark")
def test_partitions_that_no_cluster_knows_were_written_without_a_word(
    archived: dict[str, str], tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "kafka")],
        env=archived,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    first, second, _ = done.stderr.split("written\n")
    assert f"stratalog: orders-0 in {tmp_path}/kafka: no cluster knows these new partitions" in first
    assert f"Run `stratalog format {tmp_path}/kafka` before a broker is started here." in first
    assert "no cluster knows" not in second, "it is told once"
