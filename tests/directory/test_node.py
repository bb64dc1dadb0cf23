"""Whose directories these are, by one rule: the directory, its siblings in log.dirs, metadata.log.dir."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from stratalog.cli import main
from stratalog.config import ServerConfig, read_server_properties
from stratalog.directory.cluster_metadata import METADATA_DIRECTORY
from stratalog.directory.node import Node, find_node
from stratalog.directory.recovery.recover import recover_directories
from stratalog.errors import TwoNodesError
from stratalog.files.disk import Disk
from stratalog.manager.manager import LogManager
from tests.manager.running import fixture_copy

CLUSTER = "rHefJaIxR-W46knXddBQhg"  # of the fixture, whose node is 1


class TwoDisks:
    """The fixture's broker with its partitions on a second disk, and its metadata on the first or a third."""

    def __init__(self, path: Path, *, has_metadata_log_dir: bool = False) -> None:
        self.second = fixture_copy("clean", path / "second", without_waiting=True)
        self.first = path / "first"
        self.first.mkdir()
        shutil.copy(self.second / "meta.properties", self.first)
        self.metadata = self.first
        text = f"log.dirs={self.first},{self.second}\n"
        if has_metadata_log_dir:
            self.metadata = path / "third"
            self.metadata.mkdir()
            shutil.copy(self.second / "meta.properties", self.metadata)
            text += f"metadata.log.dir={self.metadata}\n"
        shutil.move(self.second / METADATA_DIRECTORY, self.metadata)
        self.properties = path / "server.properties"
        self.properties.write_text(text)
        self.server: ServerConfig = read_server_properties(text)

    def belongs_to(self, directory: Path, node_id: int) -> None:
        (directory / "meta.properties").write_text(f"version=1\nnode.id={node_id}\ncluster.id={CLUSTER}\n")


@pytest.mark.parametrize("has_metadata_log_dir", [False, True])
def test_the_metadata_may_be_on_another_disk_of_the_node(tmp_path: Path, has_metadata_log_dir: bool) -> None:
    disks = TwoDisks(tmp_path, has_metadata_log_dir=has_metadata_log_dir)

    node = find_node(Disk(), [disks.second], server=disks.server)

    assert (node.node_id, node.cluster_id, node.is_kraft) == (1, CLUSTER, True)
    assert node.metadata_directory == str(disks.metadata)
    assert node.metadata is not None
    assert "compacted" in node.metadata.topics
    assert node.topic_configs(disks.server).of("compacted").compact
    assert node.notes == ()


def test_without_its_siblings_a_directory_does_not_tell_its_cluster_s_topics(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)

    node = find_node(Disk(), [disks.second])

    assert (node.node_id, node.metadata, node.metadata_directory) == (1, None, None)


def test_a_directory_that_is_not_in_log_dirs_has_no_siblings(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    copy = shutil.copytree(disks.second, tmp_path / "copy")

    assert find_node(Disk(), [copy], server=disks.server).metadata is None


def test_metadata_log_dir_comes_before_metadata_that_was_left_behind(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path, has_metadata_log_dir=True)
    (disks.first / METADATA_DIRECTORY).mkdir()

    assert find_node(Disk(), [disks.first], server=disks.server).metadata_directory == str(disks.metadata)


def test_nothing_is_known_of_a_directory_of_ours(tmp_path: Path) -> None:
    assert find_node(Disk(), [tmp_path]) == Node()


@pytest.mark.parametrize("stranger", ["second", "first", "third"])
def test_places_of_two_nodes_are_refused(tmp_path: Path, stranger: str) -> None:
    disks = TwoDisks(tmp_path, has_metadata_log_dir=True)
    disks.belongs_to(tmp_path / stranger, 2)

    with pytest.raises(TwoNodesError, match=r"node [12] of cluster .* to node [12] of cluster"):
        find_node(Disk(), [disks.second], server=disks.server)


def test_recovery_goes_on_where_two_nodes_are_named_and_says_so(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    disks.belongs_to(disks.first, 2)

    node = find_node(Disk(), [disks.second], server=disks.server, is_damaged=True)

    assert node.node_id is None
    (note,) = node.notes
    assert "a broker refuses to start on both" in note


def test_a_garbled_meta_properties_is_a_note_and_the_others_tell(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    (disks.second / "meta.properties").write_bytes(bytes(8))

    node = find_node(Disk(), [disks.second], server=disks.server)

    assert node.node_id == 1
    (note,) = node.notes
    assert note.startswith(f"{disks.second}/meta.properties: ")


def test_a_manager_finds_the_metadata_in_metadata_log_dir(tmp_path: Path) -> None:
    """It used Kafka's defaults instead, and would have deleted a compacted topic's records."""
    disks = TwoDisks(tmp_path, has_metadata_log_dir=True)

    with LogManager(server=disks.server) as manager:
        assert manager.topics.of("compacted").compact


def test_recovering_one_disk_of_a_node_goes_by_the_metadata_on_the_other(tmp_path: Path) -> None:
    disks = TwoDisks(tmp_path)
    (disks.second / ".kafka_cleanshutdown").unlink()
    (disks.second / "rolled-0" / "partition.metadata").unlink()

    report = recover_directories([str(disks.second)], server=disks.server)

    assert not report.is_failed
    assert (disks.second / "rolled-0" / "partition.metadata").exists()


def test_retain_refuses_directories_of_two_nodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    disks = TwoDisks(tmp_path)
    disks.belongs_to(disks.first, 2)

    assert main.run(["retain", "--config", str(disks.properties), "--dry-run"]) != 0

    assert "belongs to node" in capsys.readouterr().err
