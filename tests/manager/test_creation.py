"""New logs: created once, under valid names, and in the next directory if one fails."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from stratalog.errors import DiskError, InvalidNameError, UsageError
from stratalog.files.names import TopicPartition
from tests.manager.failing import BrokenDisk, Three
from tests.manager.running import MARKER, ORDERS, Node, append, values


def test_a_log_is_created_once_and_is_there_again_after_a_restart(tmp_path: Path) -> None:
    node, topic_id = Node(tmp_path / "data"), uuid4()
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, topic_id=topic_id)
        append(log, b"a", b"b")
        assert manager.get_or_create_log(ORDERS, topic_id=topic_id) is log

    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, topic_id=topic_id)
        assert values(log) == [b"a", b"b"]
    assert (tmp_path / "data" / "orders-0" / "partition.metadata").exists()


def test_a_partition_with_a_negative_number_is_not_created(tmp_path: Path) -> None:
    with (
        Node(tmp_path / "a").running() as manager,
        pytest.raises(InvalidNameError, match="cannot be negative"),
    ):
        manager.get_or_create_log(TopicPartition("orders", -1), is_new=True)

    assert not (tmp_path / "a" / "orders--1").exists()


def test_a_log_of_another_topic_of_the_same_name_is_refused(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        manager.get_or_create_log(ORDERS, is_new=True, topic_id=uuid4())

        with pytest.raises(UsageError, match="the topic's id is"):
            manager.get_or_create_log(ORDERS, topic_id=uuid4())


def test_only_new_logs_are_created_while_a_directory_is_offline(three: Three) -> None:
    manager = three.start()
    manager.handle_log_dir_failure(three.paths[0], DiskError(three.paths[0], "pulled out"))

    with pytest.raises(DiskError, match="offline"):
        manager.get_or_create_log(TopicPartition("may-be-there", 0))
    with pytest.raises(DiskError, match="offline"):
        manager.get_or_create_log(three.keys[0])
    with pytest.raises(DiskError, match="offline"):
        manager.get_or_create_log(TopicPartition("new", 0), is_new=True, directory=three.paths[0])
    log = manager.get_or_create_log(TopicPartition("new", 0), is_new=True)
    assert not log.directory.startswith(str(three.paths[0]))
    manager.shutdown()


def test_a_log_that_cannot_be_created_in_one_directory_is_created_in_the_next(tmp_path: Path) -> None:
    disk = BrokenDisk()
    with Node(tmp_path / "a", tmp_path / "b", disk=disk).running() as manager:
        disk.broken = str(tmp_path / "a")

        log = manager.get_or_create_log(ORDERS, is_new=True)

        assert log.directory == str(tmp_path / "b" / "orders-0")
        assert manager.live_log_dirs == (str(tmp_path / "b"),)


def test_a_log_that_can_be_created_nowhere_is_an_error(tmp_path: Path) -> None:
    disk = BrokenDisk()
    manager = Node(tmp_path / "a", tmp_path / "b", disk=disk).start()
    disk.broken = str(tmp_path)

    with pytest.raises(DiskError, match="orders-0 could not be created"):
        manager.get_or_create_log(ORDERS, is_new=True)
    with pytest.raises(DiskError, match="no log directory is online"):
        manager.get_or_create_log(ORDERS, is_new=True)

    manager.shutdown()
    assert not (tmp_path / "a" / MARKER).exists()
