"""What people do with a log: append records, read them, follow them.

A log from `open_log` (`partition_log.py`) and one of a `LogManager` (`managed_log.py`) have these methods in
common. Arguments are checked before anything is done: a wrong type is a WrongTypeError.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from stratalog.clock import Clock
from stratalog.errors import RecordTooLargeError, UsageError, WrongTypeError
from stratalog.limits import INT32_MAX
from stratalog.log.api.batching import append_in_batches
from stratalog.log.api.consume import (
    IsolationName,
    consume,
    consume_columns,
    end_of,
    isolation_of,
)
from stratalog.log.api.consumer_records import ConsumerRecord
from stratalog.log.api.tailing import AsyncStop, TailStop, Wait, follow, follow_async
from stratalog.log.api.view import LogView
from stratalog.log.log import Log
from stratalog.log.new_records import (
    AppendableRecord,
    NewRecord,
    check_records,
    check_whole,
    to_columns,
    to_milliseconds,
    to_offset,
    to_record,
)
from stratalog.log.ready import ReadySet
from stratalog.log.timestamps import SpecialTimestamp
from stratalog.records.build import BatchOptions, Header, Record, build_batch, build_batches
from stratalog.records.columns import KAFKA_COLUMNS, arrow_schema, column_names
from stratalog.records.compression import Codec, CodecName
from stratalog.records.few import MOST_RECORDS

if TYPE_CHECKING:
    import pyarrow as pa

DEFAULT_POLL_MS = 100
_BASE_OFFSET_SIZE = 8
_HIGHEST_EPOCH = INT32_MAX
_PLAIN = Codec.NONE  # looking up an Enum's member takes longer than looking up a name


class LogApi(ABC):
    """Appends, reads and follows. Offsets count from `start_offset` to `end_offset` (exclusive).

    Any number of threads may use it at once.
    """

    _clock: Clock
    _codec: Codec  # of appends that do not name one

    @property
    @abstractmethod
    def _below(self) -> Log | LogView:
        """The log that is read."""

    @abstractmethod
    def _writable(self) -> Log:
        """The log to write to; an error if there is none."""

    @abstractmethod
    def _check_open(self) -> None:
        """LogClosedError if the log is closed."""

    @abstractmethod
    def _refresh(self) -> None:
        """Check that the log is open, and let a view look at its files again."""

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """The records that the log has now, from its start on."""
        return self.records()

    @property
    def topic(self) -> str:
        return self._below.topic_partition.topic

    @property
    def partition(self) -> int:
        return self._below.topic_partition.partition

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._below.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._below.log_end_offset

    # Append

    def append(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        timestamp: int | datetime | None = None,
    ) -> int:
        """Append one record; returns its offset. It is in the file, not yet on the device: see `flush`."""
        if self._codec is _PLAIN and headers == ():
            log = self._writable()
            ready = log.ready_rules.of_record(value, key, timestamp, self._clock())
            if ready is not None:
                return self._append_one(log, ready)[0]
        return self.append_many([NewRecord(value, key, headers, timestamp)])[0]

    def append_many(
        self, records: Iterable[bytes | AppendableRecord], *, codec: CodecName | None = None
    ) -> tuple[int, int]:
        """Append records (bytes: a value only), all or none; returns the first and the last offset.

        They become one batch, or several if one would be larger than `max.message.bytes` (1 MiB by default).
        After an error none of them is in the log, and readers see all of them at the same time. After a
        crash, or if the disk fails, only the first of several batches may be there.
        """
        log = self._writable()
        now = self._clock()
        options = _options(self._codec if codec is None else codec_of(codec))
        try:
            given = [*records]
            if options.codec is _PLAIN and len(given) > MOST_RECORDS:
                ready = log.ready_rules.of_values(given, now)
                if ready is not None:
                    return self._append_one(log, ready)
            columns = to_columns(given, now) if len(given) > MOST_RECORDS else None
            rows = None if columns is not None else _rows(given, now)
        except TypeError:
            check_records(records)
            raise
        try:
            return self._append_one(log, build_batch(columns or rows or (), options))
        except RecordTooLargeError:
            if len(given) == 1:
                raise
        return append_in_batches(log, rows or _rows(given, now), options)

    def append_batch(self, data: bytes, *, keep_offsets: bool = False) -> tuple[int, int]:
        """Append one encoded batch, as a producer sends it; returns its offsets.

        With `keep_offsets`, `data` is any number of batches copied from another log, markers too. Each keeps
        its offset, and none may be below this log's end.
        """
        log = self._writable()
        check_whole(data)
        if not keep_offsets:
            return self._append_one(log, data)
        info = log.append_as_follower(data, leader_epoch=_HIGHEST_EPOCH)
        return info.first_known_offset, info.last_offset

    def append_arrow(
        self, table: pa.Table | pa.RecordBatch, *, codec: CodecName | None = None
    ) -> tuple[int, int]:
        """Append the rows of an Arrow table: `value` and, if present, `key`, `timestamp`, `headers`.

        A row without a timestamp gets the present time. The other columns of a read, such as `offset`, are
        ignored; a column of any other name is a UsageError. The rows go into batches of 16 KiB before
        compression, one append each. Returns the first and the last offset; records of another thread may
        have offsets in between. If one append fails, the batches before it stay.
        """
        import pyarrow as pa

        from stratalog.log.api.appended import appended_columns

        log = self._writable()
        if not isinstance(table, pa.Table | pa.RecordBatch):
            what = type(table).__name__
            raise WrongTypeError(
                f"append_arrow takes an Arrow table, not {what}: make one with pyarrow.table."
            )
        options = BatchOptions(codec=self._codec if codec is None else codec_of(codec))
        known = appended_columns(table, self._clock())
        offsets = [
            # The offsets of a producer's batch count from 0; the base offset is outside the CRC.
            self._append_one(log, bytes(_BASE_OFFSET_SIZE) + batch[_BASE_OFFSET_SIZE:])
            for batch in build_batches(known, options)
        ]
        if not offsets:
            raise UsageError("the table has no rows; there is nothing to append.")
        return offsets[0][0], offsets[-1][1]

    def _append_one(self, log: Log, data: bytes | ReadySet) -> tuple[int, int]:
        # The latest leader epoch is used again; a log without epochs begins with epoch 0.
        info = log.append_as_leader(data, leader_epoch=log.epochs.latest_epoch or 0)
        return info.first_offset, info.last_offset

    # Read

    def records(
        self,
        offset: int | None = None,
        *,
        end_offset: int | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        isolation: IsolationName = "read_uncommitted",
    ) -> Iterator[ConsumerRecord]:
        """The records that the log has now, from an offset or a time on, up to an offset or a time.

        `since` and `until` are turned into offsets by `offset_for_time`: the first record that is not before
        the time. With read_committed, records of aborted and of open transactions are left out.
        """
        level = isolation_of(isolation)
        self._refresh()
        log = self._below
        start, end = self._range(offset, end_offset, since, until, end_of(log, level))
        return consume(log, start, end, level)

    def tail(
        self,
        offset: int | None = None,
        *,
        since: datetime | int | None = None,
        isolation: IsolationName = "read_uncommitted",
        poll_ms: float = DEFAULT_POLL_MS,
        timeout_ms: float | None = None,
        stop: TailStop | None = None,
    ) -> Iterator[ConsumerRecord]:
        """Records as they arrive, from the end of the log on unless an offset or a time is given.

        Looks for new records every `poll_ms`. Ends when `stop` is set, or when no record came for
        `timeout_ms`. OffsetOutOfRangeError if the log is truncated below the position of the tail, or starts
        above it.
        """
        level = isolation_of(isolation)
        wait = Wait.of(poll_ms, timeout_ms)
        stop = stop or threading.Event()
        if not callable(getattr(stop, "wait", None)):
            raise WrongTypeError(
                f"stop is {stop!r}: it must be a threading.Event, or have a `wait` like one."
            )
        self._refresh()
        position = self._start(offset, since, default=end_of(self._below, level))
        return follow(self._below, position, level, wait, stop=stop, refresh=self._refresh, clock=self._clock)

    def tail_async(
        self,
        offset: int | None = None,
        *,
        since: datetime | int | None = None,
        isolation: IsolationName = "read_uncommitted",
        poll_ms: float = DEFAULT_POLL_MS,
        timeout_ms: float | None = None,
        stop: AsyncStop | None = None,
    ) -> AsyncIterator[ConsumerRecord]:
        """The same as `tail`, for `async for`: the files are read in a thread, so that the loop goes on.

        `stop` is an asyncio.Event, a threading.Event or any object with `is_set`.
        """
        level = isolation_of(isolation)
        wait = Wait.of(poll_ms, timeout_ms)
        if stop is not None and not callable(getattr(stop, "is_set", None)):
            raise WrongTypeError(
                f"stop is {stop!r}: it must be an asyncio.Event, or have an `is_set` like one."
            )
        self._refresh()
        position = self._start(offset, since, default=end_of(self._below, level))
        return follow_async(
            self._below, position, level, wait, stop=stop, refresh=self._refresh, clock=self._clock
        )

    def arrow_batches(
        self,
        columns: Sequence[str] = KAFKA_COLUMNS,
        *,
        offset: int | None = None,
        end_offset: int | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        isolation: IsolationName = "read_uncommitted",
    ) -> Iterator[pa.RecordBatch]:
        """The same records as `records` gives, in Arrow batches of these columns."""
        level = isolation_of(isolation)
        columns = column_names(columns)
        self._refresh()
        log = self._below
        start, end = self._range(offset, end_offset, since, until, end_of(log, level))
        return consume_columns(log, start, end, level, columns)

    def to_arrow(self, columns: Sequence[str] = KAFKA_COLUMNS, **options: Any) -> pa.Table:
        """All batches of `arrow_batches` as one table in memory; the options are those of `arrow_batches`."""
        import pyarrow as pa

        columns = column_names(columns)
        batches = self.arrow_batches(columns, **options)
        return pa.Table.from_batches(batches, schema=arrow_schema(columns))

    def offset_for_time(self, time: datetime | int) -> int | None:
        """The offset of the first record that is not before a time; None if all records are before it.

        A time is a datetime with a time zone, or milliseconds since 1970.
        """
        self._check_open()
        found = self._below.first_not_before(to_milliseconds(time))
        return None if found is None else found.offset

    def offset_of_newest(self) -> int | None:
        """The offset of the record with the largest timestamp; None if no record has one."""
        self._check_open()
        found = self._below.fetch_offset_by_timestamp(SpecialTimestamp.MAX_TIMESTAMP)
        return None if found is None else found.offset

    def _range(
        self,
        offset: int | None,
        end_offset: int | None,
        since: datetime | int | None,
        until: datetime | int | None,
        mark: int,
    ) -> tuple[int, int]:
        if end_offset is not None and until is not None:
            raise UsageError("end_offset and until both say where to end; give one of them.")
        start = self._start(offset, since, default=self._below.log_start_offset)
        end = mark if end_offset is None else min(to_offset(end_offset), mark)
        if until is not None:
            found = self._below.first_not_before(to_milliseconds(until))
            end = mark if found is None else min(found.offset, mark)
        return start, end

    def _start(self, offset: int | None, since: datetime | int | None, *, default: int) -> int:
        if since is None:
            return default if offset is None else to_offset(offset)
        if offset is not None:
            raise UsageError("offset and since both say where to begin; give one of them.")
        found = self._below.first_not_before(to_milliseconds(since))
        return self._below.log_end_offset if found is None else found.offset


def _rows(records: Sequence[bytes | AppendableRecord], now: int) -> list[Record]:
    return [to_record(offset, record, now) for offset, record in enumerate(records)]


@cache
def _options(codec: Codec) -> BatchOptions:
    return BatchOptions(codec=codec)


def codec_of(name: CodecName) -> Codec:
    """The codec of this name; UsageError if there is none."""
    for codec in Codec:
        if codec.kafka_name == name:
            return codec
    raise UsageError(f"codec {name!r}: it must be one of {', '.join(codec.kafka_name for codec in Codec)}.")
