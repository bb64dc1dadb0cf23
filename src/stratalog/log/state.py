"""What a log consists of, and the rules by which it is changed: under one lock, and never after a failure.

The layers above it are `marks.py`, `flushing.py`, `writing.py` and `log.py`; each is a class that adds one
subject to the one before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from stratalog.clock import Clock
from stratalog.config import LogConfig
from stratalog.errors import DiskError, LogClosedError, StratalogError, WrongProcessError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.files.processes import Opener, tell_in_child
from stratalog.limits import INT64_MAX
from stratalog.log.epochs import LeaderEpochFileCache
from stratalog.log.kept_marks import KeptMarks
from stratalog.log.offsets import OffsetMetadata
from stratalog.log.producers.manager import ProducerStateManager
from stratalog.log.scheduler import Scheduler
from stratalog.log.segments import LogSegments


class LogState:
    """The parts of a log, and who may touch them."""

    def __init__(
        self,
        *,
        disk: Disk,
        clock: Clock,
        scheduler: Scheduler,
        directory: str,
        topic_partition: TopicPartition,
        config: LogConfig,
        segments: LogSegments,
        epochs: LeaderEpochFileCache,
        producers: ProducerStateManager,
        log_start_offset: int,
        recovery_point: int,
        end: OffsetMetadata,
        high_watermark_follows_end: bool = False,
        kept_marks: KeptMarks | None = None,
    ) -> None:
        self.topic_partition = topic_partition
        self.config = config
        self.epochs = epochs
        self.producers = producers
        self.segments = segments
        self.log_start_offset = log_start_offset
        self.recovery_point = recovery_point
        self.last_flushed_ms = clock()
        self.kept_alive: object = None  # as long as this log is: whatever releases its lock when collected
        self._disk, self._clock, self._scheduler = disk, clock, scheduler
        self._directory = directory
        self._end = end
        self._lowest_end = INT64_MAX  # that truncations have left since it was last asked for
        self._cuts_count = 0  # how often truncation or retention has taken something off
        self._kept_marks = kept_marks
        # The lowest base that a segment on the device may have: what retention renames is there until its
        # directory is synced.
        self._first_named = segments.first.base_offset
        # How often names were changed in the directory, and how many of that were done when it was last
        # synced; -1 is not yet. Segments count those of their own files.
        self._names_count, self._names_synced_count = 0, -1
        self._follows_end = high_watermark_follows_end
        high_watermark = end if high_watermark_follows_end else OffsetMetadata(log_start_offset)
        # The high watermark and the first unstable offset, published together: a reader of committed records
        # that saw a new one of the first and an old one of the second would read what is still open.
        self._marks: tuple[OffsetMetadata, OffsetMetadata | None] = (high_watermark, None)
        # Taken before `_lock` by whatever flushes or truncates: a flush counts only for what was there all
        # the time, and two of them never take each other's word for what is on the device.
        self._flush_lock = threading.RLock()
        self._lock = threading.RLock()
        self._failed: DiskError | None = None
        self._closed = False
        self._is_saved = False  # after a failure, all of it all the same
        self._refusal: Callable[[], StratalogError] | None = None  # why nothing is changed here any more
        self._opener = Opener()
        tell_in_child(self)
        self._begin()

    def _begin(self) -> None:
        """What is left to do when all parts are there, for the layers above."""

    @property
    def directory(self) -> str:
        return self._directory

    @property
    def failure(self) -> DiskError | None:
        """What made the log fail, after which it takes and gives nothing more."""
        return self._failed

    @property
    def size(self) -> int:
        """Bytes of all segments, without their indexes."""
        return sum(segment.size for segment in self.segments)

    def _repeat(self, name: str, every_ms: int, task: Callable[[], object]) -> None:
        """Run a task every so often, for as long as the log is open and well."""

        def run() -> None:
            if not self._closed and self._failed is None and self._refusal is None:
                task()
                self._scheduler.schedule(name, run, every_ms)

        self._scheduler.schedule(name, run, every_ms)

    def start_over_in_child(self) -> None:
        """After a fork: this process may only read, and the threads that hold locks are not here."""
        self._refusal = partial(WrongProcessError, self._directory, self._opener.pid, os.getpid())
        self._flush_lock, self._lock = threading.RLock(), threading.RLock()
        for segment in self.segments:
            segment.start_over_in_child()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self._check_changeable()
            with self._failing():
                yield

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Once files are touched, whatever ends it early, Ctrl-C too, leaves them other than the memory."""
        try:
            yield
        except DiskError:
            raise
        except BaseException as error:
            self._fail_over(error)
            raise

    def _fail_over(self, error: BaseException) -> None:
        """The log has failed because of what is no DiskError."""
        reason = f"it was interrupted while it was changed: {type(error).__name__}"
        self._failed = DiskError(self._directory, reason)

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except DiskError as error:
            if self._failed is None:  # the first one is the reason, and those after it tell of it
                self._failed = error
            raise

    def _check_usable(self) -> None:
        if self._failed is not None:
            raise DiskError(self._directory, f"the log has failed before: {self._failed}", self._failed.errno)
        if self._closed:
            raise LogClosedError(self._directory) if self._refusal is None else self._refusal()

    def _check_changeable(self) -> None:
        """As `_check_usable`; and not one that was moved, deleted or inherited, which can only be read."""
        self._check_usable()
        if self._refusal is not None:
            raise self._refusal()
