"""A disk that refuses each kind of call: its directory goes offline with the reason, the other serves on.

After a power cut right then, all flushed records are there, also in the directory that failed.
"""

from __future__ import annotations

import errno
import os

import pytest

from stratalog.errors import DiskError
from stratalog.log.reading import Isolation
from tests import profile
from tests.faults.faulty import (
    CHANGES,
    FIRST,
    HOMES,
    LOOKS,
    NEED_ROOM,
    ONE,
    SECOND,
    THREE,
    TWO,
    FaultyNode,
    Refusal,
    number_name,
)
from tests.log.model import batch, read_all

IMAGES = profile.examples(40, quick=3, ci=4)
NUMBERS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EDQUOT)
# What the story never does to files that are there, or what only looks for room.
UNUSED = {"append", "open_read", "read_into"}


def check_offline(node: FaultyNode, number: int) -> None:
    """The first directory is offline and says why; the second one takes and flushes."""
    assert node.reason is not None, f"it still serves after {[str(error) for error in node.errors]}"
    assert os.strerror(number) in node.reason
    assert FIRST in node.reason
    assert node.manager.metrics()["LogDirectoryOffline"] == {FIRST: 1, SECOND: 0}
    with pytest.raises(DiskError, match="offline after a failure"):
        node.manager.get_log(ONE)
    log = node.manager.get_log(THREE)
    assert log is not None
    node.append(log, 3)
    node.flush(log)


def check_restarts(node: FaultyNode) -> None:
    for found in node.disk.crash(most=IMAGES):
        node.check_restart(found)


def test_the_story_meets_no_error_on_a_healthy_disk() -> None:
    node = FaultyNode()
    node.disk.refusal = Refusal((*CHANGES, *LOOKS), errno.EIO, below="/nowhere")

    node.live()

    assert (node.errors, node.reason) == ([], None)
    assert all(len(told.flushed) > 5 for told in node.told.values())
    check_restarts(node)
    node.manager.shutdown()


@pytest.mark.parametrize("number", NUMBERS, ids=number_name)
@pytest.mark.parametrize("call", [call for call in CHANGES if call not in UNUSED])
def test_a_call_that_is_refused_takes_the_directory_offline(call: str, number: int) -> None:
    node = FaultyNode()
    node.disk.refusal = Refusal((call,), number)

    node.live()

    assert node.disk.refusal.hits
    check_offline(node, number)
    check_restarts(node)


@pytest.mark.parametrize("only", range(profile.examples(30, quick=2, ci=4)))
@pytest.mark.parametrize("call", [call for call in CHANGES if call not in UNUSED])
def test_a_call_that_is_refused_once_takes_the_directory_offline_too(call: str, only: int) -> None:
    node = FaultyNode()
    node.disk.refusal = Refusal((call,), errno.EIO, only=only)

    node.live()

    if not node.disk.refusal.hits:
        assert only > 0, "never called"
        return
    check_offline(node, errno.EIO)
    check_restarts(node)


@pytest.mark.parametrize("call", ["read_at", "size", "status", "list_directory"])
def test_what_can_not_be_looked_at_costs_no_record_and_no_other_log(call: str) -> None:
    """A read that fails is the reader's error, and the directory's once something is to be changed."""
    node = FaultyNode()
    node.disk.refusal = Refusal((call,), errno.EIO)

    node.live()

    assert all(os.strerror(errno.EIO) in str(error) for error in node.errors)
    check_restarts(node)


def test_a_full_disk_takes_its_directory_offline_and_with_room_it_is_back() -> None:
    node = FaultyNode()
    node.disk.refusal = Refusal(NEED_ROOM, errno.ENOSPC)

    node.live()

    check_offline(node, errno.ENOSPC)
    assert "Free some space" in str(node.reason)
    check_restarts(node)
    node.manager.shutdown()
    node.disk.refusal = None
    node.check_restart(node.disk)


def test_a_read_only_remount_takes_its_directory_offline_and_it_can_still_be_read() -> None:
    node = FaultyNode()
    node.disk.refusal = Refusal(CHANGES, errno.EROFS)
    log = node.manager.get_log(ONE)
    assert log is not None
    before = read_all(log, isolation=Isolation.LOG_END)

    node.live()

    check_offline(node, errno.EROFS)
    assert "mounted read-only" in str(node.reason)
    assert len(before) == 3
    node.manager.shutdown()
    node.disk.refusal = None
    node.check_restart(node.disk)


@pytest.mark.parametrize("call", ["sync", "sync_directory"])
@pytest.mark.parametrize("only", range(3))
def test_an_fsync_that_failed_is_not_tried_again_and_believed(call: str, only: int) -> None:
    """The second one succeeds, on this disk as on Linux, although the records are not there."""
    node = FaultyNode()
    log = node.manager.get_log(ONE)
    assert log is not None
    node.append(log, 12)  # several segments
    node.disk.refusal = Refusal((call,), errno.EIO, only=only)

    with pytest.raises(DiskError, match="Input/output error"):
        node.keep_flushing(log)
    for act in (log.flush, log.roll, lambda: log.append_as_leader(batch(b"more"), leader_epoch=0)):
        with pytest.raises(DiskError, match="failed before"):
            act()
    node.manager.flush_dirty_logs()
    node.manager.checkpoint_log_recovery_offsets()

    check_offline(node, errno.EIO)
    node.manager.shutdown()
    check_restarts(node)


@pytest.mark.parametrize("number", NUMBERS, ids=number_name)
def test_a_move_into_a_directory_that_fails_leaves_the_log_where_it_was(number: int) -> None:
    node = FaultyNode()
    log = node.manager.get_log(THREE)
    assert log is not None
    node.append(log, 20)
    node.flush(log)
    node.disk.refusal = Refusal(("write_at", "sync"), number)

    with pytest.raises(DiskError):
        node.manager.move_log(THREE, FIRST)
    node.manager.checkpoint_log_recovery_offsets()

    check_offline(node, number)
    assert node.manager.get_log(THREE) is log
    check_restarts(node)


def test_a_log_that_failed_costs_the_other_logs_of_its_directory_no_flushed_record() -> None:
    node = FaultyNode()
    node.attempt(TWO, lambda log: node.append(log, 9))
    node.attempt(TWO, node.flush)
    node.disk.refusal = Refusal(("write_at",), errno.EIO, below=f"{FIRST}/{ONE}")

    node.attempt(ONE, lambda log: node.append(log, 1))
    node.manager.checkpoint_log_recovery_offsets()

    check_offline(node, errno.EIO)
    assert HOMES[TWO] == FIRST
    check_restarts(node)


def test_work_that_was_scheduled_before_leaves_a_directory_alone_that_is_offline() -> None:
    """Its lock is released: another program may be recovering it by now."""
    node = FaultyNode()
    node.attempt(ONE, lambda log: node.append(log, 9))
    node.attempt(ONE, node.delete_records)  # whose epochs are to be written soon
    path = f"{FIRST}/{ONE}/leader-epoch-checkpoint"
    before = node.disk.contents()[path]
    node.manager.handle_log_dir_failure(FIRST, DiskError(FIRST, "pulled out"))

    node.scheduler.run_due()

    assert node.disk.contents()[path] == before
