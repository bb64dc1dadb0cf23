from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from stratalog.errors import (
    CorruptIndexError,
    CorruptRecordError,
    DiskError,
    IndexFullError,
    InvalidBatchError,
    InvalidOffsetError,
    SegmentOffsetOverflowError,
    UsageError,
)
from stratalog.files import descriptors
from stratalog.files.disk import Disk
from stratalog.files.names import FileKind
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.records.reader import read_batches
from stratalog.records.walk import walk_batches
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reading import FetchedRange, OffsetPosition
from stratalog.segment.txn_index import AbortedTxn
from tests.segment.making import (
    NOW,
    History,
    ManualClock,
    append,
    batch_of_size,
    config_of,
    new_segment,
    records,
    reopened,
)
from tests.segment.naive import index

ONE_MB = 1 << 20


def offsets_in(segment: LogSegment, found: FetchedRange | None) -> list[int]:
    assert found is not None
    data = segment.read_bytes(found.position, found.size)
    return [record.offset for batch in read_batches(data) for record in batch]


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
    segment.size = 2**31 - 50

    with pytest.raises(InvalidBatchError, match="larger than"):
        segment.append(data, walk_batches(data).headers, 50)


def test_an_empty_segment_has_nothing_to_read(segment: LogSegment) -> None:
    assert segment.read(40, 300) is None
    assert segment.translate_offset(40) is None
    assert segment.read_next_offset() == 40
    assert segment.rolling_based_timestamp() is None
    assert segment.max_timestamp == -1
    assert segment.find_offset_by_timestamp(0, 40) is None
    assert segment.find_max_timestamp() is None
    assert list(segment.batches()) == []


def test_reading_before_the_first_offset_starts_with_the_first_batch(segment: LogSegment) -> None:
    append(segment, records(50, "hello", "there", "little", "bee"))

    assert offsets_in(segment, segment.read(41, 300)) == [50, 51, 52, 53]


def test_reading_behind_the_last_offset_gives_nothing(segment: LogSegment) -> None:
    append(segment, records(50, "hello", "there"))

    assert segment.read(52, 200) is None


def test_reading_in_a_gap_starts_with_the_next_batch(segment: LogSegment) -> None:
    append(segment, records(50, "hello", "there"))
    append(segment, records(60, "alpha", "beta"))

    assert offsets_in(segment, segment.read(55, 200)) == [60, 61]


def test_reading_from_the_middle_of_a_batch_gives_all_of_it(segment: LogSegment) -> None:
    first, second = records(50, "hello", "there"), records(52, "little", "bee")
    append(segment, first, second)

    assert segment.read(53, 1000) == FetchedRange(52, len(first), len(second), False)
    assert segment.translate_offset(53) == OffsetPosition(52, 53, len(first), len(second))


@pytest.mark.parametrize("min_one_message", [True, False])
def test_a_read_that_may_go_nowhere_has_a_place_and_no_bytes(
    segment: LogSegment, min_one_message: bool
) -> None:
    append(segment, records(50, "hello", "there"))

    found = segment.read(50, 300, max_position=0, min_one_message=min_one_message)

    assert found == FetchedRange(50, 0, 0, False)


def test_a_read_ends_where_it_is_told(segment: LogSegment) -> None:
    first, second = records(50, "hello", "there"), records(52, "little", "bee")
    append(segment, first, second)
    both = len(first) + len(second)

    assert segment.read(50, 0) == FetchedRange(50, 0, 0, False)
    assert segment.read(50, 10) == FetchedRange(50, 0, 10, True)
    assert segment.read(50, 10, min_one_message=True) == FetchedRange(50, 0, len(first), False)
    assert segment.read(50, 10**6) == FetchedRange(50, 0, both, False)
    assert segment.read(50, 10**6, max_position=both - 5) == FetchedRange(50, 0, both - 5, False)
    assert segment.read(50, 10**6, max_position=10**6) == FetchedRange(50, 0, both, False)
    with pytest.raises(UsageError):
        segment.read(50, -1)


