"""A partition as the page draws it: segments, gaps, epochs, open transactions, marks and retention.

Everything here was read by the audit; nothing touches a log again. Retention is decided by the rules of
`log/retention.py`, as in `stratalog explain`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from stratalog.directory.known_topics import KnownTopics
from stratalog.directory.layout import PartitionEntry
from stratalog.log.epochs import EpochEntry, EpochStitch
from stratalog.log.retention import Marks, SegmentFacts, decide
from stratalog.operations.audit.partition import (
    AuditedPartition,
    OffsetGap,
    PartitionMarks,
    gaps_of,
    new_stitch,
)
from stratalog.operations.audit.partition_task import PartitionTask
from stratalog.operations.audit.segment_task import AuditedSegment
from stratalog.records.internal_topics import CLUSTER_METADATA

MOST_GAPS = 200  # gaps of a partition; lost offsets come first
MOST_TXNS = 50
MOST_EPOCHS = 500


class SegmentBar(NamedTuple):
    """One segment; `last_offset` is below `base_offset` if it is empty. Times are -1 if there are none."""

    base_offset: int
    last_offset: int
    size: int
    records_count: int
    batches_count: int
    first_timestamp: int
    max_timestamp: int
    codecs: tuple[str, ...]
    is_damaged: bool


class OpenTxn(NamedTuple):
    """A transaction that is open at the end of the log; `is_coordinated`: its coordinator knows it."""

    producer_id: int
    producer_epoch: int
    first_offset: int
    last_timestamp: int
    is_coordinated: bool


class RetentionHorizon(NamedTuple):
    """What retention would delete now: everything below `offset`, which is `due_size` bytes.

    Without a high watermark in the checkpoint, all records count as replicated. `time_ms` is the time before
    which records are too old, None if the time rule does not apply. `next_ms` is when the first kept segment
    will be deleted, if the time rule does it. `refusal` says why nothing is known; then the other fields have
    their defaults.
    """

    offset: int | None = None
    due_size: int = 0
    time_ms: int | None = None
    next_ms: int | None = None
    policy: str = ""
    refusal: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionStrip:
    """One partition. `gaps_count` also counts the gaps that are not in `gaps`."""

    directory: str
    name: str
    topic: str
    segments: tuple[SegmentBar, ...]
    gaps: tuple[OffsetGap, ...]
    gaps_count: int
    epochs: tuple[EpochEntry, ...]
    open_txns: tuple[OpenTxn, ...]
    marks: PartitionMarks
    horizon: RetentionHorizon

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self.segments)


def strip_of(
    task: PartitionTask, partition: AuditedPartition, known: KnownTopics, now: int
) -> PartitionStrip:
    """What the page draws of a partition whose segments were audited."""
    gaps = sorted(gaps_of(partition), key=lambda gap: not gap.is_lost)[:MOST_GAPS]
    hidden = sum(segment.gaps_count - len(segment.gaps) for segment in partition.segments)
    return PartitionStrip(
        directory=task.log_directory,
        name=task.name,
        topic=task.topic_partition.topic,
        segments=tuple(_bar(segment) for segment in partition.segments),
        gaps=tuple(sorted(gaps)),
        gaps_count=hidden + sum(1 for _ in gaps_of(partition)),
        epochs=_epochs(partition),
        open_txns=_open_txns(partition),
        marks=partition.marks,
        horizon=_horizon(task, partition, known, now),
    )


def _bar(segment: AuditedSegment) -> SegmentBar:
    return SegmentBar(
        base_offset=segment.base_offset,
        last_offset=segment.last_offset,
        size=segment.size,
        records_count=segment.records_count,
        batches_count=segment.scan.batches_count,
        first_timestamp=segment.first_timestamp,
        max_timestamp=segment.scan.max_timestamp,
        codecs=segment.codecs,
        is_damaged=segment.has_damage,
    )


def _epochs(partition: AuditedPartition) -> tuple[EpochEntry, ...]:
    """The leader epochs of the batches, or of leader-epoch-checkpoint if an earlier audit has read them."""
    if not partition.is_whole:
        return (partition.facts.epochs or ())[-MOST_EPOCHS:]
    stitch = EpochStitch()
    for segment in partition.segments:
        stitch.add(segment.scan.epoch_starts)
    return tuple(stitch.entries[-MOST_EPOCHS:])


def _open_txns(partition: AuditedPartition) -> tuple[OpenTxn, ...]:
    if not partition.is_whole:
        return ()  # transactions may have begun in what an earlier audit has read
    state = new_stitch()
    for segment in partition.segments:
        state.add(segment.scan)
    found = (
        OpenTxn(
            entry.producer_id,
            entry.producer_epoch,
            entry.current_txn_first_offset,
            entry.last_timestamp,
            entry.producer_id in partition.coordinated,
        )
        for entry in state.producers.values()
        if entry.current_txn_first_offset is not None
    )
    return tuple(islice(found, MOST_TXNS))


def _horizon(
    task: PartitionTask, partition: AuditedPartition, known: KnownTopics, now: int
) -> RetentionHorizon:
    key = task.topic_partition
    if key.topic == CLUSTER_METADATA:
        return RetentionHorizon(refusal="the cluster's metadata is kept by snapshots, not by retention.")
    refusal = known.refusal(task.log_directory, PartitionEntry(task.name, key))
    if refusal is not None or not partition.segments:
        return RetentionHorizon(refusal=refusal or "it has no segments.")
    config = known.of(key.topic)
    end = partition.segments[-1].last_offset + 1
    start = partition.marks.log_start_offset
    watermark = partition.marks.high_watermark
    marks = Marks(
        log_start_offset=partition.segments[0].base_offset if start is None else start,
        high_watermark=end if watermark is None else watermark,
        log_end_offset=end,
    )
    # If no record has a timestamp, Kafka uses that of the file, which the audit has not read: such a segment
    # is kept.
    facts = [
        SegmentFacts(
            each.base_offset, each.size, each.scan.max_timestamp if each.scan.max_timestamp >= 0 else now
        )
        for each in partition.segments
    ]
    decisions = decide(facts, marks, config, now)
    deleted = [decision for decision in decisions if decision.is_deleted]
    kept = next((decision for decision in decisions if not decision.is_deleted), None)
    has_time = config.delete and config.retention_ms >= 0
    return RetentionHorizon(
        offset=deleted[-1].end_offset if deleted else None,
        due_size=sum(decision.segment.size for decision in deleted),
        time_ms=now - config.retention_ms if has_time else None,
        next_ms=None if kept is None else kept.due_ms,
        policy=",".join(sorted(config.cleanup_policy)),
    )
