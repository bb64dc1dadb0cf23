"""What `retain` and `compact` have done, or would do: segments and files of partitions of log directories."""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.log.retention import Decision
from stratalog.operations.looking import WaitingFile
from stratalog.operations.recover import RecoverReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """What a compaction came to; of a dry run what it would come to.

    `first_dirty` is where the dirty part began, `end_offset` where it begins now.
    """

    first_dirty: int
    end_offset: int
    cleanable_size: int
    passes: int = 0
    size_before: int = 0
    size_after: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0
    """Deleted, although nothing replaces them: a compacted log has no place for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """What was done to one partition; of a dry run, what would be.

    `removed` are files that had waited for file.delete.delay.ms, `waiting` those that still do. `not_known`
    is why a dry run cannot say it.
    """

    name: str
    refusal: str | None = None
    error: str | None = None
    not_known: str | None = None
    deleted: tuple[Decision, ...] = ()
    cleaned: Cleaned | None = None
    removed: tuple[WaitingFile, ...] = ()
    waiting: tuple[WaitingFile, ...] = ()

    @property
    def is_change(self) -> bool:
        return bool(self.deleted or self.cleaned or self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryWork:
    """One log directory. `error` is why it failed, and has no clean-shutdown file now."""

    directory: str
    partitions: tuple[PartitionWork, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport:
    """All of it, with sentences on settings that were passed over.

    `recovery` is what recovery has done before, or would do, where it was asked for and needed. If it has
    failed, nothing else was done.
    """

    directories: tuple[DirectoryWork, ...]
    notes: tuple[str, ...] = ()
    recovery: RecoverReport | None = None

    @property
    def partitions(self) -> tuple[PartitionWork, ...]:
        return tuple(partition for directory in self.directories for partition in directory.partitions)

    @property
    def is_failed(self) -> bool:
        """Whether a topic was refused, or anything went wrong."""
        if self.recovery is not None and self.recovery.is_failed:
            return True
        return any(directory.error for directory in self.directories) or any(
            partition.refusal or partition.error for partition in self.partitions
        )
