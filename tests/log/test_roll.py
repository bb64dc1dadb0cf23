"""When a segment is full: by size, by age, by its indexes, by its offsets."""

from __future__ import annotations

import pytest

from stratalog.config import LogConfig
from stratalog.limits import INT32_MAX
from stratalog.log.roll import RollReason, random_jitter_ms, roll_reason
from tests.log.model import NOW, Machine, batch

HOUR_MS = 3_600_000


def reason(**facts: int | bool) -> RollReason | None:
    usual = {
        "base_offset": 0,
        "segment_size": 500,
        "index_full": False,
        "waited_ms": 0,
        "set_size": 100,
        "last_offset": 10,
    }
    return roll_reason(**{**usual, **facts}, segment_bytes=1000, segment_ms=HOUR_MS)


def test_a_set_that_just_fits_does_not_roll() -> None:
    assert reason(set_size=500) is None
    assert reason(set_size=501) is RollReason.SIZE


def test_a_segment_is_rolled_when_it_waited_longer_than_segment_ms() -> None:
    assert reason(waited_ms=HOUR_MS) is None
    assert reason(waited_ms=HOUR_MS + 1) is RollReason.AGE


def test_an_empty_segment_does_not_age() -> None:
    assert reason(segment_size=0, waited_ms=HOUR_MS + 1) is None


def test_a_full_index_rolls() -> None:
    assert reason(index_full=True) is RollReason.INDEX_FULL


@pytest.mark.parametrize(
    ("last_offset", "expected"),
    [(INT32_MAX, None), (INT32_MAX + 1, RollReason.OFFSET_OVERFLOW), (-1, RollReason.OFFSET_OVERFLOW)],
)
def test_an_offset_too_far_from_the_base_rolls(last_offset: int, expected: RollReason | None) -> None:
    assert reason(last_offset=last_offset) is expected


def test_jitter_is_below_its_bound_and_below_segment_ms() -> None:
    assert random_jitter_ms(LogConfig.of({"segment.jitter.ms": 0})) == 0
    assert all(random_jitter_ms(LogConfig.of({"segment.jitter.ms": 20})) < 20 for _ in range(100))


def test_age_is_the_clock_s_where_records_have_no_timestamps() -> None:
    machine = Machine(segment_ms=HOUR_MS)
    log = machine.open()
    for bases in [(0,), (0, 1), (0, 1, 2)]:
        log.append_as_leader(batch(b"x", timestamp=-1), leader_epoch=0)
        assert log.segments.base_offsets == bases
        machine.clock.sleep(HOUR_MS + 1)


def test_age_is_told_by_timestamps_where_there_are_some() -> None:
    machine = Machine(segment_ms=HOUR_MS, message_timestamp_after_max_ms=10 * HOUR_MS)
    log = machine.open()
    log.append_as_leader(batch(b"x", timestamp=NOW), leader_epoch=0)
    machine.clock.sleep(2 * HOUR_MS)
    log.append_as_leader(batch(b"x", timestamp=NOW + HOUR_MS), leader_epoch=0)
    assert log.segments.base_offsets == (0,)

    log.append_as_leader(batch(b"x", timestamp=NOW + HOUR_MS + 1), leader_epoch=0)
    assert log.segments.base_offsets == (0, 2)


def test_a_set_without_a_batch_does_not_roll() -> None:
    machine = Machine(segment_ms=HOUR_MS)
    log = machine.open()
    log.append_as_leader(batch(b"x", timestamp=-1), leader_epoch=0)
    machine.clock.sleep(HOUR_MS + 1)

    log.append_as_follower(b"", leader_epoch=0)

    assert log.segments.base_offsets == (0,)


def test_jitter_makes_a_segment_old_earlier() -> None:
    machine = Machine(segment_ms=HOUR_MS)
    log = machine.open()
    log.append_as_leader(batch(b"x", timestamp=NOW), leader_epoch=0)
    log.segments.active.roll_jitter_ms = 20
    log.append_as_leader(batch(b"x", timestamp=NOW + HOUR_MS - 20), leader_epoch=0)
    assert log.segments.base_offsets == (0,)

    log.append_as_leader(batch(b"x", timestamp=NOW + HOUR_MS - 19), leader_epoch=0)
    assert log.segments.base_offsets == (0, 2)


def test_a_compacted_topic_is_rolled_within_its_largest_lag() -> None:
    log = Machine(cleanup_policy="compact", segment_ms=HOUR_MS, max_compaction_lag_ms=1000).open()
    log.append_as_leader(batch(b"x", key=b"k", timestamp=NOW - 1001), leader_epoch=0)
    log.append_as_leader(batch(b"x", key=b"k", timestamp=NOW), leader_epoch=0)

    assert log.segments.base_offsets == (0, 1)


def test_size_counts_whole_sets() -> None:
    size = len(batch(b"x"))
    log = Machine(internal_segment_bytes=3 * size).open()
    for _ in range(10):
        log.append_as_leader(batch(b"x"), leader_epoch=0)

    assert log.segments.base_offsets == (0, 3, 6, 9)


def test_an_old_set_that_is_far_above_begins_a_segment_as_low_as_it_can(message_v1: bytes) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"x"), leader_epoch=0)
    far = (INT32_MAX + 100).to_bytes(8, "big") + message_v1[8:]

    log.append_as_follower(far, leader_epoch=0)

    assert log.segments.base_offsets == (0, 100)
