"""A log that `open_log` opens for a test, a disk that fails on request, and an event that drives a `tail`."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stratalog
from stratalog import PartitionLog, open_log
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.disk import Path as DiskPath
from tests.log.model import ManualClock, ManualScheduler

CLEAN, LOCK = ".kafka_cleanshutdown", ".lock"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "data" / "orders-3"


@pytest.fixture
def log(directory: Path) -> Iterator[PartitionLog]:
    clock = ManualClock()
    with open_log(directory, create=True, clock=clock, scheduler=ManualScheduler(clock)) as log:
        yield log


def values(found: Iterator[stratalog.ConsumerRecord]) -> list[bytes | None]:
    return [record.value for record in found]


class FailingDisk(Disk):
    """A disk that refuses one step, once, on request."""

    failing = ""

    def _step(self, name: str, path: DiskPath) -> None:
        if self.failing == name and str(path).endswith(".log"):
            self.failing = ""
            raise DiskError(path, "input/output error.", errno.EIO)

    def write_at(self, path: DiskPath, data: Any, position: int) -> None:
        self._step("write_at", path)
        super().write_at(path, data, position)

    def sync(self, path: DiskPath) -> None:
        self._step("sync", path)
        super().sync(path)

    def truncate(self, path: DiskPath, size: int) -> None:
        self._step("truncate", path)
        super().truncate(path, size)


class Turns:
    """An event that runs one action at each wait, until there are none left."""

    def __init__(self, *turns: object) -> None:
        self.turns = list(turns)

    def wait(self, timeout: float | None = None) -> bool:
        if not timeout:
            return False
        if not self.turns:
            return True
        turn = self.turns.pop(0)
        assert callable(turn)
        turn()
        return False
