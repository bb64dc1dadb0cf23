"""Finds batches after damage, when no length leads to the next batch: it may start at any byte.

The checksum covers neither offset, length nor epoch, so these must fit what may follow here. The checksum is
computed only if they do, so the search takes little longer than a look at every byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import Bytes, load_i32, load_i64, load_u8, load_u32, wrapped_difference
from stratalog.records.kernels.walk import CONTROL, LOG_OVERHEAD, MAGIC_AT, SMALLEST_V2, BatchTable

# How a search ended.
FOUND = 0  # a batch starts at the position, and its checksum matches
NEEDS = 1  # a batch may start at the position, but it reaches past what is in the buffer
NOTHING = 2  # no batch starts before the position

# Why `accept` returned.
DONE = 0
BROKEN = 1  # the row's checksum is wrong: nothing after it is known to be a batch
MARKER = 2  # a control batch of a producer, which Python must read

# Facts of the last batch that was kept: indexes in `last`.
OFFSET, EPOCH = 0, 1

HEADER_SIZE = 61


@kernel(size=lambda _data, start, filled, *_: 4 * (filled - start))
def find_start(
    data: Bytes, start: int, filled: int, end: int, last: NDArray[np.int64], next_base: int
) -> tuple[int, int]:
    """Search data[start:filled] for the first batch that may follow the `last` one; returns (position, how).

    `end` is the end of the file as a position in the buffer; it may be past the buffer's end. The offsets of
    a batch must be above last[OFFSET] and below `next_base`, its epoch not below last[EPOCH]. Only v2 batches
    are found: older messages have too few fields to recognise them.
    """
    for position in range(start, filled - HEADER_SIZE + 1):
        if load_u8(data, position + MAGIC_AT) != 2:
            continue
        length = load_i32(data, position + 8)
        if length < SMALLEST_V2 or length > end - position - LOG_OVERHEAD:
            continue
        base_offset = load_i64(data, position)
        if base_offset <= last[OFFSET] or base_offset >= next_base:
            continue
        delta = load_i32(data, position + 23)
        if delta < 0 or delta >= wrapped_difference(next_base, base_offset):
            continue
        if load_i32(data, position + 12) < last[EPOCH]:
            continue
        batch_end = position + LOG_OVERHEAD + length
        if batch_end > filled:
            return position, NEEDS
        if crc32c(data, position + 21, batch_end) == load_u32(data, position + 17):
            return position, FOUND
    return max(start, filled - HEADER_SIZE + 1), NOTHING


@kernel(size=lambda headers, *_: 100 * len(headers))
def accept(
    headers: BatchTable,
    start: int,
    last: NDArray[np.int64],
    next_base: int,
    keep: NDArray[np.bool_],
    passes_marker: bool,
) -> tuple[int, int]:
    """Decide which rows from `start` on to keep; the walk has checked their checksums.

    Returns (the first undecided row, why).

    A row that may follow the `last` batch is kept, and becomes the last batch. `passes_marker` is set if the
    row at `start` is a marker that was already read.
    """
    for index in range(start, len(headers)):
        batch: Any = headers[index]
        if not batch.valid:
            return index, BROKEN
        keep[index] = False
        if batch.magic != 2 or batch.partition_leader_epoch < last[EPOCH]:
            continue
        if batch.base_offset <= last[OFFSET] or batch.base_offset >= next_base:
            continue
        if batch.last_offset < batch.base_offset or batch.last_offset >= next_base:
            continue
        if batch.attributes & CONTROL and batch.producer_id >= 0 and not (passes_marker and index == start):
            return index, MARKER
        keep[index] = True
        last[OFFSET] = batch.last_offset
        last[EPOCH] = batch.partition_leader_epoch
    return len(headers), DONE
