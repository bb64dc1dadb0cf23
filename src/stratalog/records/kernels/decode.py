"""Decodes records: where each key, value and header is, and the record's offset and timestamp.

Nothing is copied here: a row of `RECORD` holds positions in the buffer, and the gather kernels copy what a
caller needs. So a count touches no value, and the cleaner reads only keys.

A decoder is resumable: it stops when the rows are full or enough bytes are decoded, and returns where to
continue, even in the middle of a batch. For any bytes, nothing outside [records_position, records_end) of a
batch is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.jit import kernel, rows_of
from stratalog.records.kernels.memory import Bytes, load_i32, load_i64, load_u8, wrapped_sum
from stratalog.records.kernels.walk import BatchTable

RECORD = rows_of(
    [
        ("offset", np.int64),
        ("timestamp", np.int64),
        ("key_position", np.int64),
        ("value_position", np.int64),
        ("headers_position", np.int64),
        ("key_size", np.int32),  # -1: null
        ("value_size", np.int32),
        ("headers_count", np.int32),
        (
            "headers_size",
            np.int32,
        ),  # the size of all headers with their length fields: an upper bound for their content
        ("batch", np.int32),  # row of the batch in its table
    ],
)

# The outcomes.
DONE = 0  # all batches are decoded
MORE = 1  # rows or bytes are full; call again
BAD_COUNT = 2  # a count of records or headers that is negative, or larger than the number of bytes left
BAD_VARINT = 3  # a variable-length number that does not end, or ends outside its record
BAD_SIZE = 4  # a size that reaches past the end of its record or batch
TRAILING = 5  # bytes after the last field of a record
LEFTOVER = 6  # bytes after the last record
SHORT = 7  # fewer records than the header counts
NESTED = 8  # an inner message that is compressed itself

LOG_APPEND_TIME = 8

RecordTable = NDArray[np.void]


@kernel
def varint(data: Bytes, position: int, end: int) -> tuple[Any, int]:
    """A zigzag number of at most five bytes at `position`; returns (value, next position), or (0, -1)."""
    value, position = _unsigned(data, position, end, 35)
    # Kafka keeps the low 32 bits, whatever is in the fifth byte.
    low = np.uint32(value & np.uint64(0xFFFFFFFF))
    return np.int64(np.int32((low >> np.uint32(1)) ^ -(low & np.uint32(1)))), position


@kernel
def varlong(data: Bytes, position: int, end: int) -> tuple[Any, int]:
    """A zigzag number of at most ten bytes at `position`; returns (value, next position), or (0, -1)."""
    value, position = _unsigned(data, position, end, 70)
    return np.int64((value >> np.uint64(1)) ^ -(value & np.uint64(1))), position


@kernel
def _unsigned(data: Bytes, position: int, end: int, bits: int) -> tuple[Any, int]:
    if position < end:  # nearly all numbers are sizes and deltas of one or two bytes
        first = np.uint64(load_u8(data, position))
        if first < np.uint64(0x80):
            return first, position + 1
        if position + 1 < end:
            second = np.uint64(load_u8(data, position + 1))
            if second < np.uint64(0x80):
                return (first & np.uint64(0x7F)) | (second << np.uint64(7)), position + 2
    shift = 0
    value = np.uint64(0)
    while position < end and shift < bits:
        byte = load_u8(data, position)
        position += 1
        value |= np.uint64(byte & 0x7F) << np.uint64(shift)
        if byte < 0x80:
            return value, position
        shift += 7
    return np.uint64(0), -1


@kernel
def _headers_end(data: Bytes, position: int, end: int, count: int) -> int:
    """Walk over `count` headers; returns their end, or the negated problem."""
    for _ in range(count):
        size, position = varint(data, position, end)
        if position < 0:
            return -BAD_VARINT
        if size < 0 or size > end - position:
            return -BAD_SIZE
        position += size
        size, position = varint(data, position, end)
        if position < 0:
            return -BAD_VARINT
        if size > end - position:
            return -BAD_SIZE
        position += max(size, 0)
    return position


def _bytes_in(batches: BatchTable) -> int:
    return int((batches["records_end"] - batches["records_position"]).sum())


# Nearly all bytes of a record may be headers, so the size of the records counts as well as their number.
@kernel(size=lambda _data, batches, *_: max(50 * int(batches["records_count"].sum()), _bytes_in(batches)))
def decode(
    data: Bytes,
    batches: BatchTable,
    rows: RecordTable,
    at: tuple[int, int, int],
    max_bytes: int,
    start_offset: int,
    last_offset: int,
) -> tuple[int, int, tuple[int, int, int]]:
    """Write a row for each record of these v2 batches with start_offset <= offset <= last_offset.

    `at` is (batch, how many of its records are done, position of its next record or 0), at first (0, 0, 0).
    Returns (rows written, outcome, at). If the outcome is MORE, `at` is where to continue. If it is a
    problem, `at` is the bad batch, and the rows written before it are good. Stops before the record that
    would exceed max_bytes, but not before the first.
    """
    index, record, position = at
    count = 0
    total = np.int64(0)
    while index < len(batches):
        batch = batches[index]
        end = batch.records_end
        if position == 0:
            position = batch.records_position
        base_offset = batch.base_offset
        base_timestamp = batch.base_timestamp
        max_timestamp = batch.max_timestamp
        append_time = batch.attributes & LOG_APPEND_TIME != 0
        records_count = np.int64(batch.records_count)
        if records_count < 0:
            return count, BAD_COUNT, (index, record, position)
        if records_count == 0:
            position = end  # Kafka does not read the bytes of a batch whose count is 0
        while record < records_count:
            here = (index, record, position)
            if count == len(rows):
                return count, MORE, here
            if position == end:
                return count, SHORT, here
            size, position = varint(data, position, end)
            if position < 0:
                return count, BAD_VARINT, here
            if size <= 0 or size > end - position:
                return count, BAD_SIZE, here
            if count and total + size > max_bytes:
                return count, MORE, here
            record_end = position + size
            position += 1  # the record's attributes, which are unused
            timestamp_delta, position = varlong(data, position, record_end)
            if position < 0:
                return count, BAD_VARINT, here
            offset_delta, position = varint(data, position, record_end)
            if position < 0:
                return count, BAD_VARINT, here
            key_size, key_position = varint(data, position, record_end)
            if key_position < 0:
                return count, BAD_VARINT, here
            if key_size > record_end - key_position:
                return count, BAD_SIZE, here
            value_size, value_position = varint(data, key_position + max(key_size, 0), record_end)
            if value_position < 0:
                return count, BAD_VARINT, here
            if value_size > record_end - value_position:
                return count, BAD_SIZE, here
            headers_count, headers_position = varint(data, value_position + max(value_size, 0), record_end)
            if headers_position < 0:
                return count, BAD_VARINT, here
            if headers_count < 0 or headers_count > record_end - headers_position:
                return count, BAD_COUNT, here
            position = headers_position
            if headers_count > 0:
                position = _headers_end(data, headers_position, record_end, headers_count)
                if position < 0:
                    return count, -position, here
            if position != record_end:
                return count, TRAILING, here
            record += 1
            offset = wrapped_sum(base_offset, offset_delta)
            if offset < start_offset or offset > last_offset:
                continue
            row = rows[count]
            row.offset = offset
            row.timestamp = max_timestamp if append_time else wrapped_sum(base_timestamp, timestamp_delta)
            row.key_position = key_position
            row.value_position = value_position
            row.headers_position = headers_position
            row.key_size = key_size
            row.value_size = value_size
            row.headers_count = headers_count
            row.headers_size = record_end - headers_position
            row.batch = index
            count += 1
            total += size
        if position != end:
            return count, LEFTOVER, (index, record, position)
        index += 1
        record = 0
        position = 0
    return count, DONE, (index, 0, 0)


@kernel(size=lambda rows: 50 * len(rows))
def sums(rows: RecordTable) -> tuple[Any, Any, Any, Any]:
    """(bytes of keys, bytes of values, headers, an upper bound for their bytes) of these rows."""
    # Without the compiler NumPy would keep 32 bits.
    keys, values, headers, header_bytes = np.int64(0), np.int64(0), np.int64(0), np.int64(0)
    for i in range(len(rows)):
        row = rows[i]
        keys += max(row.key_size, 0)
        values += max(row.value_size, 0)
        headers += row.headers_count
        header_bytes += row.headers_size
    return keys, values, headers, header_bytes


@kernel(size=lambda _data, batches, *_: _bytes_in(batches))
def decode_legacy(
    data: Bytes,
    batches: BatchTable,
    rows: RecordTable,
    at: tuple[int, int, int],
    max_bytes: int,
    start_offset: int,
    last_offset: int,
) -> tuple[int, int, tuple[int, int, int]]:
    """The same for v0 and v1: each batch is a run of plain entries from records_position to records_end.

    A plain message is a run of one entry. The reader has set base_offset to the number to add to the inner
    offsets (0 for a plain message), and for an unpacked wrapper max_timestamp to the wrapper's own time.
    """
    index, record, position = at
    count = 0
    total = np.int64(0)
    while index < len(batches):
        batch = batches[index]
        end = batch.records_end
        if record == 0:
            position = batch.records_position
        append_time = batch.magic == 1 and batch.attributes & LOG_APPEND_TIME != 0
        while position < end:
            here = (index, record, position)
            if count == len(rows):
                return count, MORE, here
            size, key_position, key_size, value_position, value_size = legacy_entry(data, position, end)
            if size < 0:
                return count, -size, here
            if load_u8(data, position + 17) & 7 != 0:
                return count, NESTED, here
            if count and total + size > max_bytes:
                return count, MORE, here
            offset = wrapped_sum(batch.base_offset, load_i64(data, position))
            magic = load_u8(data, position + 16)
            timestamp = load_i64(data, position + 18) if magic != 0 else np.int64(-1)
            position += size
            record += 1
            if offset < start_offset or offset > last_offset:
                continue
            row = rows[count]
            row.offset = offset
            row.timestamp = batch.max_timestamp if append_time and magic == 1 else timestamp
            row.key_position = key_position
            row.value_position = value_position
            row.headers_position = position
            row.key_size = key_size
            row.value_size = value_size
            row.headers_count = 0
            row.headers_size = 0
            row.batch = index
            count += 1
            total += size
        index += 1
        record = 0
        position = 0
    return count, DONE, (index, 0, 0)


@kernel(size=lambda *_: 100)
def legacy_entry(data: Bytes, position: int, end: int) -> tuple[Any, int, Any, int, Any]:
    """One v0 or v1 entry: (size, key position, key size, value position, value size), or (-problem, ...).

    Inside a wrapper, Kafka reads an entry with any other magic as v1 (LegacyRecord.keyOffset).
    """
    if end - position < 26:
        return -BAD_SIZE, 0, 0, 0, 0
    size: Any = np.int64(load_i32(data, position + 8))
    magic = load_u8(data, position + 16)
    if size > end - position - 12 or size < (14 if magic == 0 else 22):
        return -BAD_SIZE, 0, 0, 0, 0
    entry_end = position + 12 + size
    key_position = position + (22 if magic == 0 else 30)
    key_size: Any = np.int64(load_i32(data, key_position - 4))
    value_position = key_position + max(key_size, 0) + 4
    if value_position > entry_end:
        return -BAD_SIZE, 0, 0, 0, 0
    value_size: Any = np.int64(load_i32(data, value_position - 4))
    if value_size > entry_end - value_position:  # Kafka ignores bytes after the value
        return -BAD_SIZE, 0, 0, 0, 0
    return 12 + size, key_position, key_size, value_position, value_size


@kernel(size=lambda _data, position, end: end - position)
def inner_messages(data: Bytes, position: int, end: int) -> tuple[int, Any, int]:
    """(whole messages, offset of the last, its end) of an unpacked wrapper.

    The count is -1 if a length is too small for a message.

    As in Kafka's DataLogInputStream, an incomplete last message is ignored without an error.
    """
    count = 0
    last_offset: Any = np.int64(-1)
    while end - position >= 12:
        size: Any = np.int64(load_i32(data, position + 8))
        if size < 14:
            return -1, last_offset, position
        if size > end - position - 12:
            break
        last_offset = load_i64(data, position)
        position += 12 + size
        count += 1
    return count, last_offset, position
