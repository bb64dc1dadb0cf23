"""The transaction index: which transactions were aborted in a segment, so that readers leave them out.

at  size  field
 0     2  version             0; Kafka looks at the first of its two bytes only
 2     8  producer_id
10     8  first_offset        of the transaction; may be in an earlier segment
18     8  last_offset         of its abort marker, which is in this segment
26     8  last_stable_offset  when the marker was written

There is an entry for each aborted transaction, in the order of their markers. The file is created with the
first entry, and is not preallocated. Kafka: TransactionIndex.java, AbortedTxn.java
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from stratalog.errors import CorruptIndexError, InvalidOffsetError
from stratalog.files.disk import ExpectedFile, Path
from stratalog.files.reading import DiskReader
from stratalog.segment.index_cache import IndexCache
from stratalog.segment.index_file import IndexEntries, IndexFile

ENTRY_SIZE = 34
CURRENT_VERSION = 0
_ENTRY = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)
_PACKED = struct.Struct(">hqqqq")
assert _ENTRY.itemsize == _PACKED.size == ENTRY_SIZE


class AbortedTxn(NamedTuple):
    """An aborted transaction. Kafka: AbortedTxn"""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    version: int = CURRENT_VERSION

    def to_bytes(self) -> bytes:
        """The entry in the form of the file."""
        return _PACKED.pack(self.version, *self[:4])


def parse_aborted(data: bytes) -> list[AbortedTxn]:
    """The whole entries in the bytes of a file."""
    end = len(data) // ENTRY_SIZE * ENTRY_SIZE
    return [
        AbortedTxn(producer_id, first, last, stable, version)
        for version, producer_id, first, last, stable in _PACKED.iter_unpack(data[:end])
    ]


def refused_version(data: bytes, base_offset: int) -> int | None:
    """The version of an entry that stops a broker when it loads the segment; None if the broker loads it.

    A broker checks the entries in their order, and rebuilds the index at the first marker that is below the
    base offset.
    """
    for at in range(0, len(data) - ENTRY_SIZE + 1, ENTRY_SIZE):
        version, _, _, last_offset, _ = _PACKED.unpack_from(data, at)
        if version >> 8 > CURRENT_VERSION:
            return int(version >> 8)
        if last_offset < base_offset:
            return None
    return None


class TransactionIndex(IndexFile):
    """The .txnindex of a segment."""

    ENTRY = _ENTRY
    PACKED = _PACKED
    IS_PREALLOCATED = False

    def __init__(
        self,
        disk: DiskReader,
        path: Path,
        base_offset: int,
        *,
        exists: bool | None = None,
        lock: Any = None,  # Any: as in IndexFile
        cache: IndexCache | None = None,
        identity: ExpectedFile | None = None,
    ) -> None:
        super().__init__(
            disk,
            path,
            base_offset,
            max_size=0,
            exists=exists,
            lock=lock,
            cache=cache,
            identity=identity,
        )

    @property
    def is_empty(self) -> bool:
        return self.entry_count == 0

    @property
    def last_offset(self) -> int | None:
        """The offset of the last aborted transaction's marker."""
        last = self.last_fields
        return None if last is None else last[3]

    def append(self, aborted: AbortedTxn) -> None:
        """Add an entry; its marker must be after the last one's."""
        with self._lock:
            last_offset = self.last_offset
            if last_offset is not None and aborted.last_offset <= last_offset:
                raise InvalidOffsetError(self.path, aborted.last_offset, last_offset)
            self.create()
            # No preallocation: each entry is written after the last whole one, and overwrites what a torn
            # write may have left there. Kafka does not: it appends at the size of the file.
            self._length = (self._count + 1) * self.entry_size
            self._append(aborted.to_bytes(), (aborted.version, *aborted[:4]))

    def all_aborted(self) -> list[AbortedTxn]:
        entries = self.entries()
        return self._aborted(entries, np.arange(entries.count))

    def collect(self, fetch_offset: int, upper_bound: int) -> tuple[list[AbortedTxn], bool]:
        """The aborted transactions that touch [fetch_offset, upper_bound), and whether these are all.

        They are all if one entry's last stable offset is at or above the bound: then everything below the
        bound was decided. Otherwise later segments may have more. Kafka: TransactionIndex.collectAbortedTxns
        """
        entries = self.entries()
        _, _, first, last, stable = (column[: entries.count] for column in entries.columns)
        decided = np.flatnonzero(stable >= upper_bound)
        is_complete = bool(decided.size)
        seen = int(decided[0]) + 1 if is_complete else entries.count
        touching = np.flatnonzero((last[:seen] >= fetch_offset) & (first[:seen] < upper_bound))
        return self._aborted(entries, touching), is_complete

    def truncate_to(self, offset: int) -> None:
        """Keep the entries whose marker is below the offset."""
        if self.entry_count:
            entries = self.entries()
            cut = np.flatnonzero(entries.columns[3][: entries.count] >= offset)
            if cut.size:
                self._truncate_to_entries(int(cut[0]))

    def reset(self) -> None:
        """Remove all entries."""
        if self.exists:
            self.truncate()
            self.trim()

    def flush(self) -> None:
        """Return when all entries are on the device. A missing file is not created."""
        if self.exists:
            super().flush()

    def trim(self) -> None:
        """Cut off the bytes that a torn write left after the last whole entry."""
        if self.exists:
            super().trim()

    def sanity_check(self) -> None:
        """CorruptIndexError if an entry cannot belong to this segment.

        Kafka only checks whether a marker is below the base offset. A torn last entry is not looked at here:
        it is not read, and `append` writes the next one over it. But it is not harmless: Kafka appends at the
        size of the file, so that all later entries are shifted. Recovery and audits look at the size.
        """
        if not self.entry_count:
            return  # as in nearly every segment: the checks below take long even for empty columns
        entries = self.entries()
        version, _, first, last, _ = (column[: entries.count] for column in entries.columns)
        if ((version >> 8) > CURRENT_VERSION).any():
            raise CorruptIndexError(self.path, f"version {int(version.max()) >> 8} of an entry is unknown.")
        if (last < self.base_offset).any():
            raise CorruptIndexError(
                self.path,
                f"a marker at offset {int(last.min())} is below the segment's base offset "
                f"{self.base_offset}.",
            )
        if (last[1:] <= last[:-1]).any():
            raise CorruptIndexError(self.path, "its markers do not ascend.")
        if (first > last).any():
            raise CorruptIndexError(self.path, "a transaction begins after its marker.")

    def _count_entries(self) -> int:
        return self._length // self.entry_size

    def _aborted(self, entries: IndexEntries, slots: np.ndarray[Any, np.dtype[np.intp]]) -> list[AbortedTxn]:
        version, *fields = (column[slots].tolist() for column in entries.columns)
        if any(number >> 8 > CURRENT_VERSION for number in version):
            raise CorruptIndexError(self.path, f"version {max(version) >> 8} of an entry is unknown.")
        return [AbortedTxn(*row) for row in zip(*fields, version, strict=True)]
