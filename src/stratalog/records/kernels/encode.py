"""Encodes columns, or values alone, into the records section of a v2 batch: the inverse of the decoder."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX, INT32_MIN
from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.jit import inlined, kernel
from stratalog.records.kernels.memory import Bytes, copy_bytes

NEEDS_ROOM = -1
HEADER_SIZE = 61  # of a batch; its CRC is at byte 17 and covers everything from byte 21 on
NOT_WRITTEN = -1
LIST_TAG, BYTES_TAG = ord("["), ord("s")
VALUE_OVERHEAD = 19  # the most bytes that `encode_dumped` adds to a value


class RecordColumns(NamedTuple):
    """Records as flat arrays, Arrow's layout with a byte for each validity bit.

    The key of record i is keys[key_ends[i]:key_ends[i + 1]], its headers are numbers header_ends[i] to
    header_ends[i + 1] - 1.
    """

    offsets: NDArray[np.int64]
    timestamps: NDArray[np.int64]
    keys: Bytes
    key_ends: NDArray[np.int32]
    key_valid: NDArray[np.bool_]
    values: Bytes
    value_ends: NDArray[np.int32]
    value_valid: NDArray[np.bool_]
    header_ends: NDArray[np.int32]
    header_keys: Bytes
    header_key_ends: NDArray[np.int32]
    header_values: Bytes
    header_value_ends: NDArray[np.int32]
    header_value_valid: NDArray[np.bool_]


@inlined
def _varint_size(value: Any) -> int:
    left = np.uint64((value << 1) ^ (value >> 63))
    size = 1
    while left >= np.uint64(0x80):
        left >>= np.uint64(7)
        size += 1
    return size


@inlined
def _put_varint(out: Bytes, position: int, value: Any) -> int:
    left = np.uint64((value << 1) ^ (value >> 63))
    while left >= np.uint64(0x80):
        out[position] = np.uint8((left & np.uint64(0x7F)) | np.uint64(0x80))
        left >>= np.uint64(7)
        position += 1
    out[position] = np.uint8(left)
    return position + 1


@inlined
def _field_size(start: int, end: int, valid: bool) -> int:
    if not valid:
        return 1
    size: Any = np.int64(end) - np.int64(start)  # without the compiler NumPy would keep 32 bits
    return _varint_size(size) + size  # type: ignore[no-any-return]


@inlined
def _put_field(out: Bytes, position: int, data: Bytes, start: int, end: int, valid: bool) -> int:
    if not valid:
        return _put_varint(out, position, np.int64(-1))
    size: Any = np.int64(end) - np.int64(start)
    position = _put_varint(out, position, size)
    copy_bytes(out, position, data, start, size)
    position += size
    return position


@kernel
def _body_size(columns: Any, i: int, timestamp_delta: int, offset_delta: int) -> int:
    """Bytes of record i after its length field."""
    size = 1 + _varint_size(timestamp_delta) + _varint_size(offset_delta)
    size += _field_size(columns.key_ends[i], columns.key_ends[i + 1], columns.key_valid[i])
    size += _field_size(columns.value_ends[i], columns.value_ends[i + 1], columns.value_valid[i])
    first, last = columns.header_ends[i], columns.header_ends[i + 1]
    size += _varint_size(np.int64(last - first))
    for h in range(first, last):
        size += _field_size(columns.header_key_ends[h], columns.header_key_ends[h + 1], True)
        size += _field_size(
            columns.header_value_ends[h], columns.header_value_ends[h + 1], columns.header_value_valid[h]
        )
    return size


def _size(columns: RecordColumns, start: int, stop: int) -> int:
    ends = columns.header_ends
    return 50 * (stop - start) + 50 * int(ends[stop] - ends[start])


@kernel(size=lambda columns, start, stop, *_: _size(columns, start, stop))
def encode(
    columns: RecordColumns,
    start: int,
    stop: int,
    base_offset: int,
    base_timestamp: int,
    out: Bytes,
    position: int,
    max_size: int,
) -> tuple[int, int]:
    """Write records [start, stop) to out[position:], as many as fit in max_size bytes but at least one.

    It also stops at an offset that is too far from the base.

    Returns (the first record that was not written, the position after the last). If `out` is too small, it is
    (NEEDS_ROOM, how many bytes the records from `start` to the one that did not fit need after `position`):
    then call again with a larger `out`.
    """
    begin = position
    i = start
    while i < stop:
        timestamp_delta: Any = columns.timestamps[i] - base_timestamp
        offset_delta: Any = columns.offsets[i] - base_offset
        body_size: Any = np.int64(_body_size(columns, i, timestamp_delta, offset_delta))
        size = _varint_size(body_size) + body_size
        if i > start and position - begin + size > max_size:
            break
        if offset_delta < INT32_MIN or offset_delta > INT32_MAX:
            break
        if size > len(out) - position:
            return NEEDS_ROOM, position - begin + size
        position = _put_varint(out, position, body_size)
        out[position] = 0
        position = _put_varint(out, position + 1, timestamp_delta)
        position = _put_varint(out, position, offset_delta)
        position = _put_field(
            out, position, columns.keys, columns.key_ends[i], columns.key_ends[i + 1], columns.key_valid[i]
        )
        position = _put_field(
            out,
            position,
            columns.values,
            columns.value_ends[i],
            columns.value_ends[i + 1],
            columns.value_valid[i],
        )
        first, last = columns.header_ends[i], columns.header_ends[i + 1]
        position = _put_varint(out, position, np.int64(last - first))
        for h in range(first, last):
            position = _put_field(
                out,
                position,
                columns.header_keys,
                columns.header_key_ends[h],
                columns.header_key_ends[h + 1],
                True,
            )
            position = _put_field(
                out,
                position,
                columns.header_values,
                columns.header_value_ends[h],
                columns.header_value_ends[h + 1],
                columns.header_value_valid[h],
            )
        i += 1
    return i, position


@inlined
def _dumped_size(dump: Bytes, position: int) -> Any:
    """A number of four bytes, the lowest first."""
    size = np.int64(dump[position]) | np.int64(dump[position + 1]) << 8
    return size | np.int64(dump[position + 2]) << 16 | np.int64(dump[position + 3]) << 24


@kernel(size=lambda _dump, count, *_: 50 * count)
def encode_dumped(dump: Bytes, count: int, out: Bytes, position: int) -> int:
    """Write a record for each value to out[position:]: no key, no headers, all with the base timestamp.

    `dump` is what `marshal` writes for a list of `count` bytes objects: the byte `[` and their number; then
    for each value the byte `s`, its size and its bytes. Offsets count from the base offset on. Returns the
    position after the last record, or NOT_WRITTEN if the dump is anything else, or if `out` has less room
    than the values and VALUE_OVERHEAD bytes for each of them.
    """
    if len(dump) < 5 or dump[0] != LIST_TAG or _dumped_size(dump, 1) != count:
        return NOT_WRITTEN
    if position < 0 or len(out) - position < len(dump) - 5 + (VALUE_OVERHEAD - 5) * count:
        return NOT_WRITTEN
    at: Any = np.int64(5)
    for i in range(count):
        if len(dump) - at < 5 or dump[at] != BYTES_TAG:
            return NOT_WRITTEN
        size = _dumped_size(dump, at + 1)
        at += 5
        if size > len(dump) - at:
            return NOT_WRITTEN
        offset_delta: Any = np.int64(i)
        # The 4: one byte each for attributes, timestamp delta, null key and number of headers.
        position = _put_varint(out, position, 4 + _varint_size(offset_delta) + _varint_size(size) + size)
        out[position] = 0
        out[position + 1] = 0
        position = _put_varint(out, position + 2, offset_delta)
        out[position] = 1
        position = _put_varint(out, position + 1, size)
        copy_bytes(out, position, dump, at, size)
        position += size
        out[position] = 0
        position += 1
        at += size
    return position if at == len(dump) else NOT_WRITTEN


@kernel(size=lambda batch: len(batch) // 8)
def seal(batch: Bytes) -> None:
    """Compute the CRC of the v2 batch that fills this array, and store it in the header."""
    if len(batch) >= HEADER_SIZE:
        crc: Any = crc32c(batch, 21, len(batch))
        for i in range(4):
            batch[17 + i] = np.uint8((crc >> np.uint32(8 * (3 - i))) & np.uint32(0xFF))
