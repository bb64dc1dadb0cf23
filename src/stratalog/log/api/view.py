"""A log that somebody else may be writing, as far as it was written when it was last looked at.

It takes no lock, creates and changes nothing, and works on a read-only mount. What the directory lists
becomes segments; the last whole batch of the newest one is where the log ends, whatever stands behind it: a
batch that is being written, or the zeros of a preallocated file. `refresh` looks again.

A broker goes on meanwhile: it appends to files before it indexes them, so an index is read before the size of
its log is asked for; it renames what it deletes, so a file that is gone is looked for in a new listing; it
compacts, so a `.swap` may be in the place of other segments (`listing.py`). It notes an aborted transaction
after it has written the marker, so aborts are taken from the markers as well. There is no high watermark
here: everything that is in the files can be read.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptIndexError, CorruptRecordError, CorruptSnapshotError, DiskError
from stratalog.files.disk import ExpectedFile
from stratalog.files.entries import FileStatus
from stratalog.files.names import (
    FileKind,
    FileState,
    SegmentFile,
    TopicPartition,
)
from stratalog.files.processes import tell_in_child
from stratalog.files.reading import DiskReader
from stratalog.log.api.listing import SegmentFiles, list_log, offsets_of, whole_swaps
from stratalog.log.api.replay import Replay, ReplayedProducers
from stratalog.log.api.seen_epochs import EpochsFile, epochs_in_batches
from stratalog.log.epochs import EpochEntry
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.producer_entry import CompletedTxn
from stratalog.log.reading import AbortedTransaction, FetchedData, Isolation, check_passed_over, read
from stratalog.log.segments import LogSegments
from stratalog.log.timestamps import SpecialTimestamp, find_offset, first_not_before
from stratalog.records.kernels.memory import byte_array
from stratalog.records.walk import Stop, explain_stop, walk_batches
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment import LogSegment
from stratalog.segment.segment_files import Identities

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_ATTEMPTS = 5  # at a listing in which a file is gone before it is opened
_EXPLAINED_SIZE = 1 << 16  # of what is no batch, to say why not
_TAIL_SIZE = 1 << 20  # of what is read at once to see whether it is zeros
INT64_MAX = 2**63 - 1
_MOST_REPLAYS = 2  # from the newest snapshot, and from one that is known to be on the device


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """The log at one moment. `decided` is found when a reader of committed records first asks, and
    `rebuilt_epochs` where their file is garbled and somebody asks for the epochs."""

    segments: LogSegments
    snapshots: list[int]
    epochs: tuple[EpochEntry, ...] | None  # None: their file is garbled
    log_start_offset: int
    end: OffsetMetadata
    decided: list[_Decided] = field(default_factory=list)
    rebuilt_epochs: list[tuple[EpochEntry, ...]] = field(default_factory=list)


class _Decided(NamedTuple):
    """Up to where transactions are decided, those that a marker behind the newest snapshot aborted, and
    those that are open."""

    stable: OffsetMetadata
    aborted: list[CompletedTxn]
    undecided: list[AbortedTransaction]


class _Files(NamedTuple):
    """What tells whether the files of a segment have changed; 0 where there is no transaction index."""

    log_name: str
    log_size: int
    txn_index_size: int
    identities: Identities


class HiddenTail(NamedTuple):
    """The bytes after the last whole batch of a log, which are not read, and why."""

    path: str
    position: int
    size: int
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.path}: the {self.size} bytes from byte {self.position} on are not shown: {self.reason} "
            "Opening the log for writing cuts them off, and keeps them in quarantine."
        )


class LogView:
    """The log in a directory, for reading only."""

    def __init__(
        self,
        *,
        disk: DiskReader,
        clock: Clock,
        directory: str | os.PathLike[str],
        topic_partition: TopicPartition,
        config: LogConfig,
        log_start_offset: int = 0,
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self._disk, self._clock = disk, clock
        self._directory = os.fspath(directory)
        self._given_start = log_start_offset
        self._listed: dict[int, tuple[_Files, LogSegment]] = {}
        self._epochs_file = EpochsFile(disk, self._directory)
        self._replays: dict[int, Replay] = {}  # by the offset that each began at
        self._lock = threading.Lock()
        self._seen = self._look()
        tell_in_child(self)

    def start_over_in_child(self) -> None:
        """After a fork: the threads that may have held the locks are not here."""
        self._lock = threading.Lock()
        for segment in {*self._seen.segments, *(known for _, known in self._listed.values())}:
            segment.start_over_in_child()

    def refresh(self, log_start_offset: int | None = None) -> None:
        """See what was appended, rolled and deleted since; `log_start_offset` is where the log starts now."""
        with self._lock:
            if log_start_offset is not None:
                self._given_start = log_start_offset
            self._seen = self._look()

    def close(self) -> None:
        """Give back memory and close the files that are kept open."""
        for segment in self._seen.segments:
            segment.close_handlers()
        self._disk.release(self._directory)
        self._replays.clear()

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def segments(self) -> LogSegments:
        return self._seen.segments

    @property
    def log_start_offset(self) -> int:
        return self._seen.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._seen.end.offset

    @property
    def high_watermark(self) -> int:
        return self._seen.end.offset

    @property
    def last_stable_offset(self) -> int:
        return self._looking(self._decided).stable.offset

    @property
    def epochs(self) -> tuple[EpochEntry, ...]:
        """The leader epochs, oldest first. Where their file is garbled this reads the headers of the log."""
        return self._looking(_epochs)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is wrong with files beside the segments, and what is done instead."""
        return () if self._epochs_file.note is None else (self._epochs_file.note,)

    @property
    def size(self) -> int:
        return sum(segment.size for segment in self._seen.segments)

    def metrics(self) -> dict[str, int]:
        """As `Log.metrics`."""
        return {
            "NumLogSegments": len(self.segments),
            "LogStartOffset": self.log_start_offset,
            "LogEndOffset": self.log_end_offset,
            "Size": self.size,
        }

    def read(
        self,
        start_offset: int,
        max_size: int,
        *,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        min_one_message: bool = True,
    ) -> FetchedData:
        """As `Log.read`."""
        return self._looking(
            lambda seen: self._read(seen, start_offset, max_size, isolation, min_one_message=min_one_message)
        )

    def check_passed_over(self, offset: int, stop_base: int) -> None:
        """As `Log.check_passed_over`."""
        self._looking(lambda seen: check_passed_over(seen.segments, offset, stop_base))

    def look_again(self) -> None:
        """See the log as it is now, with nothing believed of what was seen before."""
        with self._lock:
            for _, segment in self._listed.values():
                segment.close_handlers()
            self._listed = {}
            self._seen = self._look()

    def _looking(self, look: Callable[[_Seen], _T]) -> _T:
        """What is found in the log as it was last seen; as it is now, if files of it are gone or replaced.

        Where a truncated log goes on, a batch may stand in the middle of what was one before. That looks like
        damage, but not for long: damage is what is found again in a file that nobody has touched meanwhile.
        """
        damage = _Damage(self._disk)
        for _ in range(_ATTEMPTS):
            seen = self._seen
            try:
                return look(seen)
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
                self._replace_seen(seen)
            except (CorruptRecordError, CorruptIndexError) as error:
                if damage.is_found_again(error):
                    raise
                self.look_again()
        return look(self._seen)

    def _replace_seen(self, seen: _Seen) -> None:
        """Put what is there now in the place of what was seen, unless another thread has done so."""
        with self._lock:
            if self._seen is seen:
                self._seen = self._look()

    def _read(
        self, seen: _Seen, start_offset: int, max_size: int, isolation: Isolation, *, min_one_message: bool
    ) -> FetchedData:
        decided = self._decided(seen) if isolation is Isolation.TXN_COMMITTED else None
        found = read(
            seen.segments,
            start_offset,
            max_size,
            log_start_offset=seen.log_start_offset,
            end=seen.end,
            limit=seen.end if decided is None else decided.stable,
            min_one_message=min_one_message,
            include_aborted=decided is not None,
        )
        if decided is None or not decided.aborted or not found.records:
            return found
        # The index may lack those that were aborted last, and may have them.
        aborted = {*(found.aborted_transactions or ())}
        aborted.update(
            AbortedTransaction(txn.producer_id, txn.first_offset)
            for txn in decided.aborted
            if txn.last_offset >= start_offset
        )
        in_order = sorted(aborted, key=lambda transaction: transaction.first_offset)
        return found._replace(aborted_transactions=in_order)

    def aborted(self, *, up_to: int | None = None) -> list[CompletedTxn]:
        """The transactions that a marker behind the newest snapshot aborted, by the markers.

        Those before it are in the transaction indexes. With `up_to`, behind the newest snapshot at or below
        that offset: a power cut can lose what was written to an index above the recovery point, and with 0
        all are taken from the markers.
        """
        if up_to is None or not any(offset > up_to for offset in self._seen.snapshots):
            return self._looking(self._decided).aborted
        return self._looking(lambda seen: [*self._producers(seen, up_to=up_to).aborted])

    def strange_tail(self) -> tuple[int, int] | None:
        """(where they begin, where they end) of bytes behind the end that are no batch, nor zeros.

        A write that goes on or was cut off leaves such, and so does damage.
        """
        return self._looking(self._strange_tail)

    def _strange_tail(self, seen: _Seen) -> tuple[int, int] | None:
        if not len(seen.segments):
            return None
        active = seen.segments.active
        start, size = seen.end.position, self._disk.size(active.log_path)
        for position in range(start, size, _TAIL_SIZE):
            if self._disk.read_at(active.log_path, min(size - position, _TAIL_SIZE), position).strip(b"\0"):
                return start, size
        return None

    def hidden_tail(self) -> HiddenTail | None:
        """The same, with what the reader stumbles over; None where there are no such bytes, or only zeros.

        What a writer has appended since the last look is not hidden. So the view looks again: bytes that are
        still no batch then are.
        """
        before: tuple[str, int] | None = None
        for _ in range(_ATTEMPTS):
            found = self._looking(self._hidden_tail)
            if found is None or (found.path, found.position) == before:
                return found
            before = found.path, found.position
            self.look_again()
        return None  # somebody writes faster than this looks

    def _hidden_tail(self, seen: _Seen) -> HiddenTail | None:
        found = self._strange_tail(seen)
        if found is None:
            return None
        path, position, size = seen.segments.active.log_path, found[0], found[1] - found[0]
        data = self._disk.read_at(path, min(size, _EXPLAINED_SIZE), position)
        stop = walk_batches(data, check_crc=False).stop
        if stop not in (Stop.BAD_LENGTH, Stop.BAD_MAGIC):
            stop = Stop.TORN_TAIL
        return HiddenTail(path, position, size, explain_stop(byte_array(data), 0, size, stop))

    def undecided(self) -> list[AbortedTransaction]:
        """The transactions that no marker has ended: what a reader leaves out who goes past them."""
        return self._looking(self._decided).undecided

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """As `Log.fetch_offset_by_timestamp`."""
        return self._looking(lambda seen: self._find_offset(seen, timestamp))

    def _find_offset(self, seen: _Seen, timestamp: int) -> TimestampAndOffset | None:
        if timestamp == SpecialTimestamp.MAX_TIMESTAMP and len(seen.segments):
            seen.segments.active.find_largest_timestamp()
        found = find_offset(
            seen.segments, lambda: _epochs(seen), timestamp, seen.log_start_offset, seen.end.offset
        )
        return self._first_in_newest(seen, timestamp) if found is None and timestamp >= 0 else found

    def first_not_before(self, timestamp: int) -> TimestampAndOffset | None:
        """As `Log.first_not_before`."""

        def look(seen: _Seen) -> TimestampAndOffset | None:
            found = first_not_before(seen.segments, timestamp, seen.log_start_offset)
            return self._first_in_newest(seen, timestamp) if found is None else found

        return self._looking(look)

    def _first_in_newest(self, seen: _Seen, timestamp: int) -> TimestampAndOffset | None:
        """The same in the newest segment, whatever its time index says.

        Whoever writes it knows its largest timestamp, and notes it with the next entry, or when the segment
        is closed: what came since the last one would seem to be before every later time.
        """
        if not len(seen.segments):
            return None
        return seen.segments.active.find_offset_by_timestamp(timestamp, seen.log_start_offset)

    def _look(self) -> _Seen:
        for attempt in range(_ATTEMPTS):
            try:
                return self._look_once()
            except DiskError as error:
                if error.errno != errno.ENOENT or attempt == _ATTEMPTS - 1:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _look_once(self) -> _Seen:
        files = list_log(self._disk, self._directory)
        # A descriptor that is kept open would go on showing a file that a broker has replaced.
        self._disk.release(self._directory)
        segments = LogSegments(self._segments_of(files))
        epochs = self._epochs_file.read()
        snapshots = offsets_of(files, FileKind.PRODUCER_SNAPSHOT)
        if not len(segments):
            end = OffsetMetadata(self._given_start, self._given_start, 0)
            return _Seen(
                segments=segments,
                snapshots=snapshots,
                epochs=epochs,
                log_start_offset=self._given_start,
                end=end,
            )
        end = self._end_of(segments.active)
        return _Seen(
            segments=segments,
            snapshots=snapshots,
            epochs=epochs,
            log_start_offset=min(max(self._given_start, segments.first.base_offset), end.offset),
            end=end,
        )

    def _segments_of(self, files: SegmentFiles) -> list[LogSegment]:
        """A segment for each log that counts; the one from before where its files have not changed."""
        before, self._listed = self._listed, {}
        for base_offset in whole_swaps(files):
            log = SegmentFile(base_offset, FileKind.LOG, FileState.SWAP)
            self._listed[base_offset] = self._segment_of(log, files, before)
        replaced = range(0)
        if self._listed:
            swaps = [segment for _, segment in self._listed.values()]
            ends = [self._walked_end(segment, _last_indexed(segment))[0] for segment in swaps]
            replaced = range(min(self._listed), max(ends))
        for base_offset in offsets_of(files, FileKind.LOG):
            if base_offset not in replaced and base_offset not in self._listed:
                log = SegmentFile(base_offset, FileKind.LOG)
                self._listed[base_offset] = self._segment_of(log, files, before)
        for base_offset, known in before.items():
            if self._listed.get(base_offset) is not known:
                known[1].close_handlers()
        return [segment for _, segment in self._listed.values()]

    def _segment_of(
        self, log: SegmentFile, files: SegmentFiles, before: dict[int, tuple[_Files, LogSegment]]
    ) -> tuple[_Files, LogSegment]:
        entry, txn_index = files[log], files.get(log._replace(kind=FileKind.TXN_INDEX))
        index, time_index = (
            files.get(log._replace(kind=kind)) for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        )
        identities = Identities(
            ExpectedFile(entry.id, entry.size),
            *(None if file is None else ExpectedFile(file.id) for file in (index, time_index, txn_index)),
        )
        # An entry that came after its marker has not made the log any longer.
        found = _Files(entry.name, entry.size, 0 if txn_index is None else txn_index.size, identities)
        known = before.get(log.offset)
        if known is not None and known[0] == found:
            return known
        segment = LogSegment.open(
            self._disk,
            self._directory,
            log.offset,
            self.config,
            self._clock,
            suffix=log.state.value,
            size=entry.size,
            has_index=index is not None,
            has_time_index=time_index is not None,
            has_txn_index=txn_index is not None,
            identities=identities,
        )
        return found, segment

    def _end_of(self, active: LogSegment) -> OffsetMetadata:
        """Behind the last whole batch; the segment's size is set to there, so that nothing more is read."""
        start, listed_size = _last_indexed(active), active.size
        active.size = max(listed_size, self._disk.size(active.log_path))
        next_offset, active.size = self._walked_end(active, start)
        return OffsetMetadata(next_offset, active.base_offset, active.size)

    def _walked_end(self, segment: LogSegment, start: int) -> tuple[int, int]:
        """(next offset, position) behind the last whole batch; `start` is where the index knows one."""
        found = self._walk_to_end(segment, start)
        if found is None and start:  # an index of a log that has lost its tail
            found = self._walk_to_end(segment, 0)
        return found or (segment.base_offset, 0)

    def _walk_to_end(self, active: LogSegment, start: int) -> tuple[int, int] | None:
        """(next offset, position behind the last whole batch), from a batch at `start` on."""
        found = None
        try:
            for chunk in active.batches(start):
                last = chunk.headers[-1]
                position = chunk.position + int(last["position"]) + int(last["size"])
                # A damaged offset may be the largest there is, behind which there is none.
                found = min(int(last["last_offset"]) + 1, INT64_MAX), position
        except CorruptRecordError as error:
            logger.info("%s is read up to what is no batch: %s", active.log_path, error)
        return found

    def _decided(self, seen: _Seen) -> _Decided:
        """Up to the first record of an open transaction, or to the end of the log."""
        if not seen.decided:
            producers = self._producers(seen)
            first = producers.first_undecided_offset
            stable = seen.end
            if first is not None:
                found = read(
                    seen.segments,
                    max(first, seen.log_start_offset),
                    1,
                    log_start_offset=seen.log_start_offset,
                    end=seen.end,
                    limit=seen.end,
                )
                stable = found.offset._replace(offset=max(found.offset.offset, seen.log_start_offset))
            seen.decided.append(_Decided(stable, [*producers.aborted], producers.undecided))
        return seen.decided[0]

    def _producers(self, seen: _Seen, *, up_to: int | None = None) -> ReplayedProducers:
        """From the newest snapshot that can be read, and the batches behind it. Nothing is written."""
        newest = seen.end.offset if up_to is None else min(up_to, seen.end.offset)
        starts = [each for each in reversed(seen.snapshots) if seen.log_start_offset < each <= newest]
        for start in starts:
            found = self._replayed(seen, start, is_snapshot=True)
            if found is not None:
                return found
        found = self._replayed(seen, seen.log_start_offset, is_snapshot=False)
        assert found is not None
        return found

    def _replayed(self, seen: _Seen, start: int, *, is_snapshot: bool) -> ReplayedProducers | None:
        """Producers at the end of the log; None for a snapshot that cannot be read.

        What was replayed for an earlier look is gone on with.
        """
        replay = self._replays.pop(start, None)
        if replay is None or not replay.can_go_on(seen.segments, seen.end.offset):
            producers = ReplayedProducers(
                self._disk, self._directory, clock=self._clock, snapshot_offsets=seen.snapshots
            )
            if is_snapshot and not _load_snapshot(producers, start):
                return None
            replay = Replay(producers, start)
        replay.go_on(seen.segments, seen.end.offset)
        self._replays[start] = replay
        while len(self._replays) > _MOST_REPLAYS:
            del self._replays[next(iter(self._replays))]
        return replay.producers


