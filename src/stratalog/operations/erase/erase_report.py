"""The report of an erasure, or of its dry run: by log directory, partition and file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stratalog.log.cleaning.erase import What
from stratalog.operations.report import PLANNED, ChangeReport, Table
from stratalog.operations.words import size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasedFile:
    """A file with records that are erased. `is_gone`: the whole file is erased.

    `size_after` is None if a dry run would rewrite it. `records_count` is None if its records cannot be read.
    """

    file: str
    what: What
    records_count: int | None
    size_before: int
    size_after: int | None
    is_gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionErasure:
    """One partition.

    `markers_count` is the number of named offsets that hold a transaction marker, which is kept.

    `not_known` is why a dry run cannot say what would be erased. `needs_recovery`: the error goes away with
    `recover --all`.
    """

    name: str
    files: tuple[ErasedFile, ...] = ()
    markers_count: int = 0
    refusal: str | None = None
    error: str | None = None
    needs_recovery: bool = False
    not_known: str | None = None

    @property
    def records_count(self) -> int:
        """The records erased from the log itself; records of erased copies are not counted again."""
        return sum(file.records_count or 0 for file in self.files if file.what is What.SEGMENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryErasure:
    """One log directory. `error` says why the erasing was not finished there."""

    directory: str
    partitions: tuple[PartitionErasure, ...] = ()
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ErasureReport(ChangeReport):
    """The whole erasure, with notes for the reader."""

    directories: tuple[DirectoryErasure, ...]

    @property
    def partitions(self) -> tuple[PartitionErasure, ...]:
        return tuple(partition for directory in self.directories for partition in directory.partitions)

    @property
    def is_change(self) -> bool:
        return any(partition.files for partition in self.partitions)

    @property
    def failed_directories(self) -> Sequence[str]:
        return [found.directory for found in self.directories if found.error is not None]

    @property
    def left_count(self) -> int:
        return sum(bool(partition.refusal or partition.error) for partition in self.partitions)

    @property
    def to_recover(self) -> Sequence[str]:
        return [partition.name for partition in self.partitions if partition.needs_recovery]

    def tables(self) -> list[Table]:
        erased = Table(
            title=f"Erased records{PLANNED[self.is_plan]}",
            columns=["!file", "what", ">records", ">before", ">after"],
            rows=[_row(file) for partition in self.partitions for file in partition.files],
        )
        return self.tables_with(erased)

    def words(self) -> list[str]:
        before = [] if self.recovery is None else self.recovery.words()
        nothing = ["Nothing to erase."] if not self.is_change and not self.is_failed else []
        return [*before, *self._words(), *nothing, *self.notes]

    def totals(self) -> dict[str, int]:
        return {
            "partitions": len(self.partitions),
            "records_erased": sum(partition.records_count for partition in self.partitions),
            "files": sum(len(partition.files) for partition in self.partitions),
            "partitions_left": self.left_count,
        }

    def to_document(self) -> dict[str, object]:
        return self.document_of(
            [
                {
                    "directory": directory.directory,
                    "error": directory.error,
                    "partitions": [_document(partition) for partition in directory.partitions],
                }
                for directory in self.directories
            ]
        )

    def _words(self) -> Iterator[str]:
        for directory in self.directories:
            if directory.error is not None:
                yield f"{directory.directory}: failed. {directory.error}"
        for partition in self.partitions:
            if partition.not_known is not None:
                yield f"{partition.name}: not known, {partition.not_known}"
            if partition.refusal is not None:
                yield f"{partition.name}: refused, {partition.refusal}"
            if partition.error is not None:
                yield f"{partition.name}: nothing was erased. {partition.error}"
            if partition.markers_count:
                words = f"{partition.markers_count} of the offsets are transaction markers, which are kept."
                yield f"{partition.name}: {words}"


def _row(file: ErasedFile) -> list[str]:
    after = "-" if file.size_after is None else size_text(file.size_after)
    return [
        file.file,
        file.what.value,
        "not readable" if file.records_count is None else str(file.records_count),
        size_text(file.size_before),
        "gone" if file.is_gone else after,
    ]


def _document(partition: PartitionErasure) -> dict[str, object]:
    return {
        "partition": partition.name,
        "refused": partition.refusal,
        "error": partition.error,
        "not_known": partition.not_known,
        "records": partition.records_count,
        "markers_kept": partition.markers_count,
        "files": [
            {
                "file": file.file,
                "what": file.what.value,
                "records": file.records_count,
                "bytes_before": file.size_before,
                "bytes_after": file.size_after,
                "gone": file.is_gone,
            }
            for file in partition.files
        ],
    }
