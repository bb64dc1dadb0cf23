"""The end of a clean run, in Kafka's order.

1. high watermarks, as long as the logs can be asked
2. each log: flushed, its snapshot written, its indexes cut; several at a time in each directory
3. by directory, if all of its logs are closed: recovery points, then log start offsets
4. the clean-shutdown files (`Session.put_back_all`), when all directories are that far: the epoch in them
   depends on all

A log that fails to close fails its directory, and no other. Kafka: LogManager.shutdown
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import StratalogError
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.manager.registry import LogRegistry


def close_logs(
    directories: Sequence[LogDirectory], logs: LogRegistry, *, threads: int
) -> list[StratalogError]:
    """Close all logs of these directories, so many at a time in each; one that fails fails its directory.

    Returns the errors of those of which the device may lack a record that was appended.
    """
    work = [(directory, log) for directory in directories for log in logs.in_directory(directory.path)]
    if not work:
        return []
    found = [log for _, log in work]
    if threading.main_thread().is_alive():
        with ThreadPoolExecutor(threads * len(directories), "stratalog-close") as pool:
            errors = [*pool.map(_close, found)]
    else:  # what is registered with atexit comes here, when no executor takes work any more
        errors = [*map(_close, found)]
    losses = []
    for (directory, log), error in zip(work, errors, strict=True):
        if error is not None:
            directory.fail(error)
            if not log.is_saved:
                losses.append(error)
    return losses


def _close(log: Log) -> StratalogError | None:
    try:
        log.close()
    except StratalogError as error:
        return error
    return None


def recovery_points(logs: Sequence[Log]) -> dict[TopicPartition, int]:
    """What recovery-point-offset-checkpoint says of these logs; a future one stands under its plain name."""
    return {log.topic_partition: log.recovery_point for log in logs}


def high_watermarks(logs: Sequence[Log]) -> dict[TopicPartition, int]:
    """What replication-offset-checkpoint says of these logs."""
    return {log.topic_partition: log.high_watermark for log in logs}


def log_start_offsets(directory: LogDirectory, logs: Sequence[Log]) -> dict[TopicPartition, int]:
    """What log-start-offset-checkpoint says: only starts that are not the base of the first segment.

    A tiered topic begins somewhere else, below all that is here, and its entry stays as it is.
    """
    offsets = {}
    for log in logs:
        key = log.topic_partition
        if log.config.remote_storage_enable and key in directory.log_start_entries:
            offsets[key] = directory.log_start_entries[key]
        elif log.start_to_keep is not None:
            offsets[key] = log.start_to_keep
    return offsets
