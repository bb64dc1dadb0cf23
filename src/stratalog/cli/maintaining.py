"""How the reports of `retain` and `compact` are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratalog.cli.output import ExitCode, Output, Table, size_text, time_text
from stratalog.cli.recover_report import recovery_document, show_report

if TYPE_CHECKING:
    from stratalog.operations.erase.erase_report import DirectoryErasure, ErasureReport
    from stratalog.operations.work_report import DirectoryWork, PartitionWork, WorkReport

PLANNED = {True: " (planned, nothing was changed)", False: ""}


def show_work(output: Output, report: WorkReport, *, is_dry_run: bool) -> ExitCode:
    """Print what was done, and what was not on stderr; returns the exit status."""
    if report.recovery is not None and not output.as_json:
        show_report(output, report.recovery)
    tables = [_deleted(report, is_dry_run), _cleaned(report, is_dry_run), _files(report, is_dry_run)]
    output.show(_document(report, is_dry_run), *(table for table in tables if table.rows))
    for directory in report.directories:
        say_directory(output, directory)
        for partition in directory.partitions:
            if partition.not_known is not None:
                output.say(f"{partition.name}: not known, {partition.not_known}")
            if partition.refusal is not None:
                output.say(f"{partition.name}: refused, {partition.refusal}")
            if partition.error is not None:
                output.say(f"{partition.name}: {partition.error}")
            if partition.cleaned is not None and partition.cleaned.records_without_key:
                count = partition.cleaned.records_without_key
                words = "would be deleted" if is_dry_run else "were deleted"
                output.say(f"{partition.name}: {count} records without a key {words}; nothing replaces them.")
    for note in report.notes:
        output.say(note)
    if not any(partition.is_change for partition in report.partitions):
        output.say("Nothing to do.")
    return exit_code(report)


def exit_code(report: WorkReport | ErasureReport) -> ExitCode:
    """What was refused or failed comes before what a recovery has cut off."""
    if report.is_failed:
        return ExitCode.FAILED
    recovery = report.recovery
    if recovery is None:
        return ExitCode.FINE
    if not recovery.may_start:
        return ExitCode.FAILED
    return ExitCode.FINDINGS if recovery.has_findings else ExitCode.FINE


def say_directory(output: Output, directory: DirectoryWork | DirectoryErasure) -> None:
    """What must be known of a directory that was worked on."""
    if directory.error is not None:
        output.say(f"{directory.directory}: failed, and has no clean-shutdown file now. {directory.error}")


def _deleted(report: WorkReport, is_dry_run: bool) -> Table:
    return Table(
        title=f"Deleted segments{PLANNED[is_dry_run]}",
        columns=["partition", ">offsets", ">bytes", "largest timestamp", "by"],
        rows=[
            [
                partition.name,
                f"{found.segment.base_offset} to {found.end_offset - 1}",
                size_text(found.segment.size),
                time_text(found.segment.largest_timestamp),
                "" if found.rule is None else found.rule.value,
            ]
            for partition in report.partitions
            for found in partition.deleted
        ],
    )


def _cleaned(report: WorkReport, is_dry_run: bool) -> Table:
    return Table(
        title=f"Compacted logs{PLANNED[is_dry_run]}",
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
            for partition in report.partitions
            if partition.cleaned is not None
        ],
    )


def _files(report: WorkReport, is_dry_run: bool) -> Table:
    rows = []
    for partition in report.partitions:
        if partition.removed:
            rows.append([partition.name, "removed", *_sum(partition, is_removed=True), "their time is over"])
        if partition.waiting:
            due = time_text(max(file.due_ms for file in partition.waiting))
            words = f"a run after {due}, or the broker's next start, removes them"
            rows.append([partition.name, "waiting", *_sum(partition, is_removed=False), words])
    title = f"Files that end in .deleted{PLANNED[is_dry_run]}"
    return Table(title=title, columns=["partition", "what", ">files", ">bytes", "why"], rows=rows)


def _sum(partition: PartitionWork, *, is_removed: bool) -> tuple[str, str]:
    files = partition.removed if is_removed else partition.waiting
    return str(len(files)), size_text(sum(file.size for file in files))


def _document(report: WorkReport, is_dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": is_dry_run,
        "recovery": None if report.recovery is None else recovery_document(report.recovery),
        "directories": [
            {
                "directory": directory.directory,
                "error": directory.error,
                "partitions": [_partition(partition) for partition in directory.partitions],
            }
            for directory in report.directories
        ],
        "notes": list(report.notes),
    }


def _partition(partition: PartitionWork) -> dict[str, object]:
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
