"""Combines the audited segments of one partition, and compares them with each other and its small files.

Nothing here touches a disk. Segments are combined in their order, with the gaps between them, the
transactions that span them, and the producers and leader epochs so far. The resulting state is compared with
the .txnindex files, the snapshots, leader-epoch-checkpoint and the checkpoints of the log directory.

A rule reports only what has no other explanation. Compaction, deletion and expiry remove facts from a log
that are still in its small files. So a small file may say more than the log, but if it contradicts the log,
that is a finding.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stratalog.files.names import FileKind, TopicPartition, segment_file_name
from stratalog.log.epochs import EpochEntry, EpochStitch
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.recovery.stitch import ProducerStitch, SnapshotSet
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.partition_task import PartitionFacts, SnapshotProducer
from stratalog.operations.audit.segment_task import AuditedSegment
from stratalog.operations.audit.spots import MOST_PLACES, Spot
from stratalog.operations.words import counted, time_text
from stratalog.segment.producers import TxnEventKind
from stratalog.segment.txn_index import AbortedTxn

LEADER_EPOCHS = "leader-epoch-checkpoint"
# The longest transaction that a broker allows by default. Kafka: transaction.max.timeout.ms
HANGING_MS = 900_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMarks:
    """The checkpoints' entries of a partition; None if a checkpoint has no line for it."""

    log_start_offset: int | None = None
    recovery_point: int | None = None
    high_watermark: int | None = None
    cleaner_offset: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPartition:
    """A partition and its audited segments, in order.

    `is_compacted`: its cleanup.policy says so now, or Kafka's default if it is not known. `newest_ms` is
    the newest timestamp of its log directory; it shows how long a transaction has been open.
    """

    topic_partition: TopicPartition
    facts: PartitionFacts
    segments: Sequence[AuditedSegment]
    marks: PartitionMarks
    is_compacted: bool | None
    newest_ms: int
    coordinated: frozenset[int] = frozenset()  # producers whose open transaction a coordinator knows
    is_whole: bool = True  # no earlier audit was used: segments were read from their first byte


def check_partition(partition: AuditedPartition) -> list[Spot]:
    """The contradictions between the segments and small files of a partition."""
    found = [*_gaps(partition)]
    if partition.segments:
        found += _checkpoints(partition)
    if partition.is_whole:
        found += _producers(partition)
    if not any(segment.has_damage for segment in partition.segments):
        found += _epochs(partition)
    return found


class OffsetGap(NamedTuple):
    """Offsets that no batch has, before or in a segment. `is_lost`: nothing explains them."""

    segment_base: int
    first: int
    last: int
    is_lost: bool


def gaps_of(partition: AuditedPartition) -> Iterator[OffsetGap]:
    """The gaps that the audit has kept, in order; deletion, compaction and damage explain some of them."""
    start = partition.marks.log_start_offset or 0
    was_cleaned = (
        partition.is_compacted
        or partition.marks.cleaner_offset is not None
        or any(segment.is_compacted for segment in partition.segments)
    )
    before: AuditedSegment | None = None
    for segment in partition.segments:
        gaps = list(segment.gaps)
        if before is not None and before.last_offset + 1 < segment.base_offset:
            gaps.insert(0, (before.last_offset + 1, segment.base_offset - 1))
        has_damage = segment.has_damage or (before is not None and before.has_damage)
        for first, last in gaps:
            is_lost = not (last < start or was_cleaned or has_damage)
            yield OffsetGap(segment.base_offset, first, last, is_lost)
        before = segment


def _gaps(partition: AuditedPartition) -> Iterator[Spot]:
    """Offsets that no batch has, and why."""
    explained = sum(segment.gaps_count - len(segment.gaps) for segment in partition.segments)
    for gap in gaps_of(partition):
        if not gap.is_lost:
            explained += 1
            continue
        count = counted(gap.last - gap.first + 1, "record")
        words = f"Offsets {gap.first} to {gap.last} are missing, {count}."
        name = segment_file_name(gap.segment_base, FileKind.LOG)
        yield Spot(AuditKind.LOST_OFFSETS, name, words, offset=gap.first)
    if explained and partition.is_compacted is False and not any(s.has_damage for s in partition.segments):
        verb = "is" if explained == 1 else "are"
        words = f"{counted(explained, 'range')} of offsets {verb} missing, as after compaction or deletion."
        yield Spot(AuditKind.GAP, "", words)


