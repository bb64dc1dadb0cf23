"""Decoded rows to Arrow arrays: one function for each column."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.limits import INT32_MAX
from stratalog.records.batch import Attributes
from stratalog.records.compression import CODEC_MASK, Codec
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.gather import (
    KEY,
    VALUE,
    gather,
    gather_headers,
    gather_micros,
    gather_offsets,
    gather_plain,
)
from stratalog.records.kernels.memory import Bytes
from stratalog.records.kernels.walk import MIXED, BatchTable
from stratalog.records.utf8 import decode_text

HEADERS_TYPE = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TYPES: dict[str, pa.DataType] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_TYPE,
    # Fields of the record's batch, and the record's place in it.
    "leaderEpoch": pa.int32(),
    "producerId": pa.int64(),
    "producerEpoch": pa.int16(),
    "sequence": pa.int32(),
    "isTransactional": pa.bool_(),
    "isControl": pa.bool_(),
    "codec": pa.string(),
    "position": pa.int64(),
}


PLAIN_COLUMNS = ("key", "value", "offset", "timestamp")  # can be copied in one pass


class RowChunk:
    """Decoded rows that become one Arrow batch, the data they point into, and the sizes of the batch's
    buffers.

    `together` are the columns of PLAIN_COLUMNS to copy in one pass: keys, values and maybe others, or none.
    `timestamp_type` is that of all batches, or MIXED.
    """

    __slots__ = ("_index", "batches", "copied", "data", "rows", "sums", "timestamp_type")

    def __init__(
        self,
        data: Bytes,
        rows: RecordTable,
        batches: BatchTable,
        *,
        together: Collection[str] = (),
        timestamp_type: int = MIXED,
    ) -> None:
        self.data = data
        self.rows = rows
        self.batches = batches
        self.timestamp_type = timestamp_type
        self.sums = decoding.sums(rows)
        self.copied = _copied_together(self, together) if together else {}
        self._index: NDArray[np.int32] | None = None

    def of_batch(self, column: NDArray[Any]) -> NDArray[Any]:
        """For each row, the entry of its batch in `column`. Rows come in the order of their batches."""
        first, last = int(self.rows["batch"][0]), int(self.rows["batch"][-1])
        part = column[first : last + 1]
        if (part == part[0]).all():  # most fields are the same in all batches of a producer
            return np.full(len(self.rows), part[0], column.dtype)
        if self._index is None:
            self._index = np.ascontiguousarray(self.rows["batch"]) - np.int32(first)
        taken: NDArray[Any] = np.ascontiguousarray(part)[self._index]
        return taken

    def timestamp_types(self) -> NDArray[np.int32]:
        """The timestamp type of each row."""
        if self.timestamp_type != MIXED:
            return np.full(len(self.rows), self.timestamp_type, np.int32)
        bits = (self.batches["attributes"] & Attributes.LOG_APPEND_TIME != 0).astype(np.int32)
        return self.of_batch(np.where(self.batches["magic"] == 0, np.int32(-1), bits))


Maker = Callable[[RowChunk], pa.Array]


def _key(chunk: RowChunk) -> pa.Array:
    return chunk.copied["key"] if chunk.copied else _binary(chunk, KEY)


def _value(chunk: RowChunk) -> pa.Array:
    return chunk.copied["value"] if chunk.copied else _binary(chunk, VALUE)


def _copied_together(chunk: RowChunk, names: Collection[str]) -> dict[str, pa.Array]:
    """The columns of these names, copied in one pass; none of them if a key or a value is null."""
    count = len(chunk.rows)
    key_ends, keys = ArrowOut(4 * (count + 1), np.int32), ArrowOut(chunk.sums[KEY])
    value_ends, values = ArrowOut(4 * (count + 1), np.int32), ArrowOut(chunk.sums[VALUE])
    offsets = ArrowOut(8 * count if "offset" in names else 0, np.int64)
    micros = ArrowOut(8 * count if "timestamp" in names else 0, np.int64)
    outs = (key_ends, keys, value_ends, values, offsets, micros)
    if not gather_plain(chunk.data, chunk.rows, *(out.array for out in outs)):
        return {}
    buffers = {
        "key": [None, key_ends.buffer, keys.buffer],
        "value": [None, value_ends.buffer, values.buffer],
        "offset": [None, offsets.buffer],
        "timestamp": [None, micros.buffer],
    }
    return {name: pa.Array.from_buffers(TYPES[name], count, buffers[name], 0) for name in names}


def _binary(chunk: RowChunk, which: int) -> pa.Array:
    count = len(chunk.rows)
    ends, out, validity = (
        ArrowOut(4 * (count + 1), np.int32),
        ArrowOut(chunk.sums[which]),
        ArrowOut(-(-count // 8)),
    )
    nulls = gather(chunk.data, chunk.rows, which, ends.array, out.array, validity.array)
    buffers = [validity.buffer if nulls else None, ends.buffer, out.buffer]
    return pa.Array.from_buffers(TYPES["value"], count, buffers, nulls)


def _offset(chunk: RowChunk) -> pa.Array:
    if "offset" in chunk.copied:
        return chunk.copied["offset"]
    out = ArrowOut(8 * len(chunk.rows), np.int64)
    gather_offsets(chunk.rows, out.array)
    return pa.Array.from_buffers(TYPES["offset"], len(chunk.rows), [None, out.buffer], 0)


def _timestamp(chunk: RowChunk) -> pa.Array:
    if "timestamp" in chunk.copied:
        return chunk.copied["timestamp"]
    out = ArrowOut(8 * len(chunk.rows), np.int64)
    gather_micros(chunk.rows, out.array)
    return pa.Array.from_buffers(TYPES["timestamp"], len(chunk.rows), [None, out.buffer], 0)


def _timestamp_type(chunk: RowChunk) -> pa.Array:
    if chunk.timestamp_type != MIXED:
        return _same(len(chunk.rows), chunk.timestamp_type, TYPES["timestampType"])
    return pa.array(chunk.timestamp_types())


def _same(count: int, value: int | None, arrow_type: pa.DataType) -> pa.Array:
    """`count` times the same value, without filling memory for it each time."""
    return _repeated(1 << count.bit_length(), value, arrow_type).slice(0, count)


@lru_cache(maxsize=64)
def _repeated(count: int, value: int | None, arrow_type: pa.DataType) -> pa.Array:
    return (
        pa.repeat(pa.scalar(value, arrow_type), count) if value is not None else pa.nulls(count, arrow_type)
    )


def _headers(chunk: RowChunk) -> pa.Array:
    rows, (_, _, count, size) = len(chunk.rows), chunk.sums
    if not count:
        return _same(rows, None, HEADERS_TYPE)
    ends, key_ends, value_ends = (ArrowOut(4 * (size + 1), np.int32) for size in (rows, count, count))
    validity, value_validity = ArrowOut(-(-rows // 8)), ArrowOut(-(-count // 8))
    keys, values = ArrowOut(size), ArrowOut(size)
    bare, nulls, ascii_keys = gather_headers(
        chunk.data,
        chunk.rows,
        ends.array,
        validity.array,
        key_ends.array,
        keys.array,
        value_ends.array,
        values.array,
        value_validity.array,
    )
    key_column = pa.Array.from_buffers(pa.binary(), count, [None, key_ends.buffer, keys.buffer], 0)
    if ascii_keys:
        key_column = key_column.view(pa.string())
    else:  # Java replaces bytes that are not UTF-8, and an Arrow string must be UTF-8
        key_column = pa.array([decode_text(key) for key in key_column.to_pylist()], pa.string())
    value_buffers = [value_validity.buffer if nulls else None, value_ends.buffer, values.buffer]
    value_column = pa.Array.from_buffers(pa.binary(), count, value_buffers, nulls)
    pairs = pa.StructArray.from_arrays([key_column, value_column], fields=list(HEADERS_TYPE.value_type))
    list_buffers = [validity.buffer if bare else None, ends.buffer]
    return pa.Array.from_buffers(HEADERS_TYPE, rows, list_buffers, bare, children=[pairs])


def _of_batch(field: str) -> Maker:
    return lambda chunk: pa.array(chunk.of_batch(chunk.batches[field]))


def _flag(bit: Attributes) -> Maker:
    def make(chunk: RowChunk) -> pa.Array:
        return pa.array(
            chunk.of_batch((chunk.batches["attributes"] & bit != 0) & (chunk.batches["magic"] == 2))
        )

    return make


def _sequence(chunk: RowChunk) -> pa.Array:
    base = chunk.of_batch(chunk.batches["base_sequence"]).astype(np.int64)
    sequence = (base + chunk.rows["offset"] - chunk.of_batch(chunk.batches["base_offset"])) & INT32_MAX
    return pa.array(np.where(base < 0, -1, sequence).astype(np.int32))


@cache
def _codec_names() -> pa.Array:
    """Created on first use: the first `pa.array` imports pandas, which takes longer than opening a log."""
    return pa.array([codec.kafka_name for codec in Codec], pa.string())


def _codec(chunk: RowChunk) -> pa.Array:
    codecs = chunk.of_batch(chunk.batches["attributes"] & CODEC_MASK)
    if (codecs == codecs[0]).all():
        return pa.repeat(_codec_names()[int(codecs[0])], len(codecs))
    return _codec_names().take(pa.array(codecs))


MAKERS: dict[str, Maker] = {
    "key": _key,
    "value": _value,
    "offset": _offset,
    "timestamp": _timestamp,
    "timestampType": _timestamp_type,
    "headers": _headers,
    "leaderEpoch": _of_batch("partition_leader_epoch"),
    "producerId": _of_batch("producer_id"),
    "producerEpoch": _of_batch("producer_epoch"),
    "sequence": _sequence,
    "isTransactional": _flag(Attributes.TRANSACTIONAL),
    "isControl": _flag(Attributes.CONTROL),
    "codec": _codec,
    "position": _of_batch("position"),
}


class ArrowOut:
    """A buffer from Arrow's pool, which keeps its memory mapped, and the array that a kernel fills."""

    __slots__ = ("array", "buffer")

    def __init__(self, size: int, dtype: type[np.generic] = np.uint8) -> None:
        self.buffer = pa.allocate_buffer(size)
        self.array: NDArray[Any] = np.frombuffer(self.buffer, dtype) if size else np.empty(0, dtype)
