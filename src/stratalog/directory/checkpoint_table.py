"""The offset checkpoints of a log directory: one row for each file, with what is written to it and when.

recovery-point-offset-checkpoint   everything below it is on the device, and is not scanned after a crash
log-start-offset-checkpoint        where a log begins, if that is inside its first segment
replication-offset-checkpoint      the high watermark: all in-sync replicas have the records below it
cleaner-offset-checkpoint          up to where a compacted log is clean

All writers of checkpoints use this table: the manager (periodically and at shutdown), recovery, the
operations and the Spark sink. A new checkpoint is a name in `files/names.py` and a row here. Kafka:
LogManager, ReplicaManager, LogCleanerManager
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from stratalog.config import ManagerConfig
from stratalog.files.names import (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TopicPartition,
)

if TYPE_CHECKING:
    from stratalog.log.log import Log


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMarks:
    """What the checkpoints store about one log, read from an open log or from the result of a recovery."""

    topic_partition: TopicPartition
    recovery_point: int
    start_to_keep: int | None  # None: the log starts at the base offset of its first segment
    is_tiered: bool = False  # the log begins in remote storage, below all local segments
    high_watermark: int | None = None  # None: it is not known here, so the entry stays
    cleaned_to: int | None = None  # None: the log was not cleaned, so the entry stays

    @classmethod
    def of(cls, log: Log) -> Self:
        return cls(
            topic_partition=log.topic_partition,
            recovery_point=log.recovery_point,
            start_to_keep=log.start_to_keep,
            is_tiered=log.config.remote_storage_enable,
            high_watermark=log.high_watermark,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointRow:
    """One checkpoint. `offset_of` computes a log's entry from its marks and its old entry; None: no entry.

    `is_from_logs`: recovery knows the entry of every log, so it writes the whole checkpoint. In the other
    checkpoints, it keeps the entries of logs that it has not found.
    """

    name: str
    offset_of: Callable[[CheckpointMarks, int | None], int | None]
    is_from_logs: bool
    without_it: str  # what follows if the file is lost, in words
    hides_loss: bool = False  # without it, nothing shows whether a log has lost records
    follows_end: bool = True  # a log lowers its entry before it cuts off records
    is_beside_lone_logs: bool = False  # a lone log has this file too
    is_written_open: bool = False  # at shutdown it is written before the logs are closed
    task: str = ""  # the log manager's periodic task that writes it; "": the manager does not write it
    every_ms: Callable[[ManagerConfig], int] = lambda _: 0

    def offsets(
        self, logs: Iterable[CheckpointMarks], known: Mapping[TopicPartition, int], *, others_stay: bool
    ) -> dict[TopicPartition, int]:
        """The new entries of the file: `known` are its old ones.

        `others_stay`: logs that are not in `logs` keep their entries.
        """
        offsets = dict(known) if others_stay else {}
        for marks in logs:
            key = marks.topic_partition
            offset = self.offset_of(marks, known.get(key))
            if offset is None:
                offsets.pop(key, None)
            else:
                offsets[key] = offset
        return offsets


def _start(marks: CheckpointMarks, known: int | None) -> int | None:
    return known if marks.is_tiered and known is not None else marks.start_to_keep


RECOVERY_POINTS = CheckpointRow(
    name=RECOVERY_POINT_CHECKPOINT,
    offset_of=lambda marks, _: marks.recovery_point,
    is_from_logs=True,
    without_it="every segment is scanned",
    task="kafka-recovery-point-checkpoint",
    every_ms=lambda config: config.log_flush_offset_checkpoint_interval_ms,
)
LOG_START_OFFSETS = CheckpointRow(
    name=LOG_START_OFFSET_CHECKPOINT,
    offset_of=_start,
    is_from_logs=True,
    without_it="records that were deleted with DeleteRecords may be visible again",
    follows_end=False,
    is_beside_lone_logs=True,
    task="kafka-log-start-offset-checkpoint",
    every_ms=lambda config: config.log_flush_start_offset_checkpoint_interval_ms,
)
HIGH_WATERMARKS = CheckpointRow(
    name=REPLICATION_OFFSET_CHECKPOINT,
    offset_of=lambda marks, known: known if marks.high_watermark is None else marks.high_watermark,
    is_from_logs=False,
    without_it="committed records may be missing: nothing shows whether a log ends before its high watermark",
    hides_loss=True,
    is_written_open=True,
    task="highwatermark-checkpoint",
    every_ms=lambda config: config.replica_high_watermark_checkpoint_interval_ms,
)
CLEANER_OFFSETS = CheckpointRow(  # in a running node the cleaner writes it (manager/cleaner_manager.py)
    name=CLEANER_OFFSET_CHECKPOINT,
    offset_of=lambda marks, known: known if marks.cleaned_to is None else marks.cleaned_to,
    is_from_logs=False,
    without_it="the next compaction reads each log from its start",
)

CHECKPOINTS = (RECOVERY_POINTS, LOG_START_OFFSETS, HIGH_WATERMARKS, CLEANER_OFFSETS)
MANAGERS = tuple(row for row in CHECKPOINTS if row.task)  # written by the log manager
