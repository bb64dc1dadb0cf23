"""Compacts one log: finds the last offset of each key in its dirty part, then rewrites the segments.

Two passes. The first reads [first_dirty_offset, first_uncleanable_offset) into the offset map, as far as the
map has room. The second reads the log from its first segment up to the last offset in the map, and writes the
records that stay into `.cleaned` files; several small segments become one. Each new segment replaces its
group of originals before the next group is begun (`replace.py`), so cleaning needs disk space for only one
more segment. If possible, the first pass reads backwards, and the second only copies what the first has put
aside (`newest_first.py`); that takes the disk space of another segment.

Locks, cleaner threads and checkpoints are not handled here: the manager and the command line do that.
Kafka: Cleaner.doClean
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from stratalog.clock import Clock, system_clock
from stratalog.config import LogConfig
from stratalog.errors import DiskError
from stratalog.files.disk import changing
from stratalog.files.names import FileState
from stratalog.files.reading import DiskReader
from stratalog.files.refusals import FULL_DISK
from stratalog.log.cleaning.filter import FilteredRun, JudgedRun, LastRecord, Rules, RunFilter
from stratalog.log.cleaning.groups import groups_of
from stratalog.log.cleaning.newest import NewerRecords
from stratalog.log.cleaning.newest_first import NewestFirst, Spooled, SpooledSegment
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.cleaning.output import CleanedOutput
from stratalog.log.cleaning.results import CleanedSegment, CleanerStats, CleanResult
from stratalog.log.cleaning.runs import DecodedRun, RunReader
from stratalog.log.cleaning.spool import LostSpoolError
from stratalog.log.cleaning.transactions import NO_DATA, CleanedTransactions, OpenData, aborted_between
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.segments import SegmentReaders
from stratalog.segment.headers import CHUNK_SIZE
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_reader import SegmentReader
from stratalog.segment.txn_index import AbortedTxn

logger = logging.getLogger(__name__)

Replace = Callable[[LogSegment, Sequence[SegmentReader]], object]
"""Replaces the original segments by the cleaned one."""
Observe = Callable[[DecodedRun, FilteredRun], object]
"""Called with every run of the second pass, and what is left of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirtyLog:
    """A log to clean: its segments, the bounds that its manager has found, and its producers.

    `first_dirty_offset` is where the last cleaning ended, `first_uncleanable_offset` the base of the first
    segment that is left alone. `last_records` has the last record of each active producer; its batch
    stays. `cleaned_directory` is where cleaned files are written, if not beside the originals. `aborted` are
    all aborted transactions of the log, if they are known and are not to be read from its indexes.
    """

    disk: DiskReader
    segments: SegmentReaders
    config: LogConfig
    first_dirty_offset: int
    first_uncleanable_offset: int
    last_records: Mapping[int, LastRecord]
    cleaned_directory: str | None = None
    aborted: tuple[AbortedTxn, ...] | None = None
    clock: Clock = system_clock

    def aborted_between(self, start_offset: int, end_offset: int) -> list[AbortedTxn]:
        """The aborted transactions that touch [start_offset, end_offset)."""
        if self.aborted is None:
            return aborted_between(self.segments, start_offset, end_offset)
        return [
            each
            for each in self.aborted
            if each.first_offset < end_offset and each.last_offset >= start_offset
        ]


def _go_on() -> None:
    """The default for `check_done`: never stops the cleaning."""


def _at_full_speed(size: int) -> None:
    """The default for `throttle`: no limit."""


def _uncounted(size: int) -> None:
    """The default for `on_read`: does nothing."""


def _unseen(run: DecodedRun, kept: FilteredRun) -> None:
    """The default for the observer: does nothing."""


