"""Logs that are deleted, moved to another directory or set aside."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from stratalog.errors import DiskError, LogClosedError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.manager.manager import LogManager
from tests.log.model import batch, produced
from tests.manager.running import MARKER, ORDERS, Node, append, checkpoint, fixture_copy, values

MINUTE_MS = 60_000


def directories_in(path: Path) -> list[str]:
    return sorted(found.name for found in path.iterdir() if found.is_dir())


def filled(manager: LogManager, **options: object) -> Log:
    log = manager.get_or_create_log(ORDERS, is_new=True, **options)  # type: ignore[arg-type]
    append(log, b"a", b"b", b"c")
    return log


# Delete


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


# Move


def test_a_log_moves_to_another_directory_with_all_that_is_in_it(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node, topic_id = Node(first, second), uuid4()
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, topic_id=topic_id, directory=first)
        for sequence in range(5):
            log.append_as_leader(produced(7, sequence, b"%d" % sequence), leader_epoch=sequence // 2)
        log.update_high_watermark(4)
        expected = (log.log_end_offset, log.high_watermark, log.epochs.entries)

        moved = manager.move_log(ORDERS, second)

        assert manager.get_log(ORDERS) is moved
        assert manager.get_log(ORDERS, is_future=True) is None
        assert (moved.log_end_offset, moved.high_watermark, moved.epochs.entries) == expected
        assert moved.directory == str(second / "orders-0")
        assert values(log) == values(moved)  # whoever holds the old one can still read
        assert directories_in(first)[0].endswith("-delete")
        node.wait(MINUTE_MS)
        assert directories_in(first) == []
        # The producer is known there too: what it sends again is not written again.
        again = moved.append_as_leader(produced(7, 4, b"4"), leader_epoch=2)
        assert (again.first_offset, moved.log_end_offset) == (4, 5)

    assert (second / "orders-0" / "partition.metadata").exists()
    with node.running() as manager:
        assert [log.directory for log in manager.all_logs()] == [str(second / "orders-0")]


def test_a_moved_log_has_the_very_bytes_of_the_old_one(tmp_path: Path) -> None:
    data, other = fixture_copy("clean", tmp_path / "data"), tmp_path / "other"
    names = ["codecs", "txn", "compacted", "idempotent"]
    expected = {
        name: b"".join(path.read_bytes() for path in sorted((data / f"{name}-0").glob("*.log")))
        for name in names
    }

    with Node(data, other).running() as manager:
        for name in names:
            manager.move_log(TopicPartition(name, 0), other)

    found = {
        name: b"".join(path.read_bytes() for path in sorted((other / f"{name}-0").glob("*.log")))
        for name in names
    }
    assert found == expected


def test_a_log_that_starts_inside_a_batch_moves_with_its_start(tmp_path: Path) -> None:
    data, other = fixture_copy("clean", tmp_path / "data"), tmp_path / "other"
    key = TopicPartition("trimmed", 0)
    with Node(data, other).running() as manager:
        source = manager.get_log(key)
        assert source is not None
        expected = values(source)

        moved = manager.move_log(key, other)

        assert (moved.log_start_offset, moved.log_end_offset) == (17, 30)
        assert values(moved) == expected

    assert checkpoint(other, "log-start-offset-checkpoint") == {"trimmed-0": 17}


def test_a_copy_on_its_way_is_found_again_after_a_restart(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    node = Node(first, second)
    with node.running() as manager:
        filled(manager, directory=first)
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        append(copy, b"a")

    assert directories_in(second)[0].endswith("-future")
    assert checkpoint(second, "recovery-point-offset-checkpoint") == {"orders-0": 1}
    with node.running() as manager:
        copy_again = manager.get_log(ORDERS, is_future=True)
        assert copy_again is not None
        assert values(copy_again) == [b"a"]
        moved = manager.move_log(ORDERS, second)
        assert values(moved) == [b"a", b"b", b"c"]


def test_a_copy_that_lacks_something_does_not_take_the_place(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        log = filled(manager, directory=first)
        with pytest.raises(UsageError, match="no complete copy"):
            manager.replace_current_with_future_log(ORDERS)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        with pytest.raises(UsageError, match="no complete copy"):
            manager.replace_current_with_future_log(ORDERS)

        assert manager.get_log(ORDERS) is log


def test_a_copy_goes_to_another_directory_than_the_log(tmp_path: Path) -> None:
    with Node(tmp_path / "a", tmp_path / "b").running() as manager:
        filled(manager, directory=tmp_path / "a")

        with pytest.raises(UsageError, match="another directory"):
            manager.move_log(ORDERS, tmp_path / "a")
        with pytest.raises(UsageError, match="the directory of its copy is not known"):
            manager.get_or_create_log(ORDERS, is_future=True)
        with pytest.raises(UsageError, match="has no log of"):
            manager.move_log(TopicPartition("events", 0), tmp_path / "b")


def test_a_copy_is_deleted_without_the_log(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        log = filled(manager, directory=first)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)

        manager.async_delete(ORDERS, is_future=True)

        assert manager.get_log(ORDERS) is log
        assert directories_in(second)[0].endswith("-delete")


def test_appends_while_a_log_is_copied_are_copied_too(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second, log={"internal_segment_bytes": 500}).running() as manager:
        log = filled(manager, directory=first)
        copy = manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        append(copy, *(b"another history" for _ in range(9)))  # it was cut there since
        for number in range(20):
            log.append_as_leader(batch(b"%d" % number), leader_epoch=1)
        log.truncate_to(5)

        moved = manager.move_log(ORDERS, second)

        assert moved.log_end_offset == 5


# Set aside


def test_what_is_not_this_node_s_by_the_metadata_is_set_aside(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "binary-0" / "partition.metadata").unlink()

    with Node(data).running(set_strays_aside=True) as manager:
        assert manager.get_log(TopicPartition("binary", 0)) is None
        (stray,) = manager.strays
        assert Path(stray).name.startswith("binary-0.")
        assert len(manager.all_logs()) == 11

    with Node(data).running(set_strays_aside=True) as manager:
        assert manager.strays == (stray,)
        assert len(manager.all_logs()) == 11
    assert Path(stray).name.endswith("-stray")
    assert (data / MARKER).exists()


def test_nothing_is_set_aside_unless_it_is_asked_for(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "binary-0" / "partition.metadata").unlink()

    with Node(data).running() as manager:
        assert manager.get_log(TopicPartition("binary", 0)) is not None
        assert manager.strays == ()


def test_a_deleted_log_of_a_directory_that_went_offline_is_left(tmp_path: Path) -> None:
    node = Node(tmp_path)
    manager = node.start()
    filled(manager)
    manager.async_delete(ORDERS)
    manager.handle_log_dir_failure(tmp_path, DiskError(tmp_path, "pulled out"))

    node.wait(MINUTE_MS)

    assert len(directories_in(tmp_path)) == 1
    manager.shutdown()
