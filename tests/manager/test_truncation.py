"""Logs that are truncated by their manager: the cleaner lets go, and checkpoints are lowered."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.files.names import TopicPartition
from tests.manager.compacting import CLEAN, A, Gate, clean, fill, new_log, node, stopping
from tests.manager.running import ORDERS, RECOVERY_POINTS, Node, append, checkpoint
from tests.waiting import PATIENCE_S


def test_a_truncation_stops_the_cleaner_and_lowers_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager)
        clean(manager)
        fill(log, 15)
        clean(manager)
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 25
        fill(log, 40)
        gate = Gate(manager, monkeypatch)

        stopping(manager, gate, lambda: manager.truncate_to({A: 12}))

        assert log.log_end_offset == 12
        assert checkpoint(tmp_path, CLEAN)["a-0"] == log.segments.active.base_offset < 12
        assert manager.cleaner.manager.state(A) is None


def test_a_log_that_is_truncated_past_its_manager_is_not_taken_for_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner is in the middle of the log, and was not stopped."""
    with node(tmp_path).running() as manager:
        log = new_log(manager)
        clean(manager)
        fill(log, 15)
        clean(manager)
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 25
        fill(log, 40)
        gate = Gate(manager, monkeypatch)

        log.truncate_to(12)
        fill(log, 40)
        gate.opened.set()
        gate.thread.join(PATIENCE_S)

        assert not gate.thread.is_alive()
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 12
        assert manager.cleaner.metrics()["uncleanable-partitions-count"] == 0
        assert clean(manager)  # and it is its turn again


def test_truncation_writes_only_the_recovery_points_of_its_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        for partition, directory in enumerate((first, second)):
            key = TopicPartition("orders", partition)
            append(manager.get_or_create_log(key, is_new=True, directory=directory), b"a", b"b", b"c")
        manager.truncate_to({ORDERS: 1, TopicPartition("orders", 1): 9, TopicPartition("gone", 0): 1})

        assert checkpoint(first, RECOVERY_POINTS) == {"orders-0": 0}
        assert not (second / RECOVERY_POINTS).exists()

        manager.truncate_fully_and_start_at(TopicPartition("orders", 1), 7)
        assert checkpoint(second, RECOVERY_POINTS) == {"orders-1": 0}
