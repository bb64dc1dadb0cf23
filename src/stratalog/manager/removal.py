"""Deletes partitions: renames their directories at once, removes them after file.delete.delay.ms.

If this process dies before the delay has passed, the next start removes them by their new names. Links are
not followed. Kafka: LogManager.asyncDelete, deleteLogs, Utils.delete
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable
from uuid import uuid4

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, LogClosedError
from stratalog.files.disk import Disk
from stratalog.files.entries import DirectoryEntry, EntryKind
from stratalog.files.names import DirectoryState, partition_directory_name
from stratalog.files.paths import join_path
from stratalog.log.log import Log
from stratalog.manager.housekeeping import OnFailure
from stratalog.manager.registry import home_of
from stratalog.manager.schedule import Schedule

logger = logging.getLogger(__name__)


class DelayedRemoval:
    """Renames and removes partitions; `on_failure` is called with a log directory that fails."""

    def __init__(self, disk: Disk, schedule: Schedule, on_failure: OnFailure) -> None:
        self._disk = disk
        self._schedule = schedule
        self._on_failure = on_failure

    def rename_for_deletion(self, log: Log, refusal: Callable[[], LogClosedError]) -> None:
        """Rename the directory of a log to -delete, where it can still be read, but not changed."""
        name = partition_directory_name(log.topic_partition, DirectoryState.DELETE, uuid4().hex)
        log.retire(join_path(home_of(log), name), refusal)
        logger.info("%s was renamed to %s and will be deleted", log.topic_partition, log.directory)

    def leftovers(self, directories: Iterable[LogDirectory], delay_ms: int) -> None:
        """Remove after a delay the directories that an earlier run has renamed but not removed."""
        for directory in directories:
            for name in directory.layout.waiting:
                self.later(directory, join_path(directory.path, name), delay_ms)

    def later(self, directory: LogDirectory, path: str, delay_ms: int, log: Log | None = None) -> None:
        """Remove a partition's directory after a delay, and close the log that was in it."""

        def remove() -> None:
            if not directory.is_online:
                return
            if log is not None:
                log.close_handlers()
            try:
                if remove_directory(self._disk, path):
                    logger.info("deleted %s", path)
            except DiskError as error:
                self._on_failure(directory.path, error)

        self._schedule.once("kafka-delete-logs", remove, delay_ms)


def remove_directory(disk: Disk, path: str) -> bool:
    """Remove a directory and everything below it; False if there is none."""
    parent, name = os.path.split(path)
    found = next((entry for entry in disk.list_directory(parent) if entry.name == name), None)
    if found is None:
        return False
    _remove(disk, parent, found)
    disk.sync_directory(parent)
    return True


def _remove(disk: Disk, parent: str, entry: DirectoryEntry) -> None:
    path = join_path(parent, entry.name)
    if entry.kind is not EntryKind.DIRECTORY or entry.is_symlink:
        disk.delete(path)
        return
    for inner in disk.list_directory(path):
        _remove(disk, path, inner)
    disk.remove_directory(path)
