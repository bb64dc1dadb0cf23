"""Builds v2 batches from records or from Arrow columns, as Kafka's own builder would.

Kafka: MemoryRecordsBuilder.java
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import InvalidBatchError
from stratalog.limits import INT32_MAX
from stratalog.records.batch import (
    LOG_OVERHEAD,
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    BatchHeader,
    TimestampType,
    attributes_of,
    write_crc,
)
from stratalog.records.compression import Codec, compress
from stratalog.records.few import encode_few, is_few
from stratalog.records.kernels.encode import NEEDS_ROOM, RecordColumns, encode
from stratalog.records.kernels.memory import Bytes, byte_array

# Imported where it is used: most commands build no batch from columns.
if TYPE_CHECKING:
    import pyarrow as pa

Header = tuple[str, bytes | None]
_PLAIN = Codec.NONE  # looking up an Enum's member is slower than a name
_T = TypeVar("_T", bound=np.generic)
_RECORD_OVERHEAD = 36  # the most bytes of a record that are neither key nor value, without headers
DEFAULT_BATCH_SIZE = 16384  # the producer's default for `batch.size`


class Record(NamedTuple):
    """One record. `timestamp` counts milliseconds, -1 is none."""

    offset: int
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """The fields of a batch other than its records.

    `log_append_time` makes it a LogAppendTime batch with that time. `delete_horizon_ms` replaces the base
    timestamp, as in compaction. `level` None is Kafka's default for the codec.
    """

    codec: Codec = Codec.NONE
    level: int | None = None
    log_append_time: int | None = None
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False
    is_control: bool = False
    delete_horizon_ms: int | None = None

    def __post_init__(self) -> None:
        if self.is_transactional and self.producer_id == NO_PRODUCER_ID:
            raise InvalidBatchError("a transactional batch needs a producer id.")
        if self.producer_id != NO_PRODUCER_ID and not self.is_control:
            if self.producer_epoch == NO_PRODUCER_EPOCH:
                raise InvalidBatchError(f"producer id {self.producer_id} comes without a producer epoch.")
            if self.base_sequence < 0:
                raise InvalidBatchError(f"producer id {self.producer_id} comes without a base sequence.")

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.CREATE_TIME if self.log_append_time is None else TimestampType.LOG_APPEND_TIME


def build_batch(
    records: Iterable[Record] | RecordColumns,
    options: BatchOptions = BatchOptions(),  # noqa: B008
) -> bytes:
    """One batch of these records.

    Their offsets must ascend; the first record's offset becomes the base offset of the batch.
    """
    if isinstance(records, RecordColumns):
        return build_columns(records, options).tobytes()
    rows = list(records)
    if is_few(rows) and (few := _build_few(rows, options)) is not None:
        return few
    return build_columns(_columns_of_records(rows), options).tobytes()


def build_columns(columns: RecordColumns, options: BatchOptions) -> Bytes:
    """The same for columns; the result belongs to the caller."""
    count = len(columns.offsets)
    if not count:
        raise InvalidBatchError("a batch needs at least one record; only compaction leaves empty ones.")
    _check(columns)
    return _encode_batch(_header_of(columns, 0, count, options), columns, options.level)


def _build_few(records: Sequence[Record], options: BatchOptions) -> bytes | None:
    """The batch of a few records; None if the kernel must encode or refuse them."""
    base_offset, timestamp = records[0][:2]
    last_offset = records[-1].offset
    base_timestamp = timestamp if options.delete_horizon_ms is None else options.delete_horizon_ms
    if last_offset - base_offset > INT32_MAX or base_timestamp < 0:
        return None
    largest = max([record.timestamp for record in records]) if len(records) > 1 else timestamp
    section = encode_few(records, base_offset, base_timestamp)
    size = RECORD_BATCH_OVERHEAD + len(section)
    if size > INT32_MAX:
        return None
    header = _header(options, base_offset, last_offset, base_timestamp, largest, len(records), size)
    if options.codec is not _PLAIN:
        return _close(header, byte_array(bytearray(RECORD_BATCH_OVERHEAD) + section), options.level).tobytes()
    whole = bytearray(header.pack())
    whole += section
    write_crc(whole, 0, size)
    return bytes(whole)


def build_batches(
    table: pa.Table | pa.RecordBatch,
    options: BatchOptions = BatchOptions(),  # noqa: B008
    *,
    base_offset: int = 0,
    batch_size: int = DEFAULT_BATCH_SIZE,
) -> Iterator[bytes]:
    """Batches of the rows of an Arrow table, each up to batch_size bytes before compression, or one record.

    Columns: `value`, and optionally `key`, `timestamp` (a timestamp, or an integer of milliseconds),
    `headers` (list of struct of key and value) and `offset` (ascending; otherwise offsets count from
    base_offset). A base sequence continues from batch to batch.
    """
    import pyarrow as pa

    sequence, last_offset = options.base_sequence, -1
    for part in table.to_batches() if isinstance(table, pa.Table) else [table]:
        try:
            columns = _columns_of_arrow(part, base_offset)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:  # cannot be cast
            types = ", ".join(f"{field.name}: {field.type}" for field in part.schema)
            raise InvalidBatchError(
                f"records cannot be made of columns of these types ({types}): {error}"
            ) from error
        base_offset += part.num_rows
        _check(columns, last_offset)
        last_offset = int(columns.offsets[-1]) if part.num_rows else last_offset
        start = 0
        while start < part.num_rows:
            this = replace(options, base_sequence=sequence)
            stop, section = _encode_section(columns, start, part.num_rows, this, batch_size)
            yield _close(_header_of(columns, start, stop, this), section, options.level).tobytes()
            if sequence >= 0:
                sequence = (
                    sequence + int(columns.offsets[stop - 1] - columns.offsets[start]) + 1
                ) & INT32_MAX
            start = stop


def encode_batch(
    header: BatchHeader, records: Sequence[Record] | RecordColumns, *, level: int | None = None
) -> bytes:
    """A batch with these header fields; length, CRC and count are computed.

    For rewriting a batch: base offset, base timestamp and last offset delta keep their values, whatever the
    records say. So decoding an uncompressed batch and encoding it again gives the same bytes.
    """
    columns = records if isinstance(records, RecordColumns) else _columns_of_records(records)
    return _encode_batch(header, columns, level).tobytes()


def _encode_batch(header: BatchHeader, columns: RecordColumns, level: int | None) -> Bytes:
    count = len(columns.offsets)
    done, section = _encode(columns, 0, count, header.base_offset, header.base_timestamp, INT32_MAX)
    if done != count:
        raise InvalidBatchError(
            f"record {done} of {count} does not fit in the batch: the batch would exceed 2^31 bytes, or the "
            f"record's offset {columns.offsets[done]} is more than 2^31 - 1 from the base offset "
            f"{header.base_offset}."
        )
    return _close(header._replace(records_count=count), section, level)


def _header_of(columns: RecordColumns, start: int, stop: int, options: BatchOptions) -> BatchHeader:
    base_offset, last_offset = int(columns.offsets[start]), int(columns.offsets[stop - 1])
    if last_offset - base_offset > INT32_MAX:
        raise InvalidBatchError(
            f"offsets {base_offset} to {last_offset} do not fit one batch (at most 2^31)."
        )
    largest = int(columns.timestamps[start:stop].max()) if options.log_append_time is None else NO_TIMESTAMP
    base_timestamp = _base_timestamp(columns, start, options)
    return _header(options, base_offset, last_offset, base_timestamp, largest, stop - start)


def _header(
    options: BatchOptions,
    base_offset: int,
    last_offset: int,
    base_timestamp: int,
    largest_timestamp: int,
    records_count: int,
    size: int = LOG_OVERHEAD,
) -> BatchHeader:
    append_time = options.log_append_time
    return BatchHeader(
        base_offset=base_offset,
        batch_length=size - LOG_OVERHEAD,
        partition_leader_epoch=options.partition_leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes_of(
            options.codec,
            options.timestamp_type,
            is_transactional=options.is_transactional,
            is_control=options.is_control,
            has_delete_horizon=options.delete_horizon_ms is not None,
        ),
        last_offset_delta=last_offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=largest_timestamp if append_time is None else append_time,
        producer_id=options.producer_id,
        producer_epoch=options.producer_epoch,
        base_sequence=options.base_sequence,
        records_count=records_count,
    )


def _base_timestamp(columns: RecordColumns, start: int, options: BatchOptions) -> int:
    return int(columns.timestamps[start]) if options.delete_horizon_ms is None else options.delete_horizon_ms


def _encode_section(
    columns: RecordColumns, start: int, stop: int, options: BatchOptions, batch_size: int
) -> tuple[int, Bytes]:
    base_timestamp = _base_timestamp(columns, start, options)
    room = max(1, batch_size - RECORD_BATCH_OVERHEAD)
    return _encode(columns, start, stop, int(columns.offsets[start]), base_timestamp, room)


def _encode(
    columns: RecordColumns, start: int, stop: int, base_offset: int, base_timestamp: int, max_size: int
) -> tuple[int, Bytes]:
    """(the first record that did not fit, a buffer with room for the header and then the section)."""
    # The room that records without headers need. If it is not enough, the kernel says how much is needed.
    parts = (columns.key_ends, columns.value_ends)
    content_size = sum(int(ends[stop] - ends[start]) for ends in parts)
    room = min(max_size, content_size + _RECORD_OVERHEAD * (stop - start))
    while True:
        out = np.empty(RECORD_BATCH_OVERHEAD + room, np.uint8)
        done, found = encode(
            columns, start, stop, base_offset, base_timestamp, out, RECORD_BATCH_OVERHEAD, max_size
        )
        if done != NEEDS_ROOM:
            return done, out[:found]
        room = max(2 * room, found)


def _close(header: BatchHeader, batch: Bytes, level: int | None) -> Bytes:
    """Put the header before its records section, and compress the section if the header names a codec.

    May write into `batch`, which has room for the header and is not used by anybody else.
    """
    codec = header.codec
    if codec is not _PLAIN:
        section = compress(codec, batch[RECORD_BATCH_OVERHEAD:].data, level=level)
        batch = np.empty(RECORD_BATCH_OVERHEAD + len(section), np.uint8)
        batch[RECORD_BATCH_OVERHEAD:] = np.frombuffer(section, np.uint8)
    size = batch.size
    if size > INT32_MAX:
        raise InvalidBatchError(f"the batch would have {size} bytes, but the length field allows 2^31 - 1.")
    whole = batch.data
    whole[:RECORD_BATCH_OVERHEAD] = header._replace(batch_length=size - LOG_OVERHEAD).pack()
    write_crc(whole, 0, size)
    return batch


def _check(columns: RecordColumns, last_offset: int = -1) -> None:
    """Refuses what Kafka's builder refuses. Kafka: MemoryRecordsBuilder.appendWithOffset."""
    if columns.offsets.size and (columns.offsets[0] <= last_offset or (np.diff(columns.offsets) <= 0).any()):
        raise InvalidBatchError("offsets must be 0 or more and ascend from record to record.")
    if columns.timestamps.size and columns.timestamps.min() < NO_TIMESTAMP:
        raise InvalidBatchError(f"timestamp {columns.timestamps.min()} is negative; -1 means none.")


