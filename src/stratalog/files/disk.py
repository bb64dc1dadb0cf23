"""The one door to the disk: whatever reads or changes a file is given a `Disk`, like a clock.

Logs are read, not mapped: a mapped file that someone else truncates, or that meets a bad block, kills the
process by SIGBUS. Read into page-aligned memory that is used again (`aligned_buffer`): the kernel copies
into a fresh or unaligned buffer at a fraction of the speed.

What the system refuses is a DiskError that says what was tried, on which file, why, and what can be done;
the OSError is its cause. What changes files beyond appending (truncate, replace, rename, sync) comes with
the log that needs it.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from stratalog.errors import DiskError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Path = str | os.PathLike[str]

# What to do about the refusals that someone can do something about.
_ADVICE = {
    errno.EACCES: "Run as the user that owns the log directory.",
    errno.EDQUOT: "Free some space or raise the quota, then run again.",
    errno.EIO: "The device fails: copy what can be read to another one before anything else.",
    errno.EMFILE: "Raise the limit of open files (ulimit -n).",
    errno.ENOENT: "Check the path; if a broker uses the directory, it may just have deleted the file.",
    errno.ENOSPC: "Free some space, then run again.",
    errno.EPERM: "Run as the user that owns the log directory.",
    errno.EROFS: "The file system is mounted read-only.",
}


class EntryKind(Enum):
    """What stands behind a name in a directory, symbolic links followed."""

    FILE = "file"
    DIRECTORY = "directory"
    OTHER = "other"  # a device, a socket, a pipe, or a link that leads nowhere


class DirectoryEntry(NamedTuple):
    """One name in a directory. Size and inode are those of what a symbolic link leads to."""

    name: str
    kind: EntryKind
    size: int
    inode: int
    is_symlink: bool


class ReadFile:
    """A file open for reading; close it, or use it in a `with`. Made by `Disk.open_read`."""

    __slots__ = ("descriptor", "path")

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor

    def close(self) -> None:
        """Close it. Closing twice does nothing, and never hits another file that got the same number."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Disk:
    """The disk of this machine. Without any state: one serves all threads, and travels to other processes."""

    def open_read(self, path: Path) -> ReadFile:
        """Open a file for reading, which creates, locks and changes nothing."""
        name = os.fspath(path)
        try:
            return ReadFile(name, os.open(name, os.O_RDONLY | _CLOSE_ON_EXEC | _BINARY))
        except OSError as error:
            raise _refused("open", name, error) from error

    def read_into(
        self, source: ReadFile | Path, buffer: memoryview | NDArray[np.uint8], position: int
    ) -> int:
        """Fill `buffer` with the bytes from `position` on; returns how many there were.

        Fewer than the buffer holds means that the file ends there. `position` is no cursor, so threads can
        share a ReadFile.
        """
        if not isinstance(source, ReadFile):
            with self.open_read(source) as file:
                return self.read_into(file, buffer, position)
        view = buffer if isinstance(buffer, memoryview) else buffer.data
        done = 0
        try:
            while done < len(view):
                got = _read_at(source.descriptor, view[done:], position + done)
                if got == 0:
                    break
                done += got
        except OSError as error:
            raise _refused(f"read at byte {position + done} of", source.path, error) from error
        return done

    def size(self, source: ReadFile | Path) -> int:
        """How many bytes the file has now."""
        try:
            if isinstance(source, ReadFile):
                return os.fstat(source.descriptor).st_size
            return os.stat(source).st_size  # noqa: PTH116 (a path is any os.PathLike here)
        except OSError as error:
            name = source.path if isinstance(source, ReadFile) else source
            raise _refused("get the size of", name, error) from error

    def append(self, path: Path, data: bytes | memoryview) -> int:
        """Write `data` behind the end of the file, created if need be; returns the position it starts at.

        Not synced to the device. A failure can leave a part of it: the file is then longer than before by
        less than `data`, as after a crash.
        """
        name = os.fspath(path)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _CLOSE_ON_EXEC | _BINARY
        try:
            descriptor = os.open(name, flags, 0o644)
            try:
                rest = memoryview(data)
                position = os.fstat(descriptor).st_size
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            finally:
                os.close(descriptor)
        except OSError as error:
            raise _refused("append to", name, error) from error
        return position

    def list_directory(self, path: Path) -> list[DirectoryEntry]:
        """Everything in a directory, by name, but for what a live broker deletes meanwhile."""
        name = os.fspath(path)
        entries = []
        try:
            with os.scandir(name) as listing:
                for found in listing:
                    entry = _entry(found)
                    if entry is not None:
                        entries.append(entry)
        except OSError as error:
            raise _refused("list", name, error) from error
        return sorted(entries)


def aligned_buffer(size: int) -> NDArray[np.uint8]:
    """Zeroed memory of `size` bytes that starts on a page: make it once, and read into it again and again."""
    import numpy as np

    return np.frombuffer(mmap.mmap(-1, max(size, 1)), dtype=np.uint8)[:size]


def read_by_seeking(descriptor: int, view: memoryview, position: int) -> int:
    """As `os.preadv` with one buffer, for systems without it; moves the cursor that threads would share."""
    os.lseek(descriptor, position, os.SEEK_SET)
    data = os.read(descriptor, len(view))
    view[: len(data)] = data
    return len(data)


def _read_with_preadv(descriptor: int, view: memoryview, position: int) -> int:
    return os.preadv(descriptor, [view], position)


_read_at = _read_with_preadv if hasattr(os, "preadv") else read_by_seeking
_CLOSE_ON_EXEC: int = getattr(os, "O_CLOEXEC", 0)
_BINARY: int = getattr(os, "O_BINARY", 0)


def _entry(found: os.DirEntry[str]) -> DirectoryEntry | None:
    """What a listing says of one name; None where nothing has that name any more."""
    is_symlink = found.is_symlink()
    try:
        status = os.stat(found.path)  # noqa: PTH116
    except FileNotFoundError:
        # A link that leads nowhere is there; a file that a broker has just deleted is not.
        if not is_symlink:
            return None
        return DirectoryEntry(found.name, EntryKind.OTHER, 0, found.inode(), is_symlink)
    kind = EntryKind.OTHER
    if stat.S_ISREG(status.st_mode):
        kind = EntryKind.FILE
    elif stat.S_ISDIR(status.st_mode):
        kind = EntryKind.DIRECTORY
    return DirectoryEntry(found.name, kind, status.st_size, status.st_ino, is_symlink)


def _refused(action: str, path: Path, error: OSError) -> DiskError:
    reason = error.strerror or str(error)
    advice = _ADVICE.get(error.errno or 0, "")
    return DiskError(path, f"could not {action} it: {reason}. {advice}".rstrip())
