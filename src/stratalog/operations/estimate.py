"""Estimates what compaction would free: for any topic, compacted or not, by topic, by key and by key prefix.

Read-only: no lock is taken, and a broker may run meanwhile. A compacted topic is estimated with its own
settings; after a full pass the answer is, to the byte, what `compact` frees at the same clock. Any other
topic is estimated as if its cleanup.policy were compact. If the settings of a topic are not known, Kafka's
defaults replace them. The report states both as assumptions.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig, ManagerConfig
from stratalog.directory.kind import check_log_directory
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.session import unique_paths
from stratalog.engine.progress import OnProgress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import StratalogError
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.clean import DirtyLog
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.sampling import ENOUGH, sample_log
from stratalog.log.cleaning.tally import KeyTally, Prefix, Tally
from stratalog.operations.estimate_report import EstimateReport, PartitionEstimate, TopicEstimate
from stratalog.operations.looking import LookedAt, Partition, UnreadablePartition, check_names
from stratalog.operations.read_progress import CountRead, ReadProgress, logs_size, nobody
from stratalog.operations.rehearsing import Rehearser, find_dirty, last_records_of_view, set_stage

COMPACT = frozenset({"compact"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimation:
    """A request: which directories and topics, and a full pass or a number of draws from each partition.

    `work_dir` is where files go between the passes over a log with more keys than the offset map holds.
    """

    directories: Sequence[str]
    names: Sequence[str] = ()
    sources: TopicSources = field(default_factory=TopicSources)
    manager: ManagerConfig = field(default_factory=ManagerConfig)
    draws: int | None = None
    seed: int = 0
    prefix: Prefix | None = None
    top: int = 10
    work_dir: str | None = None
    disk: DiskReader = field(default_factory=DiskReader)
    clock: Clock = system_clock

    def run(self, on_progress: OnProgress = nobody) -> EstimateReport:
        """Read and estimate; `on_progress` gets the topic.

        UsageError if no topic or partition has a given name, NotALogDirectoryError if a path is not a log
        directory."""
        paths = unique_paths(self.directories)
        for path in paths:
            check_log_directory(self.disk, path)
        check_names(self.disk, paths, self.names)
        now = self.clock()
        known = KnownTopics(self.disk, paths, self.sources)
        running = _Running(replace(self, clock=lambda: now), paths, known, on_progress)
        topics = tuple(running.topics())
        return EstimateReport(topics=topics, now=now, notes=known.notes)


class _Running:
    """One run. Each reader has an offset map; the counts of keys are dropped after each topic."""

    def __init__(
        self, asked: Estimation, paths: Sequence[str], known: KnownTopics, on_progress: OnProgress
    ) -> None:
        self._asked, self._known = asked, known
        self._maps = threading.local()
        self._looked_at = {path: LookedAt(asked.disk, path, known, asked.names) for path in paths}
        self._found: dict[str, list[tuple[str, FoundPartition]]] = {}  # by topic, with their directories
        for path, looked_at in self._looked_at.items():
            for found in looked_at.partitions:
                self._found.setdefault(found.topic_partition.topic, []).append((path, found))
        # A full pass reads the dirty part twice; its size is not known before the log is opened.
        times = 2 if asked.draws is None else 1
        sizes = {
            join_path(path, each.entry.name): times * logs_size(asked.disk, join_path(path, each.entry.name))
            for found in self._found.values()
            for path, each in found
        }
        self._progress = ReadProgress(on_progress, sizes, stage="reading")

    def topics(self) -> Iterator[TopicEstimate]:
        for topic in sorted(self._found):
            keys = Tally()
            prefixes = None if self._asked.prefix is None else Tally(self._asked.prefix)
            tallies = [keys] if prefixes is None else [keys, prefixes]
            found = tuple(self._partitions(topic, tallies))
            top, least = self._asked.top, 0 if self._asked.draws is None else ENOUGH
            yield TopicEstimate(
                topic=topic,
                cleanup_policy=tuple(sorted(self._known.of(topic).cleanup_policy)),
                partitions=found,
                by_bytes=tuple(keys.largest("bytes", top, least_draws=least)),
                by_versions=tuple(keys.largest("versions", top, least_draws=least)),
                prefixes=() if prefixes is None else tuple(prefixes.largest("freed", top, least_draws=least)),
            )

    def _partitions(self, topic: str, tallies: list[Tally]) -> list[PartitionEstimate]:
        """The partitions of a topic, one reader for each device; their keys are added to the tallies."""
        tasks = self._found[topic]

        def estimate(
            disk: DiskReader, task: tuple[str, FoundPartition]
        ) -> tuple[PartitionEstimate, list[Tally]]:
            path, found = task
            own = [tally.blank() for tally in tallies]
            with (
                self._looked_at[path].open(disk, self._asked.clock, found) as partition,
                self._progress.part(join_path(path, found.entry.name), topic) as on_read,
            ):
                return self._estimate(path, partition, own, on_read), own

        outcomes = ThreadEngine(1, disk=self._asked.disk).run(
            estimate, tasks, paths=[path for path, _ in tasks], on_progress=self._progress.tell
        )
        estimates: dict[int, PartitionEstimate] = {}
        with closing(outcomes):
            for outcome in outcomes:
                if outcome.error is not None:
                    path, found = outcome.task
                    estimates[outcome.number] = PartitionEstimate(
                        name=found.entry.name, topic=topic, directory=path, error=str(outcome.error)
                    )
                    continue
                estimates[outcome.number], counted = outcome.result
                if estimates[outcome.number].error is None:
                    for tally, part in zip(tallies, counted, strict=True):
                        tally.merge(part)
        return [estimates[number] for number in range(len(tasks))]

    def _offset_map(self) -> OffsetMap:
        if not hasattr(self._maps, "map"):
            manager = self._asked.manager
            self._maps.map = OffsetMap(
                manager.log_cleaner_dedupe_buffer_size, load_factor=manager.log_cleaner_io_buffer_load_factor
            )
        found: OffsetMap = self._maps.map
        return found

    def _estimate(
        self, path: str, partition: Partition | UnreadablePartition, tallies: list[Tally], on_read: CountRead
    ) -> PartitionEstimate:
        if isinstance(partition, UnreadablePartition):
            topic = partition.entry.topic_partition.topic
            return PartitionEstimate(name=partition.name, topic=topic, directory=path, error=partition.error)
        config, assumptions = _settings(partition)
        blank = PartitionEstimate(
            name=partition.name,
            topic=partition.topic_partition.topic,
            directory=path,
            size=partition.view.size,
            assumptions=assumptions,
        )
        try:
            if self._asked.draws is None:
                return self._in_full(partition, config, blank, tallies, on_read)
            return self._sampled(partition, config, blank, tallies, on_read)
        except StratalogError as error:  # only this log fails
            return replace(blank, error=str(error))

    def _in_full(
        self,
        partition: Partition,
        config: LogConfig,
        blank: PartitionEstimate,
        tallies: list[Tally],
        on_read: CountRead,
    ) -> PartitionEstimate:
        tally = KeyTally(tallies)
        rehearser = Rehearser(
            disk=partition.disk,
            clock=self._asked.clock,
            offset_map=self._offset_map(),
            work_dir=self._asked.work_dir,
            tally=tally,
            on_read=on_read,
        )
        found = rehearser.rehearse(partition, config)
        lost = min(found.freed, round(tally.lost))
        return replace(
            blank,
            cleanable=found.cleanable_size,
            freed=found.freed - lost,
            lost=lost,
            deleted=found.deleted_size,
            passes=found.passes,
            records_read=found.records_read,
            records_kept=found.records_written,
            records_without_key=found.records_without_key,
        )

    def _sampled(
        self,
        partition: Partition,
        config: LogConfig,
        blank: PartitionEstimate,
        tallies: list[Tally],
        on_read: CountRead,
    ) -> PartitionEstimate:
        asked, now = self._asked, self._asked.clock()
        assert asked.draws is not None
        stage = set_stage(partition, config, now)
        deleted = sum(decision.segment.size for decision in stage.deleted)
        found = find_dirty(partition, stage, partition.cleaner_checkpoint, now)
        if found is None:
            return replace(blank, deleted=deleted)
        log = DirtyLog(
            disk=partition.disk,
            segments=stage.segments,
            config=config,
            first_dirty_offset=found.first_dirty,
            first_uncleanable_offset=found.first_uncleanable,
            last_records=last_records_of_view(partition.view, partition.disk, asked.clock),
        )
        sampled = sample_log(
            log,
            self._offset_map(),
            draws_count=asked.draws,
            seed=asked.seed,
            now_ms=now,
            tallies=tallies,
            on_read=on_read,
        )
        return replace(
            blank,
            cleanable=sampled.size,
            freed=sampled.freed - sampled.lost,
            lost=sampled.lost,
            bound=sampled.bound,
            deleted=deleted,
            draws=sampled.draws_count,
        )


def _settings(partition: Partition) -> tuple[LogConfig, tuple[str, ...]]:
    """The settings to estimate with, and sentences on those that are assumed."""
    config, assumptions = partition.config, []
    if partition.refusal is not None:
        assumptions.append(f"estimated with the known settings and Kafka's defaults: {partition.refusal}")
    marks = partition.marks
    may_compact = config.compact and partition.refusal is None
    if not may_compact and marks.high_watermark == marks.log_start_offset < marks.log_end_offset:
        # A backup without its checkpoints: no record would count as replicated, and nothing could be cleaned.
        assumptions.append("no high watermark is known: all records are assumed to be replicated")
        partition.high_watermark = marks.log_end_offset
    if not config.compact:
        policy = ",".join(sorted(config.cleanup_policy)) or "empty"
        assumptions.append(f"cleanup.policy is {policy}: estimated as if it were compact")
        config = replace(config, cleanup_policy=COMPACT)
    return config, tuple(assumptions)
