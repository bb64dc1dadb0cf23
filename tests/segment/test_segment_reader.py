"""Reads from a segment: by offset, by time; with a disk that can only read, while others write."""

from __future__ import annotations

import errno
import threading
from pathlib import Path

import pytest

from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError, UsageError
from stratalog.files.disk import Disk
from stratalog.files.reading import DiskReader
from stratalog.records.build import BatchOptions, Record, build_batch
from stratalog.records.compression import Codec
from stratalog.segment.fetched import FetchedRange, OffsetPosition
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from stratalog.segment.txn_index import AbortedTxn
from tests.segment.making import append, config_of, new_segment, offsets_in, records, reopened


def test_an_empty_segment_has_nothing_to_read(segment: LogSegment) -> None:
    assert segment.reader.read(40, 300) is None
    assert segment.reader.translate_offset(40) is None
    assert segment.reader.read_next_offset() == 40
    assert segment.reader.rolling_based_timestamp() is None
    assert segment.reader.max_timestamp == -1
    assert segment.reader.find_offset_by_timestamp(0, 40) is None
    assert segment.reader.find_max_timestamp() is None
    assert list(segment.reader.batches()) == []


def test_reading_before_the_first_offset_starts_with_the_first_batch(segment: LogSegment) -> None:
    append(segment, records(50, "hello", "there", "little", "bee"))

    assert offsets_in(segment, segment.reader.read(41, 300)) == [50, 51, 52, 53]


def test_reading_behind_the_last_offset_gives_nothing(segment: LogSegment) -> None:
    append(segment, records(50, "hello", "there"))

    assert segment.reader.read(52, 200) is None


def test_reading_in_a_gap_starts_with_the_next_batch(segment: LogSegment) -> None:
    append(segment, records(50, "hello", "there"))
    append(segment, records(60, "alpha", "beta"))

    assert offsets_in(segment, segment.reader.read(55, 200)) == [60, 61]


def test_reading_from_the_middle_of_a_batch_gives_all_of_it(segment: LogSegment) -> None:
    first, second = records(50, "hello", "there"), records(52, "little", "bee")
    append(segment, first, second)

    assert segment.reader.read(53, 1000) == FetchedRange(52, len(first), len(second), False)
    assert segment.reader.translate_offset(53) == OffsetPosition(52, 53, len(first), len(second))


@pytest.mark.parametrize("min_one_message", [True, False])
def test_a_read_that_may_go_nowhere_has_a_place_and_no_bytes(
    segment: LogSegment, min_one_message: bool
) -> None:
    append(segment, records(50, "hello", "there"))

    found = segment.reader.read(50, 300, max_position=0, min_one_message=min_one_message)

    assert found == FetchedRange(50, 0, 0, False)


def test_a_read_ends_where_it_is_told(segment: LogSegment) -> None:
    first, second = records(50, "hello", "there"), records(52, "little", "bee")
    append(segment, first, second)
    both = len(first) + len(second)

    assert segment.reader.read(50, 0) == FetchedRange(50, 0, 0, False)
    assert segment.reader.read(50, 10) == FetchedRange(50, 0, 10, True)
    assert segment.reader.read(50, 10, min_one_message=True) == FetchedRange(50, 0, len(first), False)
    assert segment.reader.read(50, 10**6) == FetchedRange(50, 0, both, False)
    assert segment.reader.read(50, 10**6, max_position=both - 5) == FetchedRange(50, 0, both - 5, False)
    assert segment.reader.read(50, 10**6, max_position=10**6) == FetchedRange(50, 0, both, False)
    with pytest.raises(UsageError):
        segment.reader.read(50, -1)


def test_records_are_found_by_their_time(segment: LogSegment) -> None:
    for offset in range(40, 50):
        append(segment, records(offset, f"msg{offset}"))

    assert segment.reader.max_timestamp == 490
    assert segment.reader.find_offset_by_timestamp(420, 40) == TimestampAndOffset(420, 42, None)
    assert segment.reader.find_offset_by_timestamp(421, 40) == TimestampAndOffset(430, 43, None)
    assert segment.reader.find_offset_by_timestamp(491, 40) is None
    assert segment.reader.find_offset_by_timestamp(401, 40) == TimestampAndOffset(410, 41, None)
    assert segment.reader.find_offset_by_timestamp(399, 40) == TimestampAndOffset(400, 40, None)
    assert segment.reader.find_offset_by_timestamp(399, 45) == TimestampAndOffset(450, 45, None)
    assert segment.reader.find_max_timestamp() == TimestampAndOffset(490, 49, None)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_record_is_found_inside_its_batch(segment: LogSegment, codec: Codec) -> None:
    times = [5, 30, 20, 90, 10]
    rows = [Record(40 + i, time, None, b"x" * 300) for i, time in enumerate(times * 100)]
    append(segment, build_batch(rows, BatchOptions(codec=codec, partition_leader_epoch=7)))

    assert segment.reader.find_offset_by_timestamp(21, 40) == TimestampAndOffset(30, 41, 7)
    assert segment.reader.find_offset_by_timestamp(21, 42) == TimestampAndOffset(90, 43, 7)
    assert segment.reader.find_offset_by_timestamp(0, 440) == TimestampAndOffset(5, 440, 7)
    assert segment.reader.find_max_timestamp() == TimestampAndOffset(90, 43, 7)


