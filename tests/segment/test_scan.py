from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from stratalog.buffers import aligned_buffer
from stratalog.errors import DiskError
from stratalog.files.disk import Disk, ReadFile
from stratalog.files.disk import Path as DiskPath
from stratalog.segment import producers
from stratalog.segment import scan as scanning
from stratalog.segment.sanity import sanity_check
from stratalog.segment.scan import ScanStop, SegmentScan, scan_segment
from stratalog.segment.segment import LogSegment
from tests.fixtures.catalog import Partition, partitions
from tests.segment.making import (
    History,
    ManualClock,
    append,
    batch_of_size,
    config_of,
    new_segment,
    records,
    reopened,
)
from tests.segment.scanning import scan, scan_of

if TYPE_CHECKING:
    from stratalog.files.disk import Target


# The settings of the fixtures' brokers; the metadata log has its own.
INTERVAL, METADATA_INTERVAL = 512, 4096
INDEX_SIZES = {".index": 4096, ".timeindex": 4092}


def interval_of(partition: Partition) -> int:
    return METADATA_INTERVAL if partition.name.startswith("__cluster_metadata") else INTERVAL


def segments(state: str) -> list[tuple[Partition, Path]]:
    return [(partition, log) for partition in partitions("4.3.1", state) for log in partition.logs]


def was_reopened(partition: Partition, found: SegmentScan) -> bool:
    """Whether a broker was restarted while the segment was active, which another leader epoch shows.

    The count towards the next entry then began anew, which nothing in the file tells. Segments that were
    reopened without more being appended have one epoch, and their indexes are those of the scan.
    """
    return len(found.epoch_starts) > 1 and not partition.name.startswith("__")


@pytest.mark.parametrize(("partition", "log"), segments("clean"), ids=str)
def test_the_indexes_of_a_scan_are_the_brokers(partition: Partition, log: Path) -> None:
    found = scan(log, interval_of(partition))

    assert (found.stop, found.valid_size) == (ScanStop.END, log.stat().st_size)
    assert found.time_index == log.with_suffix(".timeindex").read_bytes()
    if not was_reopened(partition, found):
        assert found.offset_index == log.with_suffix(".index").read_bytes()


