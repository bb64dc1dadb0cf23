"""The report of `retain` and `compact`, or of a dry run: segments and files, by partition and directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stratalog.files.paths import last_name
from stratalog.log.retention import Decision
from stratalog.operations.looking import WaitingFile
from stratalog.operations.report import PLANNED, DirectoriesReport, Table, WorkedDirectory
from stratalog.operations.words import first_names, size_text, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """The result of a compaction, or of its dry run.

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
    """Deleted although nothing replaces them: a compacted log keeps no records without a key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionWork:
    """What was done to one partition, or in a dry run would be.

    `removed` are files that had waited for file.delete.delay.ms, `waiting` those that still do. `not_known`
    says why a dry run cannot predict the work. `needs_recovery`: the error goes away with `recover --all`.
    """

    name: str
    refusal: str | None = None
    error: str | None = None
    needs_recovery: bool = False
    not_known: str | None = None
    deleted: tuple[Decision, ...] = ()
    cleaned: Cleaned | None = None
    removed: tuple[WaitingFile, ...] = ()
    waiting: tuple[WaitingFile, ...] = ()

    @property
    def changes_log(self) -> bool:
        """Whether the work needs the log to be opened."""
        return bool(self.deleted or self.cleaned)

    @property
    def is_change(self) -> bool:
        return bool(self.changes_log or self.removed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryWork(WorkedDirectory):
    """One log directory. `folders` are partitions marked -delete that were removed."""

    partitions: tuple[PartitionWork, ...] = ()
    folders: tuple[WaitingFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkReport(DirectoriesReport):
    """The work in all directories."""

    directories: tuple[DirectoryWork, ...]
    purges: bool = False

    @property
    def partitions(self) -> tuple[PartitionWork, ...]:
        return tuple(partition for directory in self.directories for partition in directory.partitions)

    @property
    def folders(self) -> tuple[WaitingFile, ...]:
        return tuple(folder for directory in self.directories for folder in directory.folders)

    @property
    def left_count(self) -> int:
        return sum(bool(partition.refusal or partition.error) for partition in self.partitions)

    @property
    def to_recover(self) -> Sequence[str]:
        return [partition.name for partition in self.partitions if partition.needs_recovery]

    def tables(self) -> list[Table]:
        return self.tables_with(self._deleted(), self._cleaned(), self._files())

    def words(self) -> list[str]:
        before = [] if self.recovery is None else self.recovery.words()
        found = [*before, *self._words(), *self.notes]
        is_change = any(partition.is_change for partition in self.partitions) or self.folders
        return found if is_change or self.is_failed else [*found, "Nothing to do."]

    def totals(self) -> dict[str, int]:
        deleted = [found.segment.size for partition in self.partitions for found in partition.deleted]
        cleaned = [found.cleaned for found in self.partitions if found.cleaned is not None]
        return {
            "partitions": len(self.partitions),
            "segments_deleted": len(deleted),
            "bytes_deleted": sum(deleted),
            "partitions_compacted": len(cleaned),
            "bytes_freed": sum(found.size_before - found.size_after for found in cleaned),
            "files_removed": sum(len(found.removed) for found in self.partitions),
            "folders_removed": len(self.folders),
            "partitions_left": self.left_count,
        }

    def to_document(self) -> dict[str, object]:
        return self.document_of(
            [
                {
                    "directory": directory.directory,
                    "error": directory.error,
                    "removed_folders": [folder.path for folder in directory.folders],
                    "partitions": [_document(partition) for partition in directory.partitions],
                }
                for directory in self.directories
            ]
        )

    def _words(self) -> Iterator[str]:
        refused: dict[str, list[str]] = {}  # names by reason: thousands of logs may share one
        for partition in self.partitions:
            if partition.refusal is not None:
                refused.setdefault(partition.refusal, []).append(partition.name)
        for reason, names in refused.items():
            yield f"{first_names(names)}: refused, {reason}"
        for directory in self.directories:
            yield from directory.error_words
            for partition in directory.partitions:
                if partition.not_known is not None:
                    yield f"{partition.name}: not known, {partition.not_known}"
                if partition.error is not None:
                    yield f"{partition.name}: {partition.error}"
                if partition.cleaned is not None and (count := partition.cleaned.records_without_key):
                    words = "would be deleted" if self.is_plan else "were deleted"
                    yield f"{partition.name}: {count} records without a key {words}; nothing replaces them."

    def _deleted(self) -> Table:
        return Table(
            title=f"Deleted segments{PLANNED[self.is_plan]}",
            columns=["partition", ">offsets", ">bytes", "largest timestamp", "by"],
            rows=[
                [
                    partition.name,
                    f"{found.segment.base_offset} to {found.end_offset - 1}",
                    size_text(found.segment.size),
                    time_text(found.segment.largest_timestamp),
                    "" if found.rule is None else found.rule.value,
                ]
                for partition in self.partitions
                for found in partition.deleted
            ],
        )

    def _cleaned(self) -> Table:
        return Table(
            title=f"Compacted logs{PLANNED[self.is_plan]}",
            columns=["partition", ">dirty from", ">clean up to", ">dirty", ">before", ">after", ">passes"],
            rows=[
                [
                    partition.name,
                    str(partition.cleaned.first_dirty),
                    str(partition.cleaned.end_offset),
                    size_text(partition.cleaned.cleanable_size),
                    size_text(partition.cleaned.size_before) if partition.cleaned.passes else "-",
                    size_text(partition.cleaned.size_after) if partition.cleaned.passes else "-",
                    str(partition.cleaned.passes) if partition.cleaned.passes else "-",
                ]
                for partition in self.partitions
                if partition.cleaned is not None
            ],
        )

    def _files(self) -> Table:
        rows = []
        for partition in self.partitions:
            if partition.removed:
                words = "--purge" if self.purges else "file.delete.delay.ms has passed"
                rows.append([partition.name, "removed", *_sum(partition.removed), words])
            if partition.waiting:
                due = time_text(max(file.due_ms for file in partition.waiting))
                words = f"a run after {due}, or the broker's next start, removes them"
                rows.append([partition.name, "waiting", *_sum(partition.waiting), words])
        for folder in self.folders:
            rows.append([last_name(folder.path), "removed", "-", size_text(folder.size), "--purge"])
        title = f"Files that wait for their deletion{PLANNED[self.is_plan]}"
        return Table(title=title, columns=["partition", "what", ">files", ">bytes", "why"], rows=rows)


def _sum(files: Sequence[WaitingFile]) -> tuple[str, str]:
    return str(len(files)), size_text(sum(file.size for file in files))


def _document(partition: PartitionWork) -> dict[str, object]:
    cleaned = partition.cleaned
    return {
        "partition": partition.name,
        "refused": partition.refusal,
        "error": partition.error,
        "not_known": partition.not_known,
        "deleted": [
            {
                "base_offset": found.segment.base_offset,
                "end_offset": found.end_offset,
                "bytes": found.segment.size,
                "largest_timestamp": found.segment.largest_timestamp,
                "rule": None if found.rule is None else found.rule.value,
            }
            for found in partition.deleted
        ],
        "cleaned": None
        if cleaned is None
        else {
            "first_dirty_offset": cleaned.first_dirty,
            "end_offset": cleaned.end_offset,
            "cleanable_bytes": cleaned.cleanable_size,
            "passes": cleaned.passes,
            "bytes_before": cleaned.size_before,
            "bytes_after": cleaned.size_after,
            "records_read": cleaned.records_read,
            "records_written": cleaned.records_written,
            "records_without_key": cleaned.records_without_key,
        },
        "removed_files": [file.path for file in partition.removed],
        "waiting_files": [{"path": file.path, "due_ms": file.due_ms} for file in partition.waiting],
    }
