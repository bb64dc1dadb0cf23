"""Deletes segments that are no longer part of a log: renames them at once, deletes them after a delay.

The delay, file.delete.delay.ms, is for readers that still use the files. If this process dies before the
deletion, the next start deletes the files by their new name. Kafka: LocalLog.deleteSegmentFiles
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from stratalog.files.disk import Disk
from stratalog.files.names import FileState
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.scheduler import Scheduler
from stratalog.segment.segment import LogSegment

logger = logging.getLogger(__name__)


def delete_segments(
    disk: Disk,
    scheduler: Scheduler,
    producers: ProducerStateManager | None,
    segments: Sequence[LogSegment],
    *,
    delay_ms: int,
    reason: str,
) -> None:
    """Rename the files of these segments to .deleted, and delete them later.

    The same is done with their snapshots. `producers` is None if the snapshots must stay, because a new
    segment at the same offset needs them.
    """
    if not segments:
        return
    bases = ", ".join(str(segment.base_offset) for segment in segments)
    logger.info("%s: segments %s are deleted: %s", segments[0].directory, bases, reason)
    snapshots: list[str] = []
    for segment in segments:
        segment.change_suffixes("", FileState.DELETED.value)
        snapshot = None if producers is None else producers.snapshots.mark_deleted(segment.base_offset)
        if snapshot is not None:
            snapshots.append(snapshot)

    def delete() -> None:
        for segment in segments:
            segment.delete()
        for path in snapshots:
            disk.delete(path)

    scheduler.schedule("delete-file", delete, delay_ms)
