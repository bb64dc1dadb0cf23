"""The result of a recovery: by directory, by partition, by device; as values and as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from uuid import UUID

from stratalog.directory.layout import Problem
from stratalog.engine.progress import DeviceUse
from stratalog.files.names import TopicPartition
from stratalog.log.recovery.facts import Cut, Finding


class Outcome(Enum):
    """The outcome for a log directory; the value is a word for tables and JSON."""

    CLEAN = "clean"  # it had its clean-shutdown file: nothing was changed
    RECOVERED = "recovered"
    PLANNED = "planned"  # by a dry run: nothing was changed
    FAILED = "failed"  # no clean-shutdown file: a broker will recover it itself


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReport:
    """One partition: where its log begins and ends now, what was read, cut off and found.

    The offsets are None if the directory was clean and left alone, or if the partition failed.
    """

    name: str
    topic_partition: TopicPartition
    first_base_offset: int | None = None
    log_start_offset: int | None = None
    log_end_offset: int | None = None
    segments_count: int | None = None
    scanned_bytes: int = 0
    is_changed: bool = False
    is_only_torn_tail: bool = True
    cuts: tuple[Cut, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def cut_bytes(self) -> int:
        return sum(cut.size for cut in self.cuts)


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryReport:
    """One log directory.

    `broker_epoch` is that of the clean-shutdown file, or in a dry run the one that a run would write. It is
    -1 if the file has none, and None if the directory failed and got no file. `topic_ids` has the ids that
    were written, or would be, under the names of the partitions' directories. `cut_before` counts the bytes
    of logs that unfinished earlier recoveries cut off, and `kept_before` those of them that are still in
    quarantine; with `has_unknown_cuts`, there may be more. `freed_size` is for a dry run: how many bytes
    more would be free on its device after a run, which may be negative.
    """

    directory: str
    outcome: Outcome
    partitions: tuple[PartitionReport, ...] = ()
    problems: tuple[Problem, ...] = ()
    left_alone: tuple[str, ...] = ()
    broker_epoch: int | None = None
    error: str | None = None
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    cut_before: int = 0
    kept_before: int = 0
    has_unknown_cuts: bool = False
    freed_size: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryReport:
    """The whole recovery.

    `notes` are sentences on requests that could not be fulfilled, or settings that were ignored; `remarks`
    are facts that are good to know and change nothing.
    """

    directories: tuple[DirectoryReport, ...]
    devices: tuple[DeviceUse, ...] = ()
    notes: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def is_failed(self) -> bool:
        return any(directory.outcome is Outcome.FAILED for directory in self.directories)


def to_document(report: RecoveryReport) -> dict[str, object]:
    """The report as JSON values."""
    return {
        "seconds": round(report.seconds, 3),
        "directories": [_directory(found) for found in report.directories],
        "devices": [_device(use) for use in report.devices],
        "notes": list(report.notes),
        "remarks": list(report.remarks),
    }


def _directory(report: DirectoryReport) -> dict[str, object]:
    return {
        "directory": report.directory,
        "outcome": report.outcome.value,
        "error": report.error,
        "broker_epoch": report.broker_epoch,
        "left_alone": list(report.left_alone),
        "cut_before_bytes": report.cut_before,
        "problems": [problem._asdict() for problem in report.problems],
        "partitions": [_partition(found) for found in report.partitions],
    }


def _partition(report: PartitionReport) -> dict[str, object]:
    return {
        "partition": report.name,
        "log_start_offset": report.log_start_offset,
        "log_end_offset": report.log_end_offset,
        "segments": report.segments_count,
        "scanned_bytes": report.scanned_bytes,
        "cut_bytes": report.cut_bytes,
        "changed": report.is_changed,
        "cuts": [
            {
                "file": cut.file,
                "position": cut.position,
                "bytes": cut.size,
                "whole_segment": cut.is_whole,
                "first_offset": cut.first_offset,
                "last_offset": cut.last_offset,
                "reason": cut.reason,
                "kept_as": cut.kept_as,
            }
            for cut in report.cuts
        ],
        "findings": [
            {
                "kind": finding.kind.name.lower(),
                "file": finding.file,
                "words": finding.words,
                "consequence": finding.consequence,
            }
            for finding in report.findings
        ],
    }


def _device(use: DeviceUse) -> dict[str, object]:
    return {
        "device": use.device.name,
        "bytes": use.bytes_read,
        "seconds": round(use.seconds, 3),
        "bytes_per_second": round(use.bytes_read / use.seconds) if use.seconds else 0,
        "readers": use.most_readers,
        "utilisation": None if use.busy is None else round(use.busy, 3),
    }
