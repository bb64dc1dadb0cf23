"""A read-only view of a log that another process may be writing, as it was at the last look.

It takes no lock, creates and changes nothing, and works on a read-only mount. The segments are those that the
directory lists. The log ends with the last whole batch of the newest segment; a batch that is being written
or the zeros of a preallocated file may follow. `refresh` looks again.

A broker may be running meanwhile (`looking.py`). It adds an aborted transaction to the index after it has
written the marker, so a view reads the markers as well. A view has no high watermark: every record in the
files can be read.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import CorruptIndexError, CorruptRecordError, CorruptSnapshotError, DiskError
from stratalog.files.names import TopicPartition
from stratalog.files.processes import tell_in_child
from stratalog.files.reading import DiskReader
from stratalog.log.api.looking import ATTEMPTS, Decided, Looker, Seen, SeenDamage
from stratalog.log.api.replay import Replay, ReplayedProducers
from stratalog.log.epochs import EpochEntry
from stratalog.log.log_end import NOT_CLOSED, Left, LogEnd, end_of, valid_end
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.producers.entry import CompletedTxn, ProducerStateEntry
from stratalog.log.reading import AbortedTransaction, FetchedData, Isolation, check_passed_over, read
from stratalog.log.segments import SegmentReaders
from stratalog.log.timestamps import SpecialTimestamp, find_offset, search_segment, search_time
from stratalog.segment.proven_search import TimeSearch
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment_reader import SegmentReader

logger = logging.getLogger(__name__)

_T = TypeVar("_T")
_MOST_REPLAYS = 2  # one starts at the newest snapshot, one at a snapshot that is known to be on the device


class LogView:
    """The log in a directory, for reading only; `left` says how its last writer closed it."""

    def __init__(
        self,
        *,
        disk: DiskReader,
        clock: Clock,
        directory: str | os.PathLike[str],
        topic_partition: TopicPartition,
        config: LogConfig,
        log_start_offset: int = 0,
        left: Left = NOT_CLOSED,
    ) -> None:
        self.topic_partition = topic_partition
        self.left = left
        self.config = config
        self._disk, self._clock = disk, clock
        self._directory = os.fspath(directory)
        self._given_start = log_start_offset
        self._looker = Looker(disk, clock, self._directory, config)
        self._replays: dict[int, Replay] = {}  # by the offset that each began at
        self._lock = threading.Lock()
        self._seen = self._looker.look(self._given_start)
        tell_in_child(self)

    def start_over_in_child(self) -> None:
        """After a fork: the threads that may have held the locks are not here."""
        self._lock = threading.Lock()
        for segment in {*self._seen.segments, *self._looker.segments()}:
            segment.start_over_in_child()

    def refresh(self, log_start_offset: int | None = None, left: Left | None = None) -> None:
        """Look at the log again; `log_start_offset` is where the log starts now."""
        with self._lock:
            if left is not None:
                self.left = left
            if log_start_offset is not None:
                self._given_start = log_start_offset
            self._seen = self._looker.look(self._given_start)

    def close(self) -> None:
        """Release memory and close the files that are kept open."""
        for segment in self._seen.segments:
            segment.forget()
        self._disk.release(self._directory)
        self._replays.clear()

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def segments(self) -> SegmentReaders:
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
        """The leader epochs, oldest first. If their file is garbled, this reads the headers of the log."""
        return self._looking(Seen.all_epochs)

    @property
    def notes(self) -> tuple[str, ...]:
        """Problems of files other than the segments, and what the view does about each."""
        return () if self._looker.epochs_file.note is None else (self._looker.epochs_file.note,)

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
        """Look at the log again, and forget all that earlier looks found."""
        with self._lock:
            self._looker.forget()
            self._seen = self._looker.look(self._given_start)

    def _looking(self, look: Callable[[Seen], _T]) -> _T:
        """Calls `look` on the log as last seen; if files of it are gone or replaced, on the log as it is now.

        When a truncated log is appended to, a new batch may begin in the middle of an old one, which looks
        like damage for a moment. It counts as damage only if it is found again in an unchanged file.
        """
        damage = SeenDamage(self._disk)
        for _ in range(ATTEMPTS):
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

    def _replace_seen(self, seen: Seen) -> None:
        """Replace the last look by a new one, unless another thread has done so."""
        with self._lock:
            if self._seen is seen:
                self._seen = self._looker.look(self._given_start)

    def _read(
        self, seen: Seen, start_offset: int, max_size: int, isolation: Isolation, *, min_one_message: bool
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
        # The index may or may not have the transactions that were aborted last.
        aborted = {*(found.aborted_transactions or ())}
        aborted.update(
            AbortedTransaction(txn.producer_id, txn.first_offset)
            for txn in decided.aborted
            if txn.last_offset >= start_offset
        )
        in_order = sorted(aborted, key=lambda transaction: transaction.first_offset)
        return found._replace(aborted_transactions=in_order)

    def aborted(self, end: LogEnd, *, up_to: int) -> list[CompletedTxn]:
        """The transactions whose abort marker comes after a snapshot; reads the markers up to this end.

        Older ones are in the transaction indexes. The snapshot is the newest one at or below the offset
        `up_to`: a power cut can lose index entries above the recovery point. With 0, all markers are read.
        """
        if not any(offset > up_to for offset in self._seen.snapshots):
            return self.decided_at(end).aborted
        return self._looking(lambda seen: [*self._producers(_ending_at(seen, end), up_to=up_to).aborted])

    def end(self) -> LogEnd:
        """Where the log ends, and why; the bytes past the end are read to find out.

        Batches that a writer has appended since the last look are not hidden. So the view looks again, and
        only bytes that are still not a batch count as hidden.
        """
        return self._found_again(self._end, lambda found: found.hides_something)

    def valid_end(self) -> LogEnd:
        """The end for a reader that does not trust bytes from a crash (`log_end.py`).

        Bytes count as damaged records only if a second look finds the same end and the same bytes after it.
        """
        return self._found_again(
            lambda seen: valid_end(self._disk, _active(seen), seen.end, self.left),
            lambda found: found.missing_end is not None,
        )

    def _found_again(self, look: Callable[[Seen], LogEnd], is_doubtful: Callable[[LogEnd], bool]) -> LogEnd:
        """The end of the log. If it is doubtful, the view looks again until it finds the same end twice."""
        before: tuple[str, int, int] | None = None
        for _ in range(ATTEMPTS):
            found = self._looking(look)
            place = found.path, found.position, found.hidden_size
            if not is_doubtful(found) or place == before:
                return found
            before = place
            self.look_again()
        return found.without_hidden()  # a writer has appended before each look

    def _end(self, seen: Seen) -> LogEnd:
        return end_of(self._disk, _active(seen), seen.end, self.left)

    def decided_at(self, end: LogEnd) -> Decided:
        """How far transactions are decided in a log with this end, which may be after damage.

        The snapshot of a clean shutdown also knows of transactions after damage.
        """

        return self._looking(lambda seen: self._decided(_ending_at(seen, end)))

    def producers(self) -> list[ProducerStateEntry]:
        """What the log shows about each producer, by id; even those that a broker has forgotten by now."""
        return self._looking(
            lambda seen: [entry.copy() for _, entry in sorted(self._producers(seen).producers.items())]
        )

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """As `Log.fetch_offset_by_timestamp`."""
        return self._looking(lambda seen: self._find_offset(seen, timestamp))

    def _find_offset(self, seen: Seen, timestamp: int) -> TimestampAndOffset | None:
        if timestamp == SpecialTimestamp.MAX_TIMESTAMP and len(seen.segments):
            seen.segments.active.find_largest_timestamp()
        found = find_offset(seen.segments, seen.all_epochs, timestamp, seen.log_start_offset, seen.end.offset)
        if found is not None or timestamp < 0:
            return found
        # If an older segment reaches the time, the answer is that there is none, as in Kafka.
        reached = seen.segments.first_reaching(timestamp)
        is_older = reached is not None and reached is not seen.segments.active
        return None if is_older else self._first_in_newest(seen, timestamp)

    def first_not_before(self, timestamp: int) -> TimestampAndOffset | None:
        """As `Log.first_not_before`."""
        found = self.search_time(timestamp)
        if found.hidden is not None:
            raise found.hidden.error
        return found.record

    def search_time(self, timestamp: int) -> TimeSearch:
        """The first record that is not before a time, and damage that may hide an earlier one."""

        def look(seen: Seen) -> TimeSearch:
            found = self._search_time(seen, timestamp)
            if found.hidden is not None:
                raise found.hidden.error
            return found

        try:
            return self._looking(look)
        except CorruptRecordError:
            return self._search_time(self._seen, timestamp)

    def _search_time(self, seen: Seen, timestamp: int) -> TimeSearch:
        if self.left.was_closed or seen.end.offset < self.left.known_end:
            valid_end(self._disk, _active(seen), seen.end, self.left)  # so that batches after damage are read
        found = search_time(seen.segments, timestamp, seen.log_start_offset)
        if found.record is not None or not len(seen.segments):
            return found
        # The time index of the newest segment is not trusted: see `_first_in_newest`.
        newest = search_segment(seen.segments, seen.segments.active, timestamp, seen.log_start_offset)
        return TimeSearch(newest.record, found.hidden or newest.hidden)

    def _first_in_newest(self, seen: Seen, timestamp: int) -> TimestampAndOffset | None:
        """The same in the newest segment, without trusting its time index.

        Its writer adds the largest timestamp to the index only with the next entry, or when the segment is
        closed. So the index alone would make the records since its last entry seem older than they are.
        """
        if not len(seen.segments):
            return None
        return seen.segments.active.find_offset_by_timestamp(timestamp, seen.log_start_offset)

    def _decided(self, seen: Seen) -> Decided:
        """Transactions are decided up to the first record of an open one, or to the end of the log."""
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
            seen.decided.append(Decided(stable, [*producers.aborted], producers.undecided))
        return seen.decided[0]

    def _producers(self, seen: Seen, *, up_to: int | None = None) -> ReplayedProducers:
        """Producer state from the newest readable snapshot and the batches after it. Nothing is written."""
        newest = seen.end.offset if up_to is None else min(up_to, seen.end.offset)
        starts = [each for each in reversed(seen.snapshots) if seen.log_start_offset < each <= newest]
        for start in starts:
            found = self._replayed(seen, start, is_snapshot=True)
            if found is not None:
                return found
        found = self._replayed(seen, seen.log_start_offset, is_snapshot=False)
        assert found is not None
        return found

    def _replayed(self, seen: Seen, start: int, *, is_snapshot: bool) -> ReplayedProducers | None:
        """Producers at the end of the log; None for a snapshot that cannot be read.

        Continues the replay of an earlier look where possible.
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


def _active(seen: Seen) -> SegmentReader | None:
    return seen.segments.active if len(seen.segments) else None


def _ending_at(seen: Seen, end: LogEnd) -> Seen:
    """The log as seen; up to `end` if that is later, because batches follow damage."""
    active = _active(seen)
    if active is None or end.offset <= seen.end.offset:
        return seen
    active.size = max(active.size, end.position)
    whole = OffsetMetadata(end.offset, active.base_offset, end.position)
    return replace(seen, end=whole, decided=[])


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
