"""The report and its map as one compact document for the page; its size is bounded, whatever is on the disk.

Texts that repeat are written once. Numbers that JavaScript cannot hold exactly become text. If there are very
many segments, neighbours without damage become one bar. If there are very many findings or partitions, the
worst stay, and the document says how many are left out.
"""

from __future__ import annotations

import base64
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from stratalog.files.names import FileKind, segment_file_name
from stratalog.operations.audit.audit_report import AuditedTopic, AuditReport
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.kinds import Severity
from stratalog.operations.audit.page.advice import next_commands
from stratalog.operations.audit.page.headers import DecodedHeader
from stratalog.operations.audit.page.map import AuditMap
from stratalog.operations.audit.page.regions import DamagedRegion, regions_of
from stratalog.operations.audit.page.strips import PartitionStrip, SegmentBar
from stratalog.version import __version__

MOST_FINDINGS = 5_000
MOST_STRIPS = 5_000
MOST_BARS = 30_000
MOST_MARKS = 20_000  # of each kind, in all partitions: gaps, epochs, open transactions
MOST_TOPICS = 2_000
OTHER_TOPICS = "other topics"
LARGEST_EXACT = 2**53 - 1  # the largest number that JavaScript holds exactly

_Place = tuple[str, str]


class _Texts:
    """Gives each text a number, so that it is written only once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> list[str]:
        return [*self._numbers]


def document_of(report: AuditReport, found: AuditMap) -> dict[str, Any]:
    """Everything that the page shows, as values for JSON."""
    texts = _Texts()
    findings = report.findings[:MOST_FINDINGS]
    regions = {_key(region): number for number, region in enumerate(found.regions)}
    strips = _chosen_strips(report, found)
    merging = _merging(strips)
    most = max(MOST_MARKS // max(len(strips), 1), 3)
    return {
        "version": __version__,
        "now": report.now,
        "verdict": report.verdict,
        "status": int(report.status),
        "partial": report.is_partial,
        "directories": list(found.directories),
        "totals": report.totals(),
        "notes": [*dict.fromkeys(report.notes)],
        "findings": [_finding(each, texts, regions) for each in findings],
        "topics": _topics(report.topics),
        "strips": [_strip(strip, counts, texts, merging, most) for strip, counts in strips],
        "regions": [_region(each) for each in found.regions],
        "next": [
            [each.command, each.words, each.findings_count, each.severity.value]
            for each in next_commands(report.findings, found.directories)
        ],
        "left": {
            "findings": len(report.findings) - len(findings),
            "partitions": len(found.strips) - len(strips),
            "merged": merging,
            "regions": len(regions_of(report.findings)) - len(found.regions),
        },
        "texts": texts.all(),
    }


def exact(value: int | None) -> int | str | None:
    """A number, as text if JavaScript would round it."""
    return str(value) if value is not None and abs(value) > LARGEST_EXACT else value


def _key(region: DamagedRegion) -> tuple[object, ...]:
    task = region.task
    return task.directory, task.partition, task.file, task.position, task.size


def _finding(finding: AuditFinding, texts: _Texts, regions: dict[tuple[object, ...], int]) -> list[Any]:
    key = finding.directory, finding.partition, finding.file, finding.position, finding.size
    return [
        finding.severity.value[0],
        texts.number(finding.kind.value),
        texts.number(finding.directory),
        texts.number(finding.partition),
        texts.number(finding.file),
        exact(finding.position),
        exact(finding.size),
        exact(finding.offset),
        finding.count,
        finding.words,
        texts.number(finding.consequence),
        texts.number(finding.remedy),
        regions.get(key, -1),
    ]


def _chosen_strips(report: AuditReport, found: AuditMap) -> list[tuple[PartitionStrip, Counter[Severity]]]:
    """The partitions to show, with their counts: those with findings first, then the largest."""
    counts: dict[_Place, Counter[Severity]] = defaultdict(Counter)
    for finding in report.findings:
        counts[finding.directory, finding.partition][finding.severity] += 1
    strips = [(strip, counts[strip.directory, strip.name]) for strip in found.strips]
    strips.sort(
        key=lambda each: (-each[1][Severity.ERROR], -each[1][Severity.WARNING], -each[0].size, each[0].name)
    )
    return strips[:MOST_STRIPS]


def _merging(strips: Sequence[tuple[PartitionStrip, object]]) -> int:
    """How many neighbours without damage become one bar; 1 if all segments can be drawn."""
    bars = sum(len(strip.segments) for strip, _ in strips)
    return -(-bars // MOST_BARS) or 1


def _topics(topics: Sequence[AuditedTopic]) -> list[list[Any]]:
    """Name, partitions and size of the largest topics, and of all others together."""
    largest = sorted(topics, key=lambda each: -each.size)
    rows: list[list[Any]] = [[each.topic, each.partitions, each.size] for each in largest[:MOST_TOPICS]]
    rest = largest[MOST_TOPICS:]
    if rest:
        sums = sum(each.partitions for each in rest), sum(each.size for each in rest)
        rows.append([OTHER_TOPICS, *sums])
    return rows


def _strip(
    strip: PartitionStrip, counts: Counter[Severity], texts: _Texts, merging: int, most: int
) -> dict[str, Any]:
    # If not all fit, lost offsets are kept before removed ones, and the newest epochs before older ones.
    gaps = sorted(sorted(strip.gaps, key=lambda gap: not gap.is_lost)[:most])
    horizon = strip.horizon
    marks = strip.marks
    return {
        "dir": texts.number(strip.directory),
        "name": strip.name,
        "topic": texts.number(strip.topic),
        "counts": [counts[severity] for severity in Severity],
        "segs": [_bar(bars, texts) for bars in _grouped(strip.segments, merging)],
        "gaps": [[exact(gap.first), exact(gap.last), int(gap.is_lost)] for gap in gaps],
        "gapsCount": strip.gaps_count,
        "epochs": [[entry.epoch, exact(entry.start_offset)] for entry in strip.epochs[-most:]],
        "txns": [
            [exact(number) for number in txn[:4]] + [int(txn.is_coordinated)]
            for txn in strip.open_txns[:most]
        ],
        "marks": [
            exact(offset)
            for offset in (
                marks.log_start_offset,
                marks.recovery_point,
                marks.high_watermark,
                marks.cleaner_offset,
            )
        ],
        "horizon": [
            exact(horizon.offset),
            horizon.due_size,
            exact(horizon.time_ms),
            exact(horizon.next_ms),
            horizon.policy,
            None if horizon.refusal is None else texts.number(horizon.refusal),
        ],
    }


def _grouped(segments: Sequence[SegmentBar], merging: int) -> Iterable[Sequence[SegmentBar]]:
    """Runs of neighbours that become one bar; a damaged segment stays alone."""
    run: list[SegmentBar] = []
    for segment in segments:
        if run and (segment.is_damaged or run[0].is_damaged or len(run) == merging):
            yield run
            run = []
        run.append(segment)
    if run:
        yield run


def _bar(run: Sequence[SegmentBar], texts: _Texts) -> list[Any]:
    firsts = [each.first_timestamp for each in run if each.first_timestamp >= 0]
    codecs = sorted({codec for each in run for codec in each.codecs})
    return [
        exact(run[0].base_offset),
        exact(run[-1].last_offset),
        sum(each.size for each in run),
        sum(each.records_count for each in run),
        sum(each.batches_count for each in run),
        exact(min(firsts, default=-1)),
        exact(max(each.max_timestamp for each in run)),
        texts.number(", ".join(codecs)),
        int(run[0].is_damaged),
        len(run),
    ]


def _region(region: DamagedRegion) -> dict[str, Any]:
    task = region.task
    return {
        "dir": task.directory,
        "partition": task.partition,
        "file": task.file,
        "path": task.path,
        "log": segment_file_name(task.base_offset, FileKind.LOG),
        "position": task.position,
        "size": task.size,
        "fileSize": region.file_size,
        "start": region.start,
        "cellSize": region.cell_size,
        "cells": region.cells,
        "excerpts": [[at, base64.b64encode(data).decode()] for at, data in region.excerpts],
        "headers": [
            _header(header, role)
            for role in ("before", "inside", "after")
            for header in getattr(region, role)
        ],
        "problem": region.problem,
    }


def _header(header: DecodedHeader, role: str) -> list[Any]:
    return [
        role,
        header.position,
        header.size,
        header.is_valid,
        [[field.name, field.text, field.at, field.size] for field in header.fields],
    ]
