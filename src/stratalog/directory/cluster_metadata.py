"""The topics, replicas, settings and broker epochs of a KRaft cluster, from `__cluster_metadata`.

A node keeps the cluster's metadata as a log of changes, and now and then as a snapshot of everything below an
offset (`%020d-%010d.checkpoint`). So the newest snapshot is read, then the log from its offset on. Read-only.
Records after a torn tail or damage are missing from the result, and `problem` reports damage.

Kafka: MetadataImage, MetadataDelta, KafkaMetadataLog, LogManager.isStrayKraftReplica
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from stratalog.directory.meta_properties import RESERVED_IDS
from stratalog.errors import CorruptRecordError, DiskError
from stratalog.files.disk import Path
from stratalog.files.entries import EntryKind
from stratalog.files.names import (
    FileKind,
    FileState,
    KRaftSnapshotFile,
    TopicPartition,
    parse_kraft_snapshot_file,
    parse_segment_file,
    segment_file_name,
)
from stratalog.files.paths import join_path
from stratalog.files.reading import DiskReader
from stratalog.log.partition_metadata import topic_id_from_text, topic_id_to_text
from stratalog.records.batch import RECORD_BATCH_OVERHEAD
from stratalog.records.control import ControlType, parse_control_key
from stratalog.records.internal import decode_internal
from stratalog.records.internal_topics import CLUSTER_METADATA
from stratalog.records.reader import RecordBatch, read_batches

METADATA_DIRECTORY = f"{CLUSTER_METADATA}-0"
BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4  # Kafka: ConfigResource.Type
NO_LEADER, _SAME_LEADER = -1, -2
_CHUNK_SIZE = 4 << 20
# The records of a batch with one NO_OP_RECORD: length, attributes, deltas, no key, the value, no headers. An
# active controller writes such a batch every 500 ms, so most batches of a quiet cluster are of this kind.
_NO_OP = bytes.fromhex("14 00 00 00 01 08 01140000 00")

Message = dict[str, Any]  # of many kinds, each with fields of its own


@dataclass(slots=True, kw_only=True)
class Topic:
    """A topic: its id; and by partition, the nodes that have a replica, the id of the log directory of each
    replica (since Kafka 3.7), and the leader (-1: none).
    """

    name: str
    topic_id: UUID
    replicas: dict[int, tuple[int, ...]] = field(default_factory=dict)
    directories: dict[int, tuple[str, ...]] = field(default_factory=dict)
    leaders: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True)
class ClusterMetadata:
    """What the metadata says at `end_offset`.

    `broker_configs` are dynamic settings by node id as text; those of all brokers are under "".
    `broker_epochs` has the last registration of each node, `broker_directories` the ids of the log
    directories that it named (since Kafka 3.7). `problem` says why the log could not be read to its end.
    """

    topics: dict[str, Topic] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_configs: dict[str, dict[str, str]] = field(default_factory=dict)
    broker_epochs: dict[int, int] = field(default_factory=dict)
    broker_directories: dict[int, frozenset[str]] = field(default_factory=dict)
    end_offset: int = 0
    problem: str | None = None

    def topic_id(self, topic: str) -> UUID | None:
        found = self.topics.get(topic)
        return None if found is None else found.topic_id

    def stray_reason(
        self, topic_partition: TopicPartition, topic_id: UUID | None, node_id: int
    ) -> str | None:
        """Why a broker would set this partition aside as stray; None if it belongs to this node."""
        if topic_id is None:
            return "its topic's id is not known"
        topic = next((topic for topic in self.topics.values() if topic.topic_id == topic_id), None)
        if topic is None:
            known = self.topic_id(topic_partition.topic)
            named = "" if known is None else f": {topic_partition.topic} has {topic_id_to_text(known)}"
            return f"no topic of the cluster has its id{named}"
        replicas = topic.replicas.get(topic_partition.partition)
        if replicas is None:
            return "its topic has no such partition"
        return None if node_id in replicas else f"node {node_id} is not among its replicas"

    def directory_of(self, topic_partition: TopicPartition, node_id: int) -> str | None:
        """The id of the log directory to which the node's replica is assigned; None if it is to none."""
        topic = self.topics.get(topic_partition.topic)
        if topic is None:
            return None
        replicas = topic.replicas.get(topic_partition.partition, ())
        directories = topic.directories.get(topic_partition.partition, ())
        found = dict(zip(replicas, directories, strict=False)).get(node_id)
        return None if found in RESERVED_IDS else found

    def waits_for(self, topic_partition: TopicPartition, node_id: int) -> bool:
        """Whether the partition has no leader, and none but this node can be it."""
        topic = self.topics.get(topic_partition.topic)
        number = topic_partition.partition
        return topic is not None and (topic.replicas.get(number), topic.leaders.get(number)) == (
            (node_id,),
            NO_LEADER,
        )


