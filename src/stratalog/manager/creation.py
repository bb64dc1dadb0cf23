"""Creates new logs. Kafka: LogManager.createLogDirectory"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID, uuid4

from stratalog.directory.log_directory import LogDirectory
from stratalog.errors import DiskError, UsageError
from stratalog.files.names import (
    MAX_DIRECTORY_LENGTH,
    PARTITION_METADATA,
    DirectoryState,
    TopicPartition,
    check_new_partition,
    partition_directory_name,
)
from stratalog.files.paths import join_path
from stratalog.log.api.managed_log import ManagedLog
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_of
from stratalog.manager.housekeeping import OnFailure
from stratalog.manager.loading import LogOpening


def create_in_first(
    opening: LogOpening,
    homes: Sequence[LogDirectory],
    topic_partition: TopicPartition,
    on_failure: OnFailure,
    *,
    is_future: bool,
    topic_id: UUID | None,
) -> ManagedLog:
    """An empty log in the first of these directories where it can be created.

    `on_failure` is called with each directory that fails. DiskError if all fail."""
    for home in homes:
        try:
            return create_log(opening, home, topic_partition, is_future=is_future, topic_id=topic_id)
        except DiskError as error:
            on_failure(home.path, error)
    raise DiskError(home.path, f"{topic_partition} could not be created: {home.failure}")


def create_log(
    opening: LogOpening,
    directory: LogDirectory,
    topic_partition: TopicPartition,
    *,
    is_future: bool,
    topic_id: UUID | None,
    log_start_offset: int = 0,
) -> ManagedLog:
    """An empty log in this directory, its name and its topic's id on the device."""
    check_new_partition(topic_partition)
    state = DirectoryState.FUTURE if is_future else DirectoryState.LIVE
    name = partition_directory_name(topic_partition, state, uuid4().hex)
    if len(name) > MAX_DIRECTORY_LENGTH:
        raise UsageError(f"{name}: a directory's name can have at most {MAX_DIRECTORY_LENGTH} characters.")
    path = join_path(directory.path, name)
    directory.before_change()
    opening.disk.make_directory(path)
    if topic_id is not None and topic_id_of(opening.disk, path, wanted=topic_id) is None:
        metadata = PartitionMetadataFile(opening.disk, join_path(path, PARTITION_METADATA))
        metadata.record(topic_id)
        metadata.flush()
    return opening.open(directory, name, topic_partition, log_start_offset=log_start_offset)
