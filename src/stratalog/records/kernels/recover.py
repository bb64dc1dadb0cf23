"""One pass over a piece of a segment: the walk, the indexes it should have, its producers and epochs.

The three kernels that it is made of meet in a table of a few rows, which stays in the CPU's first cache. Only
what needs memory or a second look comes back to Python before the piece is done: that is what lets a segment
of small batches be scanned at the speed of its checksums. Kafka: LogSegment.recover
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels import index as indexing
from stratalog.records.kernels import scan as gathering
from stratalog.records.kernels import walk as walking
from stratalog.records.kernels.index import Entries, ProgressTable, index_batches
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.scan import Table, gather
from stratalog.records.kernels.walk import BatchTable, walk

ROWS = 128  # of the table: 12 KiB

# How a piece ended. The first five are those of a walk (END, TORN, BAD_LENGTH, BAD_MAGIC; FULL never).
WRONG_CRC = 5
OFFSET_OVERFLOW = 6
NOT_ASCENDING = 7
NEEDS_ROOM = 8  # for producers, events, epochs or entries: go on from the position returned
MARKER = 9  # row 0 of the table is a control batch that only Python can read; it is in all else already

# Places in `facts`, which goes on from call to call.
BATCHES, NEXT_OFFSET, VALID_END, OFFSET_ENTRIES, TIME_ENTRIES = 0, 1, 2, 3, 4

_UNLIMITED = 2**31


@kernel
def recover(
    data: Bytes,
    start: int,
    end: int,
    shift: int,
    base_offset: int,
    interval: int,
    table: BatchTable,
    facts: NDArray[np.int64],
    indexes: tuple[ProgressTable, Entries, Entries],
    producers: tuple[
        NDArray[np.int64], NDArray[np.int32], Table, NDArray[np.int64], Table, NDArray[np.int64]
    ],
) -> tuple[int, int]:
    """Take in the good batches of data[start:end], which is byte `shift` of the file on.

    Returns (position of the first batch that is not taken in, how it ended). With a marker it is the position
    behind it; with a wrong checksum or offset, row 0 of the table is the batch that has it.
    """
    progress, offset_entries, time_entries = indexes
    counts, slots, producer_rows, recent, events, epochs = producers
    position = start
    before = progress.copy()
    while True:
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
            # Gathering stopped before indexing did: the entries behind that are taken back.
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
