"""Chooses the directory of a new log. Kafka: LogManager.nextLogDirs, preferredLogDirs"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, UsageError
from stratalog.files.entries import Path
from stratalog.files.names import TopicPartition
from stratalog.files.paths import absolute_path
from stratalog.manager.registry import LogRegistry, home_of


class Placement:
    """The directories of a manager by path; chooses the one in which a log is created."""

    def __init__(
        self, directories: Mapping[str, LogDirectory], logs: LogRegistry, cordoned: Sequence[str]
    ) -> None:
        self._directories = directories
        self._logs = logs
        self._cordoned = cordoned
        self._preferred: dict[TopicPartition, str] = {}

    def prefer(self, topic_partition: TopicPartition, directory: Path) -> None:
        """Choose the directory in which a new log, or the copy of an existing log, will be created."""
        self._preferred[topic_partition] = self.directory(directory).path

    def forget(self, topic_partition: TopicPartition) -> None:
        """Called when the log was created."""
        self._preferred.pop(topic_partition, None)

    def directory(self, path: Path) -> LogDirectory:
        """The directory with this path; UsageError if it is not the manager's, DiskError if it is offline."""
        directory = self._directories.get(absolute_path(path))
        if directory is None:
            raise UsageError(f"{path} is not a directory of this log manager.")
        directory.check()
        return directory

    def homes_for(
        self, topic_partition: TopicPartition, directory: Path | None, *, is_future: bool
    ) -> list[LogDirectory]:
        """The directories in which a log may be created, the best one first; only `directory` if given."""
        preferred = self._preferred.get(topic_partition) if directory is None else directory
        if preferred is None:
            if is_future:
                raise UsageError(f"{topic_partition}: the directory of its copy is not known; name one.")
            return candidates([*self._directories.values()], self._logs.counts(), self._cordoned)
        home = self.directory(preferred)
        current = self._logs.current.get(topic_partition)
        if is_future and (current is None or home_of(current) == home.path):
            raise UsageError(f"{topic_partition}: a copy needs a log in another directory to copy from.")
        return [home]


def candidates(
    directories: Sequence[LogDirectory], counts: Mapping[str, int], cordoned: Sequence[str]
) -> list[LogDirectory]:
    """The directories for a new log, the one with the fewest logs first; without the cordoned ones.

    If all are cordoned, the first one is used nevertheless, as in Kafka.
    """
    online = [directory for directory in directories if directory.is_online]
    if not online:
        raise DiskError(directories[0].path, "no log directory is online.")
    closed = {absolute_path(path) for path in cordoned}
    allowed = [directory for directory in online if "*" not in cordoned and directory.path not in closed]
    return sorted(allowed or online[:1], key=lambda directory: counts.get(directory.path, 0))
