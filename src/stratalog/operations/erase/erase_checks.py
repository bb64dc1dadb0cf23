"""Finds records that an erasure cannot reach: those that a write has staged, and those in unknown files."""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.directory.write_journal import STAGED_PREFIX, read_journal
from stratalog.errors import UsageError
from stratalog.files.entries import EntryKind
from stratalog.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    PARTITION_METADATA,
    TEMPORARY_SUFFIX,
    FileKind,
    TopicPartition,
    parse_segment_file,
)
from stratalog.files.paths import join_path, last_name
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.erase import FileOfBatches, find_records
from stratalog.log.cleaning.erase_selection import Matcher
from stratalog.log.task_folders import task_folders

_SMALL_FILES = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)


def check_staged(disk: DiskReader, directory: str, key: TopicPartition, matcher: Matcher) -> None:
    """UsageError if a write has staged segments that contain, or may contain, records to erase.

    Staged segments do not belong to a log yet and have no offsets. A file that no journal names may belong to
    a running write.
    """
    journal = read_journal(disk, directory)
    if any(write.topic_partition == key for write in journal.waiting):
        raise UsageError(
            f"a write to {key} waits in {directory}: its records are in no log yet. Write to the directory "
            "once more, which moves these records into the log, then erase."
        )
    for entry in disk.list_directory(directory) if matcher.selection.keys else []:
        if entry.name.startswith(STAGED_PREFIX) and entry.name.endswith(FileKind.LOG.value):
            path = join_path(directory, entry.name)
            found = find_records(FileOfBatches(disk, path), matcher)
            if found.records_count or found.problem is not None:
                words = (
                    "has records to erase"
                    if found.records_count
                    else "may have records to erase in its torn end"
                )
                raise UsageError(
                    f"{path} was staged by a write that has not ended, and {words}. Let the write end, or "
                    "delete its files if it was killed, then erase."
                )


def unknown_files(disk: DiskReader, directory: str) -> Iterator[str]:
    """The files in a partition's directory that a broker does not know, such as a copy made by hand.

    Files that killed compactions on a cluster left are not included: a run removes them before it searches.
    """
    ours = {last_name(folder) for folder in task_folders(disk, directory)}
    for entry in disk.list_directory(directory):
        if entry.name in ours:
            continue
        if entry.kind is EntryKind.FILE and (
            not entry.size
            or entry.name.removesuffix(TEMPORARY_SUFFIX) in _SMALL_FILES
            or parse_segment_file(entry.name) is not None
        ):
            continue
        yield entry.name
