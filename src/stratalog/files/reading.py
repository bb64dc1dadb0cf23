"""The reading half of the disk: list, status, size, open, read. Nothing here changes a file.

Code that only reads takes a `DiskReader`: views, scans, surveys, listings and jobs. `Disk` in `disk.py` adds
the other half. Another storage for logs, such as an object store, would be another `DiskReader` with its own
`FileId` for each file.

A caller names files by path. If this process renames, deletes or replaces a file, all callers see it at once.
If a broker may change a directory meanwhile, read it through `open_read`, which always opens the file again.
Read into page-aligned memory that is reused (`aligned_buffer`). A refusal of the system becomes a DiskError
that says what was tried, on which file, why, and what to do; the OSError is its cause.

Why: docs/decisions/0008-read-not-mapped.md, 0009-descriptors.md, 0017-two-halves-of-the-disk.md.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from stratalog.errors import DiskError
from stratalog.files import descriptors
from stratalog.files.entries import (
    DirectoryEntry,
    ExpectedFile,
    FileId,
    FileStatus,
    Path,
    ReadFile,
    entry_of,
    file_id,
)
from stratalog.files.lock import is_locked
from stratalog.files.refusals import Refusing, refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Target = memoryview | NDArray[np.uint8]

OPEN_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# Without it, opening a pipe that has the name of a file would wait until somebody writes to it.
_NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)
_USUAL_BLOCK = 4096  # bytes
_MOUNTS = "/proc/self/mountinfo"  # of each mount: id, parent, device, ..., options of the file system
_IS_FILE: Callable[[os.DirEntry[str]], bool] = os.DirEntry.is_file
_LARGE = 1 << 20  # a larger read first checks whether the file is that long
LARGEST_SMALL_FILE = 64 << 20  # checkpoints of 100,000 partitions have a tenth of that


class DiskReader:
    """The files of this machine, for reading only. Has no state: one serves all threads and processes."""

    namespace = ""  # distinguishes the names of a simulated disk from those of this machine

    def open_read(self, path: Path) -> ReadFile:
        """Open a file for reading; creates, locks and changes nothing."""
        name = os.fspath(path)
        with Refusing("open", name):
            return ReadFile(name, os.open(name, os.O_RDONLY | _NO_WAITING | OPEN_FLAGS))

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        """Fill `buffer` with the bytes from `position` on; returns how many were read.

        Fewer than the buffer holds means that the file ends there. No cursor is moved, so threads can share a
        ReadFile. With `identity`: DiskError with ENOENT if another file has this path now.
        """
        view = buffer if isinstance(buffer, memoryview) else buffer.data
        if isinstance(source, ReadFile):
            return _read_all(source.descriptor, view, position, source.path)
        name = os.fspath(source)
        # No `with`, as in `write_at`: it would take as long as reading the few bytes of a look-up.
        try:
            file = descriptors.shared.use(name, identity=identity)
        except OSError as error:
            raise refused("open", name, error) from error
        try:
            return _read_all(file.descriptor, view, position, name)
        finally:
            descriptors.shared.release(file)

    def read_at(self, path: Path, size: int, position: int, identity: ExpectedFile | None = None) -> bytes:
        """At most `size` bytes from `position` on; fewer if the file ends. `identity` as in `read_into`."""
        name = os.fspath(path)
        with self._use(name, identity=identity) as descriptor:
            # One system call, without a second copy, is nearly always enough. It allocates memory for `size`
            # bytes first, so a large size, which may come from a damaged length, is checked against the file.
            try:
                if size > _LARGE:
                    size = min(size, max(0, os.fstat(descriptor).st_size - position))
                data = _read_bytes(descriptor, size, position)
            except OSError as error:
                raise refused(f"read at byte {position} of", name, error) from error
            if len(data) == size or not data:
                return data
            rest = memoryview(bytearray(size - len(data)))
            got = _read_all(descriptor, rest, position + len(data), name)
            return data + rest[:got]

    def read_file(self, path: Path) -> bytes | None:
        """All of a small file; None if it does not exist.

        The file is opened again each time: a kept descriptor would not show that another process has replaced
        it. A file that is not small is a DiskError with EFBIG, because a sparse file can claim more bytes
        than there is memory.
        """
        try:
            file = self.open_read(path)
        except DiskError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise
        with file:
            size = self.size(file)
            if size > LARGEST_SMALL_FILE:
                raise DiskError(
                    path,
                    f"it has {size} bytes, but a file of this kind has at most {LARGEST_SMALL_FILE}. Move it "
                    "away, and find out what it is.",
                    errno.EFBIG,
                )
            data = memoryview(bytearray(size))
            return bytes(data[: self.read_into(file, data, 0)])

    def size(self, source: ReadFile | Path) -> int:
        """The present size of the file in bytes."""
        if isinstance(source, ReadFile):
            with Refusing("get the size of", source.path):
                return os.fstat(source.descriptor).st_size
        with Refusing("get the size of", os.fspath(source)):
            return os.stat(source).st_size

    def identify(self, file: ReadFile) -> FileId:
        """The id of an open file; a later file with the same name has another id."""
        with Refusing("look at", file.path):
            return file_id(os.fstat(file.descriptor))

    def status(self, path: Path) -> FileStatus | None:
        """The facts of the file or directory at `path`; None if nothing is there."""
        with Refusing("look at", os.fspath(path)):
            try:
                return FileStatus.of(os.stat(path))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def exists(self, path: Path) -> bool:
        """Whether a file or directory exists; a dangling link does not count."""
        return self.status(path) is not None

    def free_size(self, path: Path) -> int:
        """How many bytes this user can still write on the file system of `path`."""
        found = _file_system(path)
        blocks = found.f_bavail
        if os.geteuid() == 0 and found.f_bfree > blocks:
            # Root may use the blocks that are reserved for it, but not those of the file system itself.
            with Refusing("look at", os.fspath(path)):
                blocks = max(blocks, found.f_bfree - _kept_blocks(os.stat(path).st_dev))
        return blocks * found.f_frsize

    def block_size(self, path: Path) -> int:
        """Files on the file system of `path` occupy multiples of this size, or of a larger one.

        At most 4096: NFS and ZFS report the size of their largest block, but small files have smaller ones.
        """
        return min(_file_system(path).f_frsize, _USUAL_BLOCK)

    def available_size(self, path: Path) -> int:
        """How many bytes users other than root can still write there, whoever asks; `df` shows this."""
        found = _file_system(path)
        return found.f_bavail * found.f_frsize

    def may_create_in(self, path: Path) -> bool:
        """Whether this user can create files in a directory; False if it does not exist."""
        return os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)

    def is_read_only(self, path: Path) -> bool:
        """Whether the file system of `path` is mounted read-only, or has become so after an error."""
        name = os.fspath(path)
        with Refusing("look at the file system of", name):
            return bool(os.statvfs(name).f_flag & os.ST_RDONLY) or _is_stopped(os.stat(name).st_dev)

    def is_in_use(self, directory: Path) -> bool:
        """Whether somebody holds the lock of a log directory now. Creates, locks and changes nothing."""
        return is_locked(directory)

    def is_same_device(self, path: Path, other: Path) -> bool:
        """Whether a file can be renamed from one directory to the other."""
        one, two = self.status(path), self.status(other)
        return one is not None and two is not None and one.device == two.device

    def list_directory(self, path: Path) -> list[DirectoryEntry]:
        """Everything in a directory, by name, except what a live broker deletes meanwhile."""
        name = os.fspath(path)
        entries = []
        with Refusing("list", name), os.scandir(name) as listing:
            for found in listing:
                entry = entry_of(found)
                if entry is not None:
                    entries.append(entry)
        return sorted(entries)

    def list_sizes(self, path: Path, suffix: str) -> dict[str, int]:
        """The files in a directory, with the sizes of those whose names end with `suffix`, and 0 for the
        others.

        For a log of very many files it takes half the time of `list_directory`: it asks the system about one
        file in four, and creates no object for a file.
        """
        name = os.fspath(path)
        with Refusing("list", name):
            if os.scandir not in os.supports_fd:
                return _sizes_in(name, suffix)
            # Through its descriptor: the system then finds each file by its name alone, not by a long path.
            descriptor = os.open(name, os.O_RDONLY | os.O_DIRECTORY | OPEN_FLAGS)
            try:
                return _sizes_in(descriptor, suffix)
            finally:
                os.close(descriptor)

    def release(self, directory: Path) -> None:
        """Close the kept files below a directory: from now on others may replace files there."""
        descriptors.shared.forget(os.fspath(directory))

    def close(self) -> None:
        """Close the files that are kept open; the next use opens them again."""
        descriptors.shared.close()

    def _use(
        self, name: str, *, writable: bool = False, identity: ExpectedFile | None = None
    ) -> descriptors.OpenFile:
        try:
            return descriptors.shared.use(name, writable=writable, identity=identity)
        except OSError as error:
            raise refused("open", name, error) from error


def _sizes_in(directory: str | int, suffix: str) -> dict[str, int]:
    with os.scandir(directory) as listing:
        found: dict[str, os.DirEntry[str]] = {entry.name: entry for entry in filter(_IS_FILE, listing)}
    sizes = dict.fromkeys(found, 0)
    for file in [file for file in found if file.endswith(suffix)]:
        try:
            sizes[file] = found[file].stat().st_size
        except FileNotFoundError:
            del sizes[file]
    return sizes


def _kept_blocks(device: int) -> int:
    """How many free blocks ext4 keeps for itself, so that no user can write to them; 0 if it is not ext4."""
    block_device = os.path.realpath(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}")
    try:
        with open(
            f"/sys/fs/ext4/{os.path.basename(block_device)}/reserved_clusters", encoding="ascii"
        ) as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0


def _is_stopped(device: int) -> bool:
    """Whether an error has made this file system read-only, although it is still mounted for writing.

    Since Linux 6.15, ext4 stops writing with the option `emergency_ro`, which only the table of mounts shows.
    """
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split() for line in file]
    except OSError:  # not Linux, or /proc is not mounted
        return False
    number = f"{os.major(device)}:{os.minor(device)}"
    return any(number in fields[2:3] and "emergency_ro" in fields[-1].split(",") for fields in mounts)


def read_by_seeking(descriptor: int, view: memoryview, position: int) -> int:
    """Like `os.preadv` with one buffer, for systems without it; moves the cursor, which threads share."""
    os.lseek(descriptor, position, os.SEEK_SET)
    data = os.read(descriptor, len(view))
    view[: len(data)] = data
    return len(data)


def _read_with_preadv(descriptor: int, view: memoryview, position: int) -> int:
    return os.preadv(descriptor, [view], position)


def _read_bytes_by_seeking(descriptor: int, size: int, position: int) -> bytes:
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.read(descriptor, size)


_read_at = _read_with_preadv if hasattr(os, "preadv") else read_by_seeking
_read_bytes = os.pread if hasattr(os, "pread") else _read_bytes_by_seeking


def _file_system(path: Path) -> os.statvfs_result:
    name = os.fspath(path)
    with Refusing("get the free space of", name):
        return os.statvfs(name)


def _read_all(descriptor: int, view: memoryview, position: int, path: str) -> int:
    done = 0
    try:
        while done < len(view):
            got = _read_at(descriptor, view[done:] if done else view, position + done)
            if got == 0:
                break
            done += got
    except OSError as error:
        raise refused(f"read at byte {position + done} of", path, error) from error
    return done
