"""What can be written to, and errors that say what is missing. The metadata is a real broker's."""

from __future__ import annotations

import shutil
from contextlib import nullcontext
from pathlib import Path

import pytest

from stratalog.directory.cluster_metadata import ClusterMetadata, read_cluster_metadata
from stratalog.errors import LogDirLockedError, NotALogDirectoryError, UsageError
from stratalog.files.disk import Disk
from stratalog.jobs.writing.options import WriteOptions
from stratalog.jobs.writing.target import WriteTarget, find_target
from stratalog.log.partition_metadata import topic_id_to_text
from tests.fixtures.catalog import log_dirs
from tests.jobs.writing.sinking import Writing, values

CLEAN = log_dirs("4.3.1", "clean")[0]


def target(directory: Path, **options: str) -> WriteTarget:
    return find_target(Disk(), WriteOptions.parse({"path": str(directory), **options}))


@pytest.fixture
def broker_dir(tmp_path: Path) -> Path:
    shutil.copytree(CLEAN, tmp_path / "data")
    return tmp_path / "data"


def test_partitions_and_ids_come_from_the_clusters_metadata(broker_dir: Path) -> None:
    found = target(broker_dir).topic("codecs")

    named = (broker_dir / "codecs-0" / "partition.metadata").read_text().split("topic_id: ")[1].split()[0]
    folders = [path for path in broker_dir.glob("codecs-*") if path.name.removeprefix("codecs-").isdecimal()]
    assert found.partitions_count == len(folders)
    assert found.topic_id is not None
    assert topic_id_to_text(found.topic_id) == named


def test_a_topic_that_the_cluster_does_not_have_is_refused(broker_dir: Path) -> None:
    with pytest.raises(UsageError, match="has no topic nosuch: create it on the broker first"):
        target(broker_dir, topic="nosuch")


def test_kafkas_own_topics_are_refused(broker_dir: Path) -> None:
    with pytest.raises(UsageError, match="only a broker writes"):
        target(broker_dir, topic="__consumer_offsets")


def test_a_partition_that_is_in_another_directory_is_refused(broker_dir: Path) -> None:
    shutil.rmtree(broker_dir / "codecs-0")
    writing = Writing(str(broker_dir), topic="codecs")

    with pytest.raises(UsageError, match=r"codecs-0 cannot be written to: it is not in .*data\."):
        writing.task({"value": [b"a"], "partition": [0]})


def test_one_of_several_replicas_is_refused_unless_told_otherwise(
    broker_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_three(disk: Disk, directory: str) -> ClusterMetadata:
        metadata = read_cluster_metadata(disk, directory)
        for topic in metadata.topics.values():
            topic.replicas = {number: (*nodes, 98, 99) for number, nodes in topic.replicas.items()}
        return metadata

    monkeypatch.setattr("stratalog.directory.node.read_cluster_metadata", with_three)

    with pytest.raises(UsageError, match=r"replicas on the nodes .*98, 99.*allowReplicated"):
        Writing(str(broker_dir), topic="codecs").task(values(b"a"))
    Writing(str(broker_dir), topic="codecs", allowReplicated="true").task(values(b"a"))


def test_without_metadata_the_options_count_the_partitions(tmp_path: Path) -> None:
    assert target(tmp_path, partitions="3").topic("any").partitions_count == 3
    assert target(tmp_path, partitions='{"a": 2}').topic("a").partitions_count == 2
    with pytest.raises(UsageError, match="give the option partitions"):
        target(tmp_path, partitions='{"a": 2}').topic("b")


def test_fewer_partitions_than_are_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "orders-4").mkdir()

    with pytest.raises(UsageError, match=r"says 4 for the topic orders, but .* has orders-4"):
        target(tmp_path, partitions="4").topic("orders")
    assert target(tmp_path, partitions="5").topic("orders").partitions_count == 5


def test_a_number_of_partitions_that_the_metadata_contradicts_is_refused(broker_dir: Path) -> None:
    with pytest.raises(UsageError, match=r"says 2 for the topic codecs, but the cluster metadata says 1"):
        target(broker_dir, partitions="2").topic("codecs")
    assert target(broker_dir, partitions="1").topic("codecs").partitions_count == 1


def test_a_kraft_directory_without_metadata_needs_the_topics_id(tmp_path: Path) -> None:
    shutil.copy(CLEAN / "meta.properties", tmp_path)

    with pytest.raises(UsageError, match="Give the option topicId"):
        target(tmp_path, partitions="1", topic="orders")
    assert target(tmp_path, partitions="1", topic="orders", topicId="k3jUvR3lSY2s4FGnLT5bFA")


def test_a_path_that_is_not_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(NotALogDirectoryError, match="not a directory"):
        target(tmp_path / "file")


def test_a_directory_that_does_not_exist_can_be_written_to(tmp_path: Path) -> None:
    found = target(tmp_path / "none", partitions="3", topic="orders")

    assert found.topic("orders").partitions_count == 3
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("writes", "locked", "is_refused"),
    [
        ([False, False], [True, True], True),
        ([True], [True], False),  # a write holds the lock
        ([False, True], [True, True], False),  # a write began between the looks
        ([False, False], [True, False], False),  # a write ended between the looks
        ([False, False], [False], False),
    ],
)
def test_a_lock_counts_only_if_no_write_holds_it(
    broker_dir: Path,
    monkeypatch: pytest.MonkeyPatch,
    writes: list[bool],
    locked: list[bool],
    is_refused: bool,
) -> None:
    disk, seen, held = Disk(), iter(writes), iter(locked)
    monkeypatch.setattr("stratalog.jobs.writing.target.has_other_writes", lambda *_: next(seen))
    monkeypatch.setattr(disk, "is_in_use", lambda _: next(held))
    options = WriteOptions.parse({"path": str(broker_dir)})

    with pytest.raises(LogDirLockedError) if is_refused else nullcontext():
        find_target(disk, options)
