"""A segment that is appended to, cut, rolled and closed."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from stratalog.errors import CorruptRecordError, DiskError, InvalidBatchError, SegmentOffsetOverflowError
from stratalog.files.disk import Disk
from stratalog.records.walk import walk_batches
from stratalog.segment.segment import LogSegment
from tests.segment.making import ManualClock, append, config_of, new_segment, offsets_in, records, reopened


@pytest.mark.parametrize(
    ("base_offset", "largest_offset"), [(0, -1), (1, 0), (0, 2**31), (1, 2**31 + 1), (100, 2**33)]
)
def test_an_offset_too_far_from_the_base_is_refused(
    tmp_path: Path, base_offset: int, largest_offset: int
) -> None:
    segment = new_segment(tmp_path, base_offset)
    data = records(0, "hello")

    with pytest.raises(SegmentOffsetOverflowError) as caught:
        segment.append(data, walk_batches(data).headers, largest_offset)

    assert (caught.value.base_offset, caught.value.offset) == (base_offset, largest_offset)
    assert segment.size == 0


def test_a_segment_larger_than_positions_reach_is_refused(segment: LogSegment) -> None:
    data = records(50, "hello")
    segment.reader.size = 2**31 - 50

    with pytest.raises(InvalidBatchError, match="larger than"):
        segment.append(data, walk_batches(data).headers, 50)


def test_appending_two_and_cutting_one_again_and_again(segment: LogSegment) -> None:
    offset = 40
    for _ in range(30):
        append(segment, records(offset, "hello"))
        append(segment, records(offset + 1, "hello"))
        assert offsets_in(segment, segment.reader.read(offset, 10000)) == [offset, offset + 1]

        assert segment.truncate_to(offset + 1) == len(records(offset, "hello"))

        assert offsets_in(segment, segment.reader.read(offset, 10000)) == [offset]
        offset += 1


def test_cutting_an_empty_segment_gives_its_indexes_room_again(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    segment.close()
    again = reopened(segment, growable=False)
    assert not again.is_index_full  # it has no index yet
    again.on_become_inactive()
    assert again.is_index_full

    again.truncate_to(0)

    assert not again.is_index_full
    append(again, records(0, "hello"))


def test_the_largest_timestamp_is_looked_up_again_after_a_cut(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, 40, interval=2 * len(records(0, "hello")) - 1, index_bytes=1000)
    for offset in range(40, 70):
        append(segment, records(offset, "hello", timestamp=offset))
    assert segment.reader.max_timestamp == 69

    before = segment.reader.time_index.entry_count
    segment.truncate_to(56)

    assert 0 < segment.reader.time_index.entry_count < before
    assert (segment.reader.max_timestamp, segment.reader.offset_of_max_timestamp) == (55, 55)
    segment.truncate_to(42)
    assert segment.reader.time_index.entry_count == 0
    assert (segment.reader.max_timestamp, segment.reader.read_next_offset()) == (41, 42)


def test_a_segment_cut_to_nothing_is_as_new(tmp_path: Path) -> None:
    clock = ManualClock(100)
    segment = LogSegment.create(Disk(), tmp_path, 40, config_of(10), clock)
    append(segment, records(40, "hello", "there"))
    assert segment.waited_ms(500, 700) == 700 - 410
    clock.now = 300

    segment.truncate_to(0)

    assert (segment.size, segment.created_ms) == (0, 300)
    assert segment.waited_ms(500, 700) == 200
    assert not segment.is_index_full
    assert segment.reader.read(0, 1024) is None
    append(segment, records(40, "hello", "there"))
    assert segment.reader.read_next_offset() == 42


def test_a_cut_in_a_gap_removes_what_is_behind_it(segment: LogSegment) -> None:
    append(segment, records(40, "first", "second"))
    append(segment, records(45, "last"))

    segment.truncate_to(43)

    assert segment.reader.read_next_offset() == 42


def test_a_cut_behind_the_end_cuts_nothing(segment: LogSegment) -> None:
    append(segment, records(40, "a", "b"))

    assert segment.truncate_to(42) == 0
    assert segment.reader.read_next_offset() == 42


def test_a_preallocated_log_is_cut_when_it_is_closed(tmp_path: Path) -> None:
    segment = LogSegment.create(Disk(), tmp_path, 40, config_of(), ManualClock(), size=512 * 1024)
    append(segment, records(50, "hello", "there"))
    append(segment, records(52, "alpha"))
    assert offsets_in(segment, segment.reader.read(50, 4096)) == [50, 51, 52]
    assert Path(segment.log_path).stat().st_size == 512 * 1024
    size = segment.size

    segment.close()

    again = reopened(segment)
    assert (again.size, Path(again.log_path).stat().st_size) == (size, size)
    assert offsets_in(again, again.reader.read(50, 4096)) == [50, 51, 52]


def test_a_preallocated_log_is_cut_when_it_is_rolled(tmp_path: Path) -> None:
    segment = LogSegment.create(Disk(), tmp_path, 40, config_of(), ManualClock(), size=4096)
    append(segment, records(50, "hello"))

    segment.on_become_inactive()

    assert Path(segment.log_path).stat().st_size == segment.size


def test_only_a_log_is_there_until_something_is_appended(segment: LogSegment, tmp_path: Path) -> None:
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000040.log"]

    append(segment, records(40, "hello"))

    sizes = {path.suffix: path.stat().st_size for path in tmp_path.iterdir()}
    assert sizes == {".log": segment.size, ".index": 1000, ".timeindex": 996}


def test_flushing_an_empty_segment_makes_its_indexes(segment: LogSegment, tmp_path: Path) -> None:
    segment.flush()

    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".index", ".log", ".timeindex"]


def test_a_rolled_segment_without_records_has_empty_indexes(segment: LogSegment, tmp_path: Path) -> None:
    segment.on_become_inactive()

    assert {path.suffix: path.stat().st_size for path in tmp_path.iterdir()} == {
        ".log": 0,
        ".index": 0,
        ".timeindex": 0,
    }


def test_closing_twice_changes_nothing_more(segment: LogSegment, tmp_path: Path) -> None:
    append(segment, records(40, "a"), records(41, "b"))
    segment.close()
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    segment.close()

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert len(before["00000000000000000040.timeindex"]) == 12


def test_closing_handlers_writes_nothing(segment: LogSegment, tmp_path: Path) -> None:
    append(segment, records(40, "a"), records(41, "b"))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    segment.close_handlers()

    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_segment_that_is_only_opened_and_closed_is_not_touched(segment: LogSegment, tmp_path: Path) -> None:
    append(segment, records(40, "a"), records(41, "b"))
    segment.close()
    for path in tmp_path.iterdir():
        os.utime(path, (1, 1))

    reopened(segment, growable=False).close()

    assert {path.stat().st_mtime for path in tmp_path.iterdir()} == {1}


def test_the_age_counts_from_the_first_batch(tmp_path: Path) -> None:
    clock = ManualClock(1000)
    segment = LogSegment.create(Disk(), tmp_path, 0, config_of(), clock)
    assert segment.waited_ms(1300, 7) == 300

    append(segment, records(0, "a", timestamp=500), records(1, "a", timestamp=9000))

    assert segment.reader.rolling_based_timestamp() == 500
    assert segment.waited_ms(1300, 700) == 200


class FullDisk(Disk):
    """Takes half of a log's next write, as a device without room does."""

    def write_at(self, path: object, data: object, position: int) -> None:
        if str(path).endswith(".log"):
            super().write_at(path, memoryview(data)[: len(memoryview(data)) // 2], position)  # type: ignore[arg-type]
            raise DiskError(str(path), "no space left", errno.ENOSPC)
        super().write_at(path, data, position)  # type: ignore[arg-type]


def test_a_set_that_was_half_written_is_not_there(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    append(segment, records(0, "a"))
    size = segment.size
    broken = LogSegment.open(FullDisk(), tmp_path, 0, segment.reader.config, segment.clock)

    with pytest.raises(DiskError):
        append(broken, records(1, "b"))

    assert (broken.size, broken.reader.read_next_offset()) == (size, 1)
    assert Path(broken.log_path).stat().st_size > size
    broken.close()
    assert Path(broken.log_path).stat().st_size == size


def test_a_file_larger_than_positions_reach_is_not_opened(segment: LogSegment, tmp_path: Path) -> None:
    with pytest.raises(CorruptRecordError, match="at most"):
        LogSegment.open(Disk(), tmp_path, 40, segment.reader.config, segment.clock, size=2**31)
