"""Turns a survey and its scans into the steps that leave a partition as a clean shutdown would.

Nothing here touches a disk. The sequence (`sequence.py`) computes the state that a broker would reach; the
plan lists how the files differ from it. The order of the steps makes sure that a killed run has the same
result when it is planned again. Segments after a cut are removed before the cut is made, from the last one
down: once the damage is cut off, nothing shows any more that they must be removed. Bytes are put into
quarantine before they are cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from stratalog.files.entries import NO_FILE
from stratalog.files.names import FileKind, FileState, TopicPartition, parse_segment_file, segment_file_name
from stratalog.log.epochs import EpochEntry, EpochStitch
from stratalog.log.recovery.facts import Cut, FileFact, Finding, FindingKind, missing_end, stuck_readers
from stratalog.log.recovery.findings import damage_that_stays, findings_of
from stratalog.log.recovery.inventory import FoundSegment
from stratalog.log.recovery.ranges import section
from stratalog.log.recovery.result_scans import ResultScans
from stratalog.log.recovery.salvage import Salvage, keep_steps, rewrite_steps
from stratalog.log.recovery.sequence import RecoverySequence, SegmentState
from stratalog.log.recovery.small_files import plan_small_files
from stratalog.log.recovery.steps import (
    CopyRanges,
    Delete,
    KeepFile,
    KeepRange,
    Rename,
    Step,
    SyncDirectory,
    Truncate,
)
from stratalog.log.recovery.stitch import SnapshotSet
from stratalog.log.recovery.survey import Survey
from stratalog.log.recovery.task import ScanResult
from stratalog.segment.scan import ScanStop, SegmentScan

# A log that ends before its start has lost records too, even if it was empty and nothing is cut off.
MISSING = frozenset({FindingKind.MISSING_RECORDS, FindingKind.BELOW_LOG_START})


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryPlan:
    """How one partition is recovered, and its state afterwards.

    `accepted` are the files that no step writes as a whole, including those that are correct as they are.
    They must be synced before the clean-shutdown file is written, because what a killed process wrote may not
    be on the device. `is_only_torn_tail`: only an incomplete last batch of the last segment was cut.
    """

    topic_partition: TopicPartition
    directory: str
    log_start_offset: int
    log_end_offset: int
    segments_count: int
    steps: tuple[Step, ...]
    cuts: tuple[Cut, ...]
    findings: tuple[Finding, ...]
    scanned_bytes: int
    is_only_torn_tail: bool
    accepted: tuple[str, ...]

    @property
    def changes_anything(self) -> bool:
        return bool(self.steps)

    @property
    def misses_records(self) -> bool:
        """Whether records are gone that no cut accounts for."""
        return any(finding.kind in MISSING for finding in self.findings)


def plan_recovery(survey: Survey, results: Mapping[str, ScanResult]) -> RecoveryPlan:
    """The plan for a partition; `results` are those of its scans, by the segment's live name.

    DiskError if a directory, link or device has the name of a file that must be written.
    """
    return _Planner(survey, results).plan()


@dataclass(slots=True)
class _Split:
    """A segment whose offsets are too far apart, and the segments that it becomes.

    With `salvage`, only the ranges that it keeps are split: positions in `scans` count only their bytes.
    """

    files: FoundSegment
    states: list[SegmentState]
    scans: list[SegmentScan]
    salvage: Salvage | None


def is_split(result: ScanResult, next_base: int | None) -> bool:
    """Whether a segment is split; `next_base` is the base of the next segment."""
    return bool(result.pieces) and (next_base is None or result.pieces[-1].next_offset <= next_base)


class _Planner:
    def __init__(self, survey: Survey, results: Mapping[str, ScanResult]) -> None:
        self._survey = survey
        self._files = {files.base_offset: files for files in survey.inventory.segments}
        self._results = {base: results.get(files.log_name) for base, files in self._files.items()}
        self._scans = ResultScans(survey.end_offset)
        self._splits: list[_Split] = []
        self._steps: list[Step] = []
        self._cuts: list[Cut] = []
        self._findings = list(survey.findings)
        self._accepted: list[str] = []

    def plan(self) -> RecoveryPlan:
        survey = self._survey
        snapshots = SnapshotSet(survey.inventory.snapshots, survey.snapshots.__getitem__)
        states = self._split_states(snapshots)
        sequence = RecoverySequence(
            states,
            snapshots=snapshots,
            epochs=self._epochs_before(),
            scans=self._scans,
            settings=survey.settings,
        )
        sequence.run()
        self._report(sequence, states)
        self._steps += survey.inventory.steps
        self._remove(sequence)
        # Cuts are also made from the last segment down: once the first damage is gone, nothing shows any more
        # that a transaction is in doubt in later segments. A split may be such a cut too.
        splits = {split.files.base_offset: split for split in self._splits}
        for state in reversed(sequence.segments):
            base_offset = state.base_offset
            if base_offset == sequence.created_base:
                continue  # new, even if a segment with this base was removed
            if base_offset in splits:
                self._write_split(splits[base_offset])
            elif base_offset in self._files:
                self._cut(state)
        self._write_small_files(sequence, snapshots)
        is_only_torn_tail = self._is_only_torn_tail(sequence)
        self._report_missing(sequence, is_only_torn_tail=is_only_torn_tail)
        # A cut is a gap if the log continues after it.
        gaps = [cut.first_offset for cut in self._cuts if cut.first_offset < sequence.log_end_offset]
        if gaps:
            self._findings += stuck_readers(survey.topic_partition, sequence.open_transactions, min(gaps))
        start_offset = max(survey.settings.log_start_offset, sequence.segments[0].base_offset)
        if survey.config.remote_storage_enable:
            start_offset = survey.settings.log_start_offset
        return RecoveryPlan(
            topic_partition=survey.topic_partition,
            directory=survey.directory,
            log_start_offset=start_offset,
            log_end_offset=sequence.log_end_offset,
            segments_count=len(sequence.segments),
            steps=tuple(self._steps),
            cuts=tuple(self._cuts),
            findings=tuple(self._findings),
            scanned_bytes=sum(result.scanned_size for result in self._results.values() if result),
            is_only_torn_tail=is_only_torn_tail,
            accepted=tuple(self._accepted),
        )

    def _split_states(self, snapshots: SnapshotSet) -> list[SegmentState]:
        """The segments at the start; one that must be split is already replaced by its pieces."""
        states = []
        found = self._survey.segment_states()
        for number, state in enumerate(found):
            result = self._results[state.base_offset]
            if result is None:
                states.append(state)
                continue
            if is_split(result, found[number + 1].base_offset if number + 1 < len(found) else None):
                states += self._split(state, result, snapshots)
            else:
                self._scans.by_base[state.base_offset] = result.scan
                states.append(state)
        return states

    def _split(self, state: SegmentState, result: ScanResult, snapshots: SnapshotSet) -> list[SegmentState]:
        files = self._files[state.base_offset]
        first, *others = result.pieces
        # The first piece keeps the segment's base; in Kafka its base is the offset of its first batch. With
        # the same base, all replaced files are in the range of the pieces, and after a crash the names show
        # that.
        scans = [replace(first, base_offset=state.base_offset), *others]
        pieces = [
            SegmentState(scan.base_offset, scan.valid_size, is_protected=state.is_protected) for scan in scans
        ]
        if result.salvage is None:
            pieces[-1].size = files.log.size - scans[-1].start_position
        self._scans.by_base.update((scan.base_offset, scan) for scan in scans)
        self._splits.append(_Split(files, pieces, scans, result.salvage))
        if state.needs_load_pass:
            # While a broker recovers a segment, it notices that the segment must be split. By then it has
            # deleted the snapshots above the segment's base.
            snapshots.keep_between(self._survey.settings.log_start_offset, state.base_offset)
        snapshots.delete(state.base_offset)
        return pieces

    def _epochs_before(self) -> Iterable[EpochEntry]:
        """The epochs in the file; if it is damaged, those in all segments, which were scanned for that."""
        if self._survey.epochs is not None:
            return self._survey.epochs
        epochs = EpochStitch()
        for base_offset in sorted(self._scans.by_base):
            epochs.add(self._scans.by_base[base_offset].epoch_starts)
        return epochs.entries

    def _report(self, sequence: RecoverySequence, states: Iterable[SegmentState]) -> None:
        self._findings += damage_that_stays(states, self._scans.by_base)
        for split in self._splits:
            self._say(
                FindingKind.SPLIT_SEGMENT,
                split.files.log_name,
                f"Its offsets are more than 2^31 - 1 apart, which takes {len(split.states)} segments.",
                "It is split, as a broker does.",
            )
        self._findings += findings_of(sequence, self._survey)

    def _say(self, kind: FindingKind, file: str, words: str, consequence: str) -> None:
        self._findings.append(Finding(kind=kind, file=file, words=words, consequence=consequence))

    def _remove(self, sequence: RecoverySequence) -> None:
        """Remove the segments after a cut, the last one first."""
        gone = {state.base_offset for state in sequence.removed}
        self._splits = [split for split in self._splits if split.files.base_offset not in gone]
        end = sequence.log_end_offset
        if sequence.is_below_start:
            why = f"the log ends at offset {sequence.end_below_start}, before its start at {end}"
        else:
            why = f"the log is cut at offset {end}, before this segment"
        cuts = []
        following: int | None = None
        for base_offset in sorted(gone & self._files.keys(), reverse=True):
            files = self._files[base_offset]
            if files.log.size:
                self._steps.append(KeepFile(file=files.log, why=why))
                cuts.append(
                    Cut(
                        file=files.log_name,
                        position=0,
                        size=files.log.size,
                        reason=why,
                        first_offset=base_offset,
                        last_offset=None if following is None else following - 1,
                        is_whole=True,
                    )
                )
            else:
                self._steps.append(Delete(file=files.log, why=why))
            for fact in (files.index, files.time_index, files.txn_index):
                if fact is not None:
                    self._steps.append(Delete(file=fact, why="its log is gone"))
            following = base_offset
        if gone:
            self._steps.append(SyncDirectory(why="without the damage, nothing shows that they must go"))
        self._cuts += reversed(cuts)

    def _cut(self, state: SegmentState) -> None:
        log = self._files[state.base_offset].log
        if state.aborted is not None and not state.is_protected:
            self._accepted.append(self._files[state.base_offset].log_name)
        result = self._results[state.base_offset]
        if result is not None and result.salvage is not None:
            self._steps += rewrite_steps(self._files[state.base_offset], result.salvage)
            self._report_salvage(self._files[state.base_offset], result.salvage)
        elif state.size < log.size:
            scan = self._scans.by_base[state.base_offset]
            first_offset = state.base_offset if state.is_emptied else scan.next_offset
            self._keep_tail(log, state.size, scan, first_offset, self._files[state.base_offset].log_name)
            self._steps.append(Truncate(file=log, size=state.size, why=scan.reason))

    def _report_salvage(self, files: FoundSegment, salvage: Salvage) -> None:
        for left in reversed(salvage.left_out):
            self._cuts.insert(
                0,
                Cut(
                    file=files.log_name,
                    position=left.position,
                    size=left.size,
                    reason=left.reason,
                    first_offset=left.first_offset,
                    last_offset=left.last_offset,
                ),
            )
        self._say(
            FindingKind.GAP,
            files.log_name,
            f"Batches after damage that are kept: {salvage.batches_count}. "
            f"Ranges of bytes that are not kept: {len(salvage.left_out)}.",
            "The segment is rewritten without these ranges. Followers will not fill the gap.",
        )

    def _keep_tail(
        self, log: FileFact, position: int, scan: SegmentScan, first_offset: int, name: str
    ) -> None:
        size = log.size - position
        self._steps.append(KeepRange(file=log, position=position, size=size, why=scan.reason))
        next_base = min((base for base in self._files if base > scan.base_offset), default=None)
        self._cuts.insert(
            0,
            Cut(
                file=name,
                position=position,
                size=size,
                reason=scan.reason,
                first_offset=first_offset,
                last_offset=None if next_base is None else next_base - 1,
            ),
        )

    def _write_split(self, split: _Split) -> None:
        """Write the pieces as .cleaned, rename them to .swap, last one first, then replace the segment."""
        log = split.files.log
        why = f"{split.files.log_name} is split: its offsets are too far apart"
        names = []
        whole = ((0, log.size),) if split.salvage is None else split.salvage.kept
        for state, scan in zip(split.states, split.scans, strict=True):
            size = _size_of_piece(state, scan)
            name = segment_file_name(state.base_offset, FileKind.LOG, FileState.CLEANED)
            names.append(name)
            ranges = section(whole, scan.start_position, size)
            self._steps.append(CopyRanges(file=log, to=name, ranges=ranges, why=why))
            self._accepted.append(segment_file_name(state.base_offset, FileKind.LOG))
        end = split.scans[-1].start_position + _size_of_piece(split.states[-1], split.scans[-1])
        if split.salvage is not None:
            self._steps += keep_steps(split.files, split.salvage)
            self._report_salvage(split.files, split.salvage)
        elif end < log.size:
            self._keep_tail(log, end, split.scans[-1], split.scans[-1].next_offset, split.files.log_name)
        self._steps.append(SyncDirectory())
        for state, name in reversed([*zip(split.states, names, strict=True)]):
            swap = segment_file_name(state.base_offset, FileKind.LOG, FileState.SWAP)
            self._steps += [Rename(file=_made(name), to=swap, why=why), SyncDirectory()]
        for fact in (split.files.index, split.files.time_index, split.files.txn_index):
            if fact is not None:
                self._steps.append(Delete(file=fact, why=why))
        self._steps.append(SyncDirectory())
        for state, name in zip(split.states, names, strict=True):
            live = segment_file_name(state.base_offset, FileKind.LOG)
            over = log if state is split.states[0] else None
            self._steps += [Rename(file=_made(name), to=live, why=why, over=over), SyncDirectory()]

    def _write_small_files(self, sequence: RecoverySequence, snapshots: SnapshotSet) -> None:
        pieces = {
            state.base_offset: scan
            for split in self._splits
            for state, scan in zip(split.states, split.scans, strict=True)
        }
        small = plan_small_files(
            self._survey, self._results, sequence, snapshots, scans=self._scans.by_base, pieces=pieces
        )
        self._steps += small.steps
        self._accepted += small.accepted

    def _report_missing(self, sequence: RecoverySequence, *, is_only_torn_tail: bool) -> None:
        """Report records that are gone, and that no cut accounts for."""
        if not is_only_torn_tail:
            # If a recovery is killed while it removes the segments after damage, an index may be left over.
            self._findings = [found for found in self._findings if not self._is_after_cut(found)]
        removed = {state.base_offset for state in sequence.removed}
        for base_offset, result in sorted(self._results.items()):
            if result is None or result.claim is None or result.claim.is_cut:
                continue
            files = self._files[base_offset]
            if not (base_offset in removed and files.log.size):
                self._findings.append(missing_end(files.log_name, result.claim))

    def _is_after_cut(self, finding: Finding) -> bool:
        file = parse_segment_file(finding.file) if finding.kind is FindingKind.MISSING_RECORDS else None
        return file is not None and any(
            cut.first_offset <= file.offset and (cut.last_offset is None or file.offset <= cut.last_offset)
            for cut in self._cuts
        )

    def _is_only_torn_tail(self, sequence: RecoverySequence) -> bool:
        last = sequence.segments[-1].base_offset
        scan = self._scans.by_base.get(last)
        is_torn = scan is not None and scan.stop is ScanStop.TORN_TAIL
        result = self._results.get(last)
        if result is not None and result.claim is not None:
            is_torn = False  # a broker indexes a batch when it is written, not before
        name = segment_file_name(last, FileKind.LOG)
        return all(is_torn and cut.file == name and not cut.is_whole for cut in self._cuts)


def _size_of_piece(state: SegmentState, scan: SegmentScan) -> int:
    """The size of a piece of a split segment; damage stays if the segment counts as flushed."""
    return state.size if state.is_protected else min(state.size, scan.valid_size)


def _made(name: str) -> FileFact:
    """A file that an earlier step creates: only its name is known."""
    return FileFact(name, -1, NO_FILE, -1)
