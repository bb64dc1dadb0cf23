"""The search for batches after damage: byte by byte up to the next batch, then from batch to batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratalog.buffers import aligned_buffer
from stratalog.errors import CorruptRecordError
from stratalog.log.recovery.ranges import ByteRange, merged
from stratalog.log.recovery.salvage_transactions import GapTransactions, marker_in
from stratalog.records.kernels import resync
from stratalog.records.kernels.scan import TRANSACTIONAL
from stratalog.records.kernels.walk import CONTROL, LOG_OVERHEAD, BatchTable
from stratalog.records.walk import WalkStop, new_table, walk_batches
from stratalog.segment.headers import CHUNK_SIZE, ReadInto


class Search:
    """Searches a file from the damage on.

    `kept` are the ranges of batches that may stay, and `kept_end` is the end of the last one.

    The last batch before the damage has `last_offset` and `last_epoch`. If `transactions` is None,
    transactions are ignored.
    """

    def __init__(
        self,
        read_into: ReadInto,
        end: int,
        last_offset: int,
        last_epoch: int,
        next_base: int,
        transactions: GapTransactions | None,
    ) -> None:
        self.kept: list[ByteRange] = []
        self.batches_count = 0
        self.kept_end = 0
        self._read_into = read_into
        self._end = end
        self._last = np.array([last_offset, last_epoch], np.int64)
        self._next_base = next_base
        self._transactions = transactions
        self._table = new_table()
        self._keep = np.zeros(len(self._table), np.bool_)
        self._buffer = aligned_buffer(CHUNK_SIZE)
        self._position = self._filled = 0  # the part of the file in the buffer: position and size

    def run(self, start: int) -> None:
        """Search everything from `start` on, once."""
        self.kept_end = start
        position, is_in_step = start, True  # the length of the first batch may be right
        while self._end - position >= resync.HEADER_SIZE:
            if is_in_step:
                position, is_in_step = self._walk(position)
            else:
                position, is_in_step = self._find(position)

    def _find(self, position: int) -> tuple[int, bool]:
        """Search from a position on; returns where to continue, and whether a batch starts there."""
        at = self._load(position, resync.HEADER_SIZE)
        end = self._end - self._position
        at, outcome = resync.find_start(self._buffer, at, self._filled, end, self._last, self._next_base)
        position = self._position + at
        if outcome == resync.NEEDS:
            self._load(position, self._size_at(at))
        elif outcome == resync.NOTHING and self._position + self._filled >= self._end:
            position = self._end
        return position, outcome == resync.FOUND

    def _walk(self, position: int) -> tuple[int, bool]:
        """Process whole batches from here on; returns where to go on, and whether a batch starts there."""
        at = self._load(position, resync.HEADER_SIZE)
        walk = walk_batches(self._buffer, start=at, end=self._filled, table=self._table)
        broken = self._take(walk.headers)
        if broken is not None:
            return self._position + broken + 1, False
        position = self._position + walk.next_position
        if walk.stop is WalkStop.TABLE_FULL or position >= self._end:
            return position, True
        if walk.stop in (WalkStop.END, WalkStop.TORN_TAIL) and self._position + self._filled < self._end:
            # The next batch reaches past the buffer, and perhaps past the end of the file, if its length is
            # damaged.
            at = self._load(position, resync.HEADER_SIZE)
            size = self._size_at(at)
            if LOG_OVERHEAD < size <= self._end - position:
                self._load(position, size)
                return position, True
        return position + 1, False

    def _take(self, headers: BatchTable) -> int | None:
        """Decide about these batches; returns the place in the buffer of the first wrong checksum."""
        row, passes_marker = 0, False
        while row < len(headers):
            done, outcome = resync.accept(
                headers, row, self._last, self._next_base, self._keep, passes_marker
            )
            passes_marker = False
            self._add(headers[row:done], self._keep[row:done])
            row = done
            if outcome == resync.BROKEN:
                return int(headers[row]["position"])
            if outcome == resync.MARKER:
                try:
                    marker_in(self._buffer, headers[row])
                    passes_marker = True
                except CorruptRecordError:
                    row += 1  # not a marker: it is left out, because a broker would cut the log here
        return None

    def _add(self, headers: BatchTable, keep: NDArray[np.bool_]) -> None:
        kept = headers[keep]
        self.batches_count += len(kept)
        if self._transactions is None or not len(kept):
            self._add_ranges(kept)
            return
        # Plain batches are handled together, up to the next one that matters to transactions or follows a
        # gap.
        starts = kept["position"] + self._position
        ends = starts + kept["size"]
        is_behind_gap = starts != np.concatenate([[self.kept_end], ends[:-1]])
        matters = (kept["producer_id"] >= 0) & (kept["attributes"] & (TRANSACTIONAL | CONTROL) != 0)
        for number in np.flatnonzero(is_behind_gap | matters).tolist():
            if is_behind_gap[number]:
                self._transactions.see_gap()
            if matters[number]:
                self._transactions.take(kept[number], self._buffer, self._position)
        self._add_ranges(kept)

    def _add_ranges(self, kept: BatchTable) -> None:
        for position, size in merged(kept["position"] + self._position, kept["size"]):
            if self.kept and sum(self.kept[-1]) == position:
                self.kept[-1] = (self.kept[-1][0], self.kept[-1][1] + size)
            else:
                self.kept.append((position, size))
            self.kept_end = position + size

    def _size_at(self, at: int) -> int:
        return int.from_bytes(self._buffer[at + 8 : at + 12].tobytes(), "big", signed=True) + LOG_OVERHEAD

    def _load(self, position: int, size: int) -> int:
        """Load `size` bytes from a position on into the buffer; returns where they start in it."""
        if not self._position <= position <= position + size <= self._position + self._filled:
            if size > len(self._buffer):
                self._buffer = aligned_buffer(size)
            wanted = min(len(self._buffer), self._end - position)
            self._filled = self._read_into(self._buffer[:wanted], position)
            self._position = position
            if self._filled < wanted:
                self._end = position + self._filled  # the file became shorter meanwhile
        return position - self._position