def read_cluster_metadata(disk: DiskReader, partition_directory: Path) -> ClusterMetadata:
    """Read the newest snapshot in this directory, and the log after it."""
    root = os.fspath(partition_directory)
    entries = [entry for entry in disk.list_directory(root) if entry.kind is EntryKind.FILE]
    newest = newest_snapshot(disk, root)
    metadata = ClusterMetadata()
    changes = _Changes(metadata)
    try:
        if newest is not None:
            for batch in _batches(disk, join_path(root, newest.name)):
                changes.apply(batch, 0)
            metadata.end_offset = newest.end_offset
        for base_offset in _segments_from(metadata.end_offset, [entry.name for entry in entries]):
            for batch in _batches(disk, join_path(root, f"{base_offset:020d}{FileKind.LOG.value}")):
                if batch.facts.last_offset >= metadata.end_offset:
                    changes.apply(batch, metadata.end_offset)
                    metadata.end_offset = batch.facts.last_offset + 1
    except (CorruptRecordError, DiskError) as error:
        metadata.problem = str(error)
    return metadata


def newest_snapshot(disk: DiskReader, partition_directory: Path) -> KRaftSnapshotFile | None:
    """The snapshot that a broker reads when it starts."""
    names = [entry.name for entry in disk.list_directory(os.fspath(partition_directory))]
    found = [parse_kraft_snapshot_file(name) for name in names]
    return max((each for each in found if each is not None and not each.deleted), default=None)


def snapshot_problem(disk: DiskReader, path: str) -> str | None:
    """Why a broker cannot start with this snapshot; None if it is complete and its checksums are right."""
    try:
        batches = list(_batches(disk, path))
        ends = [_control_types(batch) for batch in (batches[:1] + batches[-1:])]
    except CorruptRecordError as error:
        return str(error)
    read_size = sum(batch.facts.size for batch in batches)
    if not ends or ControlType.SNAPSHOT_HEADER not in ends[0]:
        return "It does not begin with the header of a snapshot."
    if ControlType.SNAPSHOT_FOOTER not in ends[-1] or read_size != disk.size(path):
        return "Its end is missing."
    return None


def begins_at_zero(disk: DiskReader, partition_directory: str) -> bool:
    """Whether the metadata log has everything from the first record on, so that no snapshot is needed."""
    return disk.exists(join_path(partition_directory, segment_file_name(0, FileKind.LOG)))


def bootstrap_problem(disk: DiskReader, directory: Path) -> str | None:
    """Why a broker cannot start with the bootstrap.checkpoint of its metadata.log.dir; None if it can.

    The file has the first records of the cluster. A broker reads it at every start, if it exists. Kafka:
    BootstrapDirectory
    """
    path = join_path(os.fspath(directory), BOOTSTRAP_CHECKPOINT)
    if not disk.exists(path):
        return None
    try:
        messages = [
            decode_internal(CLUSTER_METADATA, record.key, record.value)
            for batch in _batches(disk, path, check_crc=False)  # as Kafka reads it
            if not batch.is_control
            for record in batch
        ]
    except CorruptRecordError as error:
        return f"It cannot be read: {error}"
    features = [found.value for found in messages if found.kind == "FEATURE_LEVEL_RECORD" and found.value]
    if not any(feature["name"] == "metadata.version" for feature in features):
        return "It does not say which metadata.version the cluster began with."
    return None


def _segments_from(offset: int, names: list[str]) -> list[int]:
    """The base offsets of the segments that may hold this offset or a later one."""
    files = [parse_segment_file(name) for name in names]
    bases = sorted(
        file.offset
        for file in files
        if file is not None and file.kind is FileKind.LOG and file.state is FileState.LIVE
    )
    first = max((base for base in bases if base <= offset), default=0)
    return [base for base in bases if base >= first]


