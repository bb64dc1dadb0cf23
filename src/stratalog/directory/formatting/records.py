"""The metadata of a new cluster as records, and the files that hold it.

The records say what a controller would have written up to the clean stop of a node that had these topics: the
broker is registered and fenced, each partition has no leader, and its only replica may become leader. The
broker epoch is in the clean-shutdown files too, so that the controller treats the stop as clean.

The records in the snapshot have offsets from 0 on, as in a log. The offset of the snapshot itself is above 0:
otherwise a node that joins the cluster would read the log from 0 on, and not the snapshot.

Kafka: MetadataImage, ReplicationControlManager, ClusterControlManager.registerBroker
"""

from __future__ import annotations

from collections.abc import Iterator

from stratalog.clock import Clock
from stratalog.config.quorum import Endpoint
from stratalog.directory.cluster_metadata import BROKER_RESOURCE, TOPIC_RESOURCE
from stratalog.directory.formatting.note import Identity
from stratalog.directory.formatting.releases import Release
from stratalog.directory.formatting.result import FormattedDirectory, FormattedPartition, FormattedTopic
from stratalog.log.partition_metadata import topic_id_to_text
from stratalog.records.internal.encode import encode_metadata
from stratalog.records.internal.kraft_snapshot import build_kraft_snapshot, voter

EPOCH = 0  # the epoch of the quorum before its first leader
_NO_LEADER = -1
_REGISTRATION_VERSION = 3
_UNASSIGNED = "AAAAAAAAAAAAAAAAAAAAAQ"  # the broker chooses the directory. Kafka: DirectoryId


class ClusterRecords:
    """The records of a cluster of one node; `broker_epoch` is that of its broker."""

    def __init__(
        self,
        identity: Identity,
        release: Release,
        directories: tuple[FormattedDirectory, ...],
        topics: tuple[FormattedTopic, ...],
        min_insync_replicas: int = 1,
    ) -> None:
        self._identity = identity
        self._release = release
        self._ids = {
            found.path: identity.directories[found.path] for found in directories if found.is_log_directory
        }
        features = [*self._features()]
        self.broker_epoch = len(features)  # the offset of its record
        self._bootstrap = features
        self._all = [*features, self._registration()]
        for topic in topics:
            self._all += self._topic(topic)
        if release.has_elr:
            # A controller writes this setting together with the feature, because the setting decides which
            # replicas are eligible.
            name = "min.insync.replicas"
            self._all.append(_setting(BROKER_RESOURCE, "", name, str(min_insync_replicas)))
        for topic in topics:
            self._all += [
                _setting(TOPIC_RESOURCE, topic.name, name, value) for name, value in topic.settings.items()
            ]

    @property
    def end_offset(self) -> int:
        return len(self._all)

    @property
    def snapshot_name(self) -> str:
        """The name of the snapshot in `__cluster_metadata-0`."""
        return f"{self.end_offset:020d}-{EPOCH:010d}.checkpoint"

    def snapshot(self, endpoints: tuple[Endpoint, ...], clock: Clock) -> bytes:
        """The bytes of the snapshot; with the voters, if `endpoints` say where the controller listens."""
        identity = self._identity
        voters = []
        if endpoints:
            directory_id = identity.directories[identity.metadata_directory]
            voters.append(voter(identity.node_id, directory_id, endpoints))
        return build_kraft_snapshot(
            self._all, epoch=EPOCH, last_timestamp=clock(), clock=clock, voters=voters
        )

    def bootstrap(self, clock: Clock) -> bytes:
        """The bytes of bootstrap.checkpoint: the features, with 0 for the time of the last record."""
        return build_kraft_snapshot(self._bootstrap, epoch=EPOCH, last_timestamp=0, clock=clock)

    def _features(self) -> Iterator[bytes]:
        for name, level in self._release.features:
            yield encode_metadata("FeatureLevelRecord", {"name": name, "featureLevel": level})

    def _registration(self) -> bytes:
        return encode_metadata(
            "RegisterBrokerRecord",
            {
                "brokerId": self._identity.node_id,
                "incarnationId": self._identity.incarnation_id,
                "brokerEpoch": self.broker_epoch,
                "rack": None,
                "fenced": True,
                "inControlledShutdown": True,
                "logDirs": list(self._ids.values()),
            },
            version=_REGISTRATION_VERSION,
        )

    def _topic(self, topic: FormattedTopic) -> Iterator[bytes]:
        assert topic.topic_id is not None, "only a plan has topics without an id"
        topic_id = topic_id_to_text(topic.topic_id)
        yield encode_metadata("TopicRecord", {"name": topic.name, "topicId": topic_id})
        for found in topic.partitions:
            yield self._partition(topic_id, found)

    def _partition(self, topic_id: str, found: FormattedPartition) -> bytes:
        node = [self._identity.node_id]
        # With several directories the broker chooses, as for any new partition.
        only = next(iter(self._ids.values())) if len(self._ids) == 1 else _UNASSIGNED
        values = {
            "partitionId": found.partition,
            "topicId": topic_id,
            "replicas": node,
            "isr": [] if self._release.has_elr else node,
            "leader": _NO_LEADER,
            "leaderEpoch": found.leader_epoch,
            "partitionEpoch": found.leader_epoch,
            "directories": [only if found.directory is None else self._ids[found.directory]],
        }
        if self._release.has_elr:
            values |= {"eligibleLeaderReplicas": node, "lastKnownElr": node}
        return encode_metadata("PartitionRecord", values, version=self._release.partition_version)


def _setting(kind: int, resource: str, name: str, value: str) -> bytes:
    return encode_metadata(
        "ConfigRecord", {"resourceType": kind, "resourceName": resource, "name": name, "value": value}
    )
