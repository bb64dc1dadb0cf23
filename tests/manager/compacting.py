"""Nodes whose logs are compacted, and a cleaner that a test drives or pauses."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.log.reading import Isolation
from stratalog.manager.cleaning_states import State
from stratalog.manager.manager import LogManager
from tests.log.model import NOW, batch, read_all
from tests.manager.running import Node
from tests.waiting import PATIENCE_S

CLEAN = "cleaner-offset-checkpoint"
SET_SIZE = len(batch(b"0000", key=b"k"))
SEGMENT = {"internal_segment_bytes": 5 * SET_SIZE, "segment_index_bytes": 1000, "file_delete_delay_ms": 1000}
A, B = TopicPartition("a", 0), TopicPartition("b", 0)
RETENTION_MS = 10_000


def node(*directories: Path, policy: str = "compact", disk: Disk | None = None, **log: Any) -> Node:
    return Node(*directories, disk=disk, log={**SEGMENT, "cleanup_policy": policy, **log})


def fill(log: Log, count: int = 11, *, keys: int = 1, timestamp: int = NOW) -> Log:
    """Records of one size, five to a segment, whose keys repeat."""
    for number in range(count):
        data = batch(b"%04d" % number, key=b"%d" % (number % keys), timestamp=timestamp)
        log.append_as_leader(data, leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)
    return log


def new_log(manager: LogManager, key: TopicPartition = A, count: int = 11, **options: Any) -> Log:
    return fill(manager.get_or_create_log(key, is_new=True), count, **options)


def clean(manager: LogManager) -> bool:
    return manager.cleaner.clean_once(manager.cleaner.new_map())


def offsets(log: Log) -> list[int]:
    return [record.offset for record in read_all(log)]


class Gate:
    """Pauses a cleaning at its first run of batches, until the gate is opened."""

    def __init__(self, manager: LogManager, monkeypatch: pytest.MonkeyPatch) -> None:
        self.reached, self.opened = threading.Event(), threading.Event()
        check = manager.cleaner._check

        def wait(log: Log) -> None:
            self.reached.set()
            assert self.opened.wait(PATIENCE_S)
            check(log)

        monkeypatch.setattr(manager.cleaner, "_check", wait)
        self.thread = threading.Thread(target=clean, args=(manager,))
        self.thread.start()
        assert self.reached.wait(PATIENCE_S)


def stopping(manager: LogManager, gate: Gate, action: Callable[[], object]) -> None:
    """Do something that must stop the cleaner first; the gate is opened once the cleaner was told to stop."""
    other = threading.Thread(target=action)
    other.start()
    while manager.cleaner.manager.state(A) is not State.ABORTED:
        assert other.is_alive()
    gate.opened.set()
    other.join(20)
    gate.thread.join(20)
    assert not other.is_alive()
    assert not gate.thread.is_alive()


def compacted(*directories: Path, **log: Any) -> Node:
    """Three records to a segment; tombstones are removed ten seconds after their first cleaning."""
    settings = {
        "internal_segment_bytes": 3 * SET_SIZE,
        "segment_index_bytes": 1000,
        "cleanup_policy": "compact",
        "delete_retention_ms": RETENTION_MS,
        "min_cleanable_dirty_ratio": 0.0,
    }
    return Node(*directories, log={**settings, **log})


def put(log: Log, *pairs: tuple[bytes, bytes | None]) -> None:
    for key, value in pairs:
        log.append_as_leader(batch(value, key=key), leader_epoch=0)
    log.update_high_watermark(log.log_end_offset)


def table(log: Log) -> dict[bytes | None, bytes | None]:
    """The value of each key for a reader of the whole log."""
    found = {record.key: record.value for record in read_all(log)}
    return {key: value for key, value in found.items() if value is not None}


def copy_some(source: Log, copy: Log, size: int) -> None:
    """What a move has done in the middle of its way."""
    records = source.read(copy.log_end_offset, size, isolation=Isolation.LOG_END).records
    copy.append_as_follower(records, leader_epoch=9)
