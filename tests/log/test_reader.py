"""Reads beside changes: a read that was held up looks at the segments of now."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from stratalog.errors import DiskError, OffsetOutOfRangeError
from stratalog.log import reader as module
from stratalog.log.reading import Isolation, read
from tests.log.model import Machine, batch


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
