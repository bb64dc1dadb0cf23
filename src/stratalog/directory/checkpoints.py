"""The four checkpoints of one log directory: an offset for each partition, written whole.

recovery-point-offset-checkpoint   below it everything is on the device, and not scanned after a crash
log-start-offset-checkpoint        where a log begins, if that is inside its first segment
replication-offset-checkpoint      the high watermark: what all replicas that count are known to have
cleaner-offset-checkpoint          up to where a compacted log is clean

A checkpoint that cannot be read takes a broker's whole directory offline, or, if only a number in it is
wrong, counts as empty. Here it always counts as empty and is a finding: nothing is lost by scanning more than
needed. Kafka: LogManager, ReplicaManager, OffsetCheckpointFile
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

from stratalog.directory.layout import Problem
from stratalog.errors import CheckpointNumberError, CorruptCheckpointError
from stratalog.files.disk import Path
from stratalog.files.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TopicPartition,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.checkpoint_file import OffsetCheckpointFile
from stratalog.log.kept_marks import KeptMarks

_FORGIVEN = "a broker starts as if the file were empty"
_OFFLINE = "a broker takes the whole directory offline"


class Checkpoint:
    """One of the files. `problem` is what was wrong with it when it was last read, or None."""

    def __init__(self, disk: DiskReader, directory: str, name: str) -> None:
        self.name = name
        self.problem: Problem | None = None
        self.takes_offline = False  # a broker's directory, by what was wrong with it
        self._disk = disk
        self._file = OffsetCheckpointFile(disk, join_path(directory, name))

    @property
    def path(self) -> str:
        return os.fspath(self._file.path)

    def read(self) -> dict[TopicPartition, int]:
        """The offsets; none where there is no file, or one that cannot be read (`problem` then says so)."""
        self.problem, self.takes_offline = None, False
        try:
            return self._file.read()
        except CorruptCheckpointError as error:
            place = f"line {error.line}: " if error.line else ""
            self.takes_offline = not isinstance(error, CheckpointNumberError)
            consequence = _OFFLINE if self.takes_offline else _FORGIVEN
            self.problem = Problem(self.name, f"{place}{error.reason.rstrip('.')}", consequence)
            return {}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file by these offsets; on the device when this returns."""
        self._file.write(offsets)

    def write_latest(self, make: Callable[[], Mapping[TopicPartition, int]]) -> None:
        """As `write`, with offsets that are taken when nobody else writes: older ones never replace newer."""
        self._file.write_latest(make)

    def update(self, change: Callable[[dict[TopicPartition, int]], dict[TopicPartition, int]]) -> bool:
        """Replace the file by what `change` makes of it, unless that is the same; True if it was written."""
        return self._file.update(change, read=self.read)

    def write_changes(self, offsets: Mapping[TopicPartition, int]) -> bool:
        """As `write`, unless the file says the same already; True if it was written."""
        known = self.read()
        if known == offsets and self.problem is None and self._disk.exists(self.path):
            return False
        self.write(offsets)
        return True


class DirectoryCheckpoints:
    """The checkpoints of one log directory."""

    def __init__(self, disk: DiskReader, directory: Path) -> None:
        self.directory = os.fspath(directory)
        self.recovery_points = Checkpoint(disk, self.directory, RECOVERY_POINT_CHECKPOINT)
        self.log_start_offsets = Checkpoint(disk, self.directory, LOG_START_OFFSET_CHECKPOINT)
        self.high_watermarks = Checkpoint(disk, self.directory, REPLICATION_OFFSET_CHECKPOINT)
        self.cleaner_offsets = Checkpoint(disk, self.directory, CLEANER_OFFSET_CHECKPOINT)

    def marks_of(self, topic_partition: TopicPartition) -> KeptMarks:
        """What they say of one log, to be changed by that log."""
        ends = (self.recovery_points, self.high_watermarks, self.cleaner_offsets)
        return KeptMarks(topic_partition, starts=self.log_start_offsets, ends=ends)

    @property
    def every(self) -> tuple[Checkpoint, ...]:
        return self.recovery_points, self.log_start_offsets, self.high_watermarks, self.cleaner_offsets

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What was wrong with those that have been read."""
        return tuple(checkpoint.problem for checkpoint in self.every if checkpoint.problem is not None)


def clamp(offset: int, log_start_offset: int, log_end_offset: int) -> int:
    """A high watermark from a checkpoint, moved into the log; it is never raised but to the log's start."""
    return max(log_start_offset, min(offset, log_end_offset))
