"""Reads a partition's directory, except its segments: names, snapshots, epochs, topic id.

A task reads one directory, so that executors can list disks that only they have. Other tasks read the
segments (`segment_task.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple
from uuid import UUID

from stratalog.directory.lone_files import LONE_NAMES
from stratalog.errors import CorruptCheckpointError, CorruptSnapshotError, InvalidNameError
from stratalog.files.entries import DirectoryEntry, EntryKind, lasting_id
from stratalog.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    QUORUM_STATE,
    TEMPORARY_SUFFIX,
    FileKind,
    FileState,
    SegmentFile,
    TopicPartition,
    parse_kraft_snapshot_file,
    parse_segment_file,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.epochs import EpochEntry, read_epochs
from stratalog.log.partition_metadata import topic_id_of
from stratalog.log.producers.snapshot import parse_snapshot
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.spots import Spot
from stratalog.operations.words import sentence
from stratalog.records.internal_topics import CLUSTER_METADATA

_KNOWN = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, *LONE_NAMES)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """The directory of one partition."""

    log_directory: str
    name: str
    topic_partition: TopicPartition

    @property
    def path(self) -> str:
        return join_path(self.log_directory, self.name)


class SnapshotProducer(NamedTuple):
    """One producer in a snapshot; the sequence and offset of its last batch are -1 if it has none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    txn_first_offset: int | None


class ListedSegment(NamedTuple):
    """A .log file in the listing; `stamp` changes when another file gets its name."""

    base_offset: int
    size: int
    stamp: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFacts:
    """What was found. `snapshots` are those that can be read.

    `epochs` is None if leader-epoch-checkpoint is garbled. `topic_id` is None if partition.metadata is
    missing or garbled; `is_id_garbled` tells which.
    """

    segments: tuple[ListedSegment, ...]
    epochs: tuple[EpochEntry, ...] | None
    topic_id: UUID | None
    is_id_garbled: bool = False
    snapshots: tuple[tuple[int, tuple[SnapshotProducer, ...]], ...]
    spots: tuple[Spot, ...]


def look_at_partition(disk: DiskReader, task: PartitionTask) -> PartitionFacts:
    """List the directory and read its small files. DiskError if it cannot be listed."""
    entries = disk.list_directory(task.path)
    spots: list[Spot] = []
    live: list[tuple[SegmentFile, DirectoryEntry]] = []
    for entry in entries:
        file = _segment_file(entry.name)
        if entry.kind is not EntryKind.FILE or file is None:
            spots += _of_other(task, entry)
        elif file.state is FileState.LIVE:
            live.append((file, entry))
        elif file.state is FileState.DELETED:
            spots.append(
                Spot(AuditKind.WAITING_FILE, entry.name, "It waits for its deletion.", size=entry.size)
            )
        else:
            spots.append(
                Spot(AuditKind.TEMPORARY_FILE, entry.name, "Compaction or a split left it.", size=entry.size)
            )
    segments = tuple(
        ListedSegment(file.offset, entry.size, lasting_id(entry.id))
        for file, entry in live
        if file.kind is FileKind.LOG
    )
    spots += _orphans(live, {segment.base_offset for segment in segments})
    topic_id, is_id_garbled = _topic_id(disk, task)
    return PartitionFacts(
        segments=tuple(sorted(segments)),
        epochs=_epochs(disk, task),
        topic_id=topic_id,
        is_id_garbled=is_id_garbled,
        snapshots=tuple(_snapshots(disk, task, live, spots)),
        spots=tuple(spots),
    )


def _segment_file(name: str) -> SegmentFile | None:
    try:
        return parse_segment_file(name)
    except InvalidNameError:  # reported as a reason why a broker does not start
        return None


def _of_other(task: PartitionTask, entry: DirectoryEntry) -> list[Spot]:
    """The finding for a file that does not belong to a segment, if there is one."""
    plain = entry.name.removesuffix(TEMPORARY_SUFFIX)
    known = plain in _KNOWN or _is_of_metadata(task, plain)
    if known and entry.kind is EntryKind.FILE:
        if plain == entry.name:
            return []
        return [
            Spot(AuditKind.TEMPORARY_FILE, entry.name, "A write of this file was cut short.", size=entry.size)
        ]
    return [Spot(AuditKind.FOREIGN_FILE, entry.name, "Kafka has no file of this name.", size=entry.size)]


def _is_of_metadata(task: PartitionTask, name: str) -> bool:
    if task.topic_partition.topic != CLUSTER_METADATA:
        return False
    return name == QUORUM_STATE or parse_kraft_snapshot_file(name) is not None or name.endswith(".part")


def _orphans(live: list[tuple[SegmentFile, DirectoryEntry]], bases: set[int]) -> list[Spot]:
    indexes = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
    return [
        Spot(AuditKind.ORPHAN_INDEX, entry.name, "There is no .log of this base offset.", size=entry.size)
        for file, entry in live
        if file.kind in indexes and file.offset not in bases
    ]


def _epochs(disk: DiskReader, task: PartitionTask) -> tuple[EpochEntry, ...] | None:
    try:
        return read_epochs(disk, join_path(task.path, LEADER_EPOCH_CHECKPOINT))
    except CorruptCheckpointError:  # reported as a reason why a broker does not start
        return None


def _topic_id(disk: DiskReader, task: PartitionTask) -> tuple[UUID | None, bool]:
    """The id in partition.metadata, and whether the file is garbled."""
    try:
        return topic_id_of(disk, task.path), False
    except CorruptCheckpointError:  # reported as a reason why a broker does not start
        return None, True


def _snapshots(
    disk: DiskReader, task: PartitionTask, live: list[tuple[SegmentFile, DirectoryEntry]], spots: list[Spot]
) -> list[tuple[int, tuple[SnapshotProducer, ...]]]:
    found = []
    for file, entry in live:
        if file.kind is not FileKind.PRODUCER_SNAPSHOT:
            continue
        data = disk.read_file(join_path(task.path, entry.name))
        if data is None:
            continue  # deleted since it was listed
        try:
            producers = parse_snapshot(data)
        except CorruptSnapshotError as error:
            spots.append(
                Spot(AuditKind.UNREADABLE_SNAPSHOT, entry.name, sentence(error.reason), size=entry.size)
            )
            continue
        found.append(
            (
                file.offset,
                tuple(
                    SnapshotProducer(
                        each.producer_id,
                        each.producer_epoch,
                        each.batches[-1].last_sequence if each.batches else -1,
                        each.batches[-1].last_offset if each.batches else -1,
                        each.current_txn_first_offset,
                    )
                    for each in producers
                ),
            )
        )
    return sorted(found)
