"""What an erasure has done, or would do: files of partitions of log directories."""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.log.cleaning.erase import What
from stratalog.operations.recover import RecoverReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedFile:
    """A file with records that are erased; `size_after` is None in a dry run, which does not write it.

    `is_gone`: the whole of it is erased. `records_count` is None where its records cannot be read.
    """

    file: str
    what: What
    records_count: int | None
    size_before: int
    size_after: int | None
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionErasure:
    """One partition; `markers_count` are named offsets at which a transaction's marker is, which stays."""

    name: str
    files: tuple[ErasedFile, ...] = ()
    markers_count: int = 0
    refusal: str | None = None
    error: str | None = None
    not_known: str | None = None

    @property
    def records_count(self) -> int:
        """Of the log itself: a copy that is gone too counts no record twice."""
        return sum(file.records_count or 0 for file in self.files if file.what is What.SEGMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryErasure:
    """One log directory. `error` is why it failed, and has no clean-shutdown file now."""

    directory: str
    partitions: tuple[PartitionErasure, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """All of it, and sentences on what else is to be known.

    `recovery` is what recovery has done before, or would do, where it was asked for and needed. If it has
    failed, nothing else was done.
    """

    directories: tuple[DirectoryErasure, ...]
    notes: tuple[str, ...] = ()
    recovery: RecoverReport | None = None

    @property
    def partitions(self) -> tuple[PartitionErasure, ...]:
        return tuple(partition for directory in self.directories for partition in directory.partitions)

    @property
    def is_change(self) -> bool:
        return any(partition.files for partition in self.partitions)

    @property
    def is_failed(self) -> bool:
        if self.recovery is not None and self.recovery.is_failed:
            return True
        return any(directory.error for directory in self.directories) or any(
            partition.refusal or partition.error for partition in self.partitions
        )
