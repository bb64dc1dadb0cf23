"""An audit of disks that only one host has: each host audits its own disks, and the reports become one.

In the combined report a directory is named HOST:DIR.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from stratalog.directory.known_topics import TopicSources
from stratalog.engine.hosts import run_by_host
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.audit import AuditRequest, finding_order
from stratalog.operations.audit.audit_report import AuditedTopic, AuditReport, AuditTotals
from stratalog.operations.audit.baseline import Baseline
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import AuditKind
from stratalog.operations.named import listed_partitions, names_among
from stratalog.operations.named_on_hosts import NamedReport, check_named


@dataclass(frozen=True, slots=True, kw_only=True)
class HostAudit:
    """What each host does with its directories."""

    names: tuple[str, ...]
    sources: TopicSources
    is_deep: bool
    now: int

    def __call__(self, disk: DiskReader, paths: Sequence[str]) -> NamedReport[AuditReport]:
        # A topic may be on some hosts only, or on a disk that cannot be read, which is a finding.
        entries, unreadable = listed_partitions(disk, paths)
        names = names_among(entries, self.names)
        if self.names and not names and not unreadable:
            return NamedReport((), _combined({}, self.now))
        report = AuditRequest(
            directories=paths,
            names=names or self.names,
            sources=self.sources,
            is_deep=self.is_deep,
            disk=disk,
            clock=lambda: self.now,
        ).run()
        return NamedReport(tuple(names), report, is_complete=not unreadable)


def audit_by_host(
    engine: object,
    places: Sequence[str],
    *,
    topics: Sequence[str] = (),
    sources: TopicSources | None = None,
    deep: bool = False,
    now: int,
) -> AuditReport:
    """Audit directories, each on its host: HOST:DIR, or DIR for every host that has it.

    A directory that cannot be placed is a finding, and so is a host that fails. UsageError if the engine has
    no hosts, or no host has a given topic.
    """
    asked = HostAudit(names=tuple(topics), sources=sources or TopicSources(), is_deep=deep, now=now)
    placed = check_named(run_by_host(engine, places, asked), topics, places)
    report = _combined(placed.reports, now)
    problems = [
        AuditFinding(kind=AuditKind.UNREADABLE, directory=where, words=words)
        for where, words in placed.problems
    ]
    findings = tuple(sorted([*report.findings, *problems], key=finding_order))
    return replace(report, findings=findings, notes=(*report.notes, *placed.notes))


def _combined(reports: Mapping[str, AuditReport], now: int) -> AuditReport:
    each = list(reports.values())
    return AuditReport(
        findings=tuple(
            _on_host(finding, host) for host, report in reports.items() for finding in report.findings
        ),
        totals_=_sum([report.totals_ for report in each]),
        now=now,
        audited=Baseline.of(()),  # none: paths of several hosts may be the same
        topics=_topics([topic for report in each for topic in report.topics]),
        notes=tuple(f"{host}: {note}" for host, report in reports.items() for note in report.notes),
    )


def _on_host(finding: AuditFinding, host: str) -> AuditFinding:
    remedy = f"On {host}: {finding.remedy}" if finding.remedy else ""
    return replace(finding, directory=f"{host}:{finding.directory}", remedy_words=remedy)


def _sum(totals: Sequence[AuditTotals]) -> AuditTotals:
    return AuditTotals(
        directories=sum(each.directories for each in totals),
        partitions=sum(each.partitions for each in totals),
        segments=sum(each.segments for each in totals),
        batches=sum(each.batches for each in totals),
        records=sum(each.records for each in totals),
        bytes=sum(each.bytes for each in totals),
        bytes_read=sum(each.bytes_read for each in totals),
    )


def _topics(found: Sequence[AuditedTopic]) -> tuple[AuditedTopic, ...]:
    by_name: dict[str, list[AuditedTopic]] = {}
    for topic in found:
        by_name.setdefault(topic.topic, []).append(topic)
    return tuple(
        AuditedTopic(
            topic=name,
            partitions=sum(each.partitions for each in by_name[name]),
            segments=sum(each.segments for each in by_name[name]),
            size=sum(each.size for each in by_name[name]),
            records=sum(each.records for each in by_name[name]),
            codecs=tuple(sorted({codec for each in by_name[name] for codec in each.codecs})),
            first_timestamp=min(
                (each.first_timestamp for each in by_name[name] if each.first_timestamp >= 0), default=-1
            ),
            last_timestamp=max(each.last_timestamp for each in by_name[name]),
        )
        for name in sorted(by_name)
    )
