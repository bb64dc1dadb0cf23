"""Encodes decoded records as one v2 batch: for another codec, or from an old message set.

Kafka: LogValidator.buildRecordsAndAssignOffsets, MemoryRecordsBuilder
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import InvalidBatchError
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.batch import NO_TIMESTAMP, Attributes, BatchHeader, attributes_of
from stratalog.records.build import BatchOptions, encode_batch
from stratalog.records.compression import Codec
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.encode import RecordColumns
from stratalog.records.kernels.gather import KEY, VALUE, gather, gather_headers
from stratalog.records.kernels.memory import Bytes
from stratalog.records.reader import BatchRow
from stratalog.records.unpack import Run, invalid_record

_ROWS = 1024


def decode_all(run: Run) -> RecordTable:
    """A row for each record of the run. Memory grows with the actual records, not with a header's count."""
    decode = decoding.decode_legacy if run.is_legacy else decoding.decode
    parts, at, outcome = [], (0, 0, 0), decoding.MORE
    while outcome == decoding.MORE:
        rows = np.empty(_ROWS, decoding.RECORD)
        count, outcome, at = decode(run.data, run.batches, rows, at, INT64_MAX, INT64_MIN, INT64_MAX)
        parts.append(rows[:count])
    if outcome != decoding.DONE:
        raise invalid_record(run.batches[at[0]], outcome)
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def rebuild(
    data: Bytes,
    rows: RecordTable,
    first: BatchRow,
    *,
    next_offset: int,
    leader_epoch: int,
    codec: Codec,
    level: int | None,
    log_append_time: int | None,
) -> bytes:
    """One new batch. `rows` says where its records are in `data`; its producer is that of the batch `first`.

    InvalidBatchError if a new batch must not have such records. A batch that is kept unchanged may have them.
    """
    if not len(rows):
        raise InvalidBatchError("a batch without records cannot be rewritten.")
    timestamps = np.ascontiguousarray(rows["timestamp"])
    if timestamps.min() < NO_TIMESTAMP:
        raise InvalidBatchError(f"timestamp {timestamps.min()} is negative; -1 means none.")
    # Only the codec and the attributes are used below. The other values are given because BatchOptions checks
    # them, as for every new batch.
    options = BatchOptions(
        codec=codec,
        level=level,
        log_append_time=log_append_time,
        partition_leader_epoch=leader_epoch,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        is_transactional=first.magic == 2 and bool(first.attributes & Attributes.TRANSACTIONAL),
    )
    header = BatchHeader(
        base_offset=next_offset,
        batch_length=0,
        partition_leader_epoch=leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes_of(codec, options.timestamp_type, is_transactional=options.is_transactional),
        last_offset_delta=len(rows) - 1,
        base_timestamp=int(timestamps[0]),
        max_timestamp=int(timestamps.max()) if log_append_time is None else log_append_time,
        producer_id=first.producer_id,
        producer_epoch=first.producer_epoch,
        base_sequence=first.base_sequence,
        records_count=len(rows),
    )
    offsets = np.arange(next_offset, next_offset + len(rows), dtype=np.int64)
    return encode_batch(header, _columns(data, rows, offsets, timestamps), level=level)


def _columns(
    data: Bytes, rows: RecordTable, offsets: NDArray[np.int64], timestamps: NDArray[np.int64]
) -> RecordColumns:
    keys_size, values_size, headers_count, headers_size = decoding.sums(rows)
    header_ends, header_keys, header_key_ends, header_values, header_value_ends, header_value_valid = (
        _headers(data, rows, headers_count, headers_size)
    )
    keys, key_ends, key_valid = _binary(data, rows, KEY, keys_size)
    values, value_ends, value_valid = _binary(data, rows, VALUE, values_size)
    return RecordColumns(
        offsets=offsets,
        timestamps=timestamps,
        keys=keys,
        key_ends=key_ends,
        key_valid=key_valid,
        values=values,
        value_ends=value_ends,
        value_valid=value_valid,
        header_ends=header_ends,
        header_keys=header_keys,
        header_key_ends=header_key_ends,
        header_values=header_values,
        header_value_ends=header_value_ends,
        header_value_valid=header_value_valid,
    )


def _binary(
    data: Bytes, rows: RecordTable, which: int, size: int
) -> tuple[Bytes, NDArray[np.int32], NDArray[np.bool_]]:
    out, ends = np.empty(size, np.uint8), np.empty(len(rows) + 1, np.int32)
    bits = np.zeros(-(-len(rows) // 8), np.uint8)
    gather(data, rows, which, ends, out, bits)
    return out, ends, _flags(bits, len(rows))


def _headers(
    data: Bytes, rows: RecordTable, count: int, size: int
) -> tuple[NDArray[np.int32], Bytes, NDArray[np.int32], Bytes, NDArray[np.int32], NDArray[np.bool_]]:
    ends = np.empty(len(rows) + 1, np.int32)
    keys, key_ends = np.empty(size, np.uint8), np.empty(count + 1, np.int32)
    values, value_ends = np.empty(size, np.uint8), np.empty(count + 1, np.int32)
    bits, value_bits = np.zeros(-(-len(rows) // 8), np.uint8), np.zeros(-(-count // 8), np.uint8)
    gather_headers(data, rows, ends, bits, key_ends, keys, value_ends, values, value_bits)
    return ends, keys, key_ends, values, value_ends, _flags(value_bits, count)


def _flags(bits: Bytes, count: int) -> NDArray[np.bool_]:
    """A byte for each of Arrow's validity bits."""
    return np.unpackbits(bits, count=count, bitorder="little").view(np.bool_)
