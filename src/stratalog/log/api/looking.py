"""Looks at the files of a log while another process writes it, and finds its segments and its end.

A broker may be running meanwhile. It appends a batch before it indexes it, so an index is read before the
size of its log. It renames files before it deletes them, so if a file is gone, the directory is listed again.
It compacts, so a `.swap` may replace other segments (`listing.py`). When it appends to a truncated log, a new
batch may begin in the middle of an old one, which looks like damage (`SeenDamage`).
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from typing import NamedTuple

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptIndexError, CorruptRecordError, DiskError
from stratalog.files.disk import ExpectedFile
from stratalog.files.entries import FileStatus
from stratalog.files.names import FileKind, FileState, SegmentFile
from stratalog.files.reading import DiskReader
from stratalog.log.api.listing import ListedFiles, list_log, offsets_of, whole_swaps
from stratalog.log.api.seen_epochs import EpochsFile, epochs_in_batches
from stratalog.log.epochs import EpochEntry
from stratalog.log.log_end import last_indexed, last_whole
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.producers.entry import CompletedTxn
from stratalog.log.reading import AbortedTransaction
from stratalog.log.segments import SegmentReaders
from stratalog.segment.identities import Identities
from stratalog.segment.segment_reader import SegmentReader

ATTEMPTS = 5  # when a listed file is gone before it is opened


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The log at one moment.

    `decided` is computed when a reader of committed records first needs it; `rebuilt_epochs` when the leader
    epochs are needed and their file is garbled."""

    segments: SegmentReaders
    snapshots: list[int]
    epochs: tuple[EpochEntry, ...] | None  # None: their file is garbled
    log_start_offset: int
    end: OffsetMetadata
    decided: list[Decided] = field(default_factory=list)
    rebuilt_epochs: list[tuple[EpochEntry, ...]] = field(default_factory=list)

    def all_epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs from their file, or else from the batches."""
        if self.epochs is not None:
            return self.epochs
        if not self.rebuilt_epochs:
            found = epochs_in_batches(self.segments, self.log_start_offset, self.end.offset)
            self.rebuilt_epochs.append(found)
        return self.rebuilt_epochs[0]


class Decided(NamedTuple):
    """How far transactions are decided, which ones were aborted, and which are open.

    `aborted` has those whose marker comes after the newest snapshot.
    """

    stable: OffsetMetadata
    aborted: list[CompletedTxn]
    undecided: list[AbortedTransaction]


class _Files(NamedTuple):
    """What shows whether a segment's files have changed; a missing transaction index has size 0."""

    log_name: str
    log_size: int
    txn_index_size: int
    identities: Identities


class Looker:
    """Looks at one log repeatedly, and keeps the objects of segments whose files have not changed."""

    def __init__(self, disk: DiskReader, clock: Clock, directory: str, config: LogConfig) -> None:
        self._disk, self._clock = disk, clock
        self._directory = directory
        self._config = config
        self._listed: dict[int, tuple[_Files, SegmentReader]] = {}
        self.epochs_file = EpochsFile(disk, directory)

    def segments(self) -> list[SegmentReader]:
        """All segments that the last look found."""
        return [segment for _, segment in self._listed.values()]

    def forget(self) -> None:
        """Forget all that earlier looks found."""
        for segment in self.segments():
            segment.forget()
        self._listed = {}

    def look(self, log_start_offset: int) -> Seen:
        """The log as it is now; `log_start_offset` is where its owner says that it starts."""
        for attempt in range(ATTEMPTS):
            try:
                return self._look_once(log_start_offset)
            except DiskError as error:
                if error.errno != errno.ENOENT or attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _look_once(self, given_start: int) -> Seen:
        files = list_log(self._disk, self._directory)
        # A descriptor that is kept open would still show a file that a broker has replaced.
        self._disk.release(self._directory)
        segments = SegmentReaders(self._segments_of(files))
        epochs = self.epochs_file.read()
        snapshots = offsets_of(files, FileKind.PRODUCER_SNAPSHOT)
        if not len(segments):
            end = OffsetMetadata(given_start, given_start, 0)
            return Seen(
                segments=segments,
                snapshots=snapshots,
                epochs=epochs,
                log_start_offset=given_start,
                end=end,
            )
        end = self._end_of(segments.active)
        return Seen(
            segments=segments,
            snapshots=snapshots,
            epochs=epochs,
            log_start_offset=min(max(given_start, segments.first.base_offset), end.offset),
            end=end,
        )

    def _segments_of(self, files: ListedFiles) -> list[SegmentReader]:
        """A segment for each .log that belongs to the log; the known object if its files have not changed."""
        before, self._listed = self._listed, {}
        for base_offset in whole_swaps(files):
            log = SegmentFile(base_offset, FileKind.LOG, FileState.SWAP)
            self._listed[base_offset] = self._segment_of(log, files, before)
        replaced = range(0)
        if self._listed:
            swaps = [segment for _, segment in self._listed.values()]
            ends = [last_whole(segment)[0] for segment in swaps]
            replaced = range(min(self._listed), max(ends))
        for base_offset in offsets_of(files, FileKind.LOG):
            if base_offset not in replaced and base_offset not in self._listed:
                log = SegmentFile(base_offset, FileKind.LOG)
                self._listed[base_offset] = self._segment_of(log, files, before)
        for base_offset, known in before.items():
            if self._listed.get(base_offset) is not known:
                known[1].forget()
        return [segment for _, segment in self._listed.values()]

    def _segment_of(
        self, log: SegmentFile, files: ListedFiles, before: dict[int, tuple[_Files, SegmentReader]]
    ) -> tuple[_Files, SegmentReader]:
        entry, txn_index = files[log], files.get(log._replace(kind=FileKind.TXN_INDEX))
        index, time_index = (
            files.get(log._replace(kind=kind)) for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        )
        identities = Identities(
            ExpectedFile(entry.id, entry.size),
            *(None if file is None else ExpectedFile(file.id) for file in (index, time_index, txn_index)),
        )
        # The size of the transaction index is compared too: an entry is written after its marker, when the
        # .log may not grow any more.
        found = _Files(entry.name, entry.size, 0 if txn_index is None else txn_index.size, identities)
        known = before.get(log.offset)
        if known is not None and known[0] == found:
            return known
        segment = SegmentReader(
            self._disk,
            self._directory,
            log.offset,
            self._config,
            suffix=log.state.value,
            size=entry.size,
            has=(index is not None, time_index is not None, txn_index is not None),
            identities=identities,
        )
        return found, segment

    def _end_of(self, active: SegmentReader) -> OffsetMetadata:
        """The end of the last whole batch; sets the segment's size to it, so that nothing more is read."""
        start, listed_size = last_indexed(active), active.size
        active.size = max(listed_size, self._disk.size(active.log_path))
        next_offset, active.size = last_whole(active, start)
        return OffsetMetadata(next_offset, active.base_offset, active.size)


class SeenDamage:
    """The damage that a reader has found, and the state of its file at that time."""

    def __init__(self, disk: DiskReader) -> None:
        self._disk = disk
        self._found: tuple[str | None, int, FileStatus | None] | None = None

    def is_found_again(self, error: CorruptRecordError | CorruptIndexError) -> bool:
        """Whether the same damage was found the last time, and the file has not changed since."""
        status = None if error.path is None else self._disk.status(error.path)
        position = error.position if isinstance(error, CorruptRecordError) else 0
        before, self._found = self._found, (error.path, position, status)
        return before == self._found