@pytest.mark.parametrize(("partition", "log"), segments("killed"), ids=str)
def test_it_does_not_matter_how_often_a_scan_runs_out_of_room(
    partition: Partition, log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interval = interval_of(partition)
    whole = scan(log, interval)

    monkeypatch.setattr(scanning.kernel, "ROWS", 2)
    monkeypatch.setattr(scanning, "_ENTRIES", 2)
    monkeypatch.setattr(producers, "_PRODUCERS", 1)
    monkeypatch.setattr(producers, "_EVENTS", 2)
    monkeypatch.setattr(producers, "_EPOCHS", 1)
    pieces = scan_segment(
        Disk(), log, whole.base_offset, index_interval_bytes=interval, buffer=np.empty(100, np.uint8)
    )

    assert pieces == whole


def test_a_piece_inside_a_file_is_scanned_as_a_segment_of_its_own(tmp_path: Path) -> None:
    first, second, third = (batch_of_size(offset, 7 + offset, 200) for offset in (0, 10, 11))
    alone = scan_of(tmp_path, second, third, base_offset=10)
    log = tmp_path / "whole.log"
    log.write_bytes(first + second + third)

    piece = scan_segment(Disk(), log, 10, index_interval_bytes=0, start_position=len(first))

    assert piece.start_position == len(first)
    assert (piece.valid_size, piece.next_offset) == (len(second) + len(third), 12)
    assert (piece.offset_index, piece.time_index) == (alone.offset_index, alone.time_index)


def test_most_segments_of_the_fixture_were_never_reopened() -> None:
    kept = [log for partition, log in segments("clean") if not was_reopened(partition, scan(log, 512))]

    assert len(kept) >= 18


@pytest.mark.parametrize(("partition", "log"), segments("killed"), ids=str)
def test_a_killed_brokers_indexes_are_told_from_their_padding(partition: Partition, log: Path) -> None:
    found = scan(log, interval_of(partition))
    segment = LogSegment.open(Disk(), log.parent, found.base_offset, config_of(), ManualClock())

    sanity_check(segment.reader)

    is_padded = log.with_suffix(".index").stat().st_size == INDEX_SIZES[".index"]
    if is_padded and len(found.epoch_starts) == 1:
        data = log.with_suffix(".index").read_bytes()
        assert data[: segment.reader.offset_index.entry_count * 8] == found.offset_index
    assert segment.reader.read_next_offset() == found.next_offset


@pytest.mark.parametrize("partition", partitions("4.3.1"), ids=str)
def test_a_scan_counts_and_ends_as_kafkas_record_classes_do(partition: Partition) -> None:
    for log in partition.logs:
        batches = list(partition.batches(log))
        found = scan(log)

        assert found.batches_count == len(batches)
        assert found.next_offset == batches[-1]["lastOffset"] + 1
        assert found.max_timestamp == max(batch["maxTimestamp"] for batch in batches)


@pytest.mark.parametrize("partition", partitions("4.3.1"), ids=str)
def test_appending_a_fixtures_batches_gives_what_its_scan_says(partition: Partition, tmp_path: Path) -> None:
    for log in partition.logs:
        found = scan(log, 512)
        segment = new_segment(tmp_path, found.base_offset, interval=512, index_bytes=4096)
        append(segment, log.read_bytes())
        segment.close()

        assert Path(segment.reader.offset_index.path).read_bytes() == found.offset_index
        assert Path(segment.reader.time_index.path).read_bytes() == found.time_index


def test_an_empty_log_has_empty_indexes(tmp_path: Path) -> None:
    found = scan_of(tmp_path, base_offset=7)

    assert (found.stop, found.valid_size, found.next_offset) == (ScanStop.END, 0, 7)
    assert (found.offset_index, found.time_index, found.max_timestamp) == (b"", b"", -1)
    assert (found.epoch_starts, found.producers, found.transactions) == ((), (), ())


def test_a_log_that_is_not_there_is_a_disk_error(tmp_path: Path) -> None:
    with pytest.raises(DiskError):
        scan(tmp_path / "00000000000000000000.log")


@pytest.mark.parametrize("kept", [1, 17, 60, 70])
def test_a_torn_last_batch_is_not_believed(tmp_path: Path, kept: int) -> None:
    good = records(0, "hello")

    found = scan_of(tmp_path, good, records(1, "there")[:kept])

    assert (found.stop, found.valid_size, found.next_offset) == (ScanStop.TORN_TAIL, len(good), 1)
    assert found.reason == f"the last batch is cut off: only {kept} bytes of it are there."


@pytest.mark.parametrize(
    ("tail", "stop"),
    [
        (bytes(100), ScanStop.BAD_LENGTH),
        (b"\x00" * 8 + b"\x00\x00\x00\x50" + b"\x00" * 4 + b"\x07" + b"\x00" * 100, ScanStop.BAD_MAGIC),
    ],
)
def test_what_is_no_batch_ends_the_scan(tmp_path: Path, tail: bytes, stop: ScanStop) -> None:
    good = records(0, "hello")

    found = scan_of(tmp_path, good, tail)

    assert (found.stop, found.valid_size) == (stop, len(good))


@pytest.mark.parametrize("damaged", range(5))
def test_a_flipped_bit_ends_the_scan_at_its_batch(tmp_path: Path, damaged: int) -> None:
    batches = [records(offset, "hello") for offset in range(5)]
    before = sum(map(len, batches[:damaged]))
    bad = bytearray(batches[damaged])
    bad[-1] ^= 4
    batches[damaged] = bytes(bad)

    found = scan_of(tmp_path, *batches)

    assert (found.stop, found.valid_size, found.next_offset) == (ScanStop.WRONG_CRC, before, damaged)
    assert "its header says" in found.reason


def test_an_offset_too_far_from_the_base_ends_the_scan(tmp_path: Path) -> None:
    found = scan_of(tmp_path, records(0, "a"), records(2**31 - 1, "b"), records(2**31, "c"))

    assert (found.stop, found.next_offset) == (ScanStop.OFFSET_OVERFLOW, 2**31)


def test_offsets_that_go_back_end_the_scan_only_where_an_entry_is_due(tmp_path: Path) -> None:
    batches = [records(offset, "a") for offset in (0, 1, 5, 3, 4)]

    assert scan_of(tmp_path, *batches, interval=4096).next_offset == 5
    found = scan_of(tmp_path, *batches, interval=0)
    assert (found.stop, found.next_offset) == (ScanStop.INVALID_OFFSET, 6)
    assert found.reason == "offset 3 follows offset 5."


def test_batches_larger_than_a_chunk_are_scanned(tmp_path: Path) -> None:
    batches = [
        batch_of_size(offset, offset, size) for offset, size in enumerate([300, 3 << 20, 80, 1 << 20, 90])
    ]

    found = scan_of(tmp_path, *batches)

    assert (found.stop, found.batches_count, found.valid_size) == (ScanStop.END, 5, sum(map(len, batches)))


def test_a_scan_can_be_told_where_to_end(tmp_path: Path) -> None:
    first, second = records(0, "a"), records(1, "b")
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(first + second)

    found = scan_segment(Disk(), log, 0, end_position=len(first))

    assert (found.stop, found.valid_size, found.file_size) == (ScanStop.END, len(first), len(first + second))


def test_a_scan_changes_nothing(tmp_path: Path) -> None:
    segment = new_segment(tmp_path)
    append(segment, *History(1, 0, producers=2).set_of_batches())
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()}

    scan(Path(segment.log_path))

    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("content", [b"", b"garbage", bytes(1000), b"\xff" * 800])
