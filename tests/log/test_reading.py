"""Reads of a log: how many bytes, up to which mark, and from which segment."""

from __future__ import annotations

import pytest

from stratalog.errors import OffsetOutOfRangeError
from stratalog.log.log import Log
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.reading import read
from tests.log.model import Machine, batch, read_all

SIZE = len(batch(b"x"))


@pytest.fixture
def log() -> Log:
    """Two segments with three batches of one record each."""
    log = Machine().open()
    for number in range(6):
        if number == 3:
            log.roll()
        log.append_as_leader(batch(b"x"), leader_epoch=0)
    return log


def read_to(log: Log, start: int, limit: OffsetMetadata) -> tuple[int, int]:
    """(base offset told, bytes got)."""
    end = OffsetMetadata(6, 3, 3 * SIZE)
    found = read(log.segments.readers, start, 1 << 20, log_start_offset=0, end=end, limit=limit)
    return found.offset.offset, len(found.records)


def test_a_read_stays_in_one_segment(log: Log) -> None:
    assert [len(log.read(start, 1 << 20).records) // SIZE for start in range(7)] == [3, 2, 1, 3, 2, 1, 0]


def test_a_read_ends_at_the_place_of_the_mark(log: Log) -> None:
    assert read_to(log, 3, OffsetMetadata(5, 3, 2 * SIZE)) == (3, 2 * SIZE)
    assert read_to(log, 0, OffsetMetadata(5, 3, 2 * SIZE)) == (0, 3 * SIZE)
    assert read_to(log, 5, OffsetMetadata(5, 3, 2 * SIZE)) == (5, 0)


def test_a_read_above_the_mark_gets_nothing(log: Log) -> None:
    assert read_to(log, 5, OffsetMetadata(3, 3, 0)) == (5, 0)
    assert read_to(log, 5, OffsetMetadata(2, 0, 2 * SIZE)) == (5, 0)


def test_a_mark_without_a_place_lets_nothing_through(log: Log) -> None:
    assert read_to(log, 1, OffsetMetadata(5))[1] == 0


def test_at_least_one_batch_comes_however_large(log: Log) -> None:
    assert len(log.read(0, 1, min_one_message=True).records) == SIZE
    assert not log.read(0, 1, min_one_message=True).first_entry_incomplete


def test_without_that_the_size_is_kept(log: Log) -> None:
    nothing = log.read(0, 0, min_one_message=False)
    one_byte = log.read(0, 1, min_one_message=False)

    assert nothing.records == b""
    assert (len(one_byte.records), one_byte.first_entry_incomplete) == (1, True)


def test_a_read_in_a_batch_tells_where_that_begins() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a", b"b", b"c"), leader_epoch=0)

    assert log.read(2, 100).offset == OffsetMetadata(0, 0, 0)


def test_a_gap_at_the_end_of_a_segment_leads_into_the_next() -> None:
    log = Machine().open()
    log.append_as_follower(batch(b"a"), leader_epoch=0)
    log.roll()
    log.append_as_follower(batch(b"b", base_offset=300), leader_epoch=0)

    assert log.read(200, 100).offset.offset == 300
    assert [record.offset for record in read_all(log)] == [0, 300]


def test_a_gap_at_the_end_of_the_log_reads_as_its_end() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a", b"b", b"c"), leader_epoch=0)
    log.truncate_to(2)

    found = log.read(1, 100)

    assert (found.offset, found.records) == (OffsetMetadata(2, 0, 0), b"")


@pytest.mark.parametrize("offset", [-1, 7])
def test_an_offset_outside_the_log_is_refused(log: Log, offset: int) -> None:
    with pytest.raises(OffsetOutOfRangeError) as refused:
        log.read(offset, 100)

    assert (refused.value.offset, refused.value.valid) == (offset, (0, 6))
