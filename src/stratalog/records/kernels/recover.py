"""One pass over a piece of a segment: walks its batches, and finds its index entries, producers and epochs.

The three kernels for these tasks share a table of a few rows, which stays in the CPU's first-level cache. The
pass returns to Python before the end of the piece only for more memory, an unusual marker or a bad batch. So
a segment of small batches is scanned at the speed of its checksums. Kafka: LogSegment.recover
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.kernels import index as indexing
from stratalog.records.kernels import scan as gathering
from stratalog.records.kernels import walk as walking
from stratalog.records.kernels.crc32c import crc32c_of_bare, crc32c_of_three
from stratalog.records.kernels.index import EntryRows, ProgressTable, index_batches
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import (
    Bytes,
    bare,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    wrapped_difference,
    wrapped_sum,
)
from stratalog.records.kernels.scan import ScanTable, gather
from stratalog.records.kernels.walk import LOG_OVERHEAD, MAGIC_AT, SMALLEST_V2, BatchTable, plain_us, walk

ROWS = 128  # of the table: 12 KiB

# How a piece ended. The numbers below 5 are those of a walk: END, TORN, BAD_LENGTH, BAD_MAGIC (never FULL).
WRONG_CRC = 5
OFFSET_OVERFLOW = 6
NOT_ASCENDING = 7
NEEDS_ROOM = 8  # for producers, events, epochs or entries: continue from the position returned
# Row 0 of the table is an unusual control batch. It is processed, except for its record: Python must read it.
MARKER = 9

# Indexes in `facts`, which is passed from call to call.
BATCHES, NEXT_OFFSET, VALID_END, OFFSET_ENTRIES, TIME_ENTRIES = 0, 1, 2, 3, 4

_UNLIMITED = 2**31
# Up to this size, the checksums of three batches are computed at once; a larger batch is cut into streams.
SMALL = 2048


@kernel(
    size=lambda _data, start, end, *_: end - start,
    plain_us=lambda data, start, end, *_: plain_us(data, start, end),
)
def recover(
    data: Bytes,
    start: int,
    end: int,
    shift: int,
    base_offset: int,
    interval: int,
    table: BatchTable,
    facts: NDArray[np.int64],
    indexes: tuple[ProgressTable, EntryRows, EntryRows],
    producers: tuple[
        NDArray[np.int64], NDArray[np.int32], ScanTable, NDArray[np.int64], ScanTable, NDArray[np.int64]
    ],
) -> tuple[int, int]:
    """Process the good batches of data[start:end]; data[0] is byte `shift` of the file.

    Returns (position of the first batch that is not processed, how it ended). If it ended at a marker, the
    position is the one after the marker. If it ended at a wrong checksum or offset, row 0 of the table is
    that batch.
    """
    progress, offset_entries, time_entries = indexes
    counts, slots, producer_rows, recent, events, epochs = producers
    position = start
    before = progress.copy()
    while True:
        position = _take_plain(
            data, position, end, shift, base_offset, interval, facts, indexes, int(counts[3])
        )
        if len(offset_entries) - facts[OFFSET_ENTRIES] < len(table):
            return position, NEEDS_ROOM
        count, after, stop = walk(data, position, end, table, True, 2**62)
        good = 0
        while good < count and table[good].valid:
            good += 1
        before[0] = progress[0]
        done, offsets_count, times_count, outcome = index_batches(
            table[:good],
            shift,
            base_offset,
            interval,
            (_UNLIMITED, _UNLIMITED),
            progress,
            offset_entries[facts[OFFSET_ENTRIES] :],
            time_entries[facts[TIME_ENTRIES] :],
        )
        taken, reached = gather(data, table[:done], 0, counts, slots, producer_rows, recent, events, epochs)
        kept = taken + 1 if reached == gathering.MARKER else taken
        if kept < done:
            # Gathering stopped before indexing did: later entries are removed again.
            progress[0] = before[0]
            _, offsets_count, times_count, outcome = index_batches(
                table[:kept],
                shift,
                base_offset,
                interval,
                (_UNLIMITED, _UNLIMITED),
                progress,
                offset_entries[facts[OFFSET_ENTRIES] :],
                time_entries[facts[TIME_ENTRIES] :],
            )
        facts[OFFSET_ENTRIES] += offsets_count
        facts[TIME_ENTRIES] += times_count
        if kept:
            last: Any = table[kept - 1]
            facts[BATCHES] += kept
            facts[NEXT_OFFSET] = last.last_offset + 1
            facts[VALID_END] = shift + last.records_end
            position = last.records_end
        if reached == gathering.MARKER:
            table[0] = table[taken]
            return position, MARKER
        if reached == gathering.NEEDS_ROOM:
            return position, NEEDS_ROOM
        if outcome != indexing.INDEXED:
            table[0] = table[done]
            return position, OFFSET_OVERFLOW if outcome == indexing.OFFSET_OVERFLOW else NOT_ASCENDING
        if good < count:
            table[0] = table[good]
            return position, WRONG_CRC
        if stop != walking.FULL:
            return after, stop


@kernel
def _take_plain(
    array: Bytes,
    start: int,
    end: int,
    shift: int,
    base_offset: int,
    interval: int,
    facts: NDArray[np.int64],
    indexes: tuple[ProgressTable, EntryRows, EntryRows],
    latest_epoch: int,
) -> int:
    """Process good batches without producers or new epochs; returns the position of the first other batch.

    It applies the same rules as the code for the table, to the most common batches, but writes no row for
    each, and takes three small batches at once. All other batches, including those with a wrong checksum, are
    left to the table.
    """
    data = bare(array)
    at: Any = indexes[0][0]
    since_entry = at.since_entry
    max_timestamp = at.max_timestamp
    max_timestamp_offset = at.max_timestamp_offset
    relative: Any = np.int64(-1)
    batches_count = 0
    checked_end = position = start  # the checksums of the batches before `checked_end` are right
    while position < end:
        after = _end_of_plain(data, position, end, latest_epoch)
        if after < 0:
            break
        if position == checked_end:
            second_end, checked_end = _check(data, position, after, end, latest_epoch)
            if checked_end == position:
                break
            if checked_end > second_end and since_entry + second_end - position <= interval:
                # None of the three batches gets an entry.
                first = _last_offset(data, position, base_offset)
                second = _last_offset(data, after, base_offset)
                third = _last_offset(data, second_end, base_offset)
                if min(first, second, third) >= 0 and max(first, second, third) <= INT32_MAX:
                    timestamp = load_i64(data, position + 35)
                    if timestamp > max_timestamp:
                        max_timestamp, max_timestamp_offset = timestamp, first
                    timestamp = load_i64(data, after + 35)
                    if timestamp > max_timestamp:
                        max_timestamp, max_timestamp_offset = timestamp, second
                    timestamp = load_i64(data, second_end + 35)
                    if timestamp > max_timestamp:
                        max_timestamp, max_timestamp_offset = timestamp, third
                    since_entry += checked_end - position
                    relative = third
                    batches_count += 3
                    position = checked_end
                    continue
        found = _last_offset(data, position, base_offset)
        if found < 0 or found > INT32_MAX:
            break
        timestamp = load_i64(data, position + 35)
        later_timestamp, its_offset = max_timestamp, max_timestamp_offset
        if timestamp > max_timestamp:
            later_timestamp, its_offset = timestamp, found
        if since_entry > interval:
            if not _add_entries(facts, indexes, found, shift + position, later_timestamp, its_offset):
                break
            since_entry = 0
        max_timestamp, max_timestamp_offset = later_timestamp, its_offset
        since_entry += after - position
        relative = found
        batches_count += 1
        position = after
    if batches_count:
        at.since_entry = since_entry
        at.max_timestamp = max_timestamp
        at.max_timestamp_offset = max_timestamp_offset
        facts[BATCHES] += batches_count
        facts[NEXT_OFFSET] = base_offset + relative + 1
        facts[VALID_END] = shift + position
    return position


@inlined
def _last_offset(data: Bytes, position: int, base_offset: int) -> Any:
    """The last offset of the batch at `position`, relative to the segment's base offset."""
    last_offset = wrapped_sum(load_i64(data, position), load_i32(data, position + 23))
    return wrapped_difference(last_offset, base_offset)