def columns_of(
    values: Sequence[bytes | None], keys: Sequence[bytes | None] | None, timestamps: Sequence[int] | int
) -> RecordColumns:
    """Records without headers as columns, with offsets from 0 on; a single timestamp is for all records."""
    count = len(values)
    no_bytes, no_ends, none = _joined(())
    keys_ = (no_bytes, np.zeros(count + 1, np.int32), np.zeros(count, np.bool_))
    try:
        times = (
            np.full(count, timestamps, np.int64)
            if isinstance(timestamps, int)
            else np.array(timestamps, np.int64)
        )
        return RecordColumns._make(
            (
                np.arange(count, dtype=np.int64),
                times,
                *(keys_ if keys is None else _joined(keys)),
                *_joined(values),
                np.zeros(count + 1, np.int32),
                *(no_bytes, no_ends),
                *(no_bytes, no_ends, none),
            )
        )
    except OverflowError:
        raise _too_wide() from None


def _columns_of_records(records: Sequence[Record]) -> RecordColumns:
    headers = [header for record in records for header in record.headers]
    try:
        return RecordColumns._make(
            (
                np.array([record.offset for record in records], np.int64),
                np.array([record.timestamp for record in records], np.int64),
                *_joined([record.key for record in records]),
                *_joined([record.value for record in records]),
                _ends([len(record.headers) for record in records], len(records)),
                *_joined([key.encode() for key, _ in headers])[:2],
                *_joined([value for _, value in headers]),
            )
        )
    except OverflowError:
        raise _too_wide() from None


