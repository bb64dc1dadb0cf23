"""What a log manager does to its logs again and again: flush, write checkpoints, forget silent producers.

Kafka: LogManager.startup, LogManager.checkpointLogRecoveryOffsets, ReplicaManager.checkpointHighWatermarks
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from stratalog.clock import Clock
from stratalog.config import ManagerConfig
from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, LogClosedError
from stratalog.limits import INT64_MAX
from stratalog.log.log import Log
from stratalog.log.scheduler import ScheduledTask
from stratalog.manager.closing import high_watermarks, log_start_offsets, recovery_points
from stratalog.manager.registry import LogRegistry, home_of
from stratalog.manager.schedule import Schedule

OnFailure = Callable[[str, DiskError], object]


class Housekeeping:
    """The repeated work over the logs of a manager. A directory that refuses is handed to `on_failure`."""

    def __init__(
        self, logs: LogRegistry, directories: Sequence[LogDirectory], clock: Clock, on_failure: OnFailure
    ) -> None:
        self._logs = logs
        self._directories = directories
        self._clock = clock
        self._on_failure = on_failure

    def begin(self, schedule: Schedule, config: ManagerConfig) -> None:
        """Put all of it on a schedule, at the broker's intervals."""
        tasks: list[tuple[str, ScheduledTask, int]] = [
            ("kafka-log-flusher", self.flush_dirty_logs, config.log_flush_scheduler_interval_ms),
            (
                "kafka-recovery-point-checkpoint",
                self.checkpoint_log_recovery_offsets,
                config.log_flush_offset_checkpoint_interval_ms,
            ),
            (
                "kafka-log-start-offset-checkpoint",
                self.checkpoint_log_start_offsets,
                config.log_flush_start_offset_checkpoint_interval_ms,
            ),
            (
                "highwatermark-checkpoint",
                self.checkpoint_high_watermarks,
                config.replica_high_watermark_checkpoint_interval_ms,
            ),
            (
                "PeriodicProducerExpirationCheck",
                self.remove_expired_producers,
                config.producer_id_expiration_check_interval_ms,
            ),
        ]
        for name, task, every_ms in tasks:
            if every_ms < INT64_MAX:
                schedule.add(name, task, every_ms=every_ms, delay_ms=config.log_initial_task_delay_ms)

    def checkpoint_all(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write all of the checkpoints."""
        self.checkpoint_log_recovery_offsets(directories)
        self.checkpoint_log_start_offsets(directories)
        self.checkpoint_high_watermarks(directories)

    def notice_failures(self) -> None:
        """Take directories offline in which a log has failed: its user was told, the others were not."""
        for log in self._logs:
            if log.failure is not None:
                self._on_failure(home_of(log), log.failure)

    def flush_dirty_logs(self) -> None:
        """Flush the logs that were not flushed for their flush.ms."""
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

    def checkpoint_log_recovery_offsets(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write down below which offset each log is on the device, so that a crash costs little."""
        self._write(
            directories,
            lambda found, logs: found.checkpoints.recovery_points.write_latest(
                lambda: recovery_points(logs())
            ),
        )

    def checkpoint_log_start_offsets(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write down where the logs start that start inside a segment."""
        self._write(
            directories,
            lambda found, logs: found.checkpoints.log_start_offsets.write_latest(
                lambda: log_start_offsets(found, logs())
            ),
        )

    def checkpoint_high_watermarks(self, directories: Iterable[LogDirectory] | None = None) -> None:
        """Write down the high watermark of each log."""
        self._write(
            directories,
            lambda found, logs: found.checkpoints.high_watermarks.write_latest(
                lambda: high_watermarks(logs())
            ),
        )

    def remove_expired_producers(self) -> None:
        """Forget producers that were silent for long, in all logs."""
        for log in self._logs:
            log.remove_expired_producers()

    def _write(
        self,
        directories: Iterable[LogDirectory] | None,
        write: Callable[[LogDirectory, Callable[[], list[Log]]], object],
    ) -> None:
        self.notice_failures()
        for directory in self._directories if directories is None else directories:
            if not directory.is_online:
                continue
            try:
                write(directory, partial(self._logs.in_directory, directory.path))
            except DiskError as error:
                self._on_failure(directory.path, error)
