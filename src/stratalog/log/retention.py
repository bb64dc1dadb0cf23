"""Decides which segments of a log are deleted, by which rule, and why the others stay.

Three rules apply, in Kafka's order; each deletes segments from the oldest on, and stops at the first that it
keeps:

1. log start: the segment is not active, and ends at or before log_start_offset
2. size:      without it the log is still at least as large as retention.bytes
3. time:      its largest timestamp is more than retention.ms ago

The last two apply only if cleanup.policy includes delete. No rule deletes a segment that ends above the high
watermark, or an active segment that is empty. Because only a prefix is deleted, a segment with a late
timestamp also protects the segments after it from the time rule: `blocked_by` names it.

`due_ms` is the time when the time rule will delete a segment; `growth` is how many bytes the log must grow
until the size rule deletes it. Both assume that nothing else changes.

Kafka: UnifiedLog.deleteOldSegments, deletableSegments
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import accumulate
from typing import NamedTuple, Protocol

from stratalog.config import LogConfig
from stratalog.segment.segment_reader import SegmentReader


class Rule(Enum):
    """The rule that deletes a segment; the value is its name in a report."""

    LOG_START = "log start"
    SIZE = "retention.bytes"
    TIME = "retention.ms"


class KeepReason(Enum):
    """Why a segment stays; if several of these reasons hold, the first one in this order is given."""

    NOT_REPLICATED = "high watermark"
    EMPTY = "empty and active"
    POLICY = "cleanup.policy"
    NO_LIMIT = "no limit"
    SMALL = "below retention.bytes"
    BLOCKED = "an older segment stays"
    FUTURE = "future timestamp"
    YOUNG = "not old enough"


class SegmentFacts(NamedTuple):
    """The facts of a segment that the decision depends on.

    `largest_timestamp` is that of its records; if they have none, it is the file's modification time, and
    `is_file_time` is set.
    """

    base_offset: int
    size: int
    largest_timestamp: int
    is_file_time: bool = False


class Marks(NamedTuple):
    """The marks of a log that the decision depends on."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The decision for one segment: `rule` deletes it, or it stays because of `kept`; the other is None.

    `end_offset` is where it ends. `blocked_by` is the base offset of an older segment whose timestamp keeps
    this segment for longer than this segment's own timestamp does.
    """

    segment: SegmentFacts
    end_offset: int
    is_active: bool
    rule: Rule | None = None
    kept: KeepReason | None = None
    blocked_by: int | None = None
    due_ms: int | None = None
    growth: int | None = None

    @property
    def is_deleted(self) -> bool:
        return self.rule is not None


class TimedSegment(Protocol):
    """A segment to decide about: one that exists, or one that a cleaning would write."""

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def max_timestamp(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...


def facts_of(segments: Iterable[TimedSegment]) -> tuple[SegmentFacts, ...]:
    """The facts of a log's segments, in their order."""
    return tuple(
        SegmentFacts(segment.base_offset, segment.size, segment.largest_timestamp, segment.max_timestamp < 0)
        for segment in segments
    )


def find_timestamps(segments: Sequence[SegmentReader]) -> None:
    """Read the records of segments whose time index does not have the largest timestamp.

    Those are the newest segment, whose index lacks the last records until it is closed, and segments whose
    index is empty although their first batch has a timestamp.
    """
    for segment in segments:
        if segment is segments[-1] or (segment.max_timestamp < 0 and _has_timestamp(segment)):
            segment.find_largest_timestamp()


def _has_timestamp(segment: SegmentReader) -> bool:
    first = segment.rolling_based_timestamp()
    return first is not None and first >= 0


