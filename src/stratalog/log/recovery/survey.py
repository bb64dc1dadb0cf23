"""Finds which segments of a partition must be scanned to recover it, without scanning a log.

The segment that contains the recovery point, and all after it, are always scanned. Those before it count as
flushed: they are scanned only if an index is missing or does not match its log, or if no snapshot covers
their producers. To find these, the survey runs the recovery sequence with empty scans (`sequence.py`). A
segment is scanned at most once, for all purposes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from hashlib import blake2b

from stratalog.config import LogConfig
from stratalog.errors import CorruptCheckpointError, CorruptRecordError, CorruptSnapshotError
from stratalog.files.disk import Path
from stratalog.files.names import LEADER_EPOCH_CHECKPOINT, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.limits import INT64_MAX
from stratalog.log.epochs import EpochEntry, read_epochs
from stratalog.log.producers.entry import ProducerStateEntry
from stratalog.log.producers.snapshot import ENTRY_SIZE, HEADER_SIZE, parse_snapshot
from stratalog.log.producers.snapshot_files import read_snapshot
from stratalog.log.recovery.facts import FileFact, Finding, FindingKind, missing_snapshot, unknown_start
from stratalog.log.recovery.index_checks import IndexCheck, IndexState, check_indexes
from stratalog.log.recovery.inventory import FoundSegment, Inventory, take_inventory
from stratalog.log.recovery.sequence import RecoverySequence, SegmentState, SequenceSettings, floor_segment
from stratalog.log.recovery.stitch import SnapshotSet
from stratalog.log.recovery.task import ScanTask
from stratalog.records.kernels import index as kernel
from stratalog.records.kernels.memory import Bytes
from stratalog.records.reader import BatchRow
from stratalog.segment.headers import find_batch
from stratalog.segment.index_file import LARGEST_INDEX
from stratalog.segment.offset_index import OffsetIndex
from stratalog.segment.scan import ScanStop, SegmentScan

_DAMAGED = b"damaged"


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyOptions:
    """How a partition is to be recovered.

    `had_clean_shutdown` trusts the logs, as a broker with a clean-shutdown file does. `scan_all` reads every
    segment and reports what is wrong; logs below the recovery point are still not changed, except with
    `salvage`.
    """

    had_clean_shutdown: bool = False
    scan_all: bool = False
    salvage: bool = False
    keep_open_transactions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Everything that a plan needs, except the results of scans; `scans` are the tasks to run, in order.

    `checks` says for each segment, by its base, which of its indexes cannot stay. `snapshots` are those that
    were read, None for a damaged one. `snapshot_digests` are those of snapshots that recovery rebuilds,
    `txn_indexes` the bytes of the transaction indexes of recovered segments. `epochs` is None if the file is
    damaged. `end_offset` is set if no scan will find the end of the log.
    """

    topic_partition: TopicPartition
    inventory: Inventory
    config: LogConfig
    options: SurveyOptions
    settings: SequenceSettings
    scans: tuple[ScanTask, ...]
    checks: dict[int, IndexCheck]
    snapshots: dict[int, list[ProducerStateEntry] | None]
    snapshot_digests: dict[int, bytes]
    txn_indexes: dict[int, bytes]
    epochs: tuple[EpochEntry, ...] | None
    end_offset: int | None
    findings: tuple[Finding, ...]

    @property
    def directory(self) -> str:
        return self.inventory.directory

    def segment_states(self) -> list[SegmentState]:
        """The segments at the start of a sequence."""
        return _segment_states(self.inventory, self.checks, self.settings)


def survey_partition(
    disk: DiskReader,
    directory: Path,
    *,
    topic_partition: TopicPartition,
    config: LogConfig,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    unknown_start: str = "",
    now_ms: int,
    options: SurveyOptions | None = None,
    split_bases: Collection[int] = (),
) -> Survey:
    """Survey a partition's files; changes nothing. DiskError if one cannot be read.

    `unknown_start` says why it is not known where the log starts, and is empty if that is known.
    `split_bases` are segments that will be split, if that is already known: their snapshots are not used.
    """
    options = options or SurveyOptions()
    settings = SequenceSettings(
        log_start_offset=log_start_offset,
        recovery_point=recovery_point,
        had_clean_shutdown=options.had_clean_shutdown,
        now_ms=now_ms,
        producer_id_expiration_ms=config.producer_id_expiration_ms,
        keeps_following=options.salvage,
        unknown_start=unknown_start,
    )
    return _Surveyor(
        disk, take_inventory(disk, directory), topic_partition, config, options, settings, split_bases
    ).survey()


