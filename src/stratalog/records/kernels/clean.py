"""Decides what compaction keeps of a run of batches, and writes it, in three calls for the whole run.

`judge_batches` decides for each batch, `judge_records` for each record. `write_batches` copies the batches
that stay as they are, rewrites those that lose records and leaves out the rest. A v2 batch keeps its offsets
even if it loses records, so that sequences and the log's end do not change. Kafka: MemoryRecords.filterTo,
Cleaner.cleanInto
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from stratalog.records.kernels.crc32c import crc32c
from stratalog.records.kernels.decode import LOG_APPEND_TIME, RecordTable
from stratalog.records.kernels.encode import _put_varint, _varint_size
from stratalog.records.kernels.jit import inlined, kernel, rows_of
from stratalog.records.kernels.memory import Bytes, copy_bytes
from stratalog.records.kernels.walk import CODEC_MASK, CONTROL, LOG_OVERHEAD, BatchTable

HEADER_SIZE = 61
TRANSACTIONAL = 1 << 4
DELETE_HORIZON = 1 << 6
# A rewritten record has at most this many more bytes: the delta of its timestamp may count from the delete
# horizon, and each fixed-width field of an old message becomes a varint of at most five bytes.
GROWTH_OF_A_RECORD = 40

# The verdict on a batch; one row for each.
VERDICT = rows_of(
    [
        ("can_discard", np.bool_),  # the caller sets it: aborted data, or an empty transaction's marker
        ("is_deleted", np.bool_),  # removed without reading its records
        ("keeps_empty", np.bool_),  # its header stays even if it loses all records
        ("drops_records", np.bool_),
        ("ends_empty_txn", np.bool_),  # a marker whose transaction has no data left: it gets a horizon
        ("has_tombstone", np.bool_),  # among the records that stay
        ("first_row", np.int64),
        ("rows_count", np.int64),
        ("kept_count", np.int64),
    ],
)
Verdicts = NDArray[np.void]

# What each active producer wrote last, by producer id.
LAST_RECORD = rows_of(
    [
        ("producer_id", np.int64),
        ("last_data_offset", np.int64),  # -1: a marker only
        ("producer_epoch", np.int16),
    ],
)


@kernel
def judge_batches(
    batches: BatchTable,
    rows: RecordTable,
    last_records: NDArray[np.void],
    end_of_round: int,
    now_ms: int,
    verdicts: Verdicts,
) -> None:
    """Fill in the verdicts, whose `can_discard` the caller has set."""
    row = 0
    for index in range(len(batches)):
        batch: Any = batches[index]
        verdict: Any = verdicts[index]
        verdict.first_row = row
        while row < len(rows) and rows[row].batch == index:
            row += 1
        verdict.rows_count = row - verdict.first_row
        verdict.kept_count = 0
        verdict.has_tombstone = False
        is_control = batch.magic == 2 and batch.attributes & CONTROL != 0
        drops = verdict.can_discard
        if is_control:
            has_horizon = batch.attributes & DELETE_HORIZON != 0
            drops = verdict.can_discard and has_horizon and batch.base_timestamp <= now_ms
        # These batches keep their headers: a producer's last batch shows its next sequence, and the last
        # batch of the cleaning shows where the log ends.
        verdict.keeps_empty = batch.last_offset + 1 == end_of_round or _is_last_record(batch, last_records)
        verdict.drops_records = drops
        verdict.is_deleted = drops and not verdict.keeps_empty
        verdict.ends_empty_txn = verdict.can_discard and is_control


@kernel
def _is_last_record(batch: Any, last_records: NDArray[np.void]) -> bool:
    if batch.producer_id < 0:
        return False
    low, high = 0, len(last_records)
    while low < high:
        middle = (low + high) // 2
        if last_records[middle].producer_id < batch.producer_id:
            low = middle + 1
        else:
            high = middle
    if low == len(last_records) or last_records[low].producer_id != batch.producer_id:
        return False
    last: Any = last_records[low]
    if last.last_data_offset >= 0:
        return bool(last.last_data_offset == batch.last_offset)
    return bool(batch.attributes & CONTROL != 0 and batch.producer_epoch == last.producer_epoch)


@kernel
def judge_records(
    batches: BatchTable,
    rows: RecordTable,
    latest_for_key: NDArray[np.int64],
    latest_offset: int,
    now_ms: int,
    keeps_old_tombstones: bool,
    verdicts: Verdicts,
    keep: NDArray[np.bool_],
) -> int:
    """Decide for each record whether it stays, and count the kept records of each batch.

    `latest_for_key` is the map's offset for the key of each row, `latest_offset` the last offset in the map.
    Returns how many records are removed because they have no key.
    """
    without_key = 0
    for index in range(len(batches)):
        batch: Any = batches[index]
        verdict: Any = verdicts[index]
        first = verdict.first_row
        last = first + verdict.rows_count
        if verdict.drops_records:
            for row in range(first, last):
                keep[row] = False
            continue
        is_control = batch.magic == 2 and batch.attributes & CONTROL != 0
        keeps_tombstones = keeps_old_tombstones
        if batch.magic == 2:
            keeps_tombstones = batch.attributes & DELETE_HORIZON == 0 or now_ms < batch.base_timestamp
        kept = 0
        for row in range(first, last):
            offset = rows[row].offset
            is_kept = True
            if not is_control and offset <= latest_offset:
                if rows[row].key_size < 0:
                    without_key += 1
                    is_kept = False
                else:
                    is_kept = offset >= latest_for_key[row] and (
                        rows[row].value_size >= 0 or keeps_tombstones
                    )
            keep[row] = is_kept
            if is_kept:
                kept += 1
                if rows[row].value_size < 0:
                    verdict.has_tombstone = True
        verdict.kept_count = kept
    return without_key


@kernel
def write_batches(
    original: Bytes,
    data: Bytes,
    batches: BatchTable,
    rows: RecordTable,
    verdicts: Verdicts,
    keep: NDArray[np.bool_],
    horizon_ms: int,
    out: Bytes,
    to_compress: NDArray[np.int64],
) -> tuple[int, int, int]:
    """Write what is kept of these batches to `out`, which has enough room.

    `original` has the batches as they are on disk, `data` their unpacked records. A rewritten batch that has
    a codec is written uncompressed, and its start and end in `out` go to `to_compress`. Returns (bytes
    written, batches to compress, a batch that cannot be written, or -1). Such a batch is an old message that
    must stay as an empty batch, which old formats do not have.
    """
    position = 0
    pending = 0
    for index in range(len(batches)):
        batch: Any = batches[index]
        verdict: Any = verdicts[index]
        if verdict.is_deleted:
            continue
        if verdict.kept_count == 0:
            if verdict.keeps_empty:
                if batch.magic < 2:
                    return position, pending, index
                _write_empty(original, batch, out, position)
                position += HEADER_SIZE
            continue
        has_horizon = batch.magic == 2 and batch.attributes & DELETE_HORIZON != 0
        needs_horizon = (verdict.has_tombstone or verdict.ends_empty_txn) and not has_horizon
        if batch.magic == 2 and verdict.kept_count == verdict.rows_count and not needs_horizon:
            size: Any = np.int64(batch["size"])  # by name: the attribute `size` of a NumPy scalar is 1
            copy_bytes(out, position, original, batch.position, size)
            position += size
            continue
        start = position
        position = _write_anew(
            data, batch, rows, verdict, keep, horizon_ms if needs_horizon else -1, out, position
        )
        if batch.attributes & CODEC_MASK != 0:
            to_compress[pending, 0] = start
            to_compress[pending, 1] = position
            pending += 1
        else:
            _put_int(out, start + 17, np.int64(crc32c(out, start + 21, position)), 4)
    return position, pending, -1


@kernel
def seal_batches(out: Bytes, spans: NDArray[np.int64]) -> None:
    """Write the length and the checksum of each v2 batch at one of these (start, end)."""
    for index in range(len(spans)):
        start, end = spans[index, 0], spans[index, 1]
        _put_int(out, start + 8, np.int64(end - start - LOG_OVERHEAD), 4)
        _put_int(out, start + 17, np.int64(crc32c(out, start + 21, end)), 4)


@inlined
def _put_int(out: Bytes, position: int, value: Any, size: int) -> None:
    for i in range(size):
        out[position + i] = np.uint8((value >> (8 * (size - 1 - i))) & 0xFF)


@kernel
def _write_empty(original: Bytes, batch: Any, out: Bytes, position: int) -> None:
    """Write the header of a batch that lost all records: it has no codec, horizon or base timestamp."""
    copy_bytes(out, position, original, batch.position, HEADER_SIZE)
    _put_int(out, position + 8, np.int64(HEADER_SIZE - LOG_OVERHEAD), 4)
    attributes = batch.attributes & (LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    _put_int(out, position + 21, np.int64(attributes), 2)
    _put_int(out, position + 27, np.int64(-1), 8)
    _put_int(out, position + 57, np.int64(0), 4)
    _put_int(out, position + 17, np.int64(crc32c(out, position + 21, position + HEADER_SIZE)), 4)


@kernel
def _write_anew(
    data: Bytes,
    batch: Any,
    rows: RecordTable,
    verdict: Any,
    keep: NDArray[np.bool_],
    horizon_ms: int,
    out: Bytes,
    start: int,
) -> int:
    """Write a v2 batch of the kept records, without its CRC; returns its end.

    A delete horizon, new or old, replaces the base timestamp, and the timestamps count from it.
    """
    first = verdict.first_row
    last = first + verdict.rows_count
    is_v2 = batch.magic == 2
    attributes = np.int64(batch.attributes) & (CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL | CONTROL)
    if not is_v2:
        # A v0 message has no timestamp type, and bits 4 and 5 mean nothing in old formats.
        attributes &= CODEC_MASK | (LOG_APPEND_TIME if batch.magic == 1 else 0)
    if is_v2 and batch.attributes & DELETE_HORIZON != 0:
        horizon_ms = batch.base_timestamp
    while not keep[first]:
        first += 1
    base_offset = np.int64(batch.base_offset) if is_v2 else np.int64(rows[first].offset)
    base_timestamp = np.int64(rows[first].timestamp)
    if horizon_ms >= 0:
        attributes |= DELETE_HORIZON
        base_timestamp = np.int64(horizon_ms)
    position = start + HEADER_SIZE
    max_timestamp = np.int64(-1)
    last_offset = np.int64(batch.last_offset)
    for row in range(first, last):
        if keep[row]:
            record: Any = rows[row]
            position = _put_record(
                data,
                record,
                np.int64(record.timestamp) - base_timestamp,
                np.int64(record.offset) - base_offset,
                out,
                position,
            )
            max_timestamp = max(max_timestamp, np.int64(record.timestamp))
            if not is_v2:
                last_offset = np.int64(record.offset)
    if attributes & LOG_APPEND_TIME != 0:
        max_timestamp = np.int64(batch.max_timestamp)
    _put_int(out, start, base_offset, 8)
    _put_int(out, start + 8, np.int64(position - start - LOG_OVERHEAD), 4)
    _put_int(out, start + 12, np.int64(batch.partition_leader_epoch), 4)
    out[start + 16] = 2
    _put_int(out, start + 21, attributes, 2)
    _put_int(out, start + 23, last_offset - base_offset, 4)
    _put_int(out, start + 27, base_timestamp, 8)
    _put_int(out, start + 35, max_timestamp, 8)
    _put_int(out, start + 43, np.int64(batch.producer_id), 8)
    _put_int(out, start + 51, np.int64(batch.producer_epoch), 2)
    _put_int(out, start + 53, np.int64(batch.base_sequence), 4)
    _put_int(out, start + 57, np.int64(verdict.kept_count), 4)
    return position


@inlined
def _put_record(
    data: Bytes, record: Any, timestamp_delta: Any, offset_delta: Any, out: Bytes, position: Any
) -> Any:
    """Write one record with new deltas; from its key on, it is usually copied in one piece."""
    key_size: Any = np.int64(record.key_size)
    value_size: Any = np.int64(record.value_size)
    headers_count: Any = np.int64(record.headers_count)
    key_position: Any = np.int64(record.key_position)
    value_position: Any = np.int64(record.value_position)
    headers_position: Any = np.int64(record.headers_position)
    headers_size: Any = np.int64(record.headers_size)
    key_end = key_position + max(key_size, 0)
    value_end = value_position + max(value_size, 0)
    value_prefix = _varint_size(value_size)
    headers_prefix = _varint_size(headers_count)
    body_size: Any = (
        1
        + _varint_size(timestamp_delta)
        + _varint_size(offset_delta)
        + _varint_size(key_size)
        + (key_end - key_position)
        + value_prefix
        + (value_end - value_position)
        + headers_prefix
        + headers_size
    )
    position = _put_varint(out, position, body_size)
    out[position] = 0
    position = _put_varint(out, position + 1, timestamp_delta)
    position = _put_varint(out, position, offset_delta)
    position = _put_varint(out, position, key_size)
    if value_position == key_end + value_prefix and headers_position == value_end + headers_prefix:
        rest_size: Any = headers_position + headers_size - key_position
        copy_bytes(out, position, data, key_position, rest_size)
        position += rest_size
    else:
        # This is an old message, or its varints are longer than necessary.
        copy_bytes(out, position, data, key_position, key_end - key_position)
        position = _put_varint(out, position + (key_end - key_position), value_size)
        copy_bytes(out, position, data, value_position, value_end - value_position)
        position = _put_varint(out, position + (value_end - value_position), headers_count)
        copy_bytes(out, position, data, headers_position, headers_size)
        position += headers_size
    return position
