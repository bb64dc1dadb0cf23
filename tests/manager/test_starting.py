"""The checks of a start: locks, owners, partitions that are there twice, disks that fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import DiskError, LogDirLockedError, TwoNodesError, UsageError
from stratalog.files.lock import is_locked
from stratalog.files.names import TopicPartition
from tests.manager.running import MARKER, ORDERS, Node, contents, fixture_copy


def test_topics_have_the_settings_that_the_cluster_s_metadata_says(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")

    with Node(data, log={"index_interval_bytes": 512}).running() as manager:
        rolled = manager.get_log(TopicPartition("rolled", 0))
        assert rolled is not None
        assert (rolled.config.segment_size, rolled.config.index_interval_bytes) == (1500, 512)


def test_settings_that_are_given_go_before_those_of_the_metadata(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    topics = TopicConfigs(overrides={"rolled": {"retention.ms": 5}})

    with Node(data).running(topics=topics) as manager:
        rolled = manager.get_log(TopicPartition("rolled", 0))
        assert rolled is not None
        assert (rolled.config.retention_ms, rolled.config.internal_segment_bytes) == (5, None)


def test_the_lock_is_held_from_start_to_end(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running():
        assert is_locked(tmp_path)
        with pytest.raises(LogDirLockedError):
            Node(tmp_path).start()

    assert not is_locked(tmp_path)
    with node.running():
        pass


def test_one_directory_in_use_lets_go_of_the_others(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(second).running():
        with pytest.raises(LogDirLockedError):
            Node(first, second).start()

        assert not is_locked(first)


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_start_that_finds_directories_of_two_nodes_changes_nothing(tmp_path: Path, state: str) -> None:
    first, second = fixture_copy(state, tmp_path / "a"), tmp_path / "b"
    second.mkdir()
    (second / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=rHefJaIxR-W46knXddBQhg\n")
    before = contents(first)

    with pytest.raises(TwoNodesError, match="belongs to node 2"):
        Node(first, second).start()

    assert contents(first) == before
    assert not is_locked(first)


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_partition_that_is_there_twice_keeps_it_from_starting(tmp_path: Path, state: str) -> None:
    data = fixture_copy(state, tmp_path / "a")
    (tmp_path / "b" / "rolled-0").mkdir(parents=True)
    (tmp_path / "b" / MARKER).touch()
    before = contents(data)

    with pytest.raises(UsageError, match="rolled-0 is also in"):
        Node(tmp_path / "a", tmp_path / "b").start()

    assert contents(data) == before


def test_one_directory_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="named twice"):
        Node(tmp_path, tmp_path / "x" / "..").manager()


def test_a_directory_that_cannot_be_used_is_offline_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "a").touch()  # a file, where a directory should be

    with Node(tmp_path / "a", tmp_path / "b").running() as manager:
        assert manager.live_log_dirs == (str(tmp_path / "b"),)
        manager.get_or_create_log(ORDERS, is_new=True)

    assert json.loads((tmp_path / "b" / MARKER).read_text())["brokerEpoch"] == -1


def test_without_a_directory_that_can_be_used_it_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    with pytest.raises(DiskError, match="no log directory can be used"):
        Node(tmp_path / "a").start()
