"""The offset index: for an offset, it gives the position of a batch at or not far before that offset.

at  size  field
 0     4  offset      relative to the segment's base: the last offset of a batch
 4     4  position    where in the .log that batch starts; never 0, the first batch has no entry

Offsets and positions ascend. Kafka: OffsetIndex.java
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

ENTRY_SIZE = 8
_ENTRY = np.dtype([("offset", ">i4"), ("position", ">i4")])
_PACKED = struct.Struct(">ii")
assert _ENTRY.itemsize == _PACKED.size == ENTRY_SIZE


class OffsetEntry(NamedTuple):
    """An offset, and the position of the batch that ends with it."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """The .index of a segment."""

    ENTRY = _ENTRY
    PACKED = _PACKED

    def lookup(self, offset: int) -> OffsetEntry:
        """The last entry that is not above the offset; (base_offset, 0) if there is none."""
        entries = self.entries()
        offsets, positions = entries.views
        slot = bisect_right(offsets, offset - self.base_offset, 0, entries.count) - 1
        if slot < 0:
            return OffsetEntry(self.base_offset, 0)
        return OffsetEntry(self.base_offset + offsets[slot], positions[slot])

    def span(self, offset: int, *, ahead: int) -> tuple[int, int]:
        """As `lookup`: the position where the search for an offset starts, and that of the entry `ahead`
        entries later.

        The second is 2^31 - 1 if there are fewer entries. The batch of the offset is most likely between the
        two.
        """
        entries = self.entries()
        offsets, positions = entries.views
        count = entries.count
        slot = bisect_right(offsets, offset - self.base_offset, 0, count) - 1
        reach = positions[slot + ahead] if slot + ahead < count else INT32_MAX
        return positions[slot] if slot >= 0 else 0, reach

    def upper_bound(self, position: int) -> OffsetEntry | None:
        """The first entry at or after a byte of the log. Kafka: OffsetIndex.fetchUpperBoundOffset"""
        entries = self.entries()
        offsets, positions = entries.views
        slot = bisect_left(positions, position, 0, entries.count)
        if slot == 0 and entries.count and positions[0] == position:
            # Kafka's bisection never finds an equal entry in slot 0, and takes the next entry. That is
            # correct too, and with it a read_committed fetch lists the same aborted transactions as a
            # broker's.
            slot = 1
        if slot == entries.count:
            return None
        return OffsetEntry(self.base_offset + offsets[slot], positions[slot])

    def entry(self, number: int) -> OffsetEntry:
        entries = self.entries()
        if not 0 <= number < entries.count:
            raise UsageError(f"{self.path} has {entries.count} entries, none with the number {number}.")
        offsets, positions = entries.views
        return OffsetEntry(self.base_offset + offsets[number], positions[number])

    @property
    def last_entry(self) -> OffsetEntry:
        """(base_offset, 0) for an index without entries."""
        last = self.last_fields or (0, 0)
        return OffsetEntry(self.base_offset + last[0], last[1])

    def append(self, offset: int, position: int) -> None:
        """Add an entry; its offset must be above the last one's."""
        with self._lock:
            if self.is_full:
                raise IndexFullError(self.path, self.entry_count)
            if not 0 <= offset - self.base_offset <= INT32_MAX:
                raise SegmentOffsetOverflowError(self.path, self.base_offset, offset)
            if self.entry_count and offset <= self.last_entry.offset:
                raise InvalidOffsetError(self.path, offset, self.last_entry.offset)
            self.append_checked(np.array([[offset - self.base_offset, position]], np.int64))

    def truncate_to(self, offset: int) -> None:
        """Keep the entries below the offset."""
        entries = self.entries()
        self._truncate_to_entries(bisect_left(entries.views[0], offset - self.base_offset, 0, entries.count))

    def sanity_check(self, log_size: int) -> None:
        """CorruptIndexError if this cannot be the index of a log of `log_size` bytes.

        Kafka only checks the length, and the last entry against the base offset: zeros pass, and so does the
        index of any other segment.
        """
        self.check_length()
        entries = self.entries()
        offsets, positions = (column[: entries.count] for column in entries.columns)
        if not entries.count:
            return
        if offsets[0] < 0 or (offsets[1:] <= offsets[:-1]).any():
            raise CorruptIndexError(self.path, "its offsets do not ascend.")
        if positions[0] <= 0 or (positions[1:] <= positions[:-1]).any():
            raise CorruptIndexError(self.path, "its positions do not ascend.")
        if positions[-1] >= log_size:
            raise CorruptIndexError(
                self.path, f"its last entry points at byte {positions[-1]}; the log has {log_size} bytes."
            )


def to_entries(rows: NDArray[np.int64]) -> NDArray[np.void]:
    """Rows of (relative offset, position) in the form of the file."""
    return index_file.to_entries(rows, _ENTRY)