def clean_log(
    log: DirtyLog,
    offset_map: OffsetMap,
    *,
    now_ms: int,
    replace_segments: Replace | None,
    check_done: Callable[[], object] = _go_on,
    throttle: Callable[[int], object] = _at_full_speed,
    on_read: Callable[[int], object] = _uncounted,
    observe: Observe = _unseen,
) -> CleanResult:
    """Compact the log once. With `replace_segments` None nothing is written: the result is a forecast.

    There is no forecast for a log with more keys than the map has room for, because a later round would read
    what an earlier one has written. Nothing is filtered then; the result has no groups and ends where the map
    was full.

    `check_done` is called for every run of batches, usually a megabyte or less. If it raises an error, the
    cleaning stops: unfinished files are deleted, finished groups stay. `throttle` is called with the number
    of bytes read and written, `on_read` with the number read. A damaged batch is a CorruptRecordError; its
    group of segments is then unchanged.
    """
    stats = CleanerStats()
    if log.first_dirty_offset >= log.first_uncleanable_offset:
        return CleanResult(end_offset=log.first_dirty_offset, groups=(), stats=stats)
    cleaning = Cleaning(
        log,
        offset_map,
        now_ms,
        stats,
        check_done=check_done,
        throttle=throttle,
        on_read=on_read,
        observe=observe,
    )
    with cleaning:
        cleaning.build(offset_map, may_spool=replace_segments is not None)
        end_offset = offset_map.latest_offset + 1
        stats.map_utilization = offset_map.utilization
        if replace_segments is None and end_offset < log.first_uncleanable_offset:
            return CleanResult(end_offset=end_offset, groups=(), stats=stats)
        segments = log.segments.range(0, end_offset)
        groups = groups_of(segments, log.config, log.first_uncleanable_offset)
        cleaned = tuple([cleaning.clean_group(group, replace_segments) for group in groups])
    bases = tuple(tuple(segment.base_offset for segment in group) for group in groups)
    return CleanResult(end_offset=end_offset, groups=bases, cleaned=cleaned, stats=stats)


def last_records_of(producers: Iterable[ProducerStateEntry]) -> dict[int, LastRecord]:
    """The last record of each producer of a log, for compaction. Kafka: lastRecordsOfActiveProducers"""
    return {
        entry.producer_id: LastRecord(
            entry.last_data_offset if entry.last_data_offset >= 0 else None, entry.producer_epoch
        )
        for entry in producers
    }


class SegmentRules:
    """The rules for the records of each segment of a log, in one round."""

    def __init__(self, log: DirtyLog, now_ms: int) -> None:
        self._rules = Rules(
            now_ms=now_ms,
            delete_retention_ms=log.config.delete_retention_ms,
            end_of_round=log.first_uncleanable_offset,
        )
        clean = log.segments.range(0, log.first_dirty_offset)
        # Tombstones of formats 0 and 1 have no horizon: the age of the clean part is used instead.
        self._old_horizon_ms = clean[-1].modified_ms - log.config.delete_retention_ms if clean else 0

    def of(self, segment: SegmentReader) -> Rules:
        return replace(self._rules, keeps_old_tombstones=segment.modified_ms > self._old_horizon_ms)


