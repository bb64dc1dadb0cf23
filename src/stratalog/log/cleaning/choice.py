"""Decides which compacted log is cleaned next, up to where, and why another log is not.

A compacted log is clean up to its checkpoint and dirty from there on:

    0 ......... first_dirty ......... first_uncleanable ......... log_end_offset
      clean                  cleanable             not cleanable: active, undecided, too young

The log with the largest cleanable share of bytes is cleaned first. A log is cleaned only if that share is
above min.cleanable.dirty.ratio, or if its oldest dirty record has waited for more than max.compaction.lag.ms.

Kafka: LogCleanerManager, LogToClean
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from stratalog.config import LogConfig
from stratalog.files.names import TopicPartition

if TYPE_CHECKING:
    from stratalog.log.log import Log


class DirtySegment(Protocol):
    """The fields of a segment that the choice needs.

    Times are read only if a setting needs them, because that may read the file.
    """

    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def largest_timestamp(self) -> int: ...

    def rolling_based_timestamp(self) -> int | None: ...


class LogFacts(NamedTuple):
    """The facts of a log that the choice depends on. The last segment is the active one."""

    topic_partition: TopicPartition
    segments: Sequence[DirtySegment]
    log_start_offset: int
    last_stable_offset: int
    log_end_offset: int
    config: LogConfig


def facts_of_log(log: Log) -> LogFacts:
    """The facts of an open log that the choice depends on."""
    return LogFacts(
        log.topic_partition,
        tuple(log.segments.readers),
        log.log_start_offset,
        log.last_stable_offset,
        log.log_end_offset,
        log.config,
    )


class CleanableEnd(Enum):
    """Why the cleanable part of a log ends where it does; the value is the text of a report."""

    ACTIVE = "the active segment is never cleaned"
    LAST_STABLE = "records from the first open transaction on, or not replicated yet, are not cleaned"
    MIN_LAG = "records younger than min.compaction.lag.ms are not cleaned"


class Eligibility(Enum):
    """Whether a log is cleaned if its turn comes."""

    DIRTY = "the dirty part is above min.cleanable.dirty.ratio"
    OVERDUE = "a dirty record is older than max.compaction.lag.ms"
    CLEAN_ENOUGH = "the dirty part is not above min.cleanable.dirty.ratio"
    NOTHING_DIRTY = "the part that may be cleaned has no dirty records"


class CleanableOffsets(NamedTuple):
    """The range of a log that may be cleaned. `resets_checkpoint`: the given checkpoint is of no use."""

    first_dirty: int
    first_uncleanable_dirty: int
    bound: CleanableEnd
    resets_checkpoint: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LogToClean:
    """A log and its part to clean; `first_uncleanable` is the base offset of a segment."""

    topic_partition: TopicPartition
    first_dirty: int
    first_uncleanable: int
    bound: CleanableEnd
    clean_size: int
    cleanable_size: int
    compaction_delay_ms: int
    min_ratio: float
    resets_checkpoint: bool

    @property
    def total_size(self) -> int:
        return self.clean_size + self.cleanable_size

    @property
    def ratio(self) -> float:
        """The share of the bytes that is cleanable; 0 for a log without bytes."""
        return self.cleanable_size / self.total_size if self.total_size else 0.0

    @property
    def eligibility(self) -> Eligibility:
        if not self.cleanable_size:
            return Eligibility.NOTHING_DIRTY
        if self.ratio > self.min_ratio:
            return Eligibility.DIRTY
        return Eligibility.OVERDUE if self.compaction_delay_ms > 0 else Eligibility.CLEAN_ENOUGH

    @property
    def is_eligible(self) -> bool:
        return self.eligibility in (Eligibility.DIRTY, Eligibility.OVERDUE)


def cleanable_offsets(log: LogFacts, checkpoint: int | None, now: int) -> CleanableOffsets:
    """The range of a log that may be cleaned, given its last checkpoint."""
    first_dirty = log.log_start_offset if checkpoint is None else checkpoint
    # Records were deleted past the checkpoint, or the log was cut before it: nothing is known to be clean.
    resets = not log.log_start_offset <= first_dirty <= log.log_end_offset
    if resets:
        first_dirty = log.log_start_offset
    ends = [
        (log.last_stable_offset, CleanableEnd.LAST_STABLE),
        (log.segments[-1].base_offset, CleanableEnd.ACTIVE),
    ]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (s for s in _closed_from(log, first_dirty) if s.largest_timestamp > now - lag_ms)
        ends += [(segment.base_offset, CleanableEnd.MIN_LAG) for segment in list(young)[:1]]
    # If several bounds are equal, the active segment is the reason given: it is a bound that always remains.
    end, bound = min(ends, key=lambda found: (found[0], found[1] is not CleanableEnd.ACTIVE))
    # The bound may lie in the clean part if the high watermark is no longer known. Then nothing is cleaned.
    return CleanableOffsets(first_dirty, max(first_dirty, end), bound, resets)


def compaction_delay_ms(log: LogFacts, first_dirty: int, now: int) -> int:
    """How much longer than max.compaction.lag.ms the oldest dirty record has waited; 0 if not longer."""
    clean_until = now - log.config.max_compaction_lag_ms
    if clean_until <= 0:
        return 0  # no record can be that old, so no segment is read
    times = [segment.rolling_based_timestamp() for segment in _closed_from(log, first_dirty)]
    earliest = min((time for time in times if time is not None and time > 0), default=clean_until)
    return max(0, clean_until - earliest)


def log_to_clean(log: LogFacts, checkpoint: int | None, now: int) -> LogToClean:
    """The part of a log to clean."""
    offsets = cleanable_offsets(log, checkpoint, now)
    behind = _closed_from(log, offsets.first_uncleanable_dirty)
    first_uncleanable = (behind[0] if behind else log.segments[-1]).base_offset
    start = min(offsets.first_dirty, first_uncleanable)
    return LogToClean(
        topic_partition=log.topic_partition,
        first_dirty=offsets.first_dirty,
        first_uncleanable=first_uncleanable,
        bound=offsets.bound,
        clean_size=sum(s.size for s in log.segments if s.base_offset < offsets.first_dirty),
        cleanable_size=sum(
            s.size for s in _from_floor(log.segments, start) if s.base_offset < first_uncleanable
        )
        if start < first_uncleanable
        else 0,
        compaction_delay_ms=compaction_delay_ms(log, offsets.first_dirty, now),
        min_ratio=log.config.min_cleanable_dirty_ratio,
        resets_checkpoint=offsets.resets_checkpoint,
    )


def filthiest(logs: Iterable[LogToClean]) -> LogToClean | None:
    """The log to clean next: of the eligible ones, the one with the largest ratio."""
    return max((log for log in logs if log.is_eligible), key=lambda log: log.ratio, default=None)


def _closed_from(log: LogFacts, offset: int) -> Sequence[DirtySegment]:
    """The segments from the one that holds the offset on, without the active one."""
    if offset > log.segments[-1].base_offset:
        return ()
    return _from_floor(log.segments, offset)[:-1] if offset < log.segments[-1].base_offset else ()


def _from_floor(segments: Sequence[DirtySegment], offset: int) -> Sequence[DirtySegment]:
    below = sum(segment.base_offset <= offset for segment in segments)
    return segments[max(0, below - 1) :]
