"""The logs of a manager by partition."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stratalog.config import LogConfig
from stratalog.errors import DiskError, UsageError
from stratalog.files.names import TopicPartition
from stratalog.manager.manager import LogManager
from stratalog.manager.registry import LogRegistry, home_of
from tests.manager.running import ORDERS, Node

EVENTS = TopicPartition("events", 0)


def test_new_settings_of_a_topic_reach_its_open_logs(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        other = manager.get_or_create_log(TopicPartition("events", 0), is_new=True)

        manager.update_topic_config("orders", {"retention.ms": 7})

        assert (log.config.retention_ms, other.config.retention_ms) == (7, 604_800_000)
        again = manager.get_or_create_log(TopicPartition("orders", 1), is_new=True)
        assert again.config.retention_ms == 7


@pytest.fixture
def two(tmp_path: Path) -> Iterator[LogManager]:
    """Logs of orders-0 in the directories a and b, of which that in b is a copy, and of events-0 in b."""
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        manager.get_or_create_log(ORDERS, is_new=True, directory=first)
        manager.get_or_create_log(ORDERS, is_future=True, directory=second)
        manager.get_or_create_log(EVENTS, is_new=True, directory=second)
        yield manager


def registry_of(manager: LogManager) -> LogRegistry:
    """The same logs in a registry of the test's own."""
    registry = LogRegistry()
    for log in manager.all_logs():
        registry.add(log, is_future=log.directory.endswith("-future"))
    return registry


def test_a_log_and_its_copy_are_told_apart_and_counted_by_directory(two: LogManager, tmp_path: Path) -> None:
    registry = registry_of(two)

    log, copy = registry.find(ORDERS, is_future=False), registry.find(ORDERS, is_future=True)
    assert log is not None
    assert copy is not None
    assert (home_of(log), home_of(copy)) == (str(tmp_path / "a"), str(tmp_path / "b"))
    assert registry.counts() == {str(tmp_path / "a"): 1, str(tmp_path / "b"): 2}
    assert {found.topic_partition for found in registry.in_directory(str(tmp_path / "b"))} == {ORDERS, EVENTS}


def test_a_partition_that_is_there_already_is_refused_with_both_places(two: LogManager) -> None:
    registry = registry_of(two)
    copy = registry.find(ORDERS, is_future=True)
    assert copy is not None

    with pytest.raises(UsageError, match=rf"a/orders-0 and in {copy.directory}"):
        registry.add(copy, is_future=False)


def test_a_copy_that_takes_the_place_is_the_log_and_no_copy_any_more(two: LogManager) -> None:
    registry = registry_of(two)
    copy = registry.find(ORDERS, is_future=True)

    registry.promote(ORDERS)

    assert registry.find(ORDERS, is_future=False) is copy
    assert registry.find(ORDERS, is_future=True) is None


def test_what_was_in_a_directory_that_went_offline_is_not_taken_for_absent(two: LogManager) -> None:
    registry = registry_of(two)
    directory = two.directories[1]
    directory.fail(DiskError(directory.path, "pulled out"))

    dropped = registry.drop_directory(directory)

    assert {log.topic_partition for log in dropped} == {ORDERS, EVENTS}
    assert registry.find(ORDERS, is_future=False) is not None
    for key, is_future in ((EVENTS, False), (ORDERS, True)):
        with pytest.raises(DiskError, match="pulled out"):
            registry.find(key, is_future=is_future)
    assert registry.find(TopicPartition("events", 1), is_future=False) is None


def test_logs_that_are_not_compacted_any_more_are_told(two: LogManager) -> None:
    registry = registry_of(two)
    compacted, deleted = LogConfig.of({"cleanup.policy": "compact"}), LogConfig.of({"retention.ms": 7})

    assert registry.configure("events", compacted) == []
    assert registry.configure("events", compacted) == []  # as before
    assert registry.configure("events", deleted) == [EVENTS]
    assert registry.configure("events", deleted) == []
