"""Plans the small files of a recovered partition: indexes, snapshots and leader epochs, as they must be.

A file that already begins with the right bytes is cut to them; any other file is written as a whole. All
these files are written together, and after a crash any of them may be new or still old. Only offset indexes
that were missing are written later, when all other files are on the device. A missing offset index shows that
its segment must be recovered. If it were written first, nothing would show after a crash that aborted
transactions, producers and epochs of the segment are still missing.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

from stratalog.errors import DiskError
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT, FileKind, segment_file_name
from stratalog.files.paths import join_path
from stratalog.log.checkpoint_file import format_checkpoint
from stratalog.log.epochs import EpochStitch
from stratalog.log.recovery.facts import FileFact
from stratalog.log.recovery.index_checks import IndexState
from stratalog.log.recovery.sequence import RecoverySequence, SegmentState
from stratalog.log.recovery.steps import Delete, Step, SyncDirectory, Truncate, WriteFile
from stratalog.log.recovery.stitch import SnapshotSet
from stratalog.log.recovery.survey import Survey, snapshot_digest
from stratalog.log.recovery.task import IndexBytes, ScanResult
from stratalog.segment.scan import ScanStop, SegmentScan
from stratalog.segment.txn_index import ENTRY_SIZE, parse_aborted

_EMPTY = IndexBytes(0, b"")


class SmallFiles:
    """The steps that give the small files their content, and the names of files that no step writes."""

    def __init__(
        self,
        survey: Survey,
        results: Mapping[int, ScanResult | None],
        scans: Mapping[int, SegmentScan],
        pieces: Mapping[int, SegmentScan],
    ) -> None:
        self.steps: list[Step] = []
        self.accepted: list[str] = []
        self._survey = survey
        self._files = {files.base_offset: files for files in survey.inventory.segments}
        self._results = results
        self._scans = scans
        self._pieces = pieces
        self._writes: list[Step] = []
        self._missing: list[Step] = []  # offset indexes

    def plan(self, sequence: RecoverySequence, snapshots: SnapshotSet) -> None:
        self._write_txn_indexes(sequence)
        self._write_indexes(sequence)
        self._write_snapshots(snapshots)
        self._write_epochs(sequence.epochs, is_cleared=sequence.is_below_start)
        self.steps += self._writes
        if self._missing:
            self.steps.append(
                SyncDirectory(why="these files must be on the device before a missing offset index exists")
            )
            self.steps += self._missing
        self._delete_snapshots(snapshots)

    def _write_txn_indexes(self, sequence: RecoverySequence) -> None:
        for state in sequence.segments:
            base_offset = state.base_offset
            if base_offset in self._pieces:
                self._write_txn_index(state, None, None)
            elif base_offset != sequence.created_base and state.aborted is not None:
                fact, found = self._files[base_offset].txn_index, self._survey.txn_indexes.get(base_offset)
                check = self._survey.checks[base_offset].txn_index
                # A scan does not see the aborted transactions after damage that stays; the index may have
                # them.
                sees_all = not state.is_protected or self._scans[base_offset].stop is ScanStop.END
                if sees_all or check is IndexState.CORRUPT:
                    self._write_txn_index(state, fact, found)
                elif check is IndexState.TORN and fact is not None and found is not None:
                    self._mend_torn(state, fact, found)

    def _write_txn_index(self, state: SegmentState, fact: FileFact | None, found: bytes | None) -> None:
        wanted = b"".join(aborted.to_bytes() for aborted in state.aborted or ())
        if wanted != (found or b""):
            why = "rebuilt from the log"
            self._write(state.base_offset, FileKind.TXN_INDEX, wanted, fact, why)
        elif fact is not None:
            self.accepted.append(segment_file_name(state.base_offset, FileKind.TXN_INDEX))

    def _mend_torn(self, state: SegmentState, fact: FileFact, found: bytes) -> None:
        """Keep the whole entries of a transaction index, and add those of later markers before the damage."""
        kept = parse_aborted(found) if len(found) == fact.size else []
        last_offset = kept[-1].last_offset if kept else -1
        added = [aborted for aborted in state.aborted or () if aborted.last_offset > last_offset]
        if added or not kept:
            wanted = b"".join(aborted.to_bytes() for aborted in (*kept, *added))
            why = "its whole entries, and those that the log shows"
            self._write(state.base_offset, FileKind.TXN_INDEX, wanted, fact, why)
        else:
            size = len(kept) * ENTRY_SIZE
            self.steps.append(Truncate(file=fact, size=size, why=f"cut to its {size} bytes of entries"))

    def _write_indexes(self, sequence: RecoverySequence) -> None:
        for state in sequence.segments:
            base_offset = state.base_offset
            if base_offset == sequence.created_base:
                self._write(base_offset, FileKind.LOG, b"", None, "the log starts again here")
                self._write_index(base_offset, FileKind.OFFSET_INDEX, None, _EMPTY)
                self._write_index(base_offset, FileKind.TIME_INDEX, None, _EMPTY)
            elif base_offset in self._pieces:
                scan = self._pieces[base_offset]
                index = IndexBytes(len(scan.offset_index), scan.offset_index)
                time_index = IndexBytes(len(scan.time_index), scan.time_index)
                self._write_index(base_offset, FileKind.OFFSET_INDEX, None, index)
                self._write_index(base_offset, FileKind.TIME_INDEX, None, time_index)
            else:
                self._mend_indexes(state)

    def _mend_indexes(self, state: SegmentState) -> None:
        base_offset = state.base_offset
        files, check = self._files[base_offset], self._survey.checks[base_offset]
        result = self._results[base_offset]
        is_recovered = state.aborted is not None
        index, time_index = (_EMPTY, _EMPTY) if result is None else (result.index, result.time_index)
        if state.is_emptied:
            index = time_index = _EMPTY
        if is_recovered or check.index in (IndexState.MISSING, IndexState.CORRUPT):
            self._write_index(base_offset, FileKind.OFFSET_INDEX, files.index, index)
        elif check.index is IndexState.PADDED:
            padded = IndexBytes(check.index_size, None)
            self._write_index(base_offset, FileKind.OFFSET_INDEX, files.index, padded)
        if is_recovered or check.time_index is not IndexState.GOOD:
            self._write_index(base_offset, FileKind.TIME_INDEX, files.time_index, time_index)

    def _write_index(
        self, base_offset: int, kind: FileKind, fact: FileFact | None, wanted: IndexBytes
    ) -> None:
        if wanted.data is None or (fact is not None and not wanted.size):
            # The file already begins with the right entries.
            if fact is not None:
                if fact.size != wanted.size:
                    why = f"cut to its {wanted.size} bytes of entries"
                    self.steps.append(Truncate(file=fact, size=wanted.size, why=why))
                self.accepted.append(segment_file_name(base_offset, kind))
        else:
            self._write(base_offset, kind, wanted.data, fact, "rebuilt from the log")

    def _write_snapshots(self, snapshots: SnapshotSet) -> None:
        found, digests = self._survey.inventory.snapshots, self._survey.snapshot_digests
        kind = FileKind.PRODUCER_SNAPSHOT
        for offset, data in sorted(snapshots.written.items()):
            if digests.get(offset) != snapshot_digest(data):
                self._write(offset, kind, data, found.get(offset), "the producers, rebuilt from the log")
            else:
                self.accepted.append(segment_file_name(offset, kind))

    def _delete_snapshots(self, snapshots: SnapshotSet) -> None:
        kept = set(snapshots.offsets)
        for offset, fact in self._survey.inventory.snapshots.items():
            if offset not in kept:
                why = "no segment begins here, and the log does not end here"
                self.steps.append(Delete(file=fact, why=why))

    def _write_epochs(self, epochs: EpochStitch, *, is_cleared: bool) -> None:
        survey, entries = self._survey, epochs.entries
        fact = survey.inventory.epoch_file
        if fact is not None and survey.epochs is not None and [*survey.epochs] == entries:
            return
        lines = [f"{entry.epoch} {entry.start_offset}" for entry in entries]
        # If a log never had a leader, the file is empty. If it had one, and no epoch is left, the file has a
        # header with 0 entries.
        had_leader = fact is not None or is_cleared or epochs.has_grown
        data = format_checkpoint(lines) if lines or had_leader else b""
        self._write_file(LEADER_EPOCH_CHECKPOINT, data, fact, "the leader epochs of the batches in the log")

    def _write(self, offset: int, kind: FileKind, data: bytes, fact: FileFact | None, why: str) -> None:
        self._write_file(segment_file_name(offset, kind), data, fact, why)

    def _write_file(self, name: str, data: bytes, fact: FileFact | None, why: str) -> None:
        if name in self._survey.inventory.others:
            # Kafka fails the whole log in this case. Here it is noticed before the first change.
            reason = (
                "recovery must write a file of this name, but it is a directory, a link or a device. Move it "
                "away."
            )
            raise DiskError(join_path(self._survey.directory, name), reason, errno.EISDIR)
        is_missing = fact is None and name.endswith(FileKind.OFFSET_INDEX.value)
        (self._missing if is_missing else self._writes).append(
            WriteFile(name=name, data=data, file=fact, why=why)
        )


def plan_small_files(
    survey: Survey,
    results: Mapping[int, ScanResult | None],
    sequence: RecoverySequence,
    snapshots: SnapshotSet,
    *,
    scans: Mapping[int, SegmentScan],
    pieces: Mapping[int, SegmentScan],
) -> SmallFiles:
    """Plan the small files for the state that the sequence has reached; `results` are by base offset.

    `pieces` are the segments that a split makes. DiskError if a directory, link or device has the name of a
    file that must be written.
    """
    found = SmallFiles(survey, results, scans, pieces)
    found.plan(sequence, snapshots)
    return found