class _Surveyor:
    def __init__(
        self,
        disk: DiskReader,
        inventory: Inventory,
        topic_partition: TopicPartition,
        config: LogConfig,
        options: SurveyOptions,
        settings: SequenceSettings,
        split_bases: Collection[int],
    ) -> None:
        self._disk = disk
        self._split_bases = split_bases
        self._inventory = inventory
        self._topic_partition = topic_partition
        self._config = config
        self._options = options
        self._settings = settings
        self._files = {segment.base_offset: segment for segment in inventory.segments}
        self._findings: list[Finding] = []
        self._snapshots: dict[int, list[ProducerStateEntry] | None] = {}

    def survey(self) -> Survey:
        checks = self._check_segments()
        epochs = self._read_epochs()
        if self._settings.unknown_start and any(files.log.size for files in self._inventory.segments):
            self._findings += unknown_start(
                self._settings.unknown_start, self._inventory.segments[0].base_offset, epochs or ()
            )
        end_offset = self._find_end(checks)
        guesses = _Guesses(self._inventory.segments, end_offset)
        states = _segment_states(self._inventory, checks, self._settings)
        found = (offset for offset in self._inventory.snapshots if offset not in self._split_bases)
        sequence = RecoverySequence(
            states,
            snapshots=SnapshotSet(found, self._read_snapshot),
            epochs=(),
            scans=guesses,
            settings=self._settings,
        )
        sequence.run()
        if end_offset is not None and sequence.lacks_last_snapshot:
            # Reported here, because a directory that was shut down cleanly may be surveyed and left alone.
            self._findings.append(missing_snapshot(sequence.log_end_offset))
        recovered = guesses.recovered
        tasks = [
            self._task(self._files[state.base_offset], state, checks, guesses, is_epoch_lost=epochs is None)
            for state in states
        ]
        return Survey(
            topic_partition=self._topic_partition,
            inventory=self._inventory,
            config=self._config,
            options=self._options,
            settings=self._settings,
            scans=tuple(task for task in tasks if task is not None),
            checks=checks,
            snapshots=self._snapshots,
            snapshot_digests=self._digests(min(recovered, default=INT64_MAX)),
            txn_indexes=self._read_txn_indexes(recovered),
            epochs=epochs,
            end_offset=end_offset,
            findings=(*self._inventory.all_findings(self._settings.log_start_offset), *self._findings),
        )

    def _check_segments(self) -> dict[int, IndexCheck]:
        """The state of each segment's indexes; segments that are recovered anyway need few checks."""
        segments = self._inventory.segments
        bases = [files.base_offset for files in segments]
        states = [SegmentState(base, 0) for base in bases]
        first = len(bases)
        if not self._settings.had_clean_shutdown:
            first = floor_segment(states, self._settings.recovery_point)
        checks = {}
        for number, files in enumerate(segments):
            check = check_indexes(
                self._disk,
                self._inventory.directory,
                files,
                next_base=bases[number + 1] if number + 1 < len(bases) else INT64_MAX,
                is_rebuilt=number >= first,
            )
            self._findings += check.findings
            checks[files.base_offset] = check
        return checks

    def _read_epochs(self) -> tuple[EpochEntry, ...] | None:
        """The entries of the epoch file; None if it cannot be parsed."""
        path = self._path(LEADER_EPOCH_CHECKPOINT)
        try:
            return read_epochs(self._disk, path)
        except CorruptCheckpointError as error:
            self._findings.append(
                Finding(
                    kind=FindingKind.EPOCH_FILE,
                    file=LEADER_EPOCH_CHECKPOINT,
                    words=str(error),
                    consequence="A broker takes the directory offline. The file is rewritten from the log.",
                )
            )
            return None

    def _find_end(self, checks: dict[int, IndexCheck]) -> int | None:
        """The end of a log that counts as closed cleanly; None if a scan will find it."""
        if not self._settings.had_clean_shutdown or not self._inventory.segments:
            return None
        files = self._inventory.segments[-1]
        if checks[files.base_offset].needs_load_pass:
            return None
        path = self._path(files.log.name)
        try:
            start = self._last_indexed_position(files, checks[files.base_offset])
            last = self._find(path, start, files.log.size, kernel.LAST, 0)
        except CorruptRecordError as error:
            # If the length is impossible, a broker refuses to start because of it. So the segment is
            # recovered in spite of the clean-shutdown file: the readable batches are worth more.
            checks[files.base_offset] = replace(checks[files.base_offset], is_log_broken=True)
            self._findings.append(
                Finding(
                    kind=FindingKind.DAMAGE_BELOW_RECOVERY_POINT,
                    file=files.log_name,
                    words=str(error),
                    consequence="A broker may refuse to start because of it. The segment is recovered.",
                )
            )
            return None
        end = start if last is None else last.position + last.size
        if end < files.log.size:
            self._findings.append(
                Finding(
                    kind=FindingKind.TORN_END,
                    file=files.log_name,
                    words=f"Its last whole batch ends at byte {end}; {files.log.size - end} bytes follow.",
                    consequence="They are cut off. A broker would append after them, and no reader could get "
                    "past them.",
                )
            )
        return files.base_offset if last is None else last.last_offset + 1

    def _last_indexed_position(self, files: FoundSegment, check: IndexCheck) -> int:
        """Where the search for the end of a log starts, as in a broker: at the last entry of a good index."""
        if files.index is None or check.index not in (IndexState.GOOD, IndexState.PADDED):
            return 0
        index = OffsetIndex(self._disk, self._path(files.index.name), files.base_offset, max_size=0)
        position = index.last_entry.position
        index.forget()
        return position

    def _read_snapshot(self, offset: int) -> list[ProducerStateEntry] | None:
        if offset in self._snapshots:
            return self._snapshots[offset]
        fact = self._inventory.snapshots[offset]
        entries: list[ProducerStateEntry] | None = None
        try:
            entries = parse_snapshot(read_snapshot(self._disk, self._path(fact.name), fact.size))
        except CorruptSnapshotError as error:
            self._findings.append(
                Finding(
                    kind=FindingKind.CORRUPT_SNAPSHOT,
                    file=fact.name,
                    words=str(error),
                    consequence="It is deleted, and the snapshot before it is used.",
                )
            )
        self._snapshots[offset] = entries
        return entries

    def _digests(self, first_offset: int) -> dict[int, bytes]:
        """Digests of the snapshots from an offset on, to see which rebuilt ones are the same."""
        return {
            offset: self._digest(fact)
            for offset, fact in self._inventory.snapshots.items()
            if offset >= first_offset
        }

    def _digest(self, fact: FileFact) -> bytes:
        try:
            return snapshot_digest(read_snapshot(self._disk, self._path(fact.name), fact.size))
        except CorruptSnapshotError:
            return _DAMAGED

    def _read_txn_indexes(self, recovered: set[int]) -> dict[int, bytes]:
        facts = {base: self._files[base].txn_index for base in recovered}
        return {
            # A file that is too large is wrong, whatever is in it.
            base: self._disk.read_at(self._path(fact.name), fact.size, 0)
            if fact.size <= LARGEST_INDEX
            else _DAMAGED
            for base, fact in facts.items()
            if fact is not None
        }

    def _task(
        self,
        files: FoundSegment,
        state: SegmentState,
        checks: dict[int, IndexCheck],
        guesses: _Guesses,
        *,
        is_epoch_lost: bool,
    ) -> ScanTask | None:
        base_offset = files.base_offset
        is_recovered = base_offset in guesses.recovered
        wants_indexes = is_recovered or checks[base_offset].needs_scan
        start_position: int | None = 0
        if not wants_indexes and not self._options.scan_all and not is_epoch_lost:
            start_position = self._start_of_replay(files, guesses.replayed.get(base_offset))
        if start_position is None:
            return None
        return ScanTask(
            name=files.log_name,
            path=self._path(files.log.name),
            base_offset=base_offset,
            size=files.log.size,
            index_interval_bytes=self._config.index_interval_bytes,
            max_index_size=self._config.segment_index_bytes,
            start_position=start_position,
            wants_indexes=wants_indexes,
            index_path=None if files.index is None else self._path(files.index.name),
            time_index_path=None if files.time_index is None else self._path(files.time_index.name),
            next_base=min((base for base in self._files if base > base_offset), default=INT64_MAX),
            is_last=is_recovered and files is self._inventory.segments[-1],
            # If the load pass has already cut a segment, recovering it again finds no damage, so the
            # segments after it stay.
            cut_ends_log=is_recovered and not state.is_protected and not state.needs_load_pass,
        )

    def _start_of_replay(self, files: FoundSegment, offset: int | None) -> int | None:
        """The position of the batch with this offset; None if there is nothing to replay."""
        if offset is None or offset <= files.base_offset:
            return None if offset is None else 0
        path = self._path(files.log.name)
        start = 0
        if files.index is not None:
            index = OffsetIndex(self._disk, self._path(files.index.name), files.base_offset, max_size=0)
            start = index.lookup(offset).position
            index.forget()
        try:
            batch = self._find(path, start, files.log.size, kernel.OFFSET_AT_LEAST, offset)
        except CorruptRecordError:
            return start
        return None if batch is None else batch.position

    def _find(self, path: str, start: int, end: int, kind: int, target: int) -> BatchRow | None:
        def read_into(buffer: Bytes, position: int) -> int:
            return self._disk.read_into(path, buffer, position)

        return find_batch(read_into, start, end, kind, target, path=path)

    def _path(self, name: str) -> str:
        return join_path(self._inventory.directory, name)


