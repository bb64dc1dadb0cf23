"""The report of an audit: its findings as a table, as JSON and as Arrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from stratalog.errors import UsageError
from stratalog.operations.audit.baseline import Baseline
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind, Severity
from stratalog.operations.report import Report, Status, Table
from stratalog.operations.words import counted, size_text, time_text

if TYPE_CHECKING:
    import pyarrow as pa

    from stratalog.operations.audit.page.map import AuditMap

_MOST_ROWS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditTotals:
    """What was audited. `bytes_read` is less than `bytes` if an earlier audit has read some of it."""

    directories: int
    partitions: int
    segments: int
    batches: int
    records: int
    bytes: int
    bytes_read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedTopic:
    """The segments of one topic, added up. Times are -1 if no record with a time was read."""

    topic: str
    partitions: int
    segments: int
    size: int
    records: int
    codecs: tuple[str, ...]
    first_timestamp: int
    last_timestamp: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditReport(Report):
    """All findings, the worst first. `audited` is what a later audit need not read again.

    `map` is what the page shows in addition to the findings; None unless the audit ran with `mapped`.
    """

    findings: tuple[AuditFinding, ...]
    totals_: AuditTotals
    now: int
    audited: Baseline
    topics: tuple[AuditedTopic, ...] = ()
    notes: tuple[str, ...] = ()
    is_partial: bool = False
    map: AuditMap | None = None

    def of(self, severity: Severity) -> list[AuditFinding]:
        return [finding for finding in self.findings if finding.severity is severity]

    @property
    def status(self) -> Status:
        if any(finding.kind is AuditKind.UNREADABLE for finding in self.findings):
            return Status.FAILED
        is_healthy = not self.of(Severity.ERROR) and not self.of(Severity.WARNING)
        return Status.FINE if is_healthy else Status.FINDINGS

    @property
    def verdict(self) -> str:
        errors, warnings = len(self.of(Severity.ERROR)), len(self.of(Severity.WARNING))
        totals = self.totals_
        scope = f"{counted(totals.segments, 'segment')} of {counted(totals.partitions, 'partition')}"
        read = f"{size_text(totals.bytes_read)} of logs were read"
        if self.is_partial:
            read += "; what an earlier audit has read was left out, so newer damage in it is not found"
        unread = [finding for finding in self.findings if finding.kind is AuditKind.UNREADABLE]
        if unread:
            where = unread[0].file or unread[0].partition or unread[0].directory
            found = f"{counted(errors, 'error')}, {counted(warnings, 'warning')} in {scope}"
            return f"Not everything could be read: {where}. {found}; {read}."
        if errors or warnings:
            return f"{counted(errors, 'error')}, {counted(warnings, 'warning')} in {scope}; {read}."
        return f"Healthy: nothing was found in {scope}; {read}."

    def tables(self) -> list[Table]:
        shown = [finding for finding in self.findings if finding.severity is not Severity.NOTE]
        rows = [_row(finding) for finding in shown[:_MOST_ROWS]]
        advice = dict.fromkeys((each.kind.value, each.consequence, each.remedy) for each in shown)
        return [
            _topics_table(self.topics),
            Table(
                title="What was found",
                columns=["severity", "what", "!partition", "!file", ">byte", ">offset", "found"],
                rows=rows,
            ),
            Table(
                title="What it means, and what to do",
                columns=["what", "consequence", "what to do"],
                rows=[list(row) for row in advice],
            ),
        ]

    def words(self) -> Sequence[str]:
        left = len(self.of(Severity.ERROR)) + len(self.of(Severity.WARNING)) - _MOST_ROWS
        more = [f"{left} more findings are not shown here: --json lists all of them."] if left > 0 else []
        counts = Counter(finding.kind for finding in self.of(Severity.NOTE))
        notes = [
            f"Note: {kind.value}, {counted(count, 'time')}. {kind.rule.consequence}"
            for kind, count in counts.items()
        ]
        return [*more, *notes, *dict.fromkeys(self.notes)]

    def totals(self) -> dict[str, int]:
        counts = Counter(finding.severity for finding in self.findings)
        return {
            **asdict(self.totals_),
            "errors": counts[Severity.ERROR],
            "warnings": counts[Severity.WARNING],
            "notes": counts[Severity.NOTE],
        }

    def to_document(self) -> dict[str, object]:
        return {
            "now": self.now,
            "topics": [asdict(topic) for topic in self.topics],
            "findings": [finding.to_document() for finding in self.findings],
            "audited": self.audited.to_document(),
        }

    def to_arrow(self) -> pa.Table:
        """The findings, a row each."""
        import pyarrow

        rows: list[dict[str, Any]] = [finding.to_document() for finding in self.findings]
        return pyarrow.Table.from_pylist(rows, schema=_schema())

    def to_html(self) -> str:
        """The report as one page that needs no network. UsageError unless the audit ran with `mapped`."""
        from stratalog.operations.audit.page.page import build_page

        if self.map is None:
            raise UsageError("this report has no map for a page: run the audit with mapped=True.")
        return build_page(self, self.map)


def _schema() -> pa.Schema:
    import pyarrow

    text, number = pyarrow.string(), pyarrow.int64()
    names = {
        "severity": text,
        "kind": text,
        "directory": text,
        "partition": text,
        "file": text,
        "position": number,
        "size": number,
        "offset": number,
        "count": number,
        "words": text,
        "consequence": text,
        "remedy": text,
    }
    return pyarrow.schema(list(names.items()))


def _topics_table(topics: Sequence[AuditedTopic]) -> Table:
    return Table(
        title="What was audited",
        columns=["topic", "codec", ">partitions", ">segments", ">records", ">size", "!oldest", "!newest"],
        rows=[
            [
                topic.topic,
                ", ".join(topic.codecs),
                f"{topic.partitions}",
                f"{topic.segments}",
                f"{topic.records:,}",
                size_text(topic.size),
                time_text(topic.first_timestamp),
                time_text(topic.last_timestamp),
            ]
            for topic in topics
        ],
    )


def _row(finding: AuditFinding) -> list[str]:
    return [
        finding.severity.value,
        finding.kind.value,
        finding.partition or finding.directory,
        finding.file,
        "" if finding.position is None else str(finding.position),
        "" if finding.offset is None else str(finding.offset),
        finding.words + (f" And {finding.count - 1} more." if finding.count > 1 else ""),
    ]
