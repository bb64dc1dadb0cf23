"""The common part of a segment's indexes: entries of one size, one after the other, without a header.

While a segment is appended to, Kafka maps its offset and time index at full size. So such a file is
preallocated, with zeros after its entries. It is cut to its entries when the segment is rolled or closed.
Here the files have the same bytes, apart from two cases in `docs/scenarios/segment.md`, but they are read and
written instead of mapped. Every entry is written immediately, so the entries in memory are a cache that may
be dropped at any time.

An index opens when it is first used. Kafka then treats every slot of the file as an entry, even the zeros
that a crash left; here zeros are not entries (`docs/formats/offset-index.md`).

One thread changes an index, any number of threads read it. Readers get `IndexEntries`, which never change: an
append writes after them, and a truncation makes new ones.
"""

from __future__ import annotations

import errno
import struct
import threading
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from stratalog.errors import CorruptIndexError, DiskError, IndexFullError
from stratalog.files.disk import ExpectedFile, Path, changing
from stratalog.files.reading import DiskReader
from stratalog.segment import index_cache
from stratalog.segment.index_cache import IndexCache

_UNOPENED = -1
_SMALLEST_CAPACITY = 64
# Enough for the transaction index of a 2 GiB segment in which every second batch is an abort marker and all
# batches are as small as possible.
LARGEST_INDEX = 512 << 20
_READ_WHOLE = 64 << 10  # up to this size, reading the whole file costs less than searching for its last entry


class IndexEntries:
    """The entries of an index at one moment: a column for each field, in the CPU's byte order.

    `views` are the columns as memoryviews, which `bisect` and single lookups read faster than arrays; `size`
    is their memory in bytes.
    """

    __slots__ = ("columns", "count", "size", "views")

    def __init__(self, count: int, columns: tuple[NDArray[Any], ...]) -> None:
        self.count = count
        self.columns = columns
        self.size = sum(column.nbytes for column in columns)
        self.views = tuple(column.data for column in columns)


