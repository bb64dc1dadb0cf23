"""Tasks at intervals."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import UsageError
from tests.manager.running import ORDERS, Node, append


def test_others_join_the_schedule_and_are_stopped_first(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told: list[str] = []
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        manager.add_task(
            "kafka-log-retention",
            lambda: told.append("worked"),
            every_ms=300_000,
            stop=lambda: told.append(f"stopped, recovery point {log.recovery_point}"),
        )
        append(log, b"a")
        node.wait(30_000)
        node.wait(300_000)

    assert told == ["worked", "worked", "stopped, recovery point 0"]


def test_a_task_that_fails_comes_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as manager:
        tries: list[int] = []

        def fail_once() -> None:
            tries.append(len(tries))
            if len(tries) == 1:
                raise UsageError("not now")

        manager.add_task("work", fail_once, every_ms=1000)
        with pytest.raises(UsageError):
            node.wait(30_000)
        node.wait(1000)

    assert tries == [0, 1]
