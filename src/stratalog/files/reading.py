"""The half of the door to the disk that reads: list, look, size, open, read. Nothing here changes a file.

Whatever only looks takes a `DiskReader`: views, scans, surveys, listings and jobs. `Disk` in `disk.py` has
the other half. Another place for logs, such as an object store, is another `DiskReader` with a `FileId` of
its own for each file.

A caller names files by path. What this process renames, deletes or replaces is seen at once by all users in
it. A directory that a broker changes meanwhile is read through `open_read`, which always opens the file
again. Read into page-aligned memory that is used again (`aligned_buffer`). What the system refuses is a
DiskError that says what was tried, on which file, why, and what can be done; the OSError is its cause.

Why: docs/decisions/0008-read-not-mapped.md, 0009-descriptors.md, 0017-two-halves-of-the-disk.md.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

from stratalog.errors import DiskError
from stratalog.files import descriptors
from stratalog.files.entries import (
    DirectoryEntry,
    EntryKind,
    ExpectedFile,
    FileId,
    FileStatus,
    Path,
    ReadFile,
    entry_of,
    file_id,
    kind_of,
)
from stratalog.files.refusals import Refusing, refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Target = memoryview | NDArray[np.uint8]

OPEN_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
# A pipe under the name of a file would be waited for until somebody writes to it.
_NO_WAITING: int = getattr(os, "O_NONBLOCK", 0)
_LARGE = 1 << 20  # a read for which it is worth asking first whether the file has as much
LARGEST_SMALL_FILE = 64 << 20  # checkpoints of 100,000 partitions have a tenth of that


class DiskReader:
    """The files of this machine, for reading only. Has no state: one serves all threads and processes."""

    namespace = ""  # what tells the names of a simulated disk from those of this machine

    def open_read(self, path: Path) -> ReadFile:
        """Open a file for reading, which creates, locks and changes nothing."""
        name = os.fspath(path)
        with Refusing("open", name):
            return ReadFile(name, os.open(name, os.O_RDONLY | _NO_WAITING | OPEN_FLAGS))

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        """Fill `buffer` with the bytes from `position` on; returns how many there were.

        Fewer than the buffer holds means that the file ends there. `position` is no cursor, so threads can
        share a ReadFile. With `identity`, a path that another file has got is a DiskError with ENOENT.
        """
        view = buffer if isinstance(buffer, memoryview) else buffer.data
        if isinstance(source, ReadFile):
            return _read_all(source.descriptor, view, position, source.path)
        name = os.fspath(source)
        # No `with`, as in `write_at`: a look-up reads little.
        try:
            file = descriptors.shared.use(name, identity=identity)
        except OSError as error:
            raise refused("open", name, error) from error
        try:
            return _read_all(file.descriptor, view, position, name)
        finally:
            descriptors.shared.release(file)

    def read_at(self, path: Path, size: int, position: int, identity: ExpectedFile | None = None) -> bytes:
        """At most `size` bytes from `position` on; fewer where it ends. `identity` as in `read_into`."""
        name = os.fspath(path)
        with self._use(name, identity=identity) as descriptor:
            # One call for what is nearly always there in one piece, and without a second copy. Memory for all
            # of it is taken before, so a size that a damaged length asks for is not believed.
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
        """All of a small file; None where there is none. Opened anew: one that was replaced by another
        process, which a kept descriptor would not show, is read as it is now. One that is not small is a
        DiskError with EFBIG: a sparse file can claim more bytes than there is memory."""
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
        """How many bytes the file has now."""
        if isinstance(source, ReadFile):
            with Refusing("get the size of", source.path):
                return os.fstat(source.descriptor).st_size
        with Refusing("get the size of", os.fspath(source)):
            return os.stat(source).st_size

    def identify(self, file: ReadFile) -> FileId:
        """What tells an open file from another that has got its name since."""
        with Refusing("look at", file.path):
            return file_id(os.fstat(file.descriptor))

    def status(self, path: Path) -> FileStatus | None:
        """The facts of what is at `path`; None where nothing is."""
        with Refusing("look at", os.fspath(path)):
            try:
                return FileStatus.of(os.stat(path))
            except (FileNotFoundError, NotADirectoryError):
                return None

    def exists(self, path: Path) -> bool:
        """Whether a file or directory is there; a link that leads nowhere is not."""
        return self.status(path) is not None

    def free_size(self, path: Path) -> int:
        """How many bytes this user can still write on the file system that `path` is on."""
        name = os.fspath(path)
        with Refusing("get the free space of", name):
            found = os.statvfs(name)
        # Root may use the blocks that a file system keeps back from others.
        blocks = found.f_bfree if os.geteuid() == 0 else found.f_bavail
        return blocks * found.f_frsize

    def may_create_in(self, path: Path) -> bool:
        """Whether this user can create files in a directory; False where there is none."""
        return os.access(path, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids)

    def is_same_device(self, path: Path, other: Path) -> bool:
        """Whether a file can be renamed from the one directory to the other."""
        one, two = self.status(path), self.status(other)
        return one is not None and two is not None and one.device == two.device

    def list_directory(self, path: Path) -> list[DirectoryEntry]:
        """Everything in a directory, by name, but for what a live broker deletes meanwhile."""
        name = os.fspath(path)
        entries = []
        with Refusing("list", name), os.scandir(name) as listing:
            for found in listing:
                entry = entry_of(found)
                if entry is not None:
                    entries.append(entry)
        return sorted(entries)

    def list_sizes(self, path: Path, suffix: str) -> dict[str, int]:
        """The files in a directory, with the sizes of those whose names end so, and 0 for the others.

        For a log of very many files, three of four of which need no question to the system, and none an
        object of its own: that is half the time of `list_directory`.
        """
        name = os.fspath(path)
        sizes = {}
        with Refusing("list", name), os.scandir(name) as listing:
            for found in listing:
                file = found.name
                if file.endswith(suffix):
                    try:
                        status = found.stat()
                    except FileNotFoundError:
                        continue
                    if kind_of(status.st_mode) is EntryKind.FILE:
                        sizes[file] = status.st_size
                elif found.is_file():
                    sizes[file] = 0
        return sizes

    def release(self, directory: Path) -> None:
        """Close what is kept open below a directory: from now on others may replace the files there."""
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


def read_by_seeking(descriptor: int, view: memoryview, position: int) -> int:
    """As `os.preadv` with one buffer, for systems without it; moves the cursor that threads would share."""
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
