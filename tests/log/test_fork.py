"""A log that is open when its process forks: it is the parent's, and a child may read."""

from __future__ import annotations

import gc
import sys
import threading
import warnings
from pathlib import Path

import pytest

from stratalog import open_log
from stratalog.errors import LogDirLockedError
from stratalog.files.lock import is_locked
from stratalog.records.kernels.jit import INTERPRETED
from tests.programs import Program
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the lock is Linux's")

MARK = ".kafka_cleanshutdown"

BEGIN = """
import os, signal, sys, threading
import stratalog
from stratalog.errors import WrongProcessError
from stratalog.files.names import TopicPartition
from stratalog.records.build import Record, build_batch

signal.alarm(100)

def refused(change):
    try:
        change()
    except WrongProcessError as error:
        parent = os.getppid()
        return (error.opener, error.pid) == (parent, os.getpid()) and f"process {parent}" in str(error)
    return False
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "orders-0"


def values(directory: Path) -> list[bytes | None]:
    with open_log(directory, read_only=True) as view:
        return [record.value for record in view.records()]


def test_a_forked_child_does_not_write_over_its_parent(directory: Path) -> None:
    program = (
        BEGIN
        + """
log = stratalog.open_log(sys.argv[1], create=True)
log.append(b"before")
child = os.fork()
if not child:
    changes = [
        lambda: log.append(b"child"),
        lambda: log.truncate_to(0),
        lambda: log.delete_records(1),
        lambda: log.flush(),
        lambda: log.log.append_as_leader(build_batch([Record(0, 1, None, b"child")]), leader_epoch=0),
        lambda: log.log.flush(),
        lambda: log.log.roll(),
        lambda: log.log.truncate_fully_and_start_at(7),
    ]
    print(all(refused(change) for change in changes), [record.value for record in log.records()], flush=True)
    log.close()
    os._exit(0)
os.waitpid(child, 0)
print(log.append(b"after"))
log.close()
"""
    )
    with Program(program, directory) as running:
        assert running.line() == "True [b'before']"
        assert running.end() == (0, ["1"], "")

    assert values(directory) == [b"before", b"after"]


def test_processes_of_a_pool_are_not_given_the_same_offset(directory: Path) -> None:
    program = (
        BEGIN
        + """
import multiprocessing
log = stratalog.open_log(sys.argv[1], create=True)
log.append(b"before")

def work(number):
    try:
        log.append(b"%d" % number)
    except WrongProcessError:
        sys.exit(7)

children = [multiprocessing.get_context("fork").Process(target=work, args=(number,)) for number in range(4)]
for child in children:
    child.start()
log.append(b"parent")
for child in children:
    child.join()
print([child.exitcode for child in children])
log.close()
"""
    )
    with Program(program, directory) as running:
        assert running.end() == (0, ["[7, 7, 7, 7]"], "")

    assert values(directory) == [b"before", b"parent"]


def test_a_child_that_ends_neither_closes_the_log_nor_lets_go_of_its_lock(directory: Path) -> None:
    program = (
        BEGIN
        + """
with stratalog.open_log(sys.argv[1], create=True) as log:
    log.append(b"before")
    child = os.fork()
    if not child:
        sys.exit(0)  # through the end of the with
    os.waitpid(child, 0)
    print("the child has ended", flush=True)
    input()
"""
    )
    with Program(program, directory) as running:
        running.line()
        assert not (directory / MARK).exists()
        assert is_locked(directory)
        running.tell()
        assert running.end() == (0, [], "")

    assert (directory / MARK).exists()


def test_a_child_does_not_keep_the_lock_when_its_parent_is_gone(directory: Path) -> None:
    program = (
        BEGIN
        + """
log = stratalog.open_log(sys.argv[1], create=True)
log.append(b"before")
if os.fork():
    os._exit(0)
print("alone", flush=True)
input()
"""
    )
    with Program(program, directory) as running:
        running.line()
        assert running.wait() == 0
        with open_log(directory) as log:
            assert log.append(b"after") == 1
        running.tell()
        running.end()


def test_a_child_reads_from_a_view_that_a_thread_of_its_parent_looks_at_again(directory: Path) -> None:
    program = (
        BEGIN
        + """
from stratalog.files.disk import Disk

class HeldDisk(Disk):
    is_held = False
    def list_directory(self, path):
        if self.is_held and threading.current_thread() is not threading.main_thread():
            reached.set()
            threading.Event().wait()
        return super().list_directory(path)

with stratalog.open_log(sys.argv[1], create=True) as log:
    log.append(b"before")
