"""What a disk says about files: their kinds, directory entries and facts; and files open for reading."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import NamedTuple, NewType, Self, cast

Path = str | os.PathLike[str]

# Identifies a file independently of its name. It is only compared for equality: its content is private to
# this package, and another storage has its own ids.
FileId = NewType("FileId", object)
_BLOCK = 512  # the unit of `st_blocks`, whatever the file system's blocks are
NO_FILE = FileId((-1, -1))  # of a file that does not exist yet


class EntryKind(Enum):
    """The kind of a directory entry, symbolic links followed."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"  # a device, a socket, a pipe, or a link that leads nowhere


class DirectoryEntry(NamedTuple):
    """One name in a directory. For a symbolic link, sizes, id and time are those of its target.

    `disk_size` is what it takes on the disk: blocks of zeros that were never written take nothing.
    """

    name: str
    kind: EntryKind
    size: int
    id: FileId
    is_symlink: bool
    mtime_ms: int = 0
    disk_size: int = 0


class FileStatus(NamedTuple):
    """The facts of one file or directory, symbolic links followed."""

    kind: EntryKind
    size: int
    id: FileId
    device: int  # the number of its file system
    mtime_ms: int
    mode: int  # the permission bits alone
    user: int
    group: int

    @classmethod
    def of(cls, found: os.stat_result) -> Self:
        """Converts the result of `os.stat`."""
        return cls(
            kind=kind_of(found.st_mode),
            size=found.st_size,
            id=file_id(found),
            device=found.st_dev,
            mtime_ms=found.st_mtime_ns // 1_000_000,
            mode=stat.S_IMODE(found.st_mode),
            user=found.st_uid,
            group=found.st_gid,
        )


class ExpectedFile(NamedTuple):
    """The file that a reader expects under a name: its id and its minimum size.

    The size matters because the system may reuse the id of a deleted file, for example for a shorter
    compacted one.
    """

    id: FileId
    size: int = 0

    def is_of(self, found: os.stat_result) -> bool:
        return file_id(found) == self.id and found.st_size >= self.size


class ReadFile:
    """A file open for reading; close it, or use it in a `with`. Created by `DiskReader.open_read`.

    Only this package uses the descriptor: other code passes the file to the disk that opened it.
    """

    __slots__ = ("descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def expect_sequential_reads(self) -> None:
        """Tell the system that the file is read from start to end, so that it reads further ahead."""
        self._advise(0, 0, "POSIX_FADV_SEQUENTIAL")

    def expect_read(self, position: int, size: int) -> None:
        """Tell the system which bytes are read next, so that it can fetch them meanwhile."""
        self._advise(position, size, "POSIX_FADV_WILLNEED")

    def _advise(self, position: int, size: int, advice: str) -> None:
        """Only advice: it is not an error if the system ignores it, or refuses it as it does for a pipe."""
        if self.descriptor >= 0 and hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(self.descriptor, position, size, getattr(os, advice))

    def close(self) -> None:
        """Close the file. A second call has no effect, even if another file has its descriptor by then."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def file_id(found: os.stat_result) -> FileId:
    """The id of a file of this machine."""
    return FileId((found.st_dev, found.st_ino))


def lasting_id(file: FileId) -> str:
    """The part of an id that is the same after a restart and on another machine: for storing or sending.

    It is unique within one file system, or within another storage, whose ids are already text.
    """
    return file if isinstance(file, str) else str(inode_of(file))


def inode_of(file: FileId) -> int:
    """The inode of a file of this machine."""
    _, inode = cast(tuple[int, int], file)
    return inode


def kind_of(mode: int) -> EntryKind:
    """The kind of a file by its mode from `os.stat`."""
    if stat.S_ISREG(mode):
        return EntryKind.FILE
    return EntryKind.DIRECTORY if stat.S_ISDIR(mode) else EntryKind.OTHER


def is_dangling(entry: DirectoryEntry) -> bool:
    """Whether it is a link that leads neither to a file nor to a directory."""
    return entry.is_symlink and entry.kind is EntryKind.OTHER


def entry_of(found: os.DirEntry[str]) -> DirectoryEntry | None:
    """The listing's entry for one name; None if nothing has that name any more."""
    is_symlink = found.is_symlink()
    try:
        status = os.stat(found.path)
    except FileNotFoundError:
        # A dangling link is listed; a file that a broker has just deleted is not.
        if not is_symlink:
            return None
        return DirectoryEntry(found.name, EntryKind.OTHER, 0, FileId((0, found.inode())), is_symlink)
    return DirectoryEntry(
        found.name,
        kind_of(status.st_mode),
        status.st_size,
        file_id(status),
        is_symlink,
        status.st_mtime_ns // 1_000_000,
        # Windows does not say how many blocks a file has.
        getattr(status, "st_blocks", -(-status.st_size // _BLOCK)) * _BLOCK,
    )
