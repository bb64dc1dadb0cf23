"""Finds what `compact` would do to a log: runs the same passes by the same rules, and changes nothing.

First, the old segments that retention would delete are left out. Then the cleaner runs, and only counts what
it would write. Then retention decides once more, because the largest timestamp of a segment may be lower
after the cleaning. The log directory is not written to.

A log with more keys than the offset map can hold takes several passes, and each pass reads what the previous
one has written. These files go to a separate directory, outside the log, which is removed at the end. A
cluster needs one pass for any number of keys: with `in_one_pass`, such a log is read again with a larger map.
Several passes cannot replace that reading, because they can leave fewer records than one pass.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptSnapshotError, DiskError
from stratalog.files.disk import Disk
from stratalog.files.names import FileState
from stratalog.files.reading import DiskReader
from stratalog.log.api.view import LogView
from stratalog.log.cleaning.choice import LogFacts, LogToClean, log_to_clean
from stratalog.log.cleaning.clean import DirtyLog, clean_log, last_records_of
from stratalog.log.cleaning.filter import FilteredRun, LastRecord
from stratalog.log.cleaning.offset_map import DEFAULT_LOAD_FACTOR, SLOT_SIZE, OffsetMap
from stratalog.log.cleaning.results import CleanResult
from stratalog.log.cleaning.runs import DecodedRun
from stratalog.log.cleaning.tally import KeyTally
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.producers.rebuild import replay_segment
from stratalog.log.retention import Decision, Marks, SegmentFacts, decide, facts_of
from stratalog.log.segments import SegmentReaders
from stratalog.operations.looking import Partition
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader

# A map for 200 million keys. The one pass of a cluster over a log with more keys cannot be rehearsed.
LARGEST_MAP_SIZE = 5 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a compaction would do. Sizes are those of .log files.

    `found` is the dirty part to clean. `cleanable_size` is everything that the cleaner reads for it,
    including the clean part.

    `deleted` are the segments that retention deletes, before the cleaning and after it. `not_known` says why
    the cleaning could not be rehearsed.
    """

    found: LogToClean | None
    not_known: str | None = None
    deleted: tuple[Decision, ...] = ()
    end_offset: int = -1
    passes: int = 0
    size_before: int = 0
    size_after: int = 0
    records_read: int = 0
    records_written: int = 0
    records_without_key: int = 0
    cleanable_size: int = 0

    @property
    def deleted_size(self) -> int:
        return sum(decision.segment.size for decision in self.deleted)

    @property
    def freed(self) -> int:
        """The bytes that compaction alone frees."""
        return self.size_before - self.size_after


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """A log as compaction finds it, after retention has deleted old segments."""

    segments: SegmentReaders
    log_start_offset: int
    deleted: tuple[Decision, ...]
    config: LogConfig


def set_stage(partition: Partition, config: LogConfig, now: int) -> Stage:
    """The log under these settings, which may differ from its own."""
    view, segments = partition.view, tuple(partition.view.segments)
    decisions = decide(facts_of(segments), partition.marks, config, now)
    gone = tuple(decision for decision in decisions if decision.is_deleted)
    rest = segments[len(gone) :]
    # If all segments are deleted, a run begins a new, empty one, and there is nothing to clean.
    start = max(view.log_start_offset, rest[0].base_offset) if rest else view.log_end_offset
    return Stage(segments=SegmentReaders(rest), log_start_offset=start, deleted=gone, config=config)


def find_dirty(partition: Partition, stage: Stage, checkpoint: int | None, now: int) -> LogToClean | None:
    """The dirty part to clean, or None."""
    if not len(stage.segments):
        return None
    view = partition.view
    facts = LogFacts(
        partition.topic_partition,
        tuple(stage.segments),
        stage.log_start_offset,
        min(view.last_stable_offset, partition.high_watermark),
        view.log_end_offset,
        stage.config,
    )
    found = log_to_clean(facts, checkpoint, now)
    return found if found.first_dirty < found.first_uncleanable and found.cleanable_size > 0 else None


