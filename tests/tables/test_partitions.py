"""Partitions with their offsets, sizes and times, and the lag of groups, by Kafka's classes and dump tool."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog import tables
from stratalog.errors import UsageError
from stratalog.log.new_records import NewRecord
from tests.fixtures.catalog import partitions
from tests.jobs.reading.making import kafka_rows
from tests.tables.dumped import LOGS, dumped_commits

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def rows_of(logs: Path | str) -> dict[str, dict[str, Any]]:
    rows = tables.partitions(logs).to_table().to_pylist()
    return {f"{row['topic']}-{row['partition']}": row for row in rows}


@pytest.mark.parametrize("release", ["4.3.1", "3.9.2", "2.8.2"])
def test_offsets_sizes_and_times_are_those_of_the_records(release: str) -> None:
    known = partitions(release, "clean")
    found = rows_of(known[0].path.parent)

    assert set(found) == {each.name for each in known}
    for partition in known:
        row, batches = found[partition.name], list(kafka_rows(partition))
        offsets = [record["offset"] for _, record in batches]
        times = [record["timestamp"] for _, record in batches if record["timestamp"] >= 0]
        assert row["endOffset"] == row["stableOffset"] == offsets[-1] + 1
        assert row["startOffset"] <= offsets[0]
        assert (row["size"], row["segments"]) == (
            sum(log.stat().st_size for log in partition.logs),
            len(partition.logs),
        )
        expected = EPOCH + timedelta(milliseconds=max(times)) if times else None
        assert row["largestTimestamp"] == expected
        assert row["firstTimestamp"] == (EPOCH + timedelta(milliseconds=times[0]) if times else None)
        assert (row["directory"], row["problem"]) == (str(partition.path), None)


def test_a_log_that_was_trimmed_begins_where_it_was() -> None:
    row = rows_of(LOGS)["trimmed-0"]

    assert (row["startOffset"], row["endOffset"]) == (17, 30)


def test_an_open_transaction_holds_the_stable_offset() -> None:
    """A transaction with the offsets 65 to 67 was open when the broker was killed, by the dump."""
    row = rows_of(Path(LOGS).parent.parent / "killed" / "logs")["txn-0"]

    assert (row["stableOffset"], row["endOffset"]) == (65, 70)


def test_damage_is_told_and_hides_only_what_it_touches(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(Path(LOGS) / "rolled-0", tmp_path / "rolled-0"))
    log = sorted(copy.glob("*.log"))[1]
    data = bytearray(log.read_bytes())
    data[8:12] = b"\xff\xff\xff\xff"
    log.write_bytes(data)
    for snapshot in copy.glob("*.snapshot"):
        snapshot.unlink()

    row = rows_of(tmp_path)["rolled-0"]

    assert (row["startOffset"], row["endOffset"], row["segments"]) == (0, 80, 5)
    assert row["stableOffset"] is None
    assert row["problem"].startswith(f"{log.name} at byte 0: a batch of magic 2 cannot have the length -1")


def test_an_end_that_is_damaged_below_a_checkpoint_is_unknown(tmp_path: Path) -> None:
    copy = Path(shutil.copytree(Path(LOGS).parent.parent / "killed" / "logs", tmp_path / "logs"))
    log = max(copy.glob("rolled-0/*.log"))
    end = rows_of(copy)["rolled-0"]["endOffset"]
    os.truncate(log, log.stat().st_size - 1)
    (copy / "recovery-point-offset-checkpoint").write_text(f"0\n1\nrolled 0 {end}\n")

    row = rows_of(copy)["rolled-0"]

    assert (row["endOffset"], row["stableOffset"]) == (None, None)
    assert f"the checkpoints say that the log reached offset {end}" in row["problem"]


def test_the_lag_is_the_distance_to_the_end() -> None:
    ends = {name: row["endOffset"] for name, row in rows_of(LOGS).items()}
    rows = tables.lag(LOGS).to_table().to_pylist()

    found = {(row["group"], row["topic"], row["partition"], row["committedOffset"]) for row in rows}
    assert found == dumped_commits()
    for row in rows:
        assert row["lag"] == ends[f"{row['topic']}-{row['partition']}"] - row["committedOffset"]


def test_a_time_beyond_all_calendars_is_shown(tmp_path: Path) -> None:
    """A producer that gives microseconds or nanoseconds where Kafka has milliseconds."""
    shutil.copytree(Path(LOGS) / "__consumer_offsets-0", tmp_path / "__consumer_offsets-0")
    times = {"micros-0": 1_700_000_000_000_000, "nanos-0": 1_700_000_000_000_000_000}
    for name, time in times.items():
        with stratalog.open_log(
            tmp_path / name, create=True, config={"message.timestamp.after.max.ms": 2**63 - 1}
        ) as log:
            log.append_many([NewRecord(b"value", b"key", (), time)])

    table = tables.partitions(tmp_path).to_table()

    moments = table["largestTimestamp"].cast("int64").to_pylist()
    found = dict(zip(table["topic"].to_pylist(), moments, strict=True))
    assert found["micros"] == times["micros-0"] * 1000
    assert found["nanos"] == (2**63 - 1) // 1000 * 1000
    assert tables.lag(tmp_path).to_table().num_rows == len(dumped_commits())


def test_a_partition_that_is_elsewhere_has_no_lag(tmp_path: Path) -> None:
    shutil.copytree(Path(LOGS) / "__consumer_offsets-0", tmp_path / "__consumer_offsets-0")

    rows = tables.lag(tmp_path).to_table().to_pylist()

    assert {row["lag"] for row in rows} == {row["endOffset"] for row in rows} == {None}
    assert len(rows) == len(dumped_commits())


def test_a_scan_of_partitions_is_read_again_each_time(tmp_path: Path) -> None:
    with stratalog.open_log(tmp_path / "orders-0", create=True) as log:
        log.append_many([NewRecord(b"value", b"key", (), 5000)])
    scan = tables.partitions(tmp_path)
    assert scan.to_table()["endOffset"].to_pylist() == [1]

    with stratalog.open_log(tmp_path / "orders-0") as log:
        log.append(b"value")

    assert scan.to_table()["endOffset"].to_pylist() == [2]


def test_a_wrong_path_is_refused_at_the_call(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        tables.partitions(tmp_path / "nowhere")
    with pytest.raises(UsageError, match="does not exist"):
        tables.lag(tmp_path / "nowhere")
