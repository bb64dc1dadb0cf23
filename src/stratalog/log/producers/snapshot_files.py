"""The `.snapshot` files of one partition.

The number in the name is the offset at which the state ends. Unlike the small text files, snapshots are
written in place, as in Kafka: a torn snapshot fails its CRC, and the previous snapshot is used. Kafka:
SnapshotFile
"""

from __future__ import annotations

import errno
import os
from bisect import bisect_left, insort
from collections.abc import Iterable

from stratalog.errors import CorruptSnapshotError, DiskError
from stratalog.files.disk import changing
from stratalog.files.entries import EntryKind
from stratalog.files.names import FileKind, FileState, parse_segment_file, segment_file_name
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.snapshot import build_snapshot, parse_snapshot

LARGEST_SNAPSHOT = 256 << 20  # room for more than five million producers


def snapshot_offsets(disk: DiskReader, directory: str | os.PathLike[str]) -> list[int]:
    """The offsets of the snapshots in a partition's directory, ascending."""
    found = (
        parse_segment_file(entry.name)
        for entry in disk.list_directory(directory)
        if entry.kind is EntryKind.FILE and entry.name.endswith(FileKind.PRODUCER_SNAPSHOT.value)
    )
    return sorted(file.offset for file in found if file is not None and file.state is FileState.LIVE)


def read_snapshot(disk: DiskReader, path: str, size: int) -> bytes:
    """The `size` bytes of a snapshot; CorruptSnapshotError if that is more than a snapshot can have."""
    if size > LARGEST_SNAPSHOT:
        raise CorruptSnapshotError(f"it has {size} bytes; a snapshot has at most {LARGEST_SNAPSHOT}.")
    return disk.read_at(path, size, 0)


class SnapshotFiles:
    """The live snapshots of a partition. `offsets` is ascending; the caller does not change it.

    A caller that has listed the directory already passes the offsets, which saves listing it again.
    """

    def __init__(
        self, disk: DiskReader, directory: str | os.PathLike[str], offsets: Iterable[int] | None = None
    ) -> None:
        self._disk = disk
        self._directory = os.fspath(directory)
        self.offsets = snapshot_offsets(disk, directory) if offsets is None else sorted(offsets)
        self.names_count = 0  # the number of name changes, for which the directory must be synced
        self._unsynced: set[int] = set()

    @property
    def latest(self) -> int | None:
        return self.offsets[-1] if self.offsets else None

    @property
    def oldest(self) -> int | None:
        return self.offsets[0] if self.offsets else None

    def __contains__(self, offset: int) -> bool:
        place = bisect_left(self.offsets, offset)
        return place < len(self.offsets) and self.offsets[place] == offset

    def path(self, offset: int, state: FileState = FileState.LIVE) -> str:
        name = segment_file_name(offset, FileKind.PRODUCER_SNAPSHOT, state)
        return join_path(self._directory, name)

    def read(self, offset: int) -> list[ProducerStateEntry]:
        """The producers in a snapshot; CorruptSnapshotError if it is torn or damaged."""
        path = self.path(offset)
        try:
            return parse_snapshot(read_snapshot(self._disk, path, self._disk.size(path)))
        except CorruptSnapshotError as error:
            raise CorruptSnapshotError(error.reason, path) from None

    def write(self, offset: int, entries: Iterable[ProducerStateEntry], *, sync: bool) -> str:
        """Write a snapshot, over an older file of the same name; returns its path."""
        path = self.path(offset)
        if self._disk.exists(path):
            # Truncated first. Kafka does not truncate it: the tail of a longer old file then breaks the CRC.
            changing(self._disk).truncate(path, 0)
        else:
            changing(self._disk).create(path)
            self.names_count += 1
        changing(self._disk).write_at(path, build_snapshot(entries), 0)
        self._unsynced.add(offset)
        if sync:
            changing(self._disk).sync(path)
            self._unsynced.discard(offset)
        if offset not in self:
            insort(self.offsets, offset)
        return path

    def sync(self) -> None:
        """Return when all snapshots written so far are on the device; more may be written meanwhile."""
        for offset in sorted(self._unsynced):
            path = self.path(offset)
            if offset in self and self._disk.exists(path):
                changing(self._disk).sync(path)
            self._unsynced.discard(offset)

    def delete(self, offset: int) -> None:
        """Delete a snapshot; one that is already gone is not an error."""
        if offset in self:
            self.offsets.remove(offset)
            changing(self._disk).delete(self.path(offset))
            self.names_count += 1

    def mark_deleted(self, offset: int) -> str | None:
        """Rename a snapshot to .deleted, to be removed later; returns its new path, or None if it is gone."""
        if offset not in self:
            return None
        self.offsets.remove(offset)
        path = self.path(offset, FileState.DELETED)
        try:
            changing(self._disk).rename(self.path(offset), path)
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
            return None  # loading the log may have deleted it, through another SnapshotFiles
        self.names_count += 1
        return path

    def remove_strays(self, segment_bases: Iterable[int]) -> None:
        """Delete snapshots without a segment, except the newest of all, which a clean shutdown leaves.

        Lists the directory again. Kafka: ProducerStateManager.removeStraySnapshots
        """
        bases = set(segment_bases)
        self.offsets = snapshot_offsets(self._disk, self._directory)
        strays = [offset for offset in self.offsets if offset not in bases]
        if strays and (not bases or strays[-1] > max(bases)):
            strays.pop()
        for offset in strays:
            self.delete(offset)

    def move(self, directory: str | os.PathLike[str]) -> None:
        """Called when the partition's directory was renamed."""
        self._directory = os.fspath(directory)
