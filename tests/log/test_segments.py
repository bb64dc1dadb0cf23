"""The ordered map of segments: look-ups at, below and above an offset, and snapshots that readers keep."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.log.segments import LogSegments
from stratalog.segment.segment import LogSegment
from tests.log.model import ManualClock


def segment(base_offset: int, size: int = 0) -> LogSegment:
    """A segment from a listing; its files are never read here."""
    return LogSegment.open(Disk(), "orders-0", base_offset, LogConfig(), ManualClock(), size=size)


@pytest.fixture
def segments() -> LogSegments[LogSegment]:
    return LogSegments([segment(base) for base in (30, 10, 20)])


def bases(found: tuple[LogSegment, ...]) -> list[int]:
    return [each.base_offset for each in found]


def test_segments_are_ordered_by_their_base(segments: LogSegments[LogSegment]) -> None:
    assert segments.base_offsets == (10, 20, 30)
    assert (segments.first.base_offset, segments.active.base_offset, len(segments)) == (10, 30, 3)
    assert bases(tuple(segments)) == [10, 20, 30]


def test_segments_that_are_made_when_used_are_like_others(segments: LogSegments[LogSegment]) -> None:
    made: list[int] = []

    def make(base: int) -> LogSegment:
        made.append(base)
        return segment(base)

    found = LogSegments.made_when_used([30, 10, 20], make)
    assert (found.base_offsets, len(found), len(found.readers), made) == ((10, 20, 30), 3, 3, [])
    assert found.active.base_offset == 30
    assert found.readers.active is found.active.reader
    assert made == [30], "once, and no other"
    for offset in (5, 10, 15, 30, 35):
        assert getattr(found.floor(offset), "base_offset", None) == getattr(
            segments.floor(offset), "base_offset", None
        )
        assert bases(found.above(offset)) == bases(segments.above(offset))
        assert bases(tuple(found.from_floor(offset))) == bases(tuple(segments.from_floor(offset)))
        assert bases(found.range(offset, 30)) == bases(segments.range(offset, 30))
    first = found.first
    found.add(segment(40))
    assert found.first is first
    assert found.readers.first is first.reader
    assert bases(tuple(found)) == [10, 20, 30, 40]
    assert sorted(made) == [10, 20, 30]


def test_threads_that_use_a_segment_first_get_the_same_one() -> None:
    meeting = threading.Barrier(4)

    def make(base: int) -> LogSegment:
        meeting.wait(10)  # all four find that it is not there
        return segment(base)

    found = LogSegments.made_when_used([10], make)
    with ThreadPoolExecutor(4) as pool:
        got = [each.result() for each in [pool.submit(lambda: found.first) for _ in range(4)]]

    assert {id(each) for each in got} == {id(found.active)}


def test_a_segment_is_added_removed_and_put_in_the_place_of_another(
    segments: LogSegments[LogSegment],
) -> None:
    new = segment(20)
    segments.add(new)
    segments.add(segment(15))
    segments.remove([segments.first])

    assert segments.base_offsets == (15, 20, 30)
    assert segments.get(20) is new
    assert 20 in segments
    assert 10 not in segments


def test_all_can_be_replaced_at_once(segments: LogSegments[LogSegment]) -> None:
    segments.replace([segment(7)])
    assert segments.base_offsets == (7,)

    segments.replace([])
    assert len(segments) == 0
    assert segments.floor(7) is None


@pytest.mark.parametrize(
    ("offset", "expected"), [(9, None), (10, 10), (19, 10), (20, 20), (29, 20), (30, 30), (99, 30)]
)
def test_the_floor_is_the_segment_that_would_hold_the_offset(
    segments: LogSegments[LogSegment], offset: int, expected: int | None
) -> None:
    found = segments.floor(offset)

    assert (None if found is None else found.base_offset) == expected


@pytest.mark.parametrize(
    ("offset", "expected"), [(0, [10, 20, 30]), (10, [20, 30]), (15, [20, 30]), (30, []), (40, [])]
)
def test_above_is_strict(segments: LogSegments[LogSegment], offset: int, expected: list[int]) -> None:
    assert bases(segments.above(offset)) == expected


@pytest.mark.parametrize(
    ("start", "end", "expected"),
    [
        (10, 31, [10, 20, 30]),
        (10, 30, [10, 20]),
        (15, 30, [10, 20]),
        (20, 21, [20]),
        (20, 20, []),
        (0, 11, [10]),
        (99, 100, [30]),
    ],
)
def test_a_range_begins_with_the_floor_and_ends_before_its_end(
    segments: LogSegments[LogSegment], start: int, end: int, expected: list[int]
) -> None:
    assert bases(segments.range(start, end)) == expected


def test_from_the_floor_on_come_all(segments: LogSegments[LogSegment]) -> None:
    assert bases(segments.from_floor(25)) == [20, 30]
    assert bases(segments.from_floor(5)) == [10, 20, 30]


def test_who_iterates_keeps_what_there_was(segments: LogSegments[LogSegment]) -> None:
    begun = iter(segments)
    segments.replace([])

    assert [each.base_offset for each in begun] == [10, 20, 30]


def test_readers_follow_each_change(segments: LogSegments[LogSegment]) -> None:
    readers = segments.readers
    found = [readers.base_offsets]
    segments.add(segment(40))
    found.append(readers.base_offsets)
    segments.remove([segments.first])
    found.append(readers.base_offsets)
    segments.replace([segment(7)])
    found.append(readers.base_offsets)

    assert found == [(10, 20, 30), (10, 20, 30, 40), (20, 30, 40), (7,)]
    assert readers.active is segments.active.reader


def test_a_snapshot_stays_as_it_was(segments: LogSegments[LogSegment]) -> None:
    snapshot = segments.readers.snapshot()
    is_as_before = segments.readers.is_as(snapshot)
    segments.add(segment(40))

    assert (is_as_before, segments.readers.is_as(snapshot)) == (True, False)
    assert snapshot.base_offsets == (10, 20, 30)


def test_sizes_add_up_beyond_31_bits() -> None:
    most = 2**31 - 1
    segments = LogSegments([segment(base, most) for base in (0, 1, 2)])

    assert sum(each.size for each in segments) == 3 * most


class Timed:
    """All that a look-up by time asks of a segment."""

    def __init__(self, base_offset: int, largest_timestamp: int) -> None:
        self.base_offset = base_offset
        self.largest_timestamp = largest_timestamp


@given(st.lists(st.integers(-1, 9), min_size=1, max_size=8), st.lists(st.integers(0, 10), min_size=1))
def test_segments_that_reach_a_time_are_found_in_any_order_of_times(
    times: list[int], asked: list[int]
) -> None:
    segments = LogSegments()
    for base_offset, timestamp in enumerate(times):
        segments.add(Timed(base_offset, timestamp))  # type: ignore[arg-type]
        for wanted in asked:
            found = [segment.base_offset for segment in segments.reaching(wanted)]

            assert found == [i for i, time in enumerate(times[: base_offset + 1]) if time >= wanted]
            first = segments.first_reaching(wanted)
            assert (None if first is None else first.base_offset) == (found[0] if found else None)


@given(
    st.lists(st.integers(0, 9), min_size=3, max_size=8),
    st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9) | st.none()), max_size=5),
    st.integers(0, 10),
)
def test_a_time_is_found_among_the_segments_that_are_left_or_were_put_in_another_s_place(
    times: list[int], changes: list[tuple[int, int | None]], wanted: int
) -> None:
    expected = dict(enumerate(times))
    segments = LogSegments(Timed(base, time) for base, time in expected.items())  # type: ignore[misc]
    for base_offset, timestamp in changes:
        segments.first_reaching(wanted)  # which remembers what it has seen
        if timestamp is not None:
            expected[base_offset] = timestamp
            segments.add(Timed(base_offset, timestamp))  # type: ignore[arg-type]
        elif base_offset in expected and len(expected) > 1:
            del expected[base_offset]
            segments.remove([Timed(base_offset, -1)])  # type: ignore[list-item]

    found = [segment.base_offset for segment in segments.reaching(wanted)]

    assert found == [base for base in sorted(expected) if expected[base] >= wanted]