def decide(
    segments: Sequence[SegmentFacts], marks: Marks, config: LogConfig, now: int
) -> tuple[Decision, ...]:
    """The decision for each segment, if retention runs now."""
    ends = [segment.base_offset for segment in segments[1:]] + [marks.log_end_offset]
    # Whatever the rules say, segments that end above the high watermark stay. So does an empty active one.
    free_count = sum(end <= marks.high_watermark for end in ends)
    if segments and segments[-1].size == 0:
        free_count = min(free_count, len(segments) - 1)
    rules: list[Rule] = []
    for rule in (Rule.LOG_START, Rule.SIZE, Rule.TIME) if config.delete else (Rule.LOG_START,):
        taken = _count(rule, segments[len(rules) :], ends[len(rules) :], marks, config, now)
        rules += [rule] * min(taken, free_count - len(rules))
    kept = _Kept(segments, ends, marks, config, now, first=len(rules), free_count=free_count)
    return tuple(
        Decision(
            segment=segment,
            end_offset=ends[index],
            is_active=index == len(segments) - 1,
            rule=rules[index],
        )
        if index < len(rules)
        else kept.decision(index)
        for index, segment in enumerate(segments)
    )


def _count(
    rule: Rule,
    segments: Sequence[SegmentFacts],
    ends: Sequence[int],
    marks: Marks,
    config: LogConfig,
    now: int,
) -> int:
    """How many segments this rule deletes, of those that the earlier rules have kept."""
    count = 0
    if rule is Rule.LOG_START:
        while count < len(segments) - 1 and ends[count] <= marks.log_start_offset:
            count += 1
    elif rule is Rule.SIZE and config.retention_bytes >= 0:
        too_much = sum(segment.size for segment in segments) - config.retention_bytes
        while count < len(segments) and too_much >= segments[count].size:
            too_much -= segments[count].size
            count += 1
    elif rule is Rule.TIME and config.retention_ms >= 0:
        while count < len(segments) and now - segments[count].largest_timestamp > config.retention_ms:
            count += 1
    return count


class _Kept:
    """Why the segments from `first` on stay; no rule can delete those from `free_count` on."""

    def __init__(
        self,
        segments: Sequence[SegmentFacts],
        ends: Sequence[int],
        marks: Marks,
        config: LogConfig,
        now: int,
        *,
        first: int,
        free_count: int,
    ) -> None:
        self._segments, self._ends, self._marks, self._config = segments, ends, marks, config
        self._now, self._first, self._free_count = now, first, free_count
        rest = segments[first:]
        self._peaks = list(accumulate((segment.largest_timestamp for segment in rest), max))
        self._sizes = list(accumulate(segment.size for segment in rest))

    def decision(self, index: int) -> Decision:
        segment, place = self._segments[index], index - self._first
        kept = self._reason(index)
        peak = self._peaks[place]
        by_time = self._config.delete and self._config.retention_ms >= 0 and index < self._free_count
        by_size = self._config.delete and self._config.retention_bytes >= 0 and index < self._free_count
        blocker = self._segments[self._first + self._peaks.index(peak)].base_offset
        return Decision(
            segment=segment,
            end_offset=self._ends[index],
            is_active=index == len(self._segments) - 1,
            kept=kept,
            blocked_by=blocker if by_time and blocker != segment.base_offset else None,
            # Strictly more than retention.ms, so a millisecond later.
            due_ms=peak + self._config.retention_ms + 1 if by_time else None,
            growth=(
                max(0, self._config.retention_bytes + self._sizes[place] - self._sizes[-1])
                if by_size
                else None
            ),
        )

    def _reason(self, index: int) -> KeepReason:
        segment, config = self._segments[index], self._config
        if self._ends[index] > self._marks.high_watermark:
            return KeepReason.NOT_REPLICATED
        if index >= self._free_count:
            return KeepReason.EMPTY
        if not config.delete:
            return KeepReason.POLICY
        if config.retention_ms < 0:
            return KeepReason.NO_LIMIT if config.retention_bytes < 0 else KeepReason.SMALL
        if self._now - segment.largest_timestamp > config.retention_ms:
            return KeepReason.BLOCKED
        return KeepReason.FUTURE if segment.largest_timestamp > self._now else KeepReason.YOUNG