def _too_wide() -> InvalidBatchError:
    return InvalidBatchError(
        "an offset or timestamp does not fit in 64 bits, or the keys or values have more than 2 GiB."
    )


def _joined(parts: Sequence[bytes | None]) -> tuple[Bytes, NDArray[np.int32], NDArray[np.bool_]]:
    """(all bytes, ends, which are not null)."""
    present = cast("Sequence[bytes]", parts)
    valid = np.ones(len(parts), np.bool_)
    try:
        whole = b"".join(present)
    except TypeError:  # a part is None
        valid[:] = [part is not None for part in parts]
        present = [part or b"" for part in parts]
        whole = b"".join(present)
    return byte_array(whole), _ends(map(len, present), len(parts)), valid


def _ends(sizes: Iterable[int], count: int) -> NDArray[np.int32]:
    """Arrow's offsets of parts with these sizes; OverflowError above 2 GiB."""
    ends = np.zeros(count + 1, np.int64)
    np.cumsum(np.fromiter(sizes, np.int64, count), out=ends[1:])
    if ends[-1] > INT32_MAX:
        raise OverflowError(f"{ends[-1]} bytes")
    return ends.astype(np.int32)


def _columns_of_arrow(batch: pa.RecordBatch, base_offset: int) -> RecordColumns:
    import pyarrow as pa

    rows, names = batch.num_rows, set(batch.schema.names)
    unknown = names - {"key", "value", "timestamp", "headers", "offset"}
    if "value" not in names or unknown:
        raise InvalidBatchError(
            f"columns {sorted(names)}: value is required; key, timestamp, headers and offset are optional; "
            "there are no others."
        )
    nulls = pa.nulls(rows, pa.binary())
    offsets = np.arange(base_offset, base_offset + rows, dtype=np.int64)
    if "offset" in names:
        if batch.column("offset").null_count:
            raise InvalidBatchError(
                "the column offset has nulls; leave it out, or give every record its offset."
            )
        offsets = batch.column("offset").cast(pa.int64()).to_numpy(zero_copy_only=False)
    timestamps = np.full(rows, NO_TIMESTAMP, np.int64)
    if "timestamp" in names:
        column = batch.column("timestamp")
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
        timestamps = column.cast(pa.int64()).fill_null(NO_TIMESTAMP).to_numpy(zero_copy_only=False)
    return RecordColumns._make(
        (
            _writable(offsets),
            _writable(timestamps),
            *binary_parts(batch.column("key") if "key" in names else nulls),
            *binary_parts(batch.column("value")),
            *_header_parts(batch.column("headers") if "headers" in names else None, rows),
        )
    )


