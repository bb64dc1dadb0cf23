"""One segment of a log: the batches from a base offset on, and the indexes into them.

One thread changes a segment, any number read from it. Bytes are written before `size`
tells of them, and `size` is told before an index points at them, so a reader never sees half a batch.
Kafka: LogSegment.java
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import (
    CorruptIndexError,
    CorruptRecordError,
    DiskError,
    InvalidBatchError,
    SegmentOffsetOverflowError,
    StratalogError,
)
from stratalog.files.disk import Disk, Path, byte_view, changing
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX, INT64_MIN
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.indexing import SegmentIndexer
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment_files import Identities
from stratalog.segment.segment_reading import ReadableSegment
from stratalog.segment.time_index import NO_TIMESTAMP
from stratalog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from stratalog.files.disk import Data

logger = logging.getLogger(__name__)

MAX_SIZE = INT32_MAX  # of a .log file: positions in an index have 32 bits


class LogSegment(ReadableSegment):
    """A .log file, its .index, .timeindex and .txnindex."""

    __slots__ = (
        "_changes_count",
        "_first_timestamp",
        "_indexer",
        "_is_padded",
        "_max_timestamp",
        "_since_entry",
        "_synced_count",
        "clock",
        "created_ms",
        "has_failed_sync",
        "roll_jitter_ms",
    )

    def __init__(
        self,
        disk: DiskReader,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        *,
        suffix: str = "",
        size: int = 0,
        has: tuple[bool | None, bool | None, bool | None] = (None, None, None),
        identities: Identities | None = None,
        roll_jitter_ms: int = 0,
    ) -> None:
        super().__init__(
            disk, directory, base_offset, config, suffix=suffix, size=size, has=has, identities=identities
        )
        self.clock = clock
        self.created_ms = clock()
        self.roll_jitter_ms = roll_jitter_ms
        self._max_timestamp: tuple[int, int] | None = None  # and its offset; None: not looked up yet
        self._first_timestamp: int | None = None
        self._indexer: SegmentIndexer | None = None  # once it is appended to
        self._since_entry = 0
        self._is_padded = False  # the file is longer than `size`: preallocated, or a write has failed
        # How often the log was changed here, and how many of that were done when a sync of it began; -1 is no
        # sync yet. A change counts when it is done: one that a sync only meets half is not on the device.
        self._changes_count, self._synced_count = 0, -1
        self.has_failed_sync = False  # some of it may be lost for good, whatever a later sync says

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        *,
        suffix: str = "",
        size: int = 0,
        roll_jitter_ms: int = 0,
    ) -> LogSegment:
        """A new segment, of which only the .log is there as yet; `size` is how much of it is preallocated."""
        segment = cls(
            disk,
            directory,
            base_offset,
            config,
            clock,
            suffix=suffix,
            has=(False, False, False),
            roll_jitter_ms=roll_jitter_ms,
        )
        disk.create(segment.log_path, size)
        segment._note_name()
        segment._is_padded = size > 0
        segment._changes_count = 1
        return segment

    @classmethod
    def open(
        cls,
        disk: DiskReader,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        *,
        suffix: str = "",
        size: int | None = None,
        has_index: bool | None = None,
        has_time_index: bool | None = None,
        has_txn_index: bool | None = None,
        identities: Identities | None = None,
        roll_jitter_ms: int = 0,
    ) -> LogSegment:
        """The segment whose files are there. What a listing said of them saves asking the disk again.

        With `identities`, reading from another file that has got one of the names is a DiskError with ENOENT.
        """
        segment = cls(
            disk,
            directory,
            base_offset,
            config,
            clock,
            suffix=suffix,
            has=(has_index, has_time_index, has_txn_index),
            identities=identities,
            roll_jitter_ms=roll_jitter_ms,
        )
        segment.size = disk.size(segment.log_path) if size is None else size
        if segment.size > MAX_SIZE:
            raise CorruptRecordError(
                f"the file has {segment.size} bytes; a segment has at most 2^31 - 1.", path=segment.log_path
            )
        return segment

    def append(self, data: Data, batches: BatchTable, largest_offset: int) -> None:
        """Write a set of batches; `batches` are its rows as a walk finds them, the last with largest_offset.

        An index that fills up inside the set, or offsets in it that go backwards, are found when the bytes
        are in the file already, as in Kafka: the caller asks `is_index_full` first.
        """
        if not len(batches):
            return
        if not 0 <= largest_offset - self.base_offset <= INT32_MAX:
            raise SegmentOffsetOverflowError(self.log_path, self.base_offset, largest_offset)
        position = self.size
        view = byte_view(data)
        set_size = len(view)
        if position + set_size > MAX_SIZE:
            raise InvalidBatchError(
                f"{set_size} bytes behind byte {position} make a segment larger than 2^31 - 1 bytes."
            )
        indexer = self._indexer
        if indexer is None:
            indexer = self._indexer = SegmentIndexer(self.offset_index, self.time_index)
        indexer.prepare(self._since_entry, *self._largest())
        try:
            changing(self._disk).write_at(self.log_path, view, position)
        except DiskError:
            self._is_padded = True  # with a part of the set; the next append writes over it
            raise
        finally:
            self._changes_count += 1
        self.size = position + set_size
        self._since_entry, timestamp, offset, problem = indexer.index(
            batches, position, self.config.index_interval_bytes
        )
        self._max_timestamp = (timestamp, offset)
        if problem is not None:
            raise problem

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the segment so far; -1 where no record has one."""
        return self._largest()[0]

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the first batch with the largest timestamp."""
        return self._largest()[1]

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, or where there is none the time at which the file was last changed."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    def find_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; None where no record has a timestamp."""
        timestamp, offset = self._largest()
        if timestamp < 0:
            return None
        return self._find_record(offset, timestamp, INT64_MIN)

    def find_largest_timestamp(self) -> None:
        """Look for the largest timestamp among the records: the time index may lag them, or be stale.

        Its last entry is believed if the batch that it names has that timestamp.
        """
        with self._lock:
            try:
                if self._is_last_entry_right():
                    self._max_timestamp = self._read_largest()
                    return
            except (CorruptIndexError, CorruptRecordError) as error:
                logger.info("%s is read whole for its largest timestamp: %s", self.log_path, error)
            batch = self._find(0, kernel.LARGEST_TIMESTAMP, NO_TIMESTAMP)
            found = (NO_TIMESTAMP, self.base_offset)
            self._max_timestamp = found if batch is None else (batch.max_timestamp, batch.last_offset)

    def _is_last_entry_right(self) -> bool:
        entry = self.time_index.last_entry
        start = self.offset_index.lookup(entry.offset).position
        batch = self._find(start, kernel.OFFSET_AT_LEAST, entry.offset)
        return batch is not None and batch.max_timestamp == entry.timestamp

    def append_aborted(self, aborted: AbortedTxn) -> None:
        """Note an aborted transaction whose marker is in this segment. Kafka: updateTxnIndex"""
        self.txn_index.append(aborted)

    def truncate_to(self, offset: int) -> int:
        """Cut off the batch that holds the offset, and all behind it; returns how many bytes that were.

        The indexes are cut first: an entry without its batch would be worse than a batch without its entry.
        They get their full size, as the segment is appended to from now on.
        """
        start = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        self.resize_indexes(self.config.segment_index_bytes)
        cut_size = 0
        if start is not None:
            cut_size = self.size - start.position
            self.size = start.position
            changing(self._disk).truncate(self.log_path, start.position)
            self._changes_count += 1
            self._is_padded = False
        if self.size == 0:
            self.created_ms = self.clock()
            self._first_timestamp = None
        self._since_entry = 0
        if self._max_timestamp is not None:
            self._max_timestamp = self._read_largest()
        return cut_size

    def resize_indexes(self, size: int) -> None:
        """Give both indexes room for `size` bytes of entries: what is opened to be appended to needs it."""
        self.offset_index.resize(size)
        self.time_index.resize(size)

    def on_become_inactive(self) -> None:
        """The segment was rolled: its last time entry, then all files are cut to what is in them."""
        timestamp, offset = self._largest()
        self.time_index.append(timestamp, offset, skip_full_check=True)
        self.offset_index.trim()
        self.time_index.trim()
        self._trim_log()
        self._indexer = None

    def flush(self) -> None:
        """Return when everything is on the device, the log first. Creates the indexes, as Kafka does."""
        if self._synced_count != self._changes_count:
            self.sync_log()
        self.offset_index.flush()
        self.time_index.flush()
        self.txn_index.flush()

    def close(self) -> None:
        """Leave the files as a clean shutdown does: last time entry, indexes cut, the log synced.

        Everything is tried; the first failure is raised at the end. Closing twice does nothing more. What was
        never used since the segment was opened is not touched.
        """
        problems: list[DiskError] = []
        if self._max_timestamp is not None and self._time_index is not None:
            timestamp, offset = self._max_timestamp
            try:
                self.time_index.append(timestamp, offset, skip_full_check=True)
            except StratalogError as error:  # the entry is a help, no need; Kafka goes on likewise
                logger.warning("%s is closed without its last time entry: %s", self.log_path, error)
        for index in (self._offset_index, self._time_index):
            if index is not None:
                _try(index.close, problems)
                _try(partial(self._sync_index, index.path), problems)
        _try(self._close_log, problems)
        self._forget()
        if problems:
            raise problems[0]

    def _sync_index(self, path: str) -> None:
        """What closing has added and cut is to be as durable as the mark that will speak for it."""
        if self._disk.exists(path):
            changing(self._disk).sync(path)

    def close_handlers(self) -> None:
        """Give back the memory without writing anything: the disk has failed."""
        self._forget()

    def rolling_based_timestamp(self) -> int | None:
        """The largest timestamp of the first batch, by which a segment's age counts; None without a batch."""
        if self._first_timestamp is None:
            first = self._find(0, kernel.OFFSET_AT_LEAST, INT64_MIN)
            self._first_timestamp = None if first is None else first.max_timestamp
        return self._first_timestamp

    def waited_ms(self, now: int, max_timestamp: int) -> int:
        """How old the segment is when a set with this largest timestamp comes. Kafka: timeWaitedForRoll"""
        first = self._first_timestamp
        if first is None:
            first = self.rolling_based_timestamp()
        return now - self.created_ms if first is None or first < 0 else max_timestamp - first

    @property
    def is_index_full(self) -> bool:
        """Whether one of the indexes has no room for another entry."""
        return self.offset_index.room <= 0 or self.time_index.room <= 0

    def _largest(self) -> tuple[int, int]:
        """The largest timestamp and its offset. Of a segment that was opened, the time index knows them."""
        largest = self._max_timestamp
        if largest is None:
            with self._lock:  # or a reader would put it in the place of what an append has found meanwhile
                largest = self._max_timestamp
                if largest is None:
                    largest = self._max_timestamp = self.time_index.last_entry
        return largest

    def _read_largest(self) -> tuple[int, int]:
        """The same after a truncation: the last time entry's, or those of a batch behind it."""
        entry = self.time_index.last_entry
        start = self.offset_index.lookup(entry.offset).position
        batch = self._find(start, kernel.LARGEST_TIMESTAMP, max(entry.timestamp, NO_TIMESTAMP))
        return entry if batch is None else (batch.max_timestamp, batch.last_offset)

    def _trim_log(self) -> None:
        if self._is_padded:
            changing(self._disk).truncate(self.log_path, self.size)
            self._changes_count += 1
            self._is_padded = False

    def _close_log(self) -> None:
        self._trim_log()
        if self._changes_count > max(self._synced_count, 0):  # what was only read is left alone
            self.sync_log()

    def sync_log(self) -> None:
        """Return when the batches are on the device, as far as they were written when this was called."""
        changes_count = self._changes_count  # before: what is written meanwhile may come too late for it
        try:
            changing(self._disk).sync(self.log_path)
        except DiskError:
            self.has_failed_sync = True
            raise
        self._synced_count = changes_count

    def _forget(self) -> None:
        self._max_timestamp = None
        self._indexer = None
        self._forget_indexes()


def _try(action: Callable[[], object], problems: list[DiskError]) -> None:
    try:
        action()
    except DiskError as error:
        problems.append(error)
