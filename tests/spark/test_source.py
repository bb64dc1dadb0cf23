"""The data source in a plain session: found without registering, pruned by its schema, errors in words."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StructType

import stratalog
from stratalog.errors import UsageError
from stratalog.spark.source import checked_columns

FIXTURES = Path(__file__).parent.parent / "fixtures"
CLEAN = str(FIXTURES / "kafka-4.3.1" / "clean" / "logs")
CODECS_COUNT, TXN_COUNT = 120, 50  # records of these topics, by their dumps


def test_a_plain_session_finds_the_source(spark: SparkSession) -> None:
    frame = spark.read.format("stratalog").option("subscribe", "codecs").load(CLEAN)

    assert frame.columns == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert frame.count() == CODECS_COUNT


def test_several_directories_are_one_frame(spark: SparkSession, log_dir: Path) -> None:
    frame = spark.read.format("stratalog").option("subscribe", "codecs,orders").load([CLEAN, str(log_dir)])

    assert {row.topic: row["count"] for row in frame.groupBy("topic").count().collect()} == {
        "codecs": CODECS_COUNT,
        "orders": 100,
    }


def test_a_schema_prunes_columns(spark: SparkSession, log_dir: Path) -> None:
    frame = spark.read.format("stratalog").schema("offset bigint, value binary").load(str(log_dir))

    assert frame.orderBy("offset").first() == (0, b"value 0")


def test_a_schema_may_say_not_null(spark: SparkSession, log_dir: Path) -> None:
    frame = spark.read.format("stratalog").schema("offset bigint not null").load(str(log_dir))

    assert frame.agg({"offset": "max"}).first()[0] == 99


def test_rows_are_counted_without_any_column(spark: SparkSession) -> None:
    frame = spark.read.format("stratalog").schema(StructType([])).option("subscribe", "txn").load(CLEAN)

    assert frame.count() == TXN_COUNT


def test_a_table_can_be_made_of_it(spark: SparkSession) -> None:
    spark.sql(f"CREATE TEMPORARY VIEW logs USING stratalog OPTIONS (path '{CLEAN}', subscribe 'txn')")

    assert spark.sql("SELECT count(*) FROM logs").first()[0] == TXN_COUNT
    spark.catalog.dropTempView("logs")


@pytest.mark.parametrize(
    "definition",
    [
        "USING stratalog OPTIONS (path '{path}', subscribe 'txn')",
        "USING stratalog LOCATION '{path}'",
        "USING stratalog",
        "(value binary) USING stratalog OPTIONS (path '{path}')",
    ],
)
def test_create_table_says_what_works_instead(spark: SparkSession, definition: str) -> None:
    """Spark makes the last one, and then reads it without any option."""
    spark.sql("DROP TABLE IF EXISTS made")

    with pytest.raises(AnalysisException, match="Use CREATE TEMPORARY VIEW name USING stratalog OPTIONS"):
        create_and_read(spark, f"CREATE TABLE made {definition.format(path=CLEAN)}")

    spark.sql("DROP TABLE IF EXISTS made")


def create_and_read(spark: SparkSession, definition: str) -> None:
    spark.sql(definition)
    spark.sql("SELECT * FROM made").collect()


def test_a_log_without_records_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    stratalog.open_log(tmp_path / "empty-0", create=True).close()

    assert spark.read.format("stratalog").load(str(tmp_path)).collect() == []


@pytest.mark.parametrize(
    ("path", "options", "says"),
    [
        ("/nowhere/at/all", {}, "/nowhere/at/all does not exist. Give the path of a Kafka log directory"),
        (CLEAN, {"subscribe": "orders"}, "subscribe names orders, which is not in"),
        (CLEAN, {"subscrbe": "codecs"}, "there is no option subscrbe: did you mean subscribe?"),
        (CLEAN, {"kafka.bootstrap.servers": "x"}, "no client is used here"),
        (
            CLEAN,
            {"subscribe": "trimmed", "startingOffsets": '{"trimmed": {"0": 3}}'},
            "has no offset 3; its offsets begin at 17 and end before 30",
        ),
    ],
)
def test_bad_input_is_an_error_on_the_driver(
    spark: SparkSession, path: str, options: dict[str, str], says: str
) -> None:
    with pytest.raises(AnalysisException) as caught:
        spark.read.format("stratalog").options(**options).load(path).count()

    assert says in str(caught.value)


def test_a_column_that_is_there_twice_is_refused() -> None:
    twice = StructType().add("offset", LongType()).add("value", BinaryType()).add("offset", LongType())

    with pytest.raises(UsageError, match="has the column offset more than once"):
        checked_columns(twice)


def test_a_column_of_another_type_is_refused(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="the column value is binary, not string"):
        spark.read.format("stratalog").schema("value string").load(CLEAN).count()


def test_a_corrupt_batch_reaches_the_driver_with_file_offset_and_remedy(
    spark: SparkSession, log_dir: Path
) -> None:
    log = next((log_dir / "orders-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    data[70] ^= 0xFF  # in the record of the first batch
    log.write_bytes(data)
    reader = spark.read.format("stratalog")

    with pytest.raises(PythonException) as caught:
        reader.load(str(log_dir)).count()
    for part in (str(log.name), "at byte 0", "from offset 0 on", "onCorruption=skip"):
        assert part in str(caught.value)
    assert reader.option("onCorruption", "skip").load(str(log_dir)).count() == 99


def test_a_file_that_cannot_be_read_is_named(spark: SparkSession, log_dir: Path) -> None:
    log = next((log_dir / "orders-0").glob("*.log"))
    frame = spark.read.format("stratalog").load(str(log_dir))
    assert frame.count() == 100
    log.unlink()
    log.symlink_to(log.name)  # to itself: a missing permission would not keep root from reading

    with pytest.raises(PythonException) as caught:
        frame.count()

    assert f"{log}: could not open it: Too many levels of symbolic links." in str(caught.value)


def test_a_frame_sees_the_log_as_it_was_planned(spark: SparkSession, log_dir: Path) -> None:
    frame = spark.read.format("stratalog").load(str(log_dir))
    assert frame.count() == 100

    with stratalog.open_log(log_dir / "orders-0") as log:
        log.append(b"later")

    assert frame.count() == 100
    assert spark.read.format("stratalog").load(str(log_dir)).count() == 101


def test_a_frame_whose_log_is_gone_says_so(spark: SparkSession, log_dir: Path) -> None:
    frame = spark.read.format("stratalog").load(str(log_dir))
    assert frame.count() == 100
    shutil.rmtree(log_dir / "orders-0")

    with pytest.raises(PythonException, match=r"were in .* when this read was planned"):
        frame.count()


def test_importing_the_found_package_is_light_and_never_fails() -> None:
    script = """
import sys
sys.modules["pyspark"] = None
import pyspark_stratalog
print(sorted({"numpy", "numba", "pyarrow"} & set(sys.modules)), hasattr(pyspark_stratalog, "DefaultSource"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert done.stdout == "[] False\n"
