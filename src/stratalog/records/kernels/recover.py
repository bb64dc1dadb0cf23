"""One pass over a piece of a segment: walks its batches, and finds its index entries, producers and epochs.

The three kernels for these tasks share a table of a few rows, which stays in the CPU's first-level cache. The
pass returns to Python before the end of the piece only for more memory or for a special batch. So a segment
of small batches is scanned at the speed of its checksums. Kafka: LogSegment.recover
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.kernels import index as indexing
from stratalog.records.kernels import scan as gathering
from stratalog.records.kernels import walk as walking
from stratalog.records.kernels.crc32c import crc32c, crc32c_of_three
from stratalog.records.kernels.index import EntryRows, ProgressTable, index_batches
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import Bytes, load_i32, load_i64, load_u8, load_u32
from stratalog.records.kernels.scan import ScanTable, gather
from stratalog.records.kernels.walk import LOG_OVERHEAD, MAGIC_AT, SMALLEST_V2, BatchTable, walk

ROWS = 128  # of the table: 12 KiB

# How a piece ended. The numbers below 5 are those of a walk: END, TORN, BAD_LENGTH, BAD_MAGIC (never FULL).
WRONG_CRC = 5
OFFSET_OVERFLOW = 6
NOT_ASCENDING = 7
NEEDS_ROOM = 8  # for producers, events, epochs or entries: continue from the position returned
# row 0 of the table is a control batch whose record only Python can read; all else in it is already processed
MARKER = 9

# Indexes in `facts`, which is passed from call to call.
BATCHES, NEXT_OFFSET, VALID_END, OFFSET_ENTRIES, TIME_ENTRIES = 0, 1, 2, 3, 4

_UNLIMITED = 2**31
# Up to this size, the checksums of three batches are computed at once; a larger batch is cut into streams.
SMALL = 2048


@kernel(size=lambda _data, start, end, *_: end - start)
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
    data: Bytes,
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

    It applies the same rules as the code for the table, to the most common small batches, but writes no row
    for each: 25 % faster for batches of 280 bytes. All other batches, also those with a wrong checksum, are
    left to the table.
    """
    progress, offset_entries, time_entries = indexes
    at: Any = progress[0]
    since_entry = at.since_entry
    max_timestamp = at.max_timestamp
    max_timestamp_offset = at.max_timestamp_offset
    last_offset = at.last_offset
    last_timestamp = at.last_timestamp
    last_timestamp_offset = at.last_timestamp_offset
    offsets_count = facts[OFFSET_ENTRIES]
    times_count = facts[TIME_ENTRIES]
    relative: Any = np.int64(-1)
    batches_count = 0
    first = second = third = np.uint32(0)  # checksums of the next batches
    sums_count = 0
    position = start
    while end - position >= LOG_OVERHEAD + SMALLEST_V2:
        length = load_i32(data, position + 8)
        if length < SMALLEST_V2 or length > end - position - LOG_OVERHEAD:
            break
        if load_u8(data, position + MAGIC_AT) != 2 or load_i64(data, position + 43) >= 0:
            break
        found = load_i64(data, position) + load_i32(data, position + 23) - base_offset
        if load_i32(data, position + 12) > latest_epoch or found < 0 or found > INT32_MAX:
            break
        is_due = since_entry > interval
        timestamp = load_i64(data, position + 35)
        is_later = timestamp > max_timestamp
        if is_due:
            largest_offset = found if is_later else max_timestamp_offset
            if offsets_count == len(offset_entries) or found <= last_offset:
                break
            if largest_offset < last_timestamp_offset:
                break
        batch_end = position + LOG_OVERHEAD + length
        if not sums_count:
            first, second, third, sums_count = next_sums(data, position, batch_end, end)
        if first != load_u32(data, position + 17):
            break
        first, second = second, third
        sums_count -= 1
        if is_later:
            max_timestamp = timestamp
            max_timestamp_offset = found
        if is_due:
            offset_entries[offsets_count, 0] = found
            offset_entries[offsets_count, 1] = shift + position
            offsets_count += 1
            last_offset = found
            if max_timestamp > last_timestamp:
                time_entries[times_count, 0] = max_timestamp
                time_entries[times_count, 1] = max_timestamp_offset
                times_count += 1
                last_timestamp = max_timestamp
                last_timestamp_offset = max_timestamp_offset
            since_entry = 0
        since_entry += length + LOG_OVERHEAD
        relative = found
        batches_count += 1
        position = batch_end
    if batches_count:
        at.since_entry = since_entry
        at.max_timestamp = max_timestamp
        at.max_timestamp_offset = max_timestamp_offset
        at.last_offset = last_offset
        at.last_timestamp = last_timestamp
        at.last_timestamp_offset = last_timestamp_offset
        facts[BATCHES] += batches_count
        facts[NEXT_OFFSET] = base_offset + relative + 1
        facts[VALID_END] = shift + position
        facts[OFFSET_ENTRIES] = offsets_count
        facts[TIME_ENTRIES] = times_count
    return position


@inlined
def next_sums(data: Bytes, position: int, batch_end: int, end: int) -> tuple[Any, Any, Any, int]:
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
    return crc32c(data, position + 21, batch_end), zero, zero, 1
