"""Which segments go and which stay: Kafka's retention scenarios, and why each segment is still there."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.config import LogConfig
from stratalog.errors import LogClosedError
from stratalog.log.cleaning.results import CleanedSegment
from stratalog.log.retention import KeepReason, Marks, Rule, SegmentFacts, decide, facts_of
from stratalog.records.control import ControlType
from tests.log.model import NOW, append_marker, batch, produced, read_all
from tests.log.segmented import SET_SIZE, bases, fill, machine, rules


def test_a_segment_that_a_cleaning_would_write_is_judged_as_one_that_is_there() -> None:
    cleaned = [
        CleanedSegment(base_offset=0, size=7, max_timestamp=5, modified_ms=9),
        CleanedSegment(base_offset=3, size=0, max_timestamp=-1, modified_ms=9),
    ]

    assert facts_of(cleaned) == (
        SegmentFacts(0, 7, largest_timestamp=5),
        SegmentFacts(3, 0, largest_timestamp=9, is_file_time=True),
    )


def test_segments_go_by_size_as_long_as_the_log_keeps_retention_bytes() -> None:
    log = fill(machine(retention_bytes=10 * SET_SIZE).open())

    assert rules(log) == [Rule.SIZE]
    assert (bases(log), log.log_start_offset, log.size) == ([5, 10], 5, 10 * SET_SIZE)


def test_a_log_never_shrinks_below_retention_bytes() -> None:
    log = fill(machine(retention_bytes=10 * SET_SIZE + 1).open())

    assert rules(log) == []


def test_a_log_under_its_size_limit_stays() -> None:
    log = fill(machine(retention_bytes=15 * SET_SIZE).open(), 10)

    assert rules(log) == []


def test_a_limit_of_no_bytes_takes_everything() -> None:
    log = fill(machine(retention_bytes=0).open(), 12)

    assert rules(log) == [Rule.SIZE] * 3
    assert (bases(log), log.log_start_offset, log.log_end_offset) == ([12], 12, 12)


def test_segments_go_when_their_newest_record_is_older_than_retention_ms() -> None:
    log = fill(machine(retention_ms=10_000).open(), timestamp=10)

    assert rules(log) == [Rule.TIME] * 3
    assert bases(log) == [15]


def test_segments_whose_time_has_not_come_stay() -> None:
    log = fill(machine(retention_ms=10_000_000).open())

    assert rules(log) == []


def test_a_segment_exactly_as_old_as_retention_ms_stays() -> None:
    own = machine(retention_ms=1000)
    log = fill(own.open(), 5)
    own.clock.sleep(1000)
    assert rules(log) == []

    own.clock.sleep(1)

    assert rules(log) == [Rule.TIME]


def test_records_without_a_timestamp_age_by_their_file() -> None:
    own = machine(retention_ms=1000)
    log = fill(own.open(), 10, timestamp=-1)
    own.clock.sleep(1000)
    assert rules(log) == []
    own.clock.sleep(1)

    assert [found.segment.is_file_time for found in log.retention()] == [True, True]
    assert rules(log) == [Rule.TIME] * 2


def test_without_delete_in_the_policy_nothing_goes_by_size_or_time() -> None:
    log = fill(machine(retention_ms=0, retention_bytes=0, cleanup_policy="delete").open(), timestamp=10)
    log.config = log.config.with_overrides({"cleanup.policy": "compact"})

    assert rules(log) == []
    assert [found.kept for found in log.retention()] == [KeepReason.POLICY] * 3


def test_with_both_policies_segments_go_by_time() -> None:
    log = fill(machine(retention_ms=10_000).open(), timestamp=10)
    log.config = log.config.with_overrides({"cleanup.policy": "compact,delete"})

    assert rules(log) == [Rule.TIME] * 3


def test_with_no_policy_at_all_only_what_is_below_the_start_goes() -> None:
    log = fill(machine(retention_ms=0, retention_bytes=0).open(), timestamp=10)
    log.config = log.config.with_overrides({"cleanup.policy": ""})
    log.increment_log_start_offset(5)

    assert rules(log) == [Rule.LOG_START]


@pytest.mark.parametrize("policy", ["compact", "delete", "compact,delete"])
@pytest.mark.parametrize(("start", "gone"), [(4, 0), (5, 1), (9, 1), (10, 2), (15, 2)])
def test_segments_below_the_start_go_whatever_the_policy(policy: str, start: int, gone: int) -> None:
    log = fill(machine().open())
    log.config = log.config.with_overrides({"cleanup.policy": policy})
    log.increment_log_start_offset(start)

    assert rules(log) == [Rule.LOG_START] * gone
    assert log.log_start_offset == start


def test_a_start_that_moved_unblocks_time_in_the_same_call_and_twice_is_once() -> None:
    own = machine(retention_ms=1000)
    log = fill(own.open(), 5, timestamp=NOW + 10_000)
    fill(log, 5, timestamp=NOW - 10_000)
    fill(log, 1)
    assert rules(log) == []
    log.increment_log_start_offset(7)

    assert rules(log) == [Rule.LOG_START, Rule.TIME]
    assert rules(log) == []
    assert log.log_start_offset == 10


def test_old_timestamps_make_records_go_at_once() -> None:
    log = fill(machine(retention_ms=604_800_000).open(), 15, timestamp=NOW - 604_800_001)

    assert rules(log) == [Rule.TIME] * 3


@pytest.mark.parametrize("high_watermark", range(16))
def test_nothing_at_or_above_the_high_watermark_goes(high_watermark: int) -> None:
    log = fill(machine(retention_ms=0).open(embedded=False), timestamp=10)
    log.update_high_watermark(high_watermark)

    log.delete_old_segments()

    assert log.segments.first.base_offset <= high_watermark
    assert len(bases(log)) == 3 - high_watermark // 5 + (high_watermark == 15)
    assert log.log_start_offset == high_watermark // 5 * 5


def test_an_empty_active_segment_stays() -> None:
    log = fill(machine(retention_ms=0).open(), 5, timestamp=10)
    log.roll()

    assert rules(log) == [Rule.TIME]
    assert [found.kept for found in log.retention()] == [KeepReason.EMPTY]


@pytest.mark.parametrize("count", [0, 1, 25])
def test_deleting_all_segments_leaves_the_end_where_it_was(count: int) -> None:
    own = machine(retention_ms=0)
    log = fill(own.open(), count, timestamp=10)

    log.delete_old_segments()
    assert (log.log_start_offset, log.log_end_offset, len(log.segments)) == (count, count, 1)

    log = own.reopen(log)
    assert log.append_as_leader(batch(b"next"), leader_epoch=0).first_offset == count


def test_an_epoch_that_began_in_a_deleted_segment_begins_at_the_new_start() -> None:
    log = machine(retention_bytes=10 * SET_SIZE).open()
    for number in range(15):
        log.append_as_leader(batch(b"%04d" % number), leader_epoch=int(number >= 7))

    log.delete_old_segments()

    assert [(entry.epoch, entry.start_offset) for entry in log.epochs.entries] == [(0, 5), (1, 7)]


def test_the_last_stable_offset_does_not_fall_behind_a_start_that_moved() -> None:
    log = machine().open()
    log.append_as_leader(produced(1, 0, b"open", transactional=True), leader_epoch=0)
    fill(log, 9)
    assert log.last_stable_offset == 0

    log.increment_log_start_offset(5)
    log.delete_old_segments()

    assert (log.last_stable_offset, log.log_start_offset) == (5, 5)
    append_marker(log, 1, ControlType.ABORT)
    assert log.last_stable_offset == log.log_end_offset


def test_what_is_left_can_be_read_and_appended_to_after_a_restart() -> None:
    own = machine(retention_bytes=5 * SET_SIZE)
    log = fill(own.open(), 12)
    log.delete_old_segments()

    log = own.reopen(log)

    assert [record.offset for record in read_all(log)] == list(range(5, 12))
    assert own.files(".deleted") == []


def test_a_closed_log_deletes_nothing() -> None:
    own = machine(retention_ms=0)
    log = fill(own.open(), 12, timestamp=10)
    log.close()

    with pytest.raises(LogClosedError):
        log.delete_old_segments()

    assert own.files(".deleted") == []


FIRST, SECOND, THIRD = (SegmentFacts(base, 100, NOW) for base in (0, 10, 20))


def kept(
    config: LogConfig, *segments: SegmentFacts, high_watermark: int = 30, start: int = 0
) -> list[KeepReason | None]:
    return [found.kept for found in decide(segments, Marks(start, high_watermark, 30), config, NOW)]


def test_a_segment_in_the_future_holds_the_old_ones_behind_it() -> None:
    segments = (FIRST._replace(largest_timestamp=NOW + 500), SECOND._replace(largest_timestamp=0), THIRD)
    config = LogConfig.of({"retention.ms": 1000})

    found = decide(segments, Marks(0, 30, 30), config, NOW)

    assert [each.kept for each in found] == [KeepReason.FUTURE, KeepReason.BLOCKED, KeepReason.YOUNG]
    assert [each.blocked_by for each in found] == [None, 0, 0]
    assert [each.due_ms for each in found] == [NOW + 1501] * 3


def test_it_is_told_by_how_much_a_log_must_grow() -> None:
    config = LogConfig.of({"retention.ms": -1, "retention.bytes": 250})

    found = decide((FIRST, SECOND, THIRD), Marks(0, 30, 30), config, NOW)

    assert [(each.kept, each.growth) for each in found] == [
        (KeepReason.SMALL, 50),
        (KeepReason.SMALL, 150),
        (KeepReason.SMALL, 250),
    ]


def test_a_log_without_limits_says_so() -> None:
    assert kept(LogConfig.of({"retention.ms": -1}), FIRST, SECOND) == [KeepReason.NO_LIMIT] * 2


def test_the_high_watermark_goes_before_all_other_reasons() -> None:
    config = LogConfig.of({"retention.ms": 0, "cleanup.policy": "compact"})

    assert kept(config, FIRST, SECOND, high_watermark=10) == [KeepReason.POLICY, KeepReason.NOT_REPLICATED]


SEGMENTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 20)), min_size=1, max_size=6)


@given(
    SEGMENTS,
    st.sampled_from(["delete", "compact", "compact,delete"]),
    st.integers(-1, 12),
    st.integers(-1, 12),
    st.integers(0, 70),
    st.integers(0, 70),
)
def test_what_is_due_goes_then_and_not_before(
    shapes: list[tuple[int, int]], policy: str, retention_ms: int, retention_bytes: int, start: int, mark: int
) -> None:
    """One segment after the other by the plainest reading of the rules; `due_ms` is tried out."""
    segments = [SegmentFacts(10 * i, size, time) for i, (size, time) in enumerate(shapes)]
    end = 10 * len(segments)
    marks = Marks(min(start, mark, end), min(mark, end), end)
    config = LogConfig.of(
        {"cleanup.policy": policy, "retention.ms": retention_ms, "retention.bytes": retention_bytes}
    )
    now = 10

    decisions = decide(segments, marks, config, now)

    assert [found.segment for found in decisions if found.is_deleted] == naive(segments, marks, config, now)
    for index, found in enumerate(decisions):
        assert (found.rule is None) != (found.kept is None)
        if found.due_ms is not None:
            assert decide(segments, marks, config, found.due_ms)[index].is_deleted
            assert found.due_ms > now
            before = decide(segments, marks, config, found.due_ms - 1)[index]
            assert before.rule is not Rule.TIME
        if found.kept is KeepReason.SMALL and found.growth is not None:
            grown = [*segments[:-1], segments[-1]._replace(size=segments[-1].size + found.growth)]
            if index < len(segments) - 1:
                assert decide(grown, marks, config, now)[index].is_deleted


def naive(segments: list[SegmentFacts], marks: Marks, config: LogConfig, now: int) -> list[SegmentFacts]:
    """Rule by rule over a shrinking list, as the sentences of the documentation say it."""
    left, gone = list(segments), []

    def may_go(position: int) -> bool:
        upper = left[position + 1].base_offset if position + 1 < len(left) else marks.log_end_offset
        is_empty_last = position + 1 == len(left) and left[position].size == 0
        return marks.high_watermark >= upper and not is_empty_last

    def below_start() -> bool:
        return len(left) > 1 and left[1].base_offset <= marks.log_start_offset

    def too_large() -> bool:
        rest = sum(segment.size for segment in left[1:])
        return config.retention_bytes >= 0 and rest >= config.retention_bytes

    def too_old() -> bool:
        return config.retention_ms >= 0 and now - left[0].largest_timestamp > config.retention_ms

    checks = [below_start, too_large, too_old] if "delete" in config.cleanup_policy else [below_start]
    for check in checks:
        while left and may_go(0) and check():
            gone.append(left.pop(0))
    return gone
