"""A log that is open in this process: append, read, follow, close. `stratalog.open_log` creates it.

with stratalog.open_log("data/orders-0", create=True) as log:
    log.append(b"hello")
"""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self
from uuid import UUID

from stratalog.clock import Clock
from stratalog.errors import DiskError, LogClosedError, UsageError
from stratalog.files.processes import Opener
from stratalog.limits import INT32_MAX
from stratalog.log.api.consume import ConsumerRecord, consume, consume_columns, end_of, isolation_of
from stratalog.log.api.tailing import TailStop, follow
from stratalog.log.api.view import LogView
from stratalog.log.log import Log
from stratalog.log.log_end import LogEnd
from stratalog.log.new_records import AppendableRecord, NewRecord, check_whole, to_milliseconds, to_record
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.log.timestamps import SpecialTimestamp
from stratalog.records.build import BatchOptions, Header, build_batch, build_batches
from stratalog.records.columns import KAFKA_COLUMNS, arrow_schema
from stratalog.records.compression import Codec

if TYPE_CHECKING:
    import pyarrow as pa

logger = logging.getLogger(__name__)

DEFAULT_POLL_MS = 100
_BASE_OFFSET_SIZE = 8
_APPENDED_COLUMNS = ("key", "value", "timestamp", "headers")


class Home(Protocol):
    """The place of a log as `open_log` found it (`directory/home.py`).

    `write_clean_shutdown` is called last when the log is closed; `release` releases its locks.
    """

    def topic_id(self) -> UUID | None: ...
    def start_offset(self) -> int: ...
    def write_clean_shutdown(self) -> None: ...
    def release(self) -> None: ...


