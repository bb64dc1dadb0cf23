"""The cleaner's map from the hash of a key to the last offset of that key: open addressing in one array.

A slot is two words. The first is the lower half of the key's hash. The second has 24 bits of the upper half
and, in its lower 40 bits, the offset counted from `state[BASE]`, plus one. So memory that is all zeros is an
empty map, and costs nothing until it is used. Another 32 bits of the hash say at which slot a search begins;
it then goes from slot to slot. Four slots share a cache line, so most searches end in the line that they
begin in.

The map also notes which offsets it was given, in bits. Once it is filled, these bits and the offsets in its
slots show whether a record is the newest of its key, without hashing the key again. Kafka: SkimpyOffsetMap
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT64_MAX
from stratalog.records.kernels.clean import TRANSACTIONAL
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.hash import siphash128
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import Bytes, prefetch
from stratalog.records.kernels.walk import CONTROL, BatchTable

WORDS = 2  # of a slot
WORDS_IN_A_LINE = 8
AHEAD = 12  # how many rows ahead slots are prefetched: a slot is almost never in the cache
OFFSET_BITS = 40
_OFFSET = (1 << OFFSET_BITS) - 1
_TAG = (1 << 64 - OFFSET_BITS) - 1
REACH = 1 << OFFSET_BITS - 1  # how far any other offset may be from the first, on either side

# The state of a map; an array, so that a kernel can change it. SEEN is the last offset that was looked at,
# DISORDER is 1 if an offset was not above the offset before it.
ENTRIES, LATEST, BASE, SEEN, DISORDER = 0, 1, 2, 3, 4
STATE_SIZE = 5

MapSlots = Any  # NDArray[np.uint64]; a prefetch takes any array, but is declared for bytes
Hashes = NDArray[np.uint64]
Bits = NDArray[np.uint8]


@inlined
def home_of(high: Any, slots_count: Any) -> Any:
    """The slot that a hash points at: its upper 32 bits, spread over all slots without a division."""
    return np.int64(((high >> np.uint64(32)) * np.uint64(slots_count)) >> np.uint64(32))


@inlined
def _ask_for(slots: MapSlots, slots_count: Any, high: Any) -> None:
    """Prefetch the cache line in which a search for this hash begins."""
    prefetch(slots, home_of(high, slots_count) * WORDS)


@inlined
def _find(slots: MapSlots, slots_count: Any, low: Any, high: Any) -> Any:
    """The position of the slot with this hash, or of the empty slot that it would take."""
    tag = high & np.uint64(_TAG)
    slot = home_of(high, slots_count)
    at = slot * WORDS
    while slots[at + 1] != 0 and not (slots[at] == low and slots[at + 1] >> np.uint64(OFFSET_BITS) == tag):
        slot += 1
        if slot == slots_count:
            slot = 0
        at = slot * WORDS
    return at


@inlined
def _stored(state: NDArray[np.int64], offset: Any) -> Any:
    """The number that is stored for an offset; 0 if it is out of reach. The first offset sets the base."""
    if state[ENTRIES] == 0:
        state[BASE] = max(np.int64(0), offset - REACH)
    base = state[BASE]
    # `put_sampled` stores the number 1 for offset 0, whatever the base is. So the offset of a record gets it
    # only if the base is 0.
    if offset - base > _OFFSET - 1 or offset < base or (offset == base and base > 0):
        return np.int64(0)
    return offset - base + 1


@inlined
def _put(slots: MapSlots, at: Any, low: Any, high: Any, stored: Any) -> None:
    slots[at] = low
    slots[at + 1] = ((high & np.uint64(_TAG)) << np.uint64(OFFSET_BITS)) | np.uint64(stored)


@inlined
def _offset_at(slots: MapSlots, at: Any, base: Any) -> Any:
    """The offset in a slot, -1 if it is empty; 0 if the key was stored without an offset (`put_sampled`)."""
    stored = np.int64(slots[at + 1] & np.uint64(_OFFSET))
    return stored - 1 if stored <= 1 else stored - 1 + base


@inlined
def _set_bit(bits: Bits, index: Any) -> None:
    if 0 <= index < 8 * len(bits):
        bits[index >> 3] |= np.uint8(1 << (index & 7))


@inlined
def _has_bit(bits: Bits, index: Any) -> bool:
    return bool(0 <= index < 8 * len(bits) and bits[index >> 3] & np.uint8(1 << (index & 7)) != 0)


@kernel
def put_records(
    slots: MapSlots,
    capacity: int,
    state: NDArray[np.int64],
    noted: Bits,
    batches: BatchTable,
    skipped: NDArray[np.bool_],
    rows: RecordTable,
    hashes: Hashes,
    start_offset: int,
) -> tuple[int, bool]:
    """Store the offset of every record with a key from start_offset on, batch by batch.

    `skipped` are batches to skip (aborted ones); control batches have no user keys. `noted` gets a bit for
    each stored offset, from start_offset on, as far as it reaches. Returns (records seen, whether the map was
    full before the next record): at least one slot always stays empty, so that a search ends. An offset out
    of reach is treated as if the map were full.
    """
    slots_count = len(slots) // WORDS
    row = 0
    for index in range(len(batches)):
        batch: Any = batches[index]
        is_passed_over = skipped[index] or (batch.magic == 2 and batch.attributes & CONTROL != 0)
        while row < len(rows) and rows[row].batch == index:
            if row + AHEAD < len(rows):
                _ask_for(slots, slots_count, hashes[row + AHEAD, 1])
            offset = rows[row].offset
            if offset >= start_offset:
                if offset <= state[SEEN]:
                    state[DISORDER] = 1
                if not is_passed_over and rows[row].key_size >= 0:
                    stored = _stored(state, offset)
                    if state[ENTRIES] >= capacity or stored == 0:
                        return row, True
                    at = _find(slots, slots_count, hashes[row, 0], hashes[row, 1])
                    if slots[at + 1] == 0:
                        state[ENTRIES] += 1
                    _put(slots, at, hashes[row, 0], hashes[row, 1], stored)
                    _set_bit(noted, offset - start_offset)
                    state[LATEST] = offset
                state[SEEN] = offset
            row += 1
        if batch.last_offset >= start_offset:
            state[LATEST] = batch.last_offset
    return row, False


# The outcome of `put_newest`: all records are stored; the map is full; an offset is out of order or reach; a
# batch is part of a transaction or has an old format.
ALL_STORED, FULL, OUT_OF_ORDER, NOT_PLAIN = 0, 1, 2, 3


@kernel
def put_newest(
    slots: MapSlots,
    capacity: int,
    state: NDArray[np.int64],
    noted: Bits,
    newest: Bits,
    batches: BatchTable,
    rows: RecordTable,
    hashes: Hashes,
    start_offset: int,
) -> int:
    """Store the records of a run from the last to the first, for a caller that reads a log backwards.

    The first record of a key that is seen is its newest. So a slot is written only once, and the bits of
    these records in `noted` and `newest` do not change any more. At first, `state[SEEN]` is above all
    offsets. Returns ALL_STORED, or why the log must be read forwards. FULL is returned as soon as all
    capacity is used: `put_records` would not take another record then, not even of a known key.
    """
    for index in range(len(batches)):
        batch: Any = batches[index]
        if batch.magic < 2 or batch.attributes & (CONTROL | TRANSACTIONAL) != 0:
            return NOT_PLAIN
    slots_count = len(slots) // WORDS
    for row in range(len(rows) - 1, -1, -1):
        if row >= AHEAD:
            _ask_for(slots, slots_count, hashes[row - AHEAD, 1])
        offset = rows[row].offset
        if offset >= state[SEEN]:
            return OUT_OF_ORDER
        state[SEEN] = offset
        if offset < start_offset or rows[row].key_size < 0:
            continue
        stored = _stored(state, offset)
        if stored == 0:
            return OUT_OF_ORDER
        at = _find(slots, slots_count, hashes[row, 0], hashes[row, 1])
        if slots[at + 1] == 0:
            state[ENTRIES] += 1
            if state[ENTRIES] >= capacity:
                return FULL
            _put(slots, at, hashes[row, 0], hashes[row, 1], stored)
            _set_bit(newest, offset - start_offset)
        _set_bit(noted, offset - start_offset)
    return ALL_STORED


@kernel
def get_offsets(slots: MapSlots, state: NDArray[np.int64], hashes: Hashes, found: NDArray[np.int64]) -> None:
    """The stored offset of each hash; -1 if there is none."""
    slots_count = len(slots) // WORDS
    base = state[BASE]
    for i in range(len(hashes)):
        if i + AHEAD < len(hashes):
            _ask_for(slots, slots_count, hashes[i + AHEAD, 1])
        at = _find(slots, slots_count, hashes[i, 0], hashes[i, 1])
        found[i] = _offset_at(slots, at, base)


@kernel
def mark_newest(slots: MapSlots, state: NDArray[np.int64], start_offset: int, newest: Bits) -> None:
    """Set a bit for each offset in the map, from start_offset on, as far as `newest` reaches."""
    base = state[BASE]
    for slot in range(len(slots) // WORDS):
        if slots[slot * WORDS + 1] != 0:
            _set_bit(newest, _offset_at(slots, slot * WORDS, base) - start_offset)


@kernel
def find_noted(
    slots: MapSlots,
    state: NDArray[np.int64],
    noted: Bits,
    newest: Bits,
    start_offset: int,
    data: Bytes,
    rows: RecordTable,
    key0: Any,
    key1: Any,
    found: NDArray[np.int64],
) -> int:
    """As `get_offsets`, but without hashing the keys of noted rows: such a row gets its own offset if it is
    the newest of its key, otherwise INT64_MAX.

    The keys of other rows are hashed here; returns how many.
    """
    slots_count = len(slots) // WORDS
    base = state[BASE]
    unknown = 0
    for i in range(len(rows)):
        row = rows[i]
        index = row.offset - start_offset
        if _has_bit(noted, index):
            found[i] = row.offset if _has_bit(newest, index) else INT64_MAX
        elif row.key_size < 0:
            found[i] = -1
        else:
            low, high = siphash128(data, row.key_position, row.key_position + row.key_size, key0, key1)
            found[i] = _offset_at(slots, _find(slots, slots_count, low, high), base)
            unknown += 1
    return unknown


@kernel
def put_sampled(
    slots: MapSlots,
    capacity: int,
    state: NDArray[np.int64],
    batches: BatchTable,
    skipped: NDArray[np.bool_],
    sampled: NDArray[np.bool_],
    rows: RecordTable,
    hashes: Hashes,
    start_offset: int,
) -> bool:
    """Like `put_records`, but only for keys that are in the map or in a `sampled` batch.

    If all records of a sampled key are in skipped batches or below `start_offset`, the key gets offset 0:
    then none of its records counts as replaced. Returns whether the map was full, or an offset was out of
    reach.
    """
    slots_count = len(slots) // WORDS
    row = 0
    for index in range(len(batches)):
        batch: Any = batches[index]
        is_passed_over = skipped[index] or (batch.magic == 2 and batch.attributes & CONTROL != 0)
        while row < len(rows) and rows[row].batch == index:
            if row + AHEAD < len(rows):
                _ask_for(slots, slots_count, hashes[row + AHEAD, 1])
            if rows[row].key_size >= 0:
                offset = rows[row].offset
                stored = _stored(state, offset)
                at = _find(slots, slots_count, hashes[row, 0], hashes[row, 1])
                if slots[at + 1] == 0 and sampled[index]:
                    if state[ENTRIES] >= capacity or stored == 0:
                        return True
                    _put(slots, at, hashes[row, 0], hashes[row, 1], 1)
                    state[ENTRIES] += 1
                if slots[at + 1] != 0 and not is_passed_over and offset >= start_offset:
                    if stored == 0:
                        return True
                    _put(slots, at, hashes[row, 0], hashes[row, 1], stored)
            row += 1
    return False
