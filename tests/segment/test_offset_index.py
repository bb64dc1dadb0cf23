from __future__ import annotations

import random
import weakref
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
from stratalog.files.disk import Disk
from stratalog.segment.index_cache import IndexCache
from stratalog.segment.offset_index import ENTRY_SIZE, OffsetEntry, OffsetIndex

BASE = 45
ROOM = 30
LOG_SIZE = 2**31 - 1


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    return open_index(tmp_path)


def open_index(folder: Path, base_offset: int = BASE, room: int = ROOM) -> OffsetIndex:
    return OffsetIndex(
        Disk(), folder / "00000000000000000045.index", base_offset, max_size=room * ENTRY_SIZE + 7
    )


def test_an_entry_is_the_bytes_that_kafka_writes(tmp_path: Path) -> None:
    index = open_index(tmp_path, base_offset=0)

    index.append(5, 4112)
    index.trim()

    assert Path(index.path).read_bytes().hex() == "0000000500001010"


def test_a_new_index_is_zeros_of_whole_entries(index: OffsetIndex) -> None:
    index.append(46, 1)

    data = Path(index.path).read_bytes()
    assert len(data) == ROOM * ENTRY_SIZE
    assert data[8:].count(0) == len(data) - 8


def test_nothing_is_created_before_an_entry_is_written(index: OffsetIndex) -> None:
    assert index.lookup(92) == OffsetEntry(BASE, 0)
    assert index.max_entries == ROOM
    assert not Path(index.path).exists()


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


def test_a_closed_index_is_cut_and_comes_back(index: OffsetIndex, tmp_path: Path) -> None:
    index.append(51, 100)
    index.append(52, 200)
    index.close()
    again = open_index(tmp_path)

    assert Path(index.path).stat().st_size == 2 * ENTRY_SIZE
    assert [again.lookup(51), again.lookup(52)] == [OffsetEntry(51, 100), OffsetEntry(52, 200)]
    assert again.is_full
    with pytest.raises(IndexFullError):
        again.append(53, 300)


def test_an_index_that_is_grown_again_goes_on(index: OffsetIndex, tmp_path: Path) -> None:
    index.append(51, 100)
    index.close()
    again = open_index(tmp_path)

    assert again.resize(again.max_size)
    again.append(53, 300)

    assert not again.resize(again.max_size)
    assert Path(again.path).read_bytes()[:24].hex() == "0000000600000064000000080000012c0000000000000000"


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


def test_who_reads_while_it_is_truncated_and_grows_sees_what_was(index: OffsetIndex) -> None:
    index.append(46, 10)
    index.append(47, 20)
    before = index.entries()

    index.truncate_to(47)
    index.append(48, 30)

    assert [view.tolist()[: before.count] for view in before.views] == [[1, 2], [10, 20]]
    assert index.last_entry == OffsetEntry(48, 30)


@pytest.mark.parametrize("room", [ROOM, 20_000])
def test_zeros_that_a_crash_left_behind_are_no_entries(tmp_path: Path, room: int) -> None:
    index = open_index(tmp_path, room=room)
    for i in range(1, 6):
        index.append(BASE + i, 256 * i)
    again = open_index(tmp_path, room=room)

    assert again.entry_count == 5
    assert again.lookup(BASE + 100) == OffsetEntry(BASE + 5, 1280)
    assert not again.is_full
    again.sanity_check(LOG_SIZE)


def test_an_index_of_nothing_but_zeros_is_empty_and_sound(index: OffsetIndex, tmp_path: Path) -> None:
    index.create()
    again = open_index(tmp_path)

    again.sanity_check(0)

    assert again.entry_count == 0


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


def test_an_entry_behind_a_page_of_zeros_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000045.index"
    path.write_bytes(
        bytes.fromhex("0000000100000040") + bytes(8 * 60) + bytes.fromhex("0000000900000400") + bytes(80)
    )

    with pytest.raises(CorruptIndexError):
        open_index(tmp_path).sanity_check(LOG_SIZE)


def test_a_file_that_shrinks_under_its_reader_is_told(index: OffsetIndex) -> None:
    for i in range(1, 5):
        index.append(BASE + i, 1000 * i)
    index.forget_entries()
    Path(index.path).write_bytes(b"")

    with pytest.raises(CorruptIndexError, match="shorter than its 4 entries"):
        index.lookup(BASE)


def test_the_cache_forgets_the_index_that_was_not_used_for_longest(tmp_path: Path) -> None:
    cache = IndexCache(max_bytes=10_000)
    indexes = []
    for number in range(20):
        folder = tmp_path / str(number)
        folder.mkdir()
        index = OffsetIndex(Disk(), folder / "i", 0, max_size=800, cache=cache)
        for i in range(1, 40):
            index.append(i, i)
        index.lookup(5)
        indexes.append(index)

    assert cache.used_bytes <= 10_000
    assert 1 < len(cache) < 20
    assert all(index.lookup(39) == OffsetEntry(39, 39) for index in indexes)


class Held:
    """An index as the cache sees one."""

    def __init__(self) -> None:
        self.was_used = False
        self.is_forgotten = False

    def forget_entries(self) -> None:
        self.is_forgotten = True


def test_the_cache_keeps_what_is_used_and_forgets_what_is_not() -> None:
    cache = IndexCache(max_bytes=10 * 2000)
    held = [Held() for _ in range(10)]
    for each in held:
        cache.keep(each, 2000 - 1024)
    held[0].was_used = held[2].was_used = True
    new = Held()

    cache.keep(new, 2 * 2000 - 1024)

    assert [number for number, each in enumerate(held) if each.is_forgotten] == [1, 3]
    assert not new.is_forgotten
    assert cache.used_bytes == 10 * 2000


def test_the_cache_makes_room_when_all_are_in_use() -> None:
    cache = IndexCache(max_bytes=3 * 2000)
    held = [Held() for _ in range(9)]
    for each in held:
        each.was_used = True
        cache.keep(each, 2000 - 1024)

    assert (cache.used_bytes, len(cache)) == (3 * 2000, 3)
    assert not held[-1].is_forgotten


def test_the_cache_keeps_no_index_alive() -> None:
    cache = IndexCache()
    held = Held()
    cache.keep(held, 100)
    gone = weakref.ref(held)

    del held

    assert gone() is None
    assert len(cache) == 0
    assert cache.used_bytes == 0


def test_a_renamed_index_is_written_under_its_new_name(index: OffsetIndex, tmp_path: Path) -> None:
    index.append(46, 10)
    index.rename_to(str(tmp_path / "other"))
    index.append(47, 20)
    index.trim()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["other"]
    assert len((tmp_path / "other").read_bytes()) == 16


def test_a_deleted_index_is_empty_when_it_is_used_again(index: OffsetIndex) -> None:
    index.append(46, 10)

    assert index.delete()
    assert not index.delete()
    assert index.lookup(46) == OffsetEntry(BASE, 0)
