"""Adds the entries for a set of batches to the indexes of its segment, by the rule of `kernels/index.py`.

For a set of one batch, the rule is a few comparisons: calling the kernel would take ten times as long. Both
ways give the same entries: tests/segment/test_indexing.py compares them.
"""

from __future__ import annotations

import struct

import numpy as np

from stratalog.errors import IndexFullError, InvalidOffsetError, SegmentOffsetOverflowError
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.time_index import NO_TIMESTAMP, TimeIndex

_PROGRESS = struct.Struct("=6q")  # packs the row of PROGRESS in a tenth of NumPy's time
assert _PROGRESS.size == kernel.PROGRESS.itemsize


LastEntries = tuple[tuple[int, ...] | None, tuple[int, ...] | None]  # of the offset and the time index
NOT_LOOKED_UP: LastEntries = (None, None)
IndexingError = SegmentOffsetOverflowError | IndexFullError | InvalidOffsetError


class SegmentIndexer:
    """The two indexes of a segment that is appended to, and working memory for the rule.

    Creating that memory for each set would take longer than the rule itself.
    """

    __slots__ = (
        "_offset_entries",
        "_offsets",
        "_progress",
        "_progress_bytes",
        "_time_entries",
        "_times",
        "is_created",
    )

    def __init__(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        self._offsets, self._times = offsets, times
        self._progress = np.zeros(1, kernel.PROGRESS)
        self._progress_bytes = self._progress.view(np.uint8).data
        self.is_created = False
        self._make_room(1)

    def prepare(self, since_entry: int, max_timestamp: int, offset_of_max_timestamp: int) -> None:
        """Set the start values of the rule.

        Called before bytes are written, so that a failure changes nothing.
        """
        last_offset, last_time = self.look_up()
        _PROGRESS.pack_into(
            self._progress_bytes,
            0,
            since_entry,
            max_timestamp,
            offset_of_max_timestamp - self._offsets.base_offset,
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

    def look_up(self) -> LastEntries:
        """The last entries of both indexes; creates their files if they are missing.

        Like `prepare`, called before bytes are written.
        """
        offsets, times = self._offsets, self._times
        last_offset = offsets.last_fields
        last_time = times.last_fields
        if not self.is_created:
            # Kafka creates both files when it checks, before each append, whether they are full.
            offsets.create()
            times.create()
            self.is_created = True
        return last_offset, last_time

    def index_one(
        self, last_offset: int, position: int, largest: tuple[int, int], last: LastEntries
    ) -> IndexingError | None:
        """Write the entries that are due for one batch; returns the reason if an index cannot take its entry.

        `largest` is the largest timestamp of the segment and this batch, and its offset; `last` is what
        `look_up` found.
        """
        offsets, times = self._offsets, self._times
        base_offset = offsets.base_offset
        relative, timestamp, of_largest = last_offset - base_offset, largest[0], largest[1] - base_offset
        if offsets.room <= 0:
            return _problem(kernel.OFFSET_INDEX_FULL, last_offset, offsets, times)
        last_offset_entry, last_time_entry = last
        if last_offset_entry is not None and relative <= last_offset_entry[0]:
            return _problem(kernel.NOT_ASCENDING, last_offset, offsets, times)
        offsets.append_fields((relative, position))
        if times.room <= 0:
            return _problem(kernel.TIME_INDEX_FULL, last_offset, offsets, times)
        last_timestamp, last_of_largest = last_time_entry or (NO_TIMESTAMP, -1)
        if of_largest < last_of_largest:
            return _problem(kernel.NOT_ASCENDING, last_offset, offsets, times)
        if timestamp > last_timestamp:
            times.append_fields((timestamp, of_largest))
        return None

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
