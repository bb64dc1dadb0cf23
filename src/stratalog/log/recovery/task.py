"""One scan of a recovery, as a value that can be sent to a thread or a Spark task.

The result is small: for an index that is already correct on disk it has only the size. So the results for a
whole log directory fit into memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from stratalog.errors import CorruptRecordError
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.recovery.index_claims import IndexClaim, find_claim
from stratalog.log.recovery.salvage import Salvage
from stratalog.log.recovery.stale_tail import find_stale_tail
from stratalog.records.batch import RECORD_BATCH_OVERHEAD
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.reader import read_batches
from stratalog.segment import offset_index, time_index
from stratalog.segment.scan import ScanStop, SegmentScan, scan_segment


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """What to scan: `path` is the file that now has the bytes of the live file `name`.

    `start_position` is above 0 if only producers are needed, and a snapshot covers the batches before it.
    `index_path` and `time_index_path` are the files to compare with; None if they are missing or not needed.
    `is_last`: this is the last segment of the log, and it is recovered. `cut_ends_log`: if this segment is
    cut, the log ends there, because a broker removes all segments after it. `next_base` is the base of the
    next segment.
    """

    name: str
    path: str
    base_offset: int
    size: int
    index_interval_bytes: int
    max_index_size: int
    start_position: int = 0
    wants_indexes: bool = True
    index_path: str | None = None
    time_index_path: str | None = None
    is_last: bool = False
    cut_ends_log: bool = False
    next_base: int = INT64_MAX


class IndexBytes(NamedTuple):
    """The correct content of an index: its size, and its bytes, unless the file on disk begins with them."""

    size: int
    data: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanResult:
    """The result of a task.

    If the offsets of a segment are too far apart, `pieces` are the segments into which it is split, including
    the first; otherwise it is empty. With `salvage`, scan, indexes and pieces describe the part that is kept.
    `claim` is what the indexes on disk name past the end of the segment.
    """

    name: str
    scan: SegmentScan
    index: IndexBytes
    time_index: IndexBytes
    pieces: tuple[SegmentScan, ...] = ()
    salvage: Salvage | None = None
    scanned_size: int = 0
    claim: IndexClaim | None = None


def run_scan(disk: DiskReader, task: ScanTask, *, buffer: Bytes | None = None) -> ScanResult:
    """Scan a segment; DiskError if it cannot be read, and then it must not be cut.

    `buffer` is memory to read into; a caller that scans many segments reuses it.
    """
    scan = _scan(disk, task, task.base_offset, task.start_position, buffer)
    pieces: tuple[SegmentScan, ...] = ()
    if scan.stop is ScanStop.OFFSET_OVERFLOW:
        pieces = split_scans(
            scan,
            lambda base_offset, position: _scan(disk, task, base_offset, position, buffer),
            partial(disk.read_at, task.path),
        )
    if not pieces and (task.is_last or (task.cut_ends_log and scan.valid_size < task.size)):
        scan = _without_stale_tail(disk, task, scan, buffer)
    return result_of(disk, task, scan, pieces=pieces)


def result_of(
    disk: DiskReader,
    task: ScanTask,
    scan: SegmentScan,
    *,
    pieces: tuple[SegmentScan, ...] = (),
    salvage: Salvage | None = None,
) -> ScanResult:
    """The result of a task with this scan; its indexes are compared with those on disk."""
    index = time = IndexBytes(0, b"")
    if task.wants_indexes:
        index = _compared(disk, task.index_path, _bounded_index(scan, task.max_index_size))
        time = _compared(disk, task.time_index_path, _bounded_times(scan, task.max_index_size))
    return ScanResult(
        name=task.name,
        scan=replace(scan, offset_index=b"", time_index=b""),
        index=index,
        time_index=time,
        pieces=pieces,
        salvage=salvage,
        scanned_size=task.size - task.start_position,
        claim=find_claim(
            disk,
            task.index_path,
            # Of salvaged batches nobody knows which offsets were left out at the end.
            None if salvage is not None else task.time_index_path,
            pieces[-1] if pieces else scan,
            base_offset=task.base_offset,
            next_base=task.next_base,
            log_size=task.size,
        ),
    )


def _scan(
    disk: DiskReader, task: ScanTask, base_offset: int, start: int, buffer: Bytes | None
) -> SegmentScan:
    return scan_segment(
        disk,
        task.path,
        base_offset,
        index_interval_bytes=task.index_interval_bytes,
        start_position=start,
        end_position=task.size,
        buffer=buffer,
    )


def _without_stale_tail(
    disk: DiskReader, task: ScanTask, scan: SegmentScan, buffer: Bytes | None
) -> SegmentScan:
    """The scan without stale batches that hide the log's end. If there are any, the file is read again."""
    if scan.stop is ScanStop.INVALID_OFFSET:
        return scan  # the segment is emptied
    stale = find_stale_tail(
        disk,
        task.path,
        task.base_offset,
        index=_bounded_index(scan, task.max_index_size),
        next_offset=scan.next_offset,
        end=scan.valid_size,
    )
    if stale is None:
        return scan
    before = _scan(disk, replace(task, size=stale.position), task.base_offset, 0, buffer)
    return replace(before, stop=ScanStop.STALE_TAIL, reason=stale.reason)


def split_scans(
    first: SegmentScan, scan_from: Callable[[int, int], SegmentScan], read_at: Callable[[int, int], bytes]
) -> tuple[SegmentScan, ...]:
    """The segments into which one with offsets too far apart is split; empty if the offsets are damaged.

    `scan_from` scans a segment with a base offset from a position on; `read_at` reads a number of bytes from
    a position on. The last of the segments may end at damage.

    No checksum covers offsets. An offset below the segment's base, or below that of an earlier batch, is
    damage: a broker that tried to split the segment there would not start.
    """
    pieces = [first]
    while pieces[-1].stop is ScanStop.OFFSET_OVERFLOW:
        position = pieces[-1].start_position + pieces[-1].valid_size
        base_offset = _first_offset(read_at, position)
        if base_offset is None or base_offset < pieces[-1].next_offset:
            return ()
        piece = scan_from(base_offset, position)
        if not piece.batches_count:
            return ()
        pieces.append(piece)
    return tuple(pieces)


def _first_offset(read_at: Callable[[int, int], bytes], position: int) -> int | None:
    """The first offset of the batch that starts here; an old compressed message has it inside."""
    header = read_at(RECORD_BATCH_OVERHEAD, position)
    size = int.from_bytes(header[8:12], "big") + 12
    try:
        batch = next(read_batches(byte_array(read_at(size, position)), check_crc=False))
        if batch.facts.magic == 2 or not batch.facts.attributes & 7:
            return batch.facts.base_offset
        return next(iter(batch)).offset
    except (CorruptRecordError, StopIteration):
        return None


def _bounded_index(scan: SegmentScan, max_size: int) -> bytes:
    """The first entries, as many as an index may have: a broker refuses to start if there are more."""
    return scan.offset_index[: max_size // offset_index.ENTRY_SIZE * offset_index.ENTRY_SIZE]


def _bounded_times(scan: SegmentScan, max_size: int) -> bytes:
    """At most as many time entries as the index may have; the last, with the largest time, stays."""
    size, data = time_index.ENTRY_SIZE, scan.time_index
    room = max_size // size * size
    return data if len(data) <= room else data[: room - size] + data[-size:]


def _compared(disk: DiskReader, path: str | None, wanted: bytes) -> IndexBytes:
    if path is not None and disk.read_at(path, len(wanted), 0) == wanted:
        return IndexBytes(len(wanted), None)
    return IndexBytes(len(wanted), wanted)
