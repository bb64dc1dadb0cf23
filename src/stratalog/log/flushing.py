"""When what a log holds is on the device, and how it is closed. Kafka: UnifiedLog.flush, close"""

from __future__ import annotations

import errno

from stratalog.errors import DiskError
from stratalog.log.marks import LogMarks


class FlushedLog(LogMarks):
    """A log that can be flushed and closed: up to `recovery_point` it need not be looked at after a crash."""

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
        if any(segment.base_offset >= self.recovery_point for segment in flushed):
            self._disk.sync_directory(self._directory)
        with self._lock:
            if recovery_point > self.recovery_point:
                self.recovery_point = recovery_point
                self.last_flushed_ms = self._clock()

    def close(self) -> None:
        """Flush, leave a snapshot at the end, cut the indexes, as a clean shutdown does. Twice is once.

        A log that has failed is let go of as it is, and its failure raised: it was not closed cleanly. One
        that was moved or deleted, or that the parent of this process has open, is only let go of.
        """
        with self._flush_lock, self._lock:
            if self._closed:
                return
            if self._refusal is not None:
                self.close_handlers()
                return
            if self._failed is not None:
                self.close_handlers()
                raise self._failed
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

    def close_handlers(self) -> None:
        """Let go without writing anything: the disk has failed."""
        with self._lock:
            self._closed = True
            for segment in self.segments:
                segment.close_handlers()
            self._disk.release(self._directory)