class Cleaning:
    """One round of the cleaner over a log, or some of its groups; transactions are tracked across groups.

    `before` are the producers that have records without a marker before the first of these groups. `threads`
    is how many threads decode, as for a `RunReader`.
    """

    def __init__(
        self,
        log: DirtyLog,
        newest: NewerRecords,
        now_ms: int,
        stats: CleanerStats,
        *,
        before: OpenData = NO_DATA,
        check_done: Callable[[], object] = _go_on,
        throttle: Callable[[int], object] = _at_full_speed,
        on_read: Callable[[int], object] = _uncounted,
        observe: Observe = _unseen,
        threads: int | None = None,
    ) -> None:
        self._log, self._newest, self._stats = log, newest, stats
        self._check_done, self._throttle = check_done, throttle
        self._on_read, self._observe = on_read, observe
        self._reader = RunReader(newest.hash_rows, threads=threads)
        self._transactions = CleanedTransactions(before)
        self._rules = SegmentRules(log, now_ms)
        self._spooled: Spooled | None = None
        self._read_in_vain = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._give_up_spool()

    def _give_up_spool(self) -> None:
        spooled, self._spooled = self._spooled, None
        if spooled is not None:
            spooled.spool.close()

    def build(self, offset_map: OffsetMap, *, may_spool: bool = False) -> None:
        """Store every key of the dirty part, or as many as the map holds. Kafka: Cleaner.buildOffsetMap

        With `may_spool`, the part is read backwards if possible, and what stays of it is put aside.
        """
        start, end = self._log.first_dirty_offset, self._log.first_uncleanable_offset
        dirty = self._log.segments.range(start, end)
        offset_map.clear()
        if may_spool and self._build_backwards(offset_map, dirty):
            return
        offset_map.note_offsets(start, end)
        transactions = CleanedTransactions()
        transactions.add_aborted(self._log.aborted_between(start, end))
        for index, segment in enumerate(dirty):
            self._check_done()
            if self._note_keys(offset_map, segment, transactions):
                logger.debug("%s: the offset map is full with %d keys", segment.log_path, offset_map.size)
                break
            # Offsets may be missing at the end of a segment. If the map ended at the last record, the log
            # would stay dirty there forever.
            following = dirty[index + 1].base_offset if index + 1 < len(dirty) else end
            offset_map.latest_offset = following - 1
        offset_map.settle()

    def _build_backwards(self, offset_map: OffsetMap, dirty: Sequence[SegmentReader]) -> bool:
        """Store all keys and put aside what stays; False, with an empty map, if that is not possible."""
        log, stats = self._log, self._stats
        is_small = sum(segment.size for segment in dirty) <= CHUNK_SIZE
        if is_small or self._observe is not _unseen:
            return False

        def on_run(size: int, written: int) -> None:
            self._check_done()
            self._throttle(size + written)
            self._on_read(size)
            self._read_in_vain += size

        newest_first = NewestFirst(offset_map, self._reader, log.last_records, self._rules.of, on_run)
        self._spooled = newest_first.read(changing(log.disk), log, dirty)
        if self._spooled is None:
            return False
        self._read_in_vain = 0
        stats.map_bytes_read, stats.map_records_read = self._spooled.bytes_read, self._spooled.records_read
        return True

    def _note_keys(
        self, offset_map: OffsetMap, segment: SegmentReader, transactions: CleanedTransactions
    ) -> bool:
        """Store the keys of a segment; True if the map was full before the segment's end."""
        start_offset = self._log.first_dirty_offset
        stats = self._stats
        is_whole = segment.base_offset >= start_offset
        position = 0 if is_whole else segment.offset_index.lookup(start_offset).position
        with self._reader.read(segment, position) as runs:
            for run in runs:
                self._check_done()
                self._throttle(run.size)
                # Bytes that were already read backwards, in vain, are not counted a second time.
                again = min(run.size, self._read_in_vain)
                self._read_in_vain -= again
                self._on_read(run.size - again)
                aborted = np.zeros(len(run.batches), np.bool_)
                transactions.read_batches(run.data, run.batches, run.rows, aborted)
                seen, is_full = offset_map.put_records(
                    run.batches, aborted, run.rows, run.hashes, start_offset
                )
                stats.map_records_read += seen
                if is_full:
                    return True
                stats.map_bytes_read += run.size
        return False

    def clean_group(self, group: Sequence[SegmentReader], replace_segments: Replace | None) -> CleanedSegment:
        """Write those records that stay into one new segment, and replace the segments of the group by it."""
        if replace_segments is None:
            return self._filter_into(None, group)
        before = replace(self._stats)
        try:
            cleaned, facts = self._written(group)
        except (DiskError, LostSpoolError) as error:
            if self._spooled is None or (isinstance(error, DiskError) and error.errno not in FULL_DISK):
                raise
            # The originals have everything, and without the spool there is more room.
            self._give_up_spool()
            self._stats.go_back_to(before)
            cleaned, facts = self._written(group)
        replace_segments(cleaned, group)
        return facts

    def _written(self, group: Sequence[SegmentReader]) -> tuple[LogSegment, CleanedSegment]:
        """The new segment of a group, on the device."""
        cleaned = self._create(group[0])
        is_complete = False
        try:
            facts = self._filter_into(cleaned, group)
            cleaned.on_become_inactive()
            cleaned.flush()
            # Records without a timestamp are as old as their file, and so are tombstones of old formats.
            cleaned.set_modified(facts.modified_ms)
            is_complete = True
        finally:
            if not is_complete:
                with suppress(DiskError):  # the next load deletes them
                    cleaned.delete()
        return cleaned, facts

    def _filter_into(self, cleaned: LogSegment | None, group: Sequence[SegmentReader]) -> CleanedSegment:
        aborted: list[AbortedTxn] = []
        self._transactions.keep_aborted = aborted.append
        # Kafka reads the producers' last records again for each group. Here they are read once: so a batch
        # that is no longer the last one may be kept longer than necessary, which does no harm.
        run_filter = RunFilter(self._newest, self._log.last_records)
        is_behind = self._observe is _unseen and sum(segment.size for segment in group) > CHUNK_SIZE
        output = CleanedOutput(cleaned, is_behind=is_behind)
        spooled = {} if self._spooled is None else self._spooled.segments
        try:
            with output:
                for index, segment in enumerate(group):
                    if (kept := spooled.get(segment.base_offset)) is not None:
                        self._copy(segment, kept, output)
                        continue
                    is_last = index + 1 == len(group)
                    end = segment.read_next_offset() if is_last else group[index + 1].base_offset
                    self._transactions.add_aborted(self._log.aborted_between(segment.base_offset, end))
                    self._filter(segment, run_filter, output, aborted)
        finally:
            output.stop()  # Ctrl-C may come while the context is entered or left
        self._throttle_writes(output)
        self._stats.bytes_written += output.size
        return CleanedSegment(group[0].base_offset, output.size, output.max_timestamp, group[-1].modified_ms)

    def _filter(
        self, segment: SegmentReader, run_filter: RunFilter, output: CleanedOutput, aborted: list[AbortedTxn]
    ) -> None:
        """Decode a segment, and write the records that stay."""
        rules = self._rules.of(segment)
        is_hashed = self._newest.needs_hashes(segment.base_offset)
        with self._reader.read(segment, is_hashed=is_hashed) as runs:
            for run in runs:
                self._check_done()
                self._throttle(run.size)
                self._on_read(run.size)
                judged = run_filter.judge(run, self._transactions, rules, output.memory())
                self._count(run, judged)
                if self._observe is _unseen:
                    output.put(judged, tuple(aborted))
                else:
                    kept = judged.finish()
                    self._observe(run, kept)
                    output.write(kept, aborted)
                    output.give_back(judged)
                aborted.clear()
                self._throttle_writes(output)

    def _copy(self, segment: SegmentReader, kept: SpooledSegment, output: CleanedOutput) -> None:
        """Write what the first pass has put aside; counts as if the segment had been read again."""
        assert self._spooled is not None
        self._check_done()
        for judged in self._spooled.runs(kept, output.memory):
            self._check_done()
            self._throttle(judged.size)
            output.put(judged, ())
            self._throttle_writes(output)
        self._on_read(segment.size)
        stats = self._stats
        stats.bytes_read += segment.size
        stats.records_read += kept.records_read
        stats.records_without_key += kept.records_without_key
        stats.records_written += kept.records_written

    def _throttle_writes(self, output: CleanedOutput) -> None:
        if output.is_written and (written := output.newly_written()):
            self._throttle(written)

    def _count(self, run: DecodedRun, judged: JudgedRun) -> None:
        stats = self._stats
        stats.bytes_read += run.size
        stats.records_read += judged.records_read
        stats.records_without_key += judged.records_without_key
        stats.records_written += judged.records_written

    def _create(self, first: SegmentReader) -> LogSegment:
        disk, config = changing(self._log.disk), self._log.config
        suffix = FileState.CLEANED.value
        directory = self._log.cleaned_directory or first.directory
        # Deletes the files that a failed cleaning has left.
        LogSegment.open(
            disk, directory, first.base_offset, config, self._log.clock, suffix=suffix, size=0
        ).delete()
        return LogSegment.create(
            disk,
            directory,
            first.base_offset,
            config,
            self._log.clock,
            suffix=suffix,
            size=config.initial_file_size,
        )
