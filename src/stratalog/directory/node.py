"""Finds the node that owns these log directories, its cluster, and the cluster's metadata.

There is one rule for all callers. A node's places are the directories that were named, their siblings in
`log.dirs`, and its `metadata.log.dir`. Every `meta.properties` in them must name the same node and the same
cluster; otherwise it would be unclear whose settings apply. `__cluster_metadata-0` is searched first in
`metadata.log.dir`, where a broker with this setting looks, and then in the other places in their order.

A named directory that is not in `log.dirs` has no siblings: it is a copy, or belongs to another broker.
Kafka: MetaPropertiesEnsemble, KafkaConfig.metadataLogDir
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from stratalog.config import ServerConfig
from stratalog.directory.cluster_metadata import METADATA_DIRECTORY, ClusterMetadata, read_cluster_metadata
from stratalog.directory.meta_properties import MetaProperties, read_meta_properties
from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import CorruptCheckpointError, DiskError, StratalogError, TwoNodesError
from stratalog.files.entries import Path
from stratalog.files.names import TopicPartition
from stratalog.files.paths import absolute_path, join_path
from stratalog.files.reading import DiskReader


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node that owns the log directories. A fact that is not on the disk is None.

    `is_kraft`: a `meta.properties` says so. `metadata_directory` is the place that has
    `__cluster_metadata-0`. `notes` are sentences about what could not be read.
    """

    node_id: int | None = None
    cluster_id: str | None = None
    is_kraft: bool = False
    metadata: ClusterMetadata | None = None
    metadata_directory: str | None = None
    notes: tuple[str, ...] = ()

    def topic_configs(self, server: ServerConfig | None = None) -> TopicConfigs:
        """The settings of topics in the cluster's metadata, which override those of this node's `server`."""
        if self.metadata is None:
            return TopicConfigs(None if server is None else server.log)
        return TopicConfigs.from_metadata(self.metadata, server=server, node_id=self.node_id)

    def topic_id(self, topic: str) -> UUID | None:
        """The id that the cluster gave the topic; None if that is not known here."""
        return None if self.metadata is None else self.metadata.topic_id(topic)

    def stray_reason(self, topic_partition: TopicPartition, topic_id: UUID | None) -> str | None:
        """Why the node's broker would set this partition aside as stray; None if it would not, or this is
        unknown."""
        if self.metadata is None or self.node_id is None:
            return None
        return self.metadata.stray_reason(topic_partition, topic_id, self.node_id)


def find_node(
    disk: DiskReader,
    directories: Sequence[Path],
    *,
    server: ServerConfig | None = None,
    metadata_directory: str | None = None,
    metadata: ClusterMetadata | None = None,
    is_damaged: bool = False,
) -> Node:
    """The node of these log directories, by the rule above. Changes nothing.

    `metadata_directory` is a `metadata.log.dir` given in addition to `server`; `metadata` is used instead of
    reading it from the disk. TwoNodesError if two places belong to different nodes. With `is_damaged` the
    caller expects damage: then a note reports the conflict instead, and the node is unknown.
    """
    notes: list[str] = []
    own = [absolute_path(directory) for directory in directories]
    special = metadata_directory or (server.manager.metadata_log_dir if server is not None else "")
    first = [absolute_path(special)] if special else []
    places = [*dict.fromkeys([*own, *_siblings(own, server), *first])]
    known = [(place, meta) for place in places if (meta := _meta_of(disk, place, notes)) is not None]
    node_id, cluster_id = _agreed(known, notes, is_damaged=is_damaged)
    found = None
    if metadata is None:
        found = next((place for place in [*first, *places] if _has_metadata(disk, place, notes)), None)
        metadata = None if found is None else _read_metadata(disk, found, notes, is_damaged=is_damaged)
    if metadata is not None and metadata.problem is not None:
        notes.append(f"The cluster's metadata is read up to {metadata.problem}")
    return Node(
        node_id=node_id,
        cluster_id=cluster_id,
        is_kraft=any(meta.is_kraft for _, meta in known),
        metadata=metadata,
        metadata_directory=found,
        notes=tuple(notes),
    )


def _siblings(directories: Sequence[str], server: ServerConfig | None) -> list[str]:
    every = [] if server is None else [absolute_path(each) for each in server.manager.log_dirs]
    real = {os.path.realpath(each) for each in every}
    return every if any(os.path.realpath(each) in real for each in directories) else []


def _meta_of(disk: DiskReader, place: str, notes: list[str]) -> MetaProperties | None:
    """The `meta.properties` of a place; None if it cannot be read, as other places may have the facts."""
    try:
        return read_meta_properties(disk, place)
    except (CorruptCheckpointError, DiskError) as error:
        notes.append(f"{error} So the file does not say which node this directory belongs to.")
        return None


def _agreed(
    known: Sequence[tuple[str, MetaProperties]], notes: list[str], *, is_damaged: bool
) -> tuple[int | None, str | None]:
    for place, meta in known[1:]:
        first_place, first = known[0]
        if (meta.node_id, meta.cluster_id) == (first.node_id, first.cluster_id):
            continue
        words = (
            f"{place} belongs to node {meta.node_id} of cluster {meta.cluster_id}, {first_place} to node "
            f"{first.node_id} of cluster {first.cluster_id}"
        )
        if not is_damaged:
            raise TwoNodesError(f"{words}: name only the directories of one node.")
        notes.append(f"{words}: a broker refuses to start on both.")
        return None, None
    return (known[0][1].node_id, known[0][1].cluster_id) if known else (None, None)


def _has_metadata(disk: DiskReader, place: str, notes: list[str]) -> bool:
    try:
        return disk.exists(join_path(place, METADATA_DIRECTORY))
    except DiskError as error:
        notes.append(f"{error} So the cluster's metadata is not looked for there.")
        return False


def _read_metadata(
    disk: DiskReader, place: str, notes: list[str], *, is_damaged: bool
) -> ClusterMetadata | None:
    try:
        return read_cluster_metadata(disk, join_path(place, METADATA_DIRECTORY))
    except StratalogError as error:
        if not is_damaged:
            raise
        notes.append(f"The cluster's metadata cannot be read: {error}")
        return None
