"""Estimates what compaction would free: for any topic, compacted or not, by topic, by key and by key prefix.

Read-only: no lock is taken, and a broker may run meanwhile. A compacted topic is estimated with its own
settings. With a full pass, the answer is exact to the byte, if `compact` runs with the same current time.
Any other topic is estimated as if its cleanup.policy were compact. If the settings of a topic are not known,
Kafka's defaults replace them. The report states both as assumptions.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace

from stratalog.clock import Clock, system_clock
from stratalog.config import ManagerConfig
from stratalog.directory.kind import check_log_directory
from stratalog.directory.known_topics import KnownTopics, TopicSources
from stratalog.directory.partitions import FoundPartition
from stratalog.directory.session import unique_paths
from stratalog.engine.engine import Engine, TaskOutcome
from stratalog.engine.progress import OnProgress, Progress
from stratalog.engine.threads import ThreadEngine
from stratalog.errors import DiskError
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.sampling import ENOUGH
from stratalog.log.cleaning.tally import Prefix, Tally
from stratalog.operations.estimate_report import EstimateReport, PartitionEstimate, TopicEstimate
from stratalog.operations.estimate_task import EstimateTask, estimate_partition
from stratalog.operations.looking import LookedAt
from stratalog.operations.named import listed_partitions, notes_on_names
from stratalog.operations.read_progress import ReadProgress, logs_size, nobody

AT_ONCE = 64  # partitions in one run of an engine

_Estimated = tuple[PartitionEstimate, list[Tally]]
_Outcomes = Generator[TaskOutcome[EstimateTask, _Estimated], None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimation:
    """A request: which directories and topics, and a full pass or a number of draws from each partition.

    `work_dir` is for the files between the passes over a log that has more keys than the offset map holds.
    `engine` runs the tasks, one for each partition; by default, threads of this process do.
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
    engine: Engine | None = None
    disk: DiskReader = field(default_factory=DiskReader)
    clock: Clock = system_clock

    def run(self, on_progress: OnProgress = nobody) -> EstimateReport:
        """Read and estimate; `on_progress` gets the topic.

        UsageError if no topic or partition has a given name, NotALogDirectoryError if a path is not a log
        directory. The `problems` of the report name directories that cannot be read, and the others are still
        estimated; DiskError if there are no others.
        """
        paths = unique_paths(self.disk, self.directories)
        for path in paths:
            with suppress(DiskError):  # listed below
                check_log_directory(self.disk, path)
        entries, unreadable = listed_partitions(self.disk, paths)
        readable = [path for path in paths if path not in unreadable]
        if unreadable and not readable:
            raise unreadable[paths[0]]
        notes = notes_on_names(entries, self.names, paths, unreadable)
        now = self.clock()
        known = KnownTopics(self.disk, readable, self.sources)
        running = _Running(replace(self, clock=lambda: now), readable, known, on_progress)
        topics = tuple(running.topics())
        return EstimateReport(
            topics=topics,
            now=now,
            notes=(*notes, *known.notes),
            problems=tuple(str(error) for error in unreadable.values()),
        )


def estimate(
    directories: Sequence[str | os.PathLike[str]],
    *,
    topics: Sequence[str] = (),
    sample: int | None = None,
    seed: int = 0,
    prefix: Prefix | None = None,
    top: int = 10,
    engine: Engine | None = None,
    on_progress: OnProgress = nobody,
) -> EstimateReport:
    """Estimate what compaction would free in these log directories of one node; change nothing.

    With `sample` that many batches are drawn from each partition, instead of a full pass. `engine` runs the
    tasks, one for each partition; by default, threads do. Raises what `Estimation.run` raises.
    """
    asked = Estimation(
        directories=[os.fspath(directory) for directory in directories],
        names=topics,
        draws=sample,
        seed=seed,
        prefix=prefix,
        top=top,
        engine=engine,
    )
    return asked.run(on_progress)


