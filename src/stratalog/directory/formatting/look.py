"""The topics and partitions that are in log directories, and what a cluster's metadata must say about them.

A topic has one id in all directories: the one that its partitions have, or a new one. Its number of
partitions comes from the caller, from a note of the Spark sink (`written_topics.py`), or from the highest
partition that is there. The broker creates the partitions that are in no directory.

The leader epoch of a partition must not be lower than its log's: a broker appends with the epoch that the
controller gives, and the epochs in a log never descend.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from stratalog.clock import Clock
from stratalog.directory.formatting.choices import FormatOptions
from stratalog.directory.formatting.note import Identity
from stratalog.directory.formatting.result import FormattedPartition, FormattedTopic
from stratalog.directory.layout import Layout, find_duplicates
from stratalog.directory.partitions import FoundPartition, list_partitions
from stratalog.directory.views import open_view
from stratalog.directory.written_topics import read_written_topics
from stratalog.errors import CorruptCheckpointError, FormatRefusedError, InvalidNameError, UsageError
from stratalog.files.names import PARTITION_METADATA, DirectoryState, check_topic_name
from stratalog.files.paths import join_path, parent_path
from stratalog.files.reading import DiskReader
from stratalog.log.log_end import last_epoch
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_from_text, topic_id_to_text
from stratalog.records.internal_topics import CLUSTER_METADATA


@dataclass(slots=True, kw_only=True)
class FoundTopics:
    """The partitions by topic and number, and the ids that their files have.

    `without_id` are partitions that need an id; `counts` are numbers of partitions that the sink has noted.
    """

    partitions: dict[str, dict[int, FoundPartition]] = field(default_factory=dict)
    ids: dict[str, UUID] = field(default_factory=dict)
    without_id: list[FoundPartition] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)


def find_topics(disk: DiskReader, layouts: Sequence[Layout]) -> FoundTopics:
    """The topics in these log directories.

    FormatRefusedError if a partition is ambiguous: it is there twice, it is a copy that was being moved, its
    ids contradict each other, or no topic can have its name.
    """
    everywhere = [(layout.directory, entry) for layout in layouts for entry in layout.partitions]
    for problem in find_duplicates(everywhere):
        raise FormatRefusedError(
            problem.name, f"{problem.words}. Move the older of the two out of the log directories."
        )
    for directory, entry in everywhere:
        if entry.state is not DirectoryState.LIVE:
            raise FormatRefusedError(
                join_path(directory, entry.name),
                "It is the copy of a partition that was being moved. Delete it, or give it the name of its "
                "partition.",
            )
    found = FoundTopics()
    owners: dict[UUID, FoundPartition] = {}
    for layout in layouts:
        # A directory that is still to be created has an empty layout, and cannot be listed.
        for each in list_partitions(disk, layout.directory) if layout.partitions else ():
            if each.topic_partition.topic != CLUSTER_METADATA:
                _add(disk, found, owners, each)
        for topic, count in read_written_topics(disk, layout.directory).items():
            found.counts[topic] = max(count, found.counts.get(topic, 0))
    return found


def _add(
    disk: DiskReader, found: FoundTopics, owners: dict[UUID, FoundPartition], each: FoundPartition
) -> None:
    topic = each.topic_partition.topic
    try:
        check_topic_name(topic)
        topic_id = PartitionMetadataFile(disk, join_path(each.directory, PARTITION_METADATA)).read()
    except InvalidNameError as error:
        raise FormatRefusedError(each.directory, f"A topic cannot have this name: {error}") from error
    except CorruptCheckpointError as error:
        raise FormatRefusedError(
            each.directory,
            f"Its {PARTITION_METADATA} does not name the topic's id: {error.reason} Restore the file, or "
            "delete it, so that it is written again.",
        ) from error
    found.partitions.setdefault(topic, {})[each.topic_partition.partition] = each
    if topic_id is None:
        found.without_id.append(each)
        return
    known = found.ids.setdefault(topic, topic_id)
    if known != topic_id:
        raise FormatRefusedError(
            each.directory,
            f"It belongs to a topic with the id {topic_id_to_text(topic_id)}, but {owners[known].directory} "
            f"to one with the id {topic_id_to_text(known)}: a topic was deleted, and created again with the "
            "same name. Move the partitions of the old one away.",
        )
    owner = owners.setdefault(topic_id, each)
    if owner.topic_partition.topic != topic:
        raise FormatRefusedError(
            each.directory,
            f"It has the topic id {topic_id_to_text(topic_id)}, which is also that of {owner.directory}, a "
            f"partition of another topic. Delete {PARTITION_METADATA} in the one that is a copy.",
        )


def wanted_topics(found: FoundTopics, options: FormatOptions) -> dict[str, int]:
    """The topics that the cluster is to have, with their numbers of partitions.

    UsageError for a number that is too small or too large, and for settings of a topic that it will not have.
    """
    names = sorted({*found.partitions, *options.partitions})
    for name in options.partitions:
        check_topic_name(name)
    for name in options.topics_with_settings():
        if name not in names:
            raise UsageError(
                f"there are settings for the topic {name}, but no log directory has a partition of it. If it "
                f"is to be created, say how many partitions it has: {name}=1, for example."
            )
    least = {name: 1 + max(found.partitions.get(name, ()), default=-1) for name in names}
    return {name: options.partitions_of(name, least[name], found.counts.get(name, 0)) for name in names}


def plan_topics(
    disk: DiskReader, clock: Clock, found: FoundTopics, options: FormatOptions, identity: Identity
) -> tuple[FormattedTopic, ...]:
    """What the metadata must say about each topic; `identity` has an id for those that have none yet."""
    settings = options.settings()
    topics = []
    for name, count in wanted_topics(found, options).items():
        here = found.partitions.get(name, {})
        topics.append(
            FormattedTopic(
                name=name,
                topic_id=found.ids[name] if name in found.ids else topic_id_from_text(identity.topics[name]),
                is_new_id=name not in found.ids,
                settings=settings.get(name, {}),
                partitions=tuple(
                    _partition(disk, clock, number, here.get(number)) for number in range(count)
                ),
            )
        )
    return tuple(topics)


def _partition(
    disk: DiskReader, clock: Clock, number: int, found: FoundPartition | None
) -> FormattedPartition:
    if found is None:
        return FormattedPartition(number, None, 0)
    # As after a clean stop, which leaves the partition without a leader, in a new epoch.
    return FormattedPartition(number, parent_path(found.directory), latest_epoch(disk, clock, found) + 1)


def latest_epoch(disk: DiskReader, clock: Clock, found: FoundPartition) -> int:
    """The highest leader epoch in a log or its leader-epoch-checkpoint; -1 if there is none."""
    view = open_view(disk, clock, found)
    try:
        known = [entry.epoch for entry in view.epochs]
        return max([last_epoch(tuple(view.segments)), *known])
    finally:
        view.close()
