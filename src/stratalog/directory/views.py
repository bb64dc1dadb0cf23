"""Opens a view of a partition that is in a log directory."""

from __future__ import annotations

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.directory.partitions import FoundPartition
from stratalog.files.reading import DiskReader
from stratalog.log.api.view import LogView


def open_view(
    disk: DiskReader, clock: Clock, found: FoundPartition, config: LogConfig | None = None
) -> LogView:
    """The log of a partition, for reading only."""
    return LogView(
        disk=disk,
        clock=clock,
        directory=found.directory,
        topic_partition=found.topic_partition,
        config=LogConfig() if config is None else config,
        log_start_offset=found.log_start_offset,
        left=found.left,
    )
