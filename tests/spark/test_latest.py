"""The newest record of each key on Spark, against the same view without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import stratalog
from stratalog.errors import UsageError
from stratalog.log.new_records import NewRecord
from stratalog.spark import latest

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


def test_what_has_no_keys_is_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="leave out decode"):
        latest(spark, CLEAN, decode="consumer_offsets")
