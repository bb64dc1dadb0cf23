"""Partitions of a few segments."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.log.model import batch
from tests.log.recovery.directory import ONE, Directory
from tests.log.recovery.keeping import BYTES, NAME


@pytest.fixture
def orders(tmp_path: Path) -> Directory:
    """Segments 0, 5 and 10, of five batches each but for the last, which has three."""
    directory = Directory(tmp_path / "data", internal_segment_bytes=5 * ONE)
    log = directory.open()
    for _ in range(13):
        log.append_as_leader(batch(b"x"), leader_epoch=0)
    log.close()
    return directory


@pytest.fixture
def pairs(tmp_path: Path) -> Directory:
    """Segments 0, 2, 4, 6 and 8, of two batches each but for the last, which has one."""
    directory = Directory(tmp_path / "data", internal_segment_bytes=2 * ONE, index_interval_bytes=1)
    log = directory.open()
    for _ in range(9):
        log.append_as_leader(batch(b"x"), leader_epoch=0)
    log.close()
    return directory


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log on a real disk, of which something is to be kept."""
    partition = tmp_path / "logs" / "t-0"
    partition.mkdir(parents=True)
    (partition / NAME).write_bytes(BYTES)
    return partition / NAME
