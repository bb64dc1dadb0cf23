"""The newest record of each key on Spark, against the same view without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.errors import UsageError
from stratalog.jobs.reading.omissions import Omission
from stratalog.log.new_records import NewRecord
from stratalog.spark import latest
from tests.spark.damaged import damaged_log

CLEAN = str(Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean" / "logs")
COLUMNS = ["topic", "partition", "offset", "key", "value"]


@pytest.mark.parametrize("tombstones", [False, True])
@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_it_is_the_view_of_a_scan(spark: SparkSession, tombstones: bool, isolation: str) -> None:
    frame = latest(spark, CLEAN, columns=COLUMNS, tombstones=tombstones, isolation=isolation)
    scan = stratalog.scan(
        CLEAN,
        columns=COLUMNS,
        latest=True,
        tombstones=tombstones,
        isolation=isolation,  # type: ignore[arg-type]
    )

    found = frame.orderBy("topic", "partition", "offset").toArrow().to_pylist()
    assert found == scan.to_table().to_pylist()


def test_columns_that_it_needs_itself_are_not_in_the_result(spark: SparkSession, tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([NewRecord(value, key) for key, value in ((b"a", b"1"), (b"b", None), (b"a", b"2"))])

    frame = latest(spark, tmp_path, columns=["key"])

    assert [row.asDict() for row in frame.collect()] == [{"key": b"a"}]
    assert latest(spark, tmp_path).columns[:2] == ["key", "value"]


@pytest.mark.parametrize("tombstones", [False, True])
@pytest.mark.filterwarnings("ignore::stratalog.OmissionWarning")
def test_what_cannot_be_decoded_is_neither_deleted_nor_without_a_key(
    spark: SparkSession, tmp_path: Path, tombstones: bool
) -> None:
    records = [(b"1", b"{"), (b"\xff", b"2"), (b"3", b"4"), (b"3", None), (b"5", b"6"), (b"\xff", b"7")]
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([NewRecord(value, key) for key, value in records])

    frame = latest(
        spark, tmp_path, columns=COLUMNS, tombstones=tombstones, keyEncoding="utf8", valueEncoding="json"
    )
    scan = stratalog.scan(
        tmp_path, columns=COLUMNS, latest=True, tombstones=tombstones, key="utf8", value="json"
    )

    found = frame.orderBy("offset").toArrow().to_pylist()
    assert found == scan.to_table().to_pylist()
    assert [row["offset"] for row in found] == ([0, 3, 4, 5] if tombstones else [0, 4, 5])


def test_what_is_left_out_is_told_once_although_it_is_read_twice(spark: SparkSession, tmp_path: Path) -> None:
    told: list[Omission] = []

    frame = latest(spark, damaged_log(tmp_path), onCorruption="skip", on_omission=told.append)
    frame.collect()

    assert sorted(each.first_offset for each in told) == [0, 50]


def test_what_has_no_keys_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="leave out decode"):
        latest(spark, CLEAN, decode="consumer_offsets")
