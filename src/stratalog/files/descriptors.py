"""Open files that are kept for the next use: a log of 100,000 segments works with 256 descriptors.

Paths come in, descriptors go out for the length of a `with`. Only what nobody uses right now is closed to
make room, so that no number is ever given back to the system under a thread that still reads through it. A
path whose file was renamed, deleted or replaced is forgotten: its users finish on the old file, the next user
opens the new one.

There is one cache for the process (`shared`), whatever number of `Disk` objects there are: the limit is the
process's, and what one of them renames the others must not go on reading under the old name.
"""

from __future__ import annotations

import errno
import os
import threading
from types import TracebackType

from stratalog.files.entries import ExpectedFile
from stratalog.files.paths import prefix_of

MAX_OPEN = 256

# A pipe that somebody left under the name of a file would be waited for; a file is opened at once anyway.
_FLAGS: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0)
_READ_FLAGS = os.O_RDONLY | _FLAGS
_WRITE_FLAGS = os.O_RDWR | _FLAGS


class OpenFile:
    """A descriptor in the cache, and how many use it now. Used in a `with`, which gives the descriptor."""

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
    """At most `max_open` descriptors, the ones used last; safe from several threads."""

    def __init__(self, max_open: int = MAX_OPEN) -> None:
        self._max_open = max_open
        self._files: dict[str, OpenFile] = {}  # in the order of their last use
        self._lock = threading.Lock()
        self._forgotten_count = 0

    def use(self, path: str, *, writable: bool = False, identity: ExpectedFile | None = None) -> OpenFile:
        """The file at `path`, which exists, open for the length of a `with`. Raises OSError.

        With `identity`, that file: FileNotFoundError if the path is another's.
        """
        with self._lock:
            file = self._files.get(path)
            if file is not None and identity is not None and not _is(file, identity):
                self._drop(path)  # the file of that name is no longer this one
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
            # If a path was forgotten meanwhile, this file may have been renamed: then it serves only this
            # use.
            if before == self._forgotten_count:
                self._keep(path, file)
        return file

    def release(self, file: OpenFile) -> None:
        """End one use; closes what the cache no longer holds when its last user is done."""
        with self._lock:
            file.users -= 1
            finished = not file.cached and file.users == 0
        if finished:
            os.close(file.descriptor)

    def forget(self, path: str) -> None:
        """Drop the path, and all below it if it is a directory: call this after what it names has changed."""
        below = prefix_of(path)
        with self._lock:
            self._forgotten_count += 1
            for name in [name for name in self._files if name == path or name.startswith(below)]:
                self._drop(name)

    def close(self) -> None:
        """Close every file nobody uses now; those in use are closed when their users are done."""
        with self._lock:
            self._forgotten_count += 1
            for name in list(self._files):
                self._drop(name)

    @property
    def open_count(self) -> int:
        """How many descriptors are kept now."""
        return len(self._files)

    def start_over_in_child(self) -> None:
        """After a fork: the parent's other threads are not here to release the lock and what they use."""
        self._lock = threading.Lock()
        for file in self._files.values():
            file.users = 0

    def _open(self, path: str, flags: int) -> int:
        try:
            return os.open(path, flags)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE) or not self._files:
                raise
        # The rest of the process needs more descriptors than the cache left it.
        self.close()
        return os.open(path, flags)

    def _keep(self, path: str, file: OpenFile) -> None:
        known = self._files.get(path)
        if known is not None:
            if known.writable or not file.writable:  # another thread was faster with the same
                return
            self._drop(path)
        if len(self._files) >= self._max_open:
            idle = next((name for name, other in self._files.items() if other.users == 0), None)
            if idle is None:
                return
            self._drop(idle)
        file.cached = True
        self._files[path] = file

    def _drop(self, path: str) -> None:
        file = self._files.pop(path)
        file.cached = False
        if file.users == 0:
            os.close(file.descriptor)


def _is(file: OpenFile, identity: ExpectedFile) -> bool:
    if file.identity != identity:
        if not identity.is_of(os.fstat(file.descriptor)):
            return False
        file.identity = identity  # the next one who asks for the same need not look
    return True


shared = DescriptorCache()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=shared.start_over_in_child)
