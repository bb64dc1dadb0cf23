"""The disk: code that changes files is given a `Disk`, as it is given a clock.

A `Disk` also reads: it inherits from `DiskReader` in `reading.py`, which describes how files are opened and
shared. Code that only reads takes a `DiskReader`.

Bytes are certain to be on the device only after `sync`, names only after `sync_directory`. A refusal of the
system becomes a DiskError, as when reading.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from stratalog.files import descriptors
from stratalog.files.entries import DirectoryEntry, EntryKind, ExpectedFile, FileStatus, Path, ReadFile
from stratalog.files.names import TEMPORARY_SUFFIX
from stratalog.files.ownership import hand_over, ownership_for_directory, ownership_for_file
from stratalog.files.paths import parent_path
from stratalog.files.reading import OPEN_FLAGS, DiskReader, read_by_seeking
from stratalog.files.refusals import Refusing, refused

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stratalog.files.reading import Target as Target

    Data = bytes | bytearray | memoryview | NDArray[np.uint8]

__all__ = [
    "DirectoryEntry",
    "Disk",
    "DiskReader",
    "EntryKind",
    "ExpectedFile",
    "FileStatus",
    "Path",
    "ReadFile",
    "byte_view",
    "changing",
    "read_by_seeking",
]

_PLAIN = (bytes, bytearray, memoryview)  # not a union, which would be built in each call
_AS_THEY_ARE = (bytes, bytearray)
# Never follow a link: root repairs directories in which another user may have planted one.
_CREATE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | OPEN_FLAGS
# The system merges syncs that wait for the device at the same time. One after the other, each takes 1 to 3
# ms; with this many threads, 0.07 ms. For a few syncs, starting threads is not worth it.
_SYNCED_AT_ONCE = 32
_FEW = 2
# Of many files, a thread writes up to this many, and then syncs them. Threads that take turns for each file
# spend more time on taking turns than on writing.
_WRITTEN_IN_A_RUN = 4

T = TypeVar("T")
R = TypeVar("R")


class Disk(DiskReader):
    """The disk of this machine, for reading and writing. Like `DiskReader` it has no state.

    With `require_owner`, failing to give a created file to its proper owner is an error.
    """

    def __init__(self, *, require_owner: bool = False) -> None:
        self._require_owner = require_owner

    def append(self, path: Path, data: Data) -> int:
        """Append `data` to the file, which is created if necessary; returns the position where `data` starts.

        A failure can leave only a part of `data` in the file, as a crash can.
        """
        name = os.fspath(path)
        with Refusing("append to", name):
            try:
                descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | OPEN_FLAGS)
            except FileNotFoundError:
                self.create(name)
                descriptor = os.open(name, os.O_WRONLY | os.O_APPEND | OPEN_FLAGS)
            try:
                rest = byte_view(data)
                position = os.fstat(descriptor).st_size
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            finally:
                os.close(descriptor)
        return position

    def write_at(self, path: Path, data: Data, position: int) -> None:
        """Write all of `data` from `position` on into an existing file; the file grows if necessary.

        A failure can leave only a part of `data` in the file.
        """
        name = os.fspath(path)
        view = data if isinstance(data, _AS_THEY_ARE) else byte_view(data)
        done = 0
        # No `with` and no extra call: they would take as long as the write of an index entry.
        try:
            file = descriptors.shared.use(name, writable=True)
        except OSError as error:
            raise refused("open", name, error) from error
        try:
            done = _write_at(file.descriptor, view, position)
            while done < len(view):
                done += _write_at(file.descriptor, view[done:], position + done)
        except OSError as error:
            raise refused(f"write at byte {position + done} of", name, error) from error
        finally:
            descriptors.shared.release(file)

    def create(self, path: Path, size: int = 0) -> None:
        """Create a sparse file of `size` zeros; DiskError with EEXIST if the file exists."""
        name = os.fspath(path)
        with Refusing("create", name):
            descriptor = self._create(name, name)
            # The cache may still hold a file of that name open, which another process has deleted.
            descriptors.shared.forget_file(name)
            try:
                if size:
                    os.ftruncate(descriptor, size)
            finally:
                os.close(descriptor)

    def temporary_file(self, directory: Path) -> BinaryIO:
        """A file without a name, on the device of a directory; it is gone once it is closed."""
        import tempfile  # rarely needed

        with Refusing("create a temporary file in", os.fspath(directory)):
            return cast("BinaryIO", tempfile.TemporaryFile(dir=directory, buffering=0))

    def truncate(self, path: Path, size: int) -> None:
        """Make the file `size` bytes long: a longer file is cut, a shorter one is filled with zeros."""
        name = os.fspath(path)
        with Refusing("truncate", name), self._use(name, writable=True) as descriptor:
            os.ftruncate(descriptor, size)

    def sync(self, path: Path) -> None:
        """Return when the bytes and the size of the file are on the device."""
        name = os.fspath(path)
        with Refusing("sync", name), self._use(name) as descriptor:
            os.fsync(descriptor)

    def sync_directory(self, path: Path) -> None:
        """Return when all creations, renames and deletions in the directory are on the device."""
        name = os.fspath(path)
        with Refusing("sync", name):
            descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | OPEN_FLAGS)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def sync_all(self, paths: Iterable[Path], directories: Iterable[Path] = ()) -> None:
        """Return when all these files and directories are on the device; they are synced at the same time."""
        todo = [(self.sync, path) for path in paths] + [(self.sync_directory, path) for path in directories]
        self.together(lambda each: each[0](each[1]), todo)

    def together(self, work: Callable[[T], R], todo: Sequence[T]) -> list[R]:
        """Do work that waits for the device, many items at once.

        An error is raised after all threads have stopped; some items may not have been done then.
        """
        if len(todo) <= _FEW:
            return [work(each) for each in todo]
        from concurrent.futures import ThreadPoolExecutor  # rarely needed

        found: dict[int, R] = {}
        rest = enumerate(todo)

        def take() -> None:
            # Each thread takes the next item: a future for each item would take longer than the work itself.
            for number, each in rest:
                found[number] = work(each)

        count = min(_SYNCED_AT_ONCE, len(todo))
        with ThreadPoolExecutor(count) as pool:
            for done in [pool.submit(take) for _ in range(count)]:
                done.result()
        return [found[number] for number in range(len(todo))]

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file or directory; a file that already has the new name is replaced atomically."""
        name, other = os.fspath(source), os.fspath(target)
        with Refusing(f"rename to {other}", name):
            os.replace(name, other)
        descriptors.shared.forget(name)
        descriptors.shared.forget(other)

    def delete(self, path: Path) -> bool:
        """Delete a file; False if there was none."""
        name = os.fspath(path)
        with Refusing("delete", name):
            try:
                os.unlink(name)
            except FileNotFoundError:
                return False
            finally:
                descriptors.shared.forget_file(name)
        return True

    def replace(self, path: Path, data: Data) -> None:
        """Replace the content of a file by `data`, atomically; returns when it is on the device.

        The data is written to a temporary file with Kafka's name for it, synced and renamed; then the
        directory is synced.
        """
        name = os.fspath(path)
        self.rename(self._write_temporaries([(name, data)])[0], name)
        self.sync_directory(parent_path(name) or ".")

    def replace_all(self, files: Sequence[tuple[Path, Data]]) -> None:
        """Replace the content of several files, each of them atomically; much faster than `replace` for each.

        All temporary files are on the device before the first one is renamed. The renames are on the device
        when this returns; a crash before that can leave any of them done. No path may be given twice.
        """
        if len(files) == 1:
            return self.replace(*files[0])
        names = [os.fspath(path) for path, _ in files]
        turn = threading.Lock()
        count = max(1, min(_WRITTEN_IN_A_RUN, len(files) // _SYNCED_AT_ONCE))
        runs = [files[at : at + count] for at in range(0, len(files), count)]
        written = self.together(lambda run: self._write_temporaries(run, turn), runs)
        for temporary, name in zip(chain.from_iterable(written), names, strict=True):
            self.rename(temporary, name)
        self.sync_all((), dict.fromkeys(parent_path(name) or "." for name in names))
        return None

    def make_directory(self, path: Path) -> bool:
        """Create a directory; False if it already exists."""
        name = os.fspath(path).rstrip(os.sep)
        with Refusing("create", name):
            try:
                os.mkdir(name)
            except FileExistsError:
                if os.path.isdir(name):
                    return False
                raise
            if hasattr(os, "O_DIRECTORY"):
                flags = os.O_RDONLY | os.O_DIRECTORY | getattr(os, "O_NOFOLLOW", 0) | OPEN_FLAGS
                descriptor = os.open(name, flags)
                try:
                    wanted = ownership_for_directory(name)
                    hand_over(descriptor, wanted, required=self._require_owner)
                finally:
                    os.close(descriptor)
        return True

    def remove_directory(self, path: Path) -> bool:
        """Remove an empty directory; False if there was none."""
        with Refusing("remove", os.fspath(path)):
            try:
                os.rmdir(path)
            except FileNotFoundError:
                return False
        return True

    def set_modified(self, path: Path, mtime_ms: int) -> None:
        """Set the modification time, which is used as a segment's timestamp if its records have none."""
        name = os.fspath(path)
        with Refusing("set the time of", name):
            os.utime(name, ns=(os.stat(name).st_atime_ns, mtime_ms * 1_000_000))

    def _write_temporaries(
        self, files: Sequence[tuple[Path, Data]], turn: AbstractContextManager[object] | None = None
    ) -> list[str]:
        """Write the temporary files that will replace these files, and sync them; returns their names.

        With `turn`, only one thread writes at a time, and the others wait for the device. Threads that all
        write would mostly wait for the interpreter's lock, which each of the eight calls for a file gives up.
        """
        opened: list[tuple[str, int]] = []
        try:
            with turn or nullcontext():
                for path, data in files:
                    name = os.fspath(path)
                    opened.append((name, self._open_temporary(name, data)))
            for name, descriptor in opened:
                with Refusing("replace", name):
                    os.fsync(descriptor)
        finally:
            _close_all(opened)
        return [name + TEMPORARY_SUFFIX for name, _ in opened]

    def _open_temporary(self, name: str, data: Data) -> int:
        """Write the temporary file that will replace `name`; returns its descriptor."""
        temporary = name + TEMPORARY_SUFFIX
        with Refusing("replace", name):
            try:
                descriptor = self._create(temporary, name)
            except FileExistsError:
                # A crash may have left this file, or somebody may have planted a link here. It is deleted.
                self.delete(temporary)
                descriptor = self._create(temporary, name)
            try:
                rest = byte_view(data)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            except BaseException:
                os.close(descriptor)
                raise
        return descriptor

    def _create(self, name: str, replaced: str) -> int:
        """Create and open a file, with the owner and mode that the file at `replaced` has or would have."""
        wanted = ownership_for_file(replaced)
        descriptor = os.open(name, _CREATE, 0o644)
        try:
            hand_over(descriptor, wanted, required=self._require_owner)
        except OSError:
            os.close(descriptor)
            os.unlink(name)
            raise
        return descriptor


def changing(disk: DiskReader) -> Disk:
    """The disk as a `Disk`; for classes that read and write, but may be given a mere `DiskReader`.

    A segment opened by a view only reads; changing it would be the caller's bug.
    """
    if not isinstance(disk, Disk):
        raise TypeError("this was opened for reading: a file cannot be changed through it")
    return disk


def byte_view(data: Data) -> memoryview:
    """The bytes of `data`, without a copy."""
    view = memoryview(data) if isinstance(data, _PLAIN) else data.data
    return view if view.format == "B" else view.cast("B")


def _close_all(opened: Iterable[tuple[str, int]]) -> None:
    """Close all descriptors, then raise the first error: some file systems refuse a write only now."""
    refusals = []
    for name, descriptor in opened:
        try:
            os.close(descriptor)
        except OSError as error:
            refusals.append(refused("replace", name, error))
    if refusals:
        raise refusals[0]


def _write_by_seeking(descriptor: int, view: bytes | bytearray | memoryview, position: int) -> int:
    os.lseek(descriptor, position, os.SEEK_SET)
    return os.write(descriptor, view)


_write_at = os.pwrite if hasattr(os, "pwrite") else _write_by_seeking
