"""Why each segment is still there, or which rule deletes it: as tables, sentences and JSON."""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.log.retention import Decision, Marks
from stratalog.operations.looking import UnreadablePartition
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, size_text, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The name of a rule, and a sentence. `is_change`: the rule deletes or cleans the segment.

    `if_replicated` is the answer when the high watermark is at the log's end, if it is a different one.
    """

    rule: str
    words: str
    is_change: bool = False
    if_replicated: Answer | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentAnswer:
    """The answers about one segment. `compaction` is None if the log is not compacted."""

    decision: Decision
    retention: Answer
    compaction: Answer | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionAnswers:
    """One partition: the settings and marks that decide its answers, and an answer for each segment.

    `refusal` says why none of its records may be deleted, or is None.
    """

    name: str
    cleanup_policy: tuple[str, ...]
    marks: Marks
    segments: tuple[SegmentAnswer, ...]
    refusal: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainReport(Report):
    """All partitions, as they were at `now`, with notes on settings that were ignored."""

    partitions: tuple[PartitionAnswers | UnreadablePartition, ...]
    now: int
    notes: tuple[str, ...] = ()

    @property
    def explained(self) -> list[PartitionAnswers]:
        return [found for found in self.partitions if isinstance(found, PartitionAnswers)]

    @property
    def status(self) -> Status:
        return Status.FINE if len(self.explained) == len(self.partitions) else Status.FAILED

    @property
    def verdict(self) -> str:
        totals = self.totals()
        going, count = totals["segments_going"], totals["segments"]
        return f"Retention would delete {counted(going, 'segment')} of {count} now. Nothing was changed."

    def tables(self) -> list[Table]:
        return [_table(partition) for partition in self.explained]

    def words(self) -> list[str]:
        found = []
        for partition in self.partitions:
            if isinstance(partition, UnreadablePartition):
                found.append(f"{partition.name}: {partition.error}")
                continue
            if partition.refusal is not None:
                found.append(
                    f"{partition.name}: explained with the settings that are known, and Kafka's defaults for "
                    f"the others. `retain` and `compact` refuse this log: {partition.refusal}"
                )
            found += [f"{partition.name}: {note}" for note in partition.notes]
        return [*found, *self.notes]

    def totals(self) -> dict[str, int]:
        answers = [answer for partition in self.explained for answer in partition.segments]
        going = [answer.decision.segment.size for answer in answers if answer.decision.is_deleted]
        return {
            "partitions": len(self.partitions),
            "segments": len(answers),
            "bytes": sum(answer.decision.segment.size for answer in answers),
            "segments_going": len(going),
            "bytes_going": sum(going),
        }

    def to_document(self) -> dict[str, object]:
        return {"now": self.now, "partitions": [_document(found) for found in self.partitions]}


def _table(partition: PartitionAnswers) -> Table:
    marks = partition.marks
    policy = ",".join(partition.cleanup_policy) or "none"
    return Table(
        title=f"{partition.name}: cleanup.policy {policy}, starts at {marks.log_start_offset}, "
        f"high watermark {marks.high_watermark}, ends at {marks.log_end_offset}",
        columns=[">segment", ">bytes", "newest record", "rule", "why"],
        rows=[_row(answer, is_retention) for answer in partition.segments for is_retention in _kinds(answer)],
    )


def _kinds(answer: SegmentAnswer) -> tuple[bool, ...]:
    """Which answers are shown: True for that of retention, False for that of compaction."""
    if answer.compaction is None or answer.decision.is_deleted:
        return (True,)
    return (True, False)


def _row(answer: SegmentAnswer, is_retention: bool) -> list[str]:
    segment = answer.decision.segment
    given = answer.retention if is_retention else answer.compaction
    assert given is not None
    facts = (
        [str(segment.base_offset), size_text(segment.size), _newest(answer)] if is_retention else ["", "", ""]
    )
    return [*facts, given.rule, given.words]


def _newest(answer: SegmentAnswer) -> str:
    segment = answer.decision.segment
    return "-" if segment.is_file_time else time_text(segment.largest_timestamp)


def _document(partition: PartitionAnswers | UnreadablePartition) -> dict[str, object]:
    if isinstance(partition, UnreadablePartition):
        return {"partition": partition.name, "error": partition.error}
    marks = partition.marks
    return {
        "partition": partition.name,
        "cleanup_policy": list(partition.cleanup_policy),
        "log_start_offset": marks.log_start_offset,
        "high_watermark": marks.high_watermark,
        "log_end_offset": marks.log_end_offset,
        "refused": partition.refusal,
        "notes": list(partition.notes),
        "segments": [
            {
                "base_offset": answer.decision.segment.base_offset,
                "end_offset": answer.decision.end_offset,
                "bytes": answer.decision.segment.size,
                "largest_timestamp": answer.decision.segment.largest_timestamp,
                "is_file_time": answer.decision.segment.is_file_time,
                "is_active": answer.decision.is_active,
                "goes": answer.decision.is_deleted,
                "rule": answer.retention.rule,
                "why": answer.retention.words,
                "blocked_by": answer.decision.blocked_by,
                "due_ms": answer.decision.due_ms,
                "growth_bytes": answer.decision.growth,
                "if_replicated": _if_replicated(answer.retention),
                "compaction": None
                if answer.compaction is None
                else {
                    "rule": answer.compaction.rule,
                    "why": answer.compaction.words,
                    "if_replicated": None
                    if answer.compaction.if_replicated is None
                    else answer.compaction.if_replicated.rule,
                },
            }
            for answer in partition.segments
        ],
    }


def _if_replicated(answer: Answer) -> dict[str, object] | None:
    """The answer if the high watermark is at the log's end; the one in the checkpoint may be lower."""
    then = answer.if_replicated
    return None if then is None else {"goes": then.is_change, "rule": then.rule, "why": then.words}
