"""The periodic work of a log manager: flush logs, write checkpoints, forget silent producers.

Kafka: LogManager.startup, LogManager.checkpointLogRecoveryOffsets, ReplicaManager.checkpointHighWatermarks
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product

from stratalog.clock import Clock
from stratalog.config import ManagerConfig
from stratalog.directory.checkpoint_table import MANAGERS, CheckpointRow
from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, LogClosedError
from stratalog.limits import INT64_MAX
from stratalog.log.log import Log
from stratalog.log.scheduler import ScheduledTask
from stratalog.manager.registry import LogRegistry, home_of
from stratalog.manager.schedule import Schedule

OnFailure = Callable[[str, DiskError], object]


class Housekeeping:
    """The periodic work on the logs of a manager. `on_failure` is called with a directory that fails."""

    def __init__(
        self, logs: LogRegistry, directories: Sequence[LogDirectory], clock: Clock, on_failure: OnFailure
    ) -> None:
        self._logs = logs
        self._directories = directories
        self._clock = clock
        self._on_failure = on_failure

    def begin(self, schedule: Schedule, config: ManagerConfig) -> None:
        """Put this work on a schedule, at the broker's intervals."""
        tasks: list[tuple[str, ScheduledTask, int]] = [
            ("kafka-log-flusher", self.flush_dirty_logs, config.log_flush_scheduler_interval_ms),
            *((row.task, partial(self.checkpoint, [row]), row.every_ms(config)) for row in MANAGERS),
            (
                "PeriodicProducerExpirationCheck",
                self.remove_expired_producers,
                config.producer_id_expiration_check_interval_ms,
            ),
        ]
        for name, task, every_ms in tasks:
            if every_ms < INT64_MAX:
                schedule.add(name, task, every_ms=every_ms, delay_ms=config.log_initial_task_delay_ms)

    def notice_failures(self) -> None:
        """Take directories offline in which a log has failed: only the user of that log got the error."""
        for log in self._logs:
            if log.failure is not None:
                self._on_failure(home_of(log), log.failure)

    def flush_dirty_logs(self) -> None:
        """Flush the logs whose last flush is at least their flush.ms ago."""
        self.notice_failures()
        for log in self._logs:
            if self._clock() - log.last_flushed_ms >= log.config.flush_ms:
                self._flush(log)

    def _flush(self, log: Log) -> None:
        try:
            log.flush()
        except DiskError as error:
            self._on_failure(home_of(log), error)
        except LogClosedError:
            pass  # deleted meanwhile

    def checkpoint(
        self, rows: Iterable[CheckpointRow] = MANAGERS, directories: Iterable[LogDirectory] | None = None
    ) -> None:
        """Write these checkpoints of all directories, or of some."""
        self.notice_failures()
        for row, directory in product(rows, self._directories if directories is None else [*directories]):
            if not directory.is_online:
                continue
            try:
                directory.checkpoints.of(row).write_open(partial(self._logs.in_directory, directory.path))
            except DiskError as error:
                self._on_failure(directory.path, error)

    def remove_expired_producers(self) -> None:
        """Forget expired producers in all logs."""
        for log in self._logs:
            log.remove_expired_producers()
