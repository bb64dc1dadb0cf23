"""A second look at damaged segments, for whoever has no other copy: what behind the damage can be kept.

It comes between the scans and the plan, as it needs both: which transactions are open at a gap, the segments
before it say. From then on they are in doubt in every following segment too, up to their producer's next
marker, so that an undamaged one may be rewritten as well. Results come back as if the segments were what will
be left of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import NamedTuple

from stratalog.files.disk import Disk
from stratalog.log.recovery.result_scans import ResultScans
from stratalog.log.recovery.salvage import OPEN_TRANSACTION, Salvage, find_readable, kept_reader
from stratalog.log.recovery.sequence import RecoverySequence, SegmentState
from stratalog.log.recovery.stitch import EpochStitch, SnapshotSet
from stratalog.log.recovery.survey import Survey
from stratalog.log.recovery.task import ScanResult, ScanTask, result_of
from stratalog.segment.scan import ScanStop, SegmentScan, scan_reader

WIDEST = 2**31  # no offset of a segment is so far from its base


def salvage_results(disk: Disk, survey: Survey, results: Mapping[str, ScanResult]) -> dict[str, ScanResult]:
    """The results, those of damaged segments replaced by what can be kept of them.

    Only segments that may be cut are looked at: what counts as flushed is left as it is.
    """
    return _Salvaging(disk, survey, results).run()


class _Doubt(NamedTuple):
    """A transaction that was open at a gap; `has_earlier_part` where segments that stay have some of it."""

    first_offset: int
    has_earlier_part: bool


class _Salvaging:
    def __init__(self, disk: Disk, survey: Survey, results: Mapping[str, ScanResult]) -> None:
        self._disk = disk
        self._survey = survey
        self._results = dict(results)
        self._tasks = {task.name: task for task in survey.scans}
        self._states = survey.segment_states()
        self._doubtful: dict[int, _Doubt] = {}
        self._epochs = EpochStitch(survey.epochs or ())

    def run(self) -> dict[str, ScanResult]:
        for number, (files, state) in enumerate(
            zip(self._survey.inventory.segments, self._states, strict=True)
        ):
            result = self._results.get(files.log_name)
            if result is None:
                continue
            is_damaged = result.scan.stop is not ScanStop.END and not result.pieces
            if not state.is_protected and (is_damaged or self._doubtful):
                task = self._tasks[files.log_name]
                self._results[files.log_name] = result = self._look_again(number, task, result)
            self._epochs.add(result.scan)
        return self._results

    def _look_again(self, number: int, task: ScanTask, result: ScanResult) -> ScanResult:
        scan = result.scan
        is_damaged = scan.stop is not ScanStop.END
        open_transactions = {producer: doubt.first_offset for producer, doubt in self._doubtful.items()}
        start = 0
        if is_damaged:
            start = scan.valid_size
            open_transactions = _open_behind(scan, self._open_at(number) | open_transactions)
        removed = {
            producer
            for producer in open_transactions
            if producer in self._doubtful and not self._doubtful[producer].has_earlier_part
        }
        salvage = find_readable(
            self._disk,
            task.path,
            start,
            task.size,
            last_offset=scan.next_offset - 1 if start else task.base_offset - 1,
            last_epoch=self._last_epoch(scan if is_damaged else None),
            next_base=self._next_base(number, task),
            open_transactions=open_transactions,
            keep_open_transactions=self._survey.options.keep_open_transactions,
            is_behind_gap=bool(self._doubtful),
            removed_before=removed,
        )
        self._note_doubts(task, salvage, open_transactions, removed)
        reasons = {left.reason for left in salvage.left_out}
        if not salvage.batches_count or not reasons or (not is_damaged and reasons != {OPEN_TRANSACTION}):
            return result  # an undamaged segment loses nothing but transactions that are in doubt
        with self._disk.open_read(task.path) as file:
            read_into, size = kept_reader(self._disk, file, salvage.kept)
            kept = scan_reader(
                read_into,
                size,
                task.base_offset,
                path=task.path,
                index_interval_bytes=task.index_interval_bytes,
            )
        return result_of(self._disk, task, replace(kept, reason=scan.reason), salvage=salvage)

    def _open_at(self, number: int) -> dict[int, int]:
        """Open where the segment begins, by the newest snapshot and the scans behind it."""
        survey = self._survey
        scans = ResultScans(survey.end_offset)
        for files in survey.inventory.segments[:number]:
            result = self._results.get(files.log_name)
            if result is not None:
                scans.by_base[files.base_offset] = result.scan
        sequence = RecoverySequence(
            [SegmentState(state.base_offset, state.size) for state in self._states],
            snapshots=SnapshotSet(survey.snapshots, survey.snapshots.__getitem__),
            epochs=(),
            scans=scans,
            settings=survey.settings,
        )
        return sequence.open_transactions_at(number)

    def _note_doubts(
        self, task: ScanTask, salvage: Salvage, open_transactions: Mapping[int, int], removed: Collection[int]
    ) -> None:
        if self._survey.options.keep_open_transactions:
            return
        # Where nothing behind the damage can be kept, all that was open before it stays in doubt.
        is_rewritten = salvage.batches_count > 0
        producers = salvage.open_producers if is_rewritten else open_transactions
        self._doubtful = {}
        for producer in producers:
            first_offset = open_transactions.get(producer, task.base_offset)
            began_here = first_offset >= task.base_offset
            is_gone = producer in removed or (began_here and is_rewritten)
            self._doubtful[producer] = _Doubt(first_offset, not is_gone)

    def _last_epoch(self, scan: SegmentScan | None) -> int:
        known = [] if scan is None else [epoch for epoch, _ in scan.epoch_starts]
        before = (
            []
            if scan is None
            else [e.epoch for e in self._epochs.entries if e.start_offset < scan.next_offset]
        )
        return max([*known, *before], default=-1)

    def _next_base(self, number: int, task: ScanTask) -> int:
        widest = task.base_offset + WIDEST
        if number + 1 < len(self._states):
            return min(widest, self._states[number + 1].base_offset)
        return widest


def _open_behind(scan: SegmentScan, before: Mapping[int, int]) -> dict[int, int]:
    """What is open at the end of a scan, given what was open before it."""
    still_open = dict(before)
    for producer in scan.producers:
        if producer.ended_txn:
            still_open.pop(producer.producer_id, None)
        if producer.txn_first_offset is not None:
            still_open.setdefault(producer.producer_id, producer.txn_first_offset)
    return still_open
