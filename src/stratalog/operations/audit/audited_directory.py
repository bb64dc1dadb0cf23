"""Findings in a log directory itself: checkpoints, strays, foreign files, reasons why a broker would not
start.

The checkpoints are read before the logs. A running broker first appends to its logs and later writes the
checkpoints, so no checkpoint can be past the end that the audit sees.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from stratalog.directory.checkpoints import Checkpoint, DirectoryCheckpoints
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.cluster_metadata import METADATA_DIRECTORY
from stratalog.directory.gone_logs import PlacedLogs, directory_id_of
from stratalog.directory.kind import is_of_log_directory
from stratalog.directory.layout import Layout, classify
from stratalog.directory.lone_logs import was_shut_down
from stratalog.directory.refusal import RefusalKind, StartupRefusal
from stratalog.errors import DiskError
from stratalog.files.entries import EntryKind
from stratalog.files.names import TEMPORARY_SUFFIX, TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.partition import PartitionMarks
from stratalog.operations.audit.partition_task import PartitionTask
from stratalog.records.internal_topics import CLUSTER_METADATA

_NOT_REPORTED = (
    RefusalKind.CHECKPOINT,
    RefusalKind.CLEANER,
    RefusalKind.TOPIC_ID,
    RefusalKind.START_PAST_END,
    RefusalKind.READ_ONLY,
    RefusalKind.FULL,
)


@dataclass(slots=True, kw_only=True)
class AuditedDirectory:
    """A log directory as it was when the audit began. `was_closed`: it has a clean-shutdown file."""

    path: str
    layout: Layout
    was_closed: bool
    tasks: list[PartitionTask]
    directory_id: str | None = None
    findings: list[AuditFinding] = field(default_factory=list)
    _marks: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    @property
    def listed(self) -> PlacedLogs:
        return PlacedLogs(
            layout=self.layout,
            directory_id=self.directory_id,
            recovery_points=self._marks["point"],
            high_watermarks=self._marks["watermark"],
        )

    def marks_of(self, key: TopicPartition) -> PartitionMarks:
        """The lines of one partition in the checkpoints."""
        starts, points, watermarks, cleaned = (
            self._marks[name].get(key) for name in ("start", "point", "watermark", "cleaned")
        )
        return PartitionMarks(
            log_start_offset=starts, recovery_point=points, high_watermark=watermarks, cleaner_offset=cleaned
        )


def look_at_directory(disk: DiskReader, path: str) -> AuditedDirectory:
    """List a log directory and read its checkpoints. DiskError if it cannot be listed."""
    was_closed = CleanShutdownFile(disk, path).exists()
    checkpoints = DirectoryCheckpoints(disk, path)
    marks = {
        "start": _offsets(checkpoints.log_start_offsets),
        "point": _offsets(checkpoints.recovery_points),
        "watermark": _offsets(checkpoints.high_watermarks),
        "cleaned": _offsets(checkpoints.cleaner_offsets),
    }
    layout = classify(disk, path)
    tasks = [
        PartitionTask(log_directory=path, name=entry.name, topic_partition=entry.topic_partition)
        for entry in layout.partitions
    ]
    if METADATA_DIRECTORY in layout.left_alone:
        key = TopicPartition(CLUSTER_METADATA, 0)
        tasks.append(PartitionTask(log_directory=path, name=METADATA_DIRECTORY, topic_partition=key))
    found = AuditedDirectory(path=path, layout=layout, was_closed=was_closed, tasks=tasks, _marks=marks)
    with suppress(DiskError):  # reported as a reason why a broker does not start
        found.directory_id = directory_id_of(disk, path)
    found.findings += _of_checkpoints(path, checkpoints)
    found.findings += _of_entries(disk, layout)
    if not was_shut_down(disk, path):
        words = "There is no clean-shutdown file."
        found.findings.append(AuditFinding(kind=AuditKind.NOT_CLEAN, directory=path, words=words))
    return found


def _offsets(checkpoint: Checkpoint) -> dict[TopicPartition, int]:
    try:
        return checkpoint.read()
    except DiskError:  # reported as a reason why a broker does not start
        return {}


def refusal_finding(refusal: StartupRefusal) -> AuditFinding | None:
    """The finding for a reason why a broker would not start; None if it is not to be reported.

    Checkpoints, starts past the end and wrong topic ids are reported elsewhere. A read-only mount and a full
    disk are not damage: backups are audited there.
    """
    if refusal.kind in _NOT_REPORTED:
        return None
    partition, _, file = refusal.name.rpartition("/")
    is_unread = refusal.kind is RefusalKind.UNREADABLE or refusal.is_unseen
    return AuditFinding(
        kind=AuditKind.UNREADABLE if is_unread else AuditKind.WILL_NOT_START,
        directory=refusal.directory,
        partition=partition,
        file=file,
        words=refusal.reason,
        consequence_words=refusal.consequence,
        remedy_words=refusal.remedy,
    )


def _of_checkpoints(path: str, checkpoints: DirectoryCheckpoints) -> Iterator[AuditFinding]:
    for checkpoint in checkpoints.every:
        if checkpoint.problem is not None:
            yield AuditFinding(
                kind=AuditKind.UNREADABLE_CHECKPOINT,
                directory=path,
                file=checkpoint.name,
                words=f"It cannot be read: {checkpoint.problem.words}.",
            )


def _of_entries(disk: DiskReader, layout: Layout) -> Iterator[AuditFinding]:
    path = layout.directory
    for name in layout.strays:
        words = "A broker has set this partition aside."
        yield AuditFinding(kind=AuditKind.STRAY, directory=path, file=name, words=words)
    for name in layout.waiting:
        words = "The partition was deleted, and waits for its removal."
        yield AuditFinding(kind=AuditKind.WAITING_FILE, directory=path, file=name, words=words)
    for entry in disk.list_directory(path):
        if entry.kind is EntryKind.DIRECTORY:
            continue
        if not is_of_log_directory(entry.name):
            words = "Kafka has no file of this name."
            yield AuditFinding(kind=AuditKind.FOREIGN_FILE, directory=path, file=entry.name, words=words)
        elif entry.name.endswith(TEMPORARY_SUFFIX):
            words = "A write of this file was cut short."
            yield AuditFinding(kind=AuditKind.TEMPORARY_FILE, directory=path, file=entry.name, words=words)
