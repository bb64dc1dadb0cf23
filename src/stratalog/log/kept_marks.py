"""The marks of one log in the checkpoints of its log directory.

They are updated before the log's files change, so that after a crash in between no mark promises more than
the files hold.

log-start-offset-checkpoint        is written before records below the start are removed
recovery-point-offset-checkpoint   is lowered before a record below it is cut off; so are the high watermark
                                   and the cleaner's offset

Kafka writes all four only periodically, and lowers the recovery point after a truncation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stratalog.files.names import TopicPartition
from stratalog.log.checkpoint_file import PartitionOffsets


class MarkFile(Protocol):
    """An offset checkpoint that can be changed while others write to it too."""

    def update(self, change: Callable[[PartitionOffsets], PartitionOffsets]) -> bool: ...
    def check_outside(self) -> None: ...


class KeptMarks:
    """The entries of one log in the checkpoints. Everything is on the device when a method returns."""

    def __init__(
        self, topic_partition: TopicPartition, *, starts: MarkFile, ends: Sequence[MarkFile]
    ) -> None:
        self._key = topic_partition
        self._starts = starts
        self._ends = ends

    def check_outside(self) -> None:
        """UsageError if this thread is in the middle of a write of one of the files, perhaps for another log.

        Called before a change, which could not be stored.
        """
        for file in (self._starts, *self._ends):
            file.check_outside()

    def keep_start(self, start: Callable[[], int | None]) -> None:
        """Store where the log starts; None: at the base offset of its first segment.

        `start` is called while nobody else writes, so that an older answer never replaces a newer one.
        """

        def kept(known: PartitionOffsets) -> PartitionOffsets:
            offset = start()
            others = {key: known[key] for key in known if key != self._key}
            return others if offset is None else {**known, self._key: offset}

        self._starts.update(kept)

    def lower(self, offset: int) -> None:
        """Lower all marks that follow the end of the log to at most this offset."""

        def lowered(known: PartitionOffsets) -> PartitionOffsets:
            return {**known, self._key: min(known[self._key], offset)} if self._key in known else known

        for file in self._ends:
            file.update(lowered)
