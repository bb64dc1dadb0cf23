"""Records, times and offsets that callers pass in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stratalog import NewRecord, PartitionLog, open_log
from stratalog.errors import CorruptRecordError, UsageError, WrongTypeError
from tests.log.api.opened import values
from tests.log.model import NOW, batch


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


@pytest.mark.parametrize("keep_offsets", [False, True])
def test_a_batch_that_is_cut_off_is_not_passed_over_in_silence(log: PartitionLog, keep_offsets: bool) -> None:
    whole = bytes(batch(b"a"))

    for data in (whole[:-1], whole[:5], whole + whole[:-1]):
        with pytest.raises(CorruptRecordError, match="the last batch is cut off"):
            log.append_batch(data, keep_offsets=keep_offsets)
    with pytest.raises(UsageError, match="nothing to append"):
        log.append_batch(b"", keep_offsets=keep_offsets)

    assert log.end_offset == 0


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


def test_true_is_neither_an_offset_nor_a_time(log: PartitionLog) -> None:
    log.append_many([b"a", b"b", b"c"])

    for call in (log.truncate_to, log.delete_records, log.records):
        with pytest.raises(WrongTypeError, match="the offset True is not a whole number"):
            call(True)
    for asked in (lambda: log.append(b"d", timestamp=True), lambda: log.offset_for_time(True)):
        with pytest.raises(WrongTypeError, match="the time True is neither"):
            asked()
    assert (log.start_offset, log.end_offset) == (0, 3)