def _batches(disk: DiskReader, path: str, *, check_crc: bool = True) -> Iterator[RecordBatch]:
    """The whole batches of a file, read piece by piece; a torn tail is the end."""
    position, wanted = 0, _CHUNK_SIZE
    file_size = disk.size(path)
    while position < file_size:
        data = disk.read_at(path, wanted, position)
        taken = 0
        try:
            for batch in read_batches(data, check_crc=check_crc):
                taken = batch.facts.position + batch.facts.size
                yield batch
        except CorruptRecordError as error:
            raise error.at(position=position + error.position, path=path) from error
        if not taken:
            if len(data) < wanted:
                return
            wanted *= 2  # one batch is larger than that
        position += taken


def _control_types(batch: RecordBatch) -> list[int]:
    return [parse_control_key(record.key)[1] for record in batch] if batch.is_control else []


class _Changes:
    """Applies records in order. Records of a transaction wait for its end, which may be an abort."""

    def __init__(self, metadata: ClusterMetadata) -> None:
        self._metadata = metadata
        self._names: dict[str, str] = {}  # of topics, by id
        self._pending: list[tuple[str, Message]] | None = None

    def apply(self, batch: RecordBatch, start_offset: int) -> None:
        if batch.is_control or batch.raw[RECORD_BATCH_OVERHEAD:] == _NO_OP:
            return
        for record in batch:
            if record.offset < start_offset:
                continue
            message = decode_internal(CLUSTER_METADATA, record.key, record.value)
            if message.value is not None:  # a kind that Kafka 4.3.1 does not know is ignored
                self._take(message.kind, message.value)

    def _take(self, kind: str, value: Message) -> None:
        if kind == "BEGIN_TRANSACTION_RECORD":
            self._pending = []
        elif kind == "ABORT_TRANSACTION_RECORD":
            self._pending = None
        elif kind == "END_TRANSACTION_RECORD":
            pending, self._pending = self._pending, None
            for earlier_kind, earlier in pending or ():
                self._change(earlier_kind, earlier)
        elif self._pending is not None:
            self._pending.append((kind, value))
        else:
            self._change(kind, value)

    def _change(self, kind: str, value: Message) -> None:
        metadata = self._metadata
        if kind == "TOPIC_RECORD":
            self._names[value["topicId"]] = value["name"]
            topic_id = topic_id_from_text(value["topicId"])
            metadata.topics[value["name"]] = Topic(name=value["name"], topic_id=topic_id)
        elif kind == "REMOVE_TOPIC_RECORD":
            name = self._names.pop(value["topicId"], "")
            metadata.topics.pop(name, None)
            metadata.topic_configs.pop(name, None)
        elif kind in ("PARTITION_RECORD", "PARTITION_CHANGE_RECORD"):
            topic = metadata.topics.get(self._names.get(value["topicId"], ""))
            if topic is not None:
                _change_partition(topic, value)
        elif kind == "CONFIG_RECORD":
            self._change_config(value)
        elif kind == "REGISTER_BROKER_RECORD":
            metadata.broker_epochs[value["brokerId"]] = value["brokerEpoch"]
            metadata.broker_directories[value["brokerId"]] = frozenset(value.get("logDirs") or ())
        elif kind == "BROKER_REGISTRATION_CHANGE_RECORD":
            # A directory that failed is missing from the list, but its records still belong to the broker.
            known = metadata.broker_directories.get(value["brokerId"], frozenset())
            metadata.broker_directories[value["brokerId"]] = known | frozenset(value.get("logDirs") or ())
        elif kind == "UNREGISTER_BROKER_RECORD":
            metadata.broker_epochs.pop(value["brokerId"], None)
            metadata.broker_directories.pop(value["brokerId"], None)

    def _change_config(self, value: Message) -> None:
        kinds = {
            TOPIC_RESOURCE: self._metadata.topic_configs,
            BROKER_RESOURCE: self._metadata.broker_configs,
        }
        configs = kinds.get(value["resourceType"])
        if configs is None:
            return
        settings = configs.setdefault(value["resourceName"], {})
        if value["value"] is None:
            settings.pop(value["name"], None)
        else:
            settings[value["name"]] = value["value"]
        if not settings:
            del configs[value["resourceName"]]


def _change_partition(topic: Topic, value: Message) -> None:
    """A new partition, or a change of one, in which null means unchanged."""
    number = value["partitionId"]
    if value["replicas"] is not None:
        topic.replicas[number] = tuple(value["replicas"])
        topic.directories.pop(number, None)  # they are of the earlier replicas
    if value.get("directories"):
        topic.directories[number] = tuple(value["directories"])
    if value["leader"] != _SAME_LEADER:
        topic.leaders[number] = value["leader"]
