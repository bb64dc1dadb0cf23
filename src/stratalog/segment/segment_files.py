"""The files of a segment: their names, the indexes in them, and reading the log while it is renamed.

A segment holds no descriptor and, until it is asked something, no index: a directory listing says all that
is needed to open one.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from stratalog.config import LogConfig
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import Disk, Path
from stratalog.files.names import FileKind, FileState, parse_partition_directory
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.time_index import TimeIndex
from stratalog.segment.txn_index import TransactionIndex

_A = TypeVar("_A")
_T = TypeVar("_T")
_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
_SUFFIXES = {kind: kind.value for kind in _FILES}  # an Enum's value costs more than the rest of a path


class SegmentFiles:
    """Where the files of one base offset are, and what is in three of them.

    `size` is how much of the log is known to be whole sets; nothing behind it is read. `names_count` is how
    many files were created here, `names_synced_count` how many of those are in a directory that was synced
    since, as its owner says.
    """

    __slots__ = (
        "_disk",
        "_has",
        "_lock",
        "_log_path",
        "_offset_index",
        "_time_index",
        "_txn_index",
        "base_offset",
        "config",
        "directory",
        "names_count",
        "names_synced_count",
        "size",
        "suffix",
    )

    def __init__(
        self,
        disk: Disk,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str,
        size: int,
        has: tuple[bool | None, bool | None, bool | None],
    ) -> None:
        self._disk = disk
        self.directory = os.fspath(directory)
        self.base_offset = base_offset
        self.config = config
        self.suffix = suffix
        self.size = size
        self.names_count = self.names_synced_count = 0
        self._has = has
        self._lock = threading.RLock()
        self._log_path: str | None = None
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._txn_index: TransactionIndex | None = None

    @property
    def log_path(self) -> str:
        path = self._log_path
        if path is None:
            with self._lock:  # or a rename meanwhile would be followed by the old name, for good
                path = self._log_path = self._path(FileKind.LOG)
        return path

    @property
    def offset_index(self) -> OffsetIndex:
        index = self._offset_index
        if index is None:
            with self._lock:
                index = self._offset_index
                if index is None:
                    index = self._offset_index = OffsetIndex(
                        self._disk,
                        self._path(FileKind.OFFSET_INDEX),
                        self.base_offset,
                        max_size=self.config.segment_index_bytes,
                        exists=self._has[0],
                        lock=self._lock,
                        on_create=self._note_name,
                    )
        return index

    @property
    def time_index(self) -> TimeIndex:
        index = self._time_index
        if index is None:
            with self._lock:
                index = self._time_index
                if index is None:
                    index = self._time_index = TimeIndex(
                        self._disk,
                        self._path(FileKind.TIME_INDEX),
                        self.base_offset,
                        max_size=self.config.segment_index_bytes,
                        exists=self._has[1],
                        lock=self._lock,
                        on_create=self._note_name,
                    )
        return index

    @property
    def txn_index(self) -> TransactionIndex:
        index = self._txn_index
        if index is None:
            with self._lock:
                index = self._txn_index
                if index is None:
                    index = self._txn_index = TransactionIndex(
                        self._disk,
                        self._path(FileKind.TXN_INDEX),
                        self.base_offset,
                        exists=self._has[2],
                        lock=self._lock,
                        on_create=self._note_name,
                    )
        return index

    @property
    def renaming(self) -> AbstractContextManager[object]:
        """Held by whoever renames the directory, until `update_directory`: readers wait for that."""
        return self._lock

    def start_over_in_child(self) -> None:
        """After a fork: the thread that may have held the lock is not here."""
        self._lock = threading.RLock()
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.share_lock(self._lock)

    @property
    def modified_ms(self) -> int:
        status = self._disk.status(self.log_path)
        if status is None:
            raise DiskError(self.log_path, "the file is gone.", errno.ENOENT)
        return status.mtime_ms

    def set_modified(self, mtime_ms: int) -> None:
        """Set the time of change of the log and its indexes. Kafka: LogSegment.setLastModified"""
        for kind in _FILES[:3]:
            if self._disk.exists(self._path(kind)):
                self._disk.set_modified(self._path(kind), mtime_ms)

    def read_bytes(self, position: int, size: int) -> bytes:
        """Bytes of the log; fewer where it ends."""
        size = max(0, min(size, self.size - position))
        return self._reading(self._disk.read_at, size, position)

    def read_into(self, buffer: Bytes | memoryview, position: int) -> int:
        """Fill a buffer with bytes of the log; returns how many there were."""
        wanted = buffer[: max(0, self.size - position)]
        return self._reading(self._disk.read_into, wanted, position)

    def change_suffixes(self, old: str, new: str) -> None:
        """Rename all files, the log first; an index that is not there is passed over."""
        if self.suffix != old:
            raise UsageError(f"{self.log_path} does not end with {old!r}.")
        self._move(self.directory, new, rename=True)

    def update_directory(self, directory: Path) -> None:
        """The directory has been renamed: look for the files there from now on."""
        self._move(os.fspath(directory), self.suffix, rename=False)

    def delete(self) -> None:
        """Delete all files that are there."""
        with self._lock:
            self._forget_indexes()
            for kind in _FILES:
                if not self._disk.delete(self._path(kind)):
                    self._delete_promoted(kind)

    @property
    def exists(self) -> bool:
        return self._disk.exists(self.log_path)

    def _path(self, kind: FileKind) -> str:
        return self._path_in(self.directory, kind, self.suffix)

    def _path_in(self, directory: str, kind: FileKind, suffix: str) -> str:
        return f"{directory}{os.sep}{self.base_offset:020d}{_SUFFIXES[kind]}{suffix}"

    def _note_name(self) -> None:
        self.names_count += 1

    def _reading(self, read: Callable[[str, _A, int], _T], what: _A, position: int) -> _T:
        """Read the log, again if it got another name meanwhile: what is deleted is renamed first."""
        try:
            return read(self.log_path, what, position)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
        with self._lock:  # whoever renames the files holds it
            return read(self.log_path, what, position)

    def _move(self, directory: str, suffix: str, *, rename: bool) -> None:
        with self._lock:
            indexes = (self._offset_index, self._time_index, self._txn_index)
            paths = [self._path(kind) for kind in _FILES]
            for path, index, kind in zip(paths, (None, *indexes), _FILES, strict=True):
                target = self._path_in(directory, kind, suffix)
                if index is not None:
                    if rename:
                        index.rename_to(target)
                    else:
                        index.path = target
                elif rename and (kind is FileKind.LOG or self._disk.exists(path)):
                    self._disk.rename(path, target)
            self.directory, self.suffix = directory, suffix
            self._log_path = None

    def _delete_promoted(self, kind: FileKind) -> None:
        """A future log that was promoted meanwhile: its directory has lost its suffix."""
        parent, name = os.path.split(self.directory)
        if self.suffix != FileState.DELETED.value or not name.endswith("-future"):
            return
        plain = f"{parent}{os.sep}{parse_partition_directory(name).topic_partition}"
        self._disk.delete(self._path_in(plain, kind, self.suffix))

    def _forget_indexes(self) -> None:
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.forget()
