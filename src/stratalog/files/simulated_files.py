"""The parts of a simulated disk: files that know what is on the device, and pending changes of names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

from stratalog.files.entries import EntryKind, FileId, FileStatus, ReadFile
from stratalog.files.paths import parent_path, prefix_of

SECTOR_SIZE = 512
_DEVICE = 1  # of all files on a simulated disk


@lru_cache(1 << 16)  # most of a simulated disk's time goes into the same few names
def parent_of(name: str) -> str:
    """The directory that a name is in."""
    return parent_path(name)


@lru_cache(1 << 16)
def normal_name(name: str) -> str:
    """An absolute path in the one spelling by which this disk knows it."""
    return os.path.normpath(name)


class Survival(Enum):
    """How many of a file's changes since its last sync survive."""

    KEPT = "all of them"
    LOST = "none"
    LAST_LOST = "all but the last"
    LAST_TORN = "all, but the last up to the end of a sector"
    FIRST_LOST = "all but the first: the device writes in any order"


class _Write(NamedTuple):
    position: int
    data: bytes


class _Cut(NamedTuple):
    size: int


class SimulatedFile:
    """A file or directory without its names: `data` is what programs see, `durable` what the device has."""

    def __init__(self, inode: int, kind: EntryKind, mtime_ms: int) -> None:
        self.inode = inode
        self.id = FileId((_DEVICE, inode))
        self.kind = kind
        self.mtime_ms = mtime_ms
        self.data: bytes | bytearray = b""  # immutable until the first change: most survivors have none
        self.durable = b""
        self._pending: list[_Write | _Cut] = []

    @property
    def is_synced(self) -> bool:
        return not self._pending

    def status(self) -> FileStatus:
        mode = 0o755 if self.kind is EntryKind.DIRECTORY else 0o644
        return FileStatus(self.kind, len(self.data), self.id, _DEVICE, self.mtime_ms, mode, 0, 0)

    def write(self, data: bytes, position: int, now_ms: int) -> None:
        self._change(_Write(position, data), now_ms)

    def truncate(self, size: int, now_ms: int) -> None:
        self._change(_Cut(size), now_ms)

    def sync(self) -> None:
        if self._pending:
            self.durable = bytes(self.data)
            self._pending.clear()

    def survivor(self, survival: Survival) -> SimulatedFile:
        """The file as it may be found after a power cut."""
        found = SimulatedFile(self.inode, self.kind, self.mtime_ms)
        pending = list(self._pending)
        if survival is Survival.LOST:
            pending = []
        elif survival is Survival.FIRST_LOST:
            pending = pending[1:]
        elif survival is Survival.LAST_LOST:
            pending = pending[:-1]
        elif survival is Survival.LAST_TORN and pending:
            pending = [*pending[:-1], *_torn(pending[-1])]
        found.data = found.durable = self._durable_with(pending)
        return found

    def _durable_with(self, changes: Sequence[_Write | _Cut]) -> bytes:
        if not changes:
            return self.durable
        data = bytearray(self.durable)
        for change in changes:
            _apply(data, change)
        return bytes(data)

    def _change(self, change: _Write | _Cut, now_ms: int) -> None:
        if not isinstance(self.data, bytearray):
            self.data = bytearray(self.data)
        _apply(self.data, change)
        self._pending.append(change)
        self.mtime_ms = now_ms


def _apply(data: bytearray, change: _Write | _Cut) -> None:
    if isinstance(change, _Cut):
        missing = change.size - len(data)
        del data[change.size :]
        data.extend(bytes(max(missing, 0)))
        return
    data.extend(bytes(max(change.position - len(data), 0)))
    data[change.position : change.position + len(change.data)] = change.data


def _torn(change: _Write | _Cut) -> list[_Write | _Cut]:
    """The part of a write up to a sector border near its middle; none if it is within one sector."""
    if isinstance(change, _Cut):
        return []
    middle = change.position + len(change.data) // 2
    boundary = middle - middle % SECTOR_SIZE
    if boundary <= change.position:
        boundary += SECTOR_SIZE
    kept = change.data[: boundary - change.position]
    return [_Write(change.position, kept)] if len(kept) < len(change.data) else []


class Change(NamedTuple):
    """A name that is created (`old` is None), deleted (`new` is None) or changed."""

    old: str | None
    new: str | None
    file: SimulatedFile

    def touches(self, directory: str) -> bool:
        """Whether syncing this directory puts the change on the device."""
        return any(name is not None and parent_of(name) == directory for name in (self.old, self.new))

    def apply(self, names: dict[str, SimulatedFile]) -> bool:
        """Make the change to these names; False, without a change, if a name that it needs is missing."""
        if self.old is not None and names.get(self.old) is not self.file:
            return False
        if self.new is not None and parent_of(self.new) not in names:
            return False
        moved = {}
        if self.old is not None:
            below = prefix_of(self.old)
            moved = {name: names.pop(name) for name in list(names) if name.startswith(below)}
            del names[self.old]
        if self.new is not None:
            names[self.new] = self.file
            assert self.old is not None or not moved
            for name, file in moved.items():
                names[self.new + name[len(self.old or "") :]] = file
        return True

    def after_rename(self, other: Change) -> Change:
        """The same change with the names that it has after a directory above it was renamed."""

        def renamed(name: str | None) -> str | None:
            if name is None or other.old is None or other.new is None:
                return name
            return other.new + name[len(other.old) :] if name.startswith(prefix_of(other.old)) else name

        return Change(renamed(self.old), renamed(self.new), self.file)


class SimulatedReadFile(ReadFile):
    """A file of a simulated disk, open for reading; it stays readable after its name is gone."""

    __slots__ = ("file",)

    def __init__(self, path: str, file: SimulatedFile) -> None:
        super().__init__(path, -1)
        self.file = file
