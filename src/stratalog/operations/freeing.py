"""What retention frees next of a log, and when; and how fast the log grows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stratalog.log.api.outline import first_time
from stratalog.log.retention import Decision
from stratalog.records.kernels.index import OFFSET_AT_LEAST
from stratalog.segment.segment_reader import SegmentReader

DAY_MS = 86_400_000
_LEAST_SPAN_MS = 3_600_000  # a growth that was seen for less than an hour says nothing about a day
_RECENT_MS = 7 * DAY_MS


class NextFreed(NamedTuple):
    """Bytes of .log files. `next_size` bytes are freed at `next_ms`, or after a growth of `next_growth`
    bytes.

    At most one of the two is set: `next_growth` only if nothing will be deleted by time.
    """

    now_size: int = 0
    next_size: int = 0
    next_ms: int | None = None
    next_growth: int | None = None


NOTHING_FREED = NextFreed()


def next_freed(decisions: Sequence[Decision]) -> NextFreed:
    """What retention deletes of a log now, and what it deletes first after that."""
    now_size = sum(decision.segment.size for decision in decisions if decision.is_deleted)
    kept = [decision for decision in decisions if not decision.is_deleted]
    times = [decision.due_ms for decision in kept if decision.due_ms is not None]
    if times:
        first = min(times)
        size = sum(each.segment.size for each in kept if each.due_ms is not None and each.due_ms <= first)
        return NextFreed(now_size, size, next_ms=first)
    growths = [decision for decision in kept if decision.growth is not None]
    if growths:
        return NextFreed(now_size, growths[0].segment.size, next_growth=growths[0].growth)
    return NextFreed(now_size)


def added(parts: Iterable[NextFreed]) -> NextFreed:
    """What several logs free now, and what is freed next; sizes that are freed at the same time are added."""
    found = list(parts)
    now_size = sum(part.now_size for part in found)
    times = [part.next_ms for part in found if part.next_ms is not None]
    if times:
        first = min(times)
        return NextFreed(
            now_size, sum(part.next_size for part in found if part.next_ms == first), next_ms=first
        )
    growths = [part for part in found if part.next_growth is not None]
    if growths:
        least = min(growths, key=lambda part: part.next_growth or 0)
        return NextFreed(now_size, least.next_size, next_growth=least.next_growth)
    return NextFreed(now_size)


class SegmentSpan(NamedTuple):
    """The bytes of a segment, and the times of its first and its newest batch."""

    first_ms: int
    last_ms: int
    size: int


def spans_of(segments: Sequence[SegmentReader]) -> list[SegmentSpan]:
    """The newest segments, the newest first, back to a week before the newest record."""
    spans: list[SegmentSpan] = []
    for segment in reversed(segments):
        batch = segment.find_batch(0, OFFSET_AT_LEAST, segment.base_offset) if segment.size else None
        first, last = -1 if batch is None else first_time(batch), segment.max_timestamp
        if first < 0 or last < 0:
            continue
        spans.append(SegmentSpan(first, last, segment.size))
        if max(span.last_ms for span in spans) - first >= _RECENT_MS:
            break
    return spans


def growth_a_day(spans: Sequence[SegmentSpan]) -> int | None:
    """Bytes a day, by the times of the records; None if they cover less than an hour."""
    if not spans:
        return None
    span_ms = max(span.last_ms for span in spans) - min(span.first_ms for span in spans)
    if span_ms < _LEAST_SPAN_MS:
        return None
    return sum(span.size for span in spans) * DAY_MS // span_ms
