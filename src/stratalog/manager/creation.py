"""Where a new log goes, and how it comes into being. Kafka: LogManager.nextLogDirs, createLogDirectory"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID, uuid4

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, UsageError
from stratalog.files.names import (
    MAX_DIRECTORY_LENGTH,
    PARTITION_METADATA,
    DirectoryState,
    TopicPartition,
    check_topic_name,
    partition_directory_name,
)
from stratalog.files.paths import absolute_path, join_path
from stratalog.log.log import Log
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_of
from stratalog.manager.loading import LogOpening


def candidates(
    directories: Sequence[LogDirectory], counts: Mapping[str, int], cordoned: Sequence[str]
) -> list[LogDirectory]:
    """The directories a new log may go to, that with the fewest logs first; none of the cordoned ones.

    Where all are cordoned the first one takes it all the same, as in Kafka.
    """
    online = [directory for directory in directories if directory.is_online]
    if not online:
        raise DiskError(directories[0].path, "no log directory is online.")
    closed = {absolute_path(path) for path in cordoned}
    allowed = [directory for directory in online if "*" not in cordoned and directory.path not in closed]
    return sorted(allowed or online[:1], key=lambda directory: counts.get(directory.path, 0))


def create_log(
    opening: LogOpening,
    directory: LogDirectory,
    topic_partition: TopicPartition,
    *,
    is_future: bool,
    topic_id: UUID | None,
    log_start_offset: int = 0,
) -> Log:
    """An empty log in this directory, its name and its topic's id on the device."""
    check_topic_name(topic_partition.topic)
    state = DirectoryState.FUTURE if is_future else DirectoryState.LIVE
    name = partition_directory_name(topic_partition, state, uuid4().hex)
    if len(name) > MAX_DIRECTORY_LENGTH:
        raise UsageError(f"{name}: a directory's name has at most {MAX_DIRECTORY_LENGTH} characters.")
    path = join_path(directory.path, name)
    directory.before_change()
    opening.disk.make_directory(path)
    if topic_id is not None and topic_id_of(opening.disk, path, wanted=topic_id) is None:
        metadata = PartitionMetadataFile(opening.disk, join_path(path, PARTITION_METADATA))
        metadata.record(topic_id)
        metadata.flush()
    return opening.open(directory, name, topic_partition, log_start_offset=log_start_offset)
