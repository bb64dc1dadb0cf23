from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import CorruptIndexError, IndexFullError, InvalidOffsetError, UsageError
from stratalog.files.disk import Disk
from stratalog.segment.time_index import ENTRY_SIZE, TimeEntry, TimeIndex

BASE = 45
ROOM = 30


@pytest.fixture
def index(tmp_path: Path) -> TimeIndex:
    return open_index(tmp_path)


def open_index(folder: Path, base_offset: int = BASE, room: int = ROOM) -> TimeIndex:
    return TimeIndex(
        Disk(), folder / "00000000000000000045.timeindex", base_offset, max_size=room * ENTRY_SIZE
    )


def fill(index: TimeIndex, count: int) -> None:
    for i in range(1, count + 1):
        index.append(10 * i, BASE + 10 * i)


def test_an_entry_is_the_bytes_that_kafka_writes(tmp_path: Path) -> None:
    index = open_index(tmp_path, base_offset=0)

    index.append(1_700_000_000_000, 5)
    index.trim()

    assert Path(index.path).read_bytes().hex() == "0000018bcfe5680000000005"


def test_a_look_up_finds_the_last_entry_that_is_not_later(index: TimeIndex) -> None:
    assert index.lookup(100) == TimeEntry(-1, BASE)
    fill(index, 20)

    assert index.lookup(9) == TimeEntry(-1, BASE)
    assert index.lookup(10) == TimeEntry(10, 55)
    assert index.lookup(25) == TimeEntry(20, 65)
    assert index.lookup(10**15) == TimeEntry(200, 245)


def test_entries_by_number(index: TimeIndex) -> None:
    fill(index, 3)

    assert [index.entry(i) for i in range(3)] == [TimeEntry(10, 55), TimeEntry(20, 65), TimeEntry(30, 75)]
    with pytest.raises(UsageError):
        index.entry(3)


def test_truncation_goes_by_the_offset(index: TimeIndex) -> None:
    fill(index, 20)

    index.truncate_to(BASE + 95)

    assert index.entry_count == 9
    assert index.last_entry == TimeEntry(90, BASE + 90)
    index.truncate()
    assert index.entry_count == 0
    assert index.last_entry == TimeEntry(-1, BASE)


def test_one_slot_is_kept_for_the_roll(index: TimeIndex) -> None:
    fill(index, ROOM - 1)

    assert index.is_full
    with pytest.raises(IndexFullError):
        index.append(10_000, BASE + 1000)
    assert index.append(10_000, BASE + 1000, skip_full_check=True)
    assert index.entry_count == ROOM
    with pytest.raises(IndexFullError):
        index.append(10_001, BASE + 1001, skip_full_check=True)


def test_an_entry_that_is_no_later_is_left_out(index: TimeIndex) -> None:
    assert not index.append(-1, BASE)
    assert index.append(10, 50)
    assert not index.append(10, 60)

    assert index.entry_count == 1


def test_an_entry_cannot_go_back(index: TimeIndex) -> None:
    index.append(10, 50)

    with pytest.raises(InvalidOffsetError, match="offset 49 cannot follow"):
        index.append(11, 49)
    with pytest.raises(UsageError, match="before 10"):
        index.append(9, 51)


def test_resizing_keeps_the_entries_and_says_whether_it_did_anything(index: TimeIndex) -> None:
    fill(index, 3)

    assert not index.resize(index.max_size)
    assert index.resize(index.max_size // 2)
    assert index.max_entries == ROOM // 2
    assert index.resize(index.max_size + 11)
    assert (index.max_entries, index.entry_count, index.last_entry) == (ROOM, 3, TimeEntry(30, 75))


def test_zeros_behind_the_entries_are_no_damage(index: TimeIndex, tmp_path: Path) -> None:
    fill(index, 5)
    again = open_index(tmp_path)

    again.sanity_check(BASE + 50)

    assert (again.entry_count, again.last_entry) == (5, TimeEntry(50, BASE + 50))


@pytest.mark.parametrize(
    ("content", "count"),
    [
        ("000000000000000000000000", 1),  # timestamp 0 at the base offset, closed
        ("000000000000000000000000" * 2, 0),  # a new index of room for two
        ("000000000000000000000000" + "000000000000000500000001" + "00" * 24, 2),
        ("000000000000000500000001" + "00" * 24, 1),
        ("", 0),
    ],
)
def test_an_entry_of_zeros_is_told_from_padding(tmp_path: Path, content: str, count: int) -> None:
    index = open_index(tmp_path)
    Path(index.path).write_bytes(bytes.fromhex(content))

    index.sanity_check(BASE + 10)

    assert index.entry_count == count


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("000000000000000900000001" + "000000000000000500000002", "timestamps do not ascend"),
        ("ffffffffffffff0900000001", "timestamps do not ascend"),
        ("000000000000000500000002" + "000000000000000900000001", "offsets descend"),
        ("0000000000000005ffffffff", "offsets descend"),
        ("00000000000000050000000b", "for offset 56; the log ends with 55"),
        ("0000000000000005000000", "not a multiple of 12"),
    ],
)
def test_damage_is_found(tmp_path: Path, content: str, complaint: str) -> None:
    index = open_index(tmp_path)
    Path(index.path).write_bytes(bytes.fromhex(content))

    with pytest.raises(CorruptIndexError, match=complaint):
        index.sanity_check(BASE + 10)
