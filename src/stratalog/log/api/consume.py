"""Records of a log as a consumer gets them: no markers, no record twice.

With read_committed there are no aborted records either.

A fetch is a run of whole batches from one segment. A filter finds the byte ranges that a reader may see.
Their records are returned one by one (`consume`) or as Arrow columns (`consume_columns`). Kafka:
CompletedFetch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from stratalog.errors import (
    CorruptCompressionError,
    CorruptRecordError,
    InvalidRecordError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
    UsageError,
)
from stratalog.files.names import TopicPartition
from stratalog.log.api.consumer_records import ConsumerReader, ConsumerRecord
from stratalog.log.producers.markers import read_marker
from stratalog.log.reading import AbortedTransaction, FetchedData, Isolation
from stratalog.records.batch import LOG_OVERHEAD, Attributes
from stratalog.records.columns import KAFKA_COLUMNS, ColumnReader
from stratalog.records.control import ControlType
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import BatchTable
from stratalog.records.rows import RowMemory
from stratalog.records.walk import WalkStop, explain_stop, new_table, walk_batches

_T = TypeVar("_T")

FETCH_SIZE = 1 << 20  # how much a consumer fetches from a partition at a time: `max.partition.fetch.bytes`
# The cost of a fetch itself is a fifth of the time of `to_arrow` if each fetch has only 1 MiB.
_COLUMNS_FETCH_SIZE = 4 * FETCH_SIZE
IsolationName = Literal["read_uncommitted", "read_committed"]
_ISOLATIONS = {"read_uncommitted": Isolation.HIGH_WATERMARK, "read_committed": Isolation.TXN_COMMITTED}
# Errors that a batch with a correct checksum can have: its bytes are as written, so it is not read again.
_HAS_ITS_CHECKSUM = (
    InvalidRecordError,
    CorruptCompressionError,
    RecordTooLargeError,
    UnsupportedCompressionTypeError,
)
_TRANSACTIONAL, _CONTROL = int(Attributes.TRANSACTIONAL), int(Attributes.CONTROL)


class Readable(Protocol):
    """A log that can be read: one that is open for writing, or a read-only view."""

    topic_partition: TopicPartition

    @property
    def directory(self) -> str: ...

    @property
    def high_watermark(self) -> int: ...

    @property
    def last_stable_offset(self) -> int: ...

    def read(
        self, start_offset: int, max_size: int, *, isolation: Isolation, min_one_message: bool = True
    ) -> FetchedData: ...

    def check_passed_over(self, offset: int, stop_base: int) -> None: ...

    def look_again(self) -> None: ...


class Fetch(NamedTuple):
    """Whole batches of one segment: which bytes of `data` a reader may see, and where it continues.

    `offset` is where the reader is. The first batch begins there or below.
    """

    data: Bytes
    ranges: list[tuple[int, int]]
    offset: int
    base_offset: int
    next_offset: int
    path: str
    position: int

    def batch_at(self, position: int) -> bytes:
        """The bytes of the batch at this place of `data`."""
        size = LOG_OVERHEAD + int.from_bytes(self.data[position + 8 : position + 12].tobytes(), "big")
        return self.data[position : position + size].tobytes()

    def offset_at(self, position: int) -> int:
        """The offset after the last batch that ends before this position of `data`; 0 if there is none."""
        offset, at, stop = 0, 0, WalkStop.TABLE_FULL
        while stop is WalkStop.TABLE_FULL:
            walk = walk_batches(self.data, start=at, end=position, check_crc=False)
            offset = max([offset, *(walk.headers["last_offset"] + 1).tolist()])
            at, stop = walk.next_position, walk.stop
        return offset


def isolation_of(name: IsolationName) -> Isolation:
    """The isolation for a consumer's `isolation.level`, given as its name."""
    try:
        return _ISOLATIONS[name]
    except (KeyError, TypeError):  # TypeError: a name that cannot be hashed, such as a list
        raise UsageError(f"isolation {name!r}: it must be one of {', '.join(_ISOLATIONS)}.") from None


def end_of(log: Readable, isolation: Isolation) -> int:
    """The first offset that a reader may not see now."""
    return log.last_stable_offset if isolation is Isolation.TXN_COMMITTED else log.high_watermark


def consume(log: Readable, start: int, end: int, isolation: Isolation) -> Iterator[ConsumerRecord]:
    """The records of [start, end), in the order of their offsets."""
    memory = RowMemory()

    def decode(fetch: Fetch, first: int, stop: int) -> Iterator[Iterator[ConsumerRecord]]:
        reader = ConsumerReader(log.topic_partition, fetch.offset, end, memory)
        return reader.read(fetch.data, start=first, end=stop)

    return chain.from_iterable(_decoded(log, start, end, isolation, FETCH_SIZE, decode))


