"""Writes one segment of a log: the batches from a base offset on, and the indexes into them.

One thread changes a segment, any number read from it (`segment_reader.py`). Bytes are written before `size`
includes them, and `size` is set before an index points at them, so a reader never sees half a batch. Kafka:
LogSegment.java
"""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import (
    DiskError,
    InvalidBatchError,
    SegmentOffsetOverflowError,
    StratalogError,
    UsageError,
)
from stratalog.files.disk import Disk, Path, byte_view
from stratalog.files.names import FileKind, FileState
from stratalog.limits import INT32_MAX
from stratalog.records.kernels.walk import BatchTable
from stratalog.segment.identities import Identities
from stratalog.segment.indexing import NOT_LOOKED_UP, SegmentIndexer
from stratalog.segment.segment_reader import FILES, MAX_SIZE, SegmentReader
from stratalog.segment.txn_index import AbortedTxn

if TYPE_CHECKING:
    from stratalog.files.disk import Data

logger = logging.getLogger(__name__)

# The segments that wait for their deletion, by their disk and the .deleted name of their log.
_going: weakref.WeakValueDictionary[str, LogSegment] = weakref.WeakValueDictionary()


def waiting_in(disk: Disk, directory: str) -> list[LogSegment]:
    """The segments in a directory that wait for their deletion."""
    return [
        segment
        for segment in [*_going.values()]
        if segment.directory == directory and segment._disk.namespace == disk.namespace
    ]


