"""Finds out whether a partition is in a Kafka log directory or is a lone log; opens and closes lone logs.

lone                        in a Kafka log directory, which has meta.properties, checkpoints or a held lock
orders-0/                   data/
  .lock                       .lock
  .kafka_cleanshutdown        .kafka_cleanshutdown
  log-start-offset-...        log-start-offset-checkpoint
  %020d.log ...               orders-0/%020d.log ...

A lone log has its own lock and clean-shutdown file. To open a log in a log directory, a session is opened
over that whole directory (`session.py`). To open a lone log, the log itself is locked first. Then the lock of
its parent directory is checked, under the given path and, if that is a link, also under the real one. A
process that locks the parent checks the log's lock afterwards (`lone_logs.py`), so one of the two processes
sees the other. Why: docs/decisions/0023-lone-logs.md. Kafka: LogManager
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path, PurePath
from uuid import UUID

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.directory.checkpoint_table import CHECKPOINTS
from stratalog.directory.clean_shutdown import CleanShutdownFile
from stratalog.directory.kind import keeps_its_partitions, kind_of
from stratalog.directory.layout import classify
from stratalog.directory.locking import Locks
from stratalog.directory.lone_files import LoneFiles
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.session import Session, Unclean
from stratalog.directory.views import open_view
from stratalog.errors import (
    DiskError,
    InvalidNameError,
    MissingPathError,
    NeedsRecoveryError,
    UsageError,
    WrongTypeError,
)
from stratalog.files.directories import make_directories
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.lock import check_unlocked
from stratalog.files.names import (
    LOCK,
    LOG_START_OFFSET_CHECKPOINT,
    PARTITION_METADATA,
    DirectoryState,
    FileKind,
    PartitionDirectory,
    TopicPartition,
    check_new_partition,
    check_topic_name,
    parse_partition_directory,
    parse_segment_file,
)
from stratalog.files.paths import absolute_path, last_name, parent_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.api.view import LogView
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.loader import load
from stratalog.log.log import Log
from stratalog.log.log_end import Left
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_from_text
from stratalog.log.scheduler import Scheduler

logger = logging.getLogger(__name__)

_ADVICE = (
    "let open_log keep these bytes on another disk with quarantine=DIR, or open the log with read_only=True, "
    "which reads everything before them."
)
_MOST_NAMES = 5  # in a message
_MARKS_OF_THE_END = tuple(row.name for row in CHECKPOINTS if row.follows_end)


class LogHome:
    """A partition's directory and the files kept beside its segments; create it with `LogHome.of`."""

    def __init__(self, disk: Disk, directory: str, topic_partition: TopicPartition, home: str) -> None:
        self.directory = directory
        self.topic_partition = topic_partition
        self._disk = disk
        self._metadata = PartitionMetadataFile(disk, PurePath(directory, PARTITION_METADATA))
        self._lone = LoneFiles(disk, directory, topic_partition)  # used while it is a lone log
        self._locks = Locks(directory)
        self._session: Session | None = None  # over the log directory that it is in
        self._was_clean = False
        self._settle(home)

    def _settle(self, home: str) -> None:
        self._home = home
        in_home = OffsetCheckpointFile(self._disk, PurePath(home, LOG_START_OFFSET_CHECKPOINT))
        self._start_offsets = self._lone.start if self._is_lone else in_home
        # In a log directory, the directory's checkpoints cover this log too.
        ends = [OffsetCheckpointFile(self._disk, PurePath(home, name)) for name in _MARKS_OF_THE_END]
        self._kept_marks = KeptMarks(self.topic_partition, starts=self._start_offsets, ends=ends)

    @property
    def _name(self) -> str:
        return last_name(self.directory)

    @property
    def _is_lone(self) -> bool:
        return self._home == self.directory

    @classmethod
    def of(cls, disk: Disk, path: str, *, create: bool) -> LogHome:
        """The home of this directory. `create` creates a missing directory; without it nothing is changed."""
        directory = Path(path).absolute()
        found = _partition_of(disk, path, directory)
        if found.state is not DirectoryState.LIVE:
            raise UsageError(
                f"{path} is not a live partition: a broker has marked it as {found.state.value[1:]}."
            )
        status = disk.status(directory)
        home = _log_directory_of(disk, str(directory))
        if status is None:
            if not create:
                raise MissingPathError(path, "To create it, open it for writing with create=True.")
            check_new_partition(found.topic_partition)
            if directory.name != str(found.topic_partition):
                raise UsageError(f"{path}: a broker gives this partition the name {found.topic_partition}.")
            if home is None:  # else it is created when its log directory is locked
                # Checked before anything is created there: a broker would load the new directory as a
                # partition.
                _check_unlocked(parent_path(directory))
                make_directories(disk, str(directory))
        elif status.kind is not EntryKind.DIRECTORY:
            raise UsageError(f"{path} is not a directory.")
        return cls(disk, str(directory), found.topic_partition, str(directory) if home is None else home)

    def topic_id(self) -> UUID | None:
        return self._metadata.read()

    def view(self, config: LogConfig, clock: Clock) -> LogView:
        """The log for reading: takes no lock, changes nothing."""
        found = FoundPartition(
            topic_partition=self.topic_partition,
            directory=self.directory,
            log_start_offset=self.start_offset(),
            left=Left(CleanShutdownFile(self._disk, self._home).exists()),
        )
        return open_view(self._disk, clock, found, config)

    def load(
        self,
        config: LogConfig,
        clock: Clock,
        scheduler: Scheduler,
        topic_id: UUID | None,
        quarantine: str | None = None,
    ) -> Log:
        """The log for writing: locked, its clean-shutdown file removed.

        A lone log that its last writer did not close is recovered first. A log in a log directory that was
        not shut down cleanly is a NeedsRecoveryError: the topic's settings are not known here, and one
        clean-shutdown file covers all logs there. If a log is refused, nothing has changed, neither for this
        log nor for the other logs of the directory.
        """
        # The checkpoints, which store the offsets of the log, cannot have lines for other names.
        check_topic_name(self.topic_partition.topic)

        def before_change() -> None:
            # First of all: a crash while the log is loaded must not look like a clean close.
            if self._session is not None:
                self._session.directories[0].before_change()
            else:
                self._locks.check()
                self._lone.before_change()
            if is_new_id and topic_id is not None:
                self._metadata.record(topic_id)
                self._metadata.flush()

        def open_log() -> Log:
            log = load(
                disk=self._disk,
                clock=clock,
                scheduler=scheduler,
                directory=self.directory,
                topic_partition=self.topic_partition,
                config=config,
                log_start_offset=self.start_offset(),
                high_watermark_follows_end=True,
                before_change=before_change,
                kept_marks=self._kept_marks,
            )
            log.kept_alive = self
            if not self._is_lone:
                # After a truncation inside a batch, no file records the true end of the log. A mark above the
                # end found here would wrongly cover the records appended next.
                self._kept_marks.lower(log.log_end_offset)
            return log

        try:
            self._lock()
            is_clean = not self._is_lone or self._check_clean()
            is_new_id = topic_id is not None and self._check_topic_id(topic_id)
            try:
                if not is_clean:
                    raise NeedsRecoveryError(self.directory, f"{self._lone.clean_shutdown_path} is missing")
                return open_log()
            except NeedsRecoveryError as error:
                if not self._is_lone:
                    raise
                logger.warning("recovering %s: %s.", self.directory, error.finding)
            # After a clean close everything is on the device, so only the end of the log is scanned.
            self._recover(config, clock, INT64_MAX if is_clean else 0, before_change, quarantine)
            return open_log()
        except BaseException:  # an interrupt too: nothing else would release the lock
            self.release()
            raise

    def start_offset(self) -> int:
        """The start offset that the last writer stored; 0 if it is the base offset of the first segment.

        A log directory that takes over a lone log first stores the log's start, and then deletes the log's
        own checkpoint. So the larger of the two is right.
        """
        is_reader = not self._locks.are_held and self._session is None
        if is_reader:  # a log directory may take over the log meanwhile
            self._settle(_log_directory_of(self._disk, self.directory) or self.directory)
        start = self._start_offsets.read().get(self.topic_partition, 0)
        return start if self._is_lone else max(start, self._lone.start_offset())

    def write_clean_shutdown(self) -> None:
        """Write the clean-shutdown file, last of all: everything else is on the device."""
        if self._session is not None:
            self._session.put_back(self._session.directories[0])
        elif self._was_clean:
            # If the lock was lost, another program may have changed the log since. A directory that was
            # renamed has its lock with it, and cannot be marked.
            if self._disk.exists(self.directory):
                self._locks.check()
            self._lone.write_clean_shutdown()

    def release(self) -> None:
        """Release the locks."""
        self._locks.release()
        if self._session is not None:
            self._session.release()

    def _lock(self) -> None:
        """Lock the log, and the log directory that it is in, if it is in one now."""
        parents = _parents_of(self.directory)
        home = _log_directory_of(self._disk, self.directory)
        if home is None:
            self._locks.take_on_trial(self.directory)
            for parent in parents:
                _check_unlocked(parent)
            # Checked again: another process may have made the parent a log directory and released it
            # meanwhile.
            home = _log_directory_of(self._disk, self.directory)
            if home is None:
                self._locks.confirm()
                self._settle(self.directory)
                return
            self._locks.release()
        real = os.path.realpath(self.directory)
        if home == parent_path(real) and last_name(real) != self._name:
            raise UsageError(f"{self.directory} is a link to {real}, which has another name: open {real}.")
        session = Session([home], unclean=Unclean.REFUSE, appends=True, or_else="", disk=self._disk)
        session.open()
        self._session = session
        for parent in parents:
            if parent != home:
                if keeps_its_partitions(self._disk, parent):
                    raise UsageError(
                        f"{self.directory} is a link from one log directory to another, {parent}: open the "
                        "log by its own path, and remove the link."
                    )
                _check_unlocked(parent)
        make_directories(self._disk, self.directory)
        # If the path contains a link, the log may be open under its other path; and a log that was a lone log
        # before may still be open. If the log is a link in the log directory, the session has locked it.
        is_found_elsewhere = len(parents) > 1 or self._disk.exists(PurePath(self.directory, LOCK))
        if is_found_elsewhere and self._name not in session.directories[0].layout.links:
            self._locks.take_after_trial(self.directory)
        self._settle(home)

    def _recover(
        self,
        config: LogConfig,
        clock: Clock,
        recovery_point: int,
        before_change: Callable[[], None],
        quarantine: str | None,
    ) -> None:
        """Bring a lone log to the state that a clean close leaves.

        Bytes that are cut off are kept in `quarantine`, or else beside the log's directory.
        """
        from stratalog.log.recovery.quarantine import Quarantine  # rarely needed
        from stratalog.log.recovery.run import recover_partition

        beside = parent_path(self.directory)
        place = beside if quarantine is None else absolute_path(quarantine)
        with ExitStack() as held:
            if place != beside:
                make_directories(self._disk, place)
                # Another process may keep bytes of a partition with the same name there.
                held.enter_context(Locks(place))
            recover_partition(
                self._disk,
                self.directory,
                topic_partition=self.topic_partition,
                config=config,
                now_ms=clock(),
                quarantine=Quarantine(self._disk, place, clock=clock, advice=_ADVICE),
                recovery_point=recovery_point,
                log_start_offset=self.start_offset(),
                before_change=before_change,
            )
        self._was_clean = True

    def _check_clean(self) -> bool:
        """Whether the last writer of a lone log closed it, or there was none."""
        entries = self._disk.list_directory(self.directory)
        files = [parse_segment_file(entry.name) for entry in entries]
        has_segments = any(file is not None and file.kind is FileKind.LOG for file in files)
        if self._lone.was_closed():
            self._was_clean = True
        elif has_segments:
            return False
        else:
            self._was_clean = True
        return True

    def _check_topic_id(self, wanted: UUID) -> bool:
        """Whether the topic's id must still be written; UsageError if the file has another id."""
        known = self._metadata.read()
        if known is not None and known != wanted:
            raise UsageError(
                f"{self._metadata.path} says that the topic's id is {known}, so it cannot be {wanted}."
            )
        return known is None


