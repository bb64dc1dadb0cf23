"""The files of a segment: their names, the indexes in them, and reading the log while it is renamed.

A segment holds no descriptor and, until it is asked something, no index: a directory listing says all that
is needed to open one.

So each read opens the log by its name, and that may be another's by then: the cleaner has put a new segment
in the place of this one, or a truncated log goes on at the same offset. Whoever renames the files holds the
segment's lock and changes the name that it goes by, before another file can get the old one. So a read looks
at that name again when it is done; if it is another, what was read may be another's too, and it is read again
under the lock. Indexes are only read under the lock. Files that are deleted for good are gone, whatever has
their names: reading from them is a DiskError with ENOENT, and a log then looks at its segments anew.
"""

from __future__ import annotations

import errno
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import NamedTuple, TypeVar

from stratalog.config import LogConfig
from stratalog.errors import DiskError, UsageError
from stratalog.files.disk import ExpectedFile, Path, changing
from stratalog.files.names import FileKind, FileState
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.time_index import TimeIndex
from stratalog.segment.txn_index import TransactionIndex

_T = TypeVar("_T")
_FILES = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TXN_INDEX)
# The segments that wait for their deletion, by disk and the name that their log has until then.
_going: weakref.WeakValueDictionary[str, SegmentFiles] = weakref.WeakValueDictionary()
_SUFFIXES = {kind: kind.value for kind in _FILES}  # an Enum's value costs more than the rest of a path


class Identities(NamedTuple):
    """What tells the files of a segment from others that get their names; None where that is not known.

    Needed where somebody else renames the files. What this process renames is seen by the segment itself.
    """

    log: ExpectedFile | None = None
    offset_index: ExpectedFile | None = None
    time_index: ExpectedFile | None = None
    txn_index: ExpectedFile | None = None


NO_IDENTITIES = Identities()


def waiting_in(disk: DiskReader, directory: str) -> list[SegmentFiles]:
    """The segments in a directory that wait for their deletion."""
    return [
        segment
        for segment in [*_going.values()]
        if segment.directory == directory and segment._disk.namespace == disk.namespace
    ]


