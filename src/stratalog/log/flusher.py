"""Flushes the records of a log to the device. Kafka: UnifiedLog.flush"""

from __future__ import annotations

import errno

from stratalog.errors import DiskError
from stratalog.log.parts import LogParts


class Flusher:
    """Knows how far a log is on the device, and flushes it.

    Everything below `recovery_point` is on the device, bytes and names, including segments below the start of
    the log: a crash leaves that part unchanged. Only a flush moves the point forwards. (Kafka also raises it
    if the start of the log moves past it, over segments that were never synced.) It is never above the end of
    the log: `lower` is called before a record below it is cut off.

    The point is changed under both locks. Except in a close, a flush waits for the device under the flush
    lock alone.
    """

    __slots__ = (
        "_clock",
        "_folder",
        "_guard",
        "_marks",
        "_producers",
        "_segments",
        "last_flushed_ms",
        "recovery_point",
    )

    def __init__(self, parts: LogParts, *, recovery_point: int) -> None:
        self.recovery_point = recovery_point
        self.last_flushed_ms = parts.clock()
        self._guard, self._folder, self._marks = parts.guard, parts.folder, parts.marks
        self._segments, self._producers, self._clock = parts.segments, parts.producers, parts.clock

    def flush_up_to(self, offset: int) -> None:
        """Flush up to an offset, under the flush lock: nothing is truncated meanwhile, but appends go on."""
        recovery_point = min(offset, self._marks.end.offset)
        if offset <= self.recovery_point:
            return
        # Snapshots are synced first, so that the recovery point never runs ahead of them.
        self._producers.snapshots.sync()
        flushed = self._segments.range(self.recovery_point, offset)
        for segment in flushed:
            try:
                segment.flush()
            except DiskError as error:
                # A roll replaced an empty segment meanwhile: its files are gone, and it had no records.
                with self._guard.lock:
                    is_there = self._segments.get(segment.base_offset) is segment
                if is_there or segment.size or error.errno != errno.ENOENT:
                    raise
        self._folder.sync_names(flushed)
        with self._guard.lock:
            if recovery_point > self.recovery_point:
                self.recovery_point = recovery_point
                self.last_flushed_ms = self._clock()

    def flush_rolled(self, base_offset: int) -> None:
        """In the background, after a roll: flush the old segment, and move the recovery point."""
        with self._guard.flush_lock, self._guard.failing():
            if self._guard.is_changeable:
                self.flush_up_to(base_offset)

    def lower(self, offset: int) -> None:
        """From now on nothing from this offset on counts as flushed. Called under both locks."""
        self.recovery_point = min(self.recovery_point, offset)
