"""Finds the first record at or after a time, in bytes of a log that are already in memory.

The record is nearly always in an uncompressed v2 batch, a few batches after the one that the index points to:
then one call is enough. In other cases the readers that know all formats continue from the batch where this
kernel stops.
"""

from __future__ import annotations

from typing import Any

from stratalog.records.kernels.decode import LOG_APPEND_TIME, varint, varlong
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import Bytes, load_i16, load_i32, load_i64, load_u8, wrapped_sum
from stratalog.records.kernels.walk import CODEC_MASK, LOG_OVERHEAD, MAGIC_AT, SMALLEST_V2

HEADER_SIZE = LOG_OVERHEAD + SMALLEST_V2


@kernel(size=lambda _data, filled, *_: filled)
def find_record(
    data: Bytes, filled: int, timestamp: int, start_offset: int
) -> tuple[bool, int, Any, Any, Any]:
    """The first record from start_offset on that is not before the timestamp, in data[:filled].

    A batch starts at data[0]. Returns (True, position of its batch, timestamp, offset, leader epoch); or
    (False, position, 0, 0, 0) if the batch at this position needs another reader: it is incomplete,
    compressed, of an old format or broken. Of the records before the result only size, timestamp and offset
    are read; records after it are not read.
    """
    position = 0
    while filled - position >= HEADER_SIZE:
        length = load_i32(data, position + 8)
        if load_u8(data, position + MAGIC_AT) != 2 or length < SMALLEST_V2:
            break
        if length > filled - position - LOG_OVERHEAD:
            break
        end = position + LOG_OVERHEAD + length
        base_offset = load_i64(data, position)
        max_timestamp = load_i64(data, position + 35)
        if max_timestamp < timestamp:
            position = end
            continue
        attributes = load_i16(data, position + 21)
        if attributes & CODEC_MASK != 0:
            break
        # A batch below start_offset may have the timestamp, but none of its records may be returned.
        if wrapped_sum(base_offset, load_i32(data, position + 23)) < start_offset:
            position = end
            continue
        count = load_i32(data, position + 57)
        at = position + HEADER_SIZE
        for _ in range(count):
            size, at = varint(data, at, end)
            if at < 0 or size <= 0 or size > end - at:
                return False, position, 0, 0, 0
            record_end = at + size
            timestamp_delta, at = varlong(data, at + 1, record_end)  # after the attributes, one byte
            if at < 0:
                return False, position, 0, 0, 0
            offset_delta, at = varint(data, at, record_end)
            if at < 0:
                return False, position, 0, 0, 0
            found = wrapped_sum(load_i64(data, position + 27), timestamp_delta)
            if attributes & LOG_APPEND_TIME != 0:
                found = max_timestamp
            offset = wrapped_sum(base_offset, offset_delta)
            if found >= timestamp and offset >= start_offset:
                return True, position, found, offset, load_i32(data, position + 12)
            at = record_end
        if count < 0 or (count > 0 and at != end):
            break
        position = end
    return False, position, 0, 0, 0