def test_appending_two_and_cutting_one_again_and_again(segment: LogSegment) -> None:
    offset = 40
    for _ in range(30):
        append(segment, records(offset, "hello"))
        append(segment, records(offset + 1, "hello"))
        assert offsets_in(segment, segment.read(offset, 10000)) == [offset, offset + 1]

        assert segment.truncate_to(offset + 1) == len(records(offset, "hello"))

        assert offsets_in(segment, segment.read(offset, 10000)) == [offset]
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
    assert segment.max_timestamp == 69

    before = segment.time_index.entry_count
    segment.truncate_to(56)

    assert 0 < segment.time_index.entry_count < before
    assert (segment.max_timestamp, segment.offset_of_max_timestamp) == (55, 55)
    segment.truncate_to(42)
    assert segment.time_index.entry_count == 0
    assert (segment.max_timestamp, segment.read_next_offset()) == (41, 42)


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
    assert segment.read(0, 1024) is None
    append(segment, records(40, "hello", "there"))
    assert segment.read_next_offset() == 42


def test_a_cut_in_a_gap_removes_what_is_behind_it(segment: LogSegment) -> None:
    append(segment, records(40, "first", "second"))
    append(segment, records(45, "last"))

    segment.truncate_to(43)

    assert segment.read_next_offset() == 42


def test_a_cut_behind_the_end_cuts_nothing(segment: LogSegment) -> None:
    append(segment, records(40, "a", "b"))

    assert segment.truncate_to(42) == 0
    assert segment.read_next_offset() == 42


def test_records_are_found_by_their_time(segment: LogSegment) -> None:
    for offset in range(40, 50):
        append(segment, records(offset, f"msg{offset}"))

    assert segment.max_timestamp == 490
    assert segment.find_offset_by_timestamp(420, 40) == TimestampAndOffset(420, 42, None)
    assert segment.find_offset_by_timestamp(421, 40) == TimestampAndOffset(430, 43, None)
    assert segment.find_offset_by_timestamp(491, 40) is None
    assert segment.find_offset_by_timestamp(401, 40) == TimestampAndOffset(410, 41, None)
    assert segment.find_offset_by_timestamp(399, 40) == TimestampAndOffset(400, 40, None)
    assert segment.find_offset_by_timestamp(399, 45) == TimestampAndOffset(450, 45, None)
    assert segment.find_max_timestamp() == TimestampAndOffset(490, 49, None)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_is_found_inside_its_batch(segment: LogSegment, codec: Codec) -> None:
    times = [5, 30, 20, 90, 10]
    rows = [Record(40 + i, time, None, b"x" * 300) for i, time in enumerate(times * 100)]
    append(segment, build_batch(rows, BatchOptions(codec=codec, partition_leader_epoch=7)))

    assert segment.find_offset_by_timestamp(21, 40) == TimestampAndOffset(30, 41, 7)
    assert segment.find_offset_by_timestamp(21, 42) == TimestampAndOffset(90, 43, 7)
    assert segment.find_offset_by_timestamp(0, 440) == TimestampAndOffset(5, 440, 7)
    assert segment.find_max_timestamp() == TimestampAndOffset(90, 43, 7)


def test_the_next_offset_of_an_empty_and_of_a_filled_segment(segment: LogSegment) -> None:
    assert segment.read_next_offset() == 40

    append(segment, records(50, "hello", "there", "you"))

    assert segment.read_next_offset() == 53


def test_renaming_makes_no_index_and_leaves_none_behind(segment: LogSegment, tmp_path: Path) -> None:
    segment.change_suffixes("", ".deleted")
    assert [path.name for path in tmp_path.iterdir()] == ["00000000000000000040.log.deleted"]

    segment.change_suffixes(".deleted", "")
    append(segment, records(40, "hello"))
    segment.append_aborted(AbortedTxn(1, 40, 40, 41))
    segment.change_suffixes("", ".swap")

    kinds = ("index", "log", "timeindex", "txnindex")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"00000000000000000040.{kind}.swap" for kind in kinds
    ]
    append(segment, records(41, "hello"))
    assert segment.read_next_offset() == 42
    with pytest.raises(UsageError):
        segment.change_suffixes("", ".deleted")
    segment.delete()
    assert not segment.exists
    assert list(tmp_path.iterdir()) == []


class NamedSlowly(LogSegment):
    """A segment that gets another directory while somebody asks for its name for the first time."""

    __slots__ = ("mover",)
    mover: threading.Thread | None

    def _path_in(self, directory: str, kind: FileKind, suffix: str) -> str:
        path = super()._path_in(directory, kind, suffix)
        if self.mover is not None and self.mover.ident is None:
            self.mover.start()
            self.mover.join(0.2)  # as far as it gets
        return path


