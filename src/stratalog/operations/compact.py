"""Compacts logs on request, whatever min.cleanable.dirty.ratio says.

A partition with more keys than the offset map can hold needs several passes, until its dirty part is clean.
An engine that can clean logs itself, such as one on a cluster, needs one pass for any number of keys.
Old segments are deleted before and after a cleaning. A broker's cleaner deletes them whenever it looks for
work, so old records are gone before a cleaning can merge their segment with a younger one. After a merge, the
younger records would keep the old ones. Kafka: LogCleaner.CleanerThread.cleanLog
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from stratalog.config import ManagerConfig, ServerConfig
from stratalog.directory.known_topics import TopicSources
from stratalog.engine.engine import Engine
from stratalog.engine.progress import OnProgress
from stratalog.errors import DiskError, StratalogError
from stratalog.log.cleaning.choice import LogToClean, facts_of_log, log_to_clean
from stratalog.log.cleaning.clean import DirtyLog, Replace
from stratalog.log.cleaning.distributed import foresee_parts
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.results import CleanResult
from stratalog.log.log import Log
from stratalog.log.retention import find_timestamps
from stratalog.operations.looking import Partition
from stratalog.operations.maintaining import Maintenance
from stratalog.operations.read_progress import CountRead, nobody
from stratalog.operations.rehearsing import Rehearser
from stratalog.operations.work_report import Cleaned, PartitionWork, WorkReport


@runtime_checkable
class CleaningEngine(Engine, Protocol):
    """An engine that compacts logs on other machines; this process replaces the segments."""

    def clean_log(
        self, log: DirtyLog, now_ms: int, replace_segments: Replace, *, on_read: CountRead
    ) -> CleanResult: ...


def compact(
    directories: Sequence[str | os.PathLike[str]],
    *,
    topics: Sequence[str] = (),
    server: ServerConfig | None = None,
    topic_settings: str | None = None,
    dry_run: bool = False,
    engine: Engine | None = None,
    on_progress: OnProgress = nobody,
) -> WorkReport:
    """Compact the compacted logs of a stopped node in these log directories, even if little is dirty.

    The settings of topics come from the cluster's metadata and the broker's `server`; those in
    `topic_settings`, which is JSON, take precedence. `engine`, if it is a `CleaningEngine` such as
    `SparkEngine`, compacts each log on a cluster; by default this process does. Raises what `Maintenance.run`
    raises.
    """
    maintenance = Maintenance(
        directories=[os.fspath(directory) for directory in directories],
        names=topics,
        sources=TopicSources(server=server, topic_settings=topic_settings),
        dry_run=dry_run,
    )
    config = ManagerConfig() if server is None else server.manager
    return maintenance.run(Compaction(config, rehearses=dry_run, engine=engine), on_progress)


class Compaction:
    """The work of `compact`. Each thread has one offset map, created when its first log needs it.

    `rehearses` is set for a dry run: its plan predicts the result to the byte, and reads as much as the run,
    in this process. With a `CleaningEngine` the plan also checks whether its workers could do the work. An
    `engine` of another kind is not used.
    """

    stage = "compacting"

    def __init__(
        self, config: ManagerConfig, *, rehearses: bool = False, engine: Engine | None = None
    ) -> None:
        self._config = config
        self._rehearses = rehearses
        self._engine = engine if isinstance(engine, CleaningEngine) else None
        self._maps = threading.local()

    def plan(self, partition: Partition, now: int, on_read: CountRead) -> PartitionWork:
        """The dirty part, and the segments that a compacted log deletes before the cleaning."""
        found = partition.to_clean(now)
        if found is None:
            return PartitionWork(name=partition.name)
        if self._rehearses:
            return self._rehearse(partition, now, on_read)
        cleaned = None
        if _has_work(found):
            cleaned = Cleaned(
                first_dirty=found.first_dirty,
                end_offset=found.first_uncleanable,
                cleanable_size=found.cleanable_size,
            )
        gone = tuple(each for each in partition.decisions(now) if each.is_deleted)
        return PartitionWork(name=partition.name, cleaned=cleaned, deleted=gone)

    def do(
        self,
        log: Log,
        planned: PartitionWork,
        cleaner_checkpoint: int | None,
        now: int,
        on_read: CountRead,
    ) -> PartitionWork:
        find_timestamps(tuple(log.segments.readers))  # as the plan has done
        gone = log.delete_old_segments()
        cleaned, error = self._clean(log, cleaner_checkpoint, now, on_read)
        return replace(planned, cleaned=cleaned, error=error, deleted=(*gone, *log.delete_old_segments()))

    def _rehearse(self, partition: Partition, now: int, on_read: CountRead) -> PartitionWork:
        rehearser = Rehearser(
            disk=partition.disk,
            clock=lambda: now,
            offset_map=self._offset_map(),
            in_one_pass=self._engine is not None,
            on_read=on_read,
        )
        try:
            found = rehearser.rehearse(partition, partition.config)
            self._foresee(partition, now)
        except StratalogError as error:
            # Old segments are deleted before the cleaning, even if the cleaning fails.
            gone = tuple(each for each in partition.decisions(now) if each.is_deleted)
            words = f"the result of a compaction is not known: {error}"
            return PartitionWork(name=partition.name, error=words, deleted=gone)
        cleaned = None
        if found.found is not None and found.not_known is None:
            cleaned = Cleaned(
                first_dirty=found.found.first_dirty,
                end_offset=found.end_offset,
                cleanable_size=found.found.cleanable_size,
                passes=found.passes,
                size_before=found.size_before,
                size_after=found.size_after,
                records_read=found.records_read,
                records_written=found.records_written,
                records_without_key=found.records_without_key,
            )
        return PartitionWork(
            name=partition.name, cleaned=cleaned, not_known=found.not_known, deleted=found.deleted
        )

    def _foresee(self, partition: Partition, now: int) -> None:
        """Raise the error with which the engine would refuse the log."""
        found = partition.to_clean(now)
        if self._engine is None or found is None or not _has_work(found):
            return
        segments = partition.view.segments.range(0, found.first_uncleanable)
        foresee_parts(partition.disk, segments, self._engine)

    def _offset_map(self) -> OffsetMap:
        if not hasattr(self._maps, "map"):
            self._maps.map = OffsetMap(
                self._config.log_cleaner_dedupe_buffer_size,
                load_factor=self._config.log_cleaner_io_buffer_load_factor,
            )
        found: OffsetMap = self._maps.map
        return found

    def _clean(
        self, log: Log, checkpoint: int | None, now: int, on_read: CountRead
    ) -> tuple[Cleaned | None, str | None]:
        done: Cleaned | None = None
        size_before = log.size
        while _has_work(found := log_to_clean(facts_of_log(log), checkpoint, now)):
            try:
                result = self._clean_once(log, found, on_read)
            except DiskError:
                raise
            except StratalogError as error:  # only this log fails, as in the cleaner of a running node
                return done, f"its compaction stopped early: {error}"
            checkpoint = result.end_offset
            before = done or Cleaned(
                first_dirty=found.first_dirty, end_offset=checkpoint, cleanable_size=found.cleanable_size
            )
            done = replace(
                before,
                end_offset=checkpoint,
                passes=before.passes + 1,
                size_before=size_before,
                size_after=log.size,
                records_read=before.records_read + result.stats.records_read,
                records_written=before.records_written + result.stats.records_written,
                records_without_key=before.records_without_key + result.stats.records_without_key,
            )
        return done, None

    def _clean_once(self, log: Log, found: LogToClean, on_read: CountRead) -> CleanResult:
        engine = self._engine
        if engine is None:
            return log.clean(found.first_dirty, found.first_uncleanable, self._offset_map(), on_read=on_read)

        def clean(dirty: DirtyLog, now_ms: int, replace_segments: Replace) -> CleanResult:
            return engine.clean_log(dirty, now_ms, replace_segments, on_read=on_read)

        return log.clean_by(clean, found.first_dirty, found.first_uncleanable)


def _has_work(found: LogToClean) -> bool:
    return found.first_dirty < found.first_uncleanable and found.cleanable_size > 0
