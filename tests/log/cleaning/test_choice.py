"""Which log is cleaned next and up to where: Kafka's scenarios of its cleaner, over plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from stratalog.config import LogConfig
from stratalog.files.names import TopicPartition
from stratalog.log.cleaning.choice import (
    CleanableEnd,
    Eligibility,
    LogFacts,
    cleanable_offsets,
    compaction_delay_ms,
    filthiest,
    log_to_clean,
)

NOW = 1_000_000
LOG = TopicPartition("log", 0)


@dataclass(frozen=True)
class Segment:
    base_offset: int
    size: int = 100
    largest_timestamp: int = 0
    first_timestamp: int | None = 0

    def rolling_based_timestamp(self) -> int | None:
        return self.first_timestamp


def facts(
    *segments: Segment, start: int = 0, stable: int | None = None, end: int = 30, **settings: Any
) -> LogFacts:
    config = LogConfig.of({key.replace("_", "."): value for key, value in settings.items()})
    return LogFacts(LOG, segments, start, end if stable is None else stable, end, config)


THREE = (Segment(0), Segment(10), Segment(20))


# From where to where


def test_a_log_without_a_checkpoint_is_dirty_from_its_start() -> None:
    assert cleanable_offsets(facts(*THREE, start=4), None, NOW)[:2] == (4, 20)


@pytest.mark.parametrize(("checkpoint", "resets"), [(3, True), (4, False), (30, False), (31, True)])
def test_a_checkpoint_outside_the_log_is_reset_to_its_start(checkpoint: int, resets: bool) -> None:
    found = cleanable_offsets(facts(*THREE, start=4), checkpoint, NOW)

    assert (found.first_dirty, found.resets_checkpoint) == (4 if resets else checkpoint, resets)


def test_a_checkpoint_in_the_active_segment_leaves_nothing_to_clean() -> None:
    found = log_to_clean(facts(*THREE), 25, NOW)

    assert (found.first_dirty, found.cleanable_size) == (25, 0)
    assert found.eligibility is Eligibility.NOTHING_DIRTY


def test_a_start_in_the_active_segment_leaves_nothing_to_clean() -> None:
    found = log_to_clean(facts(*THREE, start=25), 5, NOW)

    assert (found.first_dirty, found.cleanable_size, found.resets_checkpoint) == (25, 0, True)


def test_a_checkpoint_before_the_first_segment_begins_there() -> None:
    """Segments were deleted past the checkpoint."""
    found = log_to_clean(facts(Segment(10), Segment(20), start=10), 0, NOW)

    assert (found.first_dirty, found.cleanable_size, found.resets_checkpoint) == (10, 100, True)


def test_the_active_segment_is_never_cleaned() -> None:
    found = cleanable_offsets(facts(*THREE), None, NOW)

    assert (found.first_uncleanable_dirty, found.bound) == (20, CleanableEnd.ACTIVE)


@pytest.mark.parametrize(("stable", "expected"), [(0, 0), (9, 9), (15, 15), (20, 20), (25, 20)])
def test_nothing_is_cleaned_from_the_last_stable_offset_on(stable: int, expected: int) -> None:
    found = cleanable_offsets(facts(*THREE, stable=stable), None, NOW)

    assert found.first_uncleanable_dirty == expected
    assert (found.bound is CleanableEnd.LAST_STABLE) == (stable < 20)


def test_a_bound_below_what_is_clean_is_still_the_reason() -> None:
    """A high watermark may not be known, and min.compaction.lag.ms may have been raised."""
    unknown = log_to_clean(facts(*THREE, stable=0), 10, NOW)
    young = facts(Segment(0), Segment(10, largest_timestamp=NOW), Segment(20), min_compaction_lag_ms=1000)

    assert (unknown.first_uncleanable, unknown.bound) == (10, CleanableEnd.LAST_STABLE)
    assert (log_to_clean(young, 15, NOW).first_uncleanable, log_to_clean(young, 15, NOW).bound) == (
        10,
        CleanableEnd.MIN_LAG,
    )


def test_an_undecided_record_keeps_its_whole_segment_from_being_counted() -> None:
    found = log_to_clean(facts(*THREE, stable=15), None, NOW)

    assert (found.first_uncleanable, found.cleanable_size) == (10, 100)


def test_young_segments_wait_for_min_compaction_lag() -> None:
    segments = (
        Segment(0, largest_timestamp=NOW - 1000),
        Segment(10, largest_timestamp=NOW - 10),
        Segment(20),
    )

    found = cleanable_offsets(facts(*segments, min_compaction_lag_ms=100), None, NOW)

    assert (found.first_uncleanable_dirty, found.bound) == (10, CleanableEnd.MIN_LAG)
    assert (
        cleanable_offsets(facts(*segments, min_compaction_lag_ms=2000), None, NOW).first_uncleanable_dirty
        == 0
    )
    assert (
        cleanable_offsets(facts(*segments, min_compaction_lag_ms=5), None, NOW).first_uncleanable_dirty == 20
    )


def test_a_segment_exactly_as_old_as_the_lag_is_cleaned() -> None:
    segments = (Segment(0, largest_timestamp=NOW - 100), Segment(10))

    assert (
        cleanable_offsets(facts(*segments, end=20, min_compaction_lag_ms=100), None, NOW).bound
        is CleanableEnd.ACTIVE
    )


def test_clean_segments_do_not_wait() -> None:
    segments = (Segment(0, largest_timestamp=NOW), Segment(10), Segment(20))

    found = cleanable_offsets(facts(*segments, min_compaction_lag_ms=100), 10, NOW)

    assert found.first_uncleanable_dirty == 20


# How dirty


def test_the_ratio_is_that_of_dirty_bytes() -> None:
    found = log_to_clean(facts(Segment(0, 300), Segment(10, 100), Segment(20, 999)), 10, NOW)

    assert (found.clean_size, found.cleanable_size, found.ratio) == (300, 100, 0.25)


def test_the_segment_that_the_checkpoint_lies_in_counts_twice() -> None:
    found = log_to_clean(facts(*THREE), 15, NOW)

    assert (found.clean_size, found.cleanable_size) == (200, 100)


@pytest.mark.parametrize(("limit", "expected"), [(0.24, True), (0.25, False), (0.26, False)])
def test_a_log_is_cleaned_when_it_is_dirtier_than_the_limit(limit: float, expected: bool) -> None:
    segments = (Segment(0, 300), Segment(10, 100), Segment(20))

    found = log_to_clean(facts(*segments, min_cleanable_dirty_ratio=limit), 10, NOW)

    assert found.is_eligible is expected


def test_a_record_that_waited_longer_than_max_compaction_lag_makes_its_log_due() -> None:
    segments = (Segment(0, 900), Segment(10, 100, first_timestamp=NOW - 5000), Segment(20))
    log = facts(*segments, max_compaction_lag_ms=1000)

    found = log_to_clean(log, 10, NOW)

    assert (found.compaction_delay_ms, found.eligibility) == (4000, Eligibility.OVERDUE)
    assert compaction_delay_ms(facts(*segments, max_compaction_lag_ms=5000), 10, NOW) == 0


def test_clean_and_active_segments_and_those_without_a_time_are_never_late() -> None:
    segments = (
        Segment(0, first_timestamp=1),
        Segment(10, first_timestamp=None),
        Segment(20, first_timestamp=0),
        Segment(30, first_timestamp=1),
    )

    assert compaction_delay_ms(facts(*segments, end=40, max_compaction_lag_ms=1000), 10, NOW) == 0


def test_no_segment_is_asked_for_its_time_without_a_limit() -> None:
    class Unread(Segment):
        def rolling_based_timestamp(self) -> int | None:
            raise AssertionError("it would have been read")

    assert log_to_clean(facts(Unread(0), Segment(10), end=20), None, NOW).compaction_delay_ms == 0


def test_a_log_without_bytes_is_never_chosen() -> None:
    assert filthiest([log_to_clean(facts(Segment(0, 0), end=0), None, NOW)]) is None


def test_the_dirtiest_goes_first() -> None:
    logs = [
        log_to_clean(
            facts(Segment(0, clean), Segment(10), Segment(20))._replace(topic_partition=key), 10, NOW
        )
        for key, clean in [
            (TopicPartition("a", 0), 90),
            (TopicPartition("b", 0), 10),
            (TopicPartition("c", 0), 50),
        ]
    ]

    chosen = filthiest(logs)

    assert chosen is not None
    assert chosen.topic_partition.topic == "b"
