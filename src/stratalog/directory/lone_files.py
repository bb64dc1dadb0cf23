"""The files that `open_log` leaves in the directory of a lone log, and how a log directory takes them over.

orders-0/
  .lock                        one byte long while a writer has the log open, or if it did not close it
  .kafka_cleanshutdown         the log was closed cleanly
  log-start-offset-checkpoint  the start offset, if it is not the first segment's base offset

A *lone log* is one that `open_log` opened outside of a log directory. For logs in a log directory, the
directory itself has such files: a broker does not look for them in a partition. If a log directory contains a
log with files of its own, perhaps copied there, a session takes the log over first: it recovers the log,
writes the start to the directory's checkpoint, and then deletes these files. If they stayed, and the
partition were later copied elsewhere, `open_log` would trust them, although the clean-shutdown file might be
older than the directory's last crash, and the start older than the records.

The byte in `.lock` is only a length: no block is allocated for it, so it can be written on a full disk.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from stratalog.directory.clean_shutdown import NO_PROMISE
from stratalog.directory.clean_state import NOTE, CleanState
from stratalog.errors import CorruptCheckpointError
from stratalog.files.disk import Disk
from stratalog.files.entries import EntryKind
from stratalog.files.names import CLEAN_SHUTDOWN, LOCK, LOG_START_OFFSET_CHECKPOINT, TopicPartition
from stratalog.files.paths import join_path
from stratalog.log.checkpoint_file import OffsetCheckpointFile, PartitionOffsets

logger = logging.getLogger(__name__)

LONE_NAMES = (LOCK, CLEAN_SHUTDOWN, LOG_START_OFFSET_CHECKPOINT, NOTE)


class LoneStart:
    """The checkpoint of a lone log's start. A damaged one counts as empty, like a log directory's.

    Deleted records are then visible again, unless the first segment begins after them.
    """

    def __init__(self, disk: Disk, directory: str) -> None:
        self.path = join_path(directory, LOG_START_OFFSET_CHECKPOINT)
        self._file = OffsetCheckpointFile(disk, self.path)
        self._is_told = False

    def read(self) -> PartitionOffsets:
        """The start offset, if there is one; the first call that finds the file damaged logs a warning."""
        try:
            return self._file.read()
        except CorruptCheckpointError as error:
            if not self._is_told:
                self._is_told = True
                logger.warning(
                    "the start offset of a log is not known, so the log starts with its first segment, and "
                    "records that were deleted may be visible again: %s",
                    error,
                )
            return {}

    def update(self, change: Callable[[PartitionOffsets], PartitionOffsets]) -> bool:
        """Replace the content by the result of `change`; a damaged file is replaced in any case."""
        try:
            return self._file.update(change)
        except CorruptCheckpointError:
            self._file.write_latest(lambda: change({}))
            return True

    def check_outside(self) -> None:
        """UsageError if this thread is in the middle of a write of the file."""
        self._file.check_outside()


class LoneFiles:
    """The files in a partition's directory that describe its state while it is a lone log."""

    def __init__(self, disk: Disk, directory: str, topic_partition: TopicPartition) -> None:
        self._disk = disk
        self._directory = directory
        self._topic_partition = topic_partition
        self._lock_path = join_path(directory, LOCK)
        self._state = CleanState(disk, directory)
        self.clean_shutdown_path = self._state.file.path
        self.start = LoneStart(disk, directory)

    def exist(self) -> bool:
        """Whether the log was a lone log, and no log directory has taken it over since."""
        return self._disk.exists(self.start.path) or self.was_closed() or self._is_noted()

    def was_closed(self) -> bool:
        """Whether its last writer has closed it: its clean-shutdown file exists."""
        return self._state.file.exists()

    def start_offset(self) -> int:
        """The start offset that the last writer stored; 0 if it is the base offset of the first segment."""
        return self.start.read().get(self._topic_partition, 0)

    def before_change(self) -> None:
        """Called before the log is changed: a crash from here on must not look like a clean close."""
        self._note_opened()
        self._state.remove(leaves_note=False)

    def write_clean_shutdown(self) -> None:
        """Write the clean-shutdown file of the log, last of all."""
        self._state.put_back(NO_PROMISE)
        self._note_closed()

    def hand_over(self) -> None:
        """Delete these files: the log directory has their content by now, on the device."""
        if self.exist():
            self._state.discard()
            self._disk.delete(self.start.path)
            self._note_closed()
            self._disk.sync_directory(self._directory)

    def _note_opened(self) -> None:
        """Note that a writer has the log open; on the device when this returns."""
        if not self._disk.exists(self._lock_path):  # a test's disk, which has no locks
            self._disk.create(self._lock_path)
        if not self._is_noted():
            self._disk.truncate(self._lock_path, 1)
            self._disk.sync(self._lock_path)
            self._disk.sync_directory(self._directory)

    def _note_closed(self) -> None:
        """Note that the log was closed or recovered.

        Not synced: nothing is lost if this does not reach the device.
        """
        if self._is_noted():
            self._disk.truncate(self._lock_path, 0)

    def _is_noted(self) -> bool:
        status = self._disk.status(self._lock_path)
        return status is not None and status.kind is EntryKind.FILE and status.size > 0
