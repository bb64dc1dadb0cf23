"""Loads one partition as Kafka 2.1 did, file operation by file operation; the variants change single steps.

1. Log.loadSegments lists the directory twice, and asks for the status of each file both times.
2. Log.loadSegmentFiles opens each log and maps its indexes, then checks them. After an unclean stop, the
   time index of the newest segment is still preallocated and fails the check, so that segment is recovered.
   From 2.3 on, Kafka does neither in this step.
3. Log.recoverLog, after an unclean stop: each segment from the recovery point on is recovered, whether it was
   recovered in step 2 or not.
4. The end of the log is read, from the last index entry on, and the newest indexes get their largest size.
5. LeaderEpochFileCache.truncateFromStart rewrites `leader-epoch-checkpoint` and syncs it: the only sync.
6. The newest producer snapshot is read.

To recover a segment (LogSegment.recover), Kafka deletes producer snapshots after it and reads the one at its
start. It reads all batches, compares their checksums, and rebuilds both indexes in place. Then it writes a
producer snapshot at the segment's end. Indexes and snapshots are not synced.

The scan is our own, which is several times as fast as Java's. Left out are Java itself, the open descriptors
(files are closed at once), and the removal of the clean-shutdown file. These steps come from the source of
Kafka 2.1.1 and 2.3.1.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from stratalog.cli.startup.counting import CountingDisk
from stratalog.cli.startup.mapped_index import ENTRY_SIZES, MappedIndex
from stratalog.config import LogConfig
from stratalog.errors import CorruptIndexError, CorruptRecordError
from stratalog.files.names import (
    LEADER_EPOCH_CHECKPOINT,
    TEMPORARY_SUFFIX,
    FileKind,
    FileState,
    parse_segment_file,
    segment_file_name,
)
from stratalog.files.paths import join_path
from stratalog.limits import INT64_MAX
from stratalog.log.producers.snapshot import build_snapshot
from stratalog.log.producers.snapshot_files import snapshot_offsets
from stratalog.records.kernels.memory import Bytes
from stratalog.segment.sanity import sanity_check
from stratalog.segment.scan import scan_segment
from stratalog.segment.segment_reader import SegmentReader


class IndexCheckKind(Enum):
    """How an index is checked before it is trusted."""

    NONE = "none"
    KAFKA_2 = "Kafka 2.1's, for which zeros are entries"
    RIGHT = "a right one"


class Strategy(NamedTuple):
    """One way of loading. `scans_once`: a segment that failed its check is not scanned again."""

    name: str
    maps_indexes: bool
    check: IndexCheckKind
    scans_once: bool


class KafkaLoad:
    """One partition that is loaded by `run`; `recovery_point` is None after a clean stop."""

    def __init__(
        self,
        strategy: Strategy,
        disk: CountingDisk,
        folder: str,
        config: LogConfig,
        *,
        recovery_point: int | None,
        buffer: Bytes,
    ) -> None:
        self._strategy, self._disk, self._folder, self._config = strategy, disk, folder, config
        self._recovery_point = recovery_point
        self._buffer = buffer
        self._maps: dict[tuple[int, FileKind], MappedIndex] = {}

    def run(self) -> None:
        try:
            bases = self._list()
            recovered = {base for base in bases if not self._open(base)}
            for base in self._unflushed(bases):
                if not (self._strategy.scans_once and base in recovered):
                    self._recover(base)
            self._finish(bases[-1])
        finally:
            for index in self._maps.values():
                index.close()

    def _list(self) -> list[int]:
        """The base offsets. Kafka: removeTempFilesAndCollectSwapFiles, then loadSegmentFiles"""
        self._disk.list_directory(self._folder)
        bases = []
        for entry in sorted(self._disk.list_directory(self._folder), key=lambda entry: entry.name):
            file = parse_segment_file(entry.name)
            if file is None or file.state is not FileState.LIVE:
                continue
            if file.kind is FileKind.LOG:
                bases.append(file.offset)
            elif file.kind in ENTRY_SIZES:
                self._disk.exists(self._path(file.offset, FileKind.LOG))
        return bases

    def _open(self, base: int) -> bool:
        """Open a segment; False if an index failed its check, so that the segment was recovered."""
        with self._disk.open_read(self._path(base, FileKind.LOG)) as log:
            self._disk.size(log)
        for kind in ENTRY_SIZES:
            self._disk.exists(self._path(base, kind))
            if self._strategy.maps_indexes:
                self._mapped(base, kind).last_entry()
        if self._passes_check(base):
            return True
        self._recover(base)
        return False

    def _passes_check(self, base: int) -> bool:
        if self._strategy.check is IndexCheckKind.KAFKA_2:
            return all(self._mapped(base, kind).passes_check() for kind in ENTRY_SIZES)
        if self._strategy.check is IndexCheckKind.RIGHT:
            try:
                sanity_check(SegmentReader(self._disk, self._folder, base, self._config))
            except (CorruptIndexError, CorruptRecordError):
                return False
        return True

    def _unflushed(self, bases: list[int]) -> list[int]:
        """The segments from the one with the recovery point on; none after a clean stop."""
        if self._recovery_point is None:
            return []
        below = [number for number, base in enumerate(bases) if base <= self._recovery_point]
        return bases[below[-1] if below else 0 :]

    def _recover(self, base: int) -> None:
        """Kafka: Log.recoverSegment, LogSegment.recover"""
        snapshot = self._reload_producers(base)
        found = scan_segment(
            self._disk,
            self._path(base, FileKind.LOG),
            base,
            index_interval_bytes=self._config.index_interval_bytes,
            buffer=self._buffer,
        )
        entries = {FileKind.OFFSET_INDEX: found.offset_index, FileKind.TIME_INDEX: found.time_index}
        for kind, data in entries.items():
            self._mapped(base, kind).rebuild(data, self._config.segment_index_bytes)
        # The measured logs have no producers with ids, so the state at the end is that of the start.
        path = self._path(found.next_offset, FileKind.PRODUCER_SNAPSHOT)
        self._disk.delete(path)
        self._disk.append(path, snapshot)

    def _reload_producers(self, offset: int) -> bytes:
        """The content of the newest snapshot at or before an offset; later ones are deleted.

        Kafka: ProducerStateManager.truncateAndReload
        """
        kept = None
        for snapshot in snapshot_offsets(self._disk, self._folder):
            path = self._path(snapshot, FileKind.PRODUCER_SNAPSHOT)
            if 0 < snapshot <= offset:
                kept = path
            else:
                self._disk.delete(path)
        return (self._disk.read_file(kept) if kept else None) or build_snapshot([])

    def _finish(self, newest: int) -> None:
        last = self._mapped(newest, FileKind.OFFSET_INDEX).last_entry()
        log, position = self._path(newest, FileKind.LOG), int.from_bytes(last[4:], "big")
        self._disk.read_at(log, self._disk.size(log) - position, position)
        for kind in ENTRY_SIZES:
            self._mapped(newest, kind).resize(self._config.segment_index_bytes)
        epochs = join_path(self._folder, LEADER_EPOCH_CHECKPOINT)
        data = self._disk.read_file(epochs)
        if data is not None:
            temporary = epochs + TEMPORARY_SUFFIX
            self._disk.append(temporary, data)
            self._disk.sync(temporary)
            self._disk.rename(temporary, epochs)
        self._reload_producers(INT64_MAX)

    def _mapped(self, base: int, kind: FileKind) -> MappedIndex:
        key = (base, kind)
        if key not in self._maps:
            self._maps[key] = MappedIndex(self._disk, self._path(base, kind), kind)
        return self._maps[key]

    def _path(self, base: int, kind: FileKind) -> str:
        return join_path(self._folder, segment_file_name(base, kind))
