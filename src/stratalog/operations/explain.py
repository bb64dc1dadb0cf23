"""Explains in words why a segment is still there, or which rule deletes it and when.

Every segment has one answer about retention and, in a compacted log, one about compaction. Each answer has
the stable name of a rule, and a sentence with the numbers that decide.

The high watermark decides too, but the disk has only its last checkpoint. A running broker writes the
checkpoint every few seconds, and uses the newer value in its memory. So an answer that depends on the high
watermark also says what applies when all records are replicated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from typing import assert_never

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig
from stratalog.directory.kind import check_log_directory
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.session import unique_paths
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.choice import CleanableEnd, Eligibility, LogToClean
from stratalog.log.retention import Decision, KeepReason, Marks, Rule
from stratalog.operations.explain_report import Answer, ExplainReport, PartitionAnswers, SegmentAnswer
from stratalog.operations.looking import Partition, UnreadablePartition, look
from stratalog.operations.named import check_names
from stratalog.operations.words import span_text

_BOUNDS = {
    CleanableEnd.ACTIVE: "active segment",
    CleanableEnd.LAST_STABLE: "last stable offset",
    CleanableEnd.MIN_LAG: "min.compaction.lag.ms",
}
_ELIGIBLE = {
    Eligibility.DIRTY: "dirty",
    Eligibility.OVERDUE: "max.compaction.lag.ms",
    Eligibility.CLEAN_ENOUGH: "min.cleanable.dirty.ratio",
    Eligibility.NOTHING_DIRTY: "clean",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """A request: which directories of one node, and which topics or partitions in them (none: all)."""

    directories: Sequence[str]
    names: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    disk: DiskReader = field(default_factory=DiskReader)
    clock: Clock = system_clock

    def run(self) -> ExplainReport:
        """Explain all segments.

        UsageError if no topic or partition has a given name, NotALogDirectoryError if a path is not a log
        directory."""
        paths, now = unique_paths(self.disk, self.directories), self.clock()
        for path in paths:
            check_log_directory(self.disk, path)
        check_names(self.disk, paths, self.names)
        known = KnownTopics(self.disk, paths, self.sources)
        found = (look(self.disk, self.clock, path, known, self.names) for path in paths)
        partitions = tuple(_answers(partition, now) for partition in chain.from_iterable(found))
        return ExplainReport(partitions=partitions, now=now, notes=known.notes)


def _answers(partition: Partition | UnreadablePartition, now: int) -> PartitionAnswers | UnreadablePartition:
    if isinstance(partition, UnreadablePartition):
        return partition
    return PartitionAnswers(
        name=partition.name,
        cleanup_policy=tuple(sorted(partition.config.cleanup_policy)),
        marks=partition.marks,
        segments=tuple(explain(partition, now)),
        refusal=partition.refusal,
        notes=tuple(partition.view.notes),
    )


def explain(partition: Partition, now: int) -> Iterator[SegmentAnswer]:
    """An answer for each segment, the oldest first."""
    end = partition.marks.log_end_offset
    to_clean, later_to_clean = partition.to_clean(now), partition.to_clean(now, end)
    for decision, later in zip(partition.decisions(now), partition.decisions(now, end), strict=True):
        compaction = None
        if to_clean is not None and later_to_clean is not None:
            found, then = (
                compaction_answer(decision, to_clean),
                compaction_answer(later, later_to_clean),
            )
            compaction = _depending(found, then, "the whole log is replicated")
        yield SegmentAnswer(
            decision=decision,
            retention=_retention(partition, decision, later, now),
            compaction=compaction,
        )


def _retention(partition: Partition, decision: Decision, later: Decision, now: int) -> Answer:
    """The answer; if the high watermark keeps the segment, also the answer without it."""
    marks, config = partition.marks, partition.config
    found = retention_answer(decision, marks, config, now)
    if decision.kept is not KeepReason.NOT_REPLICATED:
        return found
    if partition.has_high_watermark:
        known = f"above the high watermark, which is {marks.high_watermark} in replication-offset-checkpoint"
    else:
        known = "and replication-offset-checkpoint has no high watermark for its log"
    found = replace(found, words=f"it ends at {decision.end_offset}, {known}")
    then = retention_answer(later, marks._replace(high_watermark=marks.log_end_offset), config, now)
    return _depending(found, then, f"the broker's is at least {decision.end_offset}")


def _depending(found: Answer, then: Answer, when: str) -> Answer:
    """An answer that holds until the high watermark moves on."""
    if (found.rule, found.is_change) == (then.rule, then.is_change):
        return found
    return replace(found, words=f"{found.words}; once {when}, {then.words}", if_replicated=then)


def retention_answer(decision: Decision, marks: Marks, config: LogConfig, now: int) -> Answer:
    """Why the limits of the topic delete or keep a segment."""
    if decision.rule is not None:
        words = _goes(decision, decision.rule, marks, config)
        return Answer(rule=decision.rule.value, words=words, is_change=True)
    assert decision.kept is not None
    return Answer(rule=decision.kept.value, words=_stays(decision, decision.kept, marks, config, now))


def _goes(decision: Decision, rule: Rule, marks: Marks, config: LogConfig) -> str:
    match rule:
        case Rule.LOG_START:
            start = marks.log_start_offset
            return f"it is deleted: it ends at {decision.end_offset}, and the log starts at {start}"
        case Rule.SIZE:
            return (
                "it is deleted: without it the log is still at least as large as retention.bytes, which is "
                f"{config.retention_bytes}"
            )
        case Rule.TIME:
            return f"it is deleted: {_age(decision)}, and retention.ms is {span_text(config.retention_ms)}"
        case _:
            assert_never(rule)


def _stays(decision: Decision, kept: KeepReason, marks: Marks, config: LogConfig, now: int) -> str:
    match kept:
        case KeepReason.NOT_REPLICATED:
            mark = marks.high_watermark
            return f"it ends at {decision.end_offset}, above the high watermark, which is {mark}"
        case KeepReason.EMPTY:
            return "it is the active segment and has no record"
        case KeepReason.POLICY:
            policy = ",".join(sorted(config.cleanup_policy)) or "empty"
            return f"cleanup.policy is {policy}: only segments below the log's start are deleted"
        case KeepReason.NO_LIMIT:
            return "retention.ms and retention.bytes are -1: nothing is deleted by age or size"
        case KeepReason.SMALL:
            return f"retention.ms is -1, and by size it {_growth(decision, config)}"
        case KeepReason.FUTURE:
            ahead = span_text(decision.segment.largest_timestamp - now)
            words = f"its largest timestamp is {ahead} in the future, and retention.ms counts from that time"
        case KeepReason.BLOCKED | KeepReason.YOUNG:
            words = f"{_age(decision)}, and retention.ms is {span_text(config.retention_ms)}"
        case _:
            assert_never(kept)
    return words + _until(decision, config)


def _until(decision: Decision, config: LogConfig) -> str:
    """When the retention time of a segment ends."""
    words = ""
    if decision.blocked_by is not None:
        words += f"; the oldest segments are deleted first, and segment {decision.blocked_by} is kept longer"
    if decision.due_ms is not None:
        words += f"; it will be deleted at {_time(decision.due_ms)}"
    if decision.growth is not None:
        words += f", or {_growth(decision, config)}"
    return words


def _growth(decision: Decision, config: LogConfig) -> str:
    return (
        f"is deleted when the log has grown by {decision.growth} bytes (retention.bytes "
        f"{config.retention_bytes})"
    )


def _age(decision: Decision) -> str:
    if decision.segment.is_file_time:
        return (
            "no record has a timestamp, and its file was last modified at "
            f"{_time(decision.segment.largest_timestamp)}"
        )
    return f"its newest record has the timestamp {_time(decision.segment.largest_timestamp)}"


def compaction_answer(decision: Decision, log: LogToClean) -> Answer:
    """What the cleaner does with a segment, and why."""
    base_offset = decision.segment.base_offset
    if decision.is_active:
        return Answer(
            rule="active segment", words=f"{CleanableEnd.ACTIVE.value}; it is rolled by segment.ms or size"
        )
    if base_offset >= log.first_uncleanable:
        here = (
            f"so nothing from offset {log.first_uncleanable} on is cleaned, and this segment starts at "
            f"{base_offset}"
        )
        return Answer(rule=_BOUNDS[log.bound], words=f"{log.bound.value}; {here}")
    if decision.end_offset <= log.first_dirty:
        return Answer(rule="clean", words=f"it was cleaned: the cleaner's checkpoint is {log.first_dirty}")
    eligibility = log.eligibility
    words = f"{eligibility.value}: {log.ratio:.2f} of the log is dirty, the limit is {log.min_ratio:.2f}"
    if eligibility is Eligibility.OVERDUE:
        words += f", but the cleaning is {span_text(log.compaction_delay_ms)} late"
    return Answer(rule=_ELIGIBLE[eligibility], words=words, is_change=log.is_eligible)


def _time(timestamp_ms: int) -> str:
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{timestamp_ms} ms"  # past the year 9999: producers send such times
    return moment.strftime("%Y-%m-%d %H:%M:%S")
