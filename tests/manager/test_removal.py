"""Partitions that are deleted: renamed at once, removed later."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError, LogClosedError, LogDeletedError
from stratalog.files.names import TopicPartition
from tests.manager.failing import Three
from tests.manager.running import (
    MINUTE_MS,
    ORDERS,
    Node,
    append,
    changes,
    checkpoint,
    contents_of,
    directories_in,
    filled,
    fixture_copy,
    values,
)


def test_a_deleted_log_is_renamed_at_once_and_removed_later(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as manager:
        filled(manager)

        manager.async_delete(ORDERS)

        assert manager.get_log(ORDERS) is None
        (name,) = directories_in(tmp_path)
        assert name.startswith("orders-0.")
        assert name.endswith("-delete")
        node.wait(MINUTE_MS - 1)
        assert directories_in(tmp_path) == [name]
        node.wait(1)
        assert directories_in(tmp_path) == []


def test_a_deleted_log_can_be_read_until_it_is_removed(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as manager:
        log = filled(manager)

        manager.async_delete(ORDERS)

        assert values(log) == [b"a", b"b", b"c"]
        for path in (
            log.segments.active.log_path,
            log.segments.active.reader.offset_index.path,
            log.epochs.path,
        ):
            assert "-delete/" in str(path)
        node.wait(MINUTE_MS)
        with pytest.raises(LogClosedError):
            values(log)


def test_the_checkpoints_forget_a_deleted_log(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        filled(manager).flush()
        manager.get_or_create_log(TopicPartition("events", 0), is_new=True)

        manager.async_delete(ORDERS)

        assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {"events-0": 0}


def test_a_log_is_created_anew_before_the_old_one_is_gone(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as manager:
        old = filled(manager)
        manager.async_delete(ORDERS)

        new = manager.get_or_create_log(ORDERS, is_new=True)
        append(new, b"new")
        node.wait(MINUTE_MS)

        assert new is not old
        assert values(new) == [b"new"]
        assert directories_in(tmp_path) == ["orders-0"]


def test_what_an_earlier_run_was_to_delete_is_deleted(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    node = Node(data)
    with node.running():
        assert any(name.endswith("-delete") for name in directories_in(data))
        node.wait(MINUTE_MS)

    assert not any(name.endswith("-delete") for name in directories_in(data))


def test_a_process_that_ends_before_the_delay_leaves_it_to_the_next(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as manager:
        filled(manager)
        manager.async_delete(ORDERS)

    assert len(directories_in(tmp_path)) == 1
    with node.running() as manager:
        assert manager.all_logs() == ()
        node.wait(MINUTE_MS)
    assert directories_in(tmp_path) == []


def test_without_a_delay_nothing_is_left_and_closing_does_not_wait(tmp_path: Path) -> None:
    node = Node(tmp_path, log={"file_delete_delay_ms": 0})
    with node.running() as manager:
        filled(manager)
        manager.async_delete(ORDERS)
        node.wait(0)

    assert directories_in(tmp_path) == []


def test_the_longest_topic_name_can_be_deleted(tmp_path: Path) -> None:
    key = TopicPartition("t" * 249, 0)
    node = Node(tmp_path)
    with node.running() as manager:
        manager.get_or_create_log(key, is_new=True)
        manager.async_delete(key)
        (name,) = directories_in(tmp_path)
        assert len(name) == 255
        node.wait(MINUTE_MS)

    assert directories_in(tmp_path) == []


def test_deleting_what_is_not_there_is_nothing(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        assert manager.async_delete(ORDERS) is None


def test_a_link_in_a_directory_that_goes_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").touch()
    node = Node(tmp_path / "data")
    with node.running() as manager:
        log = filled(manager)
        Path(log.directory, "link").symlink_to(outside)
        manager.async_delete(ORDERS)
        node.wait(MINUTE_MS)

    assert directories_in(tmp_path / "data") == []
    assert (outside / "precious").exists()


def test_a_deleted_log_of_a_directory_that_went_offline_is_left(tmp_path: Path) -> None:
    node = Node(tmp_path)
    manager = node.start()
    filled(manager)
    manager.async_delete(ORDERS)
    manager.handle_log_dir_failure(tmp_path, DiskError(tmp_path, "pulled out"))

    node.wait(MINUTE_MS)

    assert len(directories_in(tmp_path)) == 1
    manager.shutdown()


def test_a_deletion_that_the_disk_refuses_takes_the_directory_offline(three: Three) -> None:
    manager = three.start()
    three.break_first()

    with pytest.raises(DiskError):
        manager.async_delete(three.keys[0])

    assert manager.metrics()["OfflineLogDirectoryCount"] == 1
    assert (three.paths[0] / "orders-0").is_dir()
    manager.shutdown()


def test_a_handle_of_a_deleted_log_refuses_every_change(tmp_path: Path) -> None:
    with Node(tmp_path).running(high_watermark_follows_end=True) as manager:
        old = manager.get_or_create_log(ORDERS, is_new=True)
        append(old, b"a", b"b", b"c")
        manager.async_delete(ORDERS)
        before = contents_of(tmp_path)

        for change in changes(old):
            with pytest.raises(LogDeletedError, match="was deleted"):
                change()

        assert contents_of(tmp_path) == before
        assert values(old) == [b"a", b"b", b"c"]
