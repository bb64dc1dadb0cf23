"""What signals and exits leave of an open log and of a running manager; and the graceful stop."""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import stratalog
from stratalog.errors import UsageError, WrongTypeError
from stratalog.files.lock import is_locked
from tests.programs import Program

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the lock is Linux's")

MARK = ".kafka_cleanshutdown"

# Each says when a record is in, and then waits for a line.
LOG = """
import signal, sys
import stratalog
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where the tests run in the background
with stratalog.open_log(sys.argv[1] + "/orders-0", create=True) as log:
    log.append(b"acknowledged")
    print("ready", flush=True)
    said = sys.stdin.readline()
    if said == "exit\\n":
        sys.exit(3)
    if said == "fail\\n":
        raise RuntimeError
"""
MANAGER = """
import signal, sys
import stratalog
from stratalog.files.names import TopicPartition
from stratalog.records.build import Record, build_batch
signal.signal(signal.SIGINT, signal.default_int_handler)
with stratalog.LogManager([sys.argv[1]], high_watermark_follows_end=True) as manager:
    log = manager.get_or_create_log(TopicPartition("orders", 0), is_new=True)
    log.append_as_leader(build_batch([Record(0, 1, None, b"acknowledged")]), leader_epoch=0)
    print("ready", flush=True)
    said = sys.stdin.readline()
    if said == "exit\\n":
        sys.exit(3)
    if said == "fail\\n":
        raise RuntimeError
"""
PROGRAMS = pytest.mark.parametrize(
    ("text", "home"), [(LOG, "orders-0"), (MANAGER, ".")], ids=["open_log", "LogManager"]
)


def records(directory: Path) -> list[bytes | None]:
    with stratalog.open_log(directory / "orders-0", read_only=True) as view:
        return [record.value for record in view.records()]


@PROGRAMS
def test_sigterm_leaves_an_unclosed_log_with_every_record(tmp_path: Path, text: str, home: str) -> None:
    with Program(text, tmp_path) as running:
        running.line()
        running.send(signal.SIGTERM)
        assert running.end()[0] == -signal.SIGTERM

    assert not (tmp_path / home / MARK).exists()
    assert not is_locked(tmp_path / home)
    assert records(tmp_path) == [b"acknowledged"]


@PROGRAMS
def test_sigint_closes_cleanly_at_the_end_of_the_with(tmp_path: Path, text: str, home: str) -> None:
    with Program(text, tmp_path) as running:
        running.line()
        running.send(signal.SIGINT)
        code, _, words = running.end()

    assert (code, words) == (-signal.SIGINT, "KeyboardInterrupt")
    assert (tmp_path / home / MARK).exists()
    assert records(tmp_path) == [b"acknowledged"]


APPENDING = """
import os, signal, sys
import stratalog
signal.signal(signal.SIGINT, signal.default_int_handler)
def run(log):
    print("ready", flush=True)
    while True:
        os.write(1, b"%d\\n" % log.append(b"acknowledged"))
if sys.argv[2] == "open_log":
    with stratalog.open_log(sys.argv[1] + "/orders-0", create=True) as log:
        run(log)
else:
    with stratalog.LogManager([sys.argv[1]], high_watermark_follows_end=True) as manager:
        run(manager.get_or_create_log(stratalog.TopicPartition("orders", 0), is_new=True))
"""


@pytest.mark.parametrize("which", ["open_log", "LogManager"])
@pytest.mark.parametrize("after", [1, 20, 300])
def test_sigint_while_a_program_appends_loses_no_record(tmp_path: Path, which: str, after: int) -> None:
    """In the middle of a write it fails the log, which then gets no clean-shutdown file."""
    with Program(APPENDING, tmp_path, which) as running:
        for _ in range(after):
            running.line()
        running.send(signal.SIGINT)
        code, lines, words = running.end()

    assert (code, words) == (-signal.SIGINT, "KeyboardInterrupt")
    assert not is_locked(tmp_path / ("orders-0" if which == "open_log" else "."))
    if which == "LogManager":
        stratalog.recover([tmp_path])
    with stratalog.open_log(tmp_path / "orders-0") as log:
        found = [record.offset for record in log.records()]
    acknowledged = after - 1 + len(lines)
    assert found in ([*range(acknowledged)], [*range(acknowledged + 1)])  # the last one was not printed yet


