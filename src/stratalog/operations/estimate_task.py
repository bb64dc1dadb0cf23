"""The estimate of one partition, as a task that runs on a thread or on another machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from stratalog.config import LogConfig
from stratalog.errors import StratalogError
from stratalog.files.reading import DiskReader
from stratalog.log.cleaning.clean import DirtyLog
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.sampling import sample_log
from stratalog.log.cleaning.tally import KeyTally, Tally
from stratalog.operations.estimate_report import PartitionEstimate
from stratalog.operations.looking import KnownPartition, Partition, UnreadablePartition, open_partition
from stratalog.operations.read_progress import CountRead
from stratalog.operations.rehearsing import Rehearser, find_dirty, last_records_of_view, set_stage

COMPACT = frozenset({"compact"})


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateTask:
    """A partition of a log directory, and all that its estimate depends on.

    `tallies` are empty; the keys of the partition are added to copies of them.
    """

    directory: str
    facts: KnownPartition
    now: int
    tallies: tuple[Tally, ...]
    map_size: int
    map_load_factor: float
    draws: int | None
    seed: int
    work_dir: str | None

    @property
    def topic(self) -> str:
        return self.facts.found.topic_partition.topic

    def clock(self) -> int:
        return self.now

    def offset_map(self) -> OffsetMap:
        return OffsetMap(self.map_size, load_factor=self.map_load_factor)


def _uncounted(size: int) -> None:
    """The default for `on_read`: does nothing."""


def estimate_partition(
    disk: DiskReader, task: EstimateTask, on_read: CountRead = _uncounted
) -> tuple[PartitionEstimate, list[Tally]]:
    """The estimate, and the keys of the partition. An error of the log is part of its estimate."""
    tallies = [tally.blank() for tally in task.tallies]
    with open_partition(disk, task.clock, task.facts) as partition:
        return _estimate(task, partition, tallies, on_read), tallies


def _estimate(
    task: EstimateTask,
    partition: Partition | UnreadablePartition,
    tallies: Sequence[Tally],
    on_read: CountRead,
) -> PartitionEstimate:
    path = task.directory
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
        if task.draws is None:
            return _in_full(task, partition, config, blank, tallies, on_read)
        return _sampled(task, partition, config, blank, tallies, on_read)
    except StratalogError as error:  # only this log fails
        return replace(blank, error=str(error))


def _in_full(
    task: EstimateTask,
    partition: Partition,
    config: LogConfig,
    blank: PartitionEstimate,
    tallies: Sequence[Tally],
    on_read: CountRead,
) -> PartitionEstimate:
    tally = KeyTally([*tallies])
    rehearser = Rehearser(
        disk=partition.disk,
        clock=task.clock,
        offset_map=task.offset_map(),
        work_dir=task.work_dir,
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
    task: EstimateTask,
    partition: Partition,
    config: LogConfig,
    blank: PartitionEstimate,
    tallies: Sequence[Tally],
    on_read: CountRead,
) -> PartitionEstimate:
    now = task.now
    assert task.draws is not None
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
        last_records=last_records_of_view(partition.view, partition.disk, task.clock),
    )
    sampled = sample_log(
        log,
        task.offset_map(),
        draws_count=task.draws,
        seed=task.seed,
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
        # For a backup without its checkpoints: otherwise no record would count as replicated, and nothing
        # could be cleaned.
        assumptions.append("no high watermark is known: all records are assumed to be replicated")
        partition.high_watermark = marks.log_end_offset
    if not config.compact:
        policy = ",".join(sorted(config.cleanup_policy)) or "empty"
        assumptions.append(f"cleanup.policy is {policy}: estimated as if it were compact")
        config = replace(config, cleanup_policy=COMPACT)
    return config, tuple(assumptions)
