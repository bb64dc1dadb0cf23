"""The report of a recovery as tables: what was cut off, why, and where it is kept; findings; speed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stratalog.directory.recovery.result import Outcome, to_document
from stratalog.files.names import FileState
from stratalog.log.recovery.facts import FindingKind
from stratalog.operations.report import PLANNED, Table, refusal_document, refusals_table
from stratalog.operations.words import size_text

if TYPE_CHECKING:
    from stratalog.directory.recovery.result import DirectoryReport, RecoveryReport
    from stratalog.log.recovery.facts import Cut, Finding
    from stratalog.operations.recover import RecoverReport


def recovery_tables(report: RecoverReport) -> list[Table]:
    """What was cut off, what was found, what keeps a broker from starting, and the speed of reading."""
    result = report.result
    return [
        _directories(result),
        _cuts(result, report.is_plan),
        _findings(result),
        refusals_table(report.refusals),
        _devices(result),
    ]


def recovery_document(report: RecoverReport) -> dict[str, object]:
    """The report as JSON values."""
    return {
        **to_document(report.result),
        "refusals": [refusal_document(each) for each in report.refusals],
        "may_start": report.may_start,
        "verdict": report.verdict,
    }


def _directories(report: RecoveryReport) -> Table:
    return Table(
        title=f"Log directories, in {report.seconds:.1f} s",
        columns=["directory", "outcome", ">partitions", ">read", ">cut off", "clean-shutdown file"],
        rows=[
            [
                found.directory,
                found.outcome.value,
                str(len(found.partitions)),
                size_text(sum(partition.scanned_bytes for partition in found.partitions)),
                size_text(found.cut_before + sum(partition.cut_bytes for partition in found.partitions)),
                _marker(found),
            ]
            for found in report.directories
        ],
    )


def _marker(report: DirectoryReport) -> str:
    if report.outcome is Outcome.CLEAN:
        return "as it was"
    if report.broker_epoch is None:
        return "none"
    epoch = "without epoch" if report.broker_epoch < 0 else f"epoch {report.broker_epoch}"
    return f"to be written, {epoch}" if report.outcome is Outcome.PLANNED else epoch


def _cuts(report: RecoveryReport, is_dry_run: bool) -> Table:
    # In one cell: the name of the kept file is long, and useless if it is wrapped.
    return Table(
        title=f"Cut off{PLANNED[is_dry_run]}",
        columns=["partition", ">bytes", ">offsets lost", "file, why, and where it is kept"],
        rows=[
            [partition.name, str(cut.size), _lost(cut), _cut_words(cut)]
            for directory in report.directories
            for partition in directory.partitions
            for cut in partition.cuts
        ],
    )


def _lost(cut: Cut) -> str:
    if cut.last_offset is None:
        return f"from {cut.first_offset}"
    if cut.last_offset <= cut.first_offset:
        return str(cut.first_offset)
    return f"{cut.first_offset} to {cut.last_offset}"


def _cut_words(cut: Cut) -> str:
    what = "whole" if cut.is_whole else f"from byte {cut.position}"
    kept = "" if cut.kept_as is None else f"\n{cut.kept_as}"
    return f"{cut.file} {what}: {cut.reason}{kept}"


def _findings(report: RecoveryReport) -> Table:
    rows = []
    for directory in report.directories:
        rows += [[problem.name, "", problem.words, problem.consequence] for problem in directory.problems]
        for partition in directory.partitions:
            waiting = [finding for finding in partition.findings if _waits(finding)]
            shown = [finding for finding in partition.findings if not waiting[1:] or not _waits(finding)]
            rows += [[partition.name, each.file, each.words, each.consequence] for each in shown]
            if waiting[1:]:  # there may be hundreds, and they would hide the other findings
                words = f"{len(waiting)} files wait for their deletion."
                rows.append([partition.name, "", words, "They are deleted."])
    return Table(title="Findings", columns=["partition", "file", "what", "what follows"], rows=rows)


def _waits(finding: Finding) -> bool:
    return finding.kind is FindingKind.LEFTOVER and finding.file.endswith(FileState.DELETED.value)


def _devices(report: RecoveryReport) -> Table:
    return Table(
        title="Devices",
        columns=["device", ">read", ">seconds", ">a second", ">readers", ">busy"],
        rows=[
            [
                use.device.name,
                size_text(use.bytes_read),
                f"{use.seconds:.1f}",
                size_text(int(use.bytes_read / use.seconds)) if use.seconds else "-",
                str(use.most_readers),
                "-" if use.busy is None else f"{use.busy:.0%}",
            ]
            for use in report.devices
            if use.bytes_read
        ],
    )
