"""The lock of a log directory: whatever changes files in it holds `.lock`, as a broker does.

Java locks with fcntl, whose plain locks belong to the process and fall when any descriptor of the file is
closed in it; flock does not conflict with them at all. So this is a lock of the open file description
(F_OFD_SETLK): it conflicts with Java's, and lasts until it is released here.

A broker that stops unlocks the file, then deletes it. Whoever opened it before would lock a file that nobody
finds any more: so the inode is compared after locking, and again before the first change. The file is never
deleted from here. What only reads takes no lock, as even a moment's would kill a starting broker.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from types import TracebackType
from typing import Self

from stratalog.errors import LogDirLockedError, UsageError
from stratalog.files.entries import Path
from stratalog.files.names import LOCK
from stratalog.files.ownership import hand_over, ownership_for_file
from stratalog.files.refusals import Refusing

# struct flock on 64-bit Linux: type, whence, start, length (0: to the end, however long), process.
_FLOCK = struct.Struct("@hhqqi4x")
_ATTEMPTS = 100
_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class DirectoryLock:
    """The lock of one log directory: `acquire`, `check` before the first change, `release`; or a `with`."""

    def __init__(self, directory: Path) -> None:
        self.directory = os.fspath(directory)
        self.path = os.path.join(self.directory, LOCK)  # noqa: PTH118
        self._descriptor = -1

    @property
    def is_held(self) -> bool:
        """Whether it was acquired here, and not released since."""
        return self._descriptor >= 0

    def acquire(self) -> None:
        """Take the lock, at once or not at all: LogDirLockedError if another process, or another lock of
        this one, has it. The file is created if need be, for the owner of the directory."""
        if self.is_held:
            raise UsageError(f"{self.directory}: this lock is held already.")
        for _ in range(_ATTEMPTS):
            descriptor = self._open()
            try:
                self._lock(descriptor)
                if _same_file(descriptor, self.path):
                    self._descriptor, descriptor = descriptor, -1
                    return
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        raise LogDirLockedError(self.directory, f"{LOCK} is deleted again and again: look for what does it.")

    def check(self) -> None:
        """LogDirLockedError unless the lock is held, on the file that has its name now."""
        if not self.is_held or not _same_file(self._descriptor, self.path):
            raise LogDirLockedError(
                self.directory,
                f"the lock was lost, as {LOCK} was deleted or replaced. Make sure that no broker runs here.",
            )

    def release(self) -> None:
        """Give the lock back; may be called twice. The file stays."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _open(self) -> int:
        with Refusing("open", self.path):
            try:
                return os.open(self.path, _FLAGS)
            except FileNotFoundError:
                pass
            try:
                descriptor = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                return os.open(self.path, _FLAGS)  # somebody was faster
            hand_over(descriptor, ownership_for_file(os.path.join(self.directory, "new")), required=False)  # noqa: PTH118
            return descriptor

    def _lock(self, descriptor: int) -> None:
        with Refusing("lock", self.path):
            try:
                _lock_whole_file(descriptor)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise LogDirLockedError(self.directory) from error
                raise


def is_locked(directory: Path) -> bool:
    """Whether somebody holds the lock of this log directory now. Creates, locks and changes nothing."""
    path = os.path.join(os.fspath(directory), LOCK)  # noqa: PTH118
    with Refusing("look at the lock of", path):
        try:
            descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        except FileNotFoundError:
            return False
        try:
            return _is_locked(descriptor)
        finally:
            os.close(descriptor)


def _same_file(descriptor: int, path: str) -> bool:
    with Refusing("look at", path):
        try:
            named = os.stat(path)  # noqa: PTH116
        except FileNotFoundError:
            return False
        held = os.fstat(descriptor)
        return (named.st_dev, named.st_ino) == (held.st_dev, held.st_ino)


if sys.platform == "linux":
    import fcntl

    def _lock_whole_file(descriptor: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))

    def _is_locked(descriptor: int) -> bool:
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted)
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

else:

    def _lock_whole_file(descriptor: int) -> None:  # noqa: ARG001 (as on Linux)
        raise UsageError(
            f"{sys.platform}: a log directory is locked here in a way that only Linux has. Reading works."
        )

    def _is_locked(descriptor: int) -> bool:  # noqa: ARG001
        raise UsageError(f"{sys.platform}: whether a log directory is locked can be told on Linux only.")
