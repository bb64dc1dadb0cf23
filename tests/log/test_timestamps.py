"""Offsets by time, and by Kafka's special values."""

from __future__ import annotations

import pytest

from stratalog.errors import UsageError
from stratalog.log.log import Log
from stratalog.records.build import Record, build_batch
from tests.log.model import NOW, Machine, batch


def answer(log: Log, timestamp: int) -> tuple[int, ...] | None:
    found = log.fetch_offset_by_timestamp(timestamp)
    return None if found is None else tuple(found)


@pytest.fixture
def log() -> Log:
    """Two epochs, two segments; the second record of each batch is the younger."""
    log = Machine(index_interval_bytes=1).open()
    for number in range(6):
        first = NOW + 100 * number
        data = build_batch([Record(0, first, None, b"a"), Record(1, first + 50, None, b"b")])
        log.append_as_leader(data, leader_epoch=number // 3)
        if number == 2:
            log.roll()
    return log


@pytest.mark.parametrize(
    ("timestamp", "expected"),
    [
        (0, (NOW, 0, 0)),
        (NOW, (NOW, 0, 0)),
        (NOW + 1, (NOW + 50, 1, 0)),
        (NOW + 51, (NOW + 100, 2, 0)),
        (NOW + 251, (NOW + 300, 6, 1)),
        (NOW + 550, (NOW + 550, 11, 1)),
        (NOW + 551, None),
    ],
)
def test_a_time_leads_to_the_first_record_that_is_not_before_it(
    log: Log, timestamp: int, expected: tuple[int, ...] | None
) -> None:
    assert answer(log, timestamp) == expected


def test_records_below_the_start_are_not_found(log: Log) -> None:
    log.delete_records(3)

    assert answer(log, NOW) == (NOW + 150, 3, 0)


def test_the_special_values_stand_for_the_marks(log: Log) -> None:
    assert answer(log, -1) == (-1, 12, 1)
    assert answer(log, -2) == (-1, 0, 0)
    assert answer(log, -4) == (-1, 0, 0)
    assert answer(log, -5) == (-1, -1, -1)
    assert answer(log, -6) == (-1, -1, -1)


def test_the_largest_timestamp_leads_to_its_first_record(log: Log) -> None:
    log.append_as_leader(batch(b"old", timestamp=NOW), leader_epoch=1)
    log.append_as_leader(batch(b"x", b"y", timestamp=NOW + 900), leader_epoch=1)
    log.append_as_leader(batch(b"same", timestamp=NOW + 900), leader_epoch=1)

    assert answer(log, -3) == (NOW + 900, 13, 1)


def test_an_empty_log_has_no_record_for_any_time() -> None:
    log = Machine().open()

    assert answer(log, 0) is None
    assert answer(log, -3) is None
    assert answer(log, -2) == (-1, 0, None)
    assert answer(log, -1) == (-1, 0, None)


def test_another_negative_number_means_nothing(log: Log) -> None:
    with pytest.raises(UsageError, match="-7"):
        log.fetch_offset_by_timestamp(-7)


def test_a_follower_builds_the_time_index_too() -> None:
    log = Machine(index_interval_bytes=1).open()
    for offset in range(5):
        log.append_as_follower(batch(b"x", timestamp=NOW + offset, base_offset=offset), leader_epoch=0)

    # The first batch of a segment has no entry.
    assert log.segments.active.reader.time_index.entry_count == 4


def test_the_answers_are_the_same_after_a_restart(log: Log) -> None:
    machine = Machine(index_interval_bytes=1)
    written = machine.open()
    written.append_as_follower(log.read(0, 1 << 20).records, leader_epoch=1)
    written.roll()
    written.append_as_follower(log.read(6, 1 << 20).records, leader_epoch=1)

    again = machine.reopen(written)

    times = range(NOW - 1, NOW + 560, 7)
    assert [answer(again, timestamp) for timestamp in times] == [
        answer(log, timestamp) for timestamp in times
    ]


def test_records_behind_an_empty_segment_are_found() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a", b"b"), leader_epoch=0)
    log.truncate_to(1)
    log.roll()
    log.append_as_leader(batch(b"c", timestamp=NOW - 5), leader_epoch=0)

    assert answer(log, NOW - 5) is None
    assert log.first_not_before(NOW - 5) == (NOW - 5, 1, 0)


def test_records_behind_deleted_ones_that_are_younger_are_found() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a", timestamp=NOW), leader_epoch=0)
    log.append_as_leader(batch(b"b", timestamp=NOW - 10), leader_epoch=0)
    log.roll()
    log.append_as_leader(batch(b"c", timestamp=NOW - 3), leader_epoch=0)
    log.delete_records(1)

    assert answer(log, NOW - 5) is None
    assert log.first_not_before(NOW - 5) == (NOW - 3, 2, 0)