def consume_columns(
    log: Readable,
    start: int,
    end: int,
    isolation: Isolation,
    columns: Sequence[str] = KAFKA_COLUMNS,
    **options: Any,  # of ColumnReader: max_rows, max_bytes
) -> Iterator[pa.RecordBatch]:
    """The same records as Arrow batches; `position` is that of the record's batch in its .log file."""
    topic, partition = log.topic_partition

    def new_reader(first_offset: int) -> ColumnReader:
        return ColumnReader(
            columns=columns,
            topic=topic,
            partition=partition,
            start_offset=first_offset,
            end_offset=end,
            **options,
        )

    reader = new_reader(start)

    def decode(fetch: Fetch, first: int, stop: int) -> Iterator[pa.RecordBatch]:
        nonlocal reader
        if fetch.base_offset < fetch.offset > start:  # the log was truncated, and has other batches here
            reader = new_reader(fetch.offset)
        for batch in reader.read(fetch.data, start=first, end=stop):
            yield _placed(batch, columns, fetch.position)

    return _decoded(log, start, end, isolation, _COLUMNS_FETCH_SIZE, decode)


def _decoded(
    log: Readable,
    start: int,
    end: int,
    isolation: Isolation,
    fetch_size: int,
    decode: Callable[[Fetch, int, int], Iterator[_T]],
) -> Iterator[_T]:
    """Yields the result of `decode` for the ranges of each fetch, until `end` or the last visible record.

    A log may be truncated and appended to while it is read. Then a fetch may hold half of an old batch and
    half of a new one. So a batch with a wrong checksum is fetched again, and is an error only if its bytes
    are unchanged.
    """
    offset, broken = start, b""
    while offset < end:
        fetch = _fetch(log, offset, end, isolation, fetch_size)
        if fetch is None:
            return
        try:
            for first, stop in fetch.ranges:
                yield from decode(fetch, first, stop)
        except CorruptRecordError as error:
            before, broken = broken, fetch.batch_at(error.position)
            if isinstance(error, _HAS_ITS_CHECKSUM) or broken == before:
                raise error.at(position=fetch.position + error.position, path=fetch.path) from error
            offset = max(offset, fetch.offset_at(error.position))  # all records before it were returned
            log.look_again()
        else:
            offset = fetch.next_offset


def _fetch(log: Readable, offset: int, end: int, isolation: Isolation, size: int) -> Fetch | None:
    broken = b""
    while True:
        found = log.read(offset, size, isolation=isolation)
        log.check_passed_over(offset, found.offset.segment_base if found.records else end)
        if not found.records:
            return None
        data = byte_array(found.records)
        path = f"{log.directory}/{found.offset.segment_base:020d}.log"
        position = found.offset.position
        filter_ = _AbortedFilter(data, found.aborted_transactions or [])
        next_offset, at, stop = offset, 0, WalkStop.TABLE_FULL
        table = new_table()
        while stop is WalkStop.TABLE_FULL:
            walk = walk_batches(data, start=at, table=table, check_crc=False)
            filter_.add(walk.headers)
            if len(walk.headers):
                # The maximum of all batches: in a damaged log the last batch may have a lower offset, and the
                # same fetch would be repeated forever.
                next_offset = max(next_offset, int(walk.headers["last_offset"].max()) + 1)
            at, stop = walk.next_position, walk.stop
        if at:
            return Fetch(data, filter_.ranges, offset, found.offset.offset, next_offset, path, position)
        if stop in (WalkStop.END, WalkStop.TORN_TAIL):
            return None
        # Batches before the damage are returned first; the next fetch then begins with the damage.
        if found.records == broken:
            raise CorruptRecordError(explain_stop(data, 0, data.size, stop), position=position, path=path)
        broken = found.records
        log.look_again()


class _AbortedFilter:
    """Finds the byte ranges of a fetch that hold no aborted batch.

    A producer's batches count as aborted from the first offset of its transaction to its ABORT marker.
    """

    def __init__(self, data: Bytes, aborted: Sequence[AbortedTransaction]) -> None:
        self.ranges: list[tuple[int, int]] = []
        self._data = data
        self._waiting = sorted(aborted, key=lambda txn: txn.first_offset, reverse=True)
        self._open: set[int] = set()

    def add(self, headers: BatchTable) -> None:
        if not len(headers):
            return
        if not self._waiting and not self._open:
            self._keep(int(headers[0]["position"]), int(headers[-1]["position"] + headers[-1]["size"]))
            return
        columns = ("position", "size", "last_offset", "producer_id", "attributes")
        rows = zip(*(headers[name].tolist() for name in columns), strict=True)
        for index, (position, size, last_offset, producer_id, attributes) in enumerate(rows):
            while self._waiting and self._waiting[-1].first_offset <= last_offset:
                self._open.add(self._waiting.pop().producer_id)
            if attributes & _CONTROL:
                # The metadata quorum's control records have no producer, and are not transaction markers.
                if producer_id >= 0 and self._is_abort(headers[index : index + 1]):
                    self._open.discard(producer_id)
            elif attributes & _TRANSACTIONAL and producer_id in self._open:
                continue
            self._keep(position, position + size)

    def _is_abort(self, row: BatchTable) -> bool:
        found = read_marker(self._data, row)
        return found is not None and found[0].control_type is ControlType.ABORT

    def _keep(self, start: int, end: int) -> None:
        if self.ranges and self.ranges[-1][1] == start:
            self.ranges[-1] = (self.ranges[-1][0], end)
        else:
            self.ranges.append((start, end))


def _placed(batch: pa.RecordBatch, columns: Sequence[str], position: int) -> pa.RecordBatch:
    if "position" not in columns:
        return batch
    arrays = list(batch.columns)
    at = list(columns).index("position")
    arrays[at] = pa.array(np.asarray(arrays[at]) + position)
    return pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
