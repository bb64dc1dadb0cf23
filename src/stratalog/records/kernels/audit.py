"""One pass over a piece of a segment that checks whether everything in it is as it should be.

It walks the batches, computes their checksums, and compares the headers with each other and the index entries
with the batches, without a row for each batch. If something is wrong, it cannot say what: it stops, and the
caller checks the same piece again in the slow form (`operations/audit/rows.py` and `index_entries.py`), which
says what and where. Both follow the same rules.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.kernels.crc32c import crc32c_of_bare, crc32c_of_three
from stratalog.records.kernels.jit import inlined, kernel, rows_of
from stratalog.records.kernels.memory import (
    Bytes,
    bare,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    wrapped_difference,
    wrapped_sum,
)
from stratalog.records.kernels.recover import SMALL
from stratalog.records.kernels.walk import (
    CODEC_MASK,
    END,
    FULL,
    HEADER_SIZE_UP_TO_MAGIC,
    LARGEST,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    MAGIC_AT,
    SMALLEST_V2,
    TORN,
)

UNUSUAL = 5
"""Why a check stopped, beside the reasons of a walk: a batch or an entry needs the slow form."""

# What is known from the batches so far. `codecs` has a bit for each codec. `next_entry` and `next_time_entry`
# are the first entries that were not reached yet. For entries from `waiting_entry` to before `next_entry`,
# the batch was reached, but not the offset. `needs_rows`: a batch has a producer or begins an epoch.
FACTS = rows_of(
    [
        ("first_offset", np.int64),  # -1: none yet
        ("last_offset", np.int64),
        ("first_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("batches_count", np.int64),
        ("records_count", np.int64),
        ("gaps_count", np.int64),
        ("epoch", np.int64),
        ("codecs", np.int64),
        ("next_entry", np.int64),
        ("waiting_entry", np.int64),
        ("next_time_entry", np.int64),
        ("is_compacted", np.bool_),
        ("needs_rows", np.bool_),
    ],
)
# The segment's base offset and that of the next one, the latest time that is not in the future, and how many
# milliseconds a time may be before an earlier one.
Limits = tuple[int, int, int, int]
# Offsets and positions of the offset index; offsets and timestamps of the time index. All offsets ascend.
Entries = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]
FactsTable = NDArray[np.void]

DELETE_HORIZON = 1 << 6


@kernel(size=lambda _data, start, end, *_: end - start)
def check(
    array: Bytes,
    start: int,
    end: int,
    shift: int,
    limits: Limits,
    entries: Entries,
    facts: FactsTable,
    gaps: NDArray[np.int64],
    sums: NDArray[np.uint32],
) -> tuple[int, int, int]:
    """Check the batches of array[start:end]; array[0] is byte `shift` of the file.

    Returns (batches, position just past the last one, why it stopped), as a walk does whose table has as many
    rows as `sums`. `sums` gets the checksum of each batch, and `gaps` the first ranges of offsets that are
    missing. After UNUSUAL, none of these results may be used.
    """
    data = bare(array)
    at: Any = facts[0]
    count = 0
    position = start
    first = second = third = np.uint32(0)  # checksums of the next batches
    sums_count = 0
    while True:
        if position == end:
            return count, position, END
        if end - position <= HEADER_SIZE_UP_TO_MAGIC:
            return count, position, TORN
        length = load_i32(data, position + 8)
        if length < SMALLEST_V2 or load_u8(data, position + MAGIC_AT) != 2:
            return count, position, UNUSUAL
        if length > end - position - LOG_OVERHEAD:
            return count, position, TORN
        if length > LARGEST:
            return count, position, UNUSUAL
        if count == len(sums):
            return count, position, FULL
        batch_end = position + LOG_OVERHEAD + length
        if not sums_count:
            first, second, third, sums_count = _next_sums(data, position, batch_end, end)
        if first != load_u32(data, position + 17):
            return count, position, UNUSUAL
        sums[count] = first
        first, second = second, third
        sums_count -= 1
        base_offset = load_i64(data, position)
        last_offset = wrapped_sum(base_offset, load_i32(data, position + 23))
        timestamp = load_i64(data, position + 35)
        if not (
            _are_offsets_usual(base_offset, last_offset, limits, at)
            and _is_time_usual(timestamp, limits, at)
            and _are_entries_usual(entries, shift + position, base_offset, last_offset, timestamp, at)
            and _add_header(data, position, wrapped_difference(last_offset, base_offset) + 1, timestamp, at)
        ):
            return count, position, UNUSUAL
        if base_offset > at.last_offset + 1:
            if at.gaps_count < len(gaps):
                gaps[at.gaps_count, 0] = at.last_offset + 1
                gaps[at.gaps_count, 1] = wrapped_difference(base_offset, 1)
            at.gaps_count += 1
        if at.first_offset < 0:
            at.first_offset = base_offset
        at.last_offset = last_offset
        at.max_timestamp = max(at.max_timestamp, timestamp)
        at.batches_count += 1
        count += 1
        position = batch_end


@inlined
def _next_sums(data: Bytes, position: int, batch_end: int, end: int) -> tuple[Any, Any, Any, int]:
    """The checksums of the batch at `position`, and of the next two if they are small and whole."""
    if batch_end - position <= SMALL and end - batch_end >= LOG_OVERHEAD + SMALLEST_V2:
        length = load_i32(data, batch_end + 8)
        second_end = batch_end + LOG_OVERHEAD + length
        if length >= SMALLEST_V2 and length <= SMALL and end - second_end >= LOG_OVERHEAD + SMALLEST_V2:
            length = load_i32(data, second_end + 8)
            third_end = second_end + LOG_OVERHEAD + length
            if length >= SMALLEST_V2 and length <= SMALL and third_end <= end:
                starts = (position + 21, batch_end + 21, second_end + 21)
                first, second, third = crc32c_of_three(data, starts, (batch_end, second_end, third_end))
                return first, second, third, 3
    zero = np.uint32(0)
    return crc32c_of_bare(data, position + 21, batch_end), zero, zero, 1


@inlined
def _are_offsets_usual(base_offset: int, last_offset: int, limits: Limits, at: Any) -> bool:
    """Whether the offsets are above those of earlier batches, in this segment, and within reach of its index.

    `at.last_offset` is never below -1, so the difference at the end does not overflow.
    """
    return (
        base_offset > at.last_offset
        and last_offset >= base_offset
        and last_offset < limits[1]
        and last_offset - limits[0] <= INT32_MAX
    )


@inlined
def _is_time_usual(timestamp: int, limits: Limits, at: Any) -> bool:
    """Whether a time is neither in the future nor long before an earlier one; -1 is no time."""
    return timestamp <= limits[2] and (timestamp < 0 or at.max_timestamp - timestamp <= limits[3])


@inlined
def _are_entries_usual(
    entries: Entries, position: int, base_offset: int, last_offset: int, timestamp: int, at: Any
) -> bool:
    """Check the index entries that point to this batch, and those whose offset is reached with it."""
    offsets, positions, time_offsets, timestamps = entries
    while at.next_entry < len(positions) and positions[at.next_entry] <= position:
        if positions[at.next_entry] != position or offsets[at.next_entry] <= at.last_offset:
            return False
        at.next_entry += 1
    while at.waiting_entry < at.next_entry and offsets[at.waiting_entry] <= last_offset:
        offset = offsets[at.waiting_entry]
        if offset != last_offset and offset != base_offset:
            return False
        at.waiting_entry += 1
    while at.next_time_entry < len(time_offsets) and time_offsets[at.next_time_entry] <= last_offset:
        expected = timestamps[at.next_time_entry]
        if at.max_timestamp > expected:
            return False
        if time_offsets[at.next_time_entry] >= base_offset and timestamp != expected:
            return False
        at.next_time_entry += 1
    return True


@inlined
def _add_header(data: Bytes, position: int, offsets_count: int, timestamp: int, at: Any) -> bool:
    """Add the other fields of a batch to the facts; returns whether its count and its epoch are possible."""
    records_count = load_i32(data, position + 57)
    epoch = load_i32(data, position + 12)
    if records_count < 0 or records_count > offsets_count or (epoch >= 0 and epoch < at.epoch):
        return False
    if epoch > at.epoch:
        at.epoch = epoch
        at.needs_rows = True
    if load_i64(data, position + 43) >= 0:
        at.needs_rows = True
    attributes = load_i16(data, position + 21)
    if records_count < offsets_count or attributes & DELETE_HORIZON:
        at.is_compacted = True
    at.codecs |= 1 << (attributes & CODEC_MASK)
    at.records_count += records_count
    # As in `_first_times` of the slow form: such a header has the time of the first record.
    if attributes & (LOG_APPEND_TIME | DELETE_HORIZON) == 0:
        timestamp = load_i64(data, position + 27)
    if timestamp >= 0 and (at.first_timestamp < 0 or timestamp < at.first_timestamp):
        at.first_timestamp = timestamp
    return True
