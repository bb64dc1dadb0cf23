"""Reads from a segment: bytes, ranges for a fetch, batches, offsets by time.

A reader holds no descriptor and, until its first use, no index, so a directory listing is enough to create
one.

Each read opens the log by its name, which may belong to another file by then: the cleaner may have
replaced this segment, or a truncated log may have begun a new segment at the same offset. The thread that
renames the files holds the segment's lock, and changes the name in the reader before another file can get the
old name. So a read compares the name again when it is done. If the name has changed, the bytes may come from
another file, and are read again under the lock. Indexes are only read under the lock. After the files were
deleted permanently, a read is a DiskError with ENOENT, even if other files have their names by then; a log
then looks for the offset in its segments again.

Kafka: LogSegment.read, FileRecords
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from stratalog.config import LogConfig
from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError, UsageError
from stratalog.files.disk import ExpectedFile, Path
from stratalog.files.names import FileKind
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT32_MAX, INT64_MIN
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.memory import Bytes, byte_array
from stratalog.records.kernels.walk import CODEC_MASK
from stratalog.records.reader import BatchRow, read_batches
from stratalog.segment.fetched import FetchedRange, OffsetPosition
from stratalog.segment.headers import BatchChunk, find_batch, stream_batches
from stratalog.segment.identities import NO_IDENTITIES, Identities
from stratalog.segment.index_file import IndexFile
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.search import TimestampAndOffset, find_record
from stratalog.segment.time_index import NO_TIMESTAMP, TimeIndex
from stratalog.segment.txn_index import AbortedTxn, TransactionIndex

logger = logging.getLogger(__name__)

MAX_SIZE = INT32_MAX  # of a .log file: positions in an index have 32 bits
_T = TypeVar("_T")
INDEXES = (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
FILES = (FileKind.LOG, *INDEXES)
_SUFFIXES = {kind: kind.value for kind in FILES}  # an Enum's value costs more than the rest of a path


class SegmentReader:
    """Reads the files of one base offset. No method changes a file, and any thread may call any method.

    `size` is the part of the log that is known to be whole sets; nothing after it is read. The writer of the
    segment (`segment.py`) sets it when the bytes are there, and an index entry only points below it. The
    writer also sets `known_largest`, the largest timestamp and its offset, and `first_timestamp`, from which
    the age of a segment is counted; both are None until they are needed. Code that renames or deletes the
    files holds `lock`, and calls `move_to` or `forget_files`.
    """

    __slots__ = (
        "_disk",
        "_has",
        "_identities",
        "_is_gone",
        "_log_path",
        "_offset_index",
        "_time_index",
        "_txn_index",
        "base_offset",
        "config",
        "directory",
        "first_timestamp",
        "known_largest",
        "lock",
        "size",
        "suffix",
    )

    def __init__(
        self,
        disk: DiskReader,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str = "",
        size: int | None = None,
        has: tuple[bool | None, bool | None, bool | None] = (None, None, None),
        identities: Identities | None = None,
    ) -> None:
        """A reader of existing files. Facts that are known from a listing need not be read from the disk
        again.

        `has` says whether there is an offset index, a time index and a transaction index; None: not known.
        With `identities`, reading from another file that has one of the names now is a DiskError with ENOENT.
        """
        self._disk = disk
        self.directory = os.fspath(directory)
        self.base_offset = base_offset
        self.config = config
        self.suffix = suffix
        self._has = has
        self._identities = NO_IDENTITIES if identities is None else identities
        self._is_gone = False
        self.lock: Any = threading.RLock()  # Any: up to Python 3.12, RLock is a function, not a type
        self._log_path: str | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None
        self.known_largest: tuple[int, int] | None = None  # (timestamp, offset); None: not looked up yet
        self.first_timestamp: int | None = None
        self.size = disk.size(self.log_path) if size is None else size
        if self.size > MAX_SIZE:
            raise CorruptRecordError(
                f"the file has {self.size} bytes; a segment has at most 2^31 - 1.", path=self.log_path
            )

    @property
    def log_path(self) -> str:
        path = self._log_path
        if path is None:
            with self.lock:  # otherwise the old name could overwrite the one that a rename has set meanwhile
                path = self._log_path
                if path is None:
                    path = self.path_of(FileKind.LOG)
                    if not self._is_gone:
                        self._log_path = path
        return path

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            with self.lock:
                index = self._offset_index
                if index is None:
                    index = self._offset_index = OffsetIndex(
                        self._disk,
                        self.path_of(FileKind.OFFSET_INDEX),
                        self.base_offset,
                        max_size=self.config.segment_index_bytes,
                        exists=self._has[0],
                        identity=self._identities.offset_index,
                        lock=self.lock,
                    )
                    index.is_gone = self._is_gone
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        if index is None:
            with self.lock:
                index = self._time_index
                if index is None:
                    index = self._time_index = TimeIndex(
                        self._disk,
                        self.path_of(FileKind.TIME_INDEX),
                        self.base_offset,
                        max_size=self.config.segment_index_bytes,
                        exists=self._has[1],
                        identity=self._identities.time_index,
                        lock=self.lock,
                    )
                    index.is_gone = self._is_gone
        return index

    @property
    def txn_index(self) -> TransactionIndex:
        index = self._txn_index
        if index is None:
            with self.lock:
                index = self._txn_index
                if index is None:
                    index = self._txn_index = TransactionIndex(
                        self._disk,
                        self.path_of(FileKind.TXN_INDEX),
                        self.base_offset,
                        exists=self._has[2],
                        identity=self._identities.txn_index,
                        lock=self.lock,
                    )
                    index.is_gone = self._is_gone
        return index

    @property
    def known_indexes(self) -> dict[FileKind, IndexFile]:
        """The indexes that were used so far."""
        indexes = (self._offset_index, self._time_index, self._txn_index)
        return {kind: index for kind, index in zip(INDEXES, indexes, strict=True) if index is not None}

    def start_over_in_child(self) -> None:
        """After a fork: create a new lock, because the thread that may hold the old one is not here."""
        self.lock = threading.RLock()
        for index in self.known_indexes.values():
            index.share_lock(self.lock)

    def forget(self) -> None:
        """Release the memory: the state of the indexes, and the largest timestamp."""
        self.known_largest = None
        self.forget_indexes()

    def forget_indexes(self) -> None:
        """Forget the state of the indexes; their next use reads them again."""
        with self.lock:
            for index in self.known_indexes.values():
                index.forget()

    @property
    def modified_ms(self) -> int:
        def read(path: str, _what: None, _position: int, identity: ExpectedFile | None = None) -> int:
            status = self._disk.status(path)
            if status is None or (identity is not None and status.id != identity.id):
                raise DiskError(path, "the file is gone.", errno.ENOENT)
            return status.mtime_ms

        return self._reading(read, None, 0)

    def read_bytes(self, position: int, size: int) -> bytes:
        """Bytes of the log; fewer if it ends."""
        size = max(0, min(size, self.size - position))
        return self._reading(self._disk.read_at, size, position)

    def read_into(self, buffer: Bytes | memoryview, position: int) -> int:
        """Fill a buffer with bytes of the log; returns how many were read."""
        wanted = buffer[: max(0, self.size - position)]
        return self._reading(self._disk.read_into, wanted, position)

    def path_of(self, kind: FileKind) -> str:
        return self.path_in(self.directory, kind, self.suffix)

    def path_in(self, directory: str, kind: FileKind, suffix: str) -> str:
        """The path of a file of this segment in a directory."""
        return join_path(directory, f"{self.base_offset:020d}{_SUFFIXES[kind]}{suffix}")

    def move_to(self, directory: str, suffix: str) -> None:
        """Called under the lock when the files were renamed."""
        self.directory, self.suffix = directory, suffix
        self._log_path = None

    def forget_files(self) -> None:
        """Called under the lock when the files are deleted: later files of these names belong to others."""
        self._is_gone, self._log_path = True, None
        for index in self.known_indexes.values():
            index.is_gone = True

    @property
    def is_gone(self) -> bool:
        """Whether the files are deleted permanently."""
        return self._is_gone

    @property
    def exists(self) -> bool:
        return self._disk.exists(self.log_path)

    def translate_offset(self, offset: int, starting_position: int = 0) -> OffsetPosition | None:
        """The first batch, at or after starting_position, whose last offset is not below the given one."""
        start, reach = self.offset_index.span(offset, ahead=1)
        batch = self.find_batch(max(start, starting_position), kernel.OFFSET_AT_LEAST, offset, reach)
        if batch is None:
            return None
        return OffsetPosition(self._first_offset(batch), batch.last_offset, batch.position, batch.size)

    def read(
        self,
        start_offset: int,
        max_size: int,
        *,
        max_position: int | None = None,
        min_one_message: bool = False,
    ) -> FetchedRange | None:
        """The range to read, from the batch that contains start_offset on; None if all offsets are below it.

        It ends before max_position, which is the segment's size unless given; a range that would start there
        or later is empty. With min_one_message it has the whole first batch, even if that exceeds max_size.
        """
        if max_size < 0:
            raise UsageError(f"max_size {max_size} is below 0.")
        end = self.size if max_position is None else min(max_position, self.size)
        start = self.translate_offset(start_offset)
        if start is None:
            return None
        adjusted = max(max_size, start.size) if min_one_message else max_size
        size = max(0, min(end - start.position, adjusted))
        return FetchedRange(start.base_offset, start.position, size, 0 < adjusted < start.size)

    def batches(
        self, start_position: int = 0, end_position: int | None = None, *, check_crc: bool = False
    ) -> Iterator[BatchChunk]:
        """The batches from a position on, chunk by chunk, in memory that is reused for the next chunk.

        It ends before a torn tail. Bytes that are not a batch are a CorruptRecordError, and with `check_crc`
        a wrong checksum too.
        """
        end = self.size if end_position is None else min(end_position, self.size)
        return stream_batches(self.read_into, start_position, end, path=self.log_path, check_crc=check_crc)

    def read_next_offset(self) -> int:
        """The offset after the last whole batch; the base offset if there is none."""
        last = self.offset_index.last_entry
        if last.position and last.position >= self.size:
            raise CorruptIndexError(
                self.offset_index.path,
                f"its last entry points at byte {last.position}; the log has {self.size} bytes.",
            )
        batch = self.find_batch(last.position, kernel.LAST, 0)
        return self.base_offset if batch is None else batch.last_offset + 1

    def find_offset_by_timestamp(self, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record from start_offset on that is not before the timestamp."""
        entry = self.time_index.lookup(timestamp)
        return self._find_record(max(entry.offset, start_offset), timestamp, start_offset)

    def fetch_upper_bound_offset(self, position: int, size: int) -> int | None:
        """An offset above those of all records in these bytes; None if the index has no such offset.

        Kafka: LogSegment.fetchUpperBoundOffset
        """
        entry = self.offset_index.upper_bound(position + size)
        return None if entry is None else entry.offset

    def collect_aborted(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """The aborted transactions that touch [fetch_offset, upper_bound), and whether these are all."""
        return self.txn_index.collect(fetch_offset, upper_bound)

    @property
    def max_timestamp(self) -> int:
        """The largest timestamp of the segment so far; -1 if no record has one."""
        return self.largest()[0]

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the first batch with the largest timestamp."""
        return self.largest()[1]

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, or the file's modification time if there is none."""
        timestamp = self.max_timestamp
        return timestamp if timestamp >= 0 else self.modified_ms

    def find_max_timestamp(self) -> TimestampAndOffset | None:
        """The first record with the largest timestamp; None if no record has a timestamp."""
        timestamp, offset = self.largest()
        if timestamp < 0:
            return None
        return self._find_record(offset, timestamp, INT64_MIN)

    def find_largest_timestamp(self) -> None:
        """Find the largest timestamp in the records: the time index may lack the newest records, or be
        outdated.

        Its last entry is trusted if the batch that it names has that timestamp.
        """
        with self.lock:
            try:
                if self._is_last_entry_right():
                    self.known_largest = self.read_largest()
                    return
            except (CorruptIndexError, CorruptRecordError) as error:
                logger.info("%s is read whole for its largest timestamp: %s", self.log_path, error)
            batch = self.find_batch(0, kernel.LARGEST_TIMESTAMP, NO_TIMESTAMP)
            found = (NO_TIMESTAMP, self.base_offset)
            self.known_largest = found if batch is None else (batch.max_timestamp, batch.last_offset)

    def _is_last_entry_right(self) -> bool:
        entry = self.time_index.last_entry
        start = self.offset_index.lookup(entry.offset).position
        batch = self.find_batch(start, kernel.OFFSET_AT_LEAST, entry.offset)
        return batch is not None and batch.max_timestamp == entry.timestamp

    def rolling_based_timestamp(self) -> int | None:
        """The first batch's largest timestamp, where a segment's age starts; None without a batch."""
        if self.first_timestamp is None:
            first = self.find_batch(0, kernel.OFFSET_AT_LEAST, INT64_MIN)
            self.first_timestamp = None if first is None else first.max_timestamp
        return self.first_timestamp

    def largest(self) -> tuple[int, int]:
        """The largest timestamp and its offset, as known, or else from the last entry of the time index."""
        largest = self.known_largest
        if largest is None:
            with self.lock:  # otherwise it could overwrite a newer value of an append
                largest = self.known_largest
                if largest is None:
                    largest = self.known_largest = self.time_index.last_entry
        return largest

    def read_largest(self) -> tuple[int, int]:
        """The largest timestamp and its offset, from the last time entry or from a batch after it."""
        entry = self.time_index.last_entry
        start = self.offset_index.lookup(entry.offset).position
        batch = self.find_batch(start, kernel.LARGEST_TIMESTAMP, max(entry.timestamp, NO_TIMESTAMP))
        return entry if batch is None else (batch.max_timestamp, batch.last_offset)

    def find_batch(self, start: int, kind: int, target: int, reach: int = 0) -> BatchRow | None:
        """The first batch from a byte on that the kernel's search `kind` finds (`kernels/index.py`)."""
        return find_batch(self.read_into, start, self.size, kind, target, path=self.log_path, reach=reach)

    def _find_record(self, from_offset: int, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
        """The first record that is not before a time; the search starts at the index entry of an offset."""
        # This entry points to a batch before the time. The wanted batch begins at the next entry at the
        # latest, so it ends before the entry after that.
        start, reach = self.offset_index.span(from_offset, ahead=2)
        return find_record(
            self.read_into,
            self.find_batch,
            self.read_bytes,
            start=start,
            reach=min(reach, self.size),
            timestamp=timestamp,
            start_offset=start_offset,
        )

    def _first_offset(self, batch: BatchRow) -> int:
        """A compressed message of an old format has its first offset inside."""
        if batch.magic == 2 or batch.attributes & CODEC_MASK == 0:
            return batch.base_offset
        data = self.read_bytes(batch.position, batch.size)
        return next(iter(next(read_batches(byte_array(data), check_crc=False)))).offset

    def _reading(self, read: Callable[..., _T], what: object, position: int) -> _T:
        """Read the log; repeat it if the log was renamed meanwhile, as every file is before its deletion."""
        path = self.log_path
        identity = () if self._identities.log is None else (self._identities.log,)
        try:
            found = read(path, what, position, *identity)
            if self._is_named(path):
                return found
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
        with self.lock:  # held while the files are renamed
            while True:
                if self._is_gone:
                    raise DiskError(path, "the segment was deleted.", errno.ENOENT)
                path = self.log_path
                found = read(path, what, position, *identity)
                if self._is_named(path):
                    return found

    def _is_named(self, path: str) -> bool:
        """Whether the log still has the name that `log_path` returned, and had it all the time."""
        return self._log_path is path