def binary_parts(column: pa.Array) -> tuple[Bytes, NDArray[np.int32], NDArray[np.bool_]]:
    """A column of bytes or text in the form that kernels take: (all bytes, ends, which are not null)."""
    import pyarrow as pa

    column = column.cast(pa.binary())
    _, ends, data = column.buffers()
    every = np.zeros(1, np.int32)
    if len(column):
        every = np.frombuffer(ends, np.int32)[column.offset : column.offset + len(column) + 1]
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return byte_array(data if data is not None else b""), _writable(every), _writable(valid)


@cache
def _type_of_headers() -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.struct([("key", pa.binary()), ("value", pa.binary())]))


def _header_parts(
    column: pa.Array | None, rows: int
) -> tuple[NDArray[np.int32], Bytes, NDArray[np.int32], Bytes, NDArray[np.int32], NDArray[np.bool_]]:
    import pyarrow as pa

    if column is None:
        empty = pa.array([], pa.binary())
        return np.zeros(rows + 1, np.int32), *binary_parts(empty)[:2], *binary_parts(empty)
    column = column.cast(_type_of_headers())
    sizes = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    pairs = column.flatten()  # leaves out elements under null lists
    if pairs.field("key").null_count:
        raise InvalidBatchError("a header needs a key; only its value may be null.")
    ends = np.zeros(rows + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    return ends, *binary_parts(pairs.field("key"))[:2], *binary_parts(pairs.field("value"))


def _writable(array: NDArray[_T]) -> NDArray[_T]:
    """A writable, contiguous array: Numba would compile each kernel again for other kinds."""
    return array if array.flags.writeable and array.flags.c_contiguous else array.copy()
