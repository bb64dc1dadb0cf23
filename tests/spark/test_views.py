"""A view for each topic that a query names, with the columns that it can need."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from stratalog.errors import UsageError
from stratalog.jobs.reading.options import KAFKA_COLUMNS
from stratalog.spark.views import RECORDS, make_views, needed_columns, topics_of, view_names

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs" / "spark.md"
CLEAN = str(ROOT / "tests" / "fixtures" / "kafka-4.3.1" / "clean" / "logs")


@pytest.mark.parametrize(
    ("query", "columns"),
    [
        ("SELECT count(*) FROM orders", ()),
        ("select count( * ), max(offset) from orders", ("offset",)),
        ("SELECT CAST(value AS STRING) v FROM orders WHERE `partition` = 1", ("value", "partition")),
        ("WITH a AS (SELECT Offset FROM orders) SELECT max(offset) FROM a", ("offset",)),
        ("SELECT * FROM orders", KAFKA_COLUMNS),
        ("SELECT o.* FROM orders o", KAFKA_COLUMNS),
        ("SELECT offset * 2 FROM orders", KAFKA_COLUMNS),
        ("FROM orders |> SELECT offset", KAFKA_COLUMNS),
        ("SELECT offset FROM a UNION FROM b", KAFKA_COLUMNS),
        ("TABLE orders", KAFKA_COLUMNS),
        ("DESCRIBE orders", KAFKA_COLUMNS),
        ("SELECT a.offset FROM a NATURAL JOIN b", KAFKA_COLUMNS),
        ("SELECT offset FROM a PIVOT (max(offset) FOR partition IN (1, 2))", KAFKA_COLUMNS),
    ],
)
def test_a_query_reads_the_columns_that_it_can_need(query: str, columns: tuple[str, ...]) -> None:
    assert set(needed_columns(query, KAFKA_COLUMNS)) == set(columns)


def test_a_view_is_made_for_what_a_query_names() -> None:
    topics = ["orders", "other", "__consumer_offsets", "__cluster_metadata"]

    assert view_names("SELECT 1 FROM Orders JOIN kafka_commits", topics) == ["orders", "kafka_commits"]
    assert view_names("SELECT 1 FROM kafka_transactions", topics) == []
    assert view_names("SELECT value.other FROM orders", [*topics, "order"]) == ["orders"]
    assert set(view_names("SHOW TABLES", topics)) == {
        *topics,
        "kafka_records",
        "kafka_commits",
        "kafka_groups",
        "kafka_members",
        "kafka_metadata",
        "kafka_lag",
        "kafka_partitions",
    }


@pytest.mark.parametrize("topic", ["kafka_records", "Kafka_Partitions", "kafka_lag"])
def test_a_topic_does_not_replace_a_view_of_its_name(topic: str) -> None:
    topics = ["orders", topic, "__consumer_offsets"]

    with pytest.raises(UsageError, match=f"{topic} is a topic here, and has the name of a view"):
        view_names(f"SELECT 1 FROM {topic}", topics)
    assert view_names("SELECT 1 FROM orders", topics) == ["orders"]


def test_the_columns_of_the_views_are_those_that_the_page_lists(spark: SparkSession) -> None:
    section = DOCS.read_text().partition("\n## Views\n")[2].partition("\n## ")[0]
    listed = {
        name: re.findall(r"`([^`]+)`", columns)
        for name, columns in re.findall(r"^\| `(kafka_\w+)` \| (.*) \|$", section, re.MULTILINE)
    }
    (of_a_topic,) = re.findall(r"^\| a topic, .*? \| (.*) \|$", section, re.MULTILINE)
    listed["codecs"] = re.findall(r"`([^`]+)`", of_a_topic)
    names = view_names("SHOW TABLES", topics_of([CLEAN]))
    views = [name for name in names if name.startswith("kafka_") and name != RECORDS]

    for name in ["codecs", *views]:
        make_views(spark, [CLEAN], f"SELECT * FROM {name}")
        fields = spark.table(name).schema.fields
        assert [f"{field.name} {field.dataType.simpleString()}" for field in fields] == listed[name], name