def _epochs(seen: _Seen) -> tuple[EpochEntry, ...]:
    if seen.epochs is not None:
        return seen.epochs
    if not seen.rebuilt_epochs:
        found = epochs_in_batches(seen.segments, seen.log_start_offset, seen.end.offset)
        seen.rebuilt_epochs.append(found)
    return seen.rebuilt_epochs[0]


class _Damage:
    """What a reader has stumbled over, and its file as it was before the reader looked again."""

    def __init__(self, disk: DiskReader) -> None:
        self._disk = disk
        self._found: tuple[str | None, int, FileStatus | None] | None = None

    def is_found_again(self, error: CorruptRecordError | CorruptIndexError) -> bool:
        """Whether the same was found the last time, and the file has not changed since."""
        status = None if error.path is None else self._disk.status(error.path)
        position = error.position if isinstance(error, CorruptRecordError) else 0
        before, self._found = self._found, (error.path, position, status)
        return before == self._found


def _load_snapshot(producers: ReplayedProducers, offset: int) -> bool:
    try:
        entries = producers.snapshots.read(offset)
    except CorruptSnapshotError:
        return False
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise
        return False
    for entry in entries:
        producers.load_producer_entry(entry)
    return True


def _last_indexed(segment: LogSegment) -> int:
    try:
        return segment.offset_index.last_entry.position
    except CorruptIndexError:  # it was trimmed while it was read
        return 0
