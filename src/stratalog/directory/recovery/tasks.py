"""The tasks that recovery gives to an engine: surveys of partitions and scans of segments, as functions of
values.

If a directory fails while its tasks wait, they are not begun. The engine learns that from `is_wanted`
(`Engine.run`), because a task knows nothing about other tasks.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import NamedTuple

from stratalog.buffers import aligned_buffer
from stratalog.config import LogConfig
from stratalog.files.names import TopicPartition
from stratalog.files.reading import DiskReader
from stratalog.files.stamps import FileStamp
from stratalog.log.recovery.survey import Survey, SurveyOptions, survey_partition
from stratalog.log.recovery.task import ScanResult, ScanTask, run_scan
from stratalog.segment.scan import SCAN_SIZE

_reused = threading.local()  # each reader keeps its buffer: reading into new memory is slower


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyTask:
    """A partition to survey, and what is known about it beforehand; see `survey_partition`."""

    directory: str
    topic_partition: TopicPartition
    config: LogConfig
    recovery_point: int
    log_start_offset: int
    unknown_start: str
    now_ms: int
    options: SurveyOptions


def survey(disk: DiskReader, task: SurveyTask) -> Survey:
    """What must be read of one partition."""
    return survey_partition(
        disk,
        task.directory,
        topic_partition=task.topic_partition,
        config=task.config,
        recovery_point=task.recovery_point,
        log_start_offset=task.log_start_offset,
        unknown_start=task.unknown_start,
        now_ms=task.now_ms,
        options=task.options,
    )


class StampedScan(NamedTuple):
    """A scan. For another machine it has `stamps` of the log and its indexes, as the driver sees them."""

    task: ScanTask
    stamps: tuple[FileStamp, ...] = ()

    def check(self, disk: DiskReader) -> None:
        """OtherFileError if this machine sees other files."""
        for stamp in self.stamps:
            stamp.check(disk)


def scan_stamped(disk: DiskReader, stamped: StampedScan) -> ScanResult:
    """The scan of one segment; OtherFileError if this machine sees other files before or after the scan."""
    stamped.check(disk)
    result = scan(disk, stamped.task)
    stamped.check(disk)
    return result


def scan(disk: DiskReader, task: ScanTask) -> ScanResult:
    """The scan of one segment, read into memory that the reader's next task reuses."""
    if not hasattr(_reused, "buffer"):
        _reused.buffer = aligned_buffer(SCAN_SIZE)
    return run_scan(disk, task, buffer=_reused.buffer)
