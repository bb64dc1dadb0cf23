"""What of a partition can match a query: offsets and times that leave out the rest before it is read.

Narrowing may only leave out what cannot match. The query is still applied to each row that is read.
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

    `since_ms` None: of any time. A time at which records must end would not help: a later record may have an
    earlier time.
    """

    first_offset: int = INT64_MIN
    last_offset: int = INT64_MAX
    since_ms: int | None = None

    def both(self, other: Wanted) -> Wanted | None:
        """What both want; None if that is nothing."""
        times = [each for each in (self.since_ms, other.since_ms) if each is not None]
        first = max(self.first_offset, other.first_offset)
        last = min(self.last_offset, other.last_offset)
        since = max(times, default=None)
        return Wanted(first_offset=first, last_offset=last, since_ms=since) if first <= last else None

    def either(self, other: Wanted) -> Wanted:
        """What one of the two wants, and what lies between them."""
        times = [each for each in (self.since_ms, other.since_ms) if each is not None]
        return Wanted(
            first_offset=min(self.first_offset, other.first_offset),
            last_offset=max(self.last_offset, other.last_offset),
            since_ms=min(times) if len(times) == 2 else None,
        )


EVERYTHING = Wanted()
Narrowing = Callable[[TopicPartition], Wanted | None]
"""Says what is wanted of a partition; None for nothing of it."""


def everything(_: TopicPartition) -> Wanted:
    """For a read without a query."""
    return EVERYTHING


def narrowed(view: LogView, start: int, end: int, wanted: Wanted) -> tuple[int, int]:
    """The part of [start, end) that can have what is wanted; an empty range if none can."""
    start, end = max(start, wanted.first_offset), min(end, wanted.last_offset + 1)
    if wanted.since_ms is None or start >= end:
        return start, max(start, end)
    try:
        found = view.first_not_before(wanted.since_ms)
    except (CorruptIndexError, CorruptRecordError):
        return start, end  # the reader meets the damage itself, if it is in what it reads
    return (end, end) if found is None else (min(max(start, found.offset), end), end)
