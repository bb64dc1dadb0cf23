"""Copies keys, values and headers to Arrow's buffers: 32-bit offsets, bytes, validity bits.

The caller has sized the outputs from the decoder's sums; positions and sizes come from the decoder, so every
range is inside `data`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.limits import MAX_MS
from stratalog.records.kernels.decode import RecordTable, varint
from stratalog.records.kernels.jit import kernel
from stratalog.records.kernels.memory import Bytes, copy_bytes

ArrowOffsets = NDArray[np.int32]

KEY, VALUE = 0, 1


def headers_work(rows: RecordTable) -> int:
    """What to add to `size` of a kernel (`jit.py`) that goes through the headers one by one."""
    return int(100 * rows["headers_count"].sum() + rows["headers_size"].sum())


@kernel(size=lambda _data, rows, *_: 100 * len(rows))
def gather(
    data: Bytes, rows: RecordTable, which: int, ends: ArrowOffsets, out: Bytes, validity: Bytes
) -> int:
    """Copy the key or the value of each row to `out`; returns how many are null.

    `ends` gets Arrow's n + 1 offsets, `validity` its bits (it is as long as the rows need).
    """
    written = 0
    nulls = 0
    ends[0] = 0
    bits = np.uint8(0)
    for i in range(len(rows)):
        row = rows[i]
        if which == KEY:
            position, size = row.key_position, row.key_size
        else:
            position, size = row.value_position, row.value_size
        if size >= 0:
            bits |= np.uint8(1 << (i & 7))
            copy_bytes(out, written, data, position, size)
            written += size
        else:
            nulls += 1
        ends[i + 1] = written
        if i & 7 == 7:
            validity[i >> 3] = bits
            bits = np.uint8(0)
    if len(rows) & 7:
        validity[len(rows) >> 3] = bits
    return nulls


@kernel(size=lambda _data, rows, *_: 200 * len(rows))
def gather_plain(
    data: Bytes,
    rows: RecordTable,
    key_ends: ArrowOffsets,
    keys: Bytes,
    value_ends: ArrowOffsets,
    values: Bytes,
    offsets: NDArray[np.int64],
    micros: NDArray[np.int64],
) -> bool:
    """Copy keys, values, offsets and times in one pass over the rows, which is faster than one pass each.

    Offsets and times are left out if their array is empty. Returns False at the first null; then the output
    is unusable: call the kernel of each column.
    """
    with_offsets = len(offsets) > 0
    with_micros = len(micros) > 0
    key_bytes = 0
    value_bytes = 0
    key_ends[0] = 0
    value_ends[0] = 0
    for i in range(len(rows)):
        row = rows[i]
        if row.key_size < 0 or row.value_size < 0:
            return False
        copy_bytes(keys, key_bytes, data, row.key_position, row.key_size)
        key_bytes += row.key_size
        key_ends[i + 1] = key_bytes
        copy_bytes(values, value_bytes, data, row.value_position, row.value_size)
        value_bytes += row.value_size
        value_ends[i + 1] = value_bytes
        if with_offsets:
            offsets[i] = row.offset
        if with_micros:
            micros[i] = _micros(row.timestamp)
    return True


@kernel(size=lambda _data, rows, *_: 400 * len(rows) + headers_work(rows))
def gather_headers(
    data: Bytes,
    rows: RecordTable,
    ends: ArrowOffsets,
    validity: Bytes,
    key_ends: ArrowOffsets,
    keys: Bytes,
    value_ends: ArrowOffsets,
    values: Bytes,
    value_validity: Bytes,
) -> tuple[int, int, Any]:
    """Copy the headers of all rows; returns (rows without any, null values, all keys are ASCII).

    Spark's Kafka source gives null, not an empty list, to a record without headers, and so does this. The
    decoder has checked these bytes, so counts and sizes are right.
    """
    count = 0
    bare = 0
    nulls = 0
    key_bytes = 0
    value_bytes = 0
    high = np.uint8(0)
    ends[0] = 0
    key_ends[0] = 0
    value_ends[0] = 0
    for i in range(len(validity)):
        validity[i] = 0
    for i in range(len(value_validity)):
        value_validity[i] = 0
    for i in range(len(rows)):
        row = rows[i]
        position = row.headers_position
        end = len(data)
        if row.headers_count > 0:
            validity[i >> 3] |= np.uint8(1 << (i & 7))
        else:
            bare += 1
        for _ in range(row.headers_count):
            size, position = varint(data, position, end)
            copy_bytes(keys, key_bytes, data, position, size)
            for k in range(key_bytes, key_bytes + size):
                high |= keys[k]
            key_bytes += size
            position += size
            size, position = varint(data, position, end)
            if size >= 0:
                value_validity[count >> 3] |= np.uint8(1 << (count & 7))
                copy_bytes(values, value_bytes, data, position, size)
                value_bytes += size
                position += size
            else:
                nulls += 1
            count += 1
            key_ends[count] = key_bytes
            value_ends[count] = value_bytes
        ends[i + 1] = count
    return bare, nulls, high < 0x80


@kernel(size=lambda rows, _: 20 * len(rows))
def gather_offsets(rows: RecordTable, out: NDArray[np.int64]) -> None:
    """Copy the offset of each row; takes a third of NumPy's time."""
    for i in range(len(rows)):
        out[i] = rows[i].offset


@kernel(size=lambda rows, _: 20 * len(rows))
def gather_micros(rows: RecordTable, out: NDArray[np.int64]) -> None:
    """Timestamps in microseconds; milliseconds that would overflow are clamped to int64."""
    for i in range(len(rows)):
        out[i] = _micros(rows[i].timestamp)


@kernel
def _micros(value: Any) -> Any:
    if value > MAX_MS:
        value = MAX_MS
    elif value < -MAX_MS:
        value = -MAX_MS
    return value * 1000
