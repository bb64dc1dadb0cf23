"""Changes to the directories of a manager. Each change may find that the disk of its directory has failed.

A directory whose disk fails goes offline before the error is raised, so that nothing else is tried in it.
Kafka: LogManager, LogDirFailureChannel
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, LogClosedError
from stratalog.log.log import Log
from stratalog.log.scheduler import ScheduledTask
from stratalog.manager.housekeeping import Housekeeping, OnFailure
from stratalog.manager.registry import home_of
from stratalog.manager.removal import DelayedRemoval


class Homes:
    """The directories of a manager; `on_failure` takes one offline. Callers hold the manager's lock."""

    def __init__(
        self,
        directories: Mapping[str, LogDirectory],
        housekeeping: Housekeeping,
        removal: DelayedRemoval,
        on_failure: OnFailure,
        delete_delay_ms: Callable[[], int],
    ) -> None:
        self._directories = directories
        self._housekeeping = housekeeping
        self._removal = removal
        self._on_failure = on_failure
        self._delete_delay_ms = delete_delay_ms

    def of(self, log: Log) -> LogDirectory:
        """The directory that a log is in."""
        return self._directories[home_of(log)]

    def act_in(self, directory: LogDirectory, action: ScheduledTask) -> None:
        """Run an action in a directory; a DiskError takes the directory offline, and is raised."""
        try:
            action()
        except DiskError as error:
            self._on_failure(directory.path, error)
            raise

    def checkpoint_all(self, directory: LogDirectory) -> None:
        """Write all checkpoints of a directory."""
        self._housekeeping.checkpoint(directories=[directory])

    def retire(self, log: Log, refusal: Callable[[], LogClosedError]) -> None:
        """Mark a log for deletion after file.delete.delay.ms; later changes raise the refusal."""
        home = self.of(log)
        self.act_in(home, lambda: self._removal.rename_for_deletion(log, refusal))
        self._removal.later(home, log.directory, self._delete_delay_ms(), log)
