"""Internal topics as DataFrames, and what holds now in them, by the word of Kafka's dump tool."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from stratalog.spark import tables
from stratalog.spark.frames import read
from tests.tables.dumped import (
    FIXTURE,
    LOGS,
    dumped_commits,
    dumped_groups,
    dumped_members,
    dumped_transactions,
)


def test_every_record_is_a_row(spark: SparkSession) -> None:
    frame = spark.read.format("stratalog").option("decode", "consumer_offsets").load(LOGS)

    text = (FIXTURE / "dump" / "__consumer_offsets-0.decoded.txt").read_text("utf-8")
    assert frame.count() == text.count(" payload: ")
    assert "unknown" not in {row.kind for row in frame.select("kind").distinct().collect()}


def test_columns_are_chosen_by_a_schema(spark: SparkSession) -> None:
    reader = spark.read.format("stratalog").option("decode", "cluster_metadata")

    frame = reader.schema("kind string, topic string").load(LOGS).where("kind = 'TOPIC_RECORD'")

    assert "codecs" in {row.topic for row in frame.collect()}
    assert read(spark, LOGS, decode="cluster_metadata", columns=["kind"]).columns == ["kind"]


def test_commits_are_those_that_a_coordinator_would_load(spark: SparkSession) -> None:
    found = {
        (row.group, row.topic, row.partition, row.offset) for row in tables.commits(spark, LOGS).collect()
    }

    assert found == dumped_commits()


def test_groups_of_each_protocol_are_told_apart(spark: SparkSession) -> None:
    found = {(row.group, row.type, row.generation) for row in tables.groups(spark, LOGS).collect()}

    assert {kind for _, kind, _ in found} >= {"classic", "consumer", "share"}
    assert found == dumped_groups()


def test_members_are_rows(spark: SparkSession) -> None:
    found = {(row.group, row.memberId, row.clientId) for row in tables.members(spark, LOGS).collect()}

    assert found == dumped_members()


def test_transactions_are_where_their_last_record_says(spark: SparkSession) -> None:
    found = {row.transactionalId: row.producerId for row in tables.transactions(spark, LOGS).collect()}

    assert found == dumped_transactions()


def test_partitions_and_the_lag_of_groups_are_tables(spark: SparkSession) -> None:
    ends = {row.topic: row.endOffset for row in tables.partitions(spark, LOGS).collect()}
    behind = tables.lag(spark, LOGS).collect()

    assert (ends["codecs"], ends["trimmed"]) == (120, 30)
    assert {(row.group, row.topic, row.partition, row.committedOffset) for row in behind} == dumped_commits()
    assert all(row.lag == ends[row.topic] - row.committedOffset for row in behind)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"decode": "consumer_offset"}, "use one of consumer_offsets, transaction_state, cluster_metadata"),
        ({"decode": "consumer_offsets", "subscribe": "codecs"}, "reads only __consumer_offsets"),
    ],
)
def test_bad_options_are_told_in_words(spark: SparkSession, options: dict[str, str], says: str) -> None:
    with pytest.raises(AnalysisException, match=says):
        spark.read.format("stratalog").options(**options).load(LOGS).count()


def test_a_column_that_the_table_has_not_is_told(spark: SparkSession) -> None:
    reader = spark.read.format("stratalog").option("decode", "transaction_state")

    with pytest.raises(AnalysisException, match="transaction_state has no column topic; it has partition"):
        reader.schema("topic string").load(LOGS).count()
