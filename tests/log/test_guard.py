"""Who may touch a log: after a failure nobody, after a close nobody, after a move only readers."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor

import pytest

from stratalog.errors import DiskError, LogClosedError, LogMovedError, UsageError
from stratalog.log.guard import LogGuard
from stratalog.log.marks import LogMarks
from tests.log.model import DIRECTORY, Machine, batch


@pytest.fixture
def guard() -> LogGuard:
    return LogGuard(Machine().open()._parts.folder)


def refusal() -> DiskError:
    return DiskError(DIRECTORY, "no space", errno.ENOSPC)


def test_a_log_that_is_open_and_well_may_be_changed(guard: LogGuard) -> None:
    with guard.changing():
        pass

    assert guard.is_changeable


def test_what_the_disk_refuses_fails_the_log(guard: LogGuard) -> None:
    error = refusal()
    with pytest.raises(DiskError), guard.changing():
        raise error

    with pytest.raises(DiskError, match=r"failed before: .*no space") as raised:
        guard.check_usable()
    assert (guard.failure, guard.is_changeable, raised.value.errno) == (error, False, errno.ENOSPC)


def test_the_first_failure_is_the_reason(guard: LogGuard) -> None:
    first = refusal()
    for error in (first, refusal()):
        with pytest.raises(DiskError), guard.failing():
            raise error

    assert guard.failure is first


def test_an_interrupt_while_files_are_written_fails_the_log(guard: LogGuard) -> None:
    with pytest.raises(KeyboardInterrupt), guard.changing(), guard.writing():
        raise KeyboardInterrupt

    with pytest.raises(DiskError, match="a change to the log was interrupted: KeyboardInterrupt"):
        guard.check_usable()


def test_an_interrupt_before_files_are_written_does_not(guard: LogGuard) -> None:
    with pytest.raises(KeyboardInterrupt), guard.changing():
        raise KeyboardInterrupt

    assert guard.is_changeable


def test_a_closed_log_is_neither_read_nor_changed(guard: LogGuard) -> None:
    guard.is_closed = True

    for check in (guard.check_usable, guard.check_changeable):
        with pytest.raises(LogClosedError):
            check()


def test_a_log_that_was_moved_can_be_read_but_not_changed(guard: LogGuard) -> None:
    guard.refusal = lambda: LogMovedError(DIRECTORY, "/other/orders-0")

    guard.check_usable()
    with pytest.raises(LogMovedError), guard.changing():
        pass
    assert not guard.is_changeable


def test_a_log_that_was_moved_and_closed_says_that_it_was_moved(guard: LogGuard) -> None:
    guard.refusal = lambda: LogMovedError(DIRECTORY, "/other/orders-0")
    guard.is_closed = True

    with pytest.raises(LogMovedError):
        guard.check_usable()


def test_a_child_process_does_not_wait_for_locks_of_threads_that_are_not_there(guard: LogGuard) -> None:
    before = (guard.lock, guard.flush_lock)

    guard.start_over_in_child()

    assert guard.lock is not before[0]
    assert guard.flush_lock is not before[1]
    assert not guard.is_changeable


def test_an_append_that_is_interrupted_fails_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    log = Machine().open()
    log.append_as_leader(batch(b"a"), leader_epoch=0)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LogMarks, "follow_end", interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.append_as_leader(batch(b"b"), leader_epoch=0)
    monkeypatch.undo()

    with pytest.raises(DiskError, match="KeyboardInterrupt"):
        log.append_as_leader(batch(b"c"), leader_epoch=0)


def test_a_signal_handler_in_the_middle_of_a_change_is_refused(guard: LogGuard) -> None:
    """Both locks are reentrant: the handler runs in the thread that has them."""
    for interrupted in (guard.changing, guard.flushing):
        for enter in (guard.changing, guard.flushing, guard.holding):
            with interrupted(), pytest.raises(UsageError, match="signal handler"), enter():
                pass

    with guard.flushing() as inside, inside.changing():  # as a truncation does
        pass
    assert guard.is_changeable


def test_whoever_holds_back_other_changes_may_change_the_log(guard: LogGuard) -> None:
    with guard.holding() as first, first.holding() as holder:
        with holder.changing():
            pass
        with holder.flushing(), holder.changing():
            holder.check_outside()


def test_a_signal_handler_is_not_taken_for_who_holds_back_other_changes(guard: LogGuard) -> None:
    """It appended to a log that was being moved, and the record was deleted with the old log."""
    with guard.holding() as holder:
        for enter in (guard.changing, guard.flushing, guard.holding):
            with pytest.raises(UsageError, match="signal handler"), enter():
                pass
            with holder.changing(), pytest.raises(UsageError, match="signal handler"), enter():
                pass


def test_only_the_object_that_holding_yields_changes_a_log_that_is_held() -> None:
    log = Machine().open()
    with log.holding_changes() as held:
        held.append_as_leader(batch(b"a"), leader_epoch=0)
        with pytest.raises(UsageError, match="signal handler"):
            log.append_as_leader(batch(b"b"), leader_epoch=0)

    log.append_as_leader(batch(b"c"), leader_epoch=0)
    assert log.log_end_offset == held.log_end_offset == 2


def test_another_thread_is_not_taken_for_a_signal_handler(guard: LogGuard) -> None:
    with guard.changing(), ThreadPoolExecutor(1) as pool:
        pool.submit(guard.check_outside).result()
