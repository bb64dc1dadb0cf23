"""Batches to Arrow columns: the one bulk decoder, used by all readers.

The columns are those of Spark's own Kafka source, so that a query moves between the two, and on request
fields of the batch. Columns that were not requested are not copied: a query of offsets touches no value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import cache, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from stratalog.errors import CorruptRecordError, UsageError, WrongTypeError
from stratalog.limits import INT32_MAX, INT64_MAX, INT64_MIN
from stratalog.records.batch import Attributes
from stratalog.records.compression import CODEC_MASK, DEFAULT_LIMIT, Codec, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.crc32c import crc32_zlib, crc32c
from stratalog.records.kernels.decode import RecordTable
from stratalog.records.kernels.gather import (
    KEY,
    VALUE,
    gather,
    gather_both,
    gather_headers,
    gather_micros,
    gather_offsets,
)
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable, survey
from stratalog.records.unpack import RUN_SIZE, Run, invalid_record, next_run
from stratalog.records.utf8 import decode_text
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches

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
KAFKA_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "timestampType")
ALL_COLUMNS = tuple(TYPES)

# Spark handles batches of 4,000 to 32,000 rows and 1 to 8 MB about equally fast. A run of records of 64 bytes
# or more fits in, so most runs become one Arrow batch.
DEFAULT_MAX_ROWS = 16384
DEFAULT_MAX_BYTES = 4 << 20


class RowChunk:
    """Decoded rows that become one Arrow batch, the data they point into, and the sizes of its buffers."""

    __slots__ = ("_index", "_pair", "batches", "data", "rows", "sums")

    def __init__(self, data: Bytes, rows: RecordTable, batches: BatchTable, *, both: bool) -> None:
        self.data = data
        self.rows = rows
        self.batches = batches
        self.sums = decoding.sums(rows)
        self._pair = _both(self) if both else None
        self._index: NDArray[np.int32] | None = None

    def binary(self, which: int) -> pa.Array:
        """The column of keys or of values."""
        return _binary(self, which, self.sums[which]) if self._pair is None else self._pair[which]

    def of_batch(self, column: NDArray[Any]) -> NDArray[Any]:
        """For each row the entry of its batch. Rows come in the order of their batches."""
        first, last = int(self.rows["batch"][0]), int(self.rows["batch"][-1])
        part = column[first : last + 1]
        if (part == part[0]).all():  # as most fields are the same in all batches of a producer
            return np.full(len(self.rows), part[0], column.dtype)
        if self._index is None:
            self._index = np.ascontiguousarray(self.rows["batch"]) - np.int32(first)
        taken: NDArray[Any] = np.ascontiguousarray(part)[self._index]
        return taken


Maker = Callable[[RowChunk], pa.Array]
Keep = Callable[[BatchTable], NDArray[np.bool_] | None]
"""Gets the rows of batches whose checksums match, in order; returns which to decode, None for all."""
Pick = Callable[[Bytes, RecordTable], NDArray[np.bool_] | None]
"""Gets decoded rows and the bytes they point into; returns which become Arrow rows, None for all."""


def arrow_schema(columns: Sequence[str] = KAFKA_COLUMNS) -> pa.Schema:
    """The Arrow schema of these columns; an unknown name is a UsageError that lists the known ones."""
    columns = column_names(columns)
    unknown = [name for name in columns if name not in TYPES]
    if unknown:
        raise UsageError(f"unknown columns {', '.join(unknown)}; the columns are {', '.join(TYPES)}.")
    return pa.schema([(name, TYPES[name]) for name in columns])


def column_names(columns: object) -> list[str]:
    """The names of columns that a caller gave; WrongTypeError if they are not a list of names."""
    if isinstance(columns, str):
        raise WrongTypeError(f"columns is {columns!r}: it must be a list of names, such as [{columns!r}].")
    if isinstance(columns, Set):
        raise WrongTypeError(f"columns is {columns!r}, which has no order: give a list of names.")
    if isinstance(columns, Iterable):
        names = list(columns)
        if all(isinstance(name, str) for name in names):
            return names
        columns = names
    raise WrongTypeError(f"columns is {columns!r}: it must be a list of names.")


def read_columns(buffer: Any, **options: Any) -> Iterator[pa.RecordBatch]:
    """The records of a buffer of batches, as Arrow; the options are those of `ColumnReader`."""
    return ColumnReader(**options).read(buffer)


class ColumnReader:
    """Decodes the buffers of one partition one after the other, and reuses its memory for each.

    It belongs to one thread. Each Arrow batch has at most `max_rows` rows, and more than one only if their
    records fit into `max_bytes`. It leaves out records outside [start_offset, end_offset), control records
    unless `include_control` is set, and the batches that `keep` and the rows that `pick` reject. `limit`
    bounds what one compressed batch may unpack to, `run_size` what is walked and decoded in one go.
    """

    def __init__(
        self,
        *,
        columns: Sequence[str] = KAFKA_COLUMNS,
        topic: str = "",
        partition: int = 0,
        start_offset: int = INT64_MIN,
        end_offset: int = INT64_MAX + 1,
        include_control: bool = False,
        check_crc: bool = True,
        max_rows: int = DEFAULT_MAX_ROWS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        limit: int = DEFAULT_LIMIT,
        keep: Keep | None = None,
        pick: Pick | None = None,
        run_size: int = RUN_SIZE,
    ) -> None:
        if not 0 < max_rows < 2**31 or not 0 < max_bytes < 2**30:
            raise UsageError(
                f"max_rows {max_rows} or max_bytes {max_bytes} is outside 1 to 2^31 - 1 or 2^30 - 1."
            )
        if not columns:
            raise UsageError("no columns are given; to count records, add up the headers of `walk_batches`.")
        self.schema = arrow_schema(columns)
        self.stop = WalkStop.END
        self.next_position = 0
        self.rows_start = self.rows_end = INT64_MIN  # the first offset of the last batch of rows, and its end
        self._reads_count = 0
        self._offsets = (start_offset, end_offset - 1)
        self._include_control = include_control
        self._check_crc = check_crc
        self._max_rows, self._max_bytes, self._limit = max_rows, max_bytes, limit
        self._keep, self._pick, self._run_size = keep, pick, run_size
        self._table = new_table()
        self._rows = np.zeros(max_rows, decoding.RECORD)
        self._scratch = Scratch()
        self._wants_both = "key" in columns and "value" in columns
        self._makers = [self._maker(name, topic, partition) for name in columns]

    def read(self, buffer: Any, *, start: int = 0, end: int | None = None) -> Iterator[pa.RecordBatch]:
        """The records of buffer[start:end], which holds whole batches.

        A corrupt batch raises CorruptRecordError, after everything before it was returned. A torn tail does
        not: the read ends before it. Afterwards `next_position` and `stop` say where and why it ended.
        """
        data = byte_array(buffer)
        end = data.size if end is None else end
        self._reads_count += 1
        this_read = self._reads_count
        self.next_position, self.stop = start, WalkStop.TABLE_FULL
        while self.stop is WalkStop.TABLE_FULL:
            walk = walk_batches(
                data,
                start=self.next_position,
                end=end,
                table=self._table,
                check_crc=self._check_crc,
                max_size=self._run_size,  # so that the bytes are still in the cache when they are decoded
            )
            for records in self._read_walked(data, walk.headers):
                yield records
                if self._reads_count != this_read:
                    raise UsageError(
                        "another read of this ColumnReader began before this one ended, and both would use "
                        "the same memory. Finish one read first, or use a reader for each."
                    )
            self.next_position, self.stop = walk.next_position, walk.stop
        if self.stop not in (WalkStop.END, WalkStop.TORN_TAIL):
            raise CorruptRecordError(
                explain_stop(data, self.next_position, end, self.stop), position=self.next_position
            )

    def _read_walked(self, data: Bytes, headers: BatchTable) -> Iterator[pa.RecordBatch]:
        good_count, has_control, _, _ = survey(headers, 0)
        good = headers[:good_count]
        kept = None if self._keep is None else self._keep(good)
        wanted = self._wanted(good if kept is None else good[kept], has_control)
        done = 0
        while done < len(wanted):
            run = next_run(data, wanted, done, self._scratch, self._limit)
            yield from self._read_run(run)
            if run.problem is not None:
                raise run.problem
            done += len(run.batches)
        if good_count < len(headers):
            raise wrong_crc(data, headers[good_count])

    def _wanted(self, headers: BatchTable, has_control: bool) -> BatchTable:
        start_offset, last_offset = self._offsets
        drop_control = has_control and not self._include_control
        if not drop_control and (start_offset, last_offset) == (INT64_MIN, INT64_MAX):
            return headers
        keep = np.ones(len(headers), np.bool_)
        if start_offset > INT64_MIN:
            keep &= headers["last_offset"] >= start_offset
        if last_offset < INT64_MAX:  # a legacy wrapper has its first offset inside
            keep &= (headers["base_offset"] <= last_offset) | (headers["magic"] < 2)
        if drop_control:
            keep &= (headers["attributes"] & Attributes.CONTROL == 0) | (headers["magic"] < 2)
        return headers if keep.all() else headers[keep]

    def _read_run(self, run: Run) -> Iterator[pa.RecordBatch]:
        decode = decoding.decode_legacy if run.is_legacy else decoding.decode
        at, outcome, table = (0, 0, 0), decoding.MORE, self._rows[: self._even_rows(run)]
        while outcome == decoding.MORE:
            count, outcome, at = decode(run.data, run.batches, table, at, self._max_bytes, *self._offsets)
            if count:
                rows = self._rows[:count]
                self.rows_start, self.rows_end = int(rows["offset"][0]), int(rows["offset"][-1]) + 1
                picked = None if self._pick is None else self._pick(run.data, rows)
                if picked is not None:
                    rows = rows[picked]
                    if not len(rows):
                        continue
                chunk = RowChunk(run.data, rows, run.batches, both=self._wants_both)
                arrays = [make(chunk) for make in self._makers]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
        if outcome != decoding.DONE:
            raise invalid_record(run.batches[at[0]], outcome)

    def _even_rows(self, run: Run) -> int:
        """How many rows to put into each Arrow batch of a run, so that no small one is left at its end.

        A reader that joins small ones with others would copy all of them. Legacy headers do not know how many
        records there are.
        """
        total = 0 if run.is_legacy else int(run.batches["records_count"].clip(0).sum(dtype=np.int64))
        parts = -(-total // self._max_rows)
        return -(-total // parts) if parts else self._max_rows

    def _maker(self, name: str, topic: str, partition: int) -> Maker:
        if name in ("topic", "partition"):
            constant = topic if name == "topic" else partition
            column = pa.repeat(pa.scalar(constant, TYPES[name]), self._max_rows)
            return lambda chunk: column.slice(0, len(chunk.rows))
        return _MAKERS[name]


def wrong_crc(data: Bytes, row: np.void) -> CorruptRecordError:
    """The error for a batch with a wrong checksum."""
    kind, start = ("CRC-32C", 21) if row["magic"] == 2 else ("CRC-32", 16)
    position = int(row["position"])
    compute = crc32c if row["magic"] == 2 else crc32_zlib
    found = int(compute(data, position + start, position + int(row["size"])))
    return CorruptRecordError(
        f"batch {kind} is {found:#010x}, its header says {int(row['crc']):#010x}.", position=position
    )


def _key(chunk: RowChunk) -> pa.Array:
    return chunk.binary(KEY)


def _value(chunk: RowChunk) -> pa.Array:
    return chunk.binary(VALUE)


def _both(chunk: RowChunk) -> tuple[pa.Array, pa.Array] | None:
    """Keys and values in one pass; None if one of them is null."""
    count = len(chunk.rows)
    key_ends, keys = _Out(4 * (count + 1)), _Out(chunk.sums[KEY])
    value_ends, values = _Out(4 * (count + 1)), _Out(chunk.sums[VALUE])
    ends = key_ends.array.view(np.int32), value_ends.array.view(np.int32)
    if not gather_both(chunk.data, chunk.rows, ends[KEY], keys.array, ends[VALUE], values.array):
        return None
    return (
        pa.Array.from_buffers(TYPES["key"], count, [None, key_ends.buffer, keys.buffer], 0),
        pa.Array.from_buffers(TYPES["value"], count, [None, value_ends.buffer, values.buffer], 0),
    )


def _binary(chunk: RowChunk, which: int, size: int) -> pa.Array:
    count = len(chunk.rows)
    ends, out, validity = _Out(4 * (count + 1)), _Out(size), _Out(-(-count // 8))
    nulls = gather(chunk.data, chunk.rows, which, ends.array.view(np.int32), out.array, validity.array)
    buffers = [validity.buffer if nulls else None, ends.buffer, out.buffer]
    return pa.Array.from_buffers(TYPES["value"], count, buffers, nulls)


def _offset(chunk: RowChunk) -> pa.Array:
    out = _Out(8 * len(chunk.rows))
    gather_offsets(chunk.rows, out.array.view(np.int64))
    return pa.Array.from_buffers(TYPES["offset"], len(chunk.rows), [None, out.buffer], 0)


def _timestamp(chunk: RowChunk) -> pa.Array:
    out = _Out(8 * len(chunk.rows))
    gather_micros(chunk.rows, out.array.view(np.int64))
    return pa.Array.from_buffers(TYPES["timestamp"], len(chunk.rows), [None, out.buffer], 0)


def _timestamp_type(chunk: RowChunk) -> pa.Array:
    bits = (chunk.batches["attributes"] & Attributes.LOG_APPEND_TIME != 0).astype(np.int32)
    types = np.where(chunk.batches["magic"] == 0, np.int32(-1), bits)
    if (types == types[0]).all():
        return _same(len(chunk.rows), int(types[0]), TYPES["timestampType"])
    return pa.array(chunk.of_batch(types))


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
    ends, key_ends, value_ends = _Out(4 * (rows + 1)), _Out(4 * (count + 1)), _Out(4 * (count + 1))
    validity, value_validity = _Out(-(-rows // 8)), _Out(-(-count // 8))
    keys, values = _Out(size), _Out(size)
    bare, nulls, ascii_keys = gather_headers(
        chunk.data,
        chunk.rows,
        ends.array.view(np.int32),
        validity.array,
        key_ends.array.view(np.int32),
        keys.array,
        value_ends.array.view(np.int32),
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
    """Made at its first use: the first `pa.array` imports pandas, which takes longer than opening a log."""
    return pa.array([codec.kafka_name for codec in Codec], pa.string())


def _codec(chunk: RowChunk) -> pa.Array:
    codecs = chunk.of_batch(chunk.batches["attributes"] & CODEC_MASK)
    if (codecs == codecs[0]).all():
        return pa.repeat(_codec_names()[int(codecs[0])], len(codecs))
    return _codec_names().take(pa.array(codecs))


_MAKERS: dict[str, Maker] = {
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


class _Out:
    """A buffer from Arrow's pool, which keeps its memory mapped, and the array that a kernel fills."""

    __slots__ = ("array", "buffer")

    def __init__(self, size: int) -> None:
        self.buffer = pa.allocate_buffer(size)
        self.array: NDArray[np.uint8] = np.frombuffer(self.buffer, np.uint8) if size else _NOTHING


_NOTHING = np.empty(0, np.uint8)