def _checkpoints(partition: AuditedPartition) -> Iterator[Spot]:
    end, marks = partition.segments[-1].last_offset + 1, partition.marks
    if marks.log_start_offset is not None and marks.log_start_offset > end:
        words = f"The log starts at {marks.log_start_offset}, but ends at {end}."
        yield Spot(AuditKind.START_PAST_END, "", words, offset=marks.log_start_offset)
    for name, offset in (
        ("recovery-point-offset-checkpoint", marks.recovery_point),
        ("replication-offset-checkpoint", marks.high_watermark),
        ("cleaner-offset-checkpoint", marks.cleaner_offset),
    ):
        if offset is not None and offset > end:
            words = f"{name} says {offset}, but the log ends at {end}."
            yield Spot(AuditKind.CHECKPOINT_PAST_END, name, words, offset=offset)


def new_stitch() -> ProducerStitch:
    """The producer state before the first segment of a log: no snapshot is used, and no producer expires."""
    return ProducerStitch(SnapshotSet((), lambda _: None), now_ms=0, producer_id_expiration_ms=1)


def _producers(partition: AuditedPartition) -> Iterator[Spot]:
    """Aborted transactions, snapshots, and transactions that do not end."""
    state = new_stitch()
    waiting = dict(partition.facts.snapshots)
    was_cleaned = bool(partition.is_compacted) or any(each.is_compacted for each in partition.segments)
    for segment in partition.segments:
        if segment.base_offset in waiting:
            at = segment.base_offset
            yield from _compare_snapshot(at, waiting.pop(at), state.producers, was_cleaned)
        expected = state.add(segment.scan)
        # The abort that a torn entry is about is no second finding: a recovery rebuilds the whole index.
        is_torn = any(spot.kind is AuditKind.TORN_TXN_INDEX for spot in segment.spots)
        if segment.aborted is not None and not segment.has_damage and not is_torn:
            yield from compare_aborts(segment, expected, was_cleaned)
    end = partition.segments[-1].last_offset + 1 if partition.segments else 0
    if end in waiting:
        yield from _compare_snapshot(end, waiting.pop(end), state.producers, was_cleaned)
    for offset in state.contradictions[:MOST_PLACES]:
        words = f"The batch at offset {offset} is not transactional, but its producer's transaction is open."
        yield Spot(AuditKind.TXN_CONTRADICTION, _file_of(partition, offset), words, offset=offset)
    for entry in state.producers.values():
        since = entry.current_txn_first_offset
        is_known = entry.producer_id in partition.coordinated
        if since is not None and not is_known and partition.newest_ms - entry.last_timestamp > HANGING_MS:
            words = (
                f"A transaction of producer {entry.producer_id} (epoch {entry.producer_epoch}) has been open "
                f"since offset {since}; its last batch is from {time_text(entry.last_timestamp)}."
            )
            yield Spot(AuditKind.HANGING_TRANSACTION, _file_of(partition, since), words, offset=since)


