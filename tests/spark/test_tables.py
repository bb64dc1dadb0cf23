"""Internal topics as DataFrames, and what holds now in them, by the word of Kafka's dump tool."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from stratalog.spark import tables
from stratalog.spark.frames import read

FIXTURE = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1" / "clean"
LOGS = str(FIXTURE / "logs")


def newest(topic: str, aborted: range = range(0)) -> list[tuple[str, Any, Any]]:
    """(type, key, value) of each key's last record in the dump, without tombstones and aborted records."""
    text = (FIXTURE / "dump" / f"{topic}-0.decoded.txt").read_text("utf-8")
    found = {}
    for line in re.finditer(r"^\| offset: (\d+) .*? key: (.*?) payload: (.*)$", text, re.MULTILINE):
        if int(line[1]) not in aborted:
            found[line[2]] = line[3]
    return [
        (json.loads(key)["type"], json.loads(key)["data"], json.loads(value)["data"])
        for key, value in found.items()
        if value != "<DELETE>"
    ]


def aborted_offsets() -> range:
    """The offsets that a transaction committed and that was aborted, by the batches in the plain dump."""
    text = (FIXTURE / "dump" / "__consumer_offsets-0.txt").read_text("utf-8")
    batches = re.findall(
        r"^baseOffset: (\d+) lastOffset: (\d+) .*? isTransactional: (\w+) isControl: (\w+)", text, re.M
    )
    marker = re.search(r"^\| offset: (\d+) .*endTxnMarker: ABORT", text, re.MULTILINE)
    assert marker is not None
    before = [each for each in batches if each[2:] == ("true", "false") and int(each[1]) < int(marker[1])]
    return range(int(before[-1][0]), int(before[-1][1]) + 1)


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

    assert found == {
        (key["group"], key["topic"], key["partition"], value["offset"])
        for kind, key, value in newest("__consumer_offsets", aborted_offsets())
        if kind == "1"
    }


def test_groups_of_each_protocol_are_told_apart(spark: SparkSession) -> None:
    found = {(row.group, row.type, row.generation) for row in tables.groups(spark, LOGS).collect()}

    types = {"2": "classic", "3": "consumer", "11": "share", "17": "streams"}
    assert {kind for _, kind, _ in found} >= {"classic", "consumer", "share"}
    assert found == {
        (key.get("group", key.get("groupId")), types[kind], value.get("generation", value.get("epoch")))
        for kind, key, value in newest("__consumer_offsets")
        if kind in types
    }


def test_members_are_rows(spark: SparkSession) -> None:
    found = {(row.group, row.memberId, row.clientId) for row in tables.members(spark, LOGS).collect()}

    expected = set()
    for kind, key, value in newest("__consumer_offsets"):
        if kind == "2":
            expected |= {(key["group"], each["memberId"], each["clientId"]) for each in value["members"]}
        elif kind in ("5", "10", "19"):
            expected.add((key["groupId"], key["memberId"], value["clientId"]))
    assert found == expected


def test_transactions_are_where_their_last_record_says(spark: SparkSession) -> None:
    found = {row.transactionalId: row.producerId for row in tables.transactions(spark, LOGS).collect()}

    assert found == {
        key["transactionalId"]: value["producerId"] for _, key, value in newest("__transaction_state")
    }


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
