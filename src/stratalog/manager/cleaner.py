"""Cleans compacted logs in the background, and deletes old segments of all logs.

Each thread takes the dirtiest log that is due. If there is none, it waits for log.cleaner.backoff.ms. After
every attempt, old segments of compacted logs are deleted. A task of the log manager's schedule
(`clean_up_logs`) deletes those of other logs, as in Kafka. Kafka: LogCleaner, LogManager.cleanupLogs
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from stratalog.clock import Clock
from stratalog.config import ManagerConfig
from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, LogChangedError, LogClosedError
from stratalog.log.cleaning.choice import LogToClean
from stratalog.log.cleaning.offset_map import OffsetMap
from stratalog.log.log import Log
from stratalog.manager.cleaner_manager import CleaningAborted, LogCleanerManager
from stratalog.manager.housekeeping import OnFailure
from stratalog.manager.registry import LogRegistry, home_of
from stratalog.manager.schedule import Schedule
from stratalog.manager.throttle import Throttle

logger = logging.getLogger(__name__)


class LogCleaner:
    """The cleaner of a log manager. `on_failure` is called with a directory whose disk fails."""

    def __init__(
        self,
        logs: LogRegistry,
        directories: Sequence[LogDirectory],
        config: ManagerConfig,
        clock: Clock,
        on_failure: OnFailure,
    ) -> None:
        self.manager = LogCleanerManager(logs, directories, clock)
        self._logs = logs
        self._config = config
        self._on_failure = on_failure
        self._spared: frozenset[str] = frozenset()
        self._stopped = threading.Event()
        self._throttle = Throttle(config.log_cleaner_io_max_bytes_per_second, sleep=self._stopped.wait)
        self._threads: list[threading.Thread] = []

    def begin(self, schedule: Schedule, *, spared: Iterable[str]) -> None:
        """Put retention and the start of the threads on a schedule; retention skips these topics."""
        self._spared = frozenset(spared)
        delay_ms, every_ms = (
            self._config.log_initial_task_delay_ms,
            self._config.log_retention_check_interval_ms,
        )
        schedule.add("kafka-log-retention", self.clean_up_logs, every_ms=every_ms, delay_ms=delay_ms)
        schedule.once("kafka-log-cleaner", self.startup, delay_ms)

    def startup(self) -> None:
        """Start the threads, unless log.cleaner.enable is off."""
        if not self._config.log_cleaner_enable or self._threads or self._stopped.is_set():
            return
        for number in range(self._config.log_cleaner_threads):
            name = f"kafka-log-cleaner-thread-{number}"
            self._threads.append(threading.Thread(target=self._run, name=name, daemon=True))
        for thread in self._threads:
            thread.start()

    def shutdown(self) -> None:
        """Stop; returns when no thread is working any more. Unfinished cleanings are discarded."""
        self._stopped.set()
        for thread in self._threads:
            thread.join()

    def metrics(self) -> dict[str, int]:
        """Gauges by Kafka's names (kafka.log:type=LogCleaner, LogCleanerManager)."""
        return {
            "DeadThreadCount": sum(not thread.is_alive() for thread in self._threads),
            "uncleanable-bytes": self.manager.uncleanable_size(),
            "uncleanable-partitions-count": len(self.manager.uncleanable_logs()),
        }

    # Clean

    def new_map(self) -> OffsetMap:
        """The offset map of one thread: its part of log.cleaner.dedupe.buffer.size."""
        threads = max(1, self._config.log_cleaner_threads)
        return OffsetMap(
            self._config.log_cleaner_dedupe_buffer_size // threads,
            load_factor=self._config.log_cleaner_io_buffer_load_factor,
        )

    def clean_once(self, offset_map: OffsetMap) -> bool:
        """Clean a log if any is due, then delete old segments; False if no log was cleaned."""
        found = self.manager.grab_filthiest()
        if found is not None:
            self._clean(*found, offset_map)
        self._delete_of_compacted()
        for directory, failure in self.manager.take_failures():
            self._on_failure(directory, failure)
        return found is not None

    def _run(self) -> None:
        offset_map = self.new_map()
        while not self._stopped.is_set():
            if not self.clean_once(offset_map):
                self._stopped.wait(self._config.log_cleaner_backoff_ms / 1000)

    def _clean(self, log: Log, found: LogToClean, offset_map: OffsetMap) -> None:
        end_offset: int | None = found.first_dirty  # written to the checkpoint again if the cleaning fails
        failure: Exception | None = None
        try:
            end_offset = log.clean(
                found.first_dirty,
                found.first_uncleanable,
                offset_map,
                check_done=lambda: self._check(log),
                throttle=self._throttle,
            ).end_offset
            logger.info("%s is clean up to offset %d", log.topic_partition, end_offset)
        except (CleaningAborted, LogClosedError):
            logger.info("the cleaning of %s was stopped", log.topic_partition)
        except LogChangedError as error:
            logger.info("the cleaning of %s was discarded: %s", log.topic_partition, error)
            end_offset = None  # the code that cut the log has already updated the checkpoint
        except Exception as error:
            # Any error is caught here, even a lack of memory or a bug: otherwise it would end this thread,
            # and with it compaction. A failed disk takes the directory offline. After any other error, this
            # log is skipped for an hour; the reason is logged, and its bytes are in the metrics. Kafka:
            # LogCleaningException
            failure = error
        finally:
            # The log is given back before a failure is reported: a thread that waits for the log may hold the
            # lock that the report needs.
            self.manager.done_cleaning(log, end_offset)
        if failure is not None:
            self._give_up(log, failure)

    def _give_up(self, log: Log, failure: Exception) -> None:
        if isinstance(failure, DiskError):
            self._on_failure(home_of(log), failure)
        else:
            self.manager.mark_uncleanable(log, failure)

    def _check(self, log: Log) -> None:
        if self._stopped.is_set():
            raise CleaningAborted
        self.manager.check_aborted(log.topic_partition)

    # Delete

    def clean_up_logs(self) -> int:
        """Delete old segments of logs that are not compacted, except in spared topics; returns how many."""
        paused = self.manager.pause_not_compacted()
        try:
            return self._delete([log for log in paused if log.topic_partition.topic not in self._spared])
        finally:
            self.manager.resume(log.topic_partition for log in paused)

    def _delete_of_compacted(self) -> None:
        logs = self.manager.grab_deletable()
        failures: list[tuple[Log, Exception]] = []
        try:
            for log in logs:
                try:
                    log.delete_old_segments()
                except LogClosedError:
                    pass  # deleted meanwhile
                except Exception as error:  # as in `_clean`: the thread goes on
                    failures.append((log, error))
        finally:
            self.manager.done_deleting(logs)
        for log, failure in failures:
            self._give_up(log, failure)

    def _delete(self, logs: Sequence[Log]) -> int:
        count = 0
        for log in logs:
            try:
                count += len(log.delete_old_segments())
            except DiskError as error:
                self._on_failure(home_of(log), error)
            except LogClosedError:
                pass  # deleted meanwhile
        return count
