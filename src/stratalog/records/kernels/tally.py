"""Sums amounts by key, for as many keys as a table has room for.

A slot is found by the hash of its key, as in the offset map; the first bytes of the keys are stored beside
the slots, so that reports can show them. When no slot is left the kernel stops, and the caller evicts the
keys with the smallest amounts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.jit import kernel, rows_of
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.offset_map import Hashes

# The amounts of a key. The last two are upper bounds for what was not counted before the key got its slot.
SLOT = rows_of(
    [
        ("low", np.uint64),
        ("high", np.uint64),
        ("is_used", np.int64),
        ("key_size", np.int64),
        ("versions", np.float64),
        ("bytes", np.float64),
        ("freed", np.float64),
        ("freed_squares", np.float64),
        ("draws", np.float64),
        ("missed_versions", np.float64),
        ("missed_bytes", np.float64),
    ],
)
AMOUNTS = 5  # the fields from `versions` to `draws`
TallySlots = NDArray[np.void]


@kernel
def tally(
    slots: TallySlots,
    keys: NDArray[np.uint8],
    state: NDArray[np.int64],
    missed: NDArray[np.float64],
    data: Bytes,
    rows: RecordTable,
    hashes: Hashes,
    amounts: NDArray[np.float64],
    start: int,
) -> int:
    """Add the amounts of each row from `start` on to those of its key; rows without a key are skipped.

    `state` is (slots used, slots allowed). Returns the row that found no slot, or len(rows).
    """
    count = len(slots)
    room = keys.shape[1]
    for i in range(start, len(rows)):
        key_size = rows[i].key_size
        if key_size < 0:
            continue
        low, high = hashes[i, 0], hashes[i, 1]
        at: Any = np.int64(((high >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))
        while slots[at].is_used != 0 and not (slots[at].low == low and slots[at].high == high):
            at += 1
            if at == count:
                at = 0
        slot: Any = slots[at]
        if slot.is_used == 0:
            if state[0] >= state[1]:
                return i
            state[0] += 1
            slot.low = low
            slot.high = high
            slot.is_used = 1
            slot.key_size = key_size
            slot.missed_versions = missed[0]
            slot.missed_bytes = missed[1]
            position = rows[i].key_position
            for k in range(min(room, key_size)):
                keys[at, k] = data[position + k]
        slot.versions += amounts[i, 0]
        slot.bytes += amounts[i, 1]
        slot.freed += amounts[i, 2]
        slot.freed_squares += amounts[i, 3]
        slot.draws += amounts[i, 4]
    return len(rows)


@kernel
def put_back(
    slots: TallySlots, keys: NDArray[np.uint8], old: TallySlots, old_keys: NDArray[np.uint8]
) -> None:
    """Put slots into an empty table, with their keys."""
    count = len(slots)
    for i in range(len(old)):
        at: Any = np.int64(((old[i].high >> np.uint64(32)) * np.uint64(count)) >> np.uint64(32))
        while slots[at].is_used != 0:
            at += 1
            if at == count:
                at = 0
        slots[at] = old[i]
        keys[at, :] = old_keys[i, :]


@kernel
def cut_keys(data: Bytes, rows: RecordTable, size: int, delimiter: int) -> None:
    """Shorten the keys of the rows to their prefixes: to `size` bytes, or up to and including the delimiter.

    A negative size or delimiter means none; a key that does not have the delimiter stays whole.
    """
    for i in range(len(rows)):
        key_size: Any = rows[i].key_size
        if size >= 0 and key_size > size:
            key_size = size
        if delimiter >= 0:
            position = rows[i].key_position
            for k in range(key_size):
                if data[position + k] == delimiter:
                    key_size = k + 1
                    break
        rows[i].key_size = key_size
