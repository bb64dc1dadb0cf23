"""The helper `read`, which reads only the requested columns and times."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.errors import UsageError
from stratalog.spark import read
from tests.fixtures.records import T0

FIXTURES = Path(__file__).parent.parent / "fixtures"
CLEAN = str(FIXTURES / "kafka-4.3.1" / "clean" / "logs")
CODECS_COUNT, TXN_COUNT = 120, 50  # records of these topics, by their dumps


def test_the_helper_reads_what_is_asked_for(spark: SparkSession, log_dir: Path) -> None:
    since = datetime.datetime.fromtimestamp(T0 / 1000 + 10, datetime.UTC)

    frame = read(spark, log_dir, topics="orders", since=since, until=T0 + 13_000, columns=["offset"])

    assert sorted(row.offset for row in frame.collect()) == [10, 11, 12]
    assert frame.columns == ["offset"]


def test_the_helper_takes_options_and_iso_times(spark: SparkSession) -> None:
    frame = read(spark, CLEAN, topics=["txn"], since="2001-01-01", isolation="read_committed", columns=[])

    assert 0 < frame.count() < TXN_COUNT


def test_the_helper_raises_our_own_errors(spark: SparkSession) -> None:
    for wrong in ({"columns": ["valeu"]}, {"since": "noon"}, {"subscrib": "x"}):
        with pytest.raises(UsageError):
            read(spark, CLEAN, **wrong)  # type: ignore[arg-type]