class _Guesses:
    """Guessed scans for a survey, as if each segment ended where the next one begins.

    Only scans that the sequence requests here can be needed. If a segment ends earlier or is damaged, fewer
    are needed.
    """

    def __init__(self, segments: Iterable[FoundSegment], end_offset: int | None) -> None:
        bases = [files.base_offset for files in segments]
        self.recovered: set[int] = set()
        self.replayed: dict[int, int] = {}
        self._end_offset = INT64_MAX - 1 if end_offset is None else end_offset
        self._ends = dict(zip(bases, [*bases[1:], self._end_offset], strict=False))

    def whole(self, segment: SegmentState) -> SegmentScan:
        self.recovered.add(segment.base_offset)
        return SegmentScan(
            path="",
            base_offset=segment.base_offset,
            start_position=0,
            file_size=segment.size,
            valid_size=segment.size,
            stop=ScanStop.END,
            reason="",
            batches_count=1,
            next_offset=self._ends[segment.base_offset],
            max_timestamp=-1,
            offset_of_max_timestamp=-1,
            offset_index=b"",
            time_index=b"",
            epoch_starts=(),
            producers=(),
            transactions=(),
        )

    def behind(self, segment: SegmentState, offset: int) -> None:
        known = self.replayed.get(segment.base_offset, offset)
        self.replayed[segment.base_offset] = min(known, offset)

    def next_offset(self, segment: SegmentState) -> int:
        return self._ends[segment.base_offset]


def snapshot_digest(data: bytes) -> bytes:
    """A digest of a snapshot's entries, whatever their order; all damaged snapshots have the same digest."""
    try:
        parse_snapshot(data)
    except CorruptSnapshotError:
        return _DAMAGED
    entries = [data[at : at + ENTRY_SIZE] for at in range(HEADER_SIZE, len(data), ENTRY_SIZE)]
    return blake2b(b"".join(sorted(entries)), digest_size=16).digest()


def _segment_states(
    inventory: Inventory, checks: dict[int, IndexCheck], settings: SequenceSettings
) -> list[SegmentState]:
    states = [
        SegmentState(files.base_offset, files.log.size, checks[files.base_offset].needs_load_pass)
        for files in inventory.segments
    ]
    # After a clean close everything counts as flushed. Only the last segment is not protected: recovery may
    # cut its tail, although a broker would not.
    point = INT64_MAX if settings.had_clean_shutdown else settings.recovery_point
    for state in states[: floor_segment(states, point)]:
        state.is_protected = True
    return states