def last_records_of_view(view: LogView, disk: DiskReader, clock: Clock) -> dict[int, LastRecord]:
    """What compaction must know about producers, read as at a start after a clean shutdown."""
    producers = ProducerStateManager(
        disk,
        view.directory,
        clock=clock,
        producer_id_expiration_ms=view.config.producer_id_expiration_ms,
    )
    if producers.snapshots.latest is None:
        return {}
    start = view.log_start_offset
    for offset in reversed([*producers.snapshots.offsets]):
        if not start < offset <= view.log_end_offset:
            continue
        try:
            entries = producers.snapshots.read(offset)
        except CorruptSnapshotError:
            continue
        for entry in entries:
            producers.load_producer_entry(entry)
        producers.remove_expired_producers(clock())
        start = offset
        break
    for segment in view.segments.range(start, view.log_end_offset):
        replay_segment(producers, segment, max(start, segment.base_offset), view.log_end_offset)
    return last_records_of(producers.producers.values())


@dataclass(slots=True, kw_only=True)
class Rehearser:
    """Rehearses logs one after the other, with one offset map.

    `in_one_pass`: the compaction does not depend on the size of the map.
    """

    disk: DiskReader
    clock: Clock
    offset_map: OffsetMap
    in_one_pass: bool = False
    work_dir: str | None = None
    tally: KeyTally | None = None
    on_read: Callable[[int], object] = field(default=lambda _: None)

    def rehearse(self, partition: Partition, config: LogConfig) -> Rehearsal:
        """What compacting this log under these settings would do."""
        now = self.clock()
        stage = set_stage(partition, config, now)
        found = find_dirty(partition, stage, partition.cleaner_checkpoint, now)
        size = sum(segment.size for segment in stage.segments)
        if found is None:
            return Rehearsal(found=None, deleted=stage.deleted, size_before=size, size_after=size)
        last_records = last_records_of_view(partition.view, self.disk, self.clock)
        # `found.total_size` is not used: as in Kafka, it counts the first segment of the dirty part twice.
        cleanable_size = sum(
            each.size for each in stage.segments if each.base_offset < found.first_uncleanable
        )
        log = DirtyLog(
            disk=self.disk,
            segments=stage.segments,
            config=config,
            first_dirty_offset=found.first_dirty,
            first_uncleanable_offset=found.first_uncleanable,
            last_records=last_records,
        )
        result = self._first_pass(log, self.offset_map, now)
        if self.in_one_pass and result.end_offset < found.first_uncleanable:
            larger = _map_for(found.first_uncleanable - found.first_dirty)
            result = self._first_pass(log, larger, now)
            if result.end_offset < found.first_uncleanable:
                words = (
                    f"its dirty part has more than {larger.capacity:,} keys, too many for the memory of a "
                    "dry run. The cluster compacts it in one pass"
                )
                return Rehearsal(
                    found=found, not_known=words, deleted=stage.deleted, size_before=size, size_after=size
                )
        if result.end_offset >= found.first_uncleanable:
            facts = _facts_after(stage.segments, result)
            rehearsal = self._rehearsal(partition, stage, found, [result], facts, now)
            return replace(rehearsal, cleanable_size=cleanable_size)
        with self._spool(size) as directory:
            results = self._several_passes(partition, stage, log, found, directory, now)
            facts = list(facts_of(stage.segments))
            rehearsal = self._rehearsal(partition, stage, found, results, facts, now)
            return replace(rehearsal, cleanable_size=cleanable_size)

    def _first_pass(self, log: DirtyLog, offset_map: OffsetMap, now: int) -> CleanResult:
        """Clean as far as the map reaches, and write nothing."""
        self._begin_pass(0)
        return clean_log(
            log, offset_map, now_ms=now, replace_segments=None, on_read=self.on_read, observe=self._observe
        )

    def _rehearsal(
        self,
        partition: Partition,
        stage: Stage,
        found: LogToClean,
        results: Sequence[CleanResult],
        facts: Sequence[SegmentFacts],
        now: int,
    ) -> Rehearsal:
        marks = Marks(stage.log_start_offset, partition.high_watermark, partition.view.log_end_offset)
        later = tuple(each for each in decide(facts, marks, stage.config, now) if each.is_deleted)
        size_after = sum(segment.size for segment in facts)
        freed = sum(result.stats.bytes_read - result.stats.bytes_written for result in results)
        return Rehearsal(
            found=found,
            deleted=(*stage.deleted, *later),
            end_offset=results[-1].end_offset,
            passes=len(results),
            size_before=size_after + freed,
            size_after=size_after,
            records_read=sum(result.stats.records_read for result in results),
            records_written=sum(result.stats.records_written for result in results),
            records_without_key=sum(result.stats.records_without_key for result in results),
        )

    def _several_passes(
        self, partition: Partition, stage: Stage, log: DirtyLog, found: LogToClean, directory: str, now: int
    ) -> list[CleanResult]:
        results: list[CleanResult] = []
        written: dict[int, LogSegment] = {}
        new_from = 0

        def swap(new: LogSegment, old: Sequence[SegmentReader]) -> None:
            for segment in old:
                if segment.directory == directory:
                    written.pop(segment.base_offset).delete()
            new.change_suffixes(FileState.CLEANED.value, FileState.LIVE.value)
            written[new.base_offset] = new
            gone = {segment.base_offset for segment in old}
            kept = [segment for segment in stage.segments if segment.base_offset not in gone]
            stage.segments.replace([*kept, new.reader])

        dirty: LogToClean | None = found
        while dirty is not None:
            self._begin_pass(new_from)
            result = clean_log(
                replace(log, disk=Disk(), cleaned_directory=directory, first_dirty_offset=dirty.first_dirty),
                self.offset_map,
                now_ms=now,
                replace_segments=swap,
                on_read=self.on_read,
                observe=self._observe,
            )
            results.append(result)
            new_from = stage.segments.above(result.end_offset - 1)[0].base_offset
            dirty = find_dirty(partition, stage, result.end_offset, now)
        return results

    def _begin_pass(self, new_from: int) -> None:
        if self.tally is not None:
            self.tally.begin_pass(new_from)

    def _observe(self, run: DecodedRun, kept: FilteredRun) -> None:
        if self.tally is not None:
            self.tally.observe(run, kept)

    @contextmanager
    def _spool(self, size: int) -> Iterator[str]:
        """A directory with room for the log; DiskError if there is not enough room."""
        parent = self.work_dir or tempfile.gettempdir()
        free = Disk().free_size(parent)
        if free < size:
            raise DiskError(
                parent,
                "a log with more keys than the offset map can hold needs several passes. Their files may "
                f"need {size} bytes, and {free} are free here. Name another place with TMPDIR, or with "
                "`estimate --work-dir`; or raise log.cleaner.dedupe.buffer.size in the file of --config.",
                errno.ENOSPC,
            )
        with tempfile.TemporaryDirectory(prefix="stratalog-", dir=parent) as directory:
            try:
                yield directory
            finally:
                Disk().release(directory)


def _map_for(offsets_count: int) -> OffsetMap:
    """A map that holds a key for each of these offsets, but not a larger one than memory allows."""
    size = SLOT_SIZE * (int(offsets_count / DEFAULT_LOAD_FACTOR) + 2)
    return OffsetMap(min(size, LARGEST_MAP_SIZE))


def _facts_after(segments: SegmentReaders, result: CleanResult) -> list[SegmentFacts]:
    """The facts of the segments as they would be after a pass, which wrote nothing in the rehearsal."""
    gone = {base for group in result.groups for base in group}
    kept = [each for each in segments if each.base_offset not in gone]
    return [*facts_of(result.cleaned), *facts_of(kept)]
