"""The report of `index`, or of its dry run: which indexes were rebuilt, and why."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stratalog.operations.report import PLANNED, DirectoriesReport, Table, WorkedDirectory
from stratalog.operations.words import size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuiltIndex:
    """An index file, what was wrong with it, and its right bytes; `size_before` is None if it was missing."""

    file: str
    reasons: tuple[str, ...]
    data: bytes
    size_before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPartition:
    """A partition. `error` says why nothing was rebuilt; with `needs_recovery`, run `recover --all` first."""

    name: str
    segments_count: int = 0
    rebuilt: tuple[RebuiltIndex, ...] = ()
    error: str | None = None
    needs_recovery: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedDirectory(WorkedDirectory):
    """A log directory and its partitions."""

    partitions: tuple[IndexedPartition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexReport(DirectoriesReport):
    """The whole work, with notes on settings that were ignored."""

    directories: tuple[IndexedDirectory, ...]

    @property
    def partitions(self) -> tuple[IndexedPartition, ...]:
        return tuple(partition for directory in self.directories for partition in directory.partitions)

    @property
    def left_count(self) -> int:
        return sum(partition.error is not None for partition in self.partitions)

    @property
    def to_recover(self) -> Sequence[str]:
        return [partition.name for partition in self.partitions if partition.needs_recovery]

    def tables(self) -> list[Table]:
        rows = [
            [
                partition.name,
                index.file,
                "missing" if index.size_before is None else size_text(index.size_before),
                size_text(len(index.data)),
                _why(index.reasons),
            ]
            for partition in self.partitions
            for index in partition.rebuilt
        ]
        columns = ["partition", "file", ">before", ">after", "why"]
        return self.tables_with(
            Table(title=f"Rebuilt indexes{PLANNED[self.is_plan]}", columns=columns, rows=rows)
        )

    def words(self) -> list[str]:
        before = [] if self.recovery is None else self.recovery.words()
        found = [*before, *self._words(), *self.notes]
        is_change = any(partition.rebuilt for partition in self.partitions)
        return found if is_change or self.is_failed else [*found, "Every index is right: nothing to do."]

    def _words(self) -> Iterator[str]:
        for directory in self.directories:
            yield from directory.error_words
            for partition in directory.partitions:
                if partition.error is not None:
                    yield f"{partition.name}: {partition.error}"

    def totals(self) -> dict[str, int]:
        rebuilt = [index for partition in self.partitions for index in partition.rebuilt]
        return {
            "partitions": len(self.partitions),
            "segments": sum(partition.segments_count for partition in self.partitions),
            "indexes_rebuilt": len(rebuilt),
            "bytes_written": sum(len(index.data) for index in rebuilt),
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


def _why(reasons: Sequence[str]) -> str:
    more = f" And {len(reasons) - 1} more." if len(reasons) > 1 else ""
    return f"{reasons[0]}{more}"


def _document(partition: IndexedPartition) -> dict[str, object]:
    return {
        "partition": partition.name,
        "segments": partition.segments_count,
        "error": partition.error,
        "rebuilt": [
            {
                "file": index.file,
                "reasons": list(index.reasons),
                "bytes_before": index.size_before,
                "bytes_after": len(index.data),
            }
            for index in partition.rebuilt
        ],
    }
