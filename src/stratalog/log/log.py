"""One partition's log: a sequence of segments, with marks.

    log_start_offset <= last_stable_offset <= high_watermark <= log_end_offset
    recovery_point <= log_end_offset

A log has parts (`parts.py`, and those created below). Each has its own state, and its docstring says what
always holds. `Log` is the interface: it takes the locks of `guard.py` and calls the parts in order. A disk
error fails the log: nothing more is written, because memory and disk may differ from then on.

Kafka: UnifiedLog, LocalLog
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from stratalog.config import LogConfig
from stratalog.errors import DiskError, LogClosedError, LogMovedError, UsageError
from stratalog.files.processes import tell_in_child
from stratalog.limits import INT64_MAX
from stratalog.log.all_or_none import append_all
from stratalog.log.append import analyze
from stratalog.log.appender import AnySet, Appender
from stratalog.log.closer import Closer
from stratalog.log.cutter import Cutter
from stratalog.log.flusher import Flusher
from stratalog.log.guard import Holder, LogGuard, held
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.new_records import to_offset
from stratalog.log.offsets import Cuts, OffsetMetadata, OffsetSnapshot
from stratalog.log.origin import AppendOrigin
from stratalog.log.parts import LogParts
from stratalog.log.producers.append_info import TV_UNKNOWN
from stratalog.log.producers.verification import NO_GUARD, VerificationGuard
from stratalog.log.reader import LogReader
from stratalog.log.reading import FetchedData, Isolation
from stratalog.log.ready import ReadyRules, ReadySet
from stratalog.log.retention import Decision
from stratalog.log.roller import Roller
from stratalog.log.scheduler import repeat
from stratalog.segment.search import TimestampAndOffset
from stratalog.segment.segment import LogSegment

if TYPE_CHECKING:
    from stratalog.log.cleaning.in_log import CleanFunction
    from stratalog.log.cleaning.offset_map import OffsetMap
    from stratalog.log.cleaning.results import CleanResult

_CLIENT = AppendOrigin.CLIENT  # looking up an Enum's member takes longer than looking up a name
EXPIRATION_CHECK_MS = 600_000  # Kafka: producer.id.expiration.check.interval.ms


class Log:
    """One partition. `loader.load` creates it with its parts; `close` closes it, once.

    With `load(high_watermark_follows_end=True)`, for a log without replicas, new records can be read at once.
    """

    def __init__(
        self, parts: LogParts, *, config: LogConfig, recovery_point: int, kept_marks: KeptMarks | None = None
    ) -> None:
        self.topic_partition = parts.topic_partition
        self.segments, self.epochs, self.producers = parts.segments, parts.epochs, parts.producers
        self.kept_alive: object = None  # an object that holds a lock for as long as this log exists
        self._parts = parts
        self._guard, self._folder, self._marks = parts.guard, parts.folder, parts.marks
        self.check_outside = parts.guard.check_outside  # UsageError in a handler that interrupts a change
        self._entry: LogGuard | Holder = parts.guard
        self._flusher = Flusher(parts, recovery_point=recovery_point)
        self._roller = Roller(parts, self._flusher)
        self._appender = Appender(parts, self._roller, config)
        self._cutter = Cutter(parts, self._flusher, self._roller, kept_marks)
        self._reader = LogReader(parts)
        self._closer = Closer(parts, self._flusher)
        tell_in_child(self)
        again = partial(repeat, parts.scheduler, is_wanted=lambda: parts.guard.is_changeable)
        if config.flush_ms < INT64_MAX:
            again("flush by flush.ms", config.flush_ms, self.flush)
        if parts.marks.follows_end:  # otherwise the log's manager does this for all logs
            again("producer expiration", EXPIRATION_CHECK_MS, self.remove_expired_producers)

    def start_over_in_child(self) -> None:
        """After a fork: this process may only read, and gets new locks."""
        self._guard.start_over_in_child()
        for segment in self.segments:
            segment.start_over_in_child()

    # What it is

    @property
    def config(self) -> LogConfig:
        """The topic's settings; new ones apply from the next operation on."""
        return self._appender.config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._appender.config = self._folder.config = config

    @property
    def directory(self) -> str:
        return self._folder.path

    @property
    def failure(self) -> DiskError | None:
        """The error that made the log fail, after which it can be neither read nor changed."""
        return self._guard.failure

    @property
    def size(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self.segments)

    def metrics(self) -> dict[str, int]:
        """The gauges of a partition, by Kafka's names (kafka.log:type=Log)."""
        return {
            "NumLogSegments": len(self.segments),
            "LogStartOffset": self.log_start_offset,
            "LogEndOffset": self.log_end_offset,
            "Size": self.size,
        }

    # Marks

    @property
    def log_start_offset(self) -> int:
        """Every record below this offset is deleted."""
        return self._marks.log_start_offset

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._marks.end.offset

    @property
    def high_watermark(self) -> int:
        """Every record below this offset is on all in-sync replicas."""
        return self._marks.high_watermark.offset

    @property
    def last_stable_offset(self) -> int:
        """Every transaction below this offset is committed or aborted."""
        return self._marks.last_stable.offset

    @property
    def recovery_point(self) -> int:
        """Everything below this offset is on the device."""
        return self._flusher.recovery_point

    @property
    def last_flushed_ms(self) -> int:
        """When a flush last moved the recovery point."""
        return self._flusher.last_flushed_ms

    def offset_snapshot(self) -> OffsetSnapshot:
        """All marks at one moment, with their places."""
        with self._guard.lock:
            return self._marks.snapshot()

    def update_high_watermark(self, offset: int) -> int:
        """Move the mark forwards or backwards, within the log; returns its new value."""
        with self._guard.lock:
            return self._marks.update_high_watermark(offset)

    def increment_high_watermark(self, offset: int) -> bool:
        """Move the mark forwards to an offset within the log; True if it moved."""
        with self._guard.lock:
            return self._marks.increment_high_watermark(offset)

    @property
    def cuts(self) -> Cuts:
        """The truncations so far; a truncation that is under way is finished first."""
        with self._guard.lock:
            return self._marks.cuts

    def forget_cuts(self, seen: Cuts) -> None:
        """Called when a copy has followed these truncations."""
        with self._guard.lock:
            self._marks.forget_cuts(seen)

    # Append

    def append_as_leader(
        self,
        data: Any,  # any object with the buffer protocol, or a ReadySet
        *,
        leader_epoch: int,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = TV_UNKNOWN,
        guard: VerificationGuard = NO_GUARD,
    ) -> AnySet:
        """Check one batch, assign it the next offsets and write it; returns what was written, and where.

        A batch that its producer has sent before is not written again: the result has the offsets that the
        batch got the first time. With origin RAFT_LEADER the batches have their own offsets.
        """
        if origin is _CLIENT:
            ready = self._appender.ready_rules.check(data, self._parts.clock())
            if ready is not None:
                return self._append(ready, leader_epoch)
        limit = None if origin is AppendOrigin.RAFT_LEADER else self.config.max_message_bytes
        info = analyze(data, origin=origin, max_message_bytes=limit, leader_epoch=leader_epoch)
        return self._append(info, leader_epoch, origin, transaction_version, guard)

    @property
    def ready_rules(self) -> ReadyRules:
        """Makes ready sets (`ready.py`), which `append_as_leader` need not check again."""
        return self._appender.ready_rules

    def append_all_as_leader(self, sets: Sequence[Any], *, leader_epoch: int) -> tuple[int, int]:
        """Append several batches, all or none (`all_or_none.py`); returns the first and the last offset."""
        found = append_all(self._parts, self._appender, self._cutter, sets, leader_epoch)
        if self.log_end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush()
        return found

    def append_as_follower(self, data: Any, *, leader_epoch: int) -> AnySet:
        """Write batches as their leader has them; gaps between offsets are legal."""
        origin = AppendOrigin.REPLICATION
        info = analyze(data, origin=origin, max_message_bytes=None, leader_epoch=leader_epoch)
        return self._append(info, leader_epoch, origin)

    def _append(
        self,
        given: AnySet,
        leader_epoch: int,
        origin: AppendOrigin = _CLIENT,
        transaction_version: int = TV_UNKNOWN,
        verification: VerificationGuard = NO_GUARD,
    ) -> AnySet:
        if not given.size:
            return given
        guard, appender = self._guard, self._appender
        # The same as `changing` and `writing`, written out: the generators would take as long as the write.
        if guard.lock._is_owned() or guard.flush_lock._is_owned():  # the latter for `flush.messages` below
            self._entry.check_outside()
        with guard.lock:
            if guard.failure is not None or guard.is_closed or guard.refusal is not None:
                guard.check_changeable()
            try:
                if isinstance(given, ReadySet):
                    appender.append_ready(given, leader_epoch)
                else:
                    given = appender.append(given, origin, leader_epoch, transaction_version, verification)
            except DiskError as error:
                guard.failure = error
                raise
            is_due = self._marks.end.offset - self._flusher.recovery_point >= appender.flush_messages
        if is_due:
            try:
                self.flush()
            except LogMovedError:
                pass  # moved meanwhile: the log in its new place has this set on the device
            except LogClosedError:
                # Closed meanwhile, which also flushes, unless it was closed without writing.
                if self.recovery_point <= given.last_offset:
                    raise
        return given

    def roll(self, expected_base: int = 0) -> LogSegment:
        """Begin a new segment at the log's end, or at `expected_base` if that is above it."""
        with self._entry.changing():
            return self._roller.roll(expected_base)

    def advance_to(self, offset: int) -> None:
        """Continue the log at an offset above its end: compaction has removed everything in between."""
        with self._entry.changing():
            if offset > self._marks.end.offset:
                self._roller.roll(offset)
                self._marks.end = OffsetMetadata(offset, offset, 0)
                self._marks.follow_end()

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        """Record a new leader's epoch before its first record."""
        with self._entry.changing():
            self.epochs.assign(epoch, start_offset)

    # Flush, close

    def flush(self, *, force: bool = False) -> None:
        """Return when all records and the start are on the device; `force`: also an empty segment's files."""
        with self._entry.flushing(), self._guard.failing():
            self._guard.check_changeable()
            end_offset = self._marks.end.offset
            self._flusher.flush_up_to(end_offset + 1 if force else end_offset)
            self._cutter.keep_raised_start()

    @property
    def is_saved(self) -> bool:
        """Whether every appended record is on the device, even if the log has failed since."""
        return self._closer.is_saved

    def close(self) -> None:
        """Flush, write a snapshot at the end, trim the indexes, as a clean shutdown does.

        Calling it again has no effect. A log that has failed still syncs its records if it can (`is_saved`),
        and its failure is raised. One that was moved, deleted or opened by the parent is closed unwritten.
        """
        with self._entry.flushing(), self._guard.lock:
            self._closer.close()

    def close_handlers(self) -> None:
        """Close without writing anything: the disk has failed."""
        with self._guard.lock:
            self._closer.close_handlers()

    # Read

    def read(
        self,
        start_offset: int,
        max_size: int,
        *,
        isolation: Isolation = Isolation.HIGH_WATERMARK,
        min_one_message: bool = True,
    ) -> FetchedData:
        """Whole batches, from the one that contains start_offset on; max_size may cut the last one."""
        return self._reader.read(start_offset, max_size, isolation, min_one_message=min_one_message)

    def fetch_offset_by_timestamp(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before the timestamp; -1 to -6 are Kafka's special timestamps."""
        return self._reader.find_offset(timestamp)

    def first_not_before(self, timestamp: int) -> TimestampAndOffset | None:
        """The first record that is not before a time, even if Kafka would answer that there is none."""
        return self._reader.first_not_before(timestamp)

    def check_passed_over(self, offset: int, stop_base: int) -> None:
        """CorruptRecordError if a read has passed over damage, not only over a gap (`reading.py`)."""
        self._reader.check_passed_over(offset, stop_base)

    def look_again(self) -> None:
        """Does nothing: an open log knows its own changes. Views need it (`view.py`)."""

    # Give up records

    def increment_log_start_offset(self, offset: int) -> bool:
        """Delete the records below an offset; True if this moved the start, which is then on the device."""
        with self._entry.flushing() as inside:  # only this lock for the device: appends do not wait
            with inside.changing():
                is_news = self._cutter.raise_start(offset)
            self._cutter.keep_raised_start()
        return is_news

    @property
    def start_to_keep(self) -> int | None:
        """The start of the log, if it is not the base of the first segment on the device; else None."""
        return self._cutter.start_to_keep

    def keep_start(self) -> None:
        """Store the start of the log on the device. The start of a tiered topic is stored elsewhere."""
        self._cutter.keep_start()

    def delete_records(self, before_offset: int) -> int:
        """Delete the records below an offset (-1: the high watermark); returns where the log starts."""
        self.increment_log_start_offset(self._cutter.start_after_deletion(before_offset, self.config))
        return self.log_start_offset

    def retention(self) -> tuple[Decision, ...]:
        """What retention would do with each segment now, and why."""
        with self._guard.lock:
            return self._cutter.retention()

    def delete_old_segments(self) -> tuple[Decision, ...]:
        """Delete the segments past the topic's limits; returns them, with the rule for each.

        The files are renamed, and deleted after file.delete.delay.ms. Kafka: UnifiedLog.deleteOldSegments
        """
        return self._cutter.delete_old_segments()

    def truncate_to(self, offset: int) -> bool:
        """Remove the batch of an offset, and everything after it; False if the log ends at or before it.

        Permanently, when this returns; a crash meanwhile leaves a prefix with at least all records that stay.
        """
        offset = to_offset(offset)
        if offset < 0:
            raise UsageError(f"truncation to {offset}: an offset cannot be negative.")
        with self._entry.flushing() as inside, inside.changing():
            return self._cutter.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int, log_start_offset: int | None = None) -> None:
        """Remove everything; the log continues at an offset. No crash brings removed records back."""
        with self._entry.flushing() as inside, inside.changing():
            self._cutter.truncate_fully_and_start_at(to_offset(offset), log_start_offset)

    def clean(
        self,
        first_dirty_offset: int,
        first_uncleanable_offset: int,
        offset_map: OffsetMap,
        *,
        check_done: Callable[[], object] = lambda: None,
        throttle: Callable[[int], object] = lambda _: None,
        on_read: Callable[[int], object] = lambda _: None,
    ) -> CleanResult:
        """Compact the log once, as far as the keys fit into the map; appends and reads go on (`in_log.py`).

        `check_done` may raise an error to stop it; `throttle` is called with the number of bytes read and
        written, `on_read` with the number read. LogChangedError if records are removed meanwhile.
        """
        from stratalog.log.cleaning.in_log import by_map

        clean = by_map(offset_map, check_done=check_done, throttle=throttle, on_read=on_read)
        return self.clean_by(clean, first_dirty_offset, first_uncleanable_offset)

    def clean_by(
        self, clean: CleanFunction, first_dirty_offset: int, first_uncleanable_offset: int
    ) -> CleanResult:
        """Compact the log once, with this function; LogChangedError as from `clean`."""
        from stratalog.log.cleaning.in_log import LogCompaction

        compaction = LogCompaction(self._parts, self._flusher, self._cutter)
        return compaction.run(first_dirty_offset, first_uncleanable_offset, clean)

    # Where it is

    def holding_changes(self) -> AbstractContextManager[Self]:
        """Make all other changes wait; reads go on. Yields this log for the caller, who may change it."""
        return held(self)

    def retire(self, directory: str, refusal: Callable[[], LogClosedError]) -> None:
        """Rename the directory of a log that no longer serves its partition; later changes raise `refusal`.

        Waiting appends are refused, so that no acknowledged record is only in the old log. Kafka closes the
        old log of a move, or lets appends go on in it.
        """
        with self._entry.flushing() as inside, inside.changing():
            self._guard.refusal = refusal
            self._folder.rename(directory, self.segments, self.epochs)

    def rename_directory(self, directory: str) -> None:
        """Rename the partition's directory; on the device when this returns. Reads go on."""
        with self._entry.flushing() as inside, inside.changing():
            self._folder.rename(directory, self.segments, self.epochs)

    # Producers

    def take_over_producers(self, other: Log) -> None:
        """Add the producer state of another copy of the same records; the copy must not change meanwhile."""
        with self._entry.changing(), self._guard.writing():
            self.producers.take_over(other.producers.producers)
            self._marks.update_first_unstable()

    def remove_expired_producers(self) -> None:
        """Forget the producers that were silent for producer.id.expiration.ms."""
        with self._guard.lock:
            self.producers.remove_expired_producers(self._parts.clock())
