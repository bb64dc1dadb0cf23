"""What an erasure has done, or would do: files of partitions of log directories."""

from __future__ import annotations

from dataclasses import dataclass

from stratalog.log.cleaning.erase import What


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

    @property
    def records_count(self) -> int:
        """Of the log itself: a copy that is gone too counts no record twice."""
        return sum(file.records_count or 0 for file in self.files if file.what is What.SEGMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryErasure:
    """One log directory. `was_recovered` if it had not been closed in order, `error` if it has no marker."""

    directory: str
    partitions: tuple[PartitionErasure, ...] = ()
    was_recovered: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport:
    """All of it, and sentences on what else is to be known."""

    directories: tuple[DirectoryErasure, ...]
    notes: tuple[str, ...] = ()

    @property
    def partitions(self) -> tuple[PartitionErasure, ...]:
        return tuple(partition for directory in self.directories for partition in directory.partitions)

    @property
    def is_change(self) -> bool:
        return any(partition.files for partition in self.partitions)

    @property
    def is_failed(self) -> bool:
        return any(directory.error for directory in self.directories) or any(
            partition.refusal or partition.error for partition in self.partitions
        )
