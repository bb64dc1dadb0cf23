"""Logs whose folder is gone: which lines of a checkpoint prove it, and which are only out of date."""

from __future__ import annotations

import shutil
from pathlib import Path
from uuid import UUID

import pytest

from stratalog.directory.cluster_metadata import ClusterMetadata, Topic
from stratalog.directory.gone_logs import PlacedLogs, gone_logs, read_emptied_logs, read_gone_logs
from stratalog.directory.layout import Layout, PartitionEntry
from stratalog.directory.node import Node, find_node
from stratalog.files.disk import Disk
from stratalog.files.names import DirectoryState, TopicPartition, partition_directory_name
from tests.fixtures import catalog

ORDERS = TopicPartition("orders", 0)
HERE, THERE = "/a", "/b"
IDS = {HERE: "id-of-a", THERE: "id-of-b"}
UNIQUE = "0123456789abcdef" * 2


def node(*, replicas: tuple[int, ...] | None = (1, 2), ids: frozenset[str] = frozenset({"id-of-a"})) -> Node:
    """Node 1, whose cluster has the topic `orders`, unless `replicas` is None."""
    topics = {}
    if replicas is not None:
        topics["orders"] = Topic(name="orders", topic_id=UUID(int=1), replicas={0: replicas})
    metadata = ClusterMetadata(topics=topics, broker_directories={1: ids} if ids else {})
    return Node(node_id=1, is_kraft=True, metadata=metadata)


def listed(
    path: str = HERE,
    *,
    points: int | None = None,
    watermarks: int | None = None,
    key: TopicPartition = ORDERS,
    partitions: tuple[PartitionEntry, ...] = (),
    waiting: tuple[str, ...] = (),
    strays: tuple[str, ...] = (),
) -> PlacedLogs:
    return PlacedLogs(
        layout=Layout(path, partitions, waiting, strays, (), ()),
        directory_id=IDS[path],
        recovery_points={} if points is None else {key: points},
        high_watermarks={} if watermarks is None else {key: watermarks},
    )


@pytest.mark.parametrize(
    ("points", "watermarks", "checkpoint"),
    [
        (9, None, "recovery-point-offset-checkpoint"),
        (9, 9, "recovery-point-offset-checkpoint"),
        (0, 9, "replication-offset-checkpoint"),
        (None, 9, "replication-offset-checkpoint"),
    ],
)
def test_a_line_without_a_folder_names_what_is_gone(
    points: int | None, watermarks: int | None, checkpoint: str
) -> None:
    (found,) = gone_logs([listed(points=points, watermarks=watermarks)], node())

    assert (found.directory, found.topic_partition) == (HERE, ORDERS)
    assert (found.checkpoint, found.offset) == (checkpoint, 9)
    assert found.problem.name == "orders-0"
    assert f"{checkpoint} says offset 9" in found.problem.words


def test_a_line_with_offset_0_says_nothing() -> None:
    assert gone_logs([listed(points=0, watermarks=0)], node()) == []


def test_a_topic_that_the_cluster_has_deleted_is_not_gone() -> None:
    assert gone_logs([listed(points=9, watermarks=9)], node(replicas=None)) == []


def test_a_partition_that_the_cluster_took_from_the_node_is_not_gone() -> None:
    assert gone_logs([listed(points=9, watermarks=9)], node(replicas=(2, 3))) == []


@pytest.mark.parametrize("state", [DirectoryState.LIVE, DirectoryState.FUTURE])
def test_a_log_in_another_directory_of_the_node_is_not_gone(state: DirectoryState) -> None:
    entry = PartitionEntry(partition_directory_name(ORDERS, state, UNIQUE), ORDERS, state)
    other = listed(THERE, partitions=(entry,))

    assert gone_logs([listed(points=9), other], node(ids=frozenset(IDS.values()))) == []


