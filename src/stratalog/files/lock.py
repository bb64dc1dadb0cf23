"""The lock of a log directory: a process that changes files in it holds `.lock`, as a broker does.

It is a lock of the open file description (F_OFD_SETLK), which conflicts with Java's and lasts until it is
released here. The inode is compared after locking, and again before the first change, because a broker that
stops deletes the file. A run that is refused leaves no lock file: if this class created the file and nothing
was changed under the lock, it deletes the file while it still holds the lock. Code that only reads takes no
lock. A forked child closes its copy of the descriptor at the fork.

A *trial* locks only the first byte, checks for other locks, and then locks the rest or gives up. A program
that opens the log directory and finds only a trial waits until the trial ends. Otherwise two programs, one
that opens a log directory and one that opens a single log in it, could both give up.

Why: docs/decisions/0010-locks.md, docs/decisions/0023-lone-logs.md.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import time
from contextlib import suppress
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Self
from weakref import WeakValueDictionary

from stratalog.errors import DiskError, LogDirLockedError, UsageError
from stratalog.files import processes
from stratalog.files.entries import Path
from stratalog.files.names import LOCK
from stratalog.files.ownership import hand_over, ownership_for_file
from stratalog.files.paths import join_path
from stratalog.files.refusals import Refusing, refused

if TYPE_CHECKING:
    from stratalog.files.reading import DiskReader

# struct flock on 64-bit Linux: type, whence, start, length (0: to the end of the file), process.
_FLOCK = struct.Struct("@hhqqi4x")
_ATTEMPTS = 100
_NO_FILE = (-1, -1)
_TRIAL_SIZE = 1  # bytes; 0 would be the whole file
_TRIAL_SECONDS = 10  # a trial takes three system calls; this allows for a busy machine
_POLL_SECONDS = 0.005
_IN_THIS_PROCESS = "this process has it open already: use what is open, or close it first."
# Without O_NONBLOCK, opening a pipe that has the name of the lock would wait until somebody writes to it.
_LOOKING = os.O_RDONLY | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NONBLOCK", 0)
_FLAGS = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


class Holding(Enum):
    """Who holds a lock now."""

    NOBODY = "nobody"
    TRIAL = "a lock on trial, which may be released at once"
    SOMEBODY = "somebody"


class DirectoryLock:
    """The lock of one log directory: `acquire`, `check` before the first change, `release`; or a `with`.

    A lock that is garbage-collected is released.
    """

    _descriptor = -1  # on the class: __del__ also runs if __init__ failed
    _identity = _NO_FILE
    _is_created = False  # whether this lock created the file

    def __init__(self, directory: Path) -> None:
        self.directory = os.fspath(directory)
        self.path = join_path(self.directory, LOCK)

    @property
    def is_held(self) -> bool:
        """Whether this object has acquired the lock and not released it."""
        return self._descriptor >= 0

    def acquire(self, *, is_trial: bool = False) -> None:
        """Take the lock without waiting. The file is created if necessary, for the owner of the directory.

        LogDirLockedError if another process, or another object of this process, holds it.

        `is_trial`: the lock counts as taken once `confirm` is called; until then, `check_unlocked` and
        `acquire_after_trial` of others wait.
        """
        if self.is_held:
            raise UsageError(f"{self.directory}: this lock is already held.")
        for _ in range(_ATTEMPTS):
            descriptor = self._open()
            try:
                self._lock(descriptor, _TRIAL_SIZE if is_trial else 0)
                if _same_file(descriptor, self.path):
                    self._identity = _identity_of(descriptor)
                    self._descriptor, descriptor = descriptor, -1
                    _held[self._identity] = self
                    processes.tell_in_child(self)
                    return
            finally:
                if descriptor >= 0:
                    os.close(descriptor)
        raise LogDirLockedError(
            self.directory, f"{LOCK} is deleted again and again: find out which program does it."
        )

    def acquire_after_trial(self) -> None:
        """As `acquire`, but waits for the end of another's trial."""
        while True:
            try:
                return self.acquire()
            except LogDirLockedError:
                check_unlocked(self.directory)

    def confirm(self) -> None:
        """End a trial: the lock now counts as taken."""
        self._lock(self._descriptor, 0)

    def check(self) -> None:
        """LogDirLockedError unless the lock is held on the file that is named `.lock` now."""
        if not self.is_held or not _same_file(self._descriptor, self.path):
            raise LogDirLockedError(
                self.directory,
                f"the lock was lost: {LOCK} was deleted or replaced. Make sure that no broker runs here.",
            )

    def release(self) -> None:
        """Release the lock; a second call has no effect. The file stays."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            try:
                processes.forget(self)
                if _held.get(self._identity) is self:
                    del _held[self._identity]
            finally:  # after an interrupt too: nothing else knows the descriptor
                os.close(descriptor)

    def discard(self) -> None:
        """Release a lock under which nothing was changed, and delete the file if this lock created it.

        The file is deleted while the lock is held, so nobody else can hold a lock on it. A process that has
        just opened the file to lock it notices that it is gone.
        """
        if self.is_held and self._is_created:
            with suppress(OSError, DiskError):  # a leftover lock file is harmless
                if _same_file(self._descriptor, self.path):
                    os.unlink(self.path)
        self.release()

    def start_over_in_child(self) -> None:
        """After a fork: close the copy. The parent keeps the lock."""
        self.release()

    def __del__(self) -> None:
        if self._descriptor >= 0 and not sys.is_finalizing():
            self.release()

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _open(self) -> int:
        self._is_created = False
        with Refusing("open", self.path):
            try:
                return os.open(self.path, _FLAGS)
            except FileNotFoundError:
                pass
            try:
                descriptor = os.open(self.path, _FLAGS | os.O_CREAT | os.O_EXCL, 0o644)
            except FileExistsError:
                return os.open(self.path, _FLAGS)  # somebody else created it first
            self._is_created = True
            hand_over(descriptor, ownership_for_file(join_path(self.directory, "new")), required=False)
            return descriptor

    def _lock(self, descriptor: int, size: int) -> None:
        with Refusing("lock", self.path):
            try:
                _lock_file(descriptor, size)
            except OSError as error:
                if error.errno in (errno.EAGAIN, errno.EACCES):
                    raise _locked(self.directory, _identity_of(descriptor)) from error
                raise


# The locks that this process holds, by device and inode of their files.
_held: WeakValueDictionary[tuple[int, int], DirectoryLock] = WeakValueDictionary()


def is_locked(directory: Path) -> bool:
    """Whether somebody holds the lock of this log directory now. Creates, locks and changes nothing."""
    return _look(directory)[0] is not Holding.NOBODY


def check_unlocked(directory: Path, reason: str = "") -> bool:
    """LogDirLockedError if somebody holds the lock of this directory now; waits for the end of a trial.

    Creates, locks and changes nothing. `reason` is the error's text, unless this process holds the lock.
    Returns whether there is a lock file at all.
    """
    until: float | None = None
    while True:
        holding, identity = _look(directory)
        if holding is Holding.NOBODY:
            return identity != _NO_FILE
        until = time.monotonic() + _TRIAL_SECONDS if until is None else until
        if holding is Holding.SOMEBODY or time.monotonic() > until:
            raise _locked(os.fspath(directory), identity, reason)
        time.sleep(_POLL_SECONDS)


def check_lockable(disk: DiskReader, directory: Path) -> None:
    """Raises the DiskError of `acquire` on a read-only file system. For a dry run: it creates nothing."""
    if disk.is_read_only(directory):
        refusal = OSError(errno.EROFS, os.strerror(errno.EROFS))
        raise refused("open", join_path(os.fspath(directory), LOCK), refusal)


def _look(directory: Path) -> tuple[Holding, tuple[int, int]]:
    path = join_path(os.fspath(directory), LOCK)
    try:
        descriptor = os.open(path, _LOOKING)
    except (FileNotFoundError, NotADirectoryError):  # the usual case: most partitions have no lock file
        return Holding.NOBODY, _NO_FILE
    except OSError as error:
        raise refused("look at the lock of", path, error) from error
    try:
        with Refusing("look at the lock of", path):
            return _holding(descriptor), _identity_of(descriptor)
    finally:
        os.close(descriptor)


def _locked(directory: str, identity: tuple[int, int], reason: str = "") -> LogDirLockedError:
    return LogDirLockedError(directory, _IN_THIS_PROCESS if identity in _held else reason)


def _identity_of(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _same_file(descriptor: int, path: str) -> bool:
    with Refusing("look at", path):
        try:
            named = os.stat(path)
        except FileNotFoundError:
            return False
        return (named.st_dev, named.st_ino) == _identity_of(descriptor)


if sys.platform == "linux":
    import fcntl

    def _lock_file(descriptor: int, size: int) -> None:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, size, 0))

    def _holding(descriptor: int) -> Holding:
        if _is_locked(descriptor, _TRIAL_SIZE):
            return Holding.SOMEBODY
        return Holding.TRIAL if _is_locked(descriptor, 0) else Holding.NOBODY

    def _is_locked(descriptor: int, position: int) -> bool:
        """Whether any byte from a position on is locked."""
        wanted = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, position, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, wanted)
        return bool(_FLOCK.unpack(answer)[0] != fcntl.F_UNLCK)

else:

    def _lock_file(descriptor: int, size: int) -> None:  # noqa: ARG001 (as on Linux)
        raise UsageError(f"{sys.platform}: Stratalog can lock a log directory only on Linux. Reading works.")

    def _holding(descriptor: int) -> Holding:  # noqa: ARG001
        raise UsageError(
            f"{sys.platform}: only on Linux can Stratalog see whether a log directory is locked."
        )
