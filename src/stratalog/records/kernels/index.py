"""The rule by which a segment's indexes get entries, and the search from an index entry to the wanted batch.

Kafka: LogSegment.append and LogSegment.recover have the rule, FileRecords.searchFor... the search.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.kernels.jit import kernel, rows_of
from stratalog.records.kernels.memory import Bytes, load_i32, load_u8, wrapped_difference
from stratalog.records.kernels.walk import (
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_AT,
    SMALLEST_V0,
    SMALLEST_V1,
    SMALLEST_V2,
    BatchTable,
    _read_legacy,
    _read_v2,
)

# The state of a segment's growing indexes. Offsets are relative to the segment's base; without entries the
# last offset and timestamp are -1.
PROGRESS = rows_of(
    [
        ("since_entry", np.int64),  # bytes since the start of the batch that got the last entry
        ("max_timestamp", np.int64),
        ("max_timestamp_offset", np.int64),
        ("last_offset", np.int64),
        ("last_timestamp", np.int64),
        ("last_timestamp_offset", np.int64),
    ],
)
ProgressTable = NDArray[np.void]
EntryRows = NDArray[np.int64]  # rows of two: (offset, position) or (timestamp, offset)

# The outcomes of indexing.
INDEXED = 0
OFFSET_OVERFLOW = 1  # the batch's last offset is below the base, or 2^31 or more above it
NOT_ASCENDING = 2  # an entry is due, and its offset is not above the last entry's
OFFSET_INDEX_FULL = 3
TIME_INDEX_FULL = 4


@kernel(size=lambda headers, *_: 100 * len(headers))
def index_batches(
    headers: BatchTable,
    shift: int,
    base_offset: int,
    interval: int,
    room: tuple[int, int],
    progress: ProgressTable,
    offset_entries: EntryRows,
    time_entries: EntryRows,
) -> tuple[int, int, int, int]:
    """Write the entries for these batches; a batch's position plus `shift` is its position in the file.

    A batch gets an entry if more than `interval` bytes come before it, counted from the start of the last
    batch that got an entry. So the first batch of a segment never gets one. `room` is how many entries the
    offset and the time index can still take. Returns (batches done, offset entries, time entries, outcome);
    if the outcome is a problem, it is about the batch after those done.
    """
    at: Any = progress[0]
    offset_count = 0
    time_count = 0
    for index in range(len(headers)):
        batch: Any = headers[index]
        relative = wrapped_difference(batch.last_offset, base_offset)
        if relative < 0 or relative > INT32_MAX:
            return index, offset_count, time_count, OFFSET_OVERFLOW
        if batch.max_timestamp > at.max_timestamp:
            at.max_timestamp = batch.max_timestamp
            at.max_timestamp_offset = relative
        if at.since_entry > interval:
            if offset_count >= room[0]:
                return index, offset_count, time_count, OFFSET_INDEX_FULL
            if relative <= at.last_offset:
                return index, offset_count, time_count, NOT_ASCENDING
            offset_entries[offset_count, 0] = relative
            offset_entries[offset_count, 1] = shift + batch.position
            offset_count += 1
            at.last_offset = relative
            if time_count >= room[1]:
                return index, offset_count, time_count, TIME_INDEX_FULL
            if at.max_timestamp_offset < at.last_timestamp_offset:
                return index, offset_count, time_count, NOT_ASCENDING
            if at.max_timestamp > at.last_timestamp:
                time_entries[time_count, 0] = at.max_timestamp
                time_entries[time_count, 1] = at.max_timestamp_offset
                time_count += 1
                at.last_timestamp = at.max_timestamp
                at.last_timestamp_offset = at.max_timestamp_offset
            at.since_entry = 0
        at.since_entry += batch["size"]  # by name: the attribute `size` of a NumPy scalar is 1
    return len(headers), offset_count, time_count, INDEXED


# The targets of a search.
OFFSET_AT_LEAST = 0  # the first batch whose last offset is not below the target
TIMESTAMP_AT_LEAST = 1  # the first batch whose largest timestamp is not below the target
LAST = 2  # the last whole batch
LARGEST_TIMESTAMP = 3  # the first batch with the largest timestamp, if that is above the one in found[0]

# How a search ended.
FOUND = 0
AT_END = 1  # past the last whole batch; for the last two targets, found[0] has the result if there is one
NEEDS_BYTES = 2  # the next header is not in the buffer
BROKEN = 3  # no batch starts here: its length or magic is impossible


@kernel(size=lambda _data, filled, *_: filled)
def seek(
    data: Bytes, filled: int, end: int, kind: int, target: int, found: BatchTable
) -> tuple[int, int, int]:
    """Go from header to header from data[0] on; found[0] gets the batch searched for, found[1] is scratch.

    data[:filled] has been read; the file ends at `end`, counted from data[0]. Bodies need not be in the
    buffer. A search for the largest timestamp starts with the one in found[0]. Returns (how it ended,
    position of the batch where it ended, headers seen).
    """
    position: Any = np.int64(0)  # a plain 0 has another type, for which Numba would compile again
    count = 0
    best: Any = found[0]
    while True:
        if end - position <= HEADER_SIZE_UP_TO_MAGIC:
            return AT_END, position, count
        if position + min(LOG_OVERHEAD + SMALLEST_V2, end - position) > filled:
            return NEEDS_BYTES, position, count
        length = load_i32(data, position + 8)
        magic = load_u8(data, position + MAGIC_AT)
        if length < SMALLEST_V0 or magic > 2:
            return BROKEN, position, count
        if (magic == 2 and length < SMALLEST_V2) or (magic == 1 and length < SMALLEST_V1):
            return BROKEN, position, count
        if length > end - position - LOG_OVERHEAD:
            return AT_END, position, count
        row: Any = found[1 if kind == LARGEST_TIMESTAMP else 0]
        row.position = position
        row.size = length + LOG_OVERHEAD
        row.magic = magic
        row.records_end = position + LOG_OVERHEAD + length
        row.valid = True
        if magic == 2:
            _read_v2(data, position, row)
        else:
            _read_legacy(data, position, magic, row)
        count += 1
        if kind == OFFSET_AT_LEAST:
            if row.last_offset >= target:
                return FOUND, position, count
        elif kind == TIMESTAMP_AT_LEAST:
            if row.max_timestamp >= target:
                return FOUND, position, count
        elif kind == LARGEST_TIMESTAMP and row.max_timestamp > best.max_timestamp:
            best.max_timestamp = row.max_timestamp
            best.last_offset = row.last_offset
        position += length + LOG_OVERHEAD
