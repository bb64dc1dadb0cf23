"""The report: status, verdict, tables, Arrow."""

from __future__ import annotations

from stratalog.operations.audit.audit_report import AuditReport, AuditTotals
from stratalog.operations.audit.baseline import Baseline
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind

TOTALS = AuditTotals(
    directories=1, partitions=2, segments=3, batches=4, records=5, bytes=6_000_000, bytes_read=6_000_000
)


def report(*kinds: AuditKind, is_partial: bool = False) -> AuditReport:
    findings = tuple(
        AuditFinding(
            kind=kind, directory="/d", partition="t-0", file="0.log", words="It is so.", position=7, offset=9
        )
        for kind in kinds
    )
    return AuditReport(findings=findings, totals_=TOTALS, now=0, audited=Baseline({}), is_partial=is_partial)


def test_notes_are_not_findings() -> None:
    found = report(AuditKind.NOT_CLEAN, AuditKind.GAP)

    assert (found.status, found.totals()["notes"]) == (0, 2)
    assert (
        found.verdict == "Healthy: nothing was found in 3 segments of 2 partitions; 6.0 MB of logs were read."
    )
    assert not found.tables()[1].rows
    assert len(found.words()) == 2


def test_what_could_not_be_read_wins_over_what_was_found() -> None:
    assert report(AuditKind.WRONG_CRC).status == 1
    assert report(AuditKind.WRONG_CRC, AuditKind.UNREADABLE).status == 3


def test_errors_and_warnings_are_counted_apart() -> None:
    found = report(AuditKind.WRONG_CRC, AuditKind.ZEROS, AuditKind.ZEROS)

    assert found.verdict.startswith("1 error, 2 warnings in 3 segments")
    assert found.tables()[1].rows[0] == ["error", "wrong-crc", "t-0", "0.log", "7", "9", "It is so."]
    assert [row[0] for row in found.tables()[2].rows] == ["wrong-crc", "zeros"]


def test_arrow_has_a_row_for_each_finding() -> None:
    table = report(AuditKind.WRONG_CRC, AuditKind.GAP).to_arrow()

    assert table.column("kind").to_pylist() == ["wrong-crc", "gap"]
    assert table.column("position").to_pylist() == [7, 7]
    assert report().to_arrow().schema == table.schema


def test_more_rows_than_a_screen_takes_are_counted() -> None:
    found = report(*[AuditKind.WRONG_CRC] * 250)

    assert len(found.tables()[1].rows) == 200
    assert found.words() == ["50 more findings are not shown here: --json lists all of them."]
