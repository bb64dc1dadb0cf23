"""What the indexes share: how their file is made, cut, grown, renamed and counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import CorruptIndexError, IndexFullError
from stratalog.segment.offset_index import ENTRY_SIZE, OffsetEntry, OffsetIndex
from tests.segment.indexes import BASE, ROOM, open_index

LOG_SIZE = 2**31 - 1


@pytest.fixture
def index(tmp_path: Path) -> OffsetIndex:
    return open_index(tmp_path)


def test_a_new_index_is_zeros_of_whole_entries(index: OffsetIndex) -> None:
    index.append(46, 1)

    data = Path(index.path).read_bytes()
    assert len(data) == ROOM * ENTRY_SIZE
    assert data[8:].count(0) == len(data) - 8


def test_nothing_is_created_before_an_entry_is_written(index: OffsetIndex) -> None:
    assert index.lookup(92) == OffsetEntry(BASE, 0)
    assert index.max_entries == ROOM
    assert not Path(index.path).exists()


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


def test_the_entries_in_memory_are_those_of_the_file(index: OffsetIndex) -> None:
    for number in range(1, 6):
        index.append(BASE + number, number * 100)
    index.trim()

    assert index.to_bytes() == Path(index.path).read_bytes()
    assert len(index.to_bytes()) == 5 * ENTRY_SIZE
