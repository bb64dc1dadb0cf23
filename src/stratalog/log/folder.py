"""The directory of one log: its path, the names of its files, and which names are on the device."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import PurePath

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.files.disk import Disk
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT
from stratalog.log.deletion import delete_segments
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.roll import random_jitter_ms
from stratalog.log.scheduler import Scheduler
from stratalog.log.segments import LogSegments
from stratalog.segment.segment import LogSegment, waiting_in


class LogFolder:
    """Knows where a log's files are, and which of their names are on the device.

    A name is on the device when the directory was synced after the file got the name. `sync_names` knows
    which changes still have to be synced. A segment, and the producers' snapshots, count the names of their
    own files; the other changes are counted here.

    `first_named` is the lowest base that a segment on the device may have: a segment that retention has
    renamed still has its old name there until the directory is synced. It is -1 while no name shows where the
    log starts.

    Creating, deleting and renaming need the log's lock; `sync_names` needs the flush lock or the log's.
    Under the flush lock, appends go on meanwhile.
    """

    __slots__ = (
        "_changes_count",
        "_clock",
        "_producers",
        "_scheduler",
        "_synced_count",
        "config",
        "disk",
        "first_named",
        "path",
    )

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        *,
        producers: ProducerStateManager,
        scheduler: Scheduler,
        clock: Clock,
    ) -> None:
        self.disk = disk
        self.path = path
        self.config = config
        self.first_named = -1
        self._producers, self._scheduler, self._clock = producers, scheduler, clock
        # The number of name changes, and how many of them the last sync covers; -1: no sync yet.
        self._changes_count, self._synced_count = 0, -1

    def create_segment(self, base_offset: int) -> LogSegment:
        """A new segment, preallocated as the topic's settings say."""
        return LogSegment.create(
            self.disk,
            self.path,
            base_offset,
            self.config,
            self._clock,
            size=self.config.initial_file_size,
            roll_jitter_ms=random_jitter_ms(self.config),
        )

    def delete(self, segments: Sequence[LogSegment], reason: str, *, with_snapshots: bool = True) -> None:
        """Rename the files of these segments now and delete them after file.delete.delay.ms."""
        try:
            delete_segments(
                self.disk,
                self._scheduler,
                self._producers if with_snapshots else None,
                segments,
                delay_ms=self.config.file_delete_delay_ms,
                reason=reason,
            )
        finally:
            self.note_change()

    def note_change(self) -> None:
        """Record that a name was or may have been changed: the next `sync_names` syncs the directory."""
        self._changes_count += 1

    def sync_names(self, segments: Sequence[LogSegment]) -> None:
        """Return when the names of these segments' files are on the device, and so are all renames.

        After a power cut, a file without its name is lost. If a rename is lost, a segment that retention had
        deleted is in the log again; if that segment is torn, the log would end there. Names may be created
        during the sync, so the counts are read before it.
        """
        changes_count = self._changes_count + self._producers.snapshots.names_count
        counts = [segment.names_count for segment in segments]
        is_due = changes_count != self._synced_count or any(
            count != segment.names_synced_count for segment, count in zip(segments, counts, strict=True)
        )
        if not is_due:
            return
        self.disk.sync_directory(self.path)
        self._synced_count = changes_count
        for segment, count in zip(segments, counts, strict=True):
            segment.names_synced_count = count

    def rename(self, path: str, segments: LogSegments[LogSegment], epochs: LeaderEpochFileCache) -> None:
        """Rename the directory; on the device when this returns. Reads of its segments go on."""
        with ExitStack() as held:
            # A reader that does not find a file waits for its segment's lock, then looks under the new name.
            all_segments = [*segments, *waiting_in(self.disk, self.path)]
            for segment in all_segments:
                held.enter_context(segment.renaming)
            self.disk.rename(self.path, path)
            self.path = path
            for segment in all_segments:
                segment.update_directory(path)
            self._producers.snapshots.move(path)
            epochs.move_to(PurePath(path, LEADER_EPOCH_CHECKPOINT))
            self.disk.sync_directory(PurePath(path).parent)
            epochs.flush()  # an earlier write may have failed, because the directory had moved
