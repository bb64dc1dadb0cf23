"""One log directory while it is open: its lock, its marker, its checkpoints, and whether it still serves.

A directory that the disk refuses goes offline for good: its logs are dropped, nothing more is written to it,
its lock is given back, and no marker says that it was closed in order.

Kafka: LogManager, LogDirFailureChannel
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from stratalog.directory.checkpoints import DirectoryCheckpoints
from stratalog.directory.clean_shutdown import UNKNOWN_EPOCH, CleanShutdownFile
from stratalog.directory.kind import Kind, kind_of
from stratalog.directory.layout import Layout, Problem, classify, make_directories
from stratalog.directory.lone_logs import check_lone_logs, has_lone_logs, lock_links
from stratalog.directory.meta_properties import MetaProperties, read_meta_properties
from stratalog.directory.write_journal import has_pending_write
from stratalog.errors import CorruptCheckpointError, DiskError, StratalogError
from stratalog.files.disk import Disk
from stratalog.files.lock import DirectoryLock
from stratalog.files.names import META_PROPERTIES, TopicPartition

if TYPE_CHECKING:
    from stratalog.directory.recovery.result import DirectoryReport

logger = logging.getLogger(__name__)

MakeLock = Callable[[str], DirectoryLock]


class LogDirectory:
    """One of a manager's directories; `path` is absolute, `failure` is why it is offline, if it is."""

    def __init__(self, disk: Disk, path: str, make_lock: MakeLock = DirectoryLock) -> None:
        self.path = path
        self.checkpoints = DirectoryCheckpoints(disk, path)
        self.layout = Layout(path, (), (), (), (), ())
        self.meta: MetaProperties | None = None
        self.problems: list[Problem] = []
        self.failure: StratalogError | None = None
        self.recovered: DirectoryReport | None = None  # what recovery had to do to it, if anything
        self.is_loaded = False
        self.log_start_entries: dict[TopicPartition, int] = {}  # as the checkpoint had them
        self._disk = disk
        self._make_lock = make_lock
        self._lock = make_lock(path)
        self._links: list[DirectoryLock] = []
        self._with_locks: set[str] = set()  # names of partitions
        self._marker = CleanShutdownFile(disk, path)
        self._epoch: int | None = UNKNOWN_EPOCH
        self._is_marked = False

    @property
    def is_online(self) -> bool:
        return self.failure is None

    def check_kind(self) -> None:
        """NotALogDirectoryError unless it is a log directory, or can become one. Changes nothing."""
        found = kind_of(self._disk, self.path)
        if found.kind is Kind.NO_DIRECTORY:  # as a disk that fails: the others serve without it
            raise DiskError(self.path, found.refusal().reason)
        if not found.is_log_directory and not found.may_become_one:
            raise found.refusal()

    def make(self) -> None:
        """Create it if it does not exist."""
        make_directories(self._disk, self.path)

    def needs_recovery(self) -> bool:
        """Whether a write is to be finished, or there are logs that no marker says were closed in order."""
        if has_pending_write(self._disk, self.path):
            return True
        return bool(classify(self._disk, self.path).partitions) and not self._marker.exists()

    def open(self) -> None:
        """Lock it and read what it says of itself; LogDirLockedError if it, or a log in it, is in use.

        Afterwards `must_be_recovered` says whether somebody was here since `needs_recovery`.
        """
        self._lock.acquire()
        self.layout = classify(self._disk, self.path)
        self._with_locks = check_lone_logs(self.layout)
        self._links = lock_links(self.layout, self._make_lock)
        self.problems = [*self.layout.problems]
        self._is_marked = self._marker.exists()
        self._epoch = self._marker.read() if self._is_marked else UNKNOWN_EPOCH
        try:
            self.meta = read_meta_properties(self._disk, self.path)
        except CorruptCheckpointError as error:
            words = error.reason.rstrip(".")
            self.problems.append(Problem(META_PROPERTIES, words, "a broker does not start with it"))

    def must_be_recovered(self) -> bool:
        """Whether it is open, and has logs that were not closed in order, or by themselves."""
        is_unclean = not self._is_marked and bool(self.layout.partitions)
        return is_unclean or has_lone_logs(self._disk, self.layout, self._with_locks)

    def before_change(self) -> None:
        """Called before anything in it is changed: a crash from here on must not look like a clean close."""
        self._lock.check()
        if self._is_marked:
            self._marker.delete()
            self._is_marked = False

    @property
    def has_epoch(self) -> bool:
        """Whether it was opened with an epoch in its marker that still holds."""
        return self._epoch not in (None, UNKNOWN_EPOCH)

    def mark_clean(
        self, broker_epoch: int | None, *, all_succeeded: bool, is_beside_epoch: bool = False
    ) -> None:
        """Say that it was closed in order; the last thing that is written to it.

        The epoch is the one it was opened with, if none is given; and -1 if another directory of the broker
        has failed, whose records may be gone. `is_beside_epoch`: another marker has an epoch, so that this
        one, without, must not say -1 (`clean_shutdown.py`).
        """
        epoch = self._epoch if broker_epoch is None else broker_epoch
        if epoch == UNKNOWN_EPOCH and is_beside_epoch:
            epoch = None
        self._marker.write(epoch if all_succeeded else UNKNOWN_EPOCH)

    def forget_epoch(self) -> None:
        """Something was cut off although it was marked clean: the controller must not be told it was not."""
        self._epoch = UNKNOWN_EPOCH

    def fail(self, error: StratalogError) -> None:
        """Take it offline."""
        if self.failure is None:
            self.failure = error
            logger.error("log directory %s is offline: %s", self.path, error)
        self.release()

    def check(self) -> None:
        """DiskError if it is offline."""
        if self.failure is not None:
            raise DiskError(self.path, f"the log directory is offline since: {self.failure}")

    def release(self) -> None:
        """Give the lock back."""
        self._lock.release()
        for lock in self._links:
            lock.release()
        self._links = []
        self._disk.release(self.path)
