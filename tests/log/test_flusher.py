"""The recovery point: what is on the device before it moves. Crashes are in `test_flush_crash.py`."""

from __future__ import annotations

import errno
from pathlib import PurePath

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Path
from stratalog.log.log import Log
from tests.log.model import Machine, batch
from tests.log.watched import WatchedDisk, watched

LOG, SECOND = "00000000000000000000.log", "00000000000000000001.log"


def two_segments() -> tuple[WatchedDisk, Log]:
    """A replica's log, which leaves syncing to the background: segments 0 and 1 with a record each."""
    disk, machine = watched()
    log = machine.open(embedded=False)
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.roll()
    log.append_as_leader(batch(b"b"), leader_epoch=0)
    disk.done.clear()
    return disk, log


def test_bytes_and_names_are_on_the_device_before_the_point_moves() -> None:
    disk, log = two_segments()

    log._flusher.flush_up_to(2)

    assert disk.of_logs() == [f"sync {LOG}", f"sync {SECOND}", "sync orders-0/"]
    assert log.recovery_point == 2


def test_a_flush_up_to_an_offset_leaves_later_segments_alone() -> None:
    disk, log = two_segments()

    log._flusher.flush_up_to(1)

    assert disk.of_logs() == [f"sync {LOG}", "sync orders-0/"]
    assert log.recovery_point == 1


def test_what_is_flushed_is_not_flushed_again() -> None:
    disk, log = two_segments()
    log._flusher.flush_up_to(2)
    disk.done.clear()

    log._flusher.flush_up_to(2)

    assert disk.done == []


def test_the_point_stays_where_a_sync_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    disk, log = two_segments()

    def refuse(path: Path) -> None:
        if PurePath(path).name == SECOND:
            raise DiskError(path, "it is broken.", errno.EIO)

    monkeypatch.setattr(disk, "sync", refuse)
    with pytest.raises(DiskError):
        log._flusher.flush_up_to(2)

    assert log.recovery_point == 0


def test_the_point_never_passes_the_end() -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    log._flusher.flush_up_to(2)  # with an empty active segment's files

    assert log.recovery_point == 1


def test_lowering_moves_the_point_back_and_never_forwards() -> None:
    log = Machine().open()
    for _ in range(3):
        log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.flush()

    log._flusher.lower(2)
    log._flusher.lower(5)

    assert log.recovery_point == 2


def test_a_flush_in_the_background_leaves_a_failed_log_alone() -> None:
    disk, log = two_segments()
    log._guard.failure = DiskError("/logs/orders-0", "it is broken.")

    log._flusher.flush_rolled(1)

    assert (disk.done, log.recovery_point) == ([], 0)
