"""The offset index against Kafka's bytes, its look ups, and damage that Kafka does not see."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from stratalog.errors import (
    CorruptIndexError,
    IndexFullError,
    InvalidOffsetError,
    SegmentOffsetOverflowError,
    UsageError,
)
from stratalog.segment.offset_index import ENTRY_SIZE, OffsetEntry, OffsetIndex
from tests.segment.indexes import BASE, ROOM, open_index

LOG_SIZE = 2**31 - 1


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    return open_index(tmp_path)


def test_an_entry_is_the_bytes_that_kafka_writes(tmp_path: Path) -> None:
    index = open_index(tmp_path, base_offset=0)

    index.append(5, 4112)
    index.trim()

    assert Path(index.path).read_bytes().hex() == "0000000500001010"


def test_a_look_up_finds_the_last_entry_that_is_not_above(index: OffsetIndex) -> None:
    draw = random.Random(1)
    offsets = sorted(draw.sample(range(BASE + 1, BASE + 500), ROOM))
    for number, offset in enumerate(offsets):
        index.append(offset, 10 * number + 1)

    for target in range(BASE, BASE + 510):
        below = [offset for offset in offsets if offset <= target]
        expected = OffsetEntry(below[-1], 10 * len(below) - 9) if below else OffsetEntry(BASE, 0)
        assert index.lookup(target) == expected


def test_look_ups_before_the_first_and_behind_the_last(index: OffsetIndex) -> None:
    assert index.lookup(BASE) == OffsetEntry(BASE, 0)
    for i in range(1, ROOM + 1):
        index.append(BASE + i, i)

    assert index.lookup(BASE - 1) == OffsetEntry(BASE, 0)
    assert index.lookup(BASE) == OffsetEntry(BASE, 0)
    assert index.lookup(2**62) == OffsetEntry(BASE + ROOM, ROOM)


def test_entries_by_number(index: OffsetIndex) -> None:
    for i in range(1, 5):
        index.append(BASE + i, 10 * i)

    assert [index.entry(i) for i in range(4)] == [OffsetEntry(BASE + i, 10 * i) for i in range(1, 5)]
    with pytest.raises(UsageError, match="4 entries, none with the number 4"):
        index.entry(4)


def test_a_full_index_takes_no_more(index: OffsetIndex) -> None:
    for i in range(ROOM):
        index.append(BASE + i + 1, i)

    assert index.is_full
    with pytest.raises(IndexFullError, match="full with 30 entries"):
        index.append(BASE + 100, 100)


def test_offsets_must_ascend(index: OffsetIndex) -> None:
    index.append(51, 0)

    with pytest.raises(InvalidOffsetError, match="offset 50 cannot follow"):
        index.append(50, 1)
    with pytest.raises(InvalidOffsetError):
        index.append(51, 1)


@pytest.mark.parametrize("offset", [BASE - 1, BASE + 2**31])
def test_an_offset_too_far_from_the_base_has_no_entry(index: OffsetIndex, offset: int) -> None:
    with pytest.raises(SegmentOffsetOverflowError):
        index.append(offset, 1)


def test_the_upper_bound_of_a_fetch_is_the_first_entry_behind_it(index: OffsetIndex) -> None:
    assert index.upper_bound(5) is None
    for offset, position in ((46, 10), (47, 23), (48, 37)):
        index.append(offset, position)

    assert index.upper_bound(5) == OffsetEntry(46, 10)
    assert index.upper_bound(10) == OffsetEntry(
        47, 23
    )  # as Kafka's: an exact hit on the first is passed over
    assert index.upper_bound(22) == OffsetEntry(47, 23)
    assert index.upper_bound(37) == OffsetEntry(48, 37)
    assert index.upper_bound(38) is None


@pytest.mark.parametrize("lookup_before", [True, False])
@pytest.mark.parametrize(
    ("offset", "kept"), [(BASE + 12, 9), (BASE + 10, 9), (BASE + 9, 8), (BASE + 5, 4), (BASE, 0)]
)
def test_truncation_keeps_what_is_below(
    index: OffsetIndex, offset: int, kept: int, lookup_before: bool
) -> None:
    for i in range(1, 10):
        index.append(BASE + i, 10 * i)
    if not lookup_before:
        index.forget_entries()

    index.truncate_to(offset)

    assert index.entry_count == kept
    assert index.last_entry == (OffsetEntry(BASE + kept, 10 * kept) if kept else OffsetEntry(BASE, 0))
    assert Path(index.path).read_bytes()[kept * ENTRY_SIZE :].count(0) == (ROOM - kept) * ENTRY_SIZE
    index.append(BASE + 20, 100)
    assert index.lookup(BASE + 20) == OffsetEntry(BASE + 20, 100)


def test_an_entry_about_the_base_offset_is_sound(index: OffsetIndex) -> None:
    index.append(BASE, 1)

    index.sanity_check(LOG_SIZE)


def damage_length(data: bytearray) -> None:
    data += b"\0\0\0"


def damage_order(data: bytearray) -> None:
    data[8:12] = data[0:4]


def damage_positions(data: bytearray) -> None:
    data[12:16] = bytes(4)


def tear_a_page(data: bytearray) -> None:
    data[8:16] = bytes(8)


def make_negative(data: bytearray) -> None:
    data[0] = 0x80


def behind_the_log(data: bytearray) -> None:
    data[28:32] = (5000).to_bytes(4, "big")


@pytest.mark.parametrize(
    "damage", [damage_length, damage_order, damage_positions, tear_a_page, make_negative, behind_the_log]
)
def test_damage_that_kafka_does_not_see_is_found(
    index: OffsetIndex, tmp_path: Path, damage: Callable[[bytearray], None]
) -> None:
    for i in range(1, 5):
        index.append(BASE + i, 1000 * i)
    index.close()
    data = bytearray(Path(index.path).read_bytes())
    damage(data)
    Path(index.path).write_bytes(data)

    with pytest.raises(CorruptIndexError, match=r"00000000000000000045\.index"):
        open_index(tmp_path).sanity_check(4500)
