"""Compares the entries of a segment's offset and time index with its batches, as these are read.

An entry of the offset index must point to the first byte of a batch, and the offsets of that batch must be
after those of all batches before it. The offset of an entry depends on the release. Since 3.9.1 and 4.0.1 it
is the last offset of the batch that the entry points to. From 2.0 on it was the last offset of the append
that began with this batch, and before 2.0 the first offset of that append.

An entry of the time index has the largest timestamp up to its offset. So no batch before that offset has a
later timestamp, and the batch that contains the offset has this timestamp.

Kafka: LogSegment.append, OffsetIndex, TimeIndex
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.audit.spots import Spot, Spots
from stratalog.operations.words import time_text
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.offset_index import ENTRY_SIZE as OFFSET_ENTRY_SIZE
from stratalog.segment.time_index import ENTRY_SIZE as TIME_ENTRY_SIZE
from stratalog.segment.time_index import NO_TIMESTAMP

_V2 = 2


class OffsetEntries:
    """The entries of an .index, each compared when its batch is read. Offsets are absolute here."""

    def __init__(
        self, file: str, offsets: NDArray[np.int64], positions: NDArray[np.int64], spots: Spots
    ) -> None:
        self._file, self._offsets, self._positions, self._spots = file, offsets, positions, spots
        self._next = 0
        # Entries that point to the start of a batch, and whose offset has not been reached yet.
        self._waiting: list[int] = []

    @property
    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._offsets, self._positions

    @property
    def is_sorted(self) -> bool:
        """Whether offsets and positions ascend, as in each index that a broker wrote."""
        return _is_sorted(self._offsets) and _is_sorted(self._positions)

    def go_on(self, next_entry: int, waiting_entry: int) -> None:
        """Skip entries that a kernel has compared; the log may not have reached the last of them yet."""
        self._next = next_entry
        self._waiting = [*range(waiting_entry, next_entry)]

    def add(self, rows: BatchTable, position: int, last_before: int) -> None:
        """Add the next batches; `last_before` is the last offset of those before them."""
        if not len(rows):
            return
        starts = rows["position"] + position
        reach = int(np.searchsorted(self._positions, starts[-1], side="right"))
        if reach > self._next:
            numbers = np.arange(self._next, reach)
            at = np.searchsorted(starts, self._positions[self._next : reach])
            hits = starts[np.minimum(at, len(starts) - 1)] == self._positions[self._next : reach]
            for number in numbers[~hits].tolist():
                self._say(number, "It points into the middle of a batch.")
            before = np.maximum.accumulate(np.concatenate(([last_before], rows["last_offset"][:-1])))
            too_low = hits & (self._offsets[self._next : reach] <= before[np.minimum(at, len(starts) - 1)])
            for number in numbers[too_low].tolist():
                self._say(
                    number, "Batches before the byte that it points to have this offset or a later one."
                )
            self._waiting += numbers[hits & ~too_low].tolist()
            self._next = reach
        self._settle(rows)

    def _settle(self, rows: BatchTable) -> None:
        """Look up the offset of each waiting entry in these batches; it may also be in later ones."""
        if not self._waiting:
            return
        last, base = rows["last_offset"], rows["base_offset"]
        waiting = np.array(self._waiting)
        offsets = self._offsets[waiting]
        within = offsets <= last[-1]
        at = np.minimum(np.searchsorted(last, offsets), len(last) - 1)
        is_known = (last[at] == offsets) | (base[at] == offsets)
        for number in waiting[within & ~is_known].tolist():
            self._say(number, "No batch ends with this offset.")
        self._waiting = waiting[~within].tolist()

    def skip_to(self, position: int) -> None:
        """Skip damage up to this byte: entries that point into it are not checked."""
        self._next = max(self._next, int(np.searchsorted(self._positions, position)))
        self._waiting.clear()

    def end(self, size: int, last_offset: int, next_base: int | None, *, has_damage: bool) -> None:
        """Called at the end of the log, with its size and last offset, and the base of the next segment.

        Entries that name a later offset at a later byte show that the log had more records. They are one
        finding, also after damage. Other entries are not judged after damage.
        """
        left = np.arange(self._next, len(self._positions))
        offsets = self._offsets[self._next :]
        is_past = (self._positions[self._next :] >= size) & (offsets > last_offset)
        if next_base is not None:
            is_past &= offsets < next_base
        if is_past.any():
            number, count = int(left[is_past][-1]), int(is_past.sum())
            words = f"The log ends at byte {size}, with offset {last_offset}."
            words += f" It is the last of {count} such entries." if count > 1 else ""
            self._say(number, words, AuditKind.INDEX_PAST_END)
        if has_damage:
            return
        for number in left[~is_past].tolist():
            self._say(number, f"It points past the last batch, which ends at byte {size}.")
        for number in self._waiting:
            self._say(number, "The log ends before this offset.")

    def _say(self, number: int, words: str, kind: AuditKind = AuditKind.INDEX_ENTRY) -> None:
        offset, position = int(self._offsets[number]), int(self._positions[number])
        self._spots.add(
            Spot(
                kind,
                self._file,
                f"Entry {number} leads from offset {offset} to byte {position}. {words}",
                position=number * OFFSET_ENTRY_SIZE,
                size=OFFSET_ENTRY_SIZE,
                offset=offset,
            )
        )


class TimeEntries:
    """The entries of a .timeindex, each compared when the batch of its offset is read."""

    def __init__(
        self, file: str, timestamps: NDArray[np.int64], offsets: NDArray[np.int64], spots: Spots
    ) -> None:
        self._file, self._timestamps, self._offsets, self._spots = file, timestamps, offsets, spots
        self._next = 0
        self._reached = NO_TIMESTAMP

    @property
    def columns(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        return self._offsets, self._timestamps

    @property
    def is_sorted(self) -> bool:
        """Whether offsets ascend, as in each index that a broker wrote."""
        return _is_sorted(self._offsets)

    def go_on(self, next_entry: int, reached: int) -> None:
        """Skip entries that a kernel has compared; `reached` is the largest timestamp so far."""
        self._next, self._reached = next_entry, reached

    def add(self, rows: BatchTable) -> None:
        if not len(rows):
            return
        last, times = rows["last_offset"], rows["max_timestamp"]
        before = np.maximum.accumulate(np.concatenate(([self._reached], times[:-1])))
        reach = int(np.searchsorted(self._offsets, last[-1], side="right"))
        if reach > self._next:
            offsets, stamps = self._offsets[self._next : reach], self._timestamps[self._next : reach]
            at = np.minimum(np.searchsorted(last, offsets), len(last) - 1)
            numbers = np.arange(self._next, reach)
            too_early = before[at] > stamps
            for number, found in zip(
                numbers[too_early].tolist(), before[at][too_early].tolist(), strict=True
            ):
                self._say(number, f"An earlier batch has {time_text(found)}.")
            holds = (rows["base_offset"][at] <= offsets) & (rows["magic"][at] == _V2)
            differs = holds & ~too_early & (times[at] != stamps)
            for number, found in zip(numbers[differs].tolist(), times[at][differs].tolist(), strict=True):
                self._say(number, f"The batch of that offset has {time_text(found)}.")
            self._next = reach
        self._reached = max(self._reached, int(times.max()))

    def skip_damage(self) -> None:
        """Called at damage: later entries are not checked, because their correct timestamps are unknown."""
        self._next = len(self._offsets)

    def end(self, last_offset: int, next_base: int | None, *, is_closed: bool) -> None:
        """Called at the end of a log without damage; `next_base` is the base of the next segment.

        With `is_closed` nothing is appended: the last entry must exist.
        """
        if self._next < len(self._offsets) and int(self._offsets[-1]) > last_offset:
            is_of_next = next_base is not None and int(self._offsets[-1]) >= next_base
            kind = AuditKind.TIME_INDEX_ENTRY if is_of_next else AuditKind.TIME_INDEX_PAST_END
            self._say(len(self._offsets) - 1, f"The log ends with offset {last_offset}.", kind)
        last = int(self._timestamps[-1]) if len(self._timestamps) else NO_TIMESTAMP
        if is_closed and last < self._reached:
            words = (
                f"Its last entry has {time_text(last)}, but the newest record is from "
                f"{time_text(self._reached)}."
            )
            self._spots.add(Spot(AuditKind.TIME_INDEX_END, self._file, words))

    def _say(self, number: int, words: str, kind: AuditKind = AuditKind.TIME_INDEX_ENTRY) -> None:
        offset, stamp = int(self._offsets[number]), int(self._timestamps[number])
        self._spots.add(
            Spot(
                kind,
                self._file,
                f"Entry {number} has {time_text(stamp)} for offset {offset}. {words}",
                position=number * TIME_ENTRY_SIZE,
                size=TIME_ENTRY_SIZE,
                offset=offset,
            )
        )


def _is_sorted(column: NDArray[np.int64]) -> bool:
    return bool((column[1:] >= column[:-1]).all())