def test_the_next_offset_of_an_empty_and_of_a_filled_segment(segment: LogSegment) -> None:
    assert segment.reader.read_next_offset() == 40

    append(segment, records(50, "hello", "there", "you"))

    assert segment.reader.read_next_offset() == 53


def test_an_index_that_points_behind_the_log_is_not_followed(segment: LogSegment) -> None:
    append(segment, records(40, "hello"))
    segment.close()
    Path(segment.reader.offset_index.path).write_bytes(bytes.fromhex("0000000500100000"))

    with pytest.raises(CorruptIndexError, match="points at byte"):
        reopened(segment, growable=False).reader.read_next_offset()


def test_aborted_transactions_are_collected(segment: LogSegment) -> None:
    segment.append_aborted(AbortedTxn(1, 0, 59, 48))

    assert segment.reader.collect_aborted(40, 50) == ([AbortedTxn(1, 0, 59, 48)], False)
    assert segment.reader.collect_aborted(40, 48) == ([AbortedTxn(1, 0, 59, 48)], True)


def test_a_reader_beside_the_writer_sees_whole_batches_only(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=300, index_bytes=100_000)
    append(segment, records(0, "x"))
    done = threading.Event()
    wrong: list[object] = []

    def read() -> None:
        draw = 0
        while not done.is_set():
            draw = (draw * 7 + 13) % segment.reader.read_next_offset()
            found = segment.reader.read(draw, 500, min_one_message=True)
            if found is None or found.base_offset != draw:
                wrong.append((draw, found))

    reader = threading.Thread(target=read)
    reader.start()
    for offset in range(1, 400):
        append(segment, records(offset, "x" * (offset % 50)))
    done.set()
    reader.join()
    assert wrong == []


@pytest.fixture
def reader(segment: LogSegment, tmp_path: Path) -> SegmentReader:
    """Of a segment at 40 with two batches, and without a disk that could change it."""
    append(segment, records(50, "hello", "there"), records(60, "again"))
    return SegmentReader(DiskReader(), tmp_path, 40, config_of())


def test_what_somebody_else_writes_is_read(reader: SegmentReader) -> None:
    assert [row["base_offset"] for chunk in reader.batches() for row in chunk.headers] == [50, 60]
    assert reader.read_next_offset() == 61


def test_nothing_after_its_size_is_read(reader: SegmentReader, segment: LogSegment) -> None:
    append(segment, records(70, "later"))

    assert [row["base_offset"] for chunk in reader.batches() for row in chunk.headers] == [50, 60]
    assert reader.read_bytes(0, 10_000) == segment.reader.read_bytes(0, reader.size)


def test_reading_changes_no_file(reader: SegmentReader, tmp_path: Path) -> None:
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    reader.read(50, 100)
    reader.find_largest_timestamp()
    reader.find_max_timestamp()
    reader.collect_aborted(0, 100)
    reader.forget()

    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_a_reader_has_nothing_that_changes_a_segment() -> None:
    changing = {"append", "append_aborted", "truncate_to", "flush", "sync_log", "close", "change_suffixes"}
    changing |= {"delete", "set_modified", "on_become_inactive", "resize_indexes", "update_directory"}

    assert {name for name in changing if hasattr(LogSegment, name)} == changing
    assert {name for name in changing if hasattr(SegmentReader, name)} == set()


def test_a_log_segment_and_its_reader_know_the_same_size(segment: LogSegment) -> None:
    append(segment, records(50, "hello"))

    assert segment.size == segment.reader.size == len(records(50, "hello"))


def test_files_that_are_deleted_for_good_are_gone_for_the_reader(segment: LogSegment) -> None:
    append(segment, records(50, "hello"))
    segment.delete()

    with pytest.raises(DiskError) as raised:
        segment.reader.read_bytes(0, 10)
    assert (raised.value.errno, segment.reader.is_gone) == (errno.ENOENT, True)


def test_a_file_larger_than_positions_reach_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(CorruptRecordError, match="at most"):
        SegmentReader(Disk(), tmp_path, 0, config_of(), size=2**31)
