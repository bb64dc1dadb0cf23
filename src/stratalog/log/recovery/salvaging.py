"""Reads damaged segments again if the log has no other copy, to find what can be kept after the damage.

This is done between the scans and the plan, because the scans of earlier segments show which transactions are
open at a gap. These transactions are in doubt in all later segments too, up to their producer's next marker,
so an undamaged segment may be rewritten as well. The new results describe the segments as they will be. A
segment that is split, because its offsets are too far apart, is rewritten and split at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.epochs import EpochStitch
from stratalog.log.recovery.plan import is_split
from stratalog.log.recovery.result_scans import ResultScans
from stratalog.log.recovery.salvage import find_readable, kept_reader
from stratalog.log.recovery.salvage_transactions import OpenTransaction
from stratalog.log.recovery.sequence import RecoverySequence, SegmentState
from stratalog.log.recovery.stitch import SnapshotSet
from stratalog.log.recovery.survey import Survey
from stratalog.log.recovery.task import ScanResult, ScanTask, result_of, split_scans
from stratalog.segment.scan import ScanStop, SegmentScan, scan_reader

WIDEST = 2**31
"""Each offset of a segment is less than this above its base; after a split, above that of its piece."""


def salvage_results(
    disk: DiskReader, survey: Survey, results: Mapping[str, ScanResult]
) -> dict[str, ScanResult]:
    """The results; those of damaged segments are replaced by results for the part that can be kept.

    Only segments that may be cut are looked at: segments that count as flushed are left alone.
    """
    return _Salvaging(disk, survey, results).run()


def is_damaged(result: ScanResult | None, next_base: int | None) -> bool:
    """Whether the scan stopped before the end, and not because the segment is split. A torn tail counts.

    `next_base` is the base of the next segment.
    """
    return result is not None and _scans_of(result, next_base)[-1].stop is not ScanStop.END


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
            if not state.is_protected and (is_damaged(result, self._base_after(number)) or self._doubtful):
                task = self._tasks[files.log_name]
                self._results[files.log_name] = result = self._look_again(number, task, result)
            for scan in _scans_of(result, self._base_after(number)):
                self._epochs.add(scan.epoch_starts)
        return self._results

    def _look_again(self, number: int, task: ScanTask, result: ScanResult) -> ScanResult:
        next_base = self._base_after(number)
        scans = _scans_of(result, next_base)
        last, damaged = scans[-1], is_damaged(result, next_base)
        open_before = {
            producer: OpenTransaction(began_before=is_left, is_doubtful=True)
            for producer, is_left in self._doubtful.items()
        }
        open_at_start: set[int] = set()
        if damaged:
            found = self._open_at(number)
            for producer in found.keys() - open_before.keys():
                open_before[producer] = OpenTransaction(began_before=True)
            open_at_start = _open_behind(scans, found)
        salvage = find_readable(
            self._disk,
            task.path,
            last.start_position + last.valid_size if damaged else task.size,
            task.size,
            last_offset=last.next_offset - 1,
            last_epoch=self._last_epoch(scans),
            next_base=min(last.base_offset + WIDEST, INT64_MAX if next_base is None else next_base),
            open_before=open_before,
            open_at_start=open_at_start,
            is_followed=next_base is not None,
            keep_open_transactions=self._survey.options.keep_open_transactions,
        )
        self._doubtful = salvage.in_doubt
        if not salvage.is_rewritten:
            return result
        with self._disk.open_read(task.path) as file:
            read_into, size = kept_reader(self._disk, file, salvage.kept)

            def scan_from(base_offset: int, position: int) -> SegmentScan:
                return scan_reader(
                    read_into,
                    size,
                    base_offset,
                    path=task.path,
                    index_interval_bytes=task.index_interval_bytes,
                    start_position=position,
                )

            def read_at(wanted: int, position: int) -> bytes:
                buffer = np.empty(max(min(wanted, size - position), 0), np.uint8)
                return buffer[: read_into(buffer, position)].tobytes()

            kept = scan_from(task.base_offset, 0)
            pieces: tuple[SegmentScan, ...] = ()
            if kept.stop is ScanStop.OFFSET_OVERFLOW:
                pieces = split_scans(kept, scan_from, read_at)
        kept = replace(kept, reason=last.reason)
        return result_of(self._disk, task, kept, pieces=pieces, salvage=salvage)

    def _open_at(self, number: int) -> dict[int, int]:
        """The transactions open at the start of the segment, from the newest snapshot and later scans."""
        survey = self._survey
        scans = ResultScans(survey.end_offset)
        states: list[SegmentState] = []
        for place, files in enumerate(survey.inventory.segments[:number]):
            result = self._results.get(files.log_name)
            if result is None:
                states.append(SegmentState(files.base_offset, self._states[place].size))
                continue
            first, *others = _scans_of(result, self._base_after(place))
            for scan in (replace(first, base_offset=files.base_offset), *others):
                scans.by_base[scan.base_offset] = scan
                states.append(SegmentState(scan.base_offset, scan.valid_size))
        here = self._states[number]
        sequence = RecoverySequence(
            [*states, SegmentState(here.base_offset, here.size)],
            snapshots=SnapshotSet(survey.snapshots, survey.snapshots.__getitem__),
            epochs=(),
            scans=scans,
            settings=survey.settings,
        )
        return sequence.open_transactions_at(len(states))

    def _last_epoch(self, scans: Sequence[SegmentScan]) -> int:
        known = [epoch for scan in scans for epoch, _ in scan.epoch_starts]
        end = scans[-1].next_offset
        before = [entry.epoch for entry in self._epochs.entries if entry.start_offset < end]
        return max([*known, *before], default=-1)

    def _base_after(self, number: int) -> int | None:
        return self._states[number + 1].base_offset if number + 1 < len(self._states) else None


def _scans_of(result: ScanResult, next_base: int | None) -> tuple[SegmentScan, ...]:
    """The scans of the segments that this one becomes; more than one if it is split."""
    return result.pieces if is_split(result, next_base) else (result.scan,)


def _open_behind(scans: Iterable[SegmentScan], before: Mapping[int, int]) -> set[int]:
    """The producers with a transaction open at the end of the scans, given those open before them."""
    still_open = set(before)
    for producer in (producer for scan in scans for producer in scan.producers):
        if producer.ended_txn:
            still_open.discard(producer.producer_id)
        if producer.txn_first_offset is not None:
            still_open.add(producer.producer_id)
    return still_open
