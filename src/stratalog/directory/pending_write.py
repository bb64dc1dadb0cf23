"""Finishes a committed write: renames staged segments into their logs.

Renaming can be interrupted anywhere and repeated: a staged file that is gone has already been renamed. No
segment is read. The caller then recovers the logs, or closes them as a clean shutdown does; until then the
directory has no clean-shutdown file.

A broker may have been started on the directory before this runs. It did not know about the write and appended
at the old end of the log, so other records may have the offsets of the staged segments. The sizes of the
log's last segments show whether that happened. Such staged segments stay where they are, `waiting`, and the
next write gives them new offsets.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from uuid import UUID

from stratalog.directory.write_journal import (
    Journal,
    PartitionWrite,
    StagedSegment,
    read_journal,
    write_journal,
)
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.names import (
    PARTITION_METADATA,
    FileKind,
    FileState,
    parse_segment_file,
    segment_file_name,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import PartitionMetadataFile

logger = logging.getLogger(__name__)

# The .log is renamed last, so that a segment with a .log has its indexes. A broker that is started in between
# deletes an index without its .log, and rebuilds it when it finds the .log; recovery does the same.
STAGED_KINDS = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.LOG)


def finish_pending_write(disk: Disk, directory: str) -> Journal:
    """Move pending segments into their logs; returns the journal as it is now. Needs the directory's lock."""
    journal = read_journal(disk, directory)
    pending = journal.pending
    if pending is None:
        return journal
    waiting = list(journal.waiting)
    for write in pending.partitions:
        left = _finish_partition(disk, directory, write)
        if left is not None:
            waiting.append(left)
    committed = dict(journal.committed)
    if pending.query is not None:
        committed[pending.query] = max(pending.batch, committed.get(pending.query, -1))
    journal = Journal(waiting=tuple(waiting), committed=committed)
    write_journal(disk, directory, journal)
    return journal


def staged_path(directory: str, staged: str, kind: FileKind) -> str:
    """Where a file of a staged segment is."""
    return join_path(directory, f"{staged}{kind.value}")


def is_of_another_topic(disk: DiskReader, path: str, topic_id: UUID | None) -> bool:
    """Whether the partition's directory belongs to a newer topic of the same name."""
    found = PartitionMetadataFile(disk, join_path(path, PARTITION_METADATA)).read()
    return topic_id is not None and found is not None and found != topic_id


def _finish_partition(disk: Disk, directory: str, write: PartitionWrite) -> PartitionWrite | None:
    """Rename the segments of one log that are still to be renamed; returns those whose place is taken."""
    path = join_path(directory, str(write.topic_partition))
    left = [segment for segment in write.segments if _has_staged(disk, directory, segment, *STAGED_KINDS)]
    if not left:
        return None
    status = disk.status(path)
    if status is None and not write.is_new:
        logger.warning(
            "%s no longer exists, so %d records are not written to it.",
            path,
            write.records_count,
        )
        return None
    if status is not None and is_of_another_topic(disk, path, write.topic_id):
        logger.warning(
            "%s belongs to a topic that was deleted and created again, so %d records are not written to it.",
            path,
            write.records_count,
        )
        return None
    if write.is_new:
        _make_partition(disk, directory, path, write)
    if _is_taken(disk, path, write):
        # If the .log of a segment is already renamed, its indexes need not wait.
        waiting = tuple(segment for segment in left if _has_staged(disk, directory, segment, FileKind.LOG))
        logger.warning(
            "%s was changed by another program before a write to it was finished: %d segments of the write "
            "wait. The next write to this log directory gives them offsets and appends them.",
            path,
            len(waiting),
        )
        return replace(write, segments=waiting) if waiting else None
    disk.release(path)
    for segment in left:
        for kind in STAGED_KINDS:
            source = staged_path(directory, segment.staged, kind)
            if disk.exists(source):
                disk.rename(source, join_path(path, segment_file_name(segment.base_offset, kind)))
    disk.sync_directory(path)
    disk.sync_directory(directory)
    return None


def _has_staged(disk: DiskReader, directory: str, segment: StagedSegment, *kinds: FileKind) -> bool:
    return any(disk.exists(staged_path(directory, segment.staged, kind)) for kind in kinds)


def _make_partition(disk: Disk, directory: str, path: str, write: PartitionWrite) -> None:
    disk.make_directory(path)
    disk.sync_directory(directory)
    file = PartitionMetadataFile(disk, join_path(path, PARTITION_METADATA))
    if write.topic_id is not None and not file.exists():
        file.record(write.topic_id)
        file.flush()


def _is_taken(disk: DiskReader, path: str, write: PartitionWrite) -> bool:
    """Whether the log, without the write's own segments, no longer ends where the write expected."""
    expected = {segment.base_offset: segment.size for segment in write.segments}
    first = write.segments[0].base_offset
    lowest = first
    if write.previous is not None:
        lowest = min(lowest, write.previous[0])
        if write.previous[0] != first:  # otherwise that segment is empty, and is replaced
            expected[write.previous[0]] = write.previous[1]
    for entry in disk.list_directory(path):
        file = parse_segment_file(entry.name) if entry.name.endswith(FileKind.LOG.value) else None
        if file is None or file.state is not FileState.LIVE or entry.kind is not EntryKind.FILE:
            continue
        is_replaced = file.offset == first and entry.size == 0
        if file.offset >= lowest and not is_replaced and expected.get(file.offset) != entry.size:
            return True
    return False
