"""open_log: a log in this process, from creating the directory to its clean-shutdown file."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

import stratalog
from stratalog import NewRecord, PartitionLog, open_log
from stratalog.errors import (
    ConfigError,
    CorruptCheckpointError,
    CorruptRecordError,
    DiskError,
    InvalidNameError,
    LogClosedError,
    LogDirLockedError,
    NeedsRecoveryError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    UsageError,
)
from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from stratalog.files.lock import DirectoryLock
from stratalog.records.control import ControlType
from tests.log.model import NOW, ManualClock, ManualScheduler, append_marker, batch, produced

CLEAN, LOCK = ".kafka_cleanshutdown", ".lock"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data" / "orders-3"


@pytest.fixture
def log(directory: Path) -> Iterator[PartitionLog]:
    clock = ManualClock()
    with open_log(directory, create=True, clock=clock, scheduler=ManualScheduler(clock)) as log:
        yield log


def values(found: Iterator[stratalog.ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in found]


def kafka_python_fields() -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the standard library, which it uses
        from kafka.consumer.fetcher import ConsumerRecord
    fields: tuple[str, ...] = ConsumerRecord._fields
    return fields


# Creating, closing, locking


def test_topic_and_partition_are_in_the_directory_s_name(log: PartitionLog, directory: Path) -> None:
    assert (log.topic, log.partition, log.directory) == ("orders", 3, directory)
    assert repr(log) == f"<PartitionLog {directory}: 0 to 0>"


def test_a_directory_is_made_only_on_demand(directory: Path) -> None:
    with pytest.raises(UsageError, match="create=True"):
        open_log(directory)

    assert not directory.parent.exists()


@pytest.mark.parametrize("name", ["orders", "orders-x", "-1", "no spaces-0"])
def test_a_name_that_is_no_partition_s_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidNameError):
        open_log(tmp_path / name, create=True)

    assert list(tmp_path.iterdir()) == []


def test_a_file_is_no_log(tmp_path: Path) -> None:
    (tmp_path / "orders-0").touch()

    with pytest.raises(UsageError, match="not a directory"):
        open_log(tmp_path / "orders-0", create=True)


def test_a_setting_that_kafka_does_not_know_is_refused_and_nothing_created(directory: Path) -> None:
    with pytest.raises(ConfigError, match=r"segment\.size"):
        open_log(directory, create=True, config={"segment.size": 1})

    assert not directory.exists()


def test_a_topic_id_that_is_none_is_refused_and_nothing_created(directory: Path) -> None:
    with pytest.raises(UsageError, match="topic_id"):
        open_log(directory, create=True, topic_id="zz")

    assert not directory.exists()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("orders-00", "the name orders-0"), ("orders-+0", "the name orders-0"), ("orders--1", None)],
)
def test_a_partition_is_created_under_the_name_that_a_broker_gives_it(
    name: str, reason: str | None, tmp_path: Path
) -> None:
    if reason is None:  # partition 1 of the topic `orders-`
        open_log(tmp_path / name, create=True).close()
        return

    with pytest.raises(UsageError, match=reason):
        open_log(tmp_path / name, create=True)

    assert not (tmp_path / name).exists()


def test_the_mark_of_a_clean_close_is_there_only_while_the_log_is_closed(directory: Path) -> None:
    with open_log(directory, create=True) as log:
        log.append(b"a")
        assert not (directory / CLEAN).exists()

    assert json.loads((directory / CLEAN).read_bytes()) == {"version": 0, "brokerEpoch": -1}


def test_a_log_that_was_not_closed_is_recovered(log: PartitionLog, directory: Path) -> None:
    log.append(b"a")
    crashed = directory.with_name("crashed-0")
    shutil.copytree(directory, crashed)
    with open_log(crashed, read_only=True) as view:
        assert values(view.records()) == [b"a"]

    with open_log(crashed) as again:
        assert values(again.records()) == [b"a"]
        assert again.append(b"b") == 1

    assert (crashed / CLEAN).exists()


def test_the_torn_end_of_a_log_is_cut_off_and_kept_beside_it(directory: Path) -> None:
    with open_log(directory, create=True) as log:
        log.append(b"a")
    (directory / CLEAN).unlink()
    file = directory / f"{0:020d}.log"
    whole = file.read_bytes()
    file.write_bytes(whole + whole[:-1])

    with open_log(directory) as log:
        assert values(log.records()) == [b"a"]

    assert file.read_bytes() == whole
    (kept,) = directory.parent.glob("stratalog-quarantine-*.log-*")
    assert kept.read_bytes() == whole[:-1]


def test_a_log_that_is_marked_clean_and_is_not_is_recovered(directory: Path) -> None:
    with open_log(directory, create=True) as log:
        log.append(b"a")
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    (directory / f"{0:020d}.index").unlink()

    open_log(directory).close()

    assert {path.name: path.read_bytes() for path in directory.iterdir()} == before


def test_a_log_is_open_for_one_writer(log: PartitionLog, directory: Path) -> None:
    with pytest.raises(LogDirLockedError):
        open_log(directory)

    log.close()
    open_log(directory).close()


def test_a_closed_log_is_not_used(directory: Path) -> None:
    log = open_log(directory, create=True)
    log.append(b"a")
    log.close()
    log.close()

    for use in (log.records, log.flush, log.tail, lambda: log.append(b"b"), lambda: log.offset_for_time(0)):
        with pytest.raises(LogClosedError):
            use()
    assert repr(log).endswith("closed>")


def test_an_error_in_the_block_still_closes_the_log(directory: Path) -> None:
    def fail() -> None:
        with open_log(directory, create=True) as log:
            log.append(b"a")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    with open_log(directory) as log:
        assert values(log.records()) == [b"a"]


def test_a_log_that_the_disk_has_failed_is_closed_without_the_mark(directory: Path) -> None:
    log = open_log(directory, create=True)
    log.append(b"a")
    shutil.rmtree(directory)

    with pytest.raises(DiskError):
        log.close()

    assert not (directory / CLEAN).exists()


class FailingDisk(Disk):
    """A disk that refuses one step, once, when it is told to."""

    failing = ""

    def _step(self, name: str, path: DiskPath) -> None:
        if self.failing == name and str(path).endswith(".log"):
            self.failing = ""
            raise DiskError(path, "input/output error.", errno.EIO)

    def write_at(self, path: DiskPath, data: Any, position: int) -> None:
        self._step("write_at", path)
        super().write_at(path, data, position)

    def sync(self, path: DiskPath) -> None:
        self._step("sync", path)
        super().sync(path)

    def truncate(self, path: DiskPath, size: int) -> None:
        self._step("truncate", path)
        super().truncate(path, size)


@pytest.mark.parametrize(
    ("step", "change", "is_raised"),
    [
        ("write_at", lambda log: log.append(b"d"), False),
        ("sync", lambda log: log.flush(), True),
        ("truncate", lambda log: log.truncate_to(1), False),
    ],
)
def test_a_disk_that_fails_once_leaves_no_clean_shutdown_file(
    directory: Path, step: str, change: Callable[[PartitionLog], object], is_raised: bool
) -> None:
    """Closing raises what may have cost a record, and nothing else: a sync that failed has lost what it was
    to write, whatever the next one says."""
    disk = FailingDisk()
    log = open_log(directory, create=True, disk=disk)
    for value in (b"a", b"b", b"c"):
        log.append(value)
    disk.failing = step

    with pytest.raises(DiskError, match="input/output"):
        change(log)
    with pytest.raises(DiskError, match="input/output") if is_raised else nullcontext():
        log.close()

    assert not (directory / CLEAN).exists()
    with open_log(directory) as again:
        assert values(again.records())[:1] == [b"a"]


def test_a_flush_that_fails_in_the_background_leaves_no_clean_shutdown_file(directory: Path) -> None:
    disk = FailingDisk()
    log = open_log(directory, create=True, disk=disk)
    log.append(b"a")
    log.log.roll()  # which flushes the rest in a thread of its own, before or while the log is closed
    log.append(b"b")  # that is not on the device yet: closing raises
    disk.failing = "sync"

    with pytest.raises(DiskError, match="input/output"):
        log.close()

    assert not (directory / CLEAN).exists()


def test_a_topic_id_is_written_once_and_never_changed(directory: Path) -> None:
    topic_id = UUID("0959a673-9137-4afa-be3e-d7d9d3ad9c7e")
    with open_log(directory, create=True, topic_id=topic_id) as log:
        assert log.topic_id == topic_id
    assert (directory / "partition.metadata").read_text() == "version: 0\ntopic_id: CVmmc5E3Svq-PtfZ062cfg"

    open_log(directory, topic_id="CVmmc5E3Svq-PtfZ062cfg").close()
    with pytest.raises(UsageError, match="cannot be"):
        open_log(directory, topic_id=UUID(int=5))
    with pytest.raises(UsageError, match="not a topic id"):
        open_log(directory, topic_id="short")
    with open_log(directory) as log:
        assert log.topic_id == topic_id


# Appending


def test_records_come_back_with_the_fields_of_kafka_python(log: PartitionLog) -> None:
    offset = log.append(b"value", key=b"k", headers=[("h", b"12"), ("none", None)], timestamp=NOW + 5)

    (record,) = log.records()

    assert offset == 0
    assert record._fields == kafka_python_fields()
    assert tuple(record) == (
        "orders", 3, 0, 0, NOW + 5, 0, b"k", b"value", (("h", b"12"), ("none", None)), None, 1, 5, 7
    )  # fmt: skip


def test_a_timestamp_is_now_unless_given(log: PartitionLog) -> None:
    log.append(b"now")
    log.append(b"then", timestamp=datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC))

    assert [record.timestamp for record in log.records()] == [NOW, 1_700_000_000_000]


def test_a_time_is_its_very_millisecond(log: PartitionLog) -> None:
    may_day_ms, thousand = 1_083_369_600_000, range(1000)
    times = [datetime(2004, 5, 1, 0, 0, 0, 1000 * ms, tzinfo=UTC) for ms in thousand]
    log.append_many([NewRecord(b"", timestamp=time) for time in times])

    assert [record.timestamp for record in log.records()] == [may_day_ms + ms for ms in thousand]
    assert [log.offset_for_time(time) for time in times] == list(thousand)


def test_many_records_are_one_batch(log: PartitionLog) -> None:
    records = [b"a", NewRecord(b"b", key=b"k"), NewRecord(None, key=b"k")]

    assert log.append_many(records, codec="zstd") == (0, 2)

    table = log.to_arrow(["key", "value", "codec", "position"])
    assert table.to_pydict() == {
        "key": [None, b"k", b"k"],
        "value": [b"a", b"b", None],
        "codec": ["zstd"] * 3,
        "position": [0] * 3,
    }


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_whatever_is_bytes_is_taken(log: PartitionLog, kind: Callable[[bytes], Any]) -> None:
    log.append(kind(b"value"), key=kind(b"key"), headers=[("name", kind(b"1"))])
    log.append_many([kind(b"another")])

    found = [(record.key, record.value, record.headers) for record in log.records()]
    assert found == [(b"key", b"value", (("name", b"1"),)), (None, b"another", ())]


def test_records_of_one_log_can_be_appended_to_another(log: PartitionLog, tmp_path: Path) -> None:
    log.append_many([NewRecord(b"a", b"k", [("h", b"1")], NOW), b"b"])

    with open_log(tmp_path / "copy-0", create=True) as copy:
        copy.append_many(log.records())
        assert [r[3:9] for r in copy.records()] == [r[3:9] for r in log.records()]


def test_batches_keep_their_offsets_if_they_are_to(log: PartitionLog) -> None:
    assert log.append_batch(batch(b"a", b"b")) == (0, 1)
    assert log.append_batch(batch(b"c", base_offset=10), keep_offsets=True) == (10, 10)

    assert [record.offset for record in log.records()] == [0, 1, 10]


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_batch_that_is_cut_off_is_not_passed_over_in_silence(log: PartitionLog, keep_offsets: bool) -> None:
    whole = bytes(batch(b"a"))

    for data in (whole[:-1], whole[:5], whole + whole[:-1]):
        with pytest.raises(CorruptRecordError, match="the last batch is cut off"):
            log.append_batch(data, keep_offsets=keep_offsets)
    with pytest.raises(UsageError, match="nothing to append"):
        log.append_batch(b"", keep_offsets=keep_offsets)

    assert log.end_offset == 0


def test_arrow_rows_go_in_and_come_out(log: PartitionLog) -> None:
    table = pa.table({"key": [b"a", None], "value": [b"1", b"2"], "offset": [77, 99]})

    assert log.append_arrow(table, codec="lz4") == (0, 1)
    assert log.append_arrow(log.to_arrow()) == (2, 3)

    assert log.to_arrow(["key", "value"]).to_pydict() == {
        "key": [b"a", None] * 2,
        "value": [b"1", b"2"] * 2,
    }
    with pytest.raises(UsageError, match="no rows"):
        log.append_arrow(table.slice(0, 0))


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda log: log.append("text"), UsageError),
        (lambda log: log.append(b"a", key="text"), UsageError),
        (lambda log: log.append(5), UsageError),
        (lambda log: log.append(b"a", key=5), UsageError),
        (lambda log: log.append(b"a", headers=[("name", "text")]), UsageError),
        (lambda log: log.append(b"a", headers=[(b"name", b"1")]), UsageError),
        (lambda log: log.append(b"a", headers=[("name",)]), UsageError),
        (lambda log: log.append(b"a", headers={"name": b"1"}), UsageError),
        (lambda log: log.append(b"a", headers=None), UsageError),
        (lambda log: log.append(b"a", headers=[("\udcff", b"1")]), UsageError),
        (lambda log: log.append_batch("text"), UsageError),
        (lambda log: log.append(b"a", timestamp="2024-01-01"), UsageError),
        (lambda log: log.append(b"a", timestamp=0.5), UsageError),
        (lambda log: log.append_many(["text"]), UsageError),
        (lambda log: log.append_many([5]), UsageError),
        (lambda log: log.append_many([None]), UsageError),
        (lambda log: log.append_many(b"one value"), UsageError),
        (lambda log: log.offset_for_time("2024-01-01"), UsageError),
        (lambda log: log.records(since=0.5), UsageError),
        (lambda log: log.append(b"a", timestamp=datetime(2024, 1, 1)), UsageError),
        (lambda log: log.append_many([b"a"], codec="brotli"), UsageError),
        (lambda log: log.append(b"x" * (1 << 21)), RecordTooLargeError),
        (lambda log: log.records(isolation="serializable"), UsageError),
        (lambda log: log.records(0, since=0), UsageError),
        (lambda log: log.records(end_offset=0, until=0), UsageError),
        (lambda log: log.offset_for_time(-1), UsageError),
        (lambda log: list(log.records(1)), None),
        (lambda log: list(log.records(0, end_offset=99)), None),
    ],
)
def test_what_cannot_be_meant_is_refused(log: PartitionLog, change, error) -> None:  # type: ignore[no-untyped-def]
    if error is None:
        assert change(log) == []
    else:
        with pytest.raises(error):
            change(log)
    assert log.end_offset == 0


# Reading


def test_reading_begins_at_an_offset_or_a_time_and_ends_at_one(log: PartitionLog) -> None:
    for number in range(6):
        log.append(b"%d" % number, timestamp=NOW + 10 * number)

    assert values(log.records(4)) == [b"4", b"5"]
    assert values(log.records(1, end_offset=3)) == [b"1", b"2"]
    assert values(log.records(since=NOW + 31)) == [b"4", b"5"]
    assert values(log.records(since=NOW + 10, until=NOW + 30)) == [b"1", b"2"]
    assert values(log.records(since=NOW + 1000)) == []
    assert values(log.records(until=datetime.fromtimestamp((NOW + 20) / 1000, UTC))) == [b"0", b"1"]
    assert (log.offset_for_time(NOW + 11), log.offset_of_newest()) == (2, 5)


def test_reading_ends_where_the_log_ended_when_it_began(log: PartitionLog) -> None:
    log.append(b"a")
    reading = log.records()
    log.append(b"b")

    assert values(reading) == [b"a"]


def test_reading_before_the_start_is_refused(log: PartitionLog) -> None:
    log.append_many([b"a", b"b", b"c"])
    assert log.delete_records(2) == 2

    assert values(log.records()) == [b"c"]
    with pytest.raises(OffsetOutOfRangeError):
        list(log.records(1))


def test_a_batch_is_read_from_its_middle(log: PartitionLog) -> None:
    log.append_many([b"a", b"b", b"c"], codec="gzip")

    assert values(log.records(1)) == [b"b", b"c"]
    assert log.to_arrow(["value"], offset=2).to_pydict() == {"value": [b"c"]}


def damage_third_length(file: Path) -> int:
    """Make the third of five batches longer than the file; returns where it starts."""
    data = bytearray(file.read_bytes())
    third = len(data) // 5 * 2
    data[third + 8 : third + 12] = (1 << 20).to_bytes(4, "big")
    file.write_bytes(data)
    return third


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("interval", [0, 4096])
def test_records_behind_a_damaged_length_are_not_skipped_in_silence(
    directory: Path, interval: int, read_only: bool
) -> None:
    with open_log(directory, create=True, config={"index.interval.bytes": interval}) as log:
        for number in range(8):
            if number == 5:
                log.log.roll()
            log.append(b"%d" % number)
    third = damage_third_length(directory / f"{0:020d}.log")

    with open_log(directory, read_only=read_only) as log:
        records = log.records()
        assert (next(records).value, next(records).value) == (b"0", b"1")
        with pytest.raises(CorruptRecordError, match=f"{0:020d}.log at byte {third}: "):
            next(records)
        with pytest.raises(CorruptRecordError):
            log.to_arrow()
        with pytest.raises(CorruptRecordError):
            list(log.tail(0, stop=Turns()))
        assert values(log.records(5)) == [b"5", b"6", b"7"]


def test_a_length_that_is_damaged_while_the_log_is_open_is_told(log: PartitionLog, directory: Path) -> None:
    for number in range(5):
        log.append(b"%d" % number)
    third = damage_third_length(directory / f"{0:020d}.log")

    with pytest.raises(CorruptRecordError, match=f"at byte {third}: "):
        list(log.records())


def test_gaps_of_offsets_are_no_damage(log: PartitionLog) -> None:
    log.append_many([b"a", b"b", b"c"])
    log.log.roll()
    log.append_batch(batch(b"d", base_offset=10), keep_offsets=True)
    log.append_many([b"e", b"f"])
    log.truncate_to(12)

    assert values(log.records(3)) == [b"d"]
    assert (log.end_offset, values(log.records(11))) == (12, [])


def test_aborted_and_open_transactions_are_left_out_on_request(log: PartitionLog) -> None:
    log.append(b"plain")
    log.append_batch(produced(1, 0, b"aborted", transactional=True))
    log.append_batch(produced(2, 0, b"committed", transactional=True))
    append_marker(log.log, 1, ControlType.ABORT)
    append_marker(log.log, 2, ControlType.COMMIT)
    log.append_batch(produced(1, 1, b"open", transactional=True))
    log.append(b"behind")

    assert values(log.records()) == [b"plain", b"aborted", b"committed", b"open", b"behind"]
    assert values(log.records(isolation="read_committed")) == [b"plain", b"committed"]
    table = log.to_arrow(["value"], isolation="read_committed")
    assert table.to_pydict() == {"value": [b"plain", b"committed"]}
    assert log.last_stable_offset == 5


class Turns:
    """An event that does something each time it is waited for, until there is nothing more to do."""

    def __init__(self, *turns: object) -> None:
        self.turns = list(turns)

    def wait(self, timeout: float | None = None) -> bool:
        if not timeout:
            return False
        if not self.turns:
            return True
        turn = self.turns.pop(0)
        assert callable(turn)
        turn()
        return False


def test_a_tail_gives_what_comes_until_it_is_stopped(log: PartitionLog) -> None:
    log.append(b"before")
    stop = Turns(lambda: log.append_many([b"a", b"b"]), lambda: None, lambda: log.append(b"c"))

    assert values(log.tail(stop=stop)) == [b"a", b"b", b"c"]


def test_a_tail_of_a_log_that_has_failed_does_not_wait_for_ever(directory: Path) -> None:
    disk = FailingDisk()
    log = open_log(directory, create=True, disk=disk)
    log.append(b"a")

    def fail() -> None:
        disk.failing = "write_at"
        with pytest.raises(DiskError):
            log.append(b"b")

    following = log.tail(0, stop=Turns(fail, lambda: None))

    assert next(following).value == b"a"
    with pytest.raises(DiskError, match="input/output error"):
        list(following)
    log.close()


def test_a_log_that_has_failed_tells_its_reason_once(directory: Path) -> None:
    disk = FailingDisk()
    log = open_log(directory, create=True, disk=disk)
    disk.failing = "sync"
    log.append(b"a")
    for change in (log.flush, log.flush, lambda: log.append(b"b")):
        with pytest.raises(DiskError):
            change()

    with pytest.raises(DiskError) as told:
        list(log.records(0))

    assert str(told.value).count("failed before") == 1
    with pytest.raises(DiskError):
        log.close()


@pytest.mark.parametrize("cut", [lambda log: log.truncate_to(1), lambda log: log.delete_records(5)])
def test_a_tail_is_told_when_its_place_is_gone(
    log: PartitionLog, cut: Callable[[PartitionLog], object]
) -> None:
    for value in (b"a", b"b", b"c"):
        log.append(value)

    def append_and_cut() -> None:
        log.append_many([b"d", b"e", b"f"])
        cut(log)

    following = log.tail(stop=Turns(append_and_cut))

    with pytest.raises(OffsetOutOfRangeError):
        list(following)


def test_a_tail_can_begin_in_the_past(log: PartitionLog) -> None:
    log.append(b"a", timestamp=NOW)
    log.append(b"b", timestamp=NOW + 5)

    assert values(log.tail(0, stop=Turns())) == [b"a", b"b"]
    assert values(log.tail(since=NOW + 1, stop=Turns())) == [b"b"]


def test_a_tail_ends_when_nothing_has_come_for_a_while(directory: Path) -> None:
    clock = ManualClock()
    with open_log(directory, create=True, clock=clock) as log:
        waits = [lambda: clock.sleep(400), lambda: log.append(b"a"), *[lambda: clock.sleep(400)] * 5]
        stop = Turns(*waits)

        assert values(log.tail(timeout_ms=1000, stop=stop)) == [b"a"]
        assert len(stop.turns) == 2


def test_a_tail_of_another_thread_ends_by_its_event(log: PartitionLog) -> None:
    stop, found = threading.Event(), []

    def follow() -> None:
        for record in log.tail(0, poll_ms=1, stop=stop):
            found.append(record.value)
            if record.value == b"last":
                stop.set()

    reader = threading.Thread(target=follow)
    reader.start()
    for value in (b"a", b"b", b"last"):
        log.append(value)
    reader.join(10)

    assert found == [b"a", b"b", b"last"]


# Changing


@pytest.mark.parametrize("offset", [1.5, 1.0, "1", None])
def test_an_offset_that_is_no_whole_number_ruins_no_log(directory: Path, offset: Any) -> None:
    with open_log(directory, create=True) as log:
        log.append_many([b"a"])
        log.append_many([b"b"])
        for change in (log.delete_records, log.truncate_to, log.log.truncate_fully_and_start_at):
            with pytest.raises(UsageError, match="is not a whole number"):
                change(offset)

    with open_log(directory) as log:
        assert values(log.records()) == [b"a", b"b"]


def test_minus_one_gives_up_all_records(log: PartitionLog) -> None:
    log.append_many([b"a", b"b"])

    assert log.delete_records(-1) == 2


def test_truncation_takes_the_whole_batch_that_an_offset_lies_in(log: PartitionLog) -> None:
    log.append(b"a")
    log.append_many([b"b", b"c", b"d"])

    log.truncate_to(2)

    assert values(log.records()) == [b"a"]
    assert log.append(b"e") == 2


def test_truncation_and_deletion_last_over_a_restart(directory: Path) -> None:
    with open_log(directory, create=True) as log:
        for number in range(6):
            log.append(b"%d" % number)
        log.delete_records(2)
        log.truncate_to(4)
        assert (directory / "log-start-offset-checkpoint").read_text() == "0\n1\norders 3 2\n"

    with open_log(directory) as log:
        assert (log.start_offset, log.end_offset, values(log.records())) == (2, 4, [b"2", b"3"])
        log.truncate_to(0)
        assert (log.start_offset, log.end_offset) == (0, 0)
    assert (directory / "log-start-offset-checkpoint").read_text() == "0\n0\n"


def test_the_settings_are_kafka_s(directory: Path) -> None:
    with open_log(directory, create=True, config={"segment.bytes": 1 << 20}) as log:
        for _ in range(3):
            log.append(b"x" * 600_000)
        assert log.metrics()["NumLogSegments"] == 3


# In a broker's directory


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """What a broker left after a clean stop; it does not keep its lock file."""
    source = Path(__file__).parents[1] / "fixtures" / "kafka-4.3.1" / "clean" / "logs"
    return Path(shutil.copytree(source, tmp_path / "logs"))


def test_the_broker_s_own_mark_and_lock_are_used(log_dir: Path) -> None:
    before = (log_dir / CLEAN).read_bytes()

    with open_log(log_dir / "codecs-0") as log:
        assert not (log_dir / CLEAN).exists()
        assert not (log_dir / "codecs-0" / LOCK).exists()
        with pytest.raises(LogDirLockedError):
            open_log(log_dir / "txn-0")
        log.append(b"ours")

    assert (log_dir / CLEAN).read_bytes() == before
    assert not (log_dir / "codecs-0" / CLEAN).exists()


def test_a_lock_that_nobody_holds_makes_no_log_directory(tmp_path: Path) -> None:
    (tmp_path / LOCK).write_text("of another program")

    open_log(tmp_path / "orders-0", create=True).close()

    assert (tmp_path / "orders-0" / CLEAN).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [LOCK, "orders-0"]


def test_a_directory_whose_lock_is_held_is_somebody_s_log_directory(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path), pytest.raises(LogDirLockedError):
        open_log(tmp_path / "orders-0", create=True)

    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_without_the_broker_s_mark_its_partitions_need_recovery(log_dir: Path) -> None:
    (log_dir / CLEAN).unlink()

    with pytest.raises(NeedsRecoveryError):
        open_log(log_dir / "codecs-0")


def test_a_new_partition_is_not_made_in_an_unclean_directory(log_dir: Path) -> None:
    (log_dir / CLEAN).unlink()

    with pytest.raises(NeedsRecoveryError, match=f"Run `stratalog recover {log_dir}` first"):
        open_log(log_dir / "new-0", create=True)

    assert not (log_dir / CLEAN).exists()
    assert not (log_dir / "new-0").exists()


def test_a_new_partition_leaves_a_clean_directory_clean(log_dir: Path) -> None:
    before = (log_dir / CLEAN).read_bytes()

    open_log(log_dir / "new-0", create=True).close()

    assert (log_dir / CLEAN).read_bytes() == before


def test_a_directory_that_a_broker_never_ran_on_takes_a_new_partition(log_dir: Path, tmp_path: Path) -> None:
    formatted = tmp_path / "formatted"
    formatted.mkdir()
    shutil.copy(log_dir / "meta.properties", formatted)

    open_log(formatted / "new-0", create=True).close()

    assert (formatted / CLEAN).read_bytes() == b'{"version":0,"brokerEpoch":-1}'


def test_a_log_by_its_real_path_and_by_a_link_in_the_broker_s_directory(
    log_dir: Path, tmp_path: Path
) -> None:
    (log_dir / "codecs-0").rename(tmp_path / "codecs-0")
    (log_dir / "codecs-0").symlink_to(tmp_path / "codecs-0")

    with open_log(log_dir / "codecs-0"), pytest.raises(LogDirLockedError):
        open_log(tmp_path / "codecs-0")

    assert (log_dir / CLEAN).exists()


def test_a_partition_that_needs_recovery_leaves_the_others_clean(log_dir: Path) -> None:
    before = (log_dir / CLEAN).read_bytes()
    next((log_dir / "codecs-0").glob("*.index")).unlink()

    with pytest.raises(NeedsRecoveryError, match="no offset index"):
        open_log(log_dir / "codecs-0")

    assert (log_dir / CLEAN).read_bytes() == before
    open_log(log_dir / "txn-0").close()


@pytest.mark.parametrize(
    ("name", "damage", "error"),
    [
        ("leader-epoch-checkpoint", lambda data: b"garbage\n" + data, CorruptCheckpointError),
        (f"{10:020d}.log", lambda data: data[:16] + b"\x09" + data[17:], NeedsRecoveryError),
        (f"{10:020d}.log", lambda data: data + data[:30], NeedsRecoveryError),
    ],
)
def test_an_open_that_fails_leaves_the_directory_as_it_was(
    log_dir: Path, name: str, damage: Callable[[bytes], bytes], error: type[stratalog.StratalogError]
) -> None:
    file = log_dir / "headers-0" / name
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    (log_dir / LOCK).touch()
    before = {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()}

    with pytest.raises(error):
        open_log(log_dir / "headers-0")

    assert {path: path.read_bytes() for path in log_dir.rglob("*") if path.is_file()} == before
    file.write_bytes(whole)
    open_log(log_dir / "headers-0").close()


class InterruptedDisk(Disk):
    """Ctrl-C comes while the sizes are listed, which is when the log is loaded."""

    def list_sizes(self, path: DiskPath, suffix: str) -> dict[str, int]:
        del path, suffix
        raise KeyboardInterrupt


def test_an_interrupted_open_lets_go_of_the_log(directory: Path) -> None:
    open_log(directory, create=True).close()

    with pytest.raises(KeyboardInterrupt):
        open_log(directory, disk=InterruptedDisk())

    open_log(directory).close()


class Journal(Disk):
    """Notes which files are deleted and replaced, in order."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: list[str] = []

    def delete(self, path: DiskPath) -> bool:
        if not os.fspath(path).endswith(".tmp"):
            self.changed.append(Path(path).name)
        return super().delete(path)

    def replace(self, path: DiskPath, data: Any) -> None:
        self.changed.append(Path(path).name)
        super().replace(path, data)


