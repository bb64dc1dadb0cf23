"""The batches of a .log file, read in chunks and hopped over."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from stratalog.errors import CorruptRecordError
from stratalog.files.disk import Disk
from stratalog.records.build import Record, build_batch
from stratalog.records.walk import DEFAULT_ROWS, WalkStop
from stratalog.segment.headers import walk_file
from stratalog.segment.segment import LogSegment
from tests.segment.making import append, batch_of_size, new_segment, records, reopened

ONE_MB = 1 << 20


def test_batches_come_in_chunks_of_bounded_memory(tmp_path: Path) -> None:
    segment = new_segment(tmp_path, interval=4096, index_bytes=100_000)
    sizes = [200_000, 90, 1_500_000, 70_000, 300, 2_500_000, 80]
    for offset, size in enumerate(sizes):
        append(segment, batch_of_size(offset, offset, size))

    seen = []
    for chunk in segment.reader.batches(check_crc=True):
        assert len(chunk.data) <= max(ONE_MB, 2_500_000)
        for row in chunk.headers:
            start = int(row["position"])
            raw = chunk.data[start : start + int(row["size"])].tobytes()
            assert raw == segment.reader.read_bytes(chunk.position + start, len(raw))
            seen.append((int(row["base_offset"]), len(raw)))
    assert seen == list(enumerate(sizes))


def test_batches_from_a_position_to_another(segment: LogSegment) -> None:
    batches = [records(offset, "a" * offset) for offset in range(40, 50)]
    append(segment, *batches)
    start, end = len(batches[0]), sum(map(len, batches[:4])) + 5

    found = [int(row["base_offset"]) for chunk in segment.reader.batches(start, end) for row in chunk.headers]

    assert found == [41, 42, 43]


def test_damage_between_batches_is_told_with_its_place(segment: LogSegment) -> None:
    append(segment, records(40, "hello"), records(41, "there"))
    at = len(records(40, "hello"))
    Disk().write_at(segment.log_path, b"\xff", at + 30)

    with pytest.raises(CorruptRecordError) as caught:
        list(segment.reader.batches(check_crc=True))

    assert (caught.value.position, caught.value.path) == (at, segment.log_path)
    Disk().write_at(segment.log_path, bytes(20), at)
    with pytest.raises(CorruptRecordError, match="length 0 that its header says"):
        list(segment.reader.batches())
    with pytest.raises(CorruptRecordError):
        segment.reader.translate_offset(41)


def test_a_torn_tail_is_the_end(segment: LogSegment) -> None:
    append(segment, records(40, "hello"), records(41, "there"))
    Disk().truncate(segment.log_path, segment.size - 1)
    Disk().delete(segment.reader.offset_index.path)
    again = reopened(segment)

    assert again.reader.read_next_offset() == 41
    assert [len(chunk.headers) for chunk in again.reader.batches()] == [1]


def test_only_the_last_part_is_last_where_a_chunk_has_more_batches_than_the_table(tmp_path: Path) -> None:
    """A walk over a log of small batches mistook a full table for damage at the end of the log."""
    count = DEFAULT_ROWS + 500
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(b"".join(build_batch([Record(offset, 0, None, b"v")]) for offset in range(count)))
    disk = Disk()

    parts = [
        (len(part.walk.headers), part.walk.stop, part.is_last)
        for part in walk_file(partial(disk.read_into, str(path)), 0, path.stat().st_size)
    ]

    assert parts == [(DEFAULT_ROWS, WalkStop.TABLE_FULL, False), (500, WalkStop.END, True)]
