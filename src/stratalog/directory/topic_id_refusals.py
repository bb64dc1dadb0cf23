"""Finds folders with another topic's id, because of which a broker serves no partition at all.

The broker looks up the id in partition.metadata, and not the folder's name:

no topic has the id, or not this partition here   renames the folder to -stray
it has, but the topic of the folder's name not    loads the log, and never uses it
both have this partition here                     cannot serve the folder's topic, and then serves none

Only the last case is a reason against a start; `doctor` lists the partitions of the first one. Nothing here
can tell whose records the folder has: only the file may be wrong, or the whole folder may be misnamed. So
nobody writes the id of the folder's topic over another one, except a person who has looked at the records.

Kafka: ReplicaManager.applyDelta, Partition.createLogIfNotExists, LogManager.isStrayReplica
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import Layout
from stratalog.directory.node import Node
from stratalog.directory.refusal import RECOVER_ALL, RefusalKind, StartupRefusal
from stratalog.errors import CorruptCheckpointError, DiskError
from stratalog.files.names import PARTITION_METADATA, DirectoryState, TopicPartition
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_to_text

_ALL = RECOVER_ALL[0].lower() + RECOVER_ALL[1:]


def of_topic_ids(disk: DiskReader, layout: Layout, node: Node) -> Iterator[StartupRefusal]:
    """The folders of a log directory that have the id of another topic, if both topics are served here."""
    metadata = node.metadata
    if metadata is None or node.node_id is None:
        return
    names = {topic.topic_id: topic.name for topic in metadata.topics.values()}
    for entry in layout.partitions:
        key = entry.topic_partition
        own_id = metadata.topic_id(key.topic)
        if entry.state is not DirectoryState.LIVE or own_id is None:
            continue
        name = join_path(entry.name, PARTITION_METADATA)
        try:
            found = PartitionMetadataFile(disk, join_path(layout.directory, name)).read()
        except (CorruptCheckpointError, DiskError):  # startup_refusals.py looks at this file, too
            continue
        if found in (None, own_id) or found not in names:
            continue
        if all(_is_here(metadata, key, each, node.node_id) for each in (own_id, found)):
            yield StartupRefusal(
                RefusalKind.TOPIC_ID,
                layout.directory,
                name,
                f"It has the id of topic {names[found]} ({topic_id_to_text(found)}), and not that of topic "
                f"{key.topic} ({topic_id_to_text(own_id)}).",
                own_id_remedy(key.topic, names[found]),
            )


def own_id_remedy(topic: str, other: str | None) -> str:
    """What to do about a folder with a wrong id, if the cluster has a topic of the folder's name.

    `other` is the topic of the id in the file; None if the cluster does not know that id.
    """
    theirs = f"an earlier topic {topic} that was deleted" if other is None else f"topic {other}"
    return (
        "Find out whose records the folder has, for example with `stratalog dump`. If they are those of "
        f"topic {topic}, delete this partition.metadata and {_ALL}, which writes the right id. If they are "
        f"those of {theirs}, move the folder out of the log directory: a broker then fetches the partition "
        "from its leader, or begins an empty one if no other broker has it."
    )


def _is_here(metadata: ClusterMetadata, key: TopicPartition, topic_id: UUID | None, node_id: int) -> bool:
    return metadata.stray_reason(key, topic_id, node_id) is None