def compare_aborts(
    segment: AuditedSegment, expected: Sequence[AbortedTxn], was_cleaned: bool
) -> Iterator[Spot]:
    """Compare the .txnindex of a segment with the aborts in its log."""
    assert segment.aborted is not None
    name = segment_file_name(segment.base_offset, FileKind.TXN_INDEX)
    listed = {(each.producer_id, each.last_offset): each for each in segment.aborted}
    for each in expected:
        key = each.producer_id, each.last_offset
        first_offset = each.first_offset
        entry = listed.get(key)
        if entry is None:
            words = (
                f"There is no entry for the aborted transaction of producer {key[0]} at offsets "
                f"{first_offset} to {key[1]}."
            )
            yield Spot(AuditKind.MISSING_ABORT, name, words, offset=first_offset)
        elif entry.first_offset > first_offset:
            words = (
                f"The entry of producer {key[0]} begins at offset {entry.first_offset}, but its transaction "
                f"begins at offset {first_offset}."
            )
            yield Spot(AuditKind.TXN_INDEX_ENTRY, name, words, offset=first_offset)
    if was_cleaned:
        return  # compaction removes markers, and keeps entries
    markers = {
        (event.producer_id, event.offset)
        for event in segment.scan.transactions
        if event.kind is TxnEventKind.ABORTED
    }
    for key, entry in listed.items():
        if key not in markers and segment.first_offset is not None:
            words = (
                f"An entry says that producer {key[0]} has an abort marker at offset {key[1]}, but there is "
                "none."
            )
            yield Spot(AuditKind.TXN_INDEX_ENTRY, name, words, offset=entry.last_offset)


def _compare_snapshot(
    offset: int,
    listed: Sequence[SnapshotProducer],
    producers: dict[int, ProducerStateEntry],
    was_cleaned: bool,
) -> Iterator[Spot]:
    """Compare a snapshot with the producers of the log below its offset."""
    name = segment_file_name(offset, FileKind.PRODUCER_SNAPSHOT)
    for found in listed:
        known = producers.get(found.producer_id)
        if known is None or not known.batches:
            continue  # its batches are deleted or compacted
        last = known.batches[-1]
        if found.producer_epoch < known.producer_epoch:
            words = (
                f"In the snapshot, producer {found.producer_id} has epoch {found.producer_epoch}; in the log "
                f"below offset {offset} it has epoch {known.producer_epoch}."
            )
        elif found.producer_epoch > known.producer_epoch or was_cleaned:
            continue  # a marker has the new epoch, or compaction removed the last batch
        elif found.last_offset >= 0 and (found.last_offset, found.last_sequence) != (
            last.last_offset,
            last.last_sequence,
        ):
            words = (
                f"In the snapshot, the last batch of producer {found.producer_id} ends with sequence "
                f"{found.last_sequence} at offset {found.last_offset}; in the log it ends with sequence "
                f"{last.last_sequence} at offset {last.last_offset}."
            )
        elif found.txn_first_offset is None and known.current_txn_first_offset is not None:
            words = (
                f"In the snapshot, producer {found.producer_id} has no open transaction; in the log below "
                f"offset {offset} one has been open since offset {known.current_txn_first_offset}."
            )
        else:
            continue
        yield Spot(AuditKind.WRONG_SNAPSHOT, name, words, offset=offset)


def _epochs(partition: AuditedPartition) -> Iterator[Spot]:
    """Compare leader-epoch-checkpoint with the epochs in the batches."""
    listed = partition.facts.epochs
    if listed is None:
        return  # it cannot be read: reported as a reason why a broker does not start
    start = max(partition.marks.log_start_offset or 0, listed[0].start_offset if listed else 0)
    stitch = EpochStitch()
    for segment in partition.segments:
        stitch.add(segment.scan.epoch_starts)
    for epoch, offset in stitch.entries:
        if offset < start:
            continue  # the file forgets epochs below the log's start
        known = _epoch_at(listed, offset)
        if known != epoch:
            says = "no epoch" if known is None else f"epoch {known}"
            words = (
                f"The batch at offset {offset} has leader epoch {epoch}; the file has {says} for that offset."
            )
            yield Spot(AuditKind.WRONG_LEADER_EPOCH, LEADER_EPOCHS, words, offset=offset)


def _epoch_at(entries: Sequence[EpochEntry], offset: int) -> int | None:
    found = [entry.epoch for entry in entries if entry.start_offset <= offset]
    return found[-1] if found else None


def _file_of(partition: AuditedPartition, offset: int) -> str:
    bases = [segment.base_offset for segment in partition.segments if segment.base_offset <= offset]
    return segment_file_name(bases[-1], FileKind.LOG) if bases else ""
