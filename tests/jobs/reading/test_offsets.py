"""The position of a stream and how far it goes: decided from values, so each rule has its case here."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.jobs.reading.offsets import (
    OffsetRange,
    Standing,
    StreamOffset,
    advanced,
    at_offsets,
    begins,
    count_between,
    is_to_wait,
    ranges,
)

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)
FIRST, SECOND = "CVmmc5E3Svq-PtfZ062cfg", "b3JkZXJzLW1hZGUtYW5ldw"


def standing(start: int, end: int, topic_id: str | None = None, valid_end: int | None = None) -> Standing:
    return Standing(start, end, end if valid_end is None else valid_end, topic_id)


def at(topic_id: str | None = None, /, **offsets: int) -> StreamOffset:
    """at(a0=17): a stream whose next offset of a-0 is 17."""
    by_partition = {TopicPartition(name[0], int(name[1:])): offset for name, offset in offsets.items()}
    ids = dict.fromkeys(by_partition, topic_id) if topic_id else {}
    return StreamOffset(offsets=by_partition, topic_ids=ids)


def test_json_is_that_of_kafkas_source_and_the_ids() -> None:
    offset = StreamOffset(offsets={A1: 4, B0: 0, A0: 17}, topic_ids={A0: FIRST})

    assert json.dumps(offset.to_json()) == (
        '{"a": {"0": 17, "1": 4}, "b": {"0": 0}, "@topicIds": {"a": {"0": "' + FIRST + '"}}}'
    )
    assert at(a0=17).to_json() == {"a": {"0": 17}}


def test_partitions_are_in_the_order_of_their_numbers() -> None:
    offset = StreamOffset(offsets={TopicPartition("a", number): 0 for number in (10, 9, 100)})

    assert list(offset.to_json()["a"]) == ["9", "10", "100"]


_PARTITIONS = st.builds(TopicPartition, st.sampled_from("abc"), st.integers(0, 2**31 - 1))


@given(
    st.dictionaries(_PARTITIONS, st.integers(0, 2**63 - 1)),
    st.dictionaries(_PARTITIONS, st.sampled_from([FIRST, SECOND])),
)
def test_json_round_trips(offsets: dict[TopicPartition, int], ids: dict[TopicPartition, str]) -> None:
    offset = StreamOffset(offsets=offsets, topic_ids=ids)

    assert StreamOffset.from_json(json.loads(json.dumps(offset.to_json()))) == offset


@pytest.mark.parametrize(
    "wrong", [{"a": 3}, {"a": {"x": 3}}, {"a": {"0": "3"}}, {"a": {"0": 3}, "@topicIds": {"a": {"0": 3}}}]
)
def test_a_checkpoint_of_another_source_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="not written by a stream of the stratalog source"):
        StreamOffset.from_json(wrong)


def test_a_known_partition_goes_on_where_it_was() -> None:
    assert begins(at(a0=17), {A0: standing(3, 30)}) == ({A0: 17}, [])


def test_a_partition_that_came_since_is_read_from_its_beginning() -> None:
    found, losses = begins(at(a0=17), {A0: standing(0, 30), A1: standing(0, 5)})

    assert (found, losses) == ({A0: 17, A1: 0}, [])


@pytest.mark.parametrize(
    ("start", "now", "goes_on", "says"),
    [
        (at(a0=9), {A0: standing(20, 30)}, 20, "offset 9 is next, but the log now begins at 20."),
        (at(a0=40), {A0: standing(0, 30)}, 30, "offset 40 is next, but the log now ends at 30."),
        (at(FIRST, a0=4), {A0: standing(0, 30, SECOND)}, 0, "the topic was deleted and created again"),
        (at(b0=1), {A0: standing(7, 9), B0: standing(0, 1)}, 7, "it was created while the stream ran"),
    ],
    ids=["retained", "truncated", "deleted and created again", "came late"],
)
def test_what_cannot_be_read_any_more_is_data_loss(
    start: StreamOffset, now: dict[TopicPartition, Standing], goes_on: int, says: str
) -> None:
    found, (loss,) = begins(start, now)

    assert found[A0] == goes_on
    assert says in loss.reason
    assert loss.topic_partition == A0
    assert loss.valid == now[A0][:2]


def test_a_partition_that_is_gone_is_data_loss_and_forgotten() -> None:
    found, (loss,) = begins(at(a0=1, b0=5), {A0: standing(0, 3)})

    assert found == {A0: 1}
    assert (loss.topic_partition, loss.offset, loss.reason) == (B0, 5, "its directory is gone.")


def test_an_id_that_is_not_known_on_one_side_proves_nothing() -> None:
    assert begins(at(a0=4), {A0: standing(0, 30, SECOND)})[1] == []
    assert begins(at(FIRST, a0=4), {A0: standing(0, 30)})[1] == []


def test_an_id_is_kept_while_its_file_is_not_there() -> None:
    now = {A0: standing(0, 30)}

    assert advanced(at(FIRST, a0=4), {A0: 4}, now) == at(FIRST, a0=30)
    assert at_offsets({A0: 4}, {A0: standing(0, 30, SECOND)}) == at(SECOND, a0=4)


def test_without_a_limit_a_trigger_goes_to_the_end() -> None:
    assert advanced(at(), {A0: 17, B0: 2}, {A0: standing(0, 30), B0: standing(0, 2)}) == at(a0=30, b0=2)


def test_a_reader_of_committed_records_waits_at_the_last_stable_offset() -> None:
    """Also where it has read past it before, as a reader of all records."""
    now = {A0: standing(0, 12, valid_end=30)}

    assert begins(at(a0=17), now) == ({A0: 17}, [])
    assert advanced(at(a0=17), {A0: 17}, now) == at(a0=17)
    assert count_between({A0: 17}, now) == 0


def test_a_limit_is_shared_by_size() -> None:
    now = {A0: standing(0, 800), A1: standing(0, 150), B0: standing(0, 50)}

    assert advanced(at(), {A0: 0, A1: 0, B0: 0}, now, at_most=100) == at(a0=80, a1=15, b0=5)


def test_a_small_partition_is_not_starved_by_a_large_one() -> None:
    now = {A0: standing(0, 1_000_000), B0: standing(0, 1)}

    assert advanced(at(), {A0: 0, B0: 0}, now, at_most=10) == at(a0=9, b0=1)


@given(
    st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1, max_size=20),
    st.integers(1, 2**41),
)
def test_with_a_limit_each_partition_moves_and_none_too_far(sizes: list[tuple[int, int]], limit: int) -> None:
    begin = {TopicPartition("a", number): start for number, (start, _) in enumerate(sizes)}
    now = {TopicPartition("a", n): standing(0, start + size) for n, (start, size) in enumerate(sizes)}

    end = advanced(StreamOffset(offsets=begin), begin, now, at_most=limit).offsets

    assert all(
        begin[each] < end[each] <= now[each].end_offset or begin[each] == now[each].end_offset
        for each in begin
    )
    assert sum(end.values()) - sum(begin.values()) <= limit + len(sizes)


@given(st.integers(1, 500), st.integers(0, 500), st.integers(1, 50))
def test_under_a_limit_triggers_come_to_the_end(first: int, second: int, limit: int) -> None:
    now = {A0: standing(0, first), B0: standing(0, second)}
    offset, read = at(a0=0, b0=0), 0

    for _ in range(first + second):
        begin, _losses = begins(offset, now)
        following = advanced(offset, begin, now, at_most=limit)
        found, losses = ranges(offset, following, now)
        assert losses == []
        read += sum(each.end_offset - each.start_offset for each in found)
        offset = following

    assert offset == at(a0=first, b0=second)
    assert read == first + second


@pytest.mark.parametrize(
    ("count", "waited_ms", "waits"), [(9, 0, True), (10, 0, False), (9, 999, True), (0, 1000, False)]
)
def test_a_trigger_waits_for_enough_but_not_for_ever(count: int, waited_ms: int, waits: bool) -> None:
    assert is_to_wait(count, at_least=10, waited_ms=waited_ms, max_delay_ms=1000) is waits


def test_ranges_lie_between_two_offsets() -> None:
    now = {A0: standing(0, 99), A1: standing(0, 99), B0: standing(0, 99)}

    found, losses = ranges(at(a0=3, a1=8), at(a0=5, a1=8, b0=2), now)

    assert found == [OffsetRange(A0, 3, 5), OffsetRange(B0, 0, 2)]
    assert losses == []


@pytest.mark.parametrize(
    ("now", "left", "says"),
    [
        ({A0: standing(4, 9)}, [OffsetRange(A0, 4, 6)], "the log now begins at 4"),
        ({A0: standing(7, 9)}, [], "the log now begins at 7"),
        ({A0: standing(0, 5)}, [OffsetRange(A0, 3, 5)], "the log now ends at 5"),
        ({A0: standing(0, 2)}, [], "the log now ends at 2"),
        ({A0: standing(0, 9, SECOND)}, [], "deleted and created again"),
        ({}, [], "its directory is gone"),
    ],
)
def test_what_a_trigger_cannot_read_again_after_a_restart_is_data_loss(
    now: dict[TopicPartition, Standing], left: list[OffsetRange], says: str
) -> None:
    found, (loss,) = ranges(at(FIRST, a0=3), at(FIRST, a0=6), now)

    assert found == left
    assert says in loss.reason


def test_a_partition_of_which_nothing_is_read_may_be_gone() -> None:
    assert ranges(at(FIRST, a0=3), at(FIRST, a0=3), {}) == ([], [])


def test_an_offset_that_went_back_is_an_empty_range() -> None:
    """As it does where a log was cut, and data loss does not matter."""
    assert ranges(at(a0=9), at(a0=6), {A0: standing(0, 6)}) == ([], [])


def test_a_topic_made_anew_is_read_from_its_beginning() -> None:
    """Where data loss does not matter."""
    assert ranges(at(FIRST, a0=9), at(SECOND, a0=4), {A0: standing(0, 6, SECOND)})[0] == [
        OffsetRange(A0, 0, 4)
    ]
