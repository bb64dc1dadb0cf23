"""The topic ids of a log directory's partitions: which are missing, garbled, or not what the cluster says.

missing                   A broker renames the folder to -stray and does not serve it. Recovery writes the
                          file if the cluster's metadata knows the topic.
empty, zeroed, garbled    A broker refuses to start, or takes the directory offline. Recovery does the same
                          as for a missing file, and keeps the old bytes in quarantine.
the id of another topic   A broker does not serve the partition, or renames the folder to -stray. Recovery
                          only reports it: the folder may belong to a topic that was deleted.

Kafka: PartitionMetadataFile, LogManager.isStrayKraftReplica
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from stratalog.directory.cluster_metadata import ClusterMetadata
from stratalog.directory.layout import Layout, PartitionEntry, Problem
from stratalog.directory.meta_properties import MetaProperties
from stratalog.errors import CorruptCheckpointError, DiskError, QuarantineFullError
from stratalog.files.disk import Disk
from stratalog.files.names import PARTITION_METADATA
from stratalog.files.paths import join_path
from stratalog.log.partition_metadata import PartitionMetadataFile, topic_id_to_text
from stratalog.log.recovery.quarantine import Quarantine

_STRAY = "a broker renames the folder to -stray and does not serve it"


class TopicIds:
    """The partition.metadata of one directory's partitions; `look` first, then `write` those `wanted`."""

    def __init__(self, disk: Disk, layout: Layout) -> None:
        self._disk = disk
        self._layout = layout
        self.wanted: dict[str, UUID] = {}  # by the partition's folder
        self._garbled: dict[str, str] = {}  # why, by the partition's folder

    def look(
        self,
        meta: MetaProperties | None,
        metadata: ClusterMetadata | None,
        *,
        node_id: int | None,
        is_left_alone: bool,
    ) -> list[Problem]:
        """Find problems. `write` repairs those for which the metadata has an id."""
        # Releases with ZooKeeper did not have the file.
        is_needed = meta is not None and meta.is_kraft
        problems = []
        for entry in self._layout.partitions:
            try:
                found = self._file(entry.name).read()
            except CorruptCheckpointError as error:
                self._garbled[entry.name] = error.reason
                words = f"{PARTITION_METADATA} does not name the topic's id: {error.reason.rstrip('.')}"
                problem = Problem(entry.name, words, "a broker refuses to start because of it")
            except DiskError as error:
                words = f"{PARTITION_METADATA} cannot be read: {error.reason.rstrip('.')}"
                problems.append(Problem(entry.name, words, "a broker refuses to start because of it"))
                continue
            else:
                if found is not None:
                    problems += _contradiction(entry, found, metadata)
                    continue
                if not is_needed:
                    continue
                problem = Problem(entry.name, f"{PARTITION_METADATA} is missing", _STRAY)
            topic_id = _known_id(entry, metadata, node_id)
            if topic_id is not None and not is_left_alone:
                self.wanted[entry.name] = topic_id
                consequence = "recovery rewrites it from the cluster's metadata"
                problem = problem._replace(consequence=consequence, is_repaired=True)
            problems.append(problem)
        return problems

    def write(self, quarantines: Sequence[Quarantine]) -> None:
        """Write the known ids. The old bytes of a file are kept in the first quarantine that has room."""
        for name, topic_id in self.wanted.items():
            if name in self._garbled:
                self._keep(name, quarantines)
            file = self._file(name)
            file.record(topic_id)
            file.flush()

    def _keep(self, name: str, quarantines: Sequence[Quarantine]) -> None:
        path = self._path(name)
        size = self._disk.size(path)
        for number, quarantine in enumerate(quarantines if size else (), 1):
            try:
                quarantine.keep_range(
                    path,
                    partition=name,
                    file=PARTITION_METADATA,
                    position=0,
                    size=size,
                    reason=self._garbled[name],
                )
                return
            except QuarantineFullError:
                if number == len(quarantines):
                    raise

    def _file(self, name: str) -> PartitionMetadataFile:
        return PartitionMetadataFile(self._disk, self._path(name))

    def _path(self, name: str) -> str:
        return join_path(self._layout.directory, name, PARTITION_METADATA)


def _known_id(entry: PartitionEntry, metadata: ClusterMetadata | None, node_id: int | None) -> UUID | None:
    """The id of the partition's topic, if the cluster has it on this node.

    None for the folder of an earlier topic with the same name, which must not become part of this topic.
    """
    topic_id = None if metadata is None else metadata.topic_id(entry.topic_partition.topic)
    if metadata is None or topic_id is None or node_id is None:
        return None
    stray_reason = metadata.stray_reason(entry.topic_partition, topic_id, node_id)
    return topic_id if stray_reason is None else None


def _contradiction(entry: PartitionEntry, found: UUID, metadata: ClusterMetadata | None) -> list[Problem]:
    """A problem if the id in the file is not that of the folder's topic; none for a deleted topic."""
    if metadata is None:
        return []
    expected = metadata.topic_id(entry.topic_partition.topic)
    owner = next((topic.name for topic in metadata.topics.values() if topic.topic_id == found), None)
    if found == expected or (expected is None and owner is None):
        return []
    words = f"{PARTITION_METADATA} says topic id {topic_id_to_text(found)}"
    if owner is not None:
        return [
            Problem(entry.name, f"{words}, which belongs to {owner}", "a broker does not serve the partition")
        ]
    assert expected is not None
    return [Problem(entry.name, f"{words}, but the cluster's topic has {topic_id_to_text(expected)}", _STRAY)]
