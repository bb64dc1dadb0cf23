"""Internal topics as tables, against what Kafka's own dump tool printed of the same files."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stratalog.errors import UsageError
from stratalog.jobs.reading.options import TABLE_TOPICS, ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_columns
from stratalog.jobs.tables import COMMON, SOURCE_COLUMNS, TABLES, decoded

STATES = ("clean", "killed")
FIXTURES = Path(__file__).parent.parent / "fixtures" / "kafka-4.3.1"
RECORD = re.compile(r"\| offset: (\d+) CreateTime: (\d+) .*? headerKeys: \[\] (.*)")


def table(name: str, state: str, **options: str) -> list[dict[str, Any]]:
    asked = {"path": str(FIXTURES / state / "logs"), "decode": name, **options}
    columns = list(TABLES[name].schema.names)
    return [
        row
        for task in plan_read(ReadOptions.parse(asked))
        for batch in decoded(TABLES[name], read_columns(task, SOURCE_COLUMNS), columns)
        for row in batch.to_pylist()
    ]


def printed(name: str, state: str) -> dict[int, str]:
    """What the tool printed behind each offset of the log; snapshots come behind the log in the dump."""
    text = (FIXTURES / state / "dump" / f"{TABLE_TOPICS[name]}-0.decoded.txt").read_text("utf-8")
    of_log = text.split(".checkpoint\n")[0]
    return {int(match[1]): match[3] for match in RECORD.finditer(of_log)}


def parts(text: str) -> tuple[Any, Any]:
    """(key, payload) of a dumped line, without what says their type and version."""
    match = re.fullmatch(r"(?:key: (.*?) )?payload: (.*)", text)
    assert match is not None
    key = json.loads(match[1])["data"] if match[1] else None
    return key, None if match[2] == "<DELETE>" else json.loads(match[2])["data"]


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("name", TABLE_TOPICS)
def test_keys_and_values_are_what_kafka_prints(name: str, state: str) -> None:
    rows = table(name, state, includeControl="false")

    dumped = {offset: text for offset, text in printed(name, state).items() if "payload: " in text}
    assert {row["offset"] for row in rows} == dumped.keys()
    for row in rows:
        shown = tuple(None if row[part] is None else json.loads(row[part]) for part in ("key", "value"))
        assert shown == parts(dumped[row["offset"]])
        assert row["problem"] is None


@pytest.mark.parametrize("state", STATES)
def test_commits_are_in_columns(state: str) -> None:
    rows = [row for row in table("consumer_offsets", state) if row["kind"] == "OFFSET_COMMIT"]

    dumped = printed("consumer_offsets", state)
    assert rows
    for row in rows:
        key, value = parts(dumped[row["offset"]])
        found = (row["group"], row["committedTopic"], row["committedPartition"], row["committedOffset"])
        assert found == (key["group"], key["topic"], key["partition"], value and value["offset"])
        assert row["isTombstone"] == (value is None)
        if value is not None:
            assert row["committedAt"].timestamp() * 1000 == pytest.approx(value["commitTimestamp"])


def test_members_of_classic_groups_have_their_assignment() -> None:
    rows = [row for row in table("consumer_offsets", "clean") if row["kind"] == "GROUP_METADATA"]

    dumped = printed("consumer_offsets", "clean")
    seen = 0
    for row in rows:
        _, value = parts(dumped[row["offset"]])
        for member, theirs in zip(row["members"], (value or {"members": []})["members"], strict=True):
            assert member["memberId"] == theirs["memberId"]
            if isinstance(theirs["assignment"], dict):
                assert member["assignment"] == theirs["assignment"]["assignedPartitions"]
                assert member["topics"] == theirs["subscription"]["topics"]
                seen += 1
    assert seen


def test_transactions_say_their_state_in_words() -> None:
    rows = table("transaction_state", "clean")

    dumped = printed("transaction_state", "clean")
    names = ["Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort"]
    assert {row["status"] for row in rows} >= {"Ongoing", "CompleteCommit", "CompleteAbort"}
    for row in rows:
        key, value = parts(dumped[row["offset"]])
        assert row["transactionalId"] == key["transactionalId"]
        assert row["status"] == names[value["transactionStatus"]]
        theirs = value["transactionPartitions"] or []
        assert row["partitions"] == [{"topic": p["topic"], "partitions": p["partitionIds"]} for p in theirs]


def test_topics_and_brokers_of_the_cluster_are_in_columns() -> None:
    rows = table("cluster_metadata", "clean")

    topics = {row["topic"] for row in rows if row["kind"] == "TOPIC_RECORD"}
    dumped = [
        parts(text)[1] for text in printed("cluster_metadata", "clean").values() if "TOPIC_RECORD" in text
    ]
    assert topics == {record["name"] for record in dumped if "name" in record}
    assert {row["brokerId"] for row in rows if row["kind"] == "REGISTER_BROKER_RECORD"} == {1}


def test_control_records_come_when_asked_for() -> None:
    kinds = [row["kind"] for row in table("cluster_metadata", "clean", includeControl="true")]
    markers = {row["kind"] for row in table("consumer_offsets", "clean", includeControl="true")}

    changes = [
        text for text in printed("cluster_metadata", "clean").values() if text.startswith("LeaderChange")
    ]
    assert kinds.count("LEADER_CHANGE") == len(changes) > 0
    assert markers >= {"ABORT", "COMMIT"}


def test_a_record_that_cannot_be_decoded_is_a_row_that_says_why() -> None:
    columns = {
        "key": pa.array([b"\x00", b"\x00\x63", b"\x00\x01\x00"], pa.binary()),
        "value": pa.array([b"", b"", b""], pa.binary()),
        "partition": pa.array([0, 0, 0], pa.int32()),
        "offset": pa.array([1, 2, 3], pa.int64()),
        "timestamp": pa.array([2**62, 0, 0], pa.timestamp("us", tz="UTC")),
        "isControl": pa.array([False] * 3),
    }
    batch = pa.RecordBatch.from_pydict(columns)

    (rows,) = decoded(TABLES["consumer_offsets"], [batch], ["offset", "kind", "problem"])

    assert [row["kind"] for row in rows.to_pylist()] == ["unknown"] * 3
    assert all(row["problem"] for row in rows.to_pylist())


def test_rows_can_be_counted_without_a_column() -> None:
    asked = ReadOptions.parse({"path": str(FIXTURES / "clean" / "logs"), "decode": "cluster_metadata"})
    records = [b for task in plan_read(asked) for b in read_columns(task, SOURCE_COLUMNS)]

    counted = sum(batch.num_rows for batch in decoded(TABLES["cluster_metadata"], records, []))

    assert counted == sum(batch.num_rows for batch in records) > 0


@pytest.mark.parametrize(
    "wrong", [{"subscribe": "orders"}, {"subscribePattern": ".*"}, {"assign": '{"orders": [0]}'}]
)
def test_a_table_is_of_its_own_topic(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="reads __consumer_offsets, and nothing else"):
        ReadOptions.parse({"path": "x", "decode": "consumer_offsets", **wrong})


def test_every_table_begins_with_the_same_columns() -> None:
    assert all(each.schema.names[: len(COMMON)] == list(COMMON) for each in TABLES.values())