@inlined
def _add_entries(
    facts: NDArray[np.int64],
    indexes: tuple[ProgressTable, EntryRows, EntryRows],
    offset: int,
    position: int,
    timestamp: int,
    timestamp_offset: int,
) -> bool:
    """Write the entries that are due; False if they are not in order, or there is no room."""
    progress, offset_entries, time_entries = indexes
    at: Any = progress[0]
    count = facts[OFFSET_ENTRIES]
    if (
        count == len(offset_entries)
        or offset <= at.last_offset
        or timestamp_offset < at.last_timestamp_offset
    ):
        return False
    offset_entries[count, 0] = offset
    offset_entries[count, 1] = position
    facts[OFFSET_ENTRIES] = count + 1
    at.last_offset = offset
    if timestamp > at.last_timestamp:
        count = facts[TIME_ENTRIES]
        time_entries[count, 0] = timestamp
        time_entries[count, 1] = timestamp_offset
        facts[TIME_ENTRIES] = count + 1
        at.last_timestamp = timestamp
        at.last_timestamp_offset = timestamp_offset
    return True


@inlined
def _check(data: Bytes, position: int, after: int, end: int, latest_epoch: int) -> tuple[int, int]:
    """Compare checksums: of the batch at `position`, and of the next two if they are small too.

    Returns (the end of the second batch, how far all checksums are right). If only one batch was checked, the
    first number is `end`.
    """
    if after - position <= SMALL:
        second_end = _end_of_plain(data, after, end, latest_epoch)
        if 0 <= second_end <= after + SMALL:
            third_end = _end_of_plain(data, second_end, end, latest_epoch)
            if 0 <= third_end <= second_end + SMALL:
                starts = (position + 21, after + 21, second_end + 21)
                first, second, third = crc32c_of_three(data, starts, (after, second_end, third_end))
                if first != load_u32(data, position + 17):
                    return second_end, position
                if second != load_u32(data, after + 17):
                    return second_end, after
                if third != load_u32(data, second_end + 17):
                    return second_end, second_end
                return second_end, third_end
    is_right = crc32c_of_bare(data, position + 21, after) == load_u32(data, position + 17)
    return end, after if is_right else position


@inlined
def _end_of_plain(data: Bytes, position: int, end: int, latest_epoch: int) -> int:
    """Where the whole v2 batch at `position` ends, if it changes neither producers nor epochs; else -1."""
    if end - position < LOG_OVERHEAD + SMALLEST_V2:
        return -1
    length = load_i32(data, position + 8)
    if length < SMALLEST_V2 or length > end - position - LOG_OVERHEAD:
        return -1
    if load_u8(data, position + MAGIC_AT) != 2 or load_i64(data, position + 43) >= 0:
        return -1
    if load_i32(data, position + 12) > latest_epoch:
        return -1
    return position + LOG_OVERHEAD + length
