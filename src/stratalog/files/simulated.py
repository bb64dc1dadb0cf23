"""A disk in memory that can fail or lose power at any step, and knows what may be found afterwards.

Nearly every call is one step or more (`replace` has as many as on a real disk). A test runs something once to
count the steps. Then it runs it again for each step, and makes that step fail (`fail_at`) or cuts the power
there (`crash_at`; from then on every call raises PowerCut). `crash()` then gives the disks that a machine
could find when it starts again:

- A file has the bytes of its last sync. Of the later writes and truncations, all, none, all but the first or
  all but the last have happened. A last write may also have happened in part, up to the end of a sector.
- A directory has the names of its last sync. Later creations, renames and deletions may have happened or not:
  there is a disk for every prefix of them, and one for the loss of each single change.
- Files are independent of each other, and a rename can reach the device before the bytes of the file: a
  renamed file may be empty.

Each disk says in `loss` what was lost. `before_step` is called before every step, outside the disk's lock.
Why these losses: docs/decisions/0022-simulated-disk.md.
"""

from __future__ import annotations

import errno
import io
import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count, product
from typing import TYPE_CHECKING, BinaryIO

from stratalog.files.disk import Disk, byte_view
from stratalog.files.entries import (
    DirectoryEntry,
    EntryKind,
    ExpectedFile,
    FileId,
    FileStatus,
    Path,
    ReadFile,
)
from stratalog.files.names import TEMPORARY_SUFFIX
from stratalog.files.paths import absolute_path, last_name
from stratalog.files.refusals import refused
from stratalog.files.simulated_crash import NOTHING_LOST, CrashLoss, possible_names, possible_survivals
from stratalog.files.simulated_files import (
    Change,
    SimulatedFile,
    SimulatedReadFile,
    Survival,
    normal_name,
    parent_of,
)

if TYPE_CHECKING:
    from stratalog.errors import DiskError
    from stratalog.files.disk import Data, R, T, Target


class PowerCut(BaseException):
    """The simulated machine is off. A BaseException, so that nothing in Stratalog handles it."""


_numbers = count()


