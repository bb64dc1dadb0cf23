"""Audits log directories: checks every byte of every file, and changes nothing. A broker may run meanwhile.

Tasks list partitions, then read segments, on threads or on Spark. This module combines their small results.

A running broker may replace a file between two reads: for example, the index may already belong to the
cleaned segment. So in a directory without a clean-shutdown file, a partition with findings is checked a
second time, and only what is found again is reported.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig
from stratalog.directory.kind import check_log_directory
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.meta_properties import read_meta_properties
from stratalog.directory.node import Node, find_node
from stratalog.directory.refusal import StartupRefusal
from stratalog.directory.session import unique_paths
from stratalog.directory.startup_refusals import startup_refusals
from stratalog.engine.engine import Engine
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.reading import DiskReader
from stratalog.operations.audit.aside import Aside
from stratalog.operations.audit.audit_report import AuditReport
from stratalog.operations.audit.audited_directory import (
    AuditedDirectory,
    look_at_directory,
    refusal_finding,
)
from stratalog.operations.audit.baseline import Baseline
from stratalog.operations.audit.coordinated import open_transactions
from stratalog.operations.audit.finding import AuditFinding
from stratalog.operations.audit.gone import emptied, gone_partitions
from stratalog.operations.audit.kinds import AuditKind, Severity
from stratalog.operations.audit.page.map import AuditMap
from stratalog.operations.audit.page.regions import read_regions
from stratalog.operations.audit.page.strips import strip_of
from stratalog.operations.audit.partition import AuditedPartition, check_partition
from stratalog.operations.audit.partition_state import PartitionState, topics_of, totals_of
from stratalog.operations.audit.partition_task import PartitionTask, look_at_partition
from stratalog.operations.audit.segment_task import AuditTask, audit_segment
from stratalog.operations.audit.spots import Spot
from stratalog.operations.named import listed_partitions, notes_on_names
from stratalog.operations.words import sentence
from stratalog.records.internal_topics import CLUSTER_METADATA


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """A request: which log directories, of any nodes, and which topics or partitions in them (none: all).

    `is_deep` also unpacks and decodes every record. `baseline` is an earlier audit, whose bytes are not read
    again. `is_mapped` also collects what the page of the report shows (`AuditReport.to_html`).
    """

    directories: Sequence[str]
    names: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    is_deep: bool = False
    is_mapped: bool = False
    baseline: Baseline | None = None
    engine: Engine | None = None
    disk: DiskReader = field(default_factory=DiskReader)
    clock: Clock = system_clock

    def run(self, on_progress: OnProgress | None = None) -> AuditReport:
        """Audit the requested partitions.

        UsageError if no topic or partition has a given name, NotALogDirectoryError if a path is not a log
        directory. Anything that cannot be read is a finding, and the rest is still audited. If a directory
        cannot be read, a name that no other directory has is only noted.
        """
        paths = unique_paths(self.disk, self.directories)
        for path in paths:
            with suppress(DiskError):  # an unreadable disk is a finding
                check_log_directory(self.disk, path)
        notes: list[str] = []
        if self.names:
            entries, unreadable = listed_partitions(self.disk, paths)
            notes = notes_on_names(entries, self.names, paths, unreadable)
        report = _Run(self, on_progress).report(paths)
        return replace(report, notes=(*notes, *report.notes))


def audit(
    directories: Sequence[str | os.PathLike[str]],
    *,
    topics: Sequence[str] = (),
    deep: bool = False,
    mapped: bool = False,
    baseline: Baseline | None = None,
    engine: Engine | None = None,
    on_progress: OnProgress | None = None,
) -> AuditReport:
    """Check every byte of these log directories, or of some topics or partitions in them; change nothing.

    `engine` runs the tasks; by default, threads do. `baseline` is the `audited` of an earlier report. With
    `mapped` the report can also be written as a page (`AuditReport.to_html`). Raises what `AuditRequest.run`
    raises.
    """
    asked = AuditRequest(
        directories=[os.fspath(directory) for directory in directories],
        names=topics,
        is_deep=deep,
        is_mapped=mapped,
        baseline=baseline,
        engine=engine,
    )
    return asked.run(on_progress)


class _Run:
    def __init__(self, request: AuditRequest, on_progress: OnProgress | None) -> None:
        self._request, self._on_progress = request, on_progress
        self._disk, self._now = request.disk, request.clock()
        self._engine = request.engine or ThreadEngine(disk=request.disk)
        self._findings: list[AuditFinding] = []
        self._read_size = 0
        self._coordinated: frozenset[int] = frozenset()

    def report(self, paths: Sequence[str]) -> AuditReport:
        directories = [found for path in paths if (found := self._look_at(path)) is not None]
        partitions = [
            PartitionState(directory, task)
            for directory in directories
            for task in directory.tasks
            if self._is_wanted(task)
        ]
        self._list(partitions)
        # Reads small files and the ends of logs, one after the other, while the tasks read the segments.
        aside = Aside(partial(self._nodes, directories))
        self._read(partitions)
        nodes = aside.result()
        for directory in directories:
            self._findings += directory.findings
        owners = {path: node for path, (node, _) in nodes.items()}
        self._findings += gone_partitions(directories, owners, self._request.names)
        self._check(partitions, nodes)
        self._look_again(partitions, nodes)
        own = [finding for partition in partitions for finding in partition.findings()]
        findings = tuple(sorted([*_without_twins(self._findings, own), *own], key=finding_order))
        return AuditReport(
            findings=findings,
            totals_=totals_of(len(directories), partitions, self._read_size),
            now=self._now,
            notes=tuple(note for node, known in nodes.values() for note in (*node.notes, *known.notes)),
            audited=Baseline.of(
                (partition.task.path, each.base_offset, *partition.segments[each.base_offset])
                for partition in partitions
                for each in partition.ordered
            ),
            topics=topics_of(partitions),
            is_partial=self._request.baseline is not None,
            map=self._map(paths, partitions, nodes, findings) if self._request.is_mapped else None,
        )

    def _map(
        self,
        paths: Sequence[str],
        partitions: Sequence[PartitionState],
        nodes: dict[str, tuple[Node, KnownTopics]],
        findings: Sequence[AuditFinding],
    ) -> AuditMap:
        """What the page shows in addition to the findings. Tasks read only the damaged regions again."""
        strips = tuple(
            strip_of(partition.task, partition.audited, nodes[partition.directory.path][1], self._now)
            for partition in partitions
            if partition.audited is not None
        )
        regions = read_regions(self._engine, findings)
        return AuditMap(directories=tuple(paths), strips=strips, regions=regions)

    def _look_at(self, path: str) -> AuditedDirectory | None:
        try:
            return look_at_directory(self._disk, path)
        except DiskError as error:
            words = str(error)
            self._findings.append(AuditFinding(kind=AuditKind.UNREADABLE, directory=path, words=words))
            return None

    def _is_wanted(self, task: PartitionTask) -> bool:
        names = self._request.names
        if not names:
            return True
        key = task.topic_partition
        return key.topic in names or str(key) in names or task.name in names

    def _list(self, partitions: Sequence[PartitionState]) -> None:
        tasks = [partition.task for partition in partitions]
        paths = [task.path for task in tasks]
        for outcome in self._engine.run(look_at_partition, tasks, paths=paths):
            partition = partitions[outcome.number]
            if outcome.error is not None:
                partition.fail("", outcome.error)
            else:
                partition.facts = outcome.result
                partition.spots = list(outcome.result.spots)

    def _nodes(self, directories: Sequence[AuditedDirectory]) -> dict[str, tuple[Node, KnownTopics]]:
        """The node of each directory, and the settings of its topics. A node may have several directories."""
        groups: dict[object, list[str]] = {}
        for directory in directories:
            groups.setdefault(self._owner(directory.path), []).append(directory.path)
        found = {}
        sources = self._request.sources
        for paths in groups.values():
            known = KnownTopics(self._disk, paths, sources)
            node = find_node(
                self._disk,
                paths,
                server=sources.server,
                metadata_directory=sources.metadata_directory,
                is_damaged=True,
            )
            found.update(dict.fromkeys(paths, (node, known)))
        self._findings += filter(None, map(refusal_finding, self._refusals(groups)))
        return found

    def _refusals(self, groups: Mapping[object, Sequence[str]]) -> Iterable[StartupRefusal]:
        """The reasons why a broker would not start, each once, as `doctor` finds them.

        A directory whose meta.properties is missing does not say whose it is. It belongs to the node whose
        log.dirs name it, or to the only node whose directories are audited with it.
        """
        sources = self._request.sources
        log_dirs = [] if sources.server is None else sources.server.manager.log_dirs
        real = {os.path.realpath(path) for path in log_dirs}
        owners = [owner for owner, paths in groups.items() if paths != [owner]]
        nodes: dict[object, list[str]] = {}
        for owner, paths in groups.items():
            for path in paths:
                node = owners[0] if owner == path and len(owners) == 1 else owner
                nodes.setdefault(None if os.path.realpath(path) in real else node, []).append(path)
        found: list[StartupRefusal] = []
        for node, paths in nodes.items():
            found += startup_refusals(
                self._disk,
                paths,
                siblings=log_dirs if node is None else (),
                metadata_directory=sources.metadata_directory,
                node_id=sources.node_id,
            )
        # All nodes of the request have the same metadata.log.dir, so its problems are reported once.
        return dict.fromkeys(found)

    def _owner(self, path: str) -> object:
        with suppress(CorruptCheckpointError, DiskError):
            meta = read_meta_properties(self._disk, path)
            if meta is not None:
                return meta.node_id, meta.cluster_id
        return path

    def _read(self, partitions: Sequence[PartitionState]) -> None:
        """Audit all segments that are not yet audited."""
        owners: list[PartitionState] = []
        tasks: list[AuditTask] = []
        for partition in partitions:
            for task in self._tasks_of(partition):
                owners.append(partition)
                tasks.append(task)
        sizes = [task.size - task.start_position for task in tasks]
        outcomes = self._engine.run(
            audit_segment,
            tasks,
            sizes=sizes,
            paths=[task.directory for task in tasks],
            on_progress=self._on_progress,
        )
        for outcome in outcomes:
            owner, task = owners[outcome.number], outcome.task
            if outcome.error is not None:
                owner.fail(task.path.rpartition("/")[2], outcome.error)
                continue
            owner.segments[task.base_offset] = (owner.stamps[task.base_offset], outcome.result)
            self._read_size += outcome.result.read_size

    def _tasks_of(self, partition: PartitionState) -> Iterable[AuditTask]:
        if partition.facts is None:
            return
        listed = partition.facts.segments
        # A partition may have no segment: metadata that was formatted and never started has only a snapshot.
        following = [*(each.base_offset for each in listed[1:]), None][: len(listed)]
        for segment, next_base in zip(listed, following, strict=True):
            known = partition.segments.get(segment.base_offset)
            if known is not None and known[0] == segment.stamp and next_base is not None:
                continue
            task = AuditTask(
                directory=partition.task.path,
                topic=partition.task.topic_partition.topic,
                base_offset=segment.base_offset,
                size=segment.size,
                next_base=next_base,
                was_closed=partition.directory.was_closed,
                now_ms=self._now,
                is_deep=self._request.is_deep,
            )
            baseline = self._request.baseline
            before = None if baseline is None else baseline.find(task, segment.stamp)
            if before is not None:
                if before.end == segment.size:
                    partition.segments[segment.base_offset] = (segment.stamp, before.as_audited(task))
                    continue
                task = before.continued(task)
            yield task

    def _check(
        self, partitions: Iterable[PartitionState], nodes: dict[str, tuple[Node, KnownTopics]]
    ) -> None:
        """Combine the segments of each partition; what is found is added to its spots."""
        partitions = list(partitions)
        newest: dict[str, int] = {}
        open_producers = open_transactions(
            txn
            for partition in sorted(partitions, key=lambda each: each.task.topic_partition)
            for segment in partition.ordered
            for txn in segment.coordinated
        )
        self._coordinated = self._coordinated | open_producers
        for partition in partitions:
            path = partition.directory.path
            stamps = [each.scan.max_timestamp for each in partition.ordered]
            newest[path] = max([newest.get(path, 0), *(stamp for stamp in stamps if stamp <= self._now)])
        for partition in partitions:
            for segment in partition.ordered:
                partition.spots += segment.spots
            node, known = nodes[partition.directory.path]
            self._combine(partition, known, newest[partition.directory.path])
            if partition.is_complete and partition.audited is not None:
                partition.spots += check_partition(partition.audited)
                partition.spots += _check_topic_id(partition, node)
                partition.spots += emptied(partition)

    def _combine(self, partition: PartitionState, known: KnownTopics, newest_ms: int) -> None:
        if partition.facts is None:
            return
        key = partition.task.topic_partition
        config = LogConfig() if key.topic == CLUSTER_METADATA else known.of(key.topic)
        segments = partition.ordered
        if config.preallocate and segments and not partition.directory.was_closed:
            partition.spots = [spot for spot in partition.spots if spot.kind is not AuditKind.ZEROS]
        partition.audited = AuditedPartition(
            topic_partition=key,
            facts=partition.facts,
            segments=segments,
            marks=partition.directory.marks_of(key),
            is_compacted=config.compact,
            newest_ms=newest_ms,
            coordinated=self._coordinated,
            is_whole=self._request.baseline is None,
        )

    def _look_again(
        self, partitions: Sequence[PartitionState], nodes: dict[str, tuple[Node, KnownTopics]]
    ) -> None:
        """Check again, and keep only what is found again, if a broker may have changed files meanwhile."""
        doubtful = [
            partition
            for partition in partitions
            if not partition.directory.was_closed
            and any(spot.kind.rule.severity is not Severity.NOTE for spot in partition.spots)
        ]
        if not doubtful:
            return
        again = []
        for partition in doubtful:
            once_more = PartitionState(partition.directory, partition.task)
            damaged = {spot.file for spot in partition.spots}
            once_more.segments = {
                base: found
                for base, found in partition.segments.items()
                if not found[1].spots and f"{base:020d}.log" not in damaged
            }
            again.append(once_more)
        quiet = replace(self._request, baseline=None)
        second = _Run(quiet, self._on_progress)
        second._coordinated = self._coordinated
        second._list(again)
        second._read(again)
        second._check(again, nodes)
        for partition, once_more in zip(doubtful, again, strict=True):
            still = {_place(spot) for spot in once_more.spots}
            if once_more.facts is None:  # deleted, or it cannot be listed
                found = [] if once_more.is_gone else [*partition.spots, *once_more.spots]
            else:
                found = [spot for spot in partition.spots if _place(spot) in still]
            partition.spots = [*dict.fromkeys(found)]


def _without_twins(others: Iterable[AuditFinding], own: Iterable[AuditFinding]) -> Iterable[AuditFinding]:
    """Leave out that a broker cannot read a file if the audit of its partition says so as well."""
    known = {finding.path for finding in own if finding.kind is AuditKind.UNREADABLE}
    return [each for each in others if each.kind is not AuditKind.UNREADABLE or each.path not in known]


def _place(spot: Spot) -> tuple[object, ...]:
    return spot.kind, spot.file, spot.position, spot.offset


def _check_topic_id(partition: PartitionState, node: Node) -> list[Spot]:
    """Compare the topic id of a partition with the cluster's metadata."""
    key, facts = partition.task.topic_partition, partition.facts
    is_live = str(key) == partition.task.name
    if facts is None or key.topic == CLUSTER_METADATA or not is_live:
        return []
    known = node.topic_id(key.topic)
    if known is not None and facts.topic_id is not None and known != facts.topic_id:
        words = f"The file says {facts.topic_id}; the topic {key.topic} of the cluster has the id {known}."
        return [Spot(AuditKind.WRONG_TOPIC_ID, "partition.metadata", words)]
    # The cluster may know the topic although the file does not name it: then the partition is not unknown.
    reason = node.stray_reason(key, facts.topic_id or known)
    if reason is None and facts.topic_id is None and known is not None and not facts.is_id_garbled:
        return [Spot(AuditKind.MISSING_TOPIC_ID, "partition.metadata", "The file is missing.")]
    return [] if reason is None else [Spot(AuditKind.UNKNOWN_PARTITION, "", sentence(reason))]


_SEVERITIES = [*Severity]


def finding_order(finding: AuditFinding) -> tuple[object, ...]:
    return (
        _SEVERITIES.index(finding.severity),
        finding.directory,
        finding.partition,
        finding.file,
        -1 if finding.position is None else finding.position,
        -1 if finding.offset is None else finding.offset,
    )
