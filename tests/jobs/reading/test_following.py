"""A stream without Spark: what its triggers read while a log grows, rolls, is deleted and created again."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import stratalog
from stratalog.errors import OffsetOutOfRangeError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry
from stratalog.files.entries import Path as FilePath
from stratalog.jobs.reading.following import Follower
from stratalog.jobs.reading.options import ReadOptions
from stratalog.log.api.partition_log import PartitionLog
from stratalog.records.control import ControlType
from tests.fixtures.catalog import Partition, partitions
from tests.jobs.reading.streaming import SMALL_SEGMENTS, Stream, append
from tests.jobs.reading.test_read import as_row, committed, kafka_rows
from tests.log.model import append_marker, produced


def test_each_trigger_reads_what_came_since_the_last(log: PartitionLog, tmp_path: Path) -> None:
    before = append(log, *range(100))
    stream = Stream(tmp_path)

    assert stream.values() == before
    assert stream.values() == []
    assert append(log, *range(100, 200)) == stream.values()
    assert len(list((tmp_path / "orders-0").glob("*.log"))) > 5


def test_a_stream_begins_at_the_latest_offset_unless_told(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(30))
    stream = Stream(tmp_path, startingOffsets="latest")
    later = append(log, 30, 31)

    assert stream.values() == later


def test_a_stream_begins_where_it_is_told(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(30))

    assert Stream(tmp_path, startingOffsets='{"orders": {"0": 12}}').values() == values[12:]
    with pytest.raises(OffsetOutOfRangeError, match="no offset 31; its offsets begin at 0 and end before 30"):
        Stream(tmp_path, startingOffsets='{"orders": {"0": 31}}')


class PartitionComes(Disk):
    """A disk on which a partition is made when the directory was listed for the first time."""

    def __init__(self, partition: Path) -> None:
        super().__init__()
        self._partition = partition

    def list_directory(self, path: FilePath) -> list[DirectoryEntry]:
        entries = super().list_directory(path)
        if not self._partition.exists():
            stratalog.open_log(self._partition, create=True).close()
        return entries


def test_a_partition_that_comes_while_a_stream_begins_is_named(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(30))
    asked = {"path": str(tmp_path), "startingOffsets": '{"orders": {"0": 12}}'}
    follower = Follower(
        ReadOptions.parse(asked, streaming=True), disk=PartitionComes(tmp_path / "orders-1"), cores=2
    )

    with pytest.raises(UsageError, match="startingOffsets does not name orders-1"):
        follower.initial()


@pytest.mark.usefixtures("log")
def test_a_topic_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="subscribe names bills, which is not in"):
        Stream(tmp_path, subscribe="bills")


def test_a_trigger_reads_the_same_after_a_restart(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(50))
    stream = Stream(tmp_path)
    end = stream.end(at_most=33)
    before = stream.read(end)

    stream.restart()
    append(log, *range(50, 90))

    assert stream.read(end) == before
    assert [row["value"] for row in before] == values[:33]


def test_no_trigger_reads_more_than_its_limit(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(100))
    stream = Stream(tmp_path)

    read = [stream.values(at_most=30) for _ in range(5)]

    assert [len(each) for each in read] == [30, 30, 30, 10, 0]
    assert [value for each in read for value in each] == values


def test_a_trigger_waits_for_enough_records_or_for_its_time(log: PartitionLog, tmp_path: Path) -> None:
    stream = Stream(tmp_path, maxTriggerDelay="10s")
    stream.values(at_least=20)
    values = append(log, *range(19))
    assert stream.values(at_least=20) == []

    values += append(log, 19)
    assert stream.values(at_least=20) == values

    values = append(log, 20)
    stream.clock.now_ms += 9999
    assert stream.values(at_least=20) == []
    stream.clock.now_ms += 1
    assert stream.values(at_least=20) == values


def test_a_stream_with_an_end_does_not_go_past_it(log: PartitionLog, tmp_path: Path) -> None:
    values = append(log, *range(50))
    stream = Stream(tmp_path)
    stream.follower.end_here()
    append(log, *range(50, 90))
    stratalog.open_log(tmp_path / "orders-1", create=True).close()

    assert [stream.values(at_most=40, at_least=45) for _ in range(3)] == [values[:40], values[40:], []]
    assert stream.end() == stream.checkpoint


def test_latest_of_a_stream_with_an_end_is_that_end(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(5))
    stream = Stream(tmp_path, startingOffsets="latest")
    stream.follower.end_here()
    append(log, 5)

    stream.checkpoint = json.dumps(stream.follower.initial().to_json())

    assert json.loads(stream.checkpoint)["orders"] == {"0": 5}
    assert stream.values() == []


def test_a_new_partition_is_read_from_its_beginning(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(5))
    stream = Stream(tmp_path, startingOffsets="latest")

    with stratalog.open_log(tmp_path / "orders-1", create=True) as other:
        values = append(other, 1, 2, 3)
        assert stream.values() == values
    assert json.loads(stream.checkpoint)["orders"] == {"0": 5, "1": 3}


def test_how_far_behind_a_stream_is_can_be_told(log: PartitionLog, tmp_path: Path) -> None:
    append(log, *range(50))
    stream = Stream(tmp_path)
    stream.trigger(at_most=10)

    assert stream.follower.latest().to_json()["orders"] == {"0": 50}


def test_committed_records_come_when_their_transaction_is_decided(log: PartitionLog, tmp_path: Path) -> None:
    stream = Stream(tmp_path, isolation="read_committed")
    values = append(log, 0, 1)
    log.log.append_as_leader(produced(1, 0, b"kept", transactional=True), leader_epoch=0)
    log.log.append_as_leader(produced(2, 0, b"dropped", transactional=True), leader_epoch=0)
    after = append(log, 2)
    assert stream.values() == values

    append_marker(log.log, 2, ControlType.ABORT)
    assert stream.values() == []
    append_marker(log.log, 1, ControlType.COMMIT)

    assert stream.values() == [b"kept", *after]


def test_a_range_with_nothing_but_aborted_records_passes(log: PartitionLog, tmp_path: Path) -> None:
    stream = Stream(tmp_path, isolation="read_committed")
    log.log.append_as_leader(produced(1, 0, b"a", b"b", transactional=True), leader_epoch=0)
    append_marker(log.log, 1, ControlType.ABORT)

    assert [stream.values(at_most=1) for _ in range(3)] == [[], [], []]
    assert append(log, 3) == stream.values()


@pytest.mark.parametrize("partition", partitions("4.3.1", "killed"), ids=str)
@pytest.mark.parametrize("step", [3, 1000])
def test_in_steps_a_stream_reads_what_kafka_says_is_committed(partition: Partition, step: int) -> None:
    expected = [as_row(record) for _, record in committed(list(kafka_rows(partition)))]
    stream = Stream(partition.path, isolation="read_committed")

    rows: list[dict[str, Any]] = []
    while (end := stream.end(at_most=step)) != stream.checkpoint:
        rows += stream.read(end)
        stream.checkpoint = end

    assert [(row["offset"], row["value"]) for row in rows] == [
        (row["offset"], row["value"]) for row in expected
    ]


class Running(RuleBasedStateMachine):
    """A writer and a stream in turns: whatever happens in between, every record is read once and in order."""

    @initialize()
    def start(self) -> None:
        self.home = Path(tempfile.mkdtemp())
        self.logs: list[PartitionLog] = []
        self.appended: list[list[bytes]] = []
        self.read: list[list[bytes]] = []
        self.count = 0
        self.add_partition()
        self.stream = Stream(self.home)

    @rule()
    def add_partition(self) -> None:
        if len(self.logs) < 3:
            path = self.home / f"orders-{len(self.logs)}"
            self.logs.append(stratalog.open_log(path, create=True, config=SMALL_SEGMENTS))
            self.appended.append([])
            self.read.append([])

    @rule(partition=st.integers(0, 2), count=st.integers(1, 30))
    def write(self, partition: int, count: int) -> None:
        partition %= len(self.logs)
        self.appended[partition] += append(self.logs[partition], *range(self.count, self.count + count))
        self.count += count

    @rule(partition=st.integers(0, 2))
    def retain_what_was_read(self, partition: int) -> None:
        partition %= len(self.logs)
        self.logs[partition].delete_records(len(self.read[partition]))

    @rule(limit=st.none() | st.integers(1, 40), fails=st.booleans())
    def trigger(self, limit: int | None, fails: bool) -> None:
        end = self.stream.end(at_most=limit)
        rows = self.stream.read(end)
        if fails:
            self.stream.restart()
            assert self.stream.read(end) == rows
        self.stream.checkpoint = end
        for row in rows:
            self.read[row["partition"]].append(row["value"])

    @rule()
    def restart(self) -> None:
        self.stream.restart()

    @invariant()
    def each_record_is_read_once_and_in_order(self) -> None:
        for appended, read in zip(self.appended, self.read, strict=True):
            assert read == appended[: len(read)]

    def teardown(self) -> None:
        self.trigger(None, False)
        assert self.read == self.appended
        for log in self.logs:
            log.close()
        shutil.rmtree(self.home)


TestRunning = Running.TestCase
TestRunning.settings = settings(stateful_step_count=30)
