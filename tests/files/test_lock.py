"""The lock of a log directory, among processes of Python; tests/kafka/test_lock.py has Java's."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from stratalog.errors import DiskError, LogDirLockedError, UsageError
from stratalog.files.lock import DirectoryLock, check_lockable, check_unlocked, is_locked
from stratalog.files.reading import DiskReader
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the lock is Linux's")


def test_a_lock_is_held_once(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path) as first:
        first.check()
        with pytest.raises(LogDirLockedError, match="this process has it open") as caught:
            DirectoryLock(tmp_path).acquire()
        assert is_locked(tmp_path)

    assert caught.value.path == str(tmp_path)
    assert not is_locked(tmp_path)


def test_a_lock_that_is_collected_is_free(tmp_path: Path) -> None:
    DirectoryLock(tmp_path).acquire()

    assert not is_locked(tmp_path)


def test_who_looks_waits_for_the_end_of_a_trial(tmp_path: Path) -> None:
    given_up, taken = DirectoryLock(tmp_path), DirectoryLock(tmp_path)
    with ThreadPoolExecutor(1) as pool:
        given_up.acquire(is_trial=True)
        look = pool.submit(check_unlocked, tmp_path)
        given_up.release()
        look.result(timeout=PATIENCE_S)

        taken.acquire(is_trial=True)
        look = pool.submit(check_unlocked, tmp_path)
        taken.confirm()
        with pytest.raises(LogDirLockedError):
            look.result(timeout=PATIENCE_S)
    taken.release()


def test_a_trial_counts_for_whoever_wants_the_same_lock(tmp_path: Path) -> None:
    first = DirectoryLock(tmp_path)
    first.acquire(is_trial=True)

    for is_trial in (False, True):
        with pytest.raises(LogDirLockedError):
            DirectoryLock(tmp_path).acquire(is_trial=is_trial)

    first.release()


def test_another_process_is_refused(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from stratalog.files.lock import DirectoryLock, is_locked\n"
        "print(is_locked(sys.argv[1]))\n"
        "DirectoryLock(sys.argv[1]).acquire()"
    )
    with DirectoryLock(tmp_path):
        done = subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
        )

    assert done.stdout == "True\n"
    assert "LogDirLockedError" in done.stderr
    assert "stop it, then run again" in done.stderr


def test_closing_another_descriptor_of_the_file_does_not_lose_the_lock(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path):
        (tmp_path / ".lock").read_bytes()

        assert is_locked(tmp_path)
        with pytest.raises(LogDirLockedError):
            DirectoryLock(tmp_path).acquire()


def test_asking_creates_nothing(tmp_path: Path) -> None:
    assert not is_locked(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert not is_locked(tmp_path / "gone")


def test_asking_does_not_take_the_lock_away(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path) as lock:
        assert is_locked(tmp_path)
        assert is_locked(tmp_path)
        lock.check()


def test_the_file_stays_when_the_lock_is_released(tmp_path: Path) -> None:
    lock = DirectoryLock(tmp_path)
    lock.acquire()
    lock.release()
    lock.release()

    assert not lock.is_held
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_a_lock_on_a_deleted_file_is_noticed_before_the_first_change(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path) as lock:
        (tmp_path / ".lock").unlink()
        with pytest.raises(LogDirLockedError, match="was lost"):
            lock.check()
        (tmp_path / ".lock").write_bytes(b"")  # a broker that starts would make it again
        with pytest.raises(LogDirLockedError, match="was lost"):
            lock.check()


def test_a_lock_that_is_not_held_does_not_pass_the_check(tmp_path: Path) -> None:
    with pytest.raises(LogDirLockedError):
        DirectoryLock(tmp_path).check()


def test_a_lock_is_not_acquired_twice(tmp_path: Path) -> None:
    with DirectoryLock(tmp_path) as lock, pytest.raises(UsageError):
        lock.acquire()


def test_the_file_takes_the_mode_of_its_directory(tmp_path: Path) -> None:
    tmp_path.chmod(0o750)
    with DirectoryLock(tmp_path):
        assert stat.S_IMODE((tmp_path / ".lock").stat().st_mode) == 0o640


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_root_locks_belongs_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    os.chown(tmp_path, 4321, 4322)
    with DirectoryLock(tmp_path):
        status = (tmp_path / ".lock").stat()

    assert (status.st_uid, status.st_gid) == (4321, 4322)


def test_a_lock_is_not_inherited_by_other_programs(tmp_path: Path) -> None:
    program = [sys.executable, "-c", "print('here', flush=True); input()"]
    with DirectoryLock(tmp_path):
        child = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, close_fds=False)
        # The system wakes us a moment before it closes what the child must not have: wait until it runs.
        assert child.stdout is not None
        assert child.stdout.readline() == b"here\n"
    try:
        assert not is_locked(tmp_path)
    finally:
        child.communicate(b"\n")


def test_a_directory_that_is_not_there_cannot_be_locked(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="could not open"):
        DirectoryLock(tmp_path / "gone").acquire()


def test_a_dry_run_sees_that_a_read_only_file_system_has_no_place_for_the_lock(tmp_path: Path) -> None:
    class ReadOnly(DiskReader):
        def is_read_only(self, _path: object) -> bool:
            return True

    check_lockable(DiskReader(), tmp_path)
    with pytest.raises(DiskError, match=r"\.lock: could not open it: Read-only file system\.") as caught:
        check_lockable(ReadOnly(), tmp_path)

    assert caught.value.errno == errno.EROFS
    assert not [*tmp_path.iterdir()]


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(DiskError):
        DirectoryLock(tmp_path).acquire()
    assert not (tmp_path / "elsewhere").exists()


def test_who_looks_at_a_pipe_that_has_the_name_of_a_lock_waited_for_ever(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")

    assert not is_locked(tmp_path)
    assert check_unlocked(tmp_path)
    with DirectoryLock(tmp_path):
        assert is_locked(tmp_path)
