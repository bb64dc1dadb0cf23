"""Compacts an open log: flushes it, lets `clean.py` decide and write new segments, and swaps them in.

Kafka: Cleaner.doClean, UnifiedLog.replaceSegments
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Sequence

from stratalog.errors import CorruptRecordError, DiskError, LogChangedError, SegmentOffsetOverflowError
from stratalog.log.cleaning.clean import DirtyLog, Replace, clean_log, last_records_of
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.replace import replace_segments
from stratalog.log.cleaning.results import CleanResult
from stratalog.log.cleaning.split import discard, split_segment
from stratalog.log.cutter import Cutter
from stratalog.log.flusher import Flusher
from stratalog.log.parts import LogParts
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader

CleanFunction = Callable[[DirtyLog, int, Replace], CleanResult]
"""Cleans a log, as of a given time, and replaces its segments; in this process or on a cluster."""


def by_map(
    offset_map: OffsetMap,
    *,
    check_done: Callable[[], object],
    throttle: Callable[[int], object],
    on_read: Callable[[int], object],
) -> CleanFunction:
    """A function that cleans in this process, as far as the map has room."""

    def clean(dirty: DirtyLog, now_ms: int, replace: Replace) -> CleanResult:
        return clean_log(
            dirty,
            offset_map,
            now_ms=now_ms,
            replace_segments=replace,
            check_done=check_done,
            throttle=throttle,
            on_read=on_read,
        )

    return clean


class LogCompaction:
    """One cleaning of an open log; appends and reads go on meanwhile.

    New segments replace old ones under both locks, and only if nothing was cut off since the cleaning began;
    otherwise they may hold records that were removed permanently. The old segments alone would not show that,
    because a segment may have been cut, filled again and rolled.
    """

    def __init__(self, parts: LogParts, flusher: Flusher, cutter: Cutter) -> None:
        self._guard, self._folder, self._marks = parts.guard, parts.folder, parts.marks
        self._segments, self._producers = parts.segments, parts.producers
        self._scheduler, self._clock = parts.scheduler, parts.clock
        self._flusher, self._cutter = flusher, cutter
        self._cuts_count = cutter.cuts_count  # when the cleaning began

    def run(
        self,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        clean: CleanFunction,
    ) -> CleanResult:
        """Compact the log once.

        A segment whose offsets are too far apart is split first, and the cleaning of the log starts again.
        """
        guard = self._guard
        # The flush comes first: a record may be removed only when the record that replaces it is on the
        # device.
        with guard.flushing(), guard.failing():
            guard.check_usable()
            self._flusher.flush_up_to(min(first_uncleanable_offset, self._marks.end.offset))
        with guard.lock:
            guard.check_changeable()
            last_records = last_records_of(self._producers.producers.values())
            self._cuts_count = self._cutter.cuts_count
        dirty = DirtyLog(
            disk=self._folder.disk,
            segments=self._segments.readers,
            clock=self._clock,
            config=self._folder.config,
            first_dirty_offset=first_dirty_offset,
            first_uncleanable_offset=first_uncleanable_offset,
            last_records=last_records,
        )
        with guard.failing():
            while True:
                try:
                    return clean(dirty, self._clock(), lambda new, old: self._replace([new], old))
                except SegmentOffsetOverflowError as error:
                    if not self._split(error.base_offset):
                        raise
                except (CorruptRecordError, DiskError) as error:
                    is_refused = isinstance(error, DiskError) and error.errno != errno.ENOENT
                    if is_refused or self._cutter.cuts_count == self._cuts_count:
                        raise
                    # the cleaning has read bytes while they were cut off
                    raise LogChangedError(self._folder.path) from error

    def _split(self, base_offset: int) -> bool:
        """Split a segment whose offsets are too far apart; False if they are not."""
        segment = self._segments.get(base_offset)
        pieces = [] if segment is None else split_segment(self._folder.disk, segment.reader, self._clock)
        if segment is None or len(pieces) == 1:
            discard(pieces)
            return False
        self._replace(pieces, [segment.reader])
        return True

    def _replace(self, new: Sequence[LogSegment], old: Sequence[SegmentReader]) -> None:
        """Replace old segments by new ones, whose files end in .cleaned."""
        guard = self._guard
        with guard.flushing() as inside, inside.changing():
            if self._cutter.cuts_count != self._cuts_count:
                for segment in new:
                    segment.delete()
                raise LogChangedError(self._folder.path)
            with guard.writing():
                replace_segments(
                    self._folder.disk,
                    self._segments,
                    new,
                    old,
                    scheduler=self._scheduler,
                    producers=self._producers,
                    delete_delay_ms=self._folder.config.file_delete_delay_ms,
                )