reached, disk = threading.Event(), HeldDisk()
view = stratalog.open_log(sys.argv[1], read_only=True, disk=disk)
disk.is_held = True
threading.Thread(target=lambda: list(view.records()), daemon=True).start()
reached.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if [record.value for record in view.records()] == [b"before"] else 1)
os._exit(os.waitpid(child, 0)[1])
"""
    )
    with Program(program, directory) as running:
        assert running.end() == (0, [], "")


@pytest.mark.skipif(INTERPRETED, reason="without compiled kernels, Numba is not imported")
def test_a_child_reads_although_a_thread_of_its_parent_imports_numba_at_the_fork(directory: Path) -> None:
    """The thread holds Python's lock of that import, which nobody would release in the child."""
    program = (
        BEGIN
        + """
from stratalog.records.kernels.jit import compile_always

class Pausing:
    def find_spec(self, name, path, target=None):
        if name == "numba" and threading.current_thread() is not threading.main_thread():
            reached.set()
            go.wait()

reached, go = threading.Event(), threading.Event()
sys.meta_path.insert(0, Pausing())
log = stratalog.open_log(sys.argv[1], create=True)
log.append(b"before")
compile_always()
reader = threading.Thread(target=lambda: list(log.records()), daemon=True)
reader.start()
reached.wait()
os.register_at_fork(before=go.set)  # handlers that were registered last are called first
child = os.fork()
if not child:
    signal.alarm(60)
    os._exit(0 if [record.value for record in log.records()] == [b"before"] else 1)
code = os.waitpid(child, 0)[1]
reader.join()
log.close()
os._exit(code)
"""
    )
    with Program(program, directory) as running:
        assert running.end() == (0, [], "")


def test_a_child_reads_whatever_threads_of_its_parent_have_locked(directory: Path) -> None:
    program = (
        BEGIN
        + """
from contextlib import ExitStack
from stratalog.segment import index_cache
log = stratalog.open_log(sys.argv[1], create=True, config={"segment.bytes": 1 << 20})
for _ in range(10):
    log.append(bytes(400_000))
held, done = threading.Event(), threading.Event()

def hold():
    with ExitStack() as stack:
        locks = [log._lock, log.log._guard.flush_lock, log.log._guard.lock]
        for lock in [*locks, *(found.renaming for found in log.log.segments), index_cache.shared._lock]:
            stack.enter_context(lock)
        held.set()
        done.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if not child:
    signal.alarm(60)
    read = [record.offset for record in log.records()] + [record.offset for record in log.records(5)]
    found = [log.offset_for_time(0), log.offset_of_newest() is not None, log.last_stable_offset]
    print(read == [*range(10), *range(5, 10)], found, refused(lambda: log.append(b"child")), flush=True)
    log.close()
    os._exit(0)
print(os.waitpid(child, 0)[1], flush=True)
done.set()
thread.join()
log.close()
"""
    )
    with Program(program, directory) as running:
        assert running.end() == (0, ["True [0, True, 10] True", "0"], "")


def test_a_child_changes_nothing_through_a_manager_of_its_parent(tmp_path: Path) -> None:
    program = (
        BEGIN
        + """
orders = TopicPartition("orders", 0)
batch = build_batch([Record(0, 1, None, b"before")])
with stratalog.LogManager([sys.argv[1], sys.argv[2]], high_watermark_follows_end=True) as manager:
    log = manager.get_or_create_log(orders, is_new=True, directory=sys.argv[1])
    log.append_as_leader(batch, leader_epoch=0)
    child = os.fork()
    if not child:
        changes = [
            manager.startup,
            lambda: manager.get_or_create_log(TopicPartition("new", 0), is_new=True),
            lambda: manager.async_delete(orders),
            lambda: manager.move_log(orders, sys.argv[2]),
            lambda: manager.truncate_to({orders: 0}),
            lambda: manager.truncate_fully_and_start_at(orders, 9),
            manager.flush_dirty_logs,
            manager.checkpoint_log_recovery_offsets,
            manager.checkpoint_log_start_offsets,
            manager.checkpoint_high_watermarks,
            lambda: manager.add_task("mine", print, every_ms=1),
            lambda: log.append_as_leader(batch, leader_epoch=0),
        ]
        print(all(refused(change) for change in changes), manager.get_log(orders).log_end_offset, flush=True)
        sys.exit(0)  # through the end of the with
    os.waitpid(child, 0)
    print("the child has ended", flush=True)
    input()
"""
    )
    with Program(program, tmp_path / "one", tmp_path / "two") as running:
        assert running.line() == "True 1"
        running.line()
        assert [(tmp_path / name / MARK).exists() for name in ("one", "two")] == [False, False]
        assert is_locked(tmp_path / "one")
        running.tell()
        assert running.end() == (0, [], "")

    assert [(tmp_path / name / MARK).exists() for name in ("one", "two")] == [True, True]


# In one process


def test_a_second_opening_is_told_that_this_process_has_the_log_open(directory: Path) -> None:
    with open_log(directory, create=True), pytest.raises(LogDirLockedError, match="this process has it open"):
        open_log(directory)


def test_a_log_that_is_collected_unclosed_warns_and_is_not_marked_clean(directory: Path) -> None:
    log = open_log(directory, create=True)
    log.append(b"kept")

    with pytest.warns(ResourceWarning, match="never closed"):
        del log

    assert not (directory / MARK).exists()
    for thread in threading.enumerate():
        if thread.name == "stratalog-scheduler":
            thread.join(PATIENCE_S)
    gc.collect()
    with open_log(directory) as again:
        assert [record.value for record in again.records()] == [b"kept"]


def test_the_lock_stays_while_something_still_uses_a_log_that_was_never_closed(directory: Path) -> None:
    with pytest.warns(ResourceWarning, match="never closed"):
        below = open_log(directory, create=True).log

    assert is_locked(directory)
    below.close_handlers()


def test_a_log_that_is_closed_or_read_only_is_collected_in_silence(directory: Path) -> None:
    open_log(directory, create=True).close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_log(directory).close()
        view = open_log(directory, read_only=True)
        del view
        gc.collect()
