"""Hands logs to the cleaner's threads and takes them back; keeps the checkpoints of how far logs are clean.

One lock guards states, checkpoints and the choice of a log. A caller that truncates, deletes or moves a log
first pauses its cleaning, and waits until no thread cleans the log any more. That caller may hold the log
manager's lock, so nothing here calls the log manager. Kafka: LogCleanerManager
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Sequence

from stratalog.clock import Clock
from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, StratalogError
from stratalog.files.names import TopicPartition
from stratalog.log.cleaning.choice import (
    LogToClean,
    facts_of_log,
    filthiest,
    log_to_clean,
)
from stratalog.log.log import Log
from stratalog.manager.cleaning_states import CleaningStates, State
from stratalog.manager.registry import LogRegistry, home_of

logger = logging.getLogger(__name__)

# After a failed cleaning, Kafka does not clean the partition again until the broker restarts, so a brief disk
# error can make `__consumer_offsets` grow without end. Here the partition is tried again.
TRY_AGAIN_MS = 3_600_000


class CleaningAborted(BaseException):
    """Ends a cleaning that should stop; not an Exception, so that nothing handles it as a failure."""


class LogCleanerManager:
    """Knows which logs are being cleaned or are paused, and how far each is clean."""

    def __init__(self, logs: LogRegistry, directories: Sequence[LogDirectory], clock: Clock) -> None:
        self._logs = logs
        self._directories = {directory.path: directory for directory in directories}
        self._clock = clock
        self._states = CleaningStates()
        self._uncleanable: dict[tuple[str, TopicPartition], int] = {}
        self._failures: list[tuple[str, DiskError]] = []
        self._changed = threading.Condition()

    # Choose

    def grab_filthiest(self) -> tuple[Log, LogToClean] | None:
        """The log to clean next, reserved for the caller until `done_cleaning`; None if no log is due."""
        with self._changed:
            now = self._clock()
            # The logs themselves are kept: another thread may take the chosen one out of the registry at any
            # moment. Cleaning it is then refused, and it is given back.
            found: dict[TopicPartition, tuple[Log, LogToClean]] = {}
            for log in self._free_logs(compacted=True):
                key = log.topic_partition
                try:
                    offsets = self.clean_offsets(home_of(log))
                    facts = log_to_clean(facts_of_log(log), offsets.get(key), now)
                except Exception as error:  # as in LogCleaner._clean: the thread goes on with other logs
                    self._give_up(log, error)
                    continue
                found[key] = log, facts
                if facts.resets_checkpoint:
                    self._write(home_of(log), {key: facts.first_dirty})
            chosen = filthiest(facts for _, facts in found.values())
            if chosen is None:
                return None
            self._states.begin(chosen.topic_partition)
            return found[chosen.topic_partition]

    def grab_deletable(self) -> Sequence[Log]:
        """Reserve the idle compacted logs until `done_deleting`: their old segments may be deleted."""
        with self._changed:
            logs = self._free_logs(compacted=True)
            for log in logs:
                self._states.begin(log.topic_partition)
            return logs

    def pause_not_compacted(self) -> Sequence[Log]:
        """The logs that only retention handles, now paused: the cleaner must not take one meanwhile."""
        with self._changed:
            logs = [log for log in [*self._logs.current.values()] if not log.config.compact]
            logs = [log for log in logs if log.topic_partition not in self._states]
            for log in logs:
                self._states.pause(log.topic_partition)
            return logs

    def _free_logs(self, *, compacted: bool) -> Sequence[Log]:
        return [
            log
            for log in [*self._logs.current.values()]
            if log.config.compact is compacted
            and log.topic_partition not in self._states
            and not self.is_uncleanable(log)
            and log.failure is None
        ]

    # Give back

    def check_aborted(self, topic_partition: TopicPartition) -> None:
        """Raises CleaningAborted if the cleaning of this log is to stop."""
        with self._changed:
            if self._states.get(topic_partition) is State.ABORTED:
                raise CleaningAborted

    def done_cleaning(self, log: Log, end_offset: int | None) -> None:
        """Called when a cleaning has ended; unless it was aborted, the log is clean up to `end_offset`.

        None leaves the checkpoint as it is.
        """
        with self._changed:
            is_valid = self._states.end(log.topic_partition)
            self._changed.notify_all()
            is_there = self._logs.current.get(log.topic_partition) is log  # not another one of that name
            if is_valid and end_offset is not None and is_there:
                self._write(home_of(log), {log.topic_partition: end_offset})

    def done_deleting(self, logs: Iterable[Log]) -> None:
        with self._changed:
            for log in logs:
                self._states.end(log.topic_partition)
            self._changed.notify_all()

    # Stop and pause

    def abort_and_pause(self, topic_partition: TopicPartition) -> None:
        """Stop and pause the cleaning of a log; returns when no thread cleans it any more."""
        with self._changed:
            # If another caller has already stopped the cleaning, wait until the log is paused for that
            # caller.
            self._changed.wait_for(lambda: self._states.get(topic_partition) is not State.ABORTED)
            self._states.pause(topic_partition)
            self._changed.wait_for(lambda: self._states.get(topic_partition) is State.PAUSED)

    def resume(self, topic_partitions: Iterable[TopicPartition]) -> None:
        with self._changed:
            for topic_partition in topic_partitions:
                self._states.resume(topic_partition)

    def abort(self, topic_partition: TopicPartition) -> None:
        """Stop a cleaning that is running."""
        self.abort_and_pause(topic_partition)
        self.resume([topic_partition])

    def state(self, topic_partition: TopicPartition) -> State | None:
        with self._changed:
            return self._states.get(topic_partition)

    # Logs that cannot be cleaned

    def is_uncleanable(self, log: Log) -> bool:
        """Whether cleaning it has failed within the last hour."""
        since = self._uncleanable.get((home_of(log), log.topic_partition))
        return since is not None and self._clock() - since < TRY_AGAIN_MS

    def mark_uncleanable(self, log: Log, error: Exception) -> None:
        """Leave the log alone for an hour, and say why."""
        with self._changed:
            self._give_up(log, error)

    def uncleanable_size(self) -> int:
        """Bytes of logs that cannot be cleaned. Kafka: uncleanable-bytes"""
        return sum(log.size for log in self.uncleanable_logs())

    def uncleanable_logs(self) -> Sequence[Log]:
        """The logs whose cleaning has failed within the last hour. Kafka: uncleanable-partitions-count"""
        return [log for log in [*self._logs.current.values()] if self.is_uncleanable(log)]

    def _give_up(self, log: Log, error: Exception) -> None:
        is_ours = isinstance(error, StratalogError)
        logger.error(
            "%s could not be cleaned, and the next attempt is in an hour: %s",
            log.topic_partition,
            error if is_ours else f"{type(error).__name__}: {error}",
            exc_info=None if is_ours else error,
        )
        self._uncleanable[home_of(log), log.topic_partition] = self._clock()

    # Checkpoints

    def clean_offsets(self, directory: str) -> dict[TopicPartition, int]:
        """Up to where each log of a directory is clean."""
        found = self._directories[directory]
        return found.checkpoints.cleaner_offsets.read() if found.is_online else {}

    def forget(self, directory: str, topic_partition: TopicPartition) -> None:
        """Called when the log is gone from this directory."""
        with self._changed:
            self._uncleanable.pop((directory, topic_partition), None)
            self._write(directory, {}, without=topic_partition)

    def move(self, topic_partition: TopicPartition, source: str, target: str) -> None:
        """Called when the log was moved to another directory; it is clean up to the same offset.

        That is true because cleaning was paused before the copy was begun. If the log was in that directory
        before, a crash may have left an old entry there, which says nothing about this copy.
        """
        with self._changed:
            offset = self.clean_offsets(source).get(topic_partition)
            since = self._uncleanable.pop((source, topic_partition), None)
            if since is not None:
                self._uncleanable[target, topic_partition] = since
            self._write(source, {}, without=topic_partition)
            if offset is None:
                self._write(target, {}, without=topic_partition)
            else:
                self._write(target, {topic_partition: offset})

    def take_failures(self) -> list[tuple[str, DiskError]]:
        """The directories whose checkpoint could not be written; each is returned once."""
        with self._changed:
            failures, self._failures = self._failures, []
            return failures

    def truncate_checkpoint(self, log: Log, offset: int) -> None:
        """Called before a truncation. Records appended after it are dirty, even below the checkpoint."""
        with self._changed:
            if not log.config.compact:
                return
            last = log.segments.floor(offset)
            offset = offset if last is None else last.base_offset
            if self.clean_offsets(home_of(log)).get(log.topic_partition, 0) > offset:
                self._write(home_of(log), {log.topic_partition: offset})

    def _write(
        self, directory: str, offsets: dict[TopicPartition, int], without: TopicPartition | None = None
    ) -> None:
        """Change some entries, and remove those of logs that no longer exist."""
        found = self._directories[directory]
        if not found.is_online:
            return

        def changed(known: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
            kept = {key: offset for key, offset in known.items() if key in self._logs.current}
            kept.update(offsets)
            return {key: offset for key, offset in kept.items() if key != without}

        try:
            # Read and written in one step: a truncation may lower the entry of its log in this file at any
            # moment.
            found.checkpoints.cleaner_offsets.update(changed)
        except DiskError as error:
            self._failures.append((directory, error))
