"""The part of a partition that can match a query, as a range of offsets and times; the rest is not read.

Narrowing may leave out only records that cannot match. The query is still applied to each row that is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stratalog.errors import CorruptIndexError, CorruptRecordError
from stratalog.files.names import TopicPartition
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.log.api.view import LogView


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Records of one partition with offsets in [first_offset, last_offset], none before `since_ms`.

    `since_ms` None: of any time. There is no upper bound for times, because a record with a higher offset may
    still have an earlier time.
    """

    first_offset: int = INT64_MIN
    last_offset: int = INT64_MAX
    since_ms: int | None = None

    def both(self, other: Wanted) -> Wanted | None:
        """The part that both want; None if there is none."""
        times = [each for each in (self.since_ms, other.since_ms) if each is not None]
        first = max(self.first_offset, other.first_offset)
        last = min(self.last_offset, other.last_offset)
        since = max(times, default=None)
        return Wanted(first_offset=first, last_offset=last, since_ms=since) if first <= last else None

    def either(self, other: Wanted) -> Wanted:
        """The parts that either wants, and everything between them."""
        times = [each for each in (self.since_ms, other.since_ms) if each is not None]
        return Wanted(
            first_offset=min(self.first_offset, other.first_offset),
            last_offset=max(self.last_offset, other.last_offset),
            since_ms=min(times) if len(times) == 2 else None,
        )


EVERYTHING = Wanted()
Narrowing = Callable[[TopicPartition], Wanted | None]
"""Returns the wanted part of a partition; None for nothing."""


def everything(_: TopicPartition) -> Wanted:
    """For a read without a query."""
    return EVERYTHING


def narrowed(view: LogView, start: int, end: int, wanted: Wanted) -> tuple[int, int]:
    """The part of [start, end) that can have wanted records; an empty range if none can."""
    start, end = max(start, wanted.first_offset), min(end, wanted.last_offset + 1)
    if wanted.since_ms is None or start >= end:
        return start, max(start, end)
    try:
        _find_peaks(view, start, end, wanted.since_ms)
        found = view.first_not_before(wanted.since_ms)  # damage that may hide an earlier record is an error
    except (CorruptIndexError, CorruptRecordError):
        return start, end  # the reader finds the damage itself, if it reads there
    return (end, end) if found is None else (min(max(start, found.offset), end), end)


def _find_peaks(view: LogView, start: int, end: int, since_ms: int) -> None:
    """Find the largest timestamps of the segments to skip, and of the first segment to read.

    The time index alone could make a segment seem too old: after a power cut it may lack entries.
    """
    for segment in view.segments.range(start, end):
        indexed = segment.time_index.last_entry
        segment.find_largest_timestamp()
        segment.known_largest = max(segment.largest(), indexed)  # damage may hide a time that the index has
        if segment.largest_timestamp >= since_ms:
            return
