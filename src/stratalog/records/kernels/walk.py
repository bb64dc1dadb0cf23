"""Goes through a buffer from batch to batch (the walk), and checks every checksum.

Kafka's own walk is `FileLogInputStream.nextBatch` and `RecordBatch.ensureValid`; the rules are in
docs/formats/record-batch.md. The result is one row of `BATCH` for each whole batch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.kernels.crc32c import checksum_us, crc32_zlib, crc32c
from stratalog.records.kernels.jit import kernel, rows_of
from stratalog.records.kernels.memory import (
    Bytes,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
    wrapped_sum,
)

# A row for each batch; the names are Kafka's. `position` is where the batch starts in the buffer, `size`
# counts its twelve leading bytes too. Fields that a format does not have are -1 (leader epoch, producer,
# sequence). The first offset and the count of a v0 or v1 wrapper are unknown until it is unpacked:
# base_offset is then its (last) offset and records_count is -1.
BATCH = rows_of(
    [
        ("position", np.int64),
        ("base_offset", np.int64),
        ("last_offset", np.int64),
        ("base_timestamp", np.int64),
        ("max_timestamp", np.int64),
        ("producer_id", np.int64),
        ("records_position", np.int64),
        ("records_end", np.int64),
        ("size", np.int32),
        ("partition_leader_epoch", np.int32),
        ("base_sequence", np.int32),
        ("records_count", np.int32),
        ("crc", np.uint32),
        ("attributes", np.int16),
        ("producer_epoch", np.int16),
        ("magic", np.int8),
        ("valid", np.bool_),
    ],
)

# Why a walk stopped.
END = 0  # exactly at the end of the last batch
TORN = 1  # the last batch is not whole, or fewer bytes are left than any batch has
BAD_LENGTH = 2  # a length that no batch can have; zeros end up here
BAD_MAGIC = 3  # neither 0, 1 nor 2
FULL = 4  # no row is left in the table, or enough bytes are walked; continue from the position returned

LOG_OVERHEAD = 12
MAGIC_AT = 16
HEADER_SIZE_UP_TO_MAGIC = 17
SMALLEST_V0 = 14
SMALLEST_V1 = 22
SMALLEST_V2 = 49  # the 61 bytes of the header without the twelve that the length does not count
LARGEST = INT32_MAX - LOG_OVERHEAD  # of `batch_length`: with its twelve bytes, a batch fits into a segment
CODEC_MASK = 7
LOG_APPEND_TIME = 1 << 3
CONTROL = 1 << 5
SAMPLED_BATCHES = 64
MIXED = 2  # batches have different types of timestamps

BatchTable = NDArray[np.void]


def plain_us(data: Bytes, start: int, end: int) -> int:
    """About how many microseconds plain Python takes for the batches of data[start:end]: 50 and a checksum.

    It takes the same for a small batch as for a large one, so the sizes of the first batches are looked up.
    """
    position, count = start, 0
    while count < SAMPLED_BATCHES and position + LOG_OVERHEAD <= end:
        length = int.from_bytes(data[position + 8 : position + LOG_OVERHEAD].tobytes(), "big")
        position += LOG_OVERHEAD + max(length, SMALLEST_V0)
        count += 1
    size = (position - start) // max(count, 1)
    return (1 + (end - start) // max(size, 1)) * (50 + checksum_us(size))


@kernel(
    size=lambda _data, start, end, *_: end - start,
    plain_us=lambda data, start, end, *_: plain_us(data, start, end),
)
def walk(
    data: Bytes, start: int, end: int, table: BatchTable, check_crc: bool, max_size: int
) -> tuple[int, int, int]:
    """Write a row to `table` for each whole batch in data[start:end].

    Returns (rows written, position just past the last batch, why it stopped). A batch with a wrong checksum
    has valid = False and the walk continues: its length was plausible. With check_crc off every batch
    counts as valid.
    """
    count = 0
    position = start
    while True:
        if position == end:
            return count, position, END
        # If exactly 17 bytes are left, Kafka reads no batch, although everything up to magic would fit.
        if end - position <= HEADER_SIZE_UP_TO_MAGIC:
            return count, position, TORN
        length = load_i32(data, position + 8)
        if length < SMALLEST_V0:
            return count, position, BAD_LENGTH
        magic = load_u8(data, position + MAGIC_AT)
        if magic > 2:
            return count, position, BAD_MAGIC
        if (magic == 2 and length < SMALLEST_V2) or (magic == 1 and length < SMALLEST_V1):
            return count, position, BAD_LENGTH
        if length > end - position - LOG_OVERHEAD:
            return count, position, TORN
        if length > LARGEST:
            return count, position, BAD_LENGTH
        if count == len(table) or position - start >= max_size:
            return count, position, FULL
        row: Any = table[count]  # a record with fields to Numba, which mypy does not know
        row.position = position
        row.size = length + LOG_OVERHEAD
        row.magic = magic
        row.records_end = position + LOG_OVERHEAD + length
        if magic == 2:
            _read_v2(data, position, row)
        else:
            _read_legacy(data, position, magic, row)
        if check_crc:
            row.valid = row.crc == (
                crc32c(data, position + 21, row.records_end)
                if magic == 2
                else crc32_zlib(data, position + 16, row.records_end)
            )
        else:
            row.valid = True
        count += 1
        position += length + LOG_OVERHEAD


@kernel(size=lambda batches, *_: 100 * len(batches))
def survey(batches: BatchTable, start: int) -> tuple[int, bool, int, bool]:
    """What a reader must know about the rows from `start` on before it decodes them.

    Returns (the first row with a wrong checksum, or the number of rows; whether a batch before it is a
    control batch; the end of the run of batches of one family, v2 or older, whatever their checksums; whether
    a batch of the run is compressed). One call costs less than two NumPy operations on a column.
    """
    good = len(batches)
    has_control = False
    run_end = len(batches)
    has_codec = False
    for i in range(start, len(batches)):
        row = batches[i]
        is_v2 = row.magic == 2
        if not row.valid:
            good = min(good, i)
        elif i < good and is_v2 and row.attributes & CONTROL:
            has_control = True
        if i < run_end:
            if is_v2 != (batches[start].magic == 2):
                run_end = i
            elif row.attributes & CODEC_MASK:
                has_codec = True
    return good, has_control, run_end, has_codec


@kernel(size=lambda batches, *_: 100 * len(batches))
def choose(
    batches: BatchTable, start_offset: int, last_offset: int, drop_control: bool, keep: NDArray[np.bool_]
) -> int:
    """Mark the batches that may have records of [start_offset, last_offset]; returns how many these are.

    The first offset of a legacy wrapper is not known, because it is inside. Only a v2 batch can be a control
    batch.
    """
    count = 0
    for i in range(len(batches)):
        row = batches[i]
        is_kept = row.last_offset >= start_offset
        if row.magic == 2:
            is_kept &= row.base_offset <= last_offset and not (drop_control and row.attributes & CONTROL)
        keep[i] = is_kept
        count += is_kept
    return count


@kernel(size=lambda batches, *_: 100 * len(batches))
def ascend(batches: BatchTable, seen_offset: int) -> tuple[bool, int]:
    """Whether each batch begins after the last offset of the one before, and the first after `seen_offset`.

    Also returns the `seen_offset` for the batches that follow.
    """
    is_ascending = True
    for i in range(len(batches)):
        is_ascending &= batches[i].base_offset > seen_offset
        seen_offset = batches[i].last_offset
    return is_ascending, seen_offset


@kernel(size=lambda batches: 100 * len(batches))
def run_facts(batches: BatchTable) -> tuple[int, int]:
    """(the sum of the record counts in the headers, the timestamp type of all batches or MIXED).

    The type is a number of `TimestampType`: -1 for v0, which has no timestamps. Negative counts are not
    added.
    """
    records_count: Any = np.int64(0)  # without the compiler NumPy would keep 32 bits
    timestamp_type = MIXED
    for i in range(len(batches)):
        row = batches[i]
        records_count += max(row.records_count, 0)
        own_type = -1 if row.magic == 0 else 1 if row.attributes & LOG_APPEND_TIME else 0
        if i == 0:
            timestamp_type = own_type
        elif own_type != timestamp_type:
            timestamp_type = MIXED
    return records_count, timestamp_type


@kernel
def _read_v2(data: Bytes, position: int, row: Any) -> None:
    base_offset = load_i64(data, position)
    row.base_offset = base_offset
    row.partition_leader_epoch = load_i32(data, position + 12)
    row.crc = load_u32(data, position + 17)
    row.attributes = load_i16(data, position + 21)
    row.last_offset = wrapped_sum(base_offset, load_i32(data, position + 23))
    row.base_timestamp = load_i64(data, position + 27)
    row.max_timestamp = load_i64(data, position + 35)
    row.producer_id = load_i64(data, position + 43)
    row.producer_epoch = load_i16(data, position + 51)
    row.base_sequence = load_i32(data, position + 53)
    row.records_count = load_i32(data, position + 57)
    row.records_position = position + 61


@kernel
def _read_legacy(data: Bytes, position: int, magic: int, row: Any) -> None:
    offset = load_i64(data, position)
    attributes = load_u8(data, position + 17)
    timestamp = load_i64(data, position + 18) if magic == 1 else np.int64(-1)
    row.base_offset = offset
    row.last_offset = offset
    row.partition_leader_epoch = -1
    row.crc = load_u32(data, position + 12)
    row.attributes = attributes
    row.base_timestamp = timestamp
    row.max_timestamp = timestamp
    row.producer_id = -1
    row.producer_epoch = -1
    row.base_sequence = -1
    row.records_count = 1 if attributes & CODEC_MASK == 0 else -1
    row.records_position = position  # the decoder reads the whole entry, its offset included
