"""The offset checkpoints of one log directory (`checkpoint_table.py`) as files, each written whole.

If a checkpoint cannot be read, a broker takes the whole directory offline; if only a number in it is wrong,
it treats the file as empty (but its cleaner ends because of a wrong number in its own checkpoint). Stratalog
treats it as empty in all cases. What that means depends on the file (`CheckpointRow.without_it`): scanning
more than needed loses nothing, but a log whose start is lost shows deleted records again. Kafka: LogManager,
ReplicaManager, OffsetCheckpointFile
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from stratalog.directory.checkpoint_table import (
    CHECKPOINTS,
    CLEANER_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    CheckpointMarks,
    CheckpointRow,
)
from stratalog.directory.layout import Problem
from stratalog.errors import CheckpointNumberError, CorruptCheckpointError
from stratalog.files.disk import Path
from stratalog.files.names import TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.checkpoint_file import OffsetCheckpointFile, with_lines
from stratalog.log.kept_marks import KeptMarks

if TYPE_CHECKING:
    from stratalog.log.log import Log

_FORGIVEN = "a broker starts as if the file were empty"
_NOT_CLEANED = "a broker's cleaner ends because of it, so that no log is compacted"
_OFFLINE = "a broker takes the whole directory offline"


class Checkpoint:
    """One of the files. `problem` is what was wrong with it when it was last read, or None."""

    def __init__(self, disk: DiskReader, directory: str, row: CheckpointRow) -> None:
        self.row = row
        self.name = row.name
        self.problem: Problem | None = None
        self.takes_offline = False  # whether the problem takes a broker's directory offline
        self._disk = disk
        self._file = OffsetCheckpointFile(disk, join_path(directory, row.name))
        self._loaded: Mapping[TopicPartition, int] = {}

    @property
    def path(self) -> str:
        return os.fspath(self._file.path)

    @property
    def exists(self) -> bool:
        return self._disk.exists(self.path)

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; empty if the file is missing or cannot be read (`problem` then says so)."""
        self.problem, self.takes_offline = None, False
        try:
            return self._file.read()
        except CorruptCheckpointError as error:
            place = f"line {error.line}: " if error.line else ""
            self.takes_offline = not isinstance(error, CheckpointNumberError)
            forgiven = _NOT_CLEANED if self.row is CLEANER_OFFSETS else _FORGIVEN
            consequence = _OFFLINE if self.takes_offline else forgiven
            self.problem = Problem(self.name, f"{place}{error.reason.rstrip('.')}", consequence)
            return {}

    def load(self) -> Mapping[TopicPartition, int]:
        """Like `read`, and keeps the offsets for open logs that do not know their own values."""
        self._loaded = self.read()
        return self._loaded

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file by these offsets; on the device when this returns."""
        self._file.write(offsets)

    def write_open(self, logs: Callable[[], Iterable[Log]]) -> None:
        """Replace the file by the offsets of these open logs, which are all logs of the directory.

        `logs` is called while no other thread writes the file, so older offsets never replace newer ones.
        """
        self._file.write_latest(
            lambda: self.row.offsets(map(CheckpointMarks.of, logs()), self._loaded, others_stay=False)
        )

    def update(self, change: Callable[[dict[TopicPartition, int]], dict[TopicPartition, int]]) -> bool:
        """Replace the file by the result of `change`, unless that is the same; True if it was written."""
        return self._file.update(change, read=self.read)

    def check_outside(self) -> None:
        """UsageError if this thread is in the middle of a write of the file."""
        self._file.check_outside()

    def write_closed(self, logs: Iterable[CheckpointMarks], *, are_all: bool) -> bool:
        """Bring the file up to date with logs that are closed; True if it was written.

        `are_all`: the directory has no other logs. A damaged file is then replaced, and a missing one is
        created if it `is_from_logs`.
        """
        known = self.read()
        is_whole = are_all and self.row.is_from_logs
        offsets = with_lines(self.row.offsets(logs, known, others_stay=not is_whole))
        is_missing = self.problem is not None or (is_whole and not self.exists)
        if offsets == known and not (are_all and is_missing):
            return False
        self.write(offsets)
        return True


class DirectoryCheckpoints:
    """The checkpoints of one log directory."""

    def __init__(self, disk: DiskReader, directory: Path) -> None:
        self.directory = os.fspath(directory)
        self._by_name = {row.name: Checkpoint(disk, self.directory, row) for row in CHECKPOINTS}
        self.recovery_points = self.of(RECOVERY_POINTS)
        self.log_start_offsets = self.of(LOG_START_OFFSETS)
        self.high_watermarks = self.of(HIGH_WATERMARKS)
        self.cleaner_offsets = self.of(CLEANER_OFFSETS)

    def of(self, row: CheckpointRow) -> Checkpoint:
        return self._by_name[row.name]

    def write_closed(self, logs: Collection[CheckpointMarks], *, are_all: bool = False) -> None:
        """Bring all checkpoints up to date with logs that are closed; entries of other logs stay.

        `are_all`: the directory has no other logs. Recovery points are written last: after that, the next
        start does not scan again, even if this run fails later.
        """
        for checkpoint in reversed(self.every):
            checkpoint.write_closed(logs, are_all=are_all)

    def marks_of(self, topic_partition: TopicPartition) -> KeptMarks:
        """The entries of one log, for that log to change."""
        ends = [checkpoint for checkpoint in self.every if checkpoint.row.follows_end]
        return KeptMarks(topic_partition, starts=self.log_start_offsets, ends=ends)

    @property
    def every(self) -> tuple[Checkpoint, ...]:
        return tuple(self._by_name.values())

    def why_lost(self, row: CheckpointRow) -> str | None:
        """Why the offsets of this checkpoint are unknown, or None if they are known. Read the file first.

        A broker creates its checkpoints together. So if the recovery points exist and another checkpoint does
        not, that one was lost.
        """
        checkpoint = self.of(row)
        if checkpoint.problem is not None:
            return f"it cannot be read: {checkpoint.problem.words}"
        is_lost = self.recovery_points.exists and not checkpoint.exists
        return "it is missing" if is_lost else None


def clamp(offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """A high watermark from a checkpoint, clamped to the log; it is raised only up to the log's start."""
    return max(log_start_offset, min(offset, log_end_offset))
