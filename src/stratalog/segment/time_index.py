"""The time index: for a timestamp, it gives an offset up to which no record is later than the timestamp.

at  size  field
 0     8  timestamp   the largest one seen so far, in milliseconds
 8     4  offset      relative to the segment's base: the last offset of the first batch that has it

Timestamps ascend, offsets do not descend. Kafka: TimeIndex.java
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import (
    CorruptIndexError,
    IndexFullError,
    InvalidOffsetError,
    SegmentOffsetOverflowError,
    UsageError,
)
from stratalog.limits import INT32_MAX
from stratalog.segment import index_file
from stratalog.segment.index_file import IndexFile

ENTRY_SIZE = 12
NO_TIMESTAMP = -1
_ENTRY = np.dtype([("timestamp", ">i8"), ("offset", ">i4")])
_PACKED = struct.Struct(">qi")
assert _ENTRY.itemsize == _PACKED.size == ENTRY_SIZE


class TimeEntry(NamedTuple):
    """A timestamp, and the offset up to which no record is later."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """The .timeindex of a segment."""

    ENTRY = _ENTRY
    PACKED = _PACKED
    RESERVED = 1  # rolling the segment must still be able to add its largest timestamp

    def lookup(self, timestamp: int) -> TimeEntry:
        """The last entry that is not later; (-1, base_offset) if there is none."""
        entries = self.entries()
        timestamps, offsets = entries.views
        slot = bisect_right(timestamps, timestamp, 0, entries.count) - 1
        if slot < 0:
            return TimeEntry(NO_TIMESTAMP, self.base_offset)
        return TimeEntry(timestamps[slot], self.base_offset + offsets[slot])

    def entry(self, number: int) -> TimeEntry:
        entries = self.entries()
        if not 0 <= number < entries.count:
            raise UsageError(f"{self.path} has {entries.count} entries, none with the number {number}.")
        timestamps, offsets = entries.views
        return TimeEntry(timestamps[number], self.base_offset + offsets[number])

    @property
    def last_entry(self) -> TimeEntry:
        """(-1, base_offset) for an index without entries."""
        last = self.last_fields or (NO_TIMESTAMP, 0)
        return TimeEntry(last[0], self.base_offset + last[1])

    def append(self, timestamp: int, offset: int, *, skip_full_check: bool = False) -> bool:
        """Add an entry if its timestamp is above the last one's; False if it is equal. Kafka: maybeAppend"""
        with self._lock:
            if not skip_full_check and self.is_full:
                raise IndexFullError(self.path, self.entry_count)
            last = self.last_entry
            if self.entry_count and offset < last.offset:
                raise InvalidOffsetError(self.path, offset, last.offset)
            if self.entry_count and timestamp < last.timestamp:
                raise UsageError(
                    f"{self.path}: timestamp {timestamp} is before {last.timestamp}, the last one indexed."
                )
            if timestamp <= last.timestamp:
                return False
            if not 0 <= offset - self.base_offset <= INT32_MAX:
                raise SegmentOffsetOverflowError(self.path, self.base_offset, offset)
            self.append_checked(np.array([[timestamp, offset - self.base_offset]], np.int64))
            return True

    def truncate_to(self, offset: int) -> None:
        """Keep the entries whose offset is below the given one."""
        entries = self.entries()
        self._truncate_to_entries(bisect_left(entries.views[1], offset - self.base_offset, 0, entries.count))

    def sanity_check(self, last_offset: int) -> None:
        """CorruptIndexError if this cannot be the time index of a log that ends with `last_offset`.

        Kafka's check considers every preallocated index with entries corrupt: it takes the zeros in the last
        slot for a timestamp, which is before that of the first entry.
        """
        self.check_length()
        entries = self.entries()
        timestamps, offsets = (column[: entries.count] for column in entries.columns)
        if not entries.count:
            return
        if timestamps[0] < 0 or (timestamps[1:] <= timestamps[:-1]).any():
            raise CorruptIndexError(self.path, "its timestamps do not ascend.")
        if offsets[0] < 0 or (offsets[1:] < offsets[:-1]).any():
            raise CorruptIndexError(self.path, "its offsets descend.")
        if self.base_offset + int(offsets[-1]) > last_offset:
            raise CorruptIndexError(
                self.path,
                f"its last entry is for offset {self.base_offset + int(offsets[-1])}; the log ends with "
                f"{last_offset}.",
            )

    def _count_entries(self) -> int:
        """Slot 0 of zeros is an entry (timestamp 0, base offset) if it is the only slot or slot 1 is used."""
        slots = self._length // self.entry_size
        if slots <= 1:
            return slots
        if self._is_used(0):
            return self._first_zero_slot(0)
        return self._first_zero_slot(1) if self._is_used(1) else 0


def to_entries(rows: NDArray[np.int64]) -> NDArray[np.void]:
    """Rows of (timestamp, relative offset) in the form of the file."""
    return index_file.to_entries(rows, _ENTRY)
