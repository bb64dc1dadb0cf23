"""Opens the logs of directories that were shut down cleanly, or recovered since.

Kafka: LogManager.loadLogs, LogManager.loadLog
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple
from uuid import uuid4

from stratalog.clock import Clock
from stratalog.directory.checkpoints import clamp
from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import PartitionEntry
from stratalog.directory.log_directory import LogDirectory
from stratalog.directory.repairing import repair_partition
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.engine.progress import OnProgress, Progress
from stratalog.errors import NeedsRecoveryError, StratalogError
from stratalog.files.disk import Disk
from stratalog.files.names import (
    DirectoryState,
    TopicPartition,
    partition_directory_name,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.api.managed_log import ManagedLog
from stratalog.log.checkpoint_file import PartitionOffsets
from stratalog.log.loader import load
from stratalog.log.partition_metadata import topic_id_of
from stratalog.log.scheduler import HoldingScheduler, Scheduler
from stratalog.manager.registry import LogRegistry

logger = logging.getLogger(__name__)

Metrics = dict[str, int | dict[str, int]]


class LogOpening(NamedTuple):
    """The arguments for opening a log that are the same for all logs of a manager."""

    disk: Disk
    clock: Clock
    scheduler: Scheduler
    topics: TopicConfigs
    high_watermark_follows_end: bool

    def open(
        self,
        directory: LogDirectory,
        name: str,
        topic_partition: TopicPartition,
        *,
        log_start_offset: int = 0,
    ) -> ManagedLog:
        """The log in a sub-directory of this name."""
        log = load(
            disk=self.disk,
            clock=self.clock,
            scheduler=self.scheduler,
            directory=join_path(directory.path, name),
            topic_partition=topic_partition,
            config=self.topics.of(topic_partition.topic),
            log_start_offset=log_start_offset,
            high_watermark_follows_end=self.high_watermark_follows_end,
            before_change=directory.before_change,
            kept_marks=directory.checkpoints.marks_of(topic_partition),
            kind=ManagedLog,
        )
        assert isinstance(log, ManagedLog)
        return log


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Pause the garbage collector while many long-lived objects are created.

    Its collections would go through all these objects in vain, and take as long as the loading itself."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class Loading:
    """Fills a registry with the logs of directories, and reports the progress."""

    def __init__(self, logs: LogRegistry, *, set_strays_aside: bool) -> None:
        self.strays: list[str] = []
        self._logs = logs
        self._sets_strays_aside = set_strays_aside
        self._logs_remaining: dict[str, int] = {}
        self._segments_remaining: dict[str, int] = {}
        self._held: HoldingScheduler | None = None

    def load(
        self, opening: LogOpening, directories: Sequence[LogDirectory], metadata: ClusterMetadata | None
    ) -> list[LogDirectory]:
        """Open the logs of all directories that are online; returns the directories that failed.

        What the logs schedule meanwhile waits for `begin_tasks`.
        """
        self._held = HoldingScheduler(opening.scheduler)
        opening = opening._replace(scheduler=self._held)
        online = [directory for directory in directories if directory.is_online]
        self._logs_remaining = {found.path: len(found.layout.partitions) for found in online}
        self._segments_remaining = dict.fromkeys(self._logs_remaining, 0)  # no segment needs recovery
        strays_by = metadata if self._sets_strays_aside else None
        try:
            with _collector_paused():
                for directory in online:
                    try:
                        self._load_directory(opening, directory, strays_by)
                    except StratalogError as error:
                        directory.fail(error)
        finally:
            self._logs_remaining, self._segments_remaining = {}, {}
        return [directory for directory in online if not directory.is_online]

    def begin_tasks(self) -> None:
        """Schedule what the logs left for later. Logs of a directory that failed must be closed before."""
        if self._held is not None:
            self._held.release()

    def metrics(self, directories: Sequence[LogDirectory]) -> Metrics:
        """Which directories are offline, and what remains to be recovered or loaded, by Kafka's names.

        The gauges of remaining work are absent when nothing remains.
        """
        offline = {directory.path: int(not directory.is_online) for directory in directories}
        found: Metrics = {
            "OfflineLogDirectoryCount": sum(offline.values()),
            "LogDirectoryOffline": offline,
        }
        if not self._logs_remaining:
            return found
        return {
            **found,
            "remainingLogsToRecover": dict(self._logs_remaining),
            "remainingSegmentsToRecover": dict(self._segments_remaining),
        }

    def telling(self, others: OnProgress | None) -> OnProgress:
        """A progress callback that records the progress of the recovery, and also calls `others`."""

        def tell(progress: Progress) -> None:
            self._on_progress(progress)
            if others is not None:
                others(progress)

        return tell

    def _on_progress(self, progress: Progress) -> None:
        self._logs_remaining = {found.directory: found.logs for found in progress.remaining}
        self._segments_remaining = {found.directory: found.segments for found in progress.remaining}

    def _load_directory(
        self, opening: LogOpening, directory: LogDirectory, metadata: ClusterMetadata | None
    ) -> None:
        starts = directory.checkpoints.log_start_offsets.load()
        watermarks = directory.checkpoints.high_watermarks.load()
        for entry in directory.layout.partitions:
            reason = None if metadata is None else _stray_reason(opening.disk, metadata, directory, entry)
            if reason is not None:
                self._set_aside(opening.disk, directory, entry, reason)
            else:
                start = max(0, starts.get(entry.topic_partition, 0))
                log = _open(opening, directory, entry, start)
                if not opening.high_watermark_follows_end:
                    known = watermarks.get(entry.topic_partition, 0)
                    log.update_high_watermark(clamp(known, log.log_start_offset, log.log_end_offset))
                self._logs.add(log, is_future=entry.state is DirectoryState.FUTURE)
            self._logs_remaining[directory.path] -= 1
        directory.before_change()
        self._lower_recovery_points(directory)
        self.strays += [join_path(directory.path, name) for name in directory.layout.strays]

    def _lower_recovery_points(self, directory: LogDirectory) -> None:
        """Lower recovery points that are above the end of their log: otherwise later appends would count as
        flushed.

        After a truncation inside a batch, no file shows where the log ended, so the next start finds a lower
        end.
        """
        ends = {log.topic_partition: log.log_end_offset for log in self._logs.in_directory(directory.path)}

        def lowered(known: PartitionOffsets) -> PartitionOffsets:
            return {key: min(offset, ends.get(key, offset)) for key, offset in known.items()}

        directory.checkpoints.recovery_points.update(lowered)

    def _set_aside(self, disk: Disk, directory: LogDirectory, entry: PartitionEntry, reason: str) -> None:
        """Rename a stray partition to -stray, unopened. (A broker loads it first, and never closes it.)"""
        name = partition_directory_name(entry.topic_partition, DirectoryState.STRAY, uuid4().hex)
        path = join_path(directory.path, name)
        words = "%s in %s is a stray partition, and gets the name %s: %s"
        logger.warning(words, entry.name, directory.path, name, reason)
        directory.before_change()
        disk.rename(directory.layout.path(entry), path)
        disk.sync_directory(directory.path)
        self.strays.append(path)


def _open(opening: LogOpening, directory: LogDirectory, entry: PartitionEntry, start: int) -> ManagedLog:
    """Open the log. A state that no clean shutdown leaves, such as a missing index, is repaired first.

    Kafka also recovers the segment of a missing index, whether there is a clean-shutdown file or not.
    """
    try:
        return opening.open(directory, entry.name, entry.topic_partition, log_start_offset=start)
    except NeedsRecoveryError as error:
        logger.warning("repairing %s: %s", directory.layout.path(entry), error.finding)
    config = opening.topics.of(entry.topic_partition.topic)
    repair_partition(opening.disk, opening.clock, directory, entry.name, config)
    return opening.open(directory, entry.name, entry.topic_partition, log_start_offset=start)


def _stray_reason(
    disk: DiskReader, metadata: ClusterMetadata, directory: LogDirectory, entry: PartitionEntry
) -> str | None:
    """Why a partition is not this node's, according to the cluster's metadata; None if it is."""
    if directory.meta is None or directory.meta.node_id is None:
        return None  # the directory's node is not known
    topic_id = topic_id_of(disk, directory.layout.path(entry))
    return metadata.stray_reason(entry.topic_partition, topic_id, directory.meta.node_id)
