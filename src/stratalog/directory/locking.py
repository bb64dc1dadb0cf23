"""Takes the locks of log directories: the only code that does (`tests/test_tidy.py`).

Whoever changes a log directory locks it, and then looks at the lock of each partition, as one may be open by
itself (`lone_logs.py`). A partition may be a link to a directory elsewhere, where nobody who opens it by that
name finds this log directory: the lock of such a one is held as well.
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
    """Locks that are held and given back together: that of a directory, and of others that belong to it.

    A `with` takes that of the directory. It need not be a log directory: places that keep what was cut off,
    and exports, are locked here too.
    """

    def __init__(self, directory: str, make_lock: MakeLock = DirectoryLock) -> None:
        self._directory = directory
        self._make_lock = make_lock
        self._held: list[DirectoryLock] = []

    @property
    def are_held(self) -> bool:
        return bool(self._held)

    def take(self, directory: str | None = None) -> None:
        """Lock the directory, or another one, at once or not at all: LogDirLockedError if it is in use."""
        lock = self._make_lock(directory or self._directory)
        lock.acquire()
        self._held.append(lock)

    def take_after_trial(self, directory: str) -> None:
        """As `take`, but waits for somebody who may give up at once (`files/lock.py`)."""
        lock = self._make_lock(directory)
        lock.acquire_after_trial()
        self._held.append(lock)

    def take_on_trial(self, directory: str) -> None:
        """Lock it so that others wait until it is confirmed, or given back."""
        lock = self._make_lock(directory)
        lock.acquire(is_trial=True)
        self._held.append(lock)

    def confirm(self) -> None:
        """End the trial: all locks are taken now."""
        for lock in self._held:
            lock.confirm()

    def check(self) -> None:
        """LogDirLockedError unless all locks are still held, on the files that have their names now."""
        if not self._held:
            raise LogDirLockedError(self._directory, "its lock is not held here any more.")
        for lock in self._held:
            lock.check()

    def release(self, *, are_unused: bool = False) -> None:
        """Give the locks back; calling it again has no effect.

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
    """What is in a log directory that was locked; the names of partitions with a lock file of their own."""

    layout: Layout
    with_locks: set[str]


def lock_log_directory(locks: Locks, disk: Disk, directory: str) -> Locked:
    """Lock a log directory and the partitions in it that are links.

    LogDirLockedError if it is in use, or a log in it is open by itself; then nothing is held.
    """
    try:
        locks.take()
        layout = classify(disk, directory)
        with_locks = check_lone_logs(layout)  # whoever opens one now sees this lock
        places = {os.path.realpath(join_path(directory, name)) for name in layout.links}
        for place in sorted(places):
            locks.take_after_trial(place)
    except BaseException:  # an interrupt too: nobody else could let go of the locks
        locks.release(are_unused=True)
        raise
    return Locked(layout, with_locks)