class IndexFile:
    """The file of an index. The subclasses say what its entries mean.

    `ENTRY` and `PACKED` are the same layout, for many entries and for one: for a single entry NumPy is ten
    times as slow as `struct`.
    """

    ENTRY: ClassVar[np.dtype[np.void]]
    PACKED: ClassVar[struct.Struct]
    IS_PREALLOCATED: ClassVar[bool] = True
    RESERVED: ClassVar[int] = 0  # slots at the end of the file that the index rule leaves free

    def __init__(
        self,
        disk: DiskReader,
        path: Path,
        base_offset: int,
        *,
        max_size: int,
        exists: bool | None = None,
        lock: Any = None,  # Any: a threading.RLock, which is a function up to Python 3.12
        cache: IndexCache | None = None,
        identity: ExpectedFile | None = None,
    ) -> None:
        self.path = str(path)
        self.base_offset = base_offset
        self.max_size = max_size
        self.entry_size = self.ENTRY.itemsize
        self._disk = disk
        self._exists = exists
        self._lock: Any = threading.RLock() if lock is None else lock
        self._cache = index_cache.shared if cache is None else cache
        self.names_count = 0  # how often the file was created here
        self._identity = identity
        self.is_gone = False  # the segment was deleted; a file of this name belongs to another segment
        self._count = _UNOPENED
        self._length = 0  # of the file in bytes, used or not
        self._last: tuple[int, ...] | None = None
        self._entries: IndexEntries | None = None
        self.was_used = False  # since the last check of the cache
        self._synced = False

    def share_lock(self, lock: Any) -> None:
        """Use this lock from now on.

        After a fork, the thread that held the old lock may not exist in this process, so the lock would never
        be released.
        """
        self._lock = lock

    @property
    def entry_count(self) -> int:
        """The number of entries, without the zeros after them."""
        if self._count == _UNOPENED:
            self._open()
        return self._count

    @property
    def max_entries(self) -> int:
        """How many entries the file has room for."""
        if self._count == _UNOPENED:
            self._open()
        return self._length // self.entry_size

    @property
    def room(self) -> int:
        """How many entries the index rule may still add."""
        if self._count == _UNOPENED:
            self._open()
        return self._length // self.entry_size - self._count - self.RESERVED

    @property
    def is_full(self) -> bool:
        return self.room <= 0

    @property
    def exists(self) -> bool:
        self._open()
        return bool(self._exists)

    def create(self) -> None:
        """Create the file if it is missing, at its full size, filled with zeros."""
        if self._exists and self._count != _UNOPENED:
            return
        with self._lock:
            self._open()
            if not self._exists:
                self._create(self._length)
                self._exists = True
                self._synced = False

    def resize(self, size: int) -> bool:
        """Give the file room for as many whole entries as fit into `size` bytes, keeping its entries.

        False if it already has that size.
        """
        with self._lock:
            self.create()
            length = max(size // self.entry_size, self._count) * self.entry_size
            if length == self._length:
                return False
            changing(self._disk).truncate(self.path, length)
            self._length = length
            self._synced = False
            return True

    def trim(self) -> None:
        """Cut the file to its entries, or create it empty: the segment is no longer appended to."""
        with self._lock:
            self._open()
            if self._exists:
                self.resize(self._count * self.entry_size)
            else:
                self._create(0)
                self._exists, self._length, self._synced = True, 0, False

    def close(self) -> None:
        """Cut the file to its entries if this index was used, and release its memory."""
        with self._lock:
            try:
                if self._count != _UNOPENED and self._exists:
                    self.trim()
            finally:
                self.forget()

    def flush(self) -> None:
        """Return when all entries are on the device. Creates the file, as Kafka does."""
        with self._lock:
            self.create()
            if not self._synced:
                changing(self._disk).sync(self.path)
                self._synced = True

    def rename_to(self, path: str) -> None:
        """Rename the file; if there is no file yet, only the name changes."""
        with self._lock:
            if self._exists is not False and self._disk.exists(self.path):
                changing(self._disk).rename(self.path, path)
            self.path = path

    def delete(self) -> bool:
        """Delete the file; False if there was none."""
        with self._lock:
            self.forget()
            self._exists = False
            return changing(self._disk).delete(self.path)

    def forget(self) -> None:
        """Forget the state of the file; the next use reads it again."""
        with self._lock:
            self._count = _UNOPENED
            self._last = None
            self._exists = None
            self._cache.discard(self)
            self._entries = None

    def forget_entries(self) -> None:
        """Release the memory of the entries. The cache calls it from any thread; it takes no lock."""
        self._entries = None

    def truncate(self) -> None:
        """Remove all entries; the file keeps its size."""
        self._truncate_to_entries(0)

    def reset(self) -> None:
        """Remove all entries and give the file its full size, to rebuild the index."""
        self.truncate()
        self.resize(self.max_size)

    def check_length(self) -> None:
        """CorruptIndexError unless the file holds whole entries and, after them, only zeros."""
        self._open()
        if not self._exists:
            return
        size = self._length
        if size % self.entry_size:
            raise CorruptIndexError(
                self.path, f"{size} bytes are not a multiple of {self.entry_size}, the size of an entry."
            )
        position = self._count * self.entry_size
        while position < size:
            padding = self._read(min(1 << 20, size - position), position)
            if not padding:
                break
            if padding.count(0) != len(padding):
                raise CorruptIndexError(
                    self.path, f"there is an entry after the zeros that follow entry {self._count}."
                )
            position += len(padding)

    def entries(self) -> IndexEntries:
        """All entries as they are now; read from the file unless they are in memory."""
        entries = self._entries
        if entries is None:
            return self._load()
        self.was_used = True
        return entries

    def to_bytes(self) -> bytes:
        """All entries as they are in the file, without the zeros after them."""
        entries = self.entries()
        raw = np.empty(entries.count, self.ENTRY)
        for name, column in zip(self.ENTRY.names or (), entries.columns, strict=True):
            raw[name] = column[: entries.count]
        return raw.tobytes()

    def append_checked(self, rows: NDArray[np.int64]) -> None:
        """Add entries, a row of fields for each, that the index rule has found to be in order."""
        if len(rows) == 1:
            self.append_fields(tuple(rows[0].tolist()))
        elif len(rows):
            self._append(to_entries(rows, self.ENTRY).tobytes(), tuple(rows[-1].tolist()))

    def append_fields(self, fields: tuple[int, ...]) -> None:
        """Add one entry that the index rule has found to be in order."""
        self._append(self.PACKED.pack(*fields), fields)

    def _append(self, raw: bytes, last: tuple[int, ...]) -> None:
        """Write entries after the last one, in one write; the caller has checked that they ascend.

        `last` are the fields of the last of them.
        """
        with self._lock:
            if not self._exists or self._count == _UNOPENED:
                self.create()
            count = self._count + len(raw) // self.entry_size
            if count * self.entry_size > self._length:
                raise IndexFullError(self.path, self._count)
            changing(self._disk).write_at(self.path, raw, self._count * self.entry_size)
            self._synced = False
            entries = self._entries
            if entries is not None:
                self._entries = entries = _grown(entries, np.frombuffer(raw, self.ENTRY))
                self._cache.keep(self, entries.size)
            self._count = count
            self._last = last

    def _create(self, size: int) -> None:
        changing(self._disk).create(self.path, size)
        self.names_count += 1

    def _truncate_to_entries(self, count: int) -> None:
        with self._lock:
            self._open()
            if count >= self._count:
                return
            entries = self._entries
            if self._exists:
                # A preallocated file is extended again after the cut, so that zeros follow the entries.
                changing(self._disk).truncate(self.path, count * self.entry_size)
                if self.IS_PREALLOCATED:
                    changing(self._disk).truncate(self.path, self._length)
                else:
                    self._length = count * self.entry_size
                self._synced = False
            if entries is not None:
                # A copy: readers may still look into the entries that are about to be overwritten.
                self._entries = kept = IndexEntries(
                    count, tuple(column[:count].copy() for column in entries.columns)
                )
                self._cache.keep(self, kept.size)
            self._count = count
            self._last = None

    @property
    def last_fields(self) -> tuple[int, ...] | None:
        """The fields of the last entry, as they are in the file; None if there is none."""
        last = self._last
        if last is not None:
            return last
        with self._lock:
            if self.entry_count and self._last is None:
                self._last = self._slot(self._count - 1)
            return self._last if self._count else None

    def _open(self) -> None:
        if self._count != _UNOPENED:
            return
        with self._lock:
            if self._count != _UNOPENED:
                return
            if self.is_gone:
                raise DiskError(self.path, "the segment was deleted.", errno.ENOENT)
            status = None if self._exists is False else self._disk.status(self.path)
            if self._identity is not None and (status is None or status.id != self._identity.id):
                raise DiskError(self.path, "the file was replaced or deleted meanwhile.", errno.ENOENT)
            if status is None:
                self._exists = False
                self._length, count = self.max_size // self.entry_size * self.entry_size, 0
            else:
                self._exists = True
                if status.size > LARGEST_INDEX:
                    raise CorruptIndexError(
                        self.path, f"{status.size} bytes are more than an index can have."
                    )
                self._length = status.size
                count = self._count_entries()
            self._last = None
            self._count = count

    def _count_entries(self) -> int:
        """The number of used slots. Zeros come after all entries, so bisection finds where they begin."""
        return self._first_zero_slot(0)

    def _first_zero_slot(self, start: int) -> int:
        """The first slot of zeros from `start` on; all slots after it must be zeros too."""
        slots = self._length // self.entry_size
        if not slots:
            return start  # as for every segment of a few small batches: the file need not be opened
        if slots * self.entry_size <= _READ_WHOLE:
            data = self._read(slots * self.entry_size, 0)
            slots = len(data) // self.entry_size
            used = len(data[: slots * self.entry_size].rstrip(b"\0"))
            return max(start, -(-used // self.entry_size))
        if self._is_used(slots - 1):
            return slots
        low, high = start, slots - 1  # `high` is a slot of zeros
        while low < high:
            middle = (low + high) // 2
            if self._is_used(middle):
                low = middle + 1
            else:
                high = middle
        return low

    def _read(self, size: int, position: int) -> bytes:
        identity = () if self._identity is None else (self._identity,)
        while True:
            path = self.path
            data = self._disk.read_at(path, size, position, *identity)
            if self.path is path:
                return data

    def _is_used(self, slot: int) -> bool:
        data = self._read(self.entry_size, slot * self.entry_size)
        return data.count(0) != len(data)

    def _slot(self, slot: int) -> tuple[int, ...]:
        data = self._read(self.entry_size, slot * self.entry_size)
        if len(data) < self.entry_size:
            raise self._shrunk()
        fields: tuple[int, ...] = np.frombuffer(data, self.ENTRY)[0].item()
        return fields

    def _load(self) -> IndexEntries:
        with self._lock:
            self._open()
            raw = np.empty(0, self.ENTRY)
            if self._count:
                data = self._read(self._count * self.entry_size, 0)
                if len(data) < self._count * self.entry_size:
                    raise self._shrunk()
                raw = np.frombuffer(data, self.ENTRY)
            self._entries = entries = _native(raw, len(raw))
            self._cache.keep(self, entries.size)
            return entries

    def _shrunk(self) -> CorruptIndexError:
        return CorruptIndexError(self.path, f"the file has become shorter than its {self._count} entries.")


def to_entries(rows: NDArray[np.int64], layout: np.dtype[np.void]) -> NDArray[np.void]:
    """Rows of fields in the form of the file."""
    entries = np.empty(len(rows), layout)
    for number, name in enumerate(layout.names or ()):
        entries[name] = rows[:, number]
    return entries


def _native(raw: NDArray[np.void], capacity: int) -> IndexEntries:
    columns = []
    for name in raw.dtype.names or ():
        column = np.empty(capacity, raw.dtype[name].newbyteorder("="))
        column[: len(raw)] = raw[name]
        columns.append(column)
    return IndexEntries(len(raw), tuple(columns))


def _grown(entries: IndexEntries, raw: NDArray[np.void]) -> IndexEntries:
    """The entries with more after them, in the same columns if those have room."""
    count = entries.count + len(raw)
    columns = entries.columns
    if count > len(columns[0]):
        capacity = max(_SMALLEST_CAPACITY, 2 * count)
        columns = tuple(np.resize(column[: entries.count], capacity) for column in columns)
    for column, name in zip(columns, raw.dtype.names or (), strict=True):
        column[entries.count : count] = raw[name]
    return IndexEntries(count, columns)
