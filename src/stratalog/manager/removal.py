"""Deletes partitions: renames their directories at once, removes them after file.delete.delay.ms.

If this process dies before the delay has passed, the next start removes them by their new names. Kafka:
LogManager.asyncDelete, deleteLogs
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from uuid import uuid4

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, LogClosedError
from stratalog.files.directories import remove_directory
from stratalog.files.disk import Disk
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