@pytest.mark.parametrize("state", [DirectoryState.DELETE, DirectoryState.STRAY])
@pytest.mark.parametrize("topic", ["orders", "o" * 249])
def test_a_log_that_was_set_aside_is_not_gone(state: DirectoryState, topic: str) -> None:
    key = TopicPartition(topic, 0)
    name = partition_directory_name(key, state, UNIQUE)
    kept = (name,) if state is DirectoryState.DELETE else ()
    aside = (name,) if state is DirectoryState.STRAY else ()
    known = node()
    assert known.metadata is not None
    known.metadata.topics[topic] = Topic(name=topic, topic_id=UUID(int=2), replicas={0: (1,)})

    assert gone_logs([listed(points=9, key=key)], known) != []
    assert gone_logs([listed(points=9, key=key, waiting=kept, strays=aside)], known) == []


def test_a_directory_of_the_node_that_is_not_here_may_have_the_log() -> None:
    both = frozenset(IDS.values())

    assert gone_logs([listed(points=9)], node(ids=both)) == []
    assert len(gone_logs([listed(points=9), listed(THERE)], node(ids=both))) == 1


def test_without_ids_only_a_recovery_point_in_the_only_directory_counts() -> None:
    """Kafka before 3.7. A broker leaves the high watermarks of a directory that has no partition left."""
    known = node(ids=frozenset())

    assert len(gone_logs([listed(points=9)], known)) == 1
    assert gone_logs([listed(watermarks=9)], known) == []
    assert gone_logs([listed(points=9), listed(THERE)], known) == []


def test_without_metadata_a_broker_of_kraft_may_have_deleted_the_topic() -> None:
    assert gone_logs([listed(points=9)], Node(node_id=1, is_kraft=True)) == []
    assert len(gone_logs([listed(points=9)], Node())) == 1


def test_the_metadatas_own_log_is_not_a_partition() -> None:
    key = TopicPartition("__cluster_metadata", 0)

    assert gone_logs([listed(points=9, key=key)], Node()) == []


@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", "4.3.1"])
@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_broker_leaves_no_line_without_a_log(release: str, state: str) -> None:
    paths = [str(path) for path in catalog.log_dirs(release, state)]
    found = find_node(Disk(), paths)

    assert read_gone_logs(Disk(), paths, found) == []


@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", "4.3.1"])
@pytest.mark.parametrize("name", ["__consumer_offsets-0", "__transaction_state-0"])
def test_an_internal_topic_counts_like_any_other(release: str, name: str, tmp_path: Path) -> None:
    (source,) = catalog.log_dirs(release, "clean")
    root = Path(shutil.copytree(source, tmp_path / "data"))
    shutil.rmtree(root / name)

    (found,) = read_gone_logs(Disk(), [str(root)], find_node(Disk(), [root]))

    assert str(found.topic_partition) == name


def test_a_directory_that_cannot_be_read_may_have_the_log(tmp_path: Path) -> None:
    (source,) = catalog.log_dirs("4.3.1", "clean")
    root = Path(shutil.copytree(source, tmp_path / "data"))
    shutil.rmtree(root / "rolled-0")
    known = find_node(Disk(), [root])

    assert len(read_gone_logs(Disk(), [str(root)], known)) == 1
    assert read_gone_logs(Disk(), [str(root), str(tmp_path / "none")], known) == []


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_folder_without_a_segment_is_emptied_only_if_a_checkpoint_knows_it(
    state: str, tmp_path: Path
) -> None:
    (source,) = catalog.log_dirs("4.3.1", state)
    root = Path(shutil.copytree(source, tmp_path / "data"))
    (root / "fresh-0").mkdir()
    assert read_emptied_logs(Disk(), str(root)) == []
    for path in (root / "codecs-0").glob("*.log"):
        path.unlink()

    (found,) = read_emptied_logs(Disk(), str(root))

    assert (str(found.topic_partition), found.offset, found.has_folder) == ("codecs-0", 120, True)
