"""Reads damaged segments again if the log has no other copy, to find what can be kept after the damage.

This is done between the scans and the plan, because the scans of earlier segments show which transactions are
open at a gap. These transactions are in doubt in all later segments too, up to their producer's next marker,
so an undamaged segment may be rewritten as well. The new results describe the segments as they will be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.epochs import EpochStitch
from stratalog.log.recovery.result_scans import ResultScans
from stratalog.log.recovery.salvage import find_readable, kept_reader
from stratalog.log.recovery.salvage_transactions import OpenTransaction
from stratalog.log.recovery.sequence import RecoverySequence, SegmentState
from stratalog.log.recovery.stitch import SnapshotSet
from stratalog.log.recovery.survey import Survey
from stratalog.log.recovery.task import ScanResult, ScanTask, result_of
from stratalog.segment.scan import ScanStop, SegmentScan, scan_reader

WIDEST = 2**31  # every offset of a segment is closer to its base


def salvage_results(
    disk: DiskReader, survey: Survey, results: Mapping[str, ScanResult]
) -> dict[str, ScanResult]:
    """The results; those of damaged segments are replaced by results for the part that can be kept.

    Only segments that may be cut are looked at: segments that count as flushed are left alone.
    """
    return _Salvaging(disk, survey, results).run()


def is_damaged(result: ScanResult | None) -> bool:
    """Whether a segment has damage, as opposed to offsets that are only too far apart."""
    return result is not None and result.scan.stop is not ScanStop.END and not result.pieces


class _Salvaging:
    def __init__(self, disk: DiskReader, survey: Survey, results: Mapping[str, ScanResult]) -> None:
        self._disk = disk
        self._survey = survey
        self._results = dict(results)
        self._tasks = {task.name: task for task in survey.scans}
        self._states = survey.segment_states()
        self._doubtful: dict[int, bool] = {}  # `Salvage.in_doubt` of the segment before
        self._epochs = EpochStitch(survey.epochs or ())

    def run(self) -> dict[str, ScanResult]:
        for number, (files, state) in enumerate(
            zip(self._survey.inventory.segments, self._states, strict=True)
        ):
            result = self._results.get(files.log_name)
            if result is None:
                continue
            if not state.is_protected and (is_damaged(result) or self._doubtful):
                task = self._tasks[files.log_name]
                self._results[files.log_name] = result = self._look_again(number, task, result)
            self._epochs.add(result.scan.epoch_starts)
        return self._results

    def _look_again(self, number: int, task: ScanTask, result: ScanResult) -> ScanResult:
        scan = result.scan
        if result.pieces:
            # A split copies the segment unchanged: batches in doubt stay, and a later commit marker must not
            # commit them.
            self._doubtful = dict.fromkeys(self._doubtful, True)
            return result
        open_before = {
            producer: OpenTransaction(began_before=is_left, is_doubtful=True)
            for producer, is_left in self._doubtful.items()
        }
        open_at_start: set[int] = set()
        if is_damaged(result):
            found = self._open_at(number)
            for producer in found.keys() - open_before.keys():
                open_before[producer] = OpenTransaction(began_before=True)
            open_at_start = _open_behind(scan, found)
        salvage = find_readable(
            self._disk,
            task.path,
            scan.valid_size if is_damaged(result) else task.size,
            task.size,
            last_offset=scan.next_offset - 1,
            last_epoch=self._last_epoch(scan),
            next_base=self._next_base(number, task),
            open_before=open_before,
            open_at_start=open_at_start,
            is_followed=number + 1 < len(self._states),
            keep_open_transactions=self._survey.options.keep_open_transactions,
        )
        self._doubtful = salvage.in_doubt
        if not salvage.is_rewritten:
            return result
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
        """The transactions open at the start of the segment, from the newest snapshot and later scans."""
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

    def _last_epoch(self, scan: SegmentScan) -> int:
        known = [epoch for epoch, _ in scan.epoch_starts]
        before = [entry.epoch for entry in self._epochs.entries if entry.start_offset < scan.next_offset]
        return max([*known, *before], default=-1)

    def _next_base(self, number: int, task: ScanTask) -> int:
        widest = min(task.base_offset + WIDEST, INT64_MAX)
        if number + 1 < len(self._states):
            return min(widest, self._states[number + 1].base_offset)
        return widest


def _open_behind(scan: SegmentScan, before: Mapping[int, int]) -> set[int]:
    """The producers with a transaction open at the end of a scan, given those open before it."""
    still_open = set(before)
    for producer in scan.producers:
        if producer.ended_txn:
            still_open.discard(producer.producer_id)
        if producer.txn_first_offset is not None:
            still_open.add(producer.producer_id)
    return still_open
