"""Adds the entries for a set of batches to the indexes of its segment, by the rule of `kernels/index.py`."""

from __future__ import annotations

import struct

import numpy as np

from stratalog.errors import IndexFullError, InvalidOffsetError, SegmentOffsetOverflowError
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.time_index import NO_TIMESTAMP, TimeIndex

_PROGRESS = struct.Struct("=6q")  # the row of PROGRESS; reading and writing it takes a tenth of NumPy's time
assert _PROGRESS.size == kernel.PROGRESS.itemsize


IndexingError = SegmentOffsetOverflowError | IndexFullError | InvalidOffsetError


class SegmentIndexer:
    """The two indexes of a segment that is appended to, and working memory for the rule.

    Creating that memory for each set would take longer than the rule itself.
    """

    __slots__ = (
        "_is_created",
        "_offset_entries",
        "_offsets",
        "_progress",
        "_progress_bytes",
        "_time_entries",
        "_times",
    )

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._offsets, self._times = offsets, times
        self._progress = np.zeros(1, kernel.PROGRESS)
        self._progress_bytes = self._progress.view(np.uint8).data
        self._is_created = False
        self._make_room(1)

    def prepare(self, since_entry: int, max_timestamp: int, offset_of_max_timestamp: int) -> None:
        """Set the start values of the rule.

        Called before bytes are written, so that a failure changes nothing.
        """
        offsets, times = self._offsets, self._times
        base_offset = offsets.base_offset
        last_offset = offsets.last_fields
        last_time = times.last_fields
        if not self._is_created:
            # Kafka creates both files when it checks, before each append, whether they are full.
            offsets.create()
            times.create()
            self._is_created = True
        _PROGRESS.pack_into(
            self._progress_bytes,
            0,
            since_entry,
            max_timestamp,
            offset_of_max_timestamp - base_offset,
            -1 if last_offset is None else last_offset[0],
            NO_TIMESTAMP if last_time is None else last_time[0],
            -1 if last_time is None else last_time[1],
        )

    def index(
        self, batches: BatchTable, position: int, interval: int
    ) -> tuple[int, int, int, IndexingError | None]:
        """Write the entries of a set whose first batch is at `position` of the log, with one write for each
        index.

        Returns the new state of the segment (bytes since the last entry, largest timestamp and its offset),
        and the reason if it stopped early.
        """
        offsets, times = self._offsets, self._times
        if len(batches) > len(self._offset_entries):
            self._make_room(len(batches))
        done, offset_count, time_count, outcome = kernel.index_batches(
            batches,
            position - batches["position"].item(0),
            offsets.base_offset,
            interval,
            (offsets.room, times.room),
            self._progress,
            self._offset_entries,
            self._time_entries,
        )
        if offset_count:
            offsets.append_checked(self._offset_entries[:offset_count])
        if time_count:
            times.append_checked(self._time_entries[:time_count])
        since_entry, timestamp, offset, _, _, _ = _PROGRESS.unpack_from(self._progress_bytes)
        problem = None
        if outcome != kernel.INDEXED:
            problem = _problem(outcome, int(batches[done]["last_offset"]), offsets, times)
        return since_entry, timestamp, offsets.base_offset + offset, problem

    def _make_room(self, count: int) -> None:
        self._offset_entries = np.empty((count, 2), np.int64)
        self._time_entries = np.empty((count, 2), np.int64)


def _problem(outcome: int, last_offset: int, offsets: OffsetIndex, times: TimeIndex) -> IndexingError:
    if outcome == kernel.OFFSET_OVERFLOW:
        return SegmentOffsetOverflowError(offsets.path, offsets.base_offset, last_offset)
    if outcome == kernel.OFFSET_INDEX_FULL:
        return IndexFullError(offsets.path, offsets.entry_count)
    if outcome == kernel.TIME_INDEX_FULL:
        return IndexFullError(times.path, times.entry_count)
    return InvalidOffsetError(offsets.path, last_offset, offsets.last_entry.offset)