INTERRUPTED = """
import os, signal, sys
import stratalog
signal.signal(signal.SIGINT, signal.default_int_handler)

class InterruptingDisk(stratalog.Disk):
    is_interrupted = False
    def write_at(self, path, data, position):
        super().write_at(path, data, position)
        if self.is_interrupted:
            self.is_interrupted = False
            os.kill(os.getpid(), signal.SIGINT)

disk = InterruptingDisk()
with stratalog.open_log(sys.argv[1] + "/orders-0", create=True, disk=disk) as log:
    log.append(b"acknowledged")
    disk.is_interrupted = True
    log.append(b"interrupted")
"""


def test_sigint_in_the_middle_of_a_write_leaves_the_log_to_be_recovered(tmp_path: Path) -> None:
    with Program(INTERRUPTED, tmp_path) as running:
        code, _, words = running.end()

    assert (code, words) == (-signal.SIGINT, "KeyboardInterrupt")
    assert not (tmp_path / "orders-0" / MARK).exists()
    assert not is_locked(tmp_path / "orders-0")
    with stratalog.open_log(tmp_path / "orders-0") as log:
        assert [record.value for record in log.records()] == [b"acknowledged", b"interrupted"]


@PROGRAMS
@pytest.mark.parametrize(("said", "code"), [("exit", 3), ("fail", 1)])
def test_every_other_end_of_the_with_closes_cleanly(
    tmp_path: Path, text: str, home: str, said: str, code: int
) -> None:
    with Program(text, tmp_path) as running:
        running.line()
        running.tell(said)
        assert running.end()[0] == code

    assert (tmp_path / home / MARK).exists()
    assert records(tmp_path) == [b"acknowledged"]


def test_a_log_without_a_with_is_left_unclosed_by_an_exit(tmp_path: Path) -> None:
    program = """
import sys
import stratalog
log = stratalog.open_log(sys.argv[1] + "/orders-0", create=True)
log.append(b"acknowledged")
sys.exit(3)
"""
    with Program(program, tmp_path) as running:
        assert running.end()[0] == 3

    assert not (tmp_path / "orders-0" / MARK).exists()
    assert records(tmp_path) == [b"acknowledged"]


# A graceful stop


GRACEFUL = """
import signal, sys
import stratalog
signal.signal(signal.SIGINT, signal.default_int_handler)
with stratalog.graceful_stop() as stop, stratalog.open_log(sys.argv[1] + "/orders-0", create=True) as log:
    log.append(b"acknowledged")
    print("ready", flush=True)
    if sys.argv[2] == "tail":
        for record in log.tail(0, stop=stop):
            print(record.value, flush=True)
    elif sys.argv[2] == "wait":
        stop.wait()
    else:
        stop.wait()
        print("stuck", flush=True)
        while True:
            sys.stdin.readline()
    log.append(b"what was begun")
print(stop.signal.name)
"""


@pytest.mark.parametrize(("how", "number"), [("tail", signal.SIGTERM), ("wait", signal.SIGINT)])
def test_the_first_signal_lets_a_program_finish(tmp_path: Path, how: str, number: signal.Signals) -> None:
    with Program(GRACEFUL, tmp_path, how) as running:
        running.line()
        if how == "tail":
            running.line()
        running.send(number)
        assert running.end() == (0, [number.name], "")

    assert (tmp_path / "orders-0" / MARK).exists()
    assert records(tmp_path) == [b"acknowledged", b"what was begun"]


def test_a_second_signal_ends_a_program_that_does_not_stop(tmp_path: Path) -> None:
    with Program(GRACEFUL, tmp_path, "stuck") as running:
        running.line()
        running.send(signal.SIGTERM)
        assert running.line() == "stuck"
        running.send(signal.SIGTERM)
        assert running.end()[0] == -signal.SIGTERM

    assert not (tmp_path / "orders-0" / MARK).exists()
    assert records(tmp_path) == [b"acknowledged"]


