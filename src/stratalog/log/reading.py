"""Decides which bytes of which segment a read returns, up to which mark, and which transactions were aborted.

Nothing here takes the log's lock. A read uses the caller's snapshot of the segments, and never reads past the
given mark, so it never sees half a batch. It finds aborted transactions in the same segments that it has
read. Kafka: LocalLog.read
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from stratalog.errors import CorruptRecordError, OffsetOutOfRangeError
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.segments import SegmentReaders
from stratalog.records.kernels.index import LAST
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.fetched import FetchedRange
from stratalog.segment.headers import find_batch
from stratalog.segment.segment_reader import SegmentReader


class Isolation(Enum):
    """Up to which mark a read may go. Kafka: FetchIsolation"""

    LOG_END = "log end"
    HIGH_WATERMARK = "high watermark"
    TXN_COMMITTED = "read committed"


class AbortedTransaction(NamedTuple):
    """A reader of committed records leaves out this producer's batches from `first_offset` to its marker."""

    producer_id: int
    first_offset: int


class FetchedData(NamedTuple):
    """What a read found: whole batches as they are in the file, except the last one, which the size may cut.

    `offset` is the base offset of the first batch, which may be below the requested offset.
    """

    offset: OffsetMetadata
    records: bytes = b""
    first_entry_incomplete: bool = False
    aborted_transactions: list[AbortedTransaction] | None = None


def read(
    segments: SegmentReaders,
    start_offset: int,
    max_size: int,
    *,
    log_start_offset: int,
    end: OffsetMetadata,
    limit: OffsetMetadata,
    min_one_message: bool = False,
    include_aborted: bool = False,
) -> FetchedData:
    """Batches from the one that contains start_offset on, below the mark `limit`.

    `limit` may be above `end`, because of appends after `end` was read.
    """
    if not log_start_offset <= start_offset <= end.offset or segments.floor(start_offset) is None:
        raise out_of_range(start_offset, log_start_offset, end.offset)
    aborted: list[AbortedTransaction] | None = [] if include_aborted else None
    if start_offset == limit.offset:
        return FetchedData(limit, aborted_transactions=aborted)
    if start_offset > limit.offset:
        # Nothing may be read yet, but a follower's delayed fetch needs the place where it waits.
        place = read(segments, start_offset, 1, log_start_offset=log_start_offset, end=end, limit=end).offset
        return FetchedData(place, aborted_transactions=aborted)
    for segment in segments.from_floor(start_offset):
        max_position = _max_position(segment, limit)
        if max_position is None:
            return FetchedData(OffsetMetadata(start_offset), aborted_transactions=aborted)
        found = segment.read(
            start_offset, max_size, max_position=max_position, min_one_message=min_one_message
        )
        if found is None:
            continue
        if include_aborted:
            aborted = _aborted(segments, segment, found, start_offset, max(end.offset, limit.offset))
        return FetchedData(
            OffsetMetadata(found.base_offset, segment.base_offset, found.position),
            segment.read_bytes(found.position, found.size) if found.size else b"",
            found.first_entry_incomplete,
            aborted,
        )
    # Everything after start_offset was compacted away.
    return FetchedData(end, aborted_transactions=aborted)


def check_passed_over(segments: SegmentReaders, offset: int, stop_base: int) -> None:
    """CorruptRecordError if a segment before stop_base ends early, after the batch with this offset.

    If a segment has nothing for an offset, `read` continues with the next one, as Kafka does: compaction and
    truncation leave such gaps. A damaged length looks like such a gap to `read`, and the batches after it
    would be skipped silently. A torn tail cannot be the reason, because it is always past a segment's size.
    """
    for segment in segments.from_floor(offset):
        if segment.base_offset >= stop_base:
            return
        broken_at = _broken_at(segment, offset)
        # A truncation and an append meanwhile may have mixed old and new bytes. So look a second time.
        if broken_at is not None and _broken_at(segment, offset) == broken_at:
            raise CorruptRecordError(
                f"the last {segment.size - broken_at} bytes of the segment do not begin with a whole batch. "
                "Its records from here on cannot be read.",
                position=broken_at,
                path=segment.log_path,
            )


def _broken_at(segment: SegmentReader, offset: int) -> int | None:
    """The byte after which there is no whole batch; None if the segment ends there, or has changed."""
    size = segment.size
    is_cut = False

    def read_into(buffer: Bytes, position: int) -> int:
        nonlocal is_cut
        filled = segment.read_into(buffer, position)
        is_cut = is_cut or filled < len(buffer)
        return filled

    start = segment.offset_index.lookup(offset).position
    last = find_batch(read_into, start, size, LAST, 0, path=segment.log_path)
    end = start if last is None else last.position + last.size
    # A file that is shorter than it was is being truncated, here or by another process.
    return None if end >= size or is_cut or segment.size != size else end


def out_of_range(offset: int, start: int, end: int) -> OffsetOutOfRangeError:
    """The error for an offset that the log does not have, or not yet."""
    return OffsetOutOfRangeError(
        f"offset {offset} is not within {start} and {end}.", offset=offset, valid=(start, end)
    )


def _max_position(segment: SegmentReader, limit: OffsetMetadata) -> int | None:
    """How far this segment may be read; None if not at all."""
    if segment.base_offset < limit.segment_base:
        return segment.size
    if segment.base_offset == limit.segment_base and limit.is_resolved:
        return limit.position
    return None


def _aborted(
    segments: SegmentReaders,
    segment: SegmentReader,
    found: FetchedRange,
    start_offset: int,
    log_end_offset: int,
) -> list[AbortedTransaction]:
    """The aborted transactions that reach into the bytes fetched."""
    upper_bound = segment.fetch_upper_bound_offset(found.position, found.size)
    later = segments.above(segment.base_offset)
    if upper_bound is None:
        upper_bound = later[0].base_offset if later else log_end_offset
    aborted: list[AbortedTransaction] = []
    for candidate in (segment, *later):
        entries, is_complete = candidate.collect_aborted(start_offset, upper_bound)
        aborted += [AbortedTransaction(entry.producer_id, entry.first_offset) for entry in entries]
        if is_complete:
            break
    return aborted
