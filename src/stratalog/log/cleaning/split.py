"""Splits a segment whose offsets are too far apart for the 31 bits that an index entry has for them.

Brokers without the fix of KAFKA-5413 compacted segments into such a segment. It can be read; but when it is
cleaned, the offsets of its last batches do not fit into the index of a segment with its base. The first piece
keeps that base; each later piece begins at the batch that was too far from the base of the piece before.
Kafka: LocalLog.splitOverflowedSegment
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import numpy as np

from stratalog.clock import Clock
from stratalog.errors import CorruptRecordError, DiskError
from stratalog.files.disk import Disk
from stratalog.files.names import FileState
from stratalog.limits import INT32_MAX
from stratalog.records.compression import CODEC_MASK
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.reader import read_batches
from stratalog.records.walk import WalkStop
from stratalog.segment.headers import Part, walk_file
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader


def split_segment(disk: Disk, segment: SegmentReader, clock: Clock) -> list[LogSegment]:
    """The same batches in new segments, complete and on the device as `.cleaned`; the caller swaps them in.

    The result is one segment if the offsets are not too far apart. CorruptRecordError, and no file, if the
    segment cannot be read.
    """
    pieces: list[LogSegment] = []
    is_complete = False
    try:
        pieces.append(_create(disk, segment, segment.base_offset, clock))
        for data, rows in _sets(segment):
            for start, stop in _pieces_of(disk, segment, pieces, data, rows, clock):
                first, last = rows[start], rows[stop - 1]
                end = int(last["position"]) + int(last["size"])
                pieces[-1].append(
                    data[int(first["position"]) : end], rows[start:stop], int(last["last_offset"])
                )
        _index_aborted(segment, pieces)
        for piece in pieces:
            piece.on_become_inactive()
            piece.flush()
            piece.set_modified(segment.modified_ms)
        is_complete = True
    finally:
        if not is_complete:
            discard(pieces)
    return pieces


def discard(pieces: list[LogSegment]) -> None:
    """Delete pieces that are not needed; recovery deletes those that cannot be deleted now."""
    for piece in pieces:
        with suppress(DiskError):
            piece.delete()


def _sets(segment: SegmentReader) -> Iterator[tuple[Bytes, BatchTable]]:
    """All batches with their bytes, in parts."""
    position = 0
    for part in walk_file(segment.read_into, 0, segment.size):
        rows = part.walk.headers
        if not bool(rows["valid"].all()) or (part.is_last and part.walk.stop is not WalkStop.END):
            break
        if len(rows):
            yield part.data, rows
        position = _end_of(part)
    if position < segment.size:
        raise CorruptRecordError(
            "there is no whole batch from here on, so the segment cannot be split.",
            position=position,
            path=segment.log_path,
        )


def _end_of(part: Part) -> int:
    return part.position + part.walk.next_position


def _pieces_of(
    disk: Disk, segment: SegmentReader, pieces: list[LogSegment], data: Bytes, rows: BatchTable, clock: Clock
) -> Iterator[tuple[int, int]]:
    """Yields the rows that still go to the last piece, then the rows for each new piece that is needed."""
    last_offsets = rows["last_offset"]
    start = 0
    while start < len(rows):
        far = np.flatnonzero(last_offsets[start:] - pieces[-1].base_offset > INT32_MAX)
        stop = start + int(far[0]) if len(far) else len(rows)
        if stop > start:
            yield start, stop
        if stop < len(rows):
            pieces.append(_create(disk, segment, _first_offset(data, rows[stop]), clock))
        start = stop


def _first_offset(data: Bytes, row: np.void) -> int:
    """The first offset of a batch; an old compressed message has it inside."""
    if row["magic"] == 2 or not row["attributes"] & CODEC_MASK:
        return int(row["base_offset"])
    start = int(row["position"])
    batch = next(read_batches(data[start : start + int(row["size"])], check_crc=False))
    return next(iter(batch)).offset


def _index_aborted(segment: SegmentReader, pieces: list[LogSegment]) -> None:
    """Aborted transactions go to the piece with their marker. Kafka drops them with the old index."""
    for entry in segment.txn_index.all_aborted():
        home = [piece for piece in pieces if piece.base_offset <= entry.last_offset]
        home[-1].append_aborted(entry)


def _create(disk: Disk, segment: SegmentReader, base_offset: int, clock: Clock) -> LogSegment:
    options = segment.directory, base_offset, segment.config, clock
    suffix = FileState.CLEANED.value
    LogSegment.open(disk, *options, suffix=suffix, size=0).delete()  # left by an earlier attempt
    return LogSegment.create(disk, *options, suffix=suffix)
