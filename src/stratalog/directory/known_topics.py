"""The settings that decide which records are deleted, and whether these settings are known.

Using defaults for unknown settings would delete records that must stay: `__consumer_offsets` is compacted,
and with Kafka's defaults it would lose records older than seven days. So a topic is refused unless its
settings come from a broker's own sources (the cluster's metadata and the broker's server.properties) or
from a file that names the topic. Kafka: LogConfig.fromProps, LogManager.isStrayKraftReplica
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stratalog.config import LogConfig, ServerConfig
from stratalog.config.server import broker_settings
from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import PartitionEntry, classify
from stratalog.directory.node import find_node
from stratalog.directory.topic_configs import parse_topics
from stratalog.errors import CorruptCheckpointError, DiskError, StratalogError, UsageError
from stratalog.files.names import TopicPartition, near_name, parse_partition_directory
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import topic_id_of
from stratalog.records.internal_topics import is_internal

_ASK = "Give its settings with --topic-settings"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSources:
    """Sources of settings: a broker's file, a user's JSON, and another directory with the metadata.

    `node_id` is the one in the broker's file.
    """

    server: ServerConfig | None = None
    topic_settings: str | None = None
    metadata_directory: str | None = None
    node_id: int | None = None


def check_settings(disk: DiskReader, directories: Sequence[str], sources: TopicSources) -> None:
    """UsageError if the user's JSON has settings of a topic that does not exist.

    A topic exists if it is internal, or in the directories or the cluster's metadata. If one of these cannot
    be read, nothing is checked here: the command itself reports it.
    """
    if sources.topic_settings is None:
        return
    siblings = () if sources.server is None else sources.server.manager.log_dirs
    there: set[TopicPartition] = set()
    try:
        for directory in (*directories, *(each for each in siblings if disk.exists(each))):
            layout = classify(disk, directory)
            there |= {entry.topic_partition for entry in layout.partitions}
            there |= {
                parse_partition_directory(name).topic_partition for name in (*layout.waiting, *layout.strays)
            }
        metadata = find_node(
            disk,
            directories,
            server=sources.server,
            metadata_directory=sources.metadata_directory,
            is_damaged=True,
        ).metadata
    except StratalogError:
        return
    if metadata is not None and metadata.problem is not None:
        return
    there |= {TopicPartition(topic, 0) for topic in (() if metadata is None else metadata.topics)}
    topics = {each.topic for each in there}
    for topic in parse_topics(sources.topic_settings):
        if topic not in topics and not is_internal(topic):
            raise UsageError(
                f"--topic-settings has settings of {topic}, which is not in {', '.join(directories)}"
                f"{near_name(topic, there)}"
            )


class KnownTopics:
    """The settings of the topics of one node; `notes` say what could not be read or is ignored."""

    def __init__(self, disk: DiskReader, directories: Sequence[str], sources: TopicSources) -> None:
        self._disk = disk
        self._node = find_node(
            disk, directories, server=sources.server, metadata_directory=sources.metadata_directory
        )
        self._has_server = sources.server is not None
        self._configs = self._node.topic_configs(sources.server)
        self._named: frozenset[str] = frozenset()
        if sources.topic_settings is not None:
            self._named = frozenset(parse_topics(sources.topic_settings))
            self._configs = self._configs.with_file(sources.topic_settings)
        self.notes = (*self._node.notes, *self._configs.notes)

    def of(self, topic: str) -> LogConfig:
        """The settings of a topic, with Kafka's defaults for those that no source has."""
        return self._configs.of(topic)

    def has_policy(self, topic: str) -> bool:
        """Whether it is known which cleanup.policy applies to the topic: its own or the broker's."""
        if topic in self._named:
            return True
        metadata = self._node.metadata
        if metadata is None or topic not in metadata.topics:
            return False
        return self._has_server or "cleanup.policy" in self._said(metadata, topic)

    def refusal(self, directory: str, entry: PartitionEntry) -> str | None:
        """Why no record of this partition may be deleted; None if records may be deleted."""
        topic = entry.topic_partition.topic
        if self.of(topic).remote_storage_enable:
            return (
                "the topic is tiered: which segments may be deleted here depends on which were copied to its "
                "remote storage."
            )
        if topic in self._named:
            return None
        metadata = self._node.metadata
        if metadata is None:
            return f"its settings are not known, as there is no __cluster_metadata here. {_ASK}."
        if metadata.problem is not None:
            return f"the cluster's metadata cannot be read to its end: {metadata.problem} {_ASK}."
        if topic not in metadata.topics:
            return f"the cluster's metadata does not know the topic. {_ASK}."
        try:
            topic_id = topic_id_of(self._disk, join_path(directory, entry.name))
        except (CorruptCheckpointError, DiskError) as error:
            return f"it is not known whether the log belongs to this topic. {error}"
        stray = self._node.stray_reason(entry.topic_partition, topic_id)
        if stray is not None:
            return f"a broker would set it aside as stray: {stray}. {_ASK}."
        missing = self._not_said(metadata, topic)
        if missing is not None:
            return (
                f"{missing} comes from its broker, not from the metadata. Give the server.properties with "
                "--config."
            )
        return None

    def _not_said(self, metadata: ClusterMetadata, topic: str) -> str | None:
        """A setting that decides on deletion and is in no source; None if a server.properties was given."""
        if self._has_server:
            return None
        said = self._said(metadata, topic)
        config = self.of(topic)
        deciding = ["cleanup.policy"]
        deciding += ["retention.ms"] if config.delete else []
        # These settings protect tombstones and recent records; with the defaults, some might be deleted too
        # early.
        deciding += ["delete.retention.ms", "min.compaction.lag.ms"] if config.compact else []
        return next((key for key in deciding if key not in said), None)

    def _said(self, metadata: ClusterMetadata, topic: str) -> set[str]:
        """The names of the settings that the metadata has for a topic or for its broker."""
        said = set(metadata.topic_configs.get(topic, {}))
        for name in ("", str(self._node.node_id)):
            said |= {key for key, _ in broker_settings(LogConfig, metadata.broker_configs.get(name, {}))}
        return said