class SimulatedDisk(Disk):
    """A `Disk` in memory. Paths are made absolute and compared as text; there are no links and no owners."""

    namespace = "simulated:"

    def __init__(self, clock: Callable[[], int] = lambda: 0) -> None:
        super().__init__()
        self.namespace = f"simulated {next(_numbers)}:"
        self.steps = 0
        self.room = 1 << 40  # the result of `free_size`; to make a write fail, use `fail_at` with ENOSPC
        self.loss = NOTHING_LOST  # what was lost in the crash that left this disk
        self.before_step: Callable[[str, Path], object] | None = None
        self._clock = clock
        self._files: dict[str, SimulatedFile] = {os.sep: SimulatedFile(0, EntryKind.DIRECTORY, 0)}
        self._durable_names = dict(self._files)
        self._changes: list[Change] = []
        self._next_inode = 1
        self._failures: dict[int, int] = {}
        self._crash_step: int | None = None
        self._is_off = False
        self._lock = threading.RLock()  # steps of all threads are counted one by one

    @classmethod
    def of(cls, contents: Mapping[str, bytes], clock: Callable[[], int] = lambda: 0) -> SimulatedDisk:
        """A disk with these files, all of them on the device."""
        disk = cls(clock)
        for path, data in contents.items():
            name = absolute_path(path)
            disk.make_directories(parent_of(name))
            disk.create(name)
            disk.write_at(name, data, 0)
        disk.sync_everything()
        disk.steps = 0
        return disk

    def contents(self) -> dict[str, bytes]:
        """The content of all files, as a program sees it."""
        found = sorted(self._files.items())
        return {name: bytes(file.data) for name, file in found if file.kind is EntryKind.FILE}

    def make_directories(self, path: Path) -> None:
        """Create a directory and its parents, to set up a test."""
        name = self._path(path)
        if name not in self._files:
            self.make_directories(parent_of(name))
            self.make_directory(name)

    def sync_everything(self) -> None:
        """Put everything on the device, to set up a test."""
        for file in self._files.values():
            file.sync()
        self._durable_names = dict(self._files)
        self._changes.clear()

    def fail_at(self, step: int, number: int = errno.EIO) -> None:
        """Refuse this step, counted from 1, with this errno. A write that fails with ENOSPC is half done."""
        self._failures[step] = number

    def crash_at(self, step: int) -> None:
        """Cut the power during this step: it may be done or not, a write also in part."""
        self._crash_step = step

    def crash(self, most: int | None = None) -> list[SimulatedDisk]:
        """The disks that may be found after a power cut now, without duplicates. This disk stays unchanged.

        With many open files there are hundreds: `most` limits the number, with the same choice every time.
        """
        with self._lock:
            return self._crash(most)

    def _crash(self, most: int | None) -> list[SimulatedDisk]:
        files = [*self._files.values(), *self._durable_names.values()]
        possible = list(product(possible_names(self._changes), possible_survivals(files, self.steps)))
        if most is not None:
            random.Random(self.steps).shuffle(possible)
        found: dict[tuple[tuple[str, bytes | None], ...], SimulatedDisk] = {}
        for (names_loss, changes), (writes_loss, survivals) in possible:
            disk = self._restarted(changes, survivals)
            disk.loss = CrashLoss(names_loss, writes_loss)
            found.setdefault(disk._fingerprint(), disk)
            if len(found) == most:
                break
        return list(found.values())

    def open_read(self, path: Path) -> ReadFile:
        self._step("open", path)
        return SimulatedReadFile(os.fspath(path), self._file("open", path))

    def read_into(
        self, source: ReadFile | Path, buffer: Target, position: int, identity: ExpectedFile | None = None
    ) -> int:
        view = buffer if isinstance(buffer, memoryview) else buffer.data
        data = self._read(source, len(view), position, identity)
        view[: len(data)] = data
        return len(data)

    def read_at(self, path: Path, size: int, position: int, identity: ExpectedFile | None = None) -> bytes:
        return self._read(path, size, position, identity)

    def size(self, source: ReadFile | Path) -> int:
        if isinstance(source, SimulatedReadFile):
            return len(source.file.data)
        assert not isinstance(source, ReadFile), "opened by another disk"
        self._step("get the size of", source)
        return len(self._named("get the size of", source).data)

    def identify(self, file: ReadFile) -> FileId:
        assert isinstance(file, SimulatedReadFile), "opened by another disk"
        return file.file.id

    def status(self, path: Path) -> FileStatus | None:
        self._step("look at", path)
        file = self._files.get(self._path(path))
        return None if file is None else file.status()

    def may_create_in(self, path: Path) -> bool:
        return self.exists(path)

    def free_size(self, path: Path) -> int:
        self._step("get the free space of", path)
        self._named("get the free space of", path)
        return self.room

    available_size = free_size  # no blocks are reserved

    def block_size(self, _path: Path) -> int:
        return 1

    def is_read_only(self, _path: Path) -> bool:
        return False

    def is_same_device(self, path: Path, other: Path) -> bool:
        return self.exists(path) and self.exists(other)

    def list_directory(self, path: Path) -> list[DirectoryEntry]:
        self._step("list", path)
        name = self._directory("list", path)
        return sorted(
            DirectoryEntry(
                last_name(other),
                file.kind,
                len(file.data),
                file.id,
                False,
                file.mtime_ms,
            )
            for other, file in list(self._files.items())  # a copy: another thread may add files
            if other != os.sep and parent_of(other) == name
        )

    def list_sizes(self, path: Path, suffix: str) -> dict[str, int]:
        return {
            entry.name: entry.size if entry.name.endswith(suffix) else 0
            for entry in self.list_directory(path)
            if entry.kind is EntryKind.FILE
        }

    def append(self, path: Path, data: Data) -> int:
        if self._path(path) not in self._files:
            self.create(path)
        position = len(self._file("append to", path).data)
        self._write("append to", path, data, position)
        return position

    def write_at(self, path: Path, data: Data, position: int) -> None:
        self._write("write to", path, data, position)

    def create(self, path: Path, size: int = 0) -> None:
        if self._path(path) in self._files:
            raise self._refusal("create", path, errno.EEXIST)
        self._directory("create", parent_of(self._path(path)))
        with self._changing("create", path):
            file = self._new_file(EntryKind.FILE)
            self._change_name(Change(None, self._path(path), file))
            if size:
                file.truncate(size, self._clock())

    def temporary_file(self, directory: Path) -> BinaryIO:  # noqa: ARG002
        return io.BytesIO()

    def truncate(self, path: Path, size: int) -> None:
        file = self._file("truncate", path)
        with self._changing("truncate", path):
            file.truncate(size, self._clock())

    def sync(self, path: Path) -> None:
        self._step("sync", path)
        with self._lock:
            self._file("sync", path).sync()

    def sync_directory(self, path: Path) -> None:
        self._step("sync", path)
        with self._lock:
            name = self._directory("sync", path)
            waiting = self._changes
            self._changes = []
            while waiting:
                change, *waiting = waiting
                # A change in a directory that is itself not on the device yet waits until the directory is.
                if not change.touches(name) or not change.apply(self._durable_names):
                    self._changes.append(change)
                elif change.file.kind is EntryKind.DIRECTORY:
                    self._changes = [other.after_rename(change) for other in self._changes]

    def rename(self, source: Path, target: Path) -> None:
        old, new = self._path(source), self._path(target)
        file = self._named("rename", source)
        self._directory("rename", parent_of(new))
        with self._changing("rename", source):
            if old != new:
                self._change_name(Change(old, new, file))

    def delete(self, path: Path) -> bool:
        if self._path(path) not in self._files:
            self._step("delete", path)
            return False
        file = self._file("delete", path)
        with self._changing("delete", path):
            self._change_name(Change(self._path(path), None, file))
        return True

    def replace(self, path: Path, data: Data) -> None:
        self.rename(self._write_temporaries([(path, data)])[0], path)
        self.sync_directory(parent_of(self._path(path)))

    def replace_all(self, files: Sequence[tuple[Path, Data]]) -> None:
        super().replace_all(files)  # it uses the methods of this class, as `sync_all` does

    def sync_all(self, paths: Iterable[Path], directories: Iterable[Path] = ()) -> None:
        super().sync_all(paths, directories)

    def together(self, work: Callable[[T], R], todo: Sequence[T]) -> list[R]:
        """One after the other, so that a test has the same steps every time."""
        return [work(each) for each in todo]

    def make_directory(self, path: Path) -> bool:
        name = self._path(path)
        if name in self._files:
            self._step("create the directory", path)
            self._directory("create the directory", path)
            return False
        self._directory("create the directory", parent_of(name))
        with self._changing("create the directory", path):
            self._change_name(Change(None, name, self._new_file(EntryKind.DIRECTORY)))
        return True

    def remove_directory(self, path: Path) -> bool:
        name = self._path(path)
        if name not in self._files:
            self._step("remove the directory", path)
            return False
        self._directory("remove the directory", path)
        if any(parent_of(other) == name for other in self._files if other != os.sep):
            raise self._refusal("remove the directory", path, errno.ENOTEMPTY)
        with self._changing("remove the directory", path):
            self._change_name(Change(name, None, self._files[name]))
        return True

    def set_modified(self, path: Path, mtime_ms: int) -> None:
        self._step("set the time of", path)
        self._named("set the time of", path).mtime_ms = mtime_ms

    def exists(self, path: Path) -> bool:
        return self.status(path) is not None

    def release(self, directory: Path) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""

    def _write_temporaries(self, files: Sequence[tuple[Path, Data]], turn: object = None) -> list[str]:
        del turn  # one thread writes
        names = [os.fspath(path) + TEMPORARY_SUFFIX for path, _ in files]
        for name, (_, data) in zip(names, files, strict=True):
            self.delete(name)
            self.create(name)
            self.write_at(name, data, 0)
        self.sync_all(names)
        return names

    def _path(self, path: Path) -> str:
        if self._is_off:
            raise PowerCut
        name = os.fspath(path)
        return normal_name(name if name.startswith(os.sep) else absolute_path(name))

    def _step(self, action: str, path: Path) -> None:
        """A step that changes nothing a crash could undo: if the power is cut, it is not done."""
        if self.before_step is not None:
            self.before_step(action, path)
        with self._lock:
            self._count(action, path)
            self._cut_power_if_due()

    @contextmanager
    def _changing(self, action: str, path: Path) -> Iterator[None]:
        """A step that changes something: if the power is cut, the change is done, but not synced."""
        if self.before_step is not None:
            self.before_step(action, path)
        with self._lock:
            self._count(action, path)
            yield
            self._cut_power_if_due()

    def _count(self, action: str, path: Path) -> None:
        if self._is_off:
            raise PowerCut
        self.steps += 1
        if (number := self._failures.get(self.steps)) is not None:
            raise self._refusal(action, path, number)

    def _cut_power_if_due(self) -> None:
        if self.steps == self._crash_step:
            self._is_off = True
            raise PowerCut

    def _refusal(self, action: str, path: Path, number: int) -> DiskError:
        return refused(action, path, OSError(number, os.strerror(number)))

    def _named(self, action: str, path: Path) -> SimulatedFile:
        file = self._files.get(self._path(path))
        if file is None:
            raise self._refusal(action, path, errno.ENOENT)
        return file

    def _file(self, action: str, path: Path) -> SimulatedFile:
        file = self._named(action, path)
        if file.kind is not EntryKind.FILE:
            raise self._refusal(action, path, errno.EISDIR)
        return file

    def _directory(self, action: str, path: Path) -> str:
        if self._named(action, path).kind is not EntryKind.DIRECTORY:
            raise self._refusal(action, path, errno.ENOTDIR)
        return self._path(path)

    def _new_file(self, kind: EntryKind) -> SimulatedFile:
        self._next_inode += 1
        return SimulatedFile(self._next_inode, kind, self._clock())

    def _change_name(self, change: Change) -> None:
        done = change.apply(self._files)
        assert done, "the caller has looked"
        self._changes.append(change)

    def _read(
        self, source: ReadFile | Path, size: int, position: int, identity: ExpectedFile | None
    ) -> bytes:
        if isinstance(source, SimulatedReadFile):
            self._step("read", source.path)
            file = source.file
        else:
            assert not isinstance(source, ReadFile), "opened by another disk"
            self._step("read", source)
            file = self._file("read", source)
            if identity is not None and (identity.id != file.id or identity.size > len(file.data)):
                raise self._refusal("open", source, errno.ENOENT)
        return bytes(file.data[position : position + size])

    def _write(self, action: str, path: Path, data: Data, position: int) -> None:
        file = self._file(action, path)
        content = bytes(byte_view(data))
        if self._failures.get(self.steps + 1) == errno.ENOSPC:
            file.write(content[: len(content) // 2], position, self._clock())
        with self._changing(action, path):
            file.write(content, position, self._clock())

    def _restarted(self, changes: Iterable[Change], survivals: dict[int, Survival]) -> SimulatedDisk:
        names = dict(self._durable_names)
        for change in changes:
            change.apply(names)
        disk = SimulatedDisk(self._clock)
        disk._files = {
            name: file.survivor(survivals.get(file.inode, Survival.KEPT)) for name, file in names.items()
        }
        disk._durable_names = dict(disk._files)
        disk._next_inode = self._next_inode
        return disk

    def _fingerprint(self) -> tuple[tuple[str, bytes | None], ...]:
        return tuple(
            (name, bytes(file.data) if file.kind is EntryKind.FILE else None)
            for name, file in sorted(self._files.items())
        )
