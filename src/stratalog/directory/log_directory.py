"""One log directory while it is open: lock, clean-shutdown file, checkpoints, and whether it is online.

A directory whose disk fails goes offline permanently: its logs are dropped, nothing more is written to it,
its lock is released, and it gets no clean-shutdown file.

Kafka: LogManager, LogDirFailureChannel
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import NO_PROMISE, CleanShutdown
from stratalog.directory.clean_state import CleanState
from stratalog.directory.kind import Kind, kind_of
from stratalog.directory.layout import Layout, classify
from stratalog.directory.locking import Locks, MakeLock, lock_log_directory
from stratalog.directory.lone_logs import has_lone_logs
from stratalog.directory.meta_properties import MetaProperties, read_meta_properties
from stratalog.directory.write_journal import has_pending_write
from stratalog.errors import CorruptCheckpointError, DiskError, StratalogError
from stratalog.files.directories import make_directories
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import CLEAN_SHUTDOWN

if TYPE_CHECKING:
    from stratalog.directory.recovery.result import DirectoryReport

logger = logging.getLogger(__name__)


class LogDirectory:
    """One directory of a session; `path` is absolute, `failure` says why it is offline, or is None.

    `appends`: records will be appended. After a kill nobody knows which of them are on the device, so no note
    keeps the epoch.
    """

    def __init__(
        self, disk: Disk, path: str, make_lock: MakeLock = DirectoryLock, *, appends: bool = False
    ) -> None:
        self.path = path
        self.checkpoints = DirectoryCheckpoints(disk, path)
        self.layout = Layout(path, (), (), (), (), ())
        self.meta: MetaProperties | None = None
        self.failure: StratalogError | None = None
        self.recovered: DirectoryReport | None = None  # set if it was recovered
        self._disk = disk
        self._appends = appends
        self.locks = Locks(path, make_lock)
        self._with_locks: set[str] = set()  # names of partitions
        self.state = CleanState(disk, path)
        self._promise = NO_PROMISE  # for its next clean-shutdown file
        self._has_clean_shutdown = False
        self.is_changed = False  # whether it may have been changed since it was locked

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def check_kind(self, *, may_be_new: bool) -> None:
        """NotALogDirectoryError unless it is a log directory, or `may_be_new` and one can be made there."""
        found = kind_of(self._disk, self.path)
        if found.is_log_directory or (may_be_new and found.may_become_one):
            return
        # treated as a failed disk: the node's other directories are used without it
        if found.kind is Kind.NO_DIRECTORY:
            raise DiskError(self.path, found.refusal().reason)
        raise found.refusal()

    def make(self) -> None:
        """Create it if it does not exist."""
        make_directories(self._disk, self.path)

    def lock(self) -> None:
        """Lock it and read its state; LogDirLockedError if it, or a log in it, is in use."""
        self.layout, self._with_locks = lock_log_directory(self.locks, self._disk, self.path)
        self._read()

    def look_again(self) -> None:
        """Read its state again, after it was recovered under the lock."""
        self.is_changed = True
        self.layout = classify(self._disk, self.path)
        self._read()

    def _read(self) -> None:
        self.state.look()
        self._has_clean_shutdown = self.state.file.exists()
        self._promise = self.state.note.said if self._has_clean_shutdown else NO_PROMISE
        with suppress(CorruptCheckpointError):  # a broker refuses to start: see `startup_refusals.py`
            self.meta = read_meta_properties(self._disk, self.path)

    def why_unclean(self) -> str | None:
        """Why it must be recovered before it is changed; None if it was shut down cleanly."""
        return why_unclean(
            self._disk, self.layout, has_clean_shutdown=self._has_clean_shutdown, with_locks=self._with_locks
        )

    def before_change(self) -> None:
        """Called before anything in it is changed: a crash from here on must not look like a clean close."""
        self.locks.check()
        self.is_changed = True
        if self._has_clean_shutdown:
            self.state.remove(leaves_note=not self._appends)
            self._has_clean_shutdown = False

    def before_adding(self) -> None:
        """Called before files are added beside its logs; the clean-shutdown file stays."""
        self.locks.check()
        self.is_changed = True

    @property
    def was_clean(self) -> bool:
        """Whether it has its clean-shutdown file, or had it at the start of a session that was killed.

        This is the state when it was locked, or after a recovery; it comes from the file or from the
        session's note.
        """
        return self.state.note.was_clean

    @property
    def has_epoch(self) -> bool:
        """Whether its clean-shutdown file had an epoch when it was opened, and the epoch still holds."""
        return self._promise.has_epoch

    def write_clean_shutdown(
        self, content: CleanShutdown | None = None, *, is_beside_epoch: bool = False
    ) -> None:
        """Write the clean-shutdown file, for the session; without `content`, with the epoch that still holds.

        `is_beside_epoch`: another directory has an epoch, so this one, which has none, must not say -1
        (`clean_shutdown.py`).
        """
        self.locks.check()  # if the lock was lost, a broker may have started since
        content = self._promise if content is None else content
        self.state.put_back(content.beside_epoch() if is_beside_epoch else content)

    def forget_epoch(self) -> None:
        """Drop the epoch: records are cut off after a clean shutdown, so the epoch would promise too much."""
        self._promise = NO_PROMISE
        if not self._appends:
            self.state.note_cut()

    def fail(self, error: StratalogError) -> None:
        """Take it offline."""
        if self.failure is None:
            self.failure = error
            logger.error("log directory %s is offline: %s", self.path, error)
        self.release()

    def check(self) -> None:
        """DiskError if it is offline."""
        if self.failure is not None:
            raise DiskError(self.path, f"the log directory is offline after a failure: {self.failure}")

    def release(self) -> None:
        """Release the locks. If nothing was changed in the directory, a new lock file is deleted."""
        self.locks.release(are_unused=not self.is_changed)
        self._disk.release(self.path)


def why_unclean(
    disk: Disk, layout: Layout, *, has_clean_shutdown: bool, with_locks: Collection[str] | None = None
) -> str | None:
    """The reason to think that a log directory was not shut down cleanly; None if there is none.

    `with_locks` are the partitions that have a lock file; None: any may have one.
    """
    if has_pending_write(disk, layout.directory):
        return "a write to it was committed but not finished"
    if not has_clean_shutdown and layout.partitions:
        return f"{CLEAN_SHUTDOWN} is missing"
    if has_lone_logs(disk, layout, with_locks):
        return "a log in it was opened with open_log, and the directory has not taken it over yet"
    return None
