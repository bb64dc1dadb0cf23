"""Takes the locks of log directories: the only code that does (`tests/test_tidy_locks.py`).

A program that changes a log directory locks it, and then checks the lock of each partition, because one may
be open as a lone log (`lone_logs.py`). A partition may be a link to a directory elsewhere. A program that
opens it by its other path does not see this log directory, so the lock of a linked partition is taken as
well.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import NamedTuple, Self

from stratalog.directory.layout import Layout, classify
from stratalog.directory.lone_logs import check_lone_logs
from stratalog.errors import LogDirLockedError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.paths import join_path

MakeLock = Callable[[str], DirectoryLock]


class Locks:
    """Locks that are released together: of a directory, and of other directories that belong to it.

    A `with` takes the lock of the directory. It need not be a log directory: quarantines and exports are
    locked in the same way.
    """

    def __init__(self, directory: str, make_lock: MakeLock = DirectoryLock) -> None:
        self._directory = directory
        self._make_lock = make_lock
        self._held: list[DirectoryLock] = []

    @property
    def are_held(self) -> bool:
        return bool(self._held)

    def take(self, directory: str | None = None) -> None:
        """Lock the directory, or another one, without waiting: LogDirLockedError if it is in use."""
        lock = self._make_lock(directory or self._directory)
        lock.acquire()
        self._held.append(lock)

    def take_after_trial(self, directory: str) -> None:
        """Like `take`, but waits for a lock on trial, which may be released at once (`files/lock.py`)."""
        lock = self._make_lock(directory)
        lock.acquire_after_trial()
        self._held.append(lock)

    def take_on_trial(self, directory: str) -> None:
        """Lock it on trial: programs that check this lock wait until it is confirmed or released."""
        lock = self._make_lock(directory)
        lock.acquire(is_trial=True)
        self._held.append(lock)

    def confirm(self) -> None:
        """End the trial: all locks now count as taken."""
        for lock in self._held:
            lock.confirm()

    def check(self) -> None:
        """LogDirLockedError unless all locks are still held, on the files that are named `.lock` now."""
        if not self._held:
            raise LogDirLockedError(self._directory, "this process no longer holds its lock.")
        for lock in self._held:
            lock.check()

    def release(self, *, are_unused: bool = False) -> None:
        """Release the locks; calling it again has no effect.

        `are_unused`: nothing was changed under them. Lock files that were created for them are then deleted.
        """
        held, self._held = self._held, []
        for lock in held:
            lock.discard() if are_unused else lock.release()

    def __enter__(self) -> Self:
        self.take()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Locked(NamedTuple):
    """The layout of a locked log directory, and the names of partitions that have a lock file."""

    layout: Layout
    with_locks: set[str]


def lock_log_directory(locks: Locks, disk: Disk, directory: str) -> Locked:
    """Lock a log directory and the partitions in it that are links.

    LogDirLockedError if it is in use, or a log in it is open as a lone log; then no lock is held.
    """
    try:
        locks.take()
        layout = classify(disk, directory)
        with_locks = check_lone_logs(layout)  # a program that opens one now sees this lock
        places = {os.path.realpath(join_path(directory, name)) for name in layout.links}
        for place in sorted(places):
            locks.take_after_trial(place)
    except BaseException:  # an interrupt too: nothing else would release the locks
        locks.release(are_unused=True)
        raise
    return Locked(layout, with_locks)
