from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest

from stratalog.config.quorum import Endpoint
from stratalog.directory.formatting.note import Identity
from stratalog.directory.formatting.records import ClusterRecords
from stratalog.directory.formatting.releases import RELEASES, release_of
from stratalog.directory.formatting.result import FormattedDirectory, FormattedPartition, FormattedTopic
from stratalog.log.partition_metadata import topic_id_to_text
from stratalog.records.internal import decode_internal
from stratalog.records.internal_topics import CLUSTER_METADATA
from stratalog.records.reader import read_batches

A, B, META, OTHER = (topic_id_to_text(UUID(int=number << 64)) for number in (11, 12, 13, 14))
IDENTITY = Identity(
    cluster_id=OTHER,
    node_id=7,
    incarnation_id=OTHER,
    metadata_directory="/meta",
    directories={"/a": A, "/b": B, "/meta": META},
    topics={},
)
DIRECTORIES = (
    FormattedDirectory("/a", A, False, True),
    FormattedDirectory("/b", B, False, True),
    FormattedDirectory("/meta", META, True, False),
)
ORDERS = FormattedTopic(
    name="orders",
    topic_id=UUID(int=99),
    is_new_id=True,
    settings={"cleanup.policy": "compact"},
    partitions=(FormattedPartition(0, "/b", 5), FormattedPartition(1, None, 0)),
)


def records_of(data: bytes) -> list[tuple[str, int | None, dict[str, Any]]]:
    found = [
        decode_internal(CLUSTER_METADATA, record.key, record.value)
        for batch in read_batches(data)
        if not batch.is_control
        for record in batch
    ]
    return [(each.kind, each.value_version, each.value or {}) for each in found]


def cluster(release: str, *topics: FormattedTopic) -> ClusterRecords:
    return ClusterRecords(IDENTITY, release_of(release), DIRECTORIES, topics)


def test_the_records_are_those_of_a_node_that_was_stopped() -> None:
    records = cluster("4.3", ORDERS)
    found = records_of(records.snapshot((), lambda: 0))

    assert records.end_offset == len(found) == 12
    assert records.snapshot_name == "00000000000000000012-0000000000.checkpoint"
    assert [kind for kind, _, _ in found[6:]] == [
        "REGISTER_BROKER_RECORD",
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "CONFIG_RECORD",
    ]
    broker, topic, first, second, replicas, setting = (values for _, _, values in found[6:])
    assert broker["brokerEpoch"] == records.broker_epoch == 6
    assert (broker["brokerId"], broker["fenced"], broker["inControlledShutdown"]) == (7, True, True)
    assert broker["logDirs"] == [A, B]
    assert topic["name"] == "orders"
    # As the partition of a stopped broker of 4.3.1 is left, in tests/fixtures.
    assert (first["leader"], first["isr"], first["eligibleLeaderReplicas"], first["lastKnownElr"]) == (
        -1,
        [],
        [7],
        [7],
    )
    assert (first["leaderEpoch"], first["directories"]) == (5, [B])
    assert second["directories"] == ["AAAAAAAAAAAAAAAAAAAAAQ"], "the broker chooses one of two directories"
    assert (replicas["resourceType"], replicas["resourceName"], replicas["value"]) == (4, "", "1")
    assert setting == {
        "resourceType": 2,
        "resourceName": "orders",
        "name": "cleanup.policy",
        "value": "compact",
    }


def test_without_eligible_leaders_the_replica_stays_in_sync() -> None:
    found = records_of(cluster("3.9", ORDERS).snapshot((), lambda: 0))

    (partition, _) = (values for kind, _, values in found if kind == "PARTITION_RECORD")
    assert partition["isr"] == [7]
    assert "eligibleLeaderReplicas" not in partition


def test_a_partition_without_a_log_belongs_to_the_only_directory() -> None:
    records = ClusterRecords(IDENTITY, release_of("4.3"), DIRECTORIES[1:], (ORDERS,))

    partitions = [
        values for kind, _, values in records_of(records.snapshot((), lambda: 0)) if "PARTITION" in kind
    ]
    assert [values["directories"] for values in partitions] == [[B], [B]]


@pytest.mark.parametrize("release", RELEASES)
def test_bootstrap_has_the_features_alone(release: str) -> None:
    found = records_of(cluster(release, ORDERS).bootstrap(lambda: 0))

    assert [(values["name"], values["featureLevel"]) for _, _, values in found] == [
        *release_of(release).features
    ]


def test_the_voter_is_the_directory_of_the_metadata() -> None:
    data = cluster("4.3").snapshot((Endpoint("CONTROLLER", "localhost", 9093),), lambda: 0)

    assert b"localhost" in data
    assert UUID(int=13 << 64).bytes in data
    assert b"localhost" not in cluster("4.3").snapshot((), lambda: 0)
