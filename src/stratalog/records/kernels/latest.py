"""The map from the hash of a key to its last offset, for `scanning/latest.py`; marks the rows to keep.

A slot is three words: the two halves of the key's hash, and its offset plus one, so that memory which is all
zeros is an empty map. Unlike the cleaner's map (`offset_map.py`) it grows, and takes any offsets in any
order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import prefetch
from stratalog.records.kernels.offset_map import AHEAD, ENTRIES, WORDS_IN_A_LINE, Hashes, MapSlots, home_of

WORDS = 3  # of a slot


@inlined
def _ask_for(slots: MapSlots, slots_count: Any, high: Any) -> None:
    """Prefetch the first two cache lines of a search for this hash: in a nearly full map it needs both."""
    at = home_of(high, slots_count) * WORDS
    prefetch(slots, at)
    prefetch(slots, at + WORDS_IN_A_LINE)


@inlined
def _find(slots: MapSlots, slots_count: Any, low: Any, high: Any) -> Any:
    """The position of the slot with this hash, or of the empty slot that it would take."""
    slot = home_of(high, slots_count)
    at = slot * WORDS
    while slots[at + 2] != 0 and not (slots[at] == low and slots[at + 1] == high):
        slot += 1
        if slot == slots_count:
            slot = 0
        at = slot * WORDS
    return at


@kernel
def put_newest(
    slots: MapSlots, capacity: int, state: NDArray[np.int64], rows: RecordTable, hashes: Hashes, start: int
) -> int:
    """Store the offset of every record with a key from row `start` on, unless its key has a higher one.

    Returns the row before which the map was full, or the number of rows.
    """
    slots_count = len(slots) // WORDS
    for row in range(start, len(rows)):
        if row + AHEAD < len(rows):
            _ask_for(slots, slots_count, hashes[row + AHEAD, 1])
        offset = rows[row].offset
        if rows[row].key_size < 0 or offset < 0:
            continue
        at = _find(slots, slots_count, hashes[row, 0], hashes[row, 1])
        if slots[at + 2] == 0:
            if state[ENTRIES] >= capacity:
                return row
            slots[at] = hashes[row, 0]
            slots[at + 1] = hashes[row, 1]
            state[ENTRIES] += 1
        stored = np.uint64(offset) + np.uint64(1)
        if stored > slots[at + 2]:
            slots[at + 2] = stored
    return len(rows)


@kernel
def move_entries(slots: MapSlots, larger: MapSlots) -> None:
    """Put all entries of a map into an empty one that has room for them."""
    slots_count = len(larger) // WORDS
    for slot in range(len(slots) // WORDS):
        at = slot * WORDS
        if slots[at + 2] != 0:
            to = _find(larger, slots_count, slots[at], slots[at + 1])
            for word in range(WORDS):
                larger[to + word] = slots[at + word]


@kernel
def stored_offsets(slots: MapSlots, out: NDArray[np.int64]) -> int:
    """Write the offsets of all entries to `out`, in any order; returns how many there are."""
    count = 0
    for slot in range(len(slots) // WORDS):
        stored = slots[slot * WORDS + 2]
        if stored != 0:
            out[count] = np.int64(stored - np.uint64(1))
            count += 1
    return count


@kernel
def mark_stored(
    rows: RecordTable,
    offsets: NDArray[np.int64],
    with_null_values: bool,
    kept: NDArray[np.bool_],
    found: NDArray[np.bool_],
) -> None:
    """Mark the rows with one of these offsets; rows without a value only if `with_null_values` is set.

    `found` gets a mark for each of the `offsets` that occurs in a row, with a value or not.
    `offsets` ascend, and rows normally do too. After a step backwards, in a damaged batch, the place in
    `offsets` is searched again.
    """
    place = 0
    before = np.int64(-1)
    for row in range(len(rows)):
        offset = rows[row].offset
        if row == 0 or offset < before:
            place = np.searchsorted(offsets, offset)
        before = offset
        while place < len(offsets) and offsets[place] < offset:
            place += 1
        is_stored = place < len(offsets) and offsets[place] == offset
        if is_stored:
            found[place] = True
        kept[row] = is_stored and (with_null_values or rows[row].value_size >= 0)
