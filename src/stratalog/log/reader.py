"""Reads an open log while it is changed. `reading.py` decides which bytes a read gets."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeVar

from stratalog.errors import DiskError
from stratalog.log.parts import LogParts
from stratalog.log.reading import FetchedData, Isolation, check_passed_over, out_of_range, read
from stratalog.log.segments import SegmentReaders
from stratalog.log.timestamps import find_offset, first_not_before
from stratalog.segment.search import TimestampAndOffset

_T = TypeVar("_T")


class LogReader:
    """Reads from the segments as they are at one moment; they stay readable for file.delete.delay.ms.

    A read that was delayed for longer starts again with the present segments. It takes no lock, except to
    find the place of a high watermark that was not looked up yet.
    """

    __slots__ = ("_epochs", "_guard", "_marks", "_segments")

    def __init__(self, parts: LogParts) -> None:
        self._guard, self._marks = parts.guard, parts.marks
        self._segments, self._epochs = parts.segments.readers, parts.epochs

    def read(
        self, start_offset: int, max_size: int, isolation: Isolation, *, min_one_message: bool
    ) -> FetchedData:
        """Whole batches, from the one that contains start_offset on; max_size may cut the last one."""
        marks = self._marks

        def look(segments: SegmentReaders) -> FetchedData | None:
            end, start = marks.end, marks.log_start_offset
            if start_offset < start:
                raise out_of_range(start_offset, start, end.offset)  # before the high watermark is looked up
            if isolation is Isolation.LOG_END:
                limit = end
            else:
                self._resolve_high_watermark()
                limit = marks.high_watermark if isolation is Isolation.HIGH_WATERMARK else marks.last_stable
            if not self._segments.is_as(segments):
                return None  # the marks may be in other segments
            return read(
                segments,
                start_offset,
                max_size,
                log_start_offset=start,
                end=end,
                limit=limit,
                min_one_message=min_one_message,
                include_aborted=isolation is Isolation.TXN_COMMITTED,
            )

        while (found := self._looking(look)) is None:
            pass
        return found

    def find_offset(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before the timestamp; -1 to -6 are Kafka's special timestamps."""
        marks = self._marks
        return self._looking(
            lambda segments: find_offset(
                segments, lambda: self._epochs.entries, timestamp, marks.log_start_offset, marks.end.offset
            )
        )

    def first_not_before(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before a time, even if Kafka would answer that there is none."""
        marks = self._marks
        return self._looking(lambda segments: first_not_before(segments, timestamp, marks.log_start_offset))

    def check_passed_over(self, offset: int, stop_base: int) -> None:
        """CorruptRecordError if a read has passed over damage, not only over a gap (`reading.py`)."""
        self._looking(lambda segments: check_passed_over(segments, offset, stop_base))

    def _resolve_high_watermark(self) -> None:
        if not self._marks.high_watermark.is_resolved:
            with self._guard.lock:
                self._marks.resolve_high_watermark()

    def _looking(self, look: Callable[[SegmentReaders], _T]) -> _T:
        while True:
            self._guard.check_usable()
            segments = self._segments.snapshot()
            try:
                return look(segments)
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
                self._guard.check_usable()
                if self._segments.is_as(segments):
                    raise
