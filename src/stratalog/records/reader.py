"""Batches and records one by one, for small inputs; it uses the same kernels as the columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from stratalog.errors import CorruptRecordError
from stratalog.limits import INT64_MAX, INT64_MIN
from stratalog.records.batch import Attributes, BatchHeader, TimestampType
from stratalog.records.build import Header, Record
from stratalog.records.compression import DEFAULT_LIMIT, Codec, Scratch
from stratalog.records.kernels import decode as decoding
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.unpack import invalid_record, next_run
from stratalog.records.utf8 import decode_text
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches, wrong_crc

_ROWS = 256


class BatchRow(NamedTuple):
    """The facts of one batch: a row of the walk's table (`BATCH`) as Python values."""

    position: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    records_position: int
    records_end: int
    size: int
    partition_leader_epoch: int
    base_sequence: int
    records_count: int
    crc: int
    attributes: int
    producer_epoch: int
    magic: int
    valid: bool


class RecordBatch:
    """One batch in a buffer, of any magic. Iterating it twice gives the same records twice."""

    __slots__ = ("_data", "_limit", "_row", "facts")

    def __init__(self, data: Bytes, row: BatchTable, limit: int) -> None:
        self._data = data
        self._row = row
        self._limit = limit
        self.facts = BatchRow._make(row[0].item())

    @property
    def header(self) -> BatchHeader:
        """The parsed header of a v2 batch; `facts` has the fields for every magic."""
        return BatchHeader.unpack(self.raw)

    @property
    def raw(self) -> memoryview:
        """The bytes of the batch."""
        return self._data[self.facts.position : self.facts.position + self.facts.size].data

    @property
    def codec(self) -> Codec:
        return Codec.from_attributes(self.facts.attributes)

    @property
    def is_control(self) -> bool:
        return self.facts.magic == 2 and bool(self.facts.attributes & Attributes.CONTROL)

    @property
    def is_transactional(self) -> bool:
        return self.facts.magic == 2 and bool(self.facts.attributes & Attributes.TRANSACTIONAL)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.facts.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType(bool(self.facts.attributes & Attributes.LOG_APPEND_TIME))

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    def records(self, *, stored_timestamps: bool = False) -> Iterator[Record]:
        """The records as a consumer sees them.

        In a LogAppendTime batch all have the time of the append. With `stored_timestamps` each has the
        timestamp of its producer, which is still stored in the record: code that rewrites a batch needs it.
        """
        row = self._row.copy()
        if stored_timestamps:
            row["attributes"] &= ~Attributes.LOG_APPEND_TIME
        run = next_run(self._data, row, 0, Scratch(64 << 10), self._limit)
        if run.problem is not None:
            raise run.problem
        decode = decoding.decode_legacy if run.is_legacy else decoding.decode
        rows = np.zeros(_ROWS, decoding.RECORD)
        at, outcome = (0, 0, 0), decoding.MORE
        while outcome == decoding.MORE:
            count, outcome, at = decode(run.data, run.batches, rows, at, INT64_MAX, INT64_MIN, INT64_MAX)
            for row in rows[:count].tolist():
                yield _record(run.data, row)
        if outcome != decoding.DONE:
            raise invalid_record(self._row[0], outcome)


def read_batches(
    buffer: Any,  # any object with the buffer protocol
    *,
    start: int = 0,
    end: int | None = None,
    check_crc: bool = True,
    limit: int = DEFAULT_LIMIT,
) -> Iterator[RecordBatch]:
    """The batches of buffer[start:end], up to a torn tail; a corrupt batch raises CorruptRecordError."""
    data = byte_array(buffer)
    end = data.size if end is None else end
    table = new_table(64)
    position, stop = start, WalkStop.TABLE_FULL
    while stop is WalkStop.TABLE_FULL:
        walk = walk_batches(data, start=position, end=end, table=table, check_crc=check_crc)
        for index in range(len(walk.headers)):
            row = walk.headers[index : index + 1].copy()
            if not row[0]["valid"]:
                raise wrong_crc(data, row[0])
            yield RecordBatch(data, row, limit)
        position, stop = walk.next_position, walk.stop
    if stop not in (WalkStop.END, WalkStop.TORN_TAIL):
        raise CorruptRecordError(explain_stop(data, position, end, stop), position=position)


def _record(data: Bytes, row: tuple[Any, ...]) -> Record:
    offset, timestamp, key_at, value_at, headers_at, key_size, value_size, headers_count, _size, _batch = row
    headers = tuple(read_headers(data, headers_at, headers_count)) if headers_count else ()
    return Record(
        offset, timestamp, _bytes(data, key_at, key_size), _bytes(data, value_at, value_size), headers
    )


def read_headers(data: Bytes, position: int, count: int) -> Iterator[Header]:
    """The headers of a record, from the position that a decoder has found."""
    for _ in range(count):
        size, position = decoding.varint(data, position, data.size)
        key = decode_text(data[position : position + size].tobytes())
        size, position = decoding.varint(data, position + size, data.size)
        yield key, _bytes(data, position, size)
        position += max(size, 0)


def _bytes(data: Bytes, position: int, size: int) -> bytes | None:
    return data[position : position + size].tobytes() if size >= 0 else None
