"""A log that is open in this process: append, read, follow, close. `stratalog.open_log` creates it.

with stratalog.open_log("data/orders-0", create=True) as log:
    log.append(b"hello")
"""

from __future__ import annotations

import logging
import threading
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self
from uuid import UUID

from stratalog.clock import Clock
from stratalog.errors import CorruptCheckpointError, DiskError, LogClosedError, UsageError
from stratalog.files.processes import Opener
from stratalog.log.api.log_api import LogApi
from stratalog.log.api.view import LogView
from stratalog.log.guard import refuse_if_inside
from stratalog.log.log import Log
from stratalog.log.log_end import LogEnd
from stratalog.log.scheduler import BackgroundScheduler
from stratalog.records.compression import Codec

logger = logging.getLogger(__name__)


class Home(Protocol):
    """The place of a log as `open_log` found it (`directory/home.py`).

    `write_clean_shutdown` is called when the log is closed cleanly; `release`, last, releases its locks.
    """

    def topic_id(self) -> UUID | None: ...
    def start_offset(self) -> int: ...
    def write_clean_shutdown(self) -> None: ...
    def release(self) -> None: ...


class PartitionLog(LogApi):
    """One partition's log, open. Created by `open_log`; use it in a `with`, or call `close`.

    Offsets count from `start_offset` to `end_offset` (exclusive). Any number of threads may use it at once.
    """

    def __init__(
        self,
        home: Home,
        log: Log | LogView,
        scheduler: BackgroundScheduler | None,
        clock: Clock,
        codec: Codec,
    ) -> None:
        self._home = home
        self._log = log
        self._scheduler = scheduler
        self._clock = clock
        self._codec = codec
        self._lock: Any = threading.RLock()  # Any: its `_is_owned` is missing in its type
        self._is_closed = False
        self._opener = Opener()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        """Warn about a log that was never closed, and end its thread. Writes nothing.

        The lock is released with the last reference to the underlying log, which may still be in use.
        """
        if getattr(self, "_is_closed", True) or not self._opener.is_here or isinstance(self._log, LogView):
            return
        warnings.warn(
            f"{self._log.directory} was never closed: it is recovered when it is opened next.",
            ResourceWarning,
            source=self,
            stacklevel=1,
        )
        if self._scheduler is not None:
            self._scheduler.abandon()

    def __repr__(self) -> str:
        state = "closed" if self._is_closed else f"{self.start_offset} to {self.end_offset}"
        return f"<PartitionLog {self._log.directory}: {state}>"

    @property
    def _below(self) -> Log | LogView:
        return self._log

    # What it is

    @property
    def directory(self) -> Path:
        return Path(self._log.directory)

    @property
    def topic_id(self) -> UUID | None:
        """The topic id in partition.metadata; None without such a file."""
        return self._home.topic_id()

    @property
    def is_read_only(self) -> bool:
        return isinstance(self._log, LogView)

    @property
    def hidden(self) -> LogEnd | None:
        """Where a log that is opened read_only ends, if bytes follow that it does not show.

        While a writer appends, such bytes are there for a moment. After a crash or damage, they are there
        until recovery cuts them off.
        """
        self._refresh()
        if not isinstance(self._log, LogView):
            return None
        end = self._log.end()
        return end if end.hides_something else None

    @property
    def high_watermark(self) -> int:
        """Where a read_uncommitted reader ends; without replicas that is the end of the log."""
        return self._log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Where a read_committed reader ends: the first record of an open transaction, or the log's end."""
        # The batch of that record may begin before the log's start; then the log's own `last_stable_offset`
        # is below the start too.
        return max(self._log.last_stable_offset, self._log.log_start_offset)

    @property
    def log(self) -> Log:
        """The underlying `Log`, for what a broker does: markers, epochs, rolls. Not for a read_only log."""
        return self._not_a_view()

    def metrics(self) -> dict[str, int]:
        """Kafka's gauges of a log: NumLogSegments, LogStartOffset, LogEndOffset, Size."""
        return self._log.metrics()

    # Change, flush, close

    def truncate_to(self, offset: int) -> None:
        """Remove the batch that holds an offset, and all records after it.

        Then the log ends at that offset.
        """
        self._writable().truncate_to(offset)

    def delete_records(self, before_offset: int) -> int:
        """Delete the records below an offset; returns where the log starts now. No file is deleted yet.

        -1 means the end, as in Kafka: all records are deleted.
        """
        return self._writable().delete_records(before_offset)

    def flush(self) -> None:
        """Return when every record is on the device."""
        self._writable().flush()

    def close(self) -> None:
        """Flush everything to the device, write the clean-shutdown file, release the lock.

        Calling it again has no effect, unless an interrupt has ended the first call: then it releases what is
        still held. A log that failed to write gets no clean-shutdown file, so it is recovered when it is
        opened next. Its DiskError is raised only if an appended record may not be on the device. In a forked
        child this writes nothing, and the log stays open in its parent.
        """
        if not self._opener.is_here:  # the thread that may hold the lock is in the parent
            self._is_closed = True
            self._log.close()
            return
        refuse_if_inside(self._log.directory, self._lock)
        if isinstance(self._log, Log):
            self._log.check_outside()
        with self._lock:
            was_closed, self._is_closed = self._is_closed, True
            try:
                if isinstance(self._log, LogView):
                    self._log.close()
                elif not was_closed:
                    self._close(self._log)
            finally:
                self._let_go()

    def _close(self, log: Log) -> None:
        try:
            log.close()
            self._stop_scheduler()
            # Work in the background may have failed as late as during the close.
            if log.failure is not None:
                raise log.failure
            log.keep_start()
            self._home.write_clean_shutdown()
        except (DiskError, CorruptCheckpointError) as error:
            if not log.is_saved:
                raise
            logger.warning("%s is not marked as closed cleanly, but has every record: %s", self, error)

    def _let_go(self) -> None:
        """Release the locks, after which nothing may write. Each step follows although one is interrupted."""
        try:
            self._stop_scheduler()
        finally:
            try:
                if isinstance(self._log, Log):
                    self._log.close_handlers()
            finally:
                self._home.release()

    def _stop_scheduler(self) -> None:
        if self._scheduler is not None:
            self._scheduler.close()

    # Helpers

    def _writable(self) -> Log:
        log = self._not_a_view()
        self._opener.check(log.directory)
        return log

    def _not_a_view(self) -> Log:
        self._check_open()
        if isinstance(self._log, LogView):
            raise UsageError(f"{self._log.directory} is opened read_only; open it without that to change it.")
        return self._log

    def _check_open(self) -> None:
        if self._is_closed:
            raise LogClosedError(self._log.directory)

    def _refresh(self) -> None:
        self._check_open()
        if isinstance(self._log, LogView):
            self._log.refresh(self._home.start_offset())