class LogSegment:
    """A .log file with its .index, .timeindex and .txnindex; `reader` reads them.

    It knows how far they are written and synced. `names_count` is the number of files it has created; its
    owner sets `names_synced_count` to how many of them the last sync of the directory included.
    """

    __slots__ = (
        "__weakref__",
        "_changes_count",
        "_created_count",
        "_disk",
        "_indexer",
        "_is_padded",
        "_since_entry",
        "_synced_count",
        "base_offset",
        "clock",
        "created_ms",
        "has_failed_sync",
        "names_synced_count",
        "reader",
        "roll_jitter_ms",
    )

    def __init__(self, disk: Disk, reader: SegmentReader, clock: Clock, roll_jitter_ms: int = 0) -> None:
        self.reader = reader
        self.base_offset = reader.base_offset
        self.clock = clock
        self.created_ms = clock()
        self.roll_jitter_ms = roll_jitter_ms
        self._disk = disk
        self._indexer: SegmentIndexer | None = None  # set by the first append
        self._since_entry = 0
        self._is_padded = False  # the file is longer than `size`: preallocated, or a write has failed
        self._created_count = self.names_synced_count = 0
        # The number of finished changes to the log, and that number at the start of its last sync; -1: no
        # sync yet. A change counts only when it is finished: a sync in the middle of it may miss a part.
        self._changes_count, self._synced_count = 0, -1
        self.has_failed_sync = False  # bytes may be lost permanently, even if a later sync succeeds

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
        """A new segment with only its .log so far; `size` is how much of it is preallocated."""
        has = (False, False, False)
        reader = SegmentReader(disk, directory, base_offset, config, suffix=suffix, size=0, has=has)
        segment = cls(disk, reader, clock, roll_jitter_ms)
        disk.create(reader.log_path, size)
        segment._created_count = segment._changes_count = 1
        segment._is_padded = size > 0
        return segment

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        clock: Clock,
        *,
        suffix: str = "",
        size: int | None = None,
        has: tuple[bool | None, bool | None, bool | None] = (None, None, None),
        identities: Identities | None = None,
        roll_jitter_ms: int = 0,
    ) -> LogSegment:
        """The segment of existing files, as `SegmentReader` finds them."""
        reader = SegmentReader(
            disk,
            directory,
            base_offset,
            config,
            suffix=suffix,
            size=size,
            has=has,
            identities=identities,
        )
        return cls(disk, reader, clock, roll_jitter_ms)

    # What it is

    @property
    def size(self) -> int:
        """The size of the log in bytes, counting only complete sets."""
        return self.reader.size

    @property
    def directory(self) -> str:
        return self.reader.directory

    @property
    def suffix(self) -> str:
        return self.reader.suffix

    @property
    def log_path(self) -> str:
        return self.reader.log_path

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp, or the file's modification time if there is none."""
        return self.reader.largest_timestamp

    @property
    def names_count(self) -> int:
        """How many files were created here."""
        return self._created_count + sum(index.names_count for index in self.reader.known_indexes.values())

    # Write

    def append(self, data: Data, batches: BatchTable, largest_offset: int) -> None:
        """Write a set of batches. `batches` are its rows from a walk, `largest_offset` is its last offset.

        As in Kafka, a full index or offsets that go backwards are noticed only after the bytes are in the
        file. So the caller must check `is_index_full` first.
        """
        if not len(batches):
            return
        reader = self.reader
        view = byte_view(data)
        position = self._position_for(len(view), largest_offset)
        indexer = self._indexer or self._new_indexer()
        indexer.prepare(self._since_entry, *(reader.known_largest or reader.largest()))
        self._write(view, position)
        self._since_entry, timestamp, offset, problem = indexer.index(
            batches, position, reader.config.index_interval_bytes
        )
        reader.known_largest = (timestamp, offset)
        if problem is not None:
            raise problem

    def append_batch(self, data: Data, last_offset: int, max_timestamp: int) -> None:
        """Write a set of one batch: the same as `append`, without a table of batches and without a kernel."""
        reader = self.reader
        position = self._position_for(len(data), last_offset)
        indexer = self._indexer or self._new_indexer()
        largest = reader.known_largest or reader.largest()
        is_due = self._since_entry > reader.config.index_interval_bytes
        last = indexer.look_up() if is_due or not indexer.is_created else NOT_LOOKED_UP
        self._write(data, position)
        if max_timestamp > largest[0]:
            largest = (max_timestamp, last_offset)
        problem = indexer.index_one(last_offset, position, largest, last) if is_due else None
        reader.known_largest = largest
        if problem is not None:
            raise problem
        self._since_entry = len(data) if is_due else self._since_entry + len(data)

    def _position_for(self, set_size: int, last_offset: int) -> int:
        """Where a set of this size goes; an error if the segment cannot hold it."""
        position = self.reader.size
        if not 0 <= last_offset - self.base_offset <= INT32_MAX:
            raise SegmentOffsetOverflowError(self.log_path, self.base_offset, last_offset)
        if position + set_size > MAX_SIZE:
            raise InvalidBatchError(
                f"{set_size} bytes after byte {position} make a segment larger than 2^31 - 1 bytes."
            )
        return position

    def _new_indexer(self) -> SegmentIndexer:
        self._indexer = indexer = SegmentIndexer(self.reader.offset_index, self.reader.time_index)
        return indexer

    def _write(self, data: Data, position: int) -> None:
        """Write the bytes of a set, then let readers see them."""
        try:
            self._disk.write_at(self.reader.log_path, data, position)
        except DiskError:
            self._is_padded = True  # a part of the set may be there; the next append overwrites it
            raise
        finally:
            self._changes_count += 1
        self.reader.size = position + len(data)

    def append_aborted(self, aborted: AbortedTxn) -> None:
        """Record an aborted transaction whose marker is in this segment. Kafka: updateTxnIndex"""
        self.reader.txn_index.append(aborted)

    def truncate_to(self, offset: int) -> int:
        """Cut off the batch that contains the offset, and all after it; returns the number of bytes cut off.

        The indexes are cut first: an entry without its batch would be worse than a batch without its entry.
        The indexes get their full size, because the segment is appended to from now on.
        """
        reader = self.reader
        start = reader.translate_offset(offset)
        self.reader.offset_index.truncate_to(offset)
        self.reader.time_index.truncate_to(offset)
        self.reader.txn_index.truncate_to(offset)
        self.resize_indexes(reader.config.segment_index_bytes)
        cut_size = 0
        if start is not None:
            cut_size = reader.size - start.position
            reader.size = start.position
            self._disk.truncate(self.log_path, start.position)
            self._changes_count += 1
            self._is_padded = False
        if reader.size == 0:
            self.created_ms = self.clock()
            reader.first_timestamp = None
        self._since_entry = 0
        if reader.known_largest is not None:
            reader.known_largest = reader.read_largest()
        return cut_size

    def resize_indexes(self, size: int) -> None:
        """Give both indexes room for `size` bytes of entries, before the segment is appended to."""
        self.reader.offset_index.resize(size)
        self.reader.time_index.resize(size)

    def on_become_inactive(self) -> None:
        """Called after a roll: write the last time entry, then cut all files to their content."""
        timestamp, offset = self.reader.largest()
        self.reader.time_index.append(timestamp, offset, skip_full_check=True)
        self.reader.offset_index.trim()
        self.reader.time_index.trim()
        self._trim_log()
        self._indexer = None

    def flush(self) -> None:
        """Return when everything is on the device, the log first. Creates the indexes, as Kafka does."""
        if self._synced_count != self._changes_count:
            self.sync_log()
        self.reader.offset_index.flush()
        self.reader.time_index.flush()
        self.reader.txn_index.flush()

    def close(self) -> None:
        """Leave the files as a clean shutdown does: last time entry, both indexes and the log cut and synced.

        Everything is tried; the first failure is raised at the end. A second call has no effect. Files
        that were not used since the segment was opened are not touched.
        """
        problems: list[DiskError] = []
        reader, known = self.reader, self.reader.known_indexes
        if reader.known_largest is not None and FileKind.TIME_INDEX in known:
            timestamp, offset = reader.known_largest
            try:
                reader.time_index.append(timestamp, offset, skip_full_check=True)
            except StratalogError as error:  # the entry is useful but not needed; Kafka goes on too
                logger.warning("%s is closed without its last time entry: %s", self.log_path, error)
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            if kind in known:
                _try(known[kind].close, problems)
                _try(partial(self._sync_index, known[kind].path), problems)
        _try(self._close_log, problems)
        self.close_handlers()
        if problems:
            raise problems[0]

    def _sync_index(self, path: str) -> None:
        """Sync an index: the clean-shutdown file promises that everything is on the device."""
        if self._disk.exists(path):
            self._disk.sync(path)

    def close_handlers(self) -> None:
        """Release the memory without writing anything, for example because the disk has failed."""
        self._indexer = None
        self.reader.forget()

    def forget_indexes(self) -> None:
        """Forget the state of the indexes; their next use reads them again."""
        self.reader.forget_indexes()

    def waited_ms(self, now: int, max_timestamp: int) -> int:
        """The age of the segment when a set with this largest timestamp arrives. Kafka: timeWaitedForRoll"""
        first = self.reader.first_timestamp
        if first is None:
            first = self.reader.rolling_based_timestamp()
        return now - self.created_ms if first is None or first < 0 else max_timestamp - first

    @property
    def is_index_full(self) -> bool:
        """Whether one of the indexes has no room for another entry."""
        return self.reader.offset_index.room <= 0 or self.reader.time_index.room <= 0

    def _trim_log(self) -> None:
        if self._is_padded:
            self._disk.truncate(self.log_path, self.size)
            self._changes_count += 1
            self._is_padded = False

    def _close_log(self) -> None:
        self._trim_log()
        if self._changes_count > max(self._synced_count, 0):  # a segment that was only read is not synced
            self.sync_log()

    def sync_log(self) -> None:
        """Return when the batches are on the device, as far as they were written when this was called."""
        # read before the sync, which may miss bytes written meanwhile
        changes_count = self._changes_count
        try:
            self._disk.sync(self.log_path)
        except DiskError:
            self.has_failed_sync = True
            raise
        self._synced_count = changes_count

    # Names

    @property
    def renaming(self) -> AbstractContextManager[object]:
        """A lock held while the directory is renamed, until `update_directory`; readers wait for it."""
        lock: AbstractContextManager[object] = self.reader.lock
        return lock

    def start_over_in_child(self) -> None:
        """After a fork: create a new lock; the thread that may hold the old one does not exist here."""
        self.reader.start_over_in_child()

    def set_modified(self, mtime_ms: int) -> None:
        """Set the modification time of the log and its indexes. Kafka: LogSegment.setLastModified"""
        for kind in FILES[:3]:
            path = self.reader.path_of(kind)
            if self._disk.exists(path):
                self._disk.set_modified(path, mtime_ms)

    def change_suffixes(self, old: str, new: str) -> None:
        """Rename all files, the log first; a missing index is skipped."""
        if self.suffix != old:
            raise UsageError(f"{self.log_path} does not end with {old!r}.")
        reader, directory = self.reader, self.directory
        with reader.lock:
            if new == FileState.DELETED.value:
                self._give_way_to_this(reader.path_in(directory, FileKind.LOG, new))
            indexes = reader.known_indexes
            for kind in FILES:
                path, target = reader.path_of(kind), reader.path_in(directory, kind, new)
                if kind in indexes:
                    indexes[kind].rename_to(target)
                elif self._disk.exists(path) or self._is_lost(kind, target):
                    self._disk.rename(path, target)
            self._go_by(directory, new)

    def update_directory(self, directory: Path) -> None:
        """Called when the directory was renamed: look for the files there from now on."""
        reader, target = self.reader, os.fspath(directory)
        with reader.lock:
            for kind, index in reader.known_indexes.items():
                index.path = reader.path_in(target, kind, reader.suffix)
            self._go_by(target, self.suffix)

    def delete(self) -> None:
        """Delete all existing files permanently: later files of these names do not belong to this segment."""
        reader = self.reader
        with reader.lock:
            if reader.is_gone:
                return
            reader.forget_indexes()
            for kind in FILES:
                self._disk.delete(reader.path_of(kind))
            self._stop_waiting()
            reader.forget_files()

    def _go_by(self, directory: str, suffix: str) -> None:
        self._stop_waiting()
        self.reader.move_to(directory, suffix)
        if suffix == FileState.DELETED.value:
            _going[self._disk.namespace + self.log_path] = self

    def _is_lost(self, kind: FileKind, target: str) -> bool:
        """Whether the .log is missing under its new name too: an interrupted attempt may have renamed it."""
        return kind is FileKind.LOG and not self._disk.exists(target)

    def _stop_waiting(self) -> None:
        name = self._disk.namespace + self.log_path
        if self.suffix == FileState.DELETED.value and _going.get(name) is self:
            del _going[name]

    def _give_way_to_this(self, path: str) -> None:
        """Delete an earlier segment that waits for deletion under the name that this segment needs.

        Otherwise readers of the earlier segment would continue in this segment's file, and the deletion would
        delete that file.
        """
        earlier = _going.get(self._disk.namespace + path)
        if earlier is not None and earlier is not self:
            earlier.delete()


def _try(action: Callable[[], object], problems: list[DiskError]) -> None:
    try:
        action()
    except DiskError as error:
        problems.append(error)
