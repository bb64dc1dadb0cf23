"""How a log ends: cleanly, after a failure, after a move. Refusing disks at each step: `test_closing.py`."""

from __future__ import annotations

import errno

import pytest

from stratalog.errors import DiskError, LogMovedError
from tests.log.model import DIRECTORY, Machine, batch
from tests.log.watched import watched


def test_a_clean_close_ends_with_the_names() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    log._closer.close()

    assert disk.done[-1] == "sync orders-0/"
    assert machine.files(".snapshot") == ["00000000000000000001.snapshot"]
    assert (log.is_saved, log.recovery_point) == (True, 1)


def test_closing_again_has_no_effect() -> None:
    disk, machine = watched()
    log = machine.open()
    log._closer.close()
    disk.done.clear()

    log._closer.close()

    assert disk.done == []


def test_a_log_that_has_failed_saves_its_records_and_says_so() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log._guard.failure = DiskError(DIRECTORY, "no space", errno.ENOSPC)
    disk.done.clear()

    with pytest.raises(DiskError, match="no space"):
        log._closer.close()

    assert disk.done == ["sync 00000000000000000000.log", "sync orders-0/"]
    assert (log.is_saved, log.recovery_point) == (True, 0)


def test_a_sync_that_failed_once_is_not_believed_later() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log.segments.active.has_failed_sync = True
    log._guard.failure = DiskError(DIRECTORY, "it is broken", errno.EIO)
    disk.done.clear()

    with pytest.raises(DiskError):
        log._closer.close()

    assert (disk.done, log.is_saved) == ([], False)


def test_a_log_that_was_moved_is_only_let_go_of() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    log._guard.refusal = lambda: LogMovedError(DIRECTORY, "/other/orders-0")
    disk.done.clear()

    log._closer.close()

    assert (disk.done, log._guard.is_closed) == ([], True)


def test_letting_go_writes_nothing() -> None:
    disk, machine = watched()
    log = machine.open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)
    disk.done.clear()

    log._closer.close_handlers()

    assert (disk.done, Machine(disk).files(".snapshot")) == ([], [])
