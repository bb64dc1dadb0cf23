"""When what a log holds is on the device, and how it is closed. Kafka: UnifiedLog.flush, close"""

from __future__ import annotations

import errno
import logging
from collections.abc import Sequence

from stratalog.errors import DiskError
from stratalog.log.marks import LogMarks
from stratalog.segment.segment import LogSegment

logger = logging.getLogger(__name__)


class FlushedLog(LogMarks):
    """A log that can be flushed and closed.

    Below `recovery_point` everything is on the device, bytes and names, also of segments that lie below the
    start of the log: a crash leaves that part as it is. Nothing but a flush moves the point forwards. (Kafka
    lifts it with the start of the log, past what was never synced.)
    """

    def flush(self, *, force: bool = False) -> None:
        """Return when all records are on the device; with `force` an empty active segment's files too."""
        with self._flush_lock, self._failing():
            self._check_changeable()
            self._flush_up_to(self._end.offset + 1 if force else self._end.offset)

    def _flush_up_to(self, offset: int) -> None:
        """Under the flush lock, so that nothing is truncated meanwhile; appends go on."""
        recovery_point = min(offset, self._end.offset)
        if offset <= self.recovery_point:
            return
        # First, so that the recovery point never runs ahead of them.
        self.producers.snapshots.sync()
        flushed = self.segments.range(self.recovery_point, offset)
        for segment in flushed:
            try:
                segment.flush()
            except DiskError as error:
                # An empty one that was rolled again meanwhile has other names now, and nothing in it.
                with self._lock:
                    is_there = self.segments.get(segment.base_offset) is segment
                if is_there or segment.size or error.errno != errno.ENOENT:
                    raise
        self._sync_names(flushed)
        with self._lock:
            if recovery_point > self.recovery_point:
                self.recovery_point = recovery_point
                self.last_flushed_ms = self._clock()

    def _sync_names(self, segments: Sequence[LogSegment]) -> None:
        """Return when the names of these segments' files are on the device, and all that was renamed.

        A file without its name is lost, and one that gets its old name back may stand before others: a torn
        one that retention had given up would end the log there. Appends go on, so each count is read first.
        """
        names_count = self._names_count + self.producers.snapshots.names_count
        counts = [segment.names_count for segment in segments]
        is_due = names_count != self._names_synced_count or any(
            count != segment.names_synced_count for segment, count in zip(segments, counts, strict=True)
        )
        if not is_due:
            return
        self._disk.sync_directory(self._directory)
        self._names_synced_count = names_count
        for segment, count in zip(segments, counts, strict=True):
            segment.names_synced_count = count

    def close(self) -> None:
        """Flush, write a snapshot at the end, trim the indexes, as a clean shutdown does.

        Calling it again has no effect.
        A log that has failed brings its records to the device if it can (`is_saved` says whether) and is let
        go of otherwise as it is; its failure is raised: it was not closed cleanly. One that was moved or
        deleted, or that the parent of this process has open, is only let go of.
        """
        with self._flush_lock, self._lock:
            if self._closed:
                return
            if self._refusal is not None:
                self.close_handlers()
                return
            try:
                if self._failed is not None:
                    raise self._failed
                self._close()
            except DiskError:
                self._save_records()
                self.close_handlers()
                raise

    @property
    def is_saved(self) -> bool:
        """Whether every record that was appended is on the device, though the log may have failed since."""
        return self._is_saved or self.recovery_point >= self._end.offset

    def _close(self) -> None:
        with self._failing():
            self.flush(force=True)
            self.epochs.flush()
            self.producers.take_snapshot()
            for segment in self.segments:
                segment.close()
            # Whoever writes a mark afterwards vouches for the names in it too.
            self._disk.sync_directory(self._directory)
        self._closed = True
        self._disk.release(self._directory)

    def _save_records(self) -> None:
        """After a failure: bring to the device what was appended, if that still can be known to be there.

        A sync that has failed once says nothing when it then succeeds: the system has dropped what it could
        not write.
        """
        unsaved = self.segments.range(self.recovery_point, self._end.offset)
        if self.is_saved or any(segment.has_failed_sync for segment in unsaved):
            return
        try:
            for segment in unsaved:
                segment.sync_log()
            self._disk.sync_directory(self._directory)
        except DiskError as error:
            logger.warning("%s is closed, and the device may not have all of it: %s", self._directory, error)
        else:
            self._is_saved = True

    def close_handlers(self) -> None:
        """Let go without writing anything: the disk has failed."""
        with self._lock:
            self._closed = True
            self.epochs.give_up()  # a flush of them may be scheduled
            for segment in self.segments:
                segment.close_handlers()
            self._disk.release(self._directory)
