"""An append in its steps: what is changed before the bytes are written, and what only after."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from stratalog.errors import DiskError, OutOfOrderSequenceError, RecordBatchTooLargeError
from stratalog.log.append import AppendInfo, analyze
from stratalog.log.log import Log
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.origin import AppendOrigin
from stratalog.log.producers.append_info import TV_UNKNOWN
from stratalog.log.producers.verification import NO_GUARD
from stratalog.segment.segment import LogSegment
from tests.log.model import Machine, batch, produced


def append(log: Log, data: bytes, leader_epoch: int = 0) -> AppendInfo:
    origin = AppendOrigin.CLIENT
    info = analyze(data, origin=origin, max_message_bytes=None, leader_epoch=leader_epoch)
    return log._appender.append(info, origin, leader_epoch, TV_UNKNOWN, NO_GUARD)


def test_a_set_gets_the_next_offsets_and_moves_the_end() -> None:
    log = Machine().open()
    append(log, batch(b"a"))

    info = append(log, batch(b"b", b"c"))

    assert (info.first_offset, info.last_offset) == (1, 2)
    assert log._marks.end == OffsetMetadata(3, 0, log.size)


def test_a_retry_gets_the_offsets_of_then_and_is_not_written() -> None:
    log = Machine().open()
    append(log, produced(1, 0, b"a"))
    append(log, produced(1, 1, b"b"))
    size = log.size

    info = append(log, produced(1, 0, b"a"))

    assert (info.first_offset, info.last_offset, log.size) == (0, 0, size)


def test_a_set_that_is_refused_changes_neither_end_nor_producers() -> None:
    log = Machine().open()
    append(log, produced(1, 0, b"a"))

    with pytest.raises(OutOfOrderSequenceError):
        append(log, produced(1, 5, b"b"))

    assert (log.log_end_offset, log.producers.producers[1].last_sequence) == (1, 0)


def test_a_set_larger_than_a_segment_is_refused() -> None:
    log = Machine(internal_segment_bytes=100).open()

    with pytest.raises(RecordBatchTooLargeError):
        append(log, batch(bytes(100)))


def test_a_set_that_does_not_fit_begins_a_segment() -> None:
    log = Machine(internal_segment_bytes=100).open()
    for _ in range(2):
        append(log, batch(b"a"))

    assert log.segments.base_offsets == (0, 1)


def test_an_epoch_is_known_before_its_records_and_stays_if_they_do_not_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = Machine().open()

    def refuse(*_: Any) -> None:
        raise DiskError("orders-0", "no space", errno.ENOSPC)

    monkeypatch.setattr(LogSegment, "append", refuse)
    with pytest.raises(DiskError):
        append(log, batch(b"a"), leader_epoch=7)

    assert [tuple(entry) for entry in log.epochs.entries] == [(7, 0)]
    assert (log.log_end_offset, log.producers.producers) == (0, {})


def test_an_interrupt_while_bytes_are_written_fails_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().open()

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogSegment, "append", interrupt)
    with pytest.raises(KeyboardInterrupt):
        append(log, batch(b"a"))

    assert log.failure is not None
