"""Which segments become one. Kafka: the testSegmentGrouping tests of LogCleanerTest"""

from __future__ import annotations

from stratalog.log.cleaning.groups import SegmentSizes, group_segments
from tests.log.cleaning.dirty import Dirty

INT32_MAX = 2**31 - 1
ANY = 10**12


def groups_of(
    *segments: SegmentSizes, max_size: int = ANY, max_index_size: int = ANY, end: int = 1 << 60
) -> list[list[int]]:
    found = group_segments(
        segments, max_size=max_size, max_index_size=max_index_size, first_uncleanable_offset=end
    )
    return [list(group) for group in found]


def segments(
    *bases: int, size: int = 100, offset_index_size: int = 80, time_index_size: int = 120
) -> tuple[SegmentSizes, ...]:
    return tuple(SegmentSizes(base, size, offset_index_size, time_index_size) for base in bases)


def test_what_fits_together_becomes_one() -> None:
    assert groups_of(*segments(0, 10, 20, 30), end=40) == [[0, 1, 2, 3]]


def test_no_segments_make_no_groups() -> None:
    assert groups_of() == []


def test_a_size_that_is_reached_exactly_still_fits() -> None:
    assert groups_of(*segments(0, 10, 20), max_size=200, end=30) == [[0, 1], [2]]


def test_a_segment_that_is_too_large_by_itself_is_a_group() -> None:
    assert groups_of(*segments(0, 10, 20), max_size=1, end=30) == [[0], [1], [2]]


def test_either_index_can_be_what_is_full() -> None:
    by_offsets = segments(0, 10, 20, offset_index_size=80, time_index_size=0)
    by_times = segments(0, 10, 20, offset_index_size=0, time_index_size=80)

    assert groups_of(*by_offsets, max_index_size=160, end=30) == [[0, 1], [2]]
    assert groups_of(*by_times, max_index_size=160, end=30) == [[0, 1], [2]]


def test_offsets_of_a_group_fit_an_index_entry() -> None:
    """KAFKA-5413, KAFKA-4451: an entry has 31 bits for an offset's distance from the base."""
    assert groups_of(*segments(0, 10), end=INT32_MAX + 1) == [[0, 1]]
    assert groups_of(*segments(0, 10), end=INT32_MAX + 2) == [[0], [1]]
    assert groups_of(*segments(0, 10, INT32_MAX + 2), end=INT32_MAX + 3) == [[0], [1, 2]]


def test_an_empty_segment_joins_over_any_gap() -> None:
    first, empty = segments(0), segments(10, size=0, offset_index_size=0, time_index_size=0)
    far = segments(1 << 40)

    assert groups_of(*first, *empty, *far, end=1 << 41) == [[0, 1], [2]]


def test_segments_that_lose_all_their_records_become_one() -> None:
    """KAFKA-12889: every 2^31 offsets an empty segment was left, and all of them rewritten in each round."""
    dirty = Dirty()
    dirty.put((b"a", b"1"))
    for number in range(1, 5):
        dirty.log.roll(number << 31)
        dirty.put((b"a", b"1"), offset=number << 31)
    dirty.roll()

    for _ in range(2):
        dirty.checkpoint = 0
        dirty.clean()

    assert dirty.offsets == [4 << 31]
    assert [segment.base_offset for segment in dirty.log.segments] == [0, 4 << 31, (4 << 31) + 1]


def test_an_index_without_entries_does_not_hide_how_far_offsets_reach() -> None:
    """Kafka's testSegmentGroupingFollowingLoadOfZeroIndex: the next base decides, not the index."""
    unindexed = segments(0, 10, INT32_MAX + 5, offset_index_size=0, time_index_size=0)

    assert groups_of(*unindexed, end=INT32_MAX + 10) == [[0], [1, 2]]


def test_a_group_becomes_one_segment_with_the_first_ones_base() -> None:
    dirty = Dirty()
    for number in range(4):
        dirty.put((b"%d" % number, b"v"))
        dirty.roll()

    result = dirty.clean()

    assert result.groups == ((0, 1, 2, 3),)
    assert [segment.base_offset for segment in dirty.log.segments] == [0, 4]
