"""What is in quarantine, as tables, sentences and JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum

from stratalog.errors import InvalidNameError
from stratalog.files.names import parse_segment_file
from stratalog.files.paths import last_name
from stratalog.log.recovery.manifest import ManifestEntry
from stratalog.operations.report import PLANNED, Report, Status, Table
from stratalog.operations.words import counted, size_text, time_text


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRange:
    """A range or file that was kept, its id, and the directory that keeps it."""

    id: str
    place: str
    entry: ManifestEntry


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBatch:
    """A batch in a kept range; `position` counts from the start of the range."""

    position: int
    size: int
    base_offset: int
    last_offset: int
    records_count: int
    codec: str
    max_timestamp: int
    is_valid: bool


class Handled(Enum):
    """What was done with the ranges of a report; the value is the word for it."""

    KEPT = "kept"
    RESTORED = "restored"
    PURGED = "purged"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineReport(Report):
    """Ranges, and what was done with them; if `is_plan`, what would be. `target` is the restored file."""

    ranges: tuple[KeptRange, ...]
    outcome: Handled
    is_plan: bool = False
    target: str | None = None

    @property
    def status(self) -> Status:
        return Status.FINE

    @property
    def verdict(self) -> str:
        size = size_text(self.totals()["bytes"])
        count = counted(len(self.ranges), "range")
        if self.outcome is Handled.KEPT:
            return f"{count} in quarantine, {size}." if self.ranges else "Nothing is in quarantine."
        if not self.ranges:
            return "Nothing to do."
        if self.outcome is Handled.RESTORED:
            would = "would be" if self.is_plan else "were"
            return f"{size} {would} written to {self.target}. They also stay in quarantine."
        would = "would be" if self.is_plan else "was" if len(self.ranges) == 1 else "were"
        return f"{count} {would} deleted, {size}."

    def tables(self) -> list[Table]:
        title = {
            Handled.KEPT: "Kept by recovery",
            Handled.RESTORED: f"Restored{PLANNED[self.is_plan]}",
            Handled.PURGED: f"Purged{PLANNED[self.is_plan]}",
        }
        return [
            Table(
                title=title[self.outcome],
                columns=["!id", "partition", "file", ">from byte", ">size", "kept at", "why", "in"],
                rows=[_row(found) for found in self.ranges],
            )
        ]

    def words(self) -> list[str]:
        if self.target is None or _is_of_segment(last_name(self.target)):
            return []
        return [
            f"To dump the file, rename it to {found.entry.file}: `stratalog dump` goes by the name of a "
            "file, which must begin with an offset."
            for found in self.ranges
        ]

    def totals(self) -> dict[str, int]:
        return {
            "ranges": len(self.ranges),
            "bytes": sum(found.entry.size for found in self.ranges),
            "bytes_on_disk": sum(
                part.size for found in self.ranges for part in found.entry.parts if part.file is not None
            ),
        }

    def to_document(self) -> dict[str, object]:
        return {
            "dry_run": self.is_plan,
            "outcome": self.outcome.value,
            "target": self.target,
            "ranges": [_document(found) for found in self.ranges],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownRange(Report):
    """One range and its batches; `batches` may be only the first of `batches_count`.

    `hidden_size` bytes belong to no whole batch. Only the ranges of a .log have batches.
    """

    kept: KeptRange
    batches: tuple[KeptBatch, ...] = ()
    batches_count: int = 0
    hidden_size: int = 0
    is_log: bool = False

    @property
    def status(self) -> Status:
        return Status.FINE

    @property
    def verdict(self) -> str:
        size = size_text(self.kept.entry.size)
        if not self.is_log:
            return f"{size} of {self.kept.entry.file}, which has no records."
        noun = "whole batch" if self.batches_count == 1 else "whole batches"
        words = f"{self.batches_count} {noun} in {size}"
        more = f", and {self.hidden_size} bytes that are not a batch" if self.hidden_size else ""
        return f"{words}{more}."

    def tables(self) -> list[Table]:
        return [
            Table(
                title="Kept by recovery",
                columns=["!id", "partition", "file", ">from byte", ">size", "kept at", "why", "in"],
                rows=[_row(self.kept)],
            ),
            Table(
                title="Batches",
                columns=[
                    ">at byte",
                    ">size",
                    ">first offset",
                    ">last offset",
                    ">records",
                    "codec",
                    "time",
                    "checksum",
                ],
                rows=[
                    [
                        str(self.kept.entry.position + batch.position),
                        size_text(batch.size),
                        str(batch.base_offset),
                        str(batch.last_offset),
                        "-" if batch.records_count < 0 else str(batch.records_count),
                        batch.codec,
                        time_text(batch.max_timestamp),
                        "right" if batch.is_valid else "wrong",
                    ]
                    for batch in self.batches
                ],
            ),
        ]

    def words(self) -> list[str]:
        left = self.batches_count - len(self.batches)
        return [f"{left} more batches: give --top 0 to see them all."] if left else []

    def totals(self) -> dict[str, int]:
        return {
            "bytes": self.kept.entry.size,
            "batches": self.batches_count,
            "bytes_hidden": self.hidden_size,
        }

    def to_document(self) -> dict[str, object]:
        return {**_document(self.kept), "batches": [asdict(batch) for batch in self.batches]}


def _is_of_segment(name: str) -> bool:
    try:
        return parse_segment_file(name) is not None
    except InvalidNameError:
        return False


def _row(found: KeptRange) -> list[str]:
    entry = found.entry
    return [
        found.id,
        entry.partition,
        entry.file,
        "whole file" if entry.is_whole else str(entry.position),
        size_text(entry.size),
        time_text(entry.time_ms),
        entry.reason,
        found.place,
    ]


def _document(found: KeptRange) -> dict[str, object]:
    entry = found.entry
    return {
        "id": found.id,
        "directory": entry.directory,
        "partition": entry.partition,
        "file": entry.file,
        "position": entry.position,
        "bytes": entry.size,
        "is_whole": entry.is_whole,
        "reason": entry.reason,
        "kept_at": entry.time_ms,
        "place": found.place,
        "kept_files": list(entry.files),
        "sha256": entry.sha256,
    }
