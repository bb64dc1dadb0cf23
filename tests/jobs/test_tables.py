"""Internal topics as tables, against what Kafka's own dump tool printed of the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import stratalog
from stratalog.errors import UsageError
from stratalog.jobs.metadata_snapshot import plan_table, read_table_task
from stratalog.jobs.reading.options import TABLE_TOPICS, ReadOptions
from stratalog.jobs.reading.plan import plan_read
from stratalog.jobs.reading.read import read_task
from stratalog.jobs.tables import COMMON, SOURCE_COLUMNS, TABLES, decoded
from stratalog.records.control import ControlType
from tests.jobs.decoded import FIXTURES, dumped_parts, parts, table_in
from tests.log.model import append_marker, produced

STATES = ("clean", "killed")


def table(name: str, state: str, **options: str) -> list[dict[str, Any]]:
    return table_in(FIXTURES / state / "logs", name, **options)


def printed(name: str, state: str) -> dict[int, str]:
    """What the tool printed after each offset of the log; snapshots come after the log in the dump."""
    return dumped_parts(name, state)[0]


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


def test_behind_an_open_transaction_committed_records_are_seen_as_a_coordinator_sees_them(
    tmp_path: Path,
) -> None:
    """It loads its topic to the end, and leaves out only undecided records."""
    with stratalog.open_log(tmp_path / "__consumer_offsets-0", create=True) as log:
        for producer_id, value in ((1, b"aborted"), (2, b"open"), (3, b"committed")):
            log.log.append_as_leader(produced(producer_id, 0, value, transactional=True), leader_epoch=0)
        append_marker(log.log, 1, ControlType.ABORT)
        append_marker(log.log, 3, ControlType.COMMIT)
        log.append(b"plain")
        log.log.append_as_leader(produced(2, 1, b"open too", transactional=True), leader_epoch=0)
    asked = {"path": str(tmp_path), "decode": "consumer_offsets", "isolation": "read_committed"}

    tasks = plan_table(ReadOptions.parse(asked))

    batches = [batch for task in tasks for batch in read_table_task(task, ("value",))]
    assert [row["value"] for batch in batches for row in batch.to_pylist()] == [b"committed", b"plain"]


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
    records = [b for task in plan_read(asked) for b in read_task(task, SOURCE_COLUMNS)]

    counted = sum(batch.num_rows for batch in decoded(TABLES["cluster_metadata"], records, []))

    assert counted == sum(batch.num_rows for batch in records) > 0


@pytest.mark.parametrize(
    "wrong", [{"subscribe": "orders"}, {"subscribePattern": ".*"}, {"assign": '{"orders": [0]}'}]
)
def test_a_table_is_of_its_own_topic(wrong: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="reads only __consumer_offsets: leave other topics out"):
        ReadOptions.parse({"path": "x", "decode": "consumer_offsets", **wrong})


def test_every_table_begins_with_the_same_columns() -> None:
    assert all(each.schema.names[: len(COMMON)] == list(COMMON) for each in TABLES.values())
