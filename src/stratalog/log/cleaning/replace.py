"""Replaces old segments by new ones so that a crash at any moment leaves the old ones or the new ones.

1. The new files, complete and on the device as `.cleaned`, become `.swap`, the highest base first. Until the
   lowest one has its new name, a start after a crash throws all of them away.
2. The old files become `.deleted`.
3. The new files get their final names. After a crash the next start does this, and removes the old files in
   the range of the new ones.

The directory is synced between the steps. Otherwise a file system may make a later rename durable before an
earlier one. Then a new file that is still named `.cleaned` would be thrown away although its originals are
already gone. Kafka syncs once, at the end. Kafka: LocalLog.replaceSegments
"""

from __future__ import annotations

from collections.abc import Sequence

from stratalog.files.disk import Disk
from stratalog.files.names import FileState
from stratalog.log.deletion import delete_segments
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.scheduler import Scheduler
from stratalog.log.segments import LogSegments
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader


def replace_segments(
    disk: Disk,
    segments: LogSegments[LogSegment],
    new: Sequence[LogSegment],
    old: Sequence[SegmentReader],
    *,
    scheduler: Scheduler,
    producers: ProducerStateManager | None,
    delete_delay_ms: int,
    reason: str = "they are compacted",
) -> None:
    """Swap `new`, whose files end in .cleaned, for `old`; the caller holds the log's lock.

    Segments of `old` that are no longer in the log are left alone: retention has removed them. Producer
    snapshots at bases that no segment has any more are deleted too, unless `producers` is None.
    """
    added = sorted(new, key=lambda segment: segment.base_offset)
    found = [(segments.get(reader.base_offset), reader) for reader in old]
    removed = [segment for segment, reader in found if segment is not None and segment.reader is reader]
    directory = added[0].directory
    disk.sync_directory(directory)
    for segment in reversed(added):
        segment.change_suffixes(FileState.CLEANED.value, FileState.SWAP.value)
        # Sync after each rename: if only the lowest had its new name, the next start would treat the swap as
        # complete.
        disk.sync_directory(directory)
    bases = {segment.base_offset for segment in added}
    gone = {segment.base_offset for segment in removed} | bases
    # In one step: a reader sees the old segments or the new ones, never a gap between them.
    segments.replace([*(segment for segment in segments if segment.base_offset not in gone), *added])
    for segment in removed:
        delete_segments(
            disk,
            scheduler,
            None if segment.base_offset in bases else producers,
            [segment],
            delay_ms=delete_delay_ms,
            reason=reason,
        )
    disk.sync_directory(directory)
    for segment in added:
        segment.change_suffixes(FileState.SWAP.value, FileState.LIVE.value)
    disk.sync_directory(directory)