def test_the_mark_is_taken_away_before_anything_is_changed(directory: Path) -> None:
    open_log(directory, create=True).close()
    (directory / f"{0:020d}.log.deleted").touch()
    disk = Journal()

    log = open_log(directory, topic_id=UUID(int=5), disk=disk)

    assert disk.changed[:3] == [CLEAN, "partition.metadata", f"{0:020d}.log.deleted"]
    log.close()


def test_the_start_of_a_broker_s_log_is_in_its_checkpoint(log_dir: Path) -> None:
    lines = (log_dir / "log-start-offset-checkpoint").read_text().splitlines()[2:]
    (start,) = [int(line.split()[2]) for line in lines if line.startswith("trimmed 0 ")]

    with open_log(log_dir / "trimmed-0", read_only=True) as view:
        assert view.start_offset == start
    with open_log(log_dir / "trimmed-0") as log:
        assert log.start_offset == start
        log.delete_records(start + 1)

    assert f"trimmed 0 {start + 1}\n" in (log_dir / "log-start-offset-checkpoint").read_text()


def test_the_epoch_of_the_last_leader_goes_on(log_dir: Path) -> None:
    with open_log(log_dir / "codecs-0") as log:
        log.append(b"ours")
        (record,) = log.records(log.end_offset - 1)
        known = log.log.epochs.latest_epoch

    assert record.leader_epoch == known


def test_a_directory_that_a_broker_gave_up_is_not_opened(log_dir: Path) -> None:
    (given_up,) = log_dir.glob("*-delete")

    with pytest.raises(UsageError, match="marked it as"):
        open_log(given_up)


def test_paths_of_every_kind_are_taken(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_log(str(directory), create=True).close()
    monkeypatch.chdir(directory)

    with open_log(os.curdir) as log:
        assert log.topic == "orders"


# The document


DOCUMENT = Path(__file__).parents[2] / "docs" / "api.md"


def test_the_examples_of_the_document_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    names: dict[str, object] = {}

    for block in blocks:
        exec(compile(block, DOCUMENT.name, "exec"), names)

    assert len(blocks) > 5


def test_every_public_name_is_in_the_document() -> None:
    text = DOCUMENT.read_text("utf-8")
    methods = [name for name in vars(PartitionLog) if not name.startswith("_")]

    assert [name for name in [*stratalog.__all__, *methods] if f"`{name}" not in text] == []


def test_public_names_are_found_without_having_been_asked_for() -> None:
    assert set(stratalog.__all__) <= set(dir(stratalog))
    for name in stratalog.__all__:
        assert getattr(stratalog, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'Consumer'"):
        stratalog.Consumer  # noqa: B018
