"""Offsets by time, and by Kafka's special values for a time.

Kafka: UnifiedLog.fetchOffsetByTimestamp, ListOffsetsRequest
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum

from stratalog.errors import UsageError
from stratalog.log.epochs import EpochEntry
from stratalog.log.segments import SegmentReaders
from stratalog.segment.proven_search import Hidden, TimeSearch, search_proven
from stratalog.segment.resuming import MOST_OFFSETS
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment_reader import SegmentReader

NO_TIMESTAMP = -1
NO_OFFSET = -1


class SpecialTimestamp(IntEnum):
    """The special values that a client may send instead of a time."""

    LATEST = -1
    EARLIEST = -2
    MAX_TIMESTAMP = -3
    EARLIEST_LOCAL = -4
    LATEST_TIERED = -5
    EARLIEST_PENDING_UPLOAD = -6


def find_offset(
    segments: SegmentReaders,
    epochs: Callable[[], Sequence[EpochEntry]],
    timestamp: int,
    log_start_offset: int,
    log_end_offset: int,
) -> TimestampAndOffset | None:
    """The first record at or after a time, or the offset for a special value; None if there is none.

    `epochs` is called only if the answer needs a leader epoch that no batch has.
    """
    if timestamp >= 0:
        # Only the first segment that reaches the time is searched, as in Kafka.
        segment = segments.first_reaching(timestamp)
        return None if segment is None else segment.find_offset_by_timestamp(timestamp, log_start_offset)
    if timestamp in (SpecialTimestamp.EARLIEST, SpecialTimestamp.EARLIEST_LOCAL):
        first = epochs()[:1]
        epoch = first[0].epoch if first and first[0].start_offset <= log_start_offset else None
        return TimestampAndOffset(NO_TIMESTAMP, log_start_offset, epoch)
    if timestamp == SpecialTimestamp.LATEST:
        last = epochs()[-1:]
        return TimestampAndOffset(NO_TIMESTAMP, log_end_offset, last[0].epoch if last else None)
    if timestamp in (SpecialTimestamp.LATEST_TIERED, SpecialTimestamp.EARLIEST_PENDING_UPLOAD):
        return TimestampAndOffset(NO_TIMESTAMP, NO_OFFSET, -1)
    if timestamp == SpecialTimestamp.MAX_TIMESTAMP:
        if not len(segments):  # a view of an empty directory
            return None
        newest = max(segments, key=lambda segment: segment.max_timestamp)  # of several, the first
        return newest.find_max_timestamp()
    raise UsageError(
        f"timestamp {timestamp}: the only values below 0 with a meaning are "
        f"{[int(s) for s in SpecialTimestamp]}."
    )


def search_time(segments: SegmentReaders, timestamp: int, log_start_offset: int) -> TimeSearch:
    """The first record at or after a time, in any segment, and damage that may hide an earlier one.

    `find_offset` ends with the first segment that reaches the time. That may be an empty segment with a late
    file time, or one whose matching records are all below the log's start: Kafka then answers that there is
    none. `find_offset` also passes over damage without an error.
    """
    hidden: Hidden | None = None
    for segment in segments.reaching(timestamp):
        found = search_segment(segments, segment, timestamp, log_start_offset)
        hidden = hidden or found.hidden
        if found.record is not None:
            return TimeSearch(found.record, hidden)
    return TimeSearch(None, hidden)


def search_segment(
    segments: SegmentReaders, segment: SegmentReader, timestamp: int, log_start_offset: int
) -> TimeSearch:
    """The same in one segment, whose offsets are all below the base of the next segment."""
    later = segments.above(segment.base_offset)[:1]
    end_offset = later[0].base_offset if later else segment.base_offset + MOST_OFFSETS
    return search_proven(segment, timestamp, log_start_offset, end_offset)


def first_not_before(
    segments: SegmentReaders, timestamp: int, log_start_offset: int
) -> TimestampAndOffset | None:
    """The record of `search_time`; CorruptRecordError if damage may hide an earlier one."""
    found = search_time(segments, timestamp, log_start_offset)
    if found.hidden is not None:
        # A truncation and an append meanwhile may have mixed old and new bytes. So look a second time.
        again = search_time(segments, timestamp, log_start_offset)
        if again.hidden is not None and again.hidden.error.position == found.hidden.error.position:
            raise again.hidden.error
        found = again
    return found.record