class PartitionLog:
    """One partition's log, open. Created by `open_log`; use it in a `with`, or call `close`.

    Offsets count from `start_offset` to `end_offset` (exclusive). Any number of threads may use it at once.
    """

    def __init__(
        self,
        home: Home,
        log: Log | LogView,
        scheduler: BackgroundScheduler | None,
        clock: Clock,
        codec: Codec,
    ) -> None:
        self._home = home
        self._log = log
        self._scheduler = scheduler
        self._clock = clock
        self._codec = codec
        self._lock = threading.Lock()
        self._is_closed = False
        self._opener = Opener()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        """Warn about a log that was never closed, and end its thread. Writes nothing.

        The lock is released with the last reference to the underlying log, which may still be in use.
        """
        if getattr(self, "_is_closed", True) or not self._opener.is_here or isinstance(self._log, LogView):
            return
        warnings.warn(
            f"{self._log.directory} was never closed: it is recovered when it is opened next.",
            ResourceWarning,
            source=self,
            stacklevel=1,
        )
        if self._scheduler is not None:
            self._scheduler.abandon()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{self.start_offset} to {self.end_offset}"
        return f"<PartitionLog {self._log.directory}: {state}>"

    # What it is

    @property
    def topic(self) -> str:
        return self._log.topic_partition.topic

    @property
    def partition(self) -> int:
        return self._log.topic_partition.partition

    @property
    def directory(self) -> Path:
        return Path(self._log.directory)

    @property
    def topic_id(self) -> UUID | None:
        """The topic id in partition.metadata; None without such a file."""
        return self._home.topic_id()

    @property
    def is_read_only(self) -> bool:
        return isinstance(self._log, LogView)

    @property
    def hidden(self) -> LogEnd | None:
        """Where a log that is opened read_only ends, if bytes follow that it does not show.

        They are there for a moment while a writer appends; after a crash or damage, until recovery cuts them.
        """
        self._refresh()
        if not isinstance(self._log, LogView):
            return None
        end = self._log.end()
        return end if end.hides_something else None

    @property
    def start_offset(self) -> int:
        """The first offset that can be read."""
        return self._log.log_start_offset

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        """Where a read_uncommitted reader ends; without replicas that is the end of the log."""
        return self._log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed reader ends: the first record of an open transaction, or the log's end."""
        # That record's batch may begin before the start of the log, and then so does the log's own mark.
        return max(self._log.last_stable_offset, self._log.log_start_offset)

    @property
    def log(self) -> Log:
        """The underlying `Log`, for what a broker does to it: markers, epochs, rolls. Not for read_only."""
        return self._not_a_view()

    def metrics(self) -> dict[str, int]:
        """Kafka's gauges of a log: NumLogSegments, LogStartOffset, LogEndOffset, Size."""
        return self._log.metrics()

    # Append

    def append(
        self,
        value: bytes | None,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        timestamp: int | datetime | None = None,
    ) -> int:
        """Append one record; returns its offset. It is in the file, not yet on the device: see `flush`."""
        return self.append_many([NewRecord(value, key, headers, timestamp)])[0]

    def append_many(
        self, records: Iterable[bytes | AppendableRecord], *, codec: str | None = None
    ) -> tuple[int, int]:
        """Append records as one batch, all or none; returns the first and the last offset.

        Bytes are a record's value. A batch has at most `max.message.bytes`, 1 MiB unless configured.
        """
        log = self._writable()
        now = self._clock()
        rows = [to_record(offset, record, now) for offset, record in enumerate(records)]
        options = BatchOptions(codec=self._codec if codec is None else codec_of(codec))
        return self._append(log, build_batch(rows, options))

    def append_batch(self, data: bytes, *, keep_offsets: bool = False) -> tuple[int, int]:
        """Append one encoded batch, as a producer sends it; returns its offsets.

        With `keep_offsets`, `data` is any number of batches copied from another log, including markers. Each
        keeps its offset, and none may be below this log's end.
        """
        log = self._writable()
        check_whole(data)
        if not keep_offsets:
            return self._append(log, data)
        info = log.append_as_follower(data, leader_epoch=_HIGHEST_EPOCH)
        return info.first_known_offset, info.last_offset

    def append_arrow(self, table: pa.Table | pa.RecordBatch, *, codec: str | None = None) -> tuple[int, int]:
        """Append the rows of an Arrow table: `value`, and where present `key`, `timestamp`, `headers`.

        The rows go into batches of 16 KiB before compression, one append each. Returns the first and the last
        offset; records of another thread may be in between. If one append fails, the batches before it stay.
        """
        log = self._writable()
        options = BatchOptions(codec=self._codec if codec is None else codec_of(codec))
        known = table.select([name for name in _APPENDED_COLUMNS if name in table.schema.names])
        offsets = [
            # A producer's batch counts from 0; the base offset is outside the CRC.
            self._append(log, bytes(_BASE_OFFSET_SIZE) + batch[_BASE_OFFSET_SIZE:])
            for batch in build_batches(known, options)
        ]
        if not offsets:
            raise UsageError("the table has no rows; there is nothing to append.")
        return offsets[0][0], offsets[-1][1]

    def _append(self, log: Log, data: bytes) -> tuple[int, int]:
        # The latest leader epoch is used again; a log that no broker wrote has one leader, in epoch 0.
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
        isolation: str = "read_uncommitted",
    ) -> Iterator[ConsumerRecord]:
        """The records that the log has now, from an offset or a time on, up to an offset or a time.

        `since` and `until` are turned into offsets by `offset_for_time`: the first record that is not before
        the time. With read_committed, records of aborted and of open transactions are left out.
        """
        level = isolation_of(isolation)
        self._refresh()
        start, end = self._range(offset, end_offset, since, until, end_of(self._log, level))
        return consume(self._log, start, end, level)

    def tail(
        self,
        offset: int | None = None,
        *,
        since: datetime | int | None = None,
        isolation: str = "read_uncommitted",
        poll_ms: int = DEFAULT_POLL_MS,
        timeout_ms: int | None = None,
        stop: TailStop | None = None,
    ) -> Iterator[ConsumerRecord]:
        """Records as they arrive: from the end of the log unless an offset or a time is given.

        Looks for new ones every `poll_ms`. Ends when `stop` is set, or when no record came for `timeout_ms`.
        It raises OffsetOutOfRangeError if its position is no longer in the log, after a truncation or a
        deletion of records.
        """
        level = isolation_of(isolation)
        self._refresh()
        position = self._start(offset, since, default=end_of(self._log, level))
        return follow(
            self._log,
            position,
            level,
            poll_ms=poll_ms,
            timeout_ms=timeout_ms,
            stop=stop or threading.Event(),
            refresh=self._refresh,
            clock=self._clock,
        )

    def arrow_batches(
        self,
        columns: Sequence[str] = KAFKA_COLUMNS,
        *,
        offset: int | None = None,
        end_offset: int | None = None,
        since: datetime | int | None = None,
        until: datetime | int | None = None,
        isolation: str = "read_uncommitted",
    ) -> Iterator[pa.RecordBatch]:
        """The same records as `records` returns, in Arrow batches of these columns."""
        level = isolation_of(isolation)
        self._refresh()
        start, end = self._range(offset, end_offset, since, until, end_of(self._log, level))
        return consume_columns(self._log, start, end, level, columns)

    def to_arrow(self, columns: Sequence[str] = KAFKA_COLUMNS, **options: Any) -> pa.Table:
        """All batches of `arrow_batches` as one table in memory; the options are those of `arrow_batches`."""
        import pyarrow as pa

        batches = self.arrow_batches(columns, **options)
        return pa.Table.from_batches(batches, schema=arrow_schema(columns))

    def offset_for_time(self, time: datetime | int) -> int | None:
        """The offset of the first record that is not before a time; None if all are.

        A time is a datetime with a time zone, or milliseconds since 1970.
        """
        self._check_open()
        found = self._log.first_not_before(to_milliseconds(time))
        return None if found is None else found.offset

    def offset_of_newest(self) -> int | None:
        """The offset of the record with the largest timestamp; None if no record has a timestamp."""
        self._check_open()
        found = self._log.fetch_offset_by_timestamp(SpecialTimestamp.MAX_TIMESTAMP)
        return None if found is None else found.offset

    # Change, flush, close

    def truncate_to(self, offset: int) -> None:
        """Remove the batch that holds an offset, and all records after it.

        Then the log ends at that offset.
        """
        self._writable().truncate_to(offset)

    def delete_records(self, before_offset: int) -> int:
        """Delete the records below an offset; returns where the log starts now. The files stay for now.

        -1 means the end, as in Kafka: all records are deleted.
        """
        return self._writable().delete_records(before_offset)

    def flush(self) -> None:
        """Return when every record is on the device."""
        self._writable().flush()

    def close(self) -> None:
        """Flush everything to the device, write the clean-shutdown file, release the lock.

        Calling it again has no effect. A log that failed to write gets no clean-shutdown file, so it is
        recovered when it is opened next. Its DiskError is raised only if an appended record may not be on the
        device. In a forked child this writes nothing, and the log stays open in its parent.
        """
        if not self._opener.is_here:  # the thread that may hold the lock is in the parent
            self._is_closed = True
            self._log.close()
            return
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            if isinstance(self._log, LogView):
                self._log.close()
                return
            try:
                self._log.close()
                self._stop_scheduler()
                # Work in the background may have failed as late as during the close.
                if self._log.failure is not None:
                    raise self._log.failure
                self._log.keep_start()
                self._home.write_clean_shutdown()
            except DiskError as error:
                self._log.close_handlers()
                if not self._log.is_saved:
                    raise
                logger.warning("%s is not marked as closed cleanly, but has every record: %s", self, error)
            finally:
                self._stop_scheduler()
                self._home.release()

    def _stop_scheduler(self) -> None:
        if self._scheduler is not None:
            self._scheduler.close()

    # Helpers

    def _writable(self) -> Log:
        log = self._not_a_view()
        self._opener.check(log.directory)
        return log

    def _not_a_view(self) -> Log:
        self._check_open()
        if isinstance(self._log, LogView):
            raise UsageError(f"{self._log.directory} is opened read_only; open it without to change it.")
        return self._log

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogClosedError(self._log.directory)

    def _refresh(self) -> None:
        self._check_open()
        if isinstance(self._log, LogView):
            self._log.refresh(self._home.start_offset())

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
        start = self._start(offset, since, default=self._log.log_start_offset)
        end = mark if end_offset is None else min(end_offset, mark)
        if until is not None:
            found = self.offset_for_time(until)
            end = mark if found is None else min(found, mark)
        return start, end

    def _start(self, offset: int | None, since: datetime | int | None, *, default: int) -> int:
        if since is None:
            return default if offset is None else offset
        if offset is not None:
            raise UsageError("offset and since both say where to begin; give one of them.")
        found = self.offset_for_time(since)
        return self._log.log_end_offset if found is None else found


_HIGHEST_EPOCH = INT32_MAX


def codec_of(name: str) -> Codec:
    for codec in Codec:
        if codec.kafka_name == name:
            return codec
    raise UsageError(f"codec {name!r}: it is one of {', '.join(codec.kafka_name for codec in Codec)}.")