def _parents_of(directory: str) -> list[str]:
    """The parent of a partition's directory by its path; and if the path is a link, also the real parent."""
    named, real = parent_path(directory), parent_path(os.path.realpath(directory))
    return [named] if os.path.realpath(named) == real else [named, real]


def _log_directory_of(disk: DiskReader, directory: str) -> str | None:
    """The log directory that contains the partition, by either path; None if it is a lone log."""
    return next((parent for parent in _parents_of(directory) if keeps_its_partitions(disk, parent)), None)


def _check_unlocked(directory: str) -> None:
    """LogDirLockedError if the directory is in use: before it has a checkpoint, only its lock shows that.

    Many programs leave a `.lock`: one that this user may not open is ignored. Checked only on Linux.
    """
    with suppress(DiskError):
        if sys.platform == "linux":
            check_unlocked(directory)


def _partition_of(disk: Disk, path: str, directory: Path) -> PartitionDirectory:
    """The partition that a directory's name means; InvalidNameError says which name is right."""
    try:
        return parse_partition_directory(directory.name)
    except InvalidNameError as error:
        rule = "a log is a directory that is named for its topic and the number of its partition"
        if kind_of(disk, directory).is_log_directory:
            names = [entry.name for entry in classify(disk, directory).partitions]
            some = ", ".join([*names[:_MOST_NAMES], *(["..."] if len(names) > _MOST_NAMES else [])])
            hint = f"{rule}. This is a log directory: open one of its logs ({some or 'there is none'})."
        else:
            check_topic_name(directory.name)
            hint = f"{rule}: name it {directory.name}-0."
        raise InvalidNameError(path, hint) from error


def topic_id_of_user(topic_id: UUID | str) -> UUID:
    """The id that a caller gave; UsageError if it is not one."""
    if isinstance(topic_id, UUID):
        return topic_id
    if not isinstance(topic_id, str):
        raise WrongTypeError(f"topic_id is {topic_id!r}: it must be a UUID, or Kafka's text for one.")
    try:
        return topic_id_from_text(topic_id)
    except ValueError as error:
        raise UsageError(f"topic_id: {error}.") from error
