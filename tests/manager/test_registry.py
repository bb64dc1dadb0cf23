"""The logs of a manager by partition."""

from __future__ import annotations

from pathlib import Path

from stratalog.files.names import TopicPartition
from tests.manager.running import ORDERS, Node


def test_new_settings_of_a_topic_reach_its_open_logs(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        other = manager.get_or_create_log(TopicPartition("events", 0), is_new=True)

        manager.update_topic_config("orders", {"retention.ms": 7})

        assert (log.config.retention_ms, other.config.retention_ms) == (7, 604_800_000)
        again = manager.get_or_create_log(TopicPartition("orders", 1), is_new=True)
        assert again.config.retention_ms == 7
