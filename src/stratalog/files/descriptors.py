"""Keeps files open for the next use: a log of 100,000 segments works with 256 descriptors.

A caller gives a path, and gets a descriptor for the length of a `with`. To make room, the cache closes only
files that are not in use, so that the system never reuses a number through which a thread still reads. If a
file is renamed, deleted or replaced, its path is forgotten: present users finish with the old file, the next
user opens the new one.

All `Disk` objects of a process share one cache (`shared`), because the limit applies to the process. Also,
after one of them renames a file, the others must not read it under the old name.
"""

from __future__ import annotations

import errno
import os
import threading
from bisect import bisect_left, insort
from types import TracebackType

from stratalog.files.entries import ExpectedFile
from stratalog.files.paths import prefix_of

MAX_OPEN = 256

# Without O_NONBLOCK, opening a pipe that has the name of a file would wait; opening a file never waits.
_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_READ_FLAGS = os.O_RDONLY | _FLAGS
_WRITE_FLAGS = os.O_RDWR | _FLAGS


class OpenFile:
    """A descriptor in the cache, and the number of its users. A `with` gives the descriptor."""

    __slots__ = ("cached", "descriptor", "identity", "owner", "users", "writable")

    def __init__(self, owner: DescriptorCache, descriptor: int, writable: bool) -> None:
        self.owner = owner
        self.descriptor = descriptor
        self.writable = writable
        self.users = 1
        self.cached = False
        self.identity: ExpectedFile | None = None

    def __enter__(self) -> int:
        return self.descriptor

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.owner.release(self)


class DescriptorCache:
    """At most `max_open` descriptors, the most recently used ones; thread-safe."""

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self._max_open = max_open
        self._files: dict[str, OpenFile] = {}  # in the order of their last use
        self._names: list[str] = []  # of these files, sorted: those below a directory are neighbours
        self._lock = threading.Lock()
        self._forgotten_count = 0

    def use(self, path: str, *, writable: bool = False, identity: ExpectedFile | None = None) -> OpenFile:
        """The existing file at `path`, open for the length of a `with`. Raises OSError.

        With `identity`: FileNotFoundError if another file has this path now.
        """
        with self._lock:
            file = self._files.get(path)
            if file is not None and identity is not None and not _is(file, identity):
                self._drop(path)  # another file has this name now
                file = None
            if file is not None and (file.writable or not writable):
                self._files[path] = self._files.pop(path)
                file.users += 1
                return file
            before = self._forgotten_count
        file = OpenFile(self, self._open(path, _WRITE_FLAGS if writable else _READ_FLAGS), writable)
        if identity is not None and not _is(file, identity):
            os.close(file.descriptor)
            raise FileNotFoundError(errno.ENOENT, "another file has this name now", path)
        with self._lock:
            # If a path was forgotten meanwhile, this file may have been renamed, so it is not kept for other
            # users.
            if before == self._forgotten_count:
                self._keep(path, file)
        return file

    def release(self, file: OpenFile) -> None:
        """End one use. The last user of a file that the cache no longer holds closes it."""
        with self._lock:
            file.users -= 1
            finished = not file.cached and file.users == 0
        if finished:
            os.close(file.descriptor)

    def forget(self, path: str) -> None:
        """Drop the path, and for a directory all below it: to be called when other files have these names."""
        below = prefix_of(path)
        with self._lock:
            self._forgotten_count += 1
            if path in self._files:
                self._drop(path)
            first = bisect_left(self._names, below)
            while first < len(self._names) and self._names[first].startswith(below):
                self._drop(self._names[first])

    def forget_file(self, path: str) -> None:
        """Drop the path of a file; unlike `forget`, it does not look for files below it."""
        with self._lock:
            self._forgotten_count += 1
            if path in self._files:
                self._drop(path)

    def close(self) -> None:
        """Close every file that is not in use; the others are closed when their users are done."""
        with self._lock:
            self._forgotten_count += 1
            for name in list(self._files):
                self._drop(name)

    @property
    def open_count(self) -> int:
        """The number of descriptors in the cache."""
        return len(self._files)

    def start_over_in_child(self) -> None:
        """After a fork: the threads that may hold the lock and use files do not exist in the child.

        One of them may have been in the middle of a change, so that an entry was not in both containers.
        """
        self._lock = threading.Lock()
        self._names = sorted(self._files)
        for file in self._files.values():
            file.users = 0

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._files:
                raise
        # The rest of the process has used up all other descriptors, so the cache gives up its own.
        self.close()
        return os.open(path, flags)

    def _keep(self, path: str, file: OpenFile) -> None:
        known = self._files.get(path)
        if known is not None:
            if known.writable or not file.writable:  # another thread has added the same path
                return
            self._drop(path)
        if len(self._files) >= self._max_open:
            idle = next((name for name, other in self._files.items() if other.users == 0), None)
            if idle is None:
                return
            self._drop(idle)
        file.cached = True
        self._files[path] = file
        insort(self._names, path)

    def _drop(self, path: str) -> None:
        file = self._files.pop(path)
        del self._names[bisect_left(self._names, path)]
        file.cached = False
        if file.users == 0:
            os.close(file.descriptor)


def _is(file: OpenFile, identity: ExpectedFile) -> bool:
    if file.identity != identity:
        if not identity.is_of(os.fstat(file.descriptor)):
            return False
        file.identity = identity  # the next user need not compare again
    return True


shared = DescriptorCache()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared.start_over_in_child)
