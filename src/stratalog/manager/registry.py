"""The logs of a manager by partition: current logs, copies that are being filled, and offline logs.

Not thread-safe: the manager's lock guards it. Kafka: LogManager.currentLogs, futureLogs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from stratalog.config import LogConfig
from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import UsageError
from stratalog.files.names import TopicPartition
from stratalog.files.paths import parent_path
from stratalog.log.api.managed_log import ManagedLog
from stratalog.log.log import Log


class LogRegistry:
    """Which log is where."""

    def __init__(self) -> None:
        self.current: dict[TopicPartition, ManagedLog] = {}
        self.future: dict[TopicPartition, ManagedLog] = {}
        self._offline: dict[tuple[TopicPartition, bool], LogDirectory] = {}

    def __iter__(self) -> Iterator[ManagedLog]:
        """All logs; safe while logs are added or removed."""
        return iter([*self.current.values(), *self.future.values()])

    def logs(self, *, is_future: bool) -> dict[TopicPartition, ManagedLog]:
        return self.future if is_future else self.current

    def find(self, topic_partition: TopicPartition, *, is_future: bool) -> ManagedLog | None:
        """The log, or None; DiskError if it is in a directory that went offline."""
        log = self.logs(is_future=is_future).get(topic_partition)
        if log is None and (lost := self._offline.get((topic_partition, is_future))) is not None:
            lost.check()
        return log

    def add(self, log: ManagedLog, *, is_future: bool) -> None:
        logs = self.logs(is_future=is_future)
        other = logs.get(log.topic_partition)
        if other is not None:
            raise UsageError(
                f"{log.topic_partition} is in {other.directory} and in {log.directory}: move one away."
            )
        logs[log.topic_partition] = log

    def remove(self, topic_partition: TopicPartition, *, is_future: bool) -> ManagedLog | None:
        return self.logs(is_future=is_future).pop(topic_partition, None)

    def promote(self, topic_partition: TopicPartition) -> None:
        """Make the copy the current log; the old current log is forgotten."""
        self.current[topic_partition] = self.future.pop(topic_partition)

    def drop_directory(self, directory: LogDirectory) -> list[ManagedLog]:
        """Forget the logs of a directory that went offline; returns them."""
        dropped = []
        for is_future in (False, True):
            logs = self.logs(is_future=is_future)
            for log in [log for log in logs.values() if home_of(log) == directory.path]:
                del logs[log.topic_partition]
                self._offline[log.topic_partition, is_future] = directory
                dropped.append(log)
        return dropped

    def configure(self, topic: str, config: LogConfig) -> list[TopicPartition]:
        """Give the logs of a topic these settings; returns those that are no longer compacted."""
        logs = [log for log in self if log.topic_partition.topic == topic]
        were_compacted = [log.topic_partition for log in logs if log.config.compact]
        for log in logs:
            log.config = config
        return [] if config.compact else were_compacted

    def in_directory(self, path: str) -> list[ManagedLog]:
        return [log for log in self if home_of(log) == path]

    def counts(self) -> Counter[str]:
        """How many logs each directory has."""
        return Counter(home_of(log) for log in self)


def home_of(log: Log) -> str:
    """The log directory that a log is in."""
    return parent_path(log.directory)
