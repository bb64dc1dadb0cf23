"""Reads beside changes: a read that was held up looks at the segments of now."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from stratalog.errors import DiskError, OffsetOutOfRangeError
from stratalog.log import reader as module
from stratalog.log.reader import LogReader
from stratalog.log.reading import AbortedTransaction, Isolation, read
from tests.log.model import Machine, append_marker, batch, produced
from tests.log.transacting import ABORT, COMMIT, COMMITTED, Script, values


def test_files_that_went_meanwhile_are_looked_for_in_the_segments_of_now(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    machine = Machine()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    calls: list[int] = []

    def gone_at_first(*arguments: Any, **options: Any) -> object:
        calls.append(1)
        if len(calls) == 1:
            log.roll()
            raise DiskError("a.log", "the segment was deleted.", errno.ENOENT)
        return read(*arguments, **options)

    monkeypatch.setattr(module, "read", gone_at_first)
    found = log._reader.read(0, 1000, Isolation.LOG_END, min_one_message=True)

    assert (found.offset.offset, len(calls)) == (0, 2)


def test_a_file_that_is_gone_from_the_segments_of_now_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().open()

    def gone(*_: Any, **__: Any) -> object:
        raise DiskError("a.log", "the segment was deleted.", errno.ENOENT)

    monkeypatch.setattr(module, "read", gone)
    with pytest.raises(DiskError, match="was deleted"):
        log._reader.read(0, 1000, Isolation.LOG_END, min_one_message=True)


def test_an_offset_below_the_start_is_refused_before_a_mark_is_moved() -> None:
    log = Machine().open(embedded=False)
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.append_as_leader(batch(b"b"), leader_epoch=0)
    log.update_high_watermark(1)
    log.delete_records(1)
    log.update_high_watermark(1)

    with pytest.raises(OffsetOutOfRangeError):
        log._reader.read(0, 1000, Isolation.HIGH_WATERMARK, min_one_message=True)
    assert not log._marks.high_watermark.is_resolved


def test_a_read_finds_the_place_of_the_high_watermark_once() -> None:
    log = Machine().open(embedded=False)
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.append_as_leader(batch(b"b"), leader_epoch=0)
    log.update_high_watermark(1)

    log._reader.read(0, 1000, Isolation.HIGH_WATERMARK, min_one_message=True)

    assert log._marks.high_watermark.is_resolved


def test_a_reader_of_committed_records_ends_at_the_first_open_transaction() -> None:
    log = Machine().open()
    script = Script(log)
    script.plain(2)
    script.transact(1, 3)
    script.plain(2)

    assert [offset for offset, _ in values(log)] == [0, 1]
    append_marker(log, 1, COMMIT)
    assert [offset for offset, _ in values(log)] == [0, 1, 2, 3, 4, 5, 6]


def test_a_read_tells_which_transactions_in_it_were_aborted() -> None:
    log = Machine().open()
    Script(log).worked_example()

    assert log.read(0, 1 << 20, isolation=COMMITTED).aborted_transactions == [
        AbortedTransaction(1, 0),
        AbortedTransaction(2, 8),
    ]
    assert log.read(30, 1 << 20, isolation=COMMITTED).aborted_transactions == [AbortedTransaction(2, 8)]
    assert log.read(90, 100, isolation=COMMITTED).aborted_transactions == []
    assert log.read(0, 1 << 20).aborted_transactions is None


@pytest.mark.parametrize("start", [0, 3, 9, 30, 60])
def test_a_reader_of_committed_records_sees_none_of_an_aborted_transaction(start: int) -> None:
    log = Machine(internal_segment_bytes=800, index_interval_bytes=1).open()
    Script(log).worked_example()

    found = values(log, start)

    plain = [*range(5, 8), *range(17, 19), *range(39, 49), *range(75, 85)]
    assert [offset for offset, value in found if value == b"plain"] == [o for o in plain if o >= start]
    assert not {b"1", b"2"} & {value for _, value in found}
    assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})


def test_a_transaction_over_several_segments_is_aborted_in_each() -> None:
    machine = Machine()
    log = machine.open()
    script = Script(log)
    script.transact(1, 3)
    log.roll()
    script.transact(1, 2)
    log.roll()
    append_marker(log, 1, ABORT)

    assert [segment.reader.collect_aborted(0, 100)[0] != [] for segment in log.segments] == [
        False,
        False,
        True,
    ]
    for start in (0, 3):
        fetched = log.read(start, 1 << 20, isolation=COMMITTED)
        assert fetched.aborted_transactions == [AbortedTransaction(1, 0)]
    assert values(log) == []


def test_a_transaction_that_is_aborted_while_a_read_begins_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"plain"), leader_epoch=0)
    real = LogReader._resolve_high_watermark

    def aborted_meanwhile(reader: LogReader) -> None:
        monkeypatch.undo()
        log.append_as_leader(produced(1, 0, b"aborted", transactional=True), leader_epoch=0)
        append_marker(log, 1, ABORT)
        real(reader)

    monkeypatch.setattr(LogReader, "_resolve_high_watermark", aborted_meanwhile)
    found = log.read(0, 1000, isolation=COMMITTED)

    assert b"aborted" in found.records
    assert found.aborted_transactions == [AbortedTransaction(1, 1)]