def test_a_name_that_is_asked_for_during_a_rename_is_the_new_one(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    segment = NamedSlowly(Disk(), tmp_path / "old", 0, config_of(), ManualClock())
    segment.mover = threading.Thread(target=segment.update_directory, args=(tmp_path / "new",))

    _ = segment.log_path
    segment.mover.join()

    assert segment.log_path == str(tmp_path / "new" / f"{0:020d}.log")


def test_whoever_reads_a_segment_that_is_renamed_reads_on(segment: LogSegment) -> None:
    batch = records(40, "hello")
    append(segment, batch)
    stop = threading.Event()
    problems: list[Exception] = []

    def read() -> None:
        while not stop.is_set():
            try:
                found = segment.read(40, 1000)
                if found is None or segment.read_bytes(found.position, found.size) != batch:
                    problems.append(AssertionError("not the record"))
            except DiskError as error:
                problems.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for _ in range(50):
        segment.change_suffixes("", ".deleted")
        segment.change_suffixes(".deleted", "")
    stop.set()
    for reader in readers:
        reader.join()
    assert problems == []


def test_a_segment_is_found_where_its_directory_was_moved(segment: LogSegment, tmp_path: Path) -> None:
    append(segment, records(40, "hello"))
    old, new = tmp_path, tmp_path.with_name(tmp_path.name + "-moved")
    Disk().rename(old, new)

    segment.update_directory(new)

    assert offsets_in(segment, segment.read(40, 1000)) == [40]
    append(segment, records(41, "hello"))
    assert (new / "00000000000000000040.index").exists()
    Disk().rename(new, old)


def test_a_preallocated_log_is_cut_when_it_is_closed(tmp_path: Path) -> None:
    segment = LogSegment.create(Disk(), tmp_path, 40, config_of(), ManualClock(), size=512 * 1024)
    append(segment, records(50, "hello", "there"))
    append(segment, records(52, "alpha"))
    assert offsets_in(segment, segment.read(50, 4096)) == [50, 51, 52]
    assert Path(segment.log_path).stat().st_size == 512 * 1024
    size = segment.size

    segment.close()

    again = reopened(segment)
    assert (again.size, Path(again.log_path).stat().st_size) == (size, size)
    assert offsets_in(again, again.read(50, 4096)) == [50, 51, 52]


def test_a_preallocated_log_is_cut_when_it_is_rolled(tmp_path: Path) -> None:
    segment = LogSegment.create(Disk(), tmp_path, 40, config_of(), ManualClock(), size=4096)
    append(segment, records(50, "hello"))

    segment.on_become_inactive()

    assert Path(segment.log_path).stat().st_size == segment.size


def test_the_worked_example_has_the_entries_that_kafka_wrote(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=4096)
    sets = [
        [(1, 1001, 4083), (2, 900, 3072), (3, 2000, 3072), (4, 1500, 5072), (5, 1500, 5072)],
        [(6, 3000, 80), (7, 3001, 80)],
        [(8, 3002, 80)],
    ]
    for batches in sets:
        append(segment, *(batch_of_size(*batch) for batch in batches))

    segment.on_become_inactive()

    offsets, times = segment.offset_index, segment.time_index
    assert [offsets.entry(i) for i in range(offsets.entry_count)] == [(3, 7155), (5, 15299), (6, 20371)]
    assert [times.entry(i) for i in range(times.entry_count)] == [(2000, 3), (3000, 6), (3002, 8)]
    assert len(Path(offsets.path).read_bytes()) == 24
    assert len(Path(times.path).read_bytes()) == 36


@pytest.mark.parametrize("seed", range(30))
def test_entries_are_those_of_the_rule_applied_batch_by_batch(tmp_path: Path, seed: int) -> None:
    history = History(seed, 0, producers=3)
    interval = history.random.choice([0, 150, 1000, 4096])
    segment = new_segment(tmp_path, interval=interval, index_bytes=8000)
    data = b""
    for _ in range(12):
        batches = history.set_of_batches()
        append(segment, *batches)
        data += b"".join(batches)

    segment.close()

    again = reopened(segment, growable=False)
    expected = index(data, interval)
    found = [again.offset_index.entry(i) for i in range(again.offset_index.entry_count)]
    assert found == expected.offset_entries
    assert [again.time_index.entry(i) for i in range(again.time_index.entry_count)] == expected.time_entries


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


def test_without_a_timestamp_the_time_of_the_file_counts(segment: LogSegment) -> None:
    append(segment, records(40, "a", timestamp=-1))
    segment.set_modified(NOW)

    assert segment.max_timestamp == -1
    assert segment.largest_timestamp == NOW
    append(segment, records(41, "a", timestamp=5))
    assert segment.largest_timestamp == 5


def test_the_age_counts_from_the_first_batch(tmp_path: Path) -> None:
    clock = ManualClock(1000)
    segment = LogSegment.create(Disk(), tmp_path, 0, config_of(), clock)
    assert segment.waited_ms(1300, 7) == 300

    append(segment, records(0, "a", timestamp=500), records(1, "a", timestamp=9000))

    assert segment.rolling_based_timestamp() == 500
    assert segment.waited_ms(1300, 700) == 200


def test_an_index_that_fills_up_inside_a_set_is_told_with_the_set_written(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=0, index_bytes=24)
    batches = [records(offset, "a") for offset in range(6)]

    with pytest.raises(IndexFullError):
        append(segment, *batches)

    assert segment.size == sum(map(len, batches))
    assert segment.is_index_full


def test_offsets_that_go_back_are_told_where_an_entry_is_due(segment: LogSegment) -> None:
    append(segment, records(40, "a"), records(45, "a"))
    data = records(41, "a")

    with pytest.raises(InvalidOffsetError):
        segment.append(data, walk_batches(data).headers, 41)


def test_the_way_to_the_next_entry_begins_anew_with_a_cut(tmp_path: Path) -> None:
    batches = [records(offset, "a") for offset in range(4)]
    size = len(batches[0])
    segment = new_segment(tmp_path, interval=2 * size - 1)
    append(segment, batches[0], batches[1])

    segment.truncate_to(1)
    for batch in batches[1:]:
        append(segment, batch)

    assert segment.offset_index.entry_count == 1
    assert segment.offset_index.last_entry == (3, 3 * size)


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
    broken = LogSegment.open(FullDisk(), tmp_path, 0, segment.config, segment.clock)

    with pytest.raises(DiskError):
        append(broken, records(1, "b"))

    assert (broken.size, broken.read_next_offset()) == (size, 1)
    assert Path(broken.log_path).stat().st_size > size
    broken.close()
    assert Path(broken.log_path).stat().st_size == size


def test_a_file_larger_than_positions_reach_is_not_opened(segment: LogSegment, tmp_path: Path) -> None:
    with pytest.raises(CorruptRecordError, match="at most"):
        LogSegment.open(Disk(), tmp_path, 40, segment.config, segment.clock, size=2**31)


class CountingDisk(Disk):
    """Counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def __getattribute__(self, name: str) -> object:
        if not name.startswith("_") and name != "asked":
            self.asked.append(name)
        return super().__getattribute__(name)


def test_a_listing_is_all_that_opening_needs(segment: LogSegment, tmp_path: Path) -> None:
    disk = CountingDisk()
    flags = {"has_index": True, "has_time_index": True, "has_txn_index": False}

    LogSegment.open(disk, tmp_path, 40, segment.config, segment.clock, size=0, **flags)

    assert disk.asked == []


def test_hundreds_of_segments_share_few_open_files(tmp_path: Path) -> None:
    batch = records(0, "a")
    for number in range(400):
        (tmp_path / f"{number:020d}.log").write_bytes(batch)
    opened = [
        LogSegment.open(
            Disk(),
            tmp_path,
            number,
            config_of(),
            ManualClock(),
            size=len(batch),
            has_index=False,
            has_time_index=False,
        )
        for number in range(400)
    ]

    assert all(segment.translate_offset(0) is not None for segment in opened)
    assert descriptors.shared.open_count <= descriptors.MAX_OPEN < 400


def test_many_entries_of_one_set_are_written_at_once(tmp_path: Path) -> None:
    disk = CountingDisk()
    segment = LogSegment.create(disk, tmp_path, 0, config_of(0), ManualClock())
    append(segment, records(0, "a"))
    disk.asked.clear()

    append(segment, *(records(offset, "a") for offset in range(1, 20)))

    assert disk.asked == ["write_at"] * 3
    assert segment.offset_index.entry_count == 19


def test_batches_come_in_chunks_of_bounded_memory(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=4096, index_bytes=100_000)
    sizes = [200_000, 90, 1_500_000, 70_000, 300, 2_500_000, 80]
    for offset, size in enumerate(sizes):
        append(segment, batch_of_size(offset, offset, size))

    seen = []
    for chunk in segment.batches(check_crc=True):
        assert len(chunk.data) <= max(ONE_MB, 2_500_000)
        for row in chunk.headers:
            start = int(row["position"])
            raw = chunk.data[start : start + int(row["size"])].tobytes()
            assert raw == segment.read_bytes(chunk.position + start, len(raw))
            seen.append((int(row["base_offset"]), len(raw)))
    assert seen == list(enumerate(sizes))


def test_batches_from_a_position_to_another(segment: LogSegment) -> None:
    batches = [records(offset, "a" * offset) for offset in range(40, 50)]
    append(segment, *batches)
    start, end = len(batches[0]), sum(map(len, batches[:4])) + 5

    found = [int(row["base_offset"]) for chunk in segment.batches(start, end) for row in chunk.headers]

    assert found == [41, 42, 43]


def test_damage_between_batches_is_told_with_its_place(segment: LogSegment) -> None:
    append(segment, records(40, "hello"), records(41, "there"))
    at = len(records(40, "hello"))
    Disk().write_at(segment.log_path, b"\xff", at + 30)

    with pytest.raises(CorruptRecordError) as caught:
        list(segment.batches(check_crc=True))

    assert (caught.value.position, caught.value.path) == (at, segment.log_path)
    Disk().write_at(segment.log_path, bytes(20), at)
    with pytest.raises(CorruptRecordError, match="length 0 that stands here"):
        list(segment.batches())
    with pytest.raises(CorruptRecordError):
        segment.translate_offset(41)


def test_a_torn_tail_is_the_end(segment: LogSegment) -> None:
    append(segment, records(40, "hello"), records(41, "there"))
    Disk().truncate(segment.log_path, segment.size - 1)
    Disk().delete(segment.offset_index.path)
    again = reopened(segment)

    assert again.read_next_offset() == 41
    assert [len(chunk.headers) for chunk in again.batches()] == [1]


def test_a_sound_segment_passes_its_check_open_and_closed(segment: LogSegment) -> None:
    for offset in range(40, 60):
        append(segment, records(offset, "hello"))
    segment.append_aborted(AbortedTxn(1, 40, 41, 42))

    segment.sanity_check()
    reopened(segment, growable=False).sanity_check()
    segment.close()
    reopened(segment, growable=False).sanity_check()


def test_a_log_without_its_offset_index_does_not_pass(segment: LogSegment) -> None:
    append(segment, records(40, "hello"), records(41, "hello"))
    segment.close()
    Path(segment.offset_index.path).unlink()

    with pytest.raises(CorruptIndexError, match="missing"):
        reopened(segment, growable=False).sanity_check()


def test_an_empty_segment_needs_no_index(segment: LogSegment) -> None:
    reopened(segment, growable=False).sanity_check()


@pytest.mark.parametrize("entry", ["0000000100000007", "0000000000000045", "0000000500100000"])
def test_an_index_of_another_log_does_not_pass(segment: LogSegment, entry: str) -> None:
    append(segment, records(40, "hello"), records(41, "hello"))
    segment.close()
    Path(segment.offset_index.path).write_bytes(bytes.fromhex(entry))

    with pytest.raises(CorruptIndexError):
        reopened(segment, growable=False).sanity_check()


def test_an_index_that_points_behind_the_log_is_not_followed(segment: LogSegment) -> None:
    append(segment, records(40, "hello"))
    segment.close()
    Path(segment.offset_index.path).write_bytes(bytes.fromhex("0000000500100000"))

    with pytest.raises(CorruptIndexError, match="points at byte"):
        reopened(segment, growable=False).read_next_offset()


def test_aborted_transactions_are_collected(segment: LogSegment) -> None:
    segment.append_aborted(AbortedTxn(1, 0, 59, 48))

    assert segment.collect_aborted(40, 50) == ([AbortedTxn(1, 0, 59, 48)], False)
    assert segment.collect_aborted(40, 48) == ([AbortedTxn(1, 0, 59, 48)], True)


def test_a_reader_beside_the_writer_sees_whole_batches_only(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=300, index_bytes=100_000)
    append(segment, records(0, "x"))
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        draw = 0
        while not done.is_set():
            draw = (draw * 7 + 13) % segment.read_next_offset()
            found = segment.read(draw, 500, min_one_message=True)
            if found is None or found.base_offset != draw:
                wrong.append((draw, found))

    reader = threading.Thread(target=read)
    reader.start()
    for offset in range(1, 400):
        append(segment, records(offset, "x" * (offset % 50)))
    done.set()
    reader.join()
    assert wrong == []