def test_a_signal_to_a_forked_child_does_not_stop_its_parent() -> None:
    program = """
import os, signal, stratalog
with stratalog.graceful_stop() as stop:
    child = os.fork()
    if not child:
        stop.set()
        os.kill(os.getpid(), signal.SIGTERM)
        stop.wait()
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), stop.wait(0.001), stop.is_set())
"""
    with Program(program) as running:
        assert running.end() == (0, [f"{-signal.SIGTERM} False False"], "")


def test_the_handlers_of_before_are_there_again() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    with stratalog.graceful_stop() as stop:
        during = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
        assert not stop.wait(0)

    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert during != before


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    before = signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    try:
        with stratalog.graceful_stop([signal.SIGUSR1]) as stop:
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not stop.is_set()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_stop_wakes_every_thread_that_waits_for_it() -> None:
    with stratalog.graceful_stop() as stop, ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(stop.wait, 60) for _ in range(3)]
        stop.set()

        assert [each.result() for each in waiting] == [True, True, True]
    assert stop.wait()
    assert stop.signal is None


@pytest.mark.parametrize("timeout", [-0.5, 0, 0.001])
def test_waiting_for_a_time_that_has_passed_does_not_wait_forever(timeout: float) -> None:
    with stratalog.graceful_stop() as stop, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(stop.wait, timeout)
        try:
            assert waiting.result(timeout=20) is False
        finally:
            stop.set()


@pytest.mark.parametrize("timeout", [3e6, 1e300, float("inf")])
def test_waiting_for_longer_than_a_month_is_no_error(timeout: float) -> None:
    with stratalog.graceful_stop() as stop, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(stop.wait, timeout)
        stop.set()

        assert waiting.result(timeout=20)


def test_a_graceful_stop_outside_of_the_main_thread_is_refused() -> None:
    caught: list[UsageError] = []

    def enter() -> None:
        try:
            with stratalog.graceful_stop():
                pass
        except UsageError as error:
            caught.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()

    assert "main thread" in str(caught[0])


def test_a_signal_set_only_the_inner_one_of_two_stops() -> None:
    """A library that stops gracefully inside a program that does: both end."""
    program = """
import os, signal, stratalog
with stratalog.graceful_stop() as outer:
    with stratalog.graceful_stop() as inner:
        os.kill(os.getpid(), signal.SIGTERM)
        print(inner.wait(60), outer.is_set(), inner.signal.name, outer.signal.name)
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTERM)  # the second one has its usual effect
"""
    with Program(program) as running:
        assert running.end() == (-signal.SIGTERM, ["True True SIGTERM SIGTERM", "True"], "")


def test_after_the_inner_one_of_two_stops_the_outer_one_still_waits() -> None:
    with stratalog.graceful_stop([signal.SIGUSR1]) as outer:
        with stratalog.graceful_stop([signal.SIGUSR1]) as inner:
            pass
        os.kill(os.getpid(), signal.SIGUSR1)
        assert outer.wait(60)
        assert not inner.is_set()


def test_stops_that_end_in_another_order_leave_no_handler_behind() -> None:
    before = signal.getsignal(signal.SIGUSR1)
    one, two = stratalog.graceful_stop([signal.SIGUSR1]), stratalog.graceful_stop([signal.SIGUSR1])

    one.__enter__()
    two.__enter__()
    one.__exit__(None, None, None)
    two.__exit__(None, None, None)

    assert signal.getsignal(signal.SIGUSR1) is before


@pytest.mark.parametrize("signals", [["SIGTERM"], 5, [None], [100_000]])
def test_what_is_not_a_signal_is_refused(signals: object) -> None:
    with pytest.raises(WrongTypeError, match=r"signal\.SIGTERM"), stratalog.graceful_stop(signals):  # type: ignore[arg-type]
        pass