class SegmentFiles:
    """Where the files of one base offset are, and what is in three of them.

    `size` is how much of the log is known to be whole sets; nothing behind it is read. `names_count` is how
    many files were created here, `names_synced_count` how many of those are in a directory that was synced
    since, as its owner says.
    """

    __slots__ = (
        "__weakref__",
        "_disk",
        "_has",
        "_identities",
        "_is_gone",
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
        disk: DiskReader,
        directory: Path,
        base_offset: int,
        config: LogConfig,
        *,
        suffix: str,
        size: int,
        has: tuple[bool | None, bool | None, bool | None],
        identities: Identities | None = None,
    ) -> None:
        self._disk = disk
        self.directory = os.fspath(directory)
        self.base_offset = base_offset
        self.config = config
        self.suffix = suffix
        self.size = size
        self.names_count = self.names_synced_count = 0
        self._has = has
        self._identities = NO_IDENTITIES if identities is None else identities
        self._is_gone = False
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
                path = self._log_path
                if path is None:
                    path = self._path(FileKind.LOG)
                    if not self._is_gone:
                        self._log_path = path
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
                        identity=self._identities.offset_index,
                        lock=self._lock,
                        on_create=self._note_name,
                    )
                    index.is_gone = self._is_gone
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
                        identity=self._identities.time_index,
                        lock=self._lock,
                        on_create=self._note_name,
                    )
                    index.is_gone = self._is_gone
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
                        identity=self._identities.txn_index,
                        lock=self._lock,
                        on_create=self._note_name,
                    )
                    index.is_gone = self._is_gone
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
        def read(path: str, _what: None, _position: int, identity: ExpectedFile | None = None) -> int:
            status = self._disk.status(path)
            if status is None or (identity is not None and status.id != identity.id):
                raise DiskError(path, "the file is gone.", errno.ENOENT)
            return status.mtime_ms

        return self._reading(read, None, 0)

    def set_modified(self, mtime_ms: int) -> None:
        """Set the time of change of the log and its indexes. Kafka: LogSegment.setLastModified"""
        for kind in _FILES[:3]:
            if self._disk.exists(self._path(kind)):
                changing(self._disk).set_modified(self._path(kind), mtime_ms)

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
        """Delete all files that are there, for good: what has their names later is not this segment's."""
        with self._lock:
            if self._is_gone:
                return
            self._forget_indexes()
            for kind in _FILES:
                changing(self._disk).delete(self._path(kind))
            self._stop_waiting()
            self._is_gone, self._log_path = True, None
            for index in (self._offset_index, self._time_index, self._txn_index):
                if index is not None:
                    index.is_gone = True

    @property
    def exists(self) -> bool:
        return self._disk.exists(self.log_path)

    def _path(self, kind: FileKind) -> str:
        return self._path_in(self.directory, kind, self.suffix)

    def _path_in(self, directory: str, kind: FileKind, suffix: str) -> str:
        return join_path(directory, f"{self.base_offset:020d}{_SUFFIXES[kind]}{suffix}")

    def _note_name(self) -> None:
        self.names_count += 1

    def _reading(self, read: Callable[..., _T], what: object, position: int) -> _T:
        """Read the log, again if it got another name meanwhile: what is deleted is renamed first."""
        path = self.log_path
        identity = () if self._identities.log is None else (self._identities.log,)
        try:
            found = read(path, what, position, *identity)
            if self._is_named(path):
                return found
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
        with self._lock:  # whoever renames the files holds it
            while True:
                if self._is_gone:
                    raise DiskError(path, "the segment was deleted.", errno.ENOENT)
                path = self.log_path
                found = read(path, what, position, *identity)
                if self._is_named(path):
                    return found

    def _is_named(self, path: str) -> bool:
        """Whether the log has had this name all the time since `log_path` gave it."""
        return self._log_path is path

    def _move(self, directory: str, suffix: str, *, rename: bool) -> None:
        with self._lock:
            if rename and suffix == FileState.DELETED.value:
                self._give_way_to_this(self._path_in(directory, FileKind.LOG, suffix))
            indexes = (self._offset_index, self._time_index, self._txn_index)
            paths = [self._path(kind) for kind in _FILES]
            for path, index, kind in zip(paths, (None, *indexes), _FILES, strict=True):
                target = self._path_in(directory, kind, suffix)
                if index is not None:
                    if rename:
                        index.rename_to(target)
                    else:
                        index.path = target
                elif rename and (self._disk.exists(path) or self._is_lost(kind, target)):
                    changing(self._disk).rename(path, target)
            self._stop_waiting()
            self.directory, self.suffix = directory, suffix
            self._log_path = None
            if suffix == FileState.DELETED.value:
                _going[self._disk.namespace + self.log_path] = self

    def _is_lost(self, kind: FileKind, target: str) -> bool:
        """Whether a log is under neither name; one that an interrupted try has renamed is not."""
        return kind is FileKind.LOG and not self._disk.exists(target)

    def _stop_waiting(self) -> None:
        name = self._disk.namespace + self.log_path
        if self.suffix == FileState.DELETED.value and _going.get(name) is self:
            del _going[name]

    def _give_way_to_this(self, path: str) -> None:
        """Delete the segment for good that waits under a name for its deletion: this one needs the name.

        Its readers would go on in this one's file, and its deletion would take that away too early.
        """
        earlier = _going.get(self._disk.namespace + path)
        if earlier is not None and earlier is not self:
            earlier.delete()

    def forget_indexes(self) -> None:
        """Drop what is known of the indexes: they are looked at anew when they are used next."""
        with self._lock:
            self._forget_indexes()

    def _forget_indexes(self) -> None:
        for index in (self._offset_index, self._time_index, self._txn_index):
            if index is not None:
                index.forget()
