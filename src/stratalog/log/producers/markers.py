"""Reads transaction markers from the control batches of a set."""

from __future__ import annotations

from typing import Any

import numpy as np

from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.compression import CODEC_MASK, DEFAULT_LIMIT
from stratalog.records.control import EndTxnMarker
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.reader import RecordBatch
from stratalog.records.unpack import invalid_record


def read_marker(data: Any, rows: BatchTable) -> tuple[EndTxnMarker, int] | None:
    """The marker in the control batch that is the only row of `rows`, and its timestamp.

    None for a batch that compaction has emptied. `data` is any object with the buffer protocol.
    """
    (row,) = rows
    if row["records_count"] == 0:
        return None
    buffer = byte_array(data)
    if row["attributes"] & CODEC_MASK:
        record = next(iter(RecordBatch(buffer, rows.copy(), DEFAULT_LIMIT)))
        return EndTxnMarker.parse(record.key, record.value), record.timestamp
    found = np.zeros(1, decoding.RECORD)
    count, outcome, _ = decoding.decode(buffer, rows, found, (0, 0, 0), 1, INT64_MIN, INT64_MAX)
    if count == 0:
        raise invalid_record(row, outcome)
    (_, timestamp, key_at, value_at, _, key_size, value_size, *_) = found[0].item()
    key, value = _slice(buffer, key_at, key_size), _slice(buffer, value_at, value_size)
    return EndTxnMarker.parse(key, value), timestamp


def _slice(data: Bytes, position: int, size: int) -> bytes | None:
    return data[position : position + size].tobytes() if size >= 0 else None