def test_indexes_replaced_by_a_scan_serve_every_look_up(tmp_path: Path, content: bytes) -> None:
    segment = new_segment(tmp_path, interval=0)
    for offset in range(60):
        append(segment, records(offset, "hello"))
    segment.close()
    for suffix in (".index", ".timeindex"):
        Path(segment.log_path).with_suffix(suffix).write_bytes(content)

    found = scan(Path(segment.log_path), 0)
    Path(segment.log_path).with_suffix(".index").write_bytes(found.offset_index)
    Path(segment.log_path).with_suffix(".timeindex").write_bytes(found.time_index)

    again = reopened(segment, growable=False)
    sanity_check(again.reader)
    for offset in range(60):
        at = again.reader.translate_offset(offset)
        assert at is not None
        assert at.base_offset == offset
        for timestamp in (10 * offset, 10 * offset - 9):
            by_time = again.reader.find_offset_by_timestamp(timestamp, 0)
            assert by_time is not None
            assert by_time.offset == offset


class CutShort(Disk):
    """A disk on which the file is truncated, to less than was read of it, while it is read."""

    def read_into(self, source: ReadFile | DiskPath, buffer: Target, position: int) -> int:
        found = super().read_into(source, buffer, position)
        assert isinstance(source, ReadFile)
        self.truncate(source.path, 100)
        return found


def test_a_file_that_is_cut_short_while_it_is_scanned_ends_there(tmp_path: Path) -> None:
    log = tmp_path / f"{0:020d}.log"
    batches = [batch_of_size(offset, 0, 1000) for offset in range(10)]
    log.write_bytes(b"".join(batches))

    found = scan_segment(CutShort(), log, 0, buffer=aligned_buffer(5000))

    assert (found.valid_size, found.next_offset, found.stop) == (5000, 5, ScanStop.END)
