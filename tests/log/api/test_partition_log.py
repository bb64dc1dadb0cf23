"""A log that is open in this process: append, read, truncate, close."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from stratalog import NewRecord, PartitionLog, open_log
from stratalog.directory.home import LogHome
from stratalog.errors import DiskError, LogClosedError, OffsetOutOfRangeError, RecordTooLargeError, UsageError
from stratalog.files.lock import is_locked
from stratalog.log.closer import Closer
from stratalog.log.scheduler import BackgroundScheduler
from tests.log.api.opened import CLEAN, FailingDisk, values
from tests.log.model import NOW, batch


def kafka_python_fields() -> tuple[str, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the standard library, which it uses
        from kafka.consumer.fetcher import ConsumerRecord
    fields: tuple[str, ...] = ConsumerRecord._fields
    return fields


def test_a_closed_log_is_not_used(directory: Path) -> None:
    log = open_log(directory, create=True)
    log.append(b"a")
    log.close()
    log.close()

    for use in (log.records, log.flush, log.tail, lambda: log.append(b"b"), lambda: log.offset_for_time(0)):
        with pytest.raises(LogClosedError):
            use()
    assert repr(log).endswith("closed>")


def test_the_log_below_one_whose_close_was_interrupted_takes_no_append(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lock is free, so that another program may append: both wrote the same offset."""
    log = open_log(directory, create=True)
    log.append(b"a")
    below = log.log
    monkeypatch.setattr(Closer, "_close", interrupt)

    with pytest.raises(KeyboardInterrupt):
        log.close()

    monkeypatch.undo()
    with open_log(directory) as other:
        assert other.append(b"theirs") == 1
        with pytest.raises(LogClosedError):
            below.append_as_leader(batch(b"ours"), leader_epoch=0)
        assert values(other.records()) == [b"a", b"theirs"]


def test_a_second_interrupt_in_a_close_still_releases_the_lock(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(directory, create=True)
    log.append(b"a")
    monkeypatch.setattr(Closer, "_close", interrupt)
    monkeypatch.setattr(BackgroundScheduler, "close", interrupt)

    with pytest.raises(KeyboardInterrupt):
        log.close()

    monkeypatch.undo()
    with open_log(directory) as again:
        assert values(again.records()) == [b"a"]
    log.close()


def test_a_close_that_was_interrupted_is_finished_by_the_next_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log(directory, create=True)
    monkeypatch.setattr(LogHome, "release", interrupt)

    with pytest.raises(KeyboardInterrupt):
        log.close()

    monkeypatch.undo()
    assert is_locked(directory)
    log.close()
    assert not is_locked(directory)


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


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


def test_records_come_back_with_the_fields_of_kafka_python(log: PartitionLog) -> None:
    offset = log.append(b"value", key=b"k", headers=[("h", b"12"), ("none", None)], timestamp=NOW + 5)

    (record,) = log.records()

    assert offset == 0
    assert record._fields == kafka_python_fields()
    assert tuple(record) == (
        "orders", 3, 0, 0, NOW + 5, 0, b"k", b"value", (("h", b"12"), ("none", None)), None, 1, 5, 7
    )  # fmt: skip


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


def test_batches_keep_their_offsets_if_they_are_to(log: PartitionLog) -> None:
    assert log.append_batch(batch(b"a", b"b")) == (0, 1)
    assert log.append_batch(batch(b"c", base_offset=10), keep_offsets=True) == (10, 10)

    assert [record.offset for record in log.records()] == [0, 1, 10]


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