class _Running:
    """One run. Each task has an offset map; the counts of keys are dropped after each chunk of topics."""

    def __init__(
        self, asked: Estimation, paths: Sequence[str], known: KnownTopics, on_progress: OnProgress
    ) -> None:
        self._asked, self._known = asked, known
        self._on_progress, self._size_done = on_progress, 0
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
        self._sizes = sizes
        self._progress = ReadProgress(on_progress, sizes, stage="reading")

    def topics(self) -> Iterator[TopicEstimate]:
        for some in self._chunks():
            counted = {topic: _TopicKeys(self._asked.prefix) for topic in some}
            found = self._partitions(counted)
            for topic, keys in counted.items():
                top, least = self._asked.top, 0 if self._asked.draws is None else ENOUGH
                prefixes = keys.prefixes
                yield TopicEstimate(
                    topic=topic,
                    cleanup_policy=tuple(sorted(self._known.of(topic).cleanup_policy)),
                    partitions=tuple(found[topic]),
                    by_bytes=tuple(keys.keys.largest("bytes", top, least_draws=least)),
                    by_versions=tuple(keys.keys.largest("versions", top, least_draws=least)),
                    prefixes=()
                    if prefixes is None
                    else tuple(prefixes.largest("freed", top, least_draws=least)),
                )

    def _chunks(self) -> Iterator[list[str]]:
        """The topics in the order of their names; an engine, which may start slowly, gets several at once."""
        chunk: list[str] = []
        count = 0
        for topic in sorted(self._found):
            more = len(self._found[topic])
            if chunk and (self._asked.engine is None or count + more > AT_ONCE):
                yield chunk
                chunk, count = [], 0
            chunk.append(topic)
            count += more
        if chunk:
            yield chunk

    def _partitions(self, counted: Mapping[str, _TopicKeys]) -> dict[str, list[PartitionEstimate]]:
        """The estimates of these topics' partitions, in order; their keys are added to the topics'."""
        tasks = [
            self._task(path, found, keys)
            for topic, keys in counted.items()
            for path, found in self._found[topic]
        ]
        outcomes = self._here(tasks) if self._asked.engine is None else self._there(tasks)
        estimates: dict[int, PartitionEstimate] = {}
        with closing(outcomes):
            for outcome in outcomes:
                if outcome.error is not None:
                    estimates[outcome.number] = PartitionEstimate(
                        name=outcome.task.facts.found.entry.name,
                        topic=outcome.task.topic,
                        directory=outcome.task.directory,
                        error=str(outcome.error),
                    )
                    continue
                estimates[outcome.number], tallies = outcome.result
                if estimates[outcome.number].error is None:
                    counted[outcome.task.topic].merge(tallies)
        by_topic: dict[str, list[PartitionEstimate]] = {topic: [] for topic in counted}
        for number in range(len(tasks)):
            by_topic[tasks[number].topic].append(estimates[number])
        return by_topic

    def _task(self, path: str, found: FoundPartition, keys: _TopicKeys) -> EstimateTask:
        asked = self._asked
        return EstimateTask(
            directory=path,
            facts=self._looked_at[path].facts_of(found),
            now=asked.clock(),
            tallies=keys.blank,
            map_size=asked.manager.log_cleaner_dedupe_buffer_size,
            map_load_factor=asked.manager.log_cleaner_io_buffer_load_factor,
            draws=asked.draws,
            seed=asked.seed,
            work_dir=asked.work_dir,
        )

    def _here(self, tasks: Sequence[EstimateTask]) -> _Outcomes:
        """Estimate on threads of this process, with one reader for each device."""

        def estimate(disk: DiskReader, task: EstimateTask) -> _Estimated:
            with self._progress.part(task.facts.found.directory, task.topic) as on_read:
                return estimate_partition(disk, task, on_read)

        return ThreadEngine(1, disk=self._asked.disk).run(
            estimate, tasks, paths=[task.directory for task in tasks], on_progress=self._progress.tell
        )

    def _there(self, tasks: Sequence[EstimateTask]) -> _Outcomes:
        """Estimate on the caller's engine, some at a time: the keys of one partition may take megabytes."""
        assert self._asked.engine is not None
        for first in range(0, len(tasks), AT_ONCE):
            some = tasks[first : first + AT_ONCE]
            sizes = [self._sizes[task.facts.found.directory] for task in some]
            outcomes = self._asked.engine.run(
                estimate_partition,
                some,
                sizes=sizes,
                paths=[task.directory for task in some],
                on_progress=self._tell,
            )
            with closing(outcomes):
                for outcome in outcomes:
                    yield replace(outcome, number=first + outcome.number)
            self._size_done += sum(sizes)

    def _tell(self, progress: Progress) -> None:
        done, total = self._size_done + progress.bytes_done, sum(self._sizes.values())
        self._on_progress(replace(progress, stage="reading", bytes_done=done, bytes_total=total))


class _TopicKeys:
    """The keys of one topic, and their prefixes on request; `blank` are empty tallies for its tasks."""

    def __init__(self, prefix: Prefix | None) -> None:
        self.keys = Tally()
        self.prefixes = None if prefix is None else Tally(prefix)
        self._tallies = [self.keys] if self.prefixes is None else [self.keys, self.prefixes]
        self.blank = tuple(tally.blank() for tally in self._tallies)

    def merge(self, tallies: Sequence[Tally]) -> None:
        for tally, part in zip(self._tallies, tallies, strict=True):
            tally.merge(part)
