"""Finds logs in a log directory that are, or were, open as lone logs (`open_log`).

A program that changes a log directory locks it, and then checks the lock of each partition. `open_log` locks
the partition, and then checks the lock of the directory. So the second of the two programs sees the lock of
the first. If both come at the same time, the lock of the log, which is on trial, yields to that of the
directory (`files/lock.py`).
"""

from __future__ import annotations

from collections.abc import Collection

from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.kind import keeps_its_partitions
from stratalog.directory.layout import Layout, PartitionEntry, classify
from stratalog.directory.lone_files import LoneFiles
from stratalog.directory.write_journal import has_pending_write
from stratalog.errors import StratalogError
from stratalog.files.disk import Disk
from stratalog.files.lock import check_unlocked
from stratalog.files.names import RECOVERY_POINT_CHECKPOINT, DirectoryState
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.checkpoint_file import OffsetCheckpointFile

_IS_LONE = "another program has opened this log with open_log: close it, then run again."


def check_not_in_use(disk: DiskReader, directory: str) -> None:
    """LogDirLockedError if another process has the directory, or one of its logs, open. Takes no lock."""
    check_unlocked(directory)
    check_lone_logs(classify(disk, directory))


def check_lone_logs(layout: Layout) -> set[str]:
    """LogDirLockedError if a log of this directory is open as a lone log.

    Returns the names of the partitions with a lock file, which may have been lone logs.
    """
    return {entry.name for entry in layout.partitions if check_unlocked(layout.path(entry), _IS_LONE)}


def lone_files(disk: Disk, layout: Layout, entry: PartitionEntry) -> LoneFiles:
    return LoneFiles(disk, layout.path(entry), entry.topic_partition)


def are_closed(disk: Disk, layout: Layout, *, has_clean_shutdown: bool) -> bool:
    """Whether all logs of a directory were closed cleanly, by themselves as lone logs or with the directory.

    Then its session has nothing to recover, and only takes over the lone logs.
    """
    if has_pending_write(disk, layout.directory):
        return False
    for entry in layout.partitions:
        files = lone_files(disk, layout, entry)
        if not (files.was_closed() if files.exist() else has_clean_shutdown):
            return False
    return True


def was_shut_down(disk: DiskReader, directory: str) -> bool:
    """Whether a directory was shut down cleanly: it has the clean-shutdown file, or each of its logs is a
    lone log that has its own.
    """
    if CleanShutdownFile(disk, directory).exists():
        return True
    if keeps_its_partitions(disk, directory):
        return False
    partitions = classify(disk, directory).partitions
    return bool(partitions) and all(
        CleanShutdownFile(disk, join_path(directory, entry.name)).exists() for entry in partitions
    )


def has_lone_logs(disk: Disk, layout: Layout, with_locks: Collection[str] | None = None) -> bool:
    """Whether a log here was a lone log, and the directory has not taken it over since.

    `with_locks` are the partitions that `check_lone_logs` has found; None: any may be a lone log. Other
    partitions are checked only if the directory's checkpoint does not know them: they were copied here,
    perhaps without hidden files such as `.lock`.
    """
    path = join_path(layout.directory, RECOVERY_POINT_CHECKPOINT)
    try:
        known = OffsetCheckpointFile(disk, path).read().keys()
    except StratalogError:  # reported when the directory is loaded
        known = {}.keys()
    return any(
        (with_locks is None or entry.name in with_locks or entry.topic_partition not in known)
        and lone_files(disk, layout, entry).exist()
        for entry in layout.partitions
        if entry.state is DirectoryState.LIVE
    )
