"""The cleaner of a log manager: whom it takes, what it writes down, and who can stop it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.names import TopicPartition
from stratalog.log.log import Log
from stratalog.manager import throttle as throttling
from stratalog.manager.cleaner import LogCleaner
from stratalog.manager.cleaning_states import State
from stratalog.manager.manager import LogManager
from stratalog.manager.throttle import Throttle
from tests.log.model import NOW, batch, read_all
from tests.manager.running import Node, checkpoint
from tests.waiting import PATIENCE_S, until

CLEAN = "cleaner-offset-checkpoint"
SET_SIZE = len(batch(b"0000", key=b"k"))
SEGMENT = {"internal_segment_bytes": 5 * SET_SIZE, "segment_index_bytes": 1000, "file_delete_delay_ms": 1000}
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


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


# Clean


def test_a_dirty_log_is_cleaned_and_how_far_is_written_down(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager)

        assert clean(manager)

        assert offsets(log) == [9, 10]
        assert checkpoint(tmp_path, CLEAN) == {"a-0": 10}
        assert not clean(manager)


def test_the_dirtiest_log_goes_first(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        first, second = new_log(manager, A), new_log(manager, B)
        clean(manager)
        clean(manager)
        fill(first, 5)
        fill(second, 20)

        assert clean(manager)

        assert checkpoint(tmp_path, CLEAN)["b-0"] > 10
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 10


def test_only_compacted_logs_are_cleaned(tmp_path: Path) -> None:
    with node(tmp_path, policy="delete").running() as manager:
        new_log(manager)

        assert not clean(manager)


def test_a_log_in_progress_or_paused_is_not_taken_again(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        cleaner = manager.cleaner.manager
        cleaner.abort_and_pause(A)
        assert cleaner.grab_filthiest() is None
        cleaner.resume([A])

        found = cleaner.grab_filthiest()

        assert found is not None
        assert cleaner.grab_filthiest() is None
        cleaner.done_cleaning(found[0], 0)


def test_a_checkpoint_that_is_no_use_is_written_anew_although_nothing_is_cleaned(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager, count=4)
        (tmp_path / CLEAN).write_text("0\n1\na 0 99\n")

        assert not clean(manager)

        assert checkpoint(tmp_path, CLEAN) == {"a-0": log.log_start_offset}


def test_entries_of_logs_that_are_gone_go_with_the_next_writing(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        (tmp_path / CLEAN).write_text("0\n2\na 0 0\ngone 3 7\n")

        clean(manager)

        assert checkpoint(tmp_path, CLEAN) == {"a-0": 10}


def test_old_segments_of_compacted_logs_go_after_each_round(tmp_path: Path) -> None:
    with node(tmp_path, policy="compact,delete", retention_ms=1000).running() as manager:
        log = new_log(manager, count=12, keys=99, timestamp=NOW - 5000)
        log.config = log.config.with_overrides({"min.cleanable.dirty.ratio": 1.0})

        assert not clean(manager)

        assert (log.log_start_offset, len(log.segments)) == (12, 1)


def test_segments_below_the_start_of_a_compacted_log_go(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager, keys=99)
        log.increment_log_start_offset(6)

        clean(manager)

        assert log.segments.first.base_offset == 5


def test_nothing_past_the_high_watermark_is_cleaned(tmp_path: Path) -> None:
    """What is not replicated may yet be taken back, and must not have replaced what is."""
    with node(tmp_path).running() as manager:
        log = new_log(manager, count=16)
        log.update_high_watermark(7)

        clean(manager)

        assert offsets(log) == [4, *range(5, 16)]


# Failures


def test_a_log_that_cannot_be_cleaned_is_passed_over_and_tried_again_later(tmp_path: Path) -> None:
    own = node(tmp_path)
    with own.running() as manager:
        log = new_log(manager, count=11, keys=99)
        path = tmp_path / "a-0" / f"{0:020d}.log"
        data = path.read_bytes()
        path.write_bytes(data[:16] + b"\x09" + data[17:])  # a magic that no batch has

        assert clean(manager)
        assert manager.cleaner.manager.is_uncleanable(log)
        assert manager.cleaner.metrics()["uncleanable-bytes"] == log.size
        assert checkpoint(tmp_path, CLEAN) == {"a-0": 0}
        assert not clean(manager)

        path.write_bytes(data)
        own.clock.sleep(3_600_000)
        assert clean(manager)
        assert checkpoint(tmp_path, CLEAN) == {"a-0": 10}


class FullDisk(Disk):
    """Creates no file of a cleaning once `is_full`."""

    is_full = False

    def create(self, path: Any, size: int = 0) -> None:
        if self.is_full and str(path).endswith(".cleaned"):
            raise DiskError(path, "no space left on device")
        super().create(path, size)


def test_a_disk_that_refuses_takes_its_directory_offline_and_the_others_serve_on(tmp_path: Path) -> None:
    disk = FullDisk()
    own = node(tmp_path / "x", tmp_path / "y", disk=disk)
    manager = own.start()
    new_log(manager)
    disk.is_full = True

    assert clean(manager)

    assert len(manager.live_log_dirs) == 1
    assert not clean(manager)
    manager.shutdown()


# Stop


class Gate:
    """Holds a cleaning up at its first run of batches, until it is opened."""

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
    """Do something that the cleaner must let go for, which is told so before the gate is opened."""
    other = threading.Thread(target=action)
    other.start()
    while manager.cleaner.manager.state(A) is not State.ABORTED:
        assert other.is_alive()
    gate.opened.set()
    other.join(20)
    gate.thread.join(20)
    assert not other.is_alive()
    assert not gate.thread.is_alive()


def test_a_log_that_is_being_cleaned_can_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        gate = Gate(manager, monkeypatch)

        stopping(manager, gate, lambda: manager.async_delete(A))

        assert manager.get_log(A) is None
        assert not list(tmp_path.glob("*/*.cleaned"))


def test_a_truncation_stops_the_cleaner_and_lowers_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager)
        clean(manager)
        fill(log, 15)
        clean(manager)
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 25
        fill(log, 40)
        gate = Gate(manager, monkeypatch)

        stopping(manager, gate, lambda: manager.truncate_to({A: 12}))

        assert log.log_end_offset == 12
        assert checkpoint(tmp_path, CLEAN)["a-0"] == log.segments.active.base_offset < 12
        assert manager.cleaner.manager.state(A) is None


def test_a_log_that_is_truncated_past_its_manager_is_not_taken_for_clean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner is in the middle of it, and nobody has told it."""
    with node(tmp_path).running() as manager:
        log = new_log(manager)
        clean(manager)
        fill(log, 15)
        clean(manager)
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 25
        fill(log, 40)
        gate = Gate(manager, monkeypatch)

        log.truncate_to(12)
        fill(log, 40)
        gate.opened.set()
        gate.thread.join(PATIENCE_S)

        assert not gate.thread.is_alive()
        assert checkpoint(tmp_path, CLEAN)["a-0"] == 12
        assert manager.cleaner.metrics()["uncleanable-partitions-count"] == 0
        assert clean(manager)  # and it is its turn again


def test_what_was_aborted_does_not_count_as_clean(tmp_path: Path) -> None:
    """Whoever stopped it may have cut the log since."""
    with node(tmp_path).running() as manager:
        new_log(manager)
        cleaner = manager.cleaner.manager
        found = cleaner.grab_filthiest()
        assert found is not None
        other = threading.Thread(target=cleaner.abort_and_pause, args=(A,))
        other.start()
        while cleaner.state(A) is not State.ABORTED:
            assert other.is_alive()

        cleaner.done_cleaning(found[0], 10)

        other.join(20)
        assert cleaner.state(A) is State.PAUSED
        assert cleaner.clean_offsets(str(tmp_path)) == {}
        cleaner.resume([A])


def test_a_topic_that_is_no_longer_compacted_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager)
        gate = Gate(manager, monkeypatch)

        stopping(manager, gate, lambda: manager.update_topic_config("a", {"cleanup.policy": "delete"}))

        assert len(log.segments) == 3
        assert not clean(manager)


def test_a_log_that_moves_takes_its_checkpoint_along(tmp_path: Path) -> None:
    first, second = tmp_path / "x", tmp_path / "y"
    with node(first, second).running() as manager:
        manager.set_preferred_log_dir(A, first)
        new_log(manager)
        clean(manager)

        manager.move_log(A, second)

        assert checkpoint(second, CLEAN) == {"a-0": 10}
        assert checkpoint(first, CLEAN) == {}


def test_a_deleted_log_takes_its_checkpoint_along(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        clean(manager)

        manager.async_delete(A)

        assert checkpoint(tmp_path, CLEAN) == {}


def test_retention_and_the_cleaner_keep_off_each_other_s_logs(tmp_path: Path) -> None:
    """While retention is at a log its policy may change to compact, and the cleaner must not begin."""
    with node(tmp_path, policy="delete").running() as manager:
        new_log(manager)
        cleaner = manager.cleaner.manager
        paused = cleaner.pause_not_compacted()

        manager.update_topic_config(
            "a", {"cleanup.policy": "compact", "internal.segment.bytes": 5 * SET_SIZE}
        )
        assert cleaner.grab_filthiest() is None
        cleaner.resume(log.topic_partition for log in paused)

        found = cleaner.grab_filthiest()
        assert found is not None
        cleaner.done_cleaning(found[0], 0)


# In the background


def test_threads_clean_several_logs_and_end_with_the_manager(tmp_path: Path) -> None:
    own = Node(
        tmp_path, log_cleaner_enable=True, log_cleaner_threads=2, log={**SEGMENT, "cleanup_policy": "compact"}
    )
    with own.running() as manager:
        logs = [new_log(manager, TopicPartition(f"t{number}", 0)) for number in range(4)]
        own.wait(30_000)
        until(lambda: (tmp_path / CLEAN).exists() and len(checkpoint(tmp_path, CLEAN)) == 4)
        assert manager.cleaner.metrics()["DeadThreadCount"] == 0
        assert checkpoint(tmp_path, CLEAN) == {f"t{number}-0": 10 for number in range(4)}
        assert [offsets(log) for log in logs] == [[9, 10]] * 4

    assert not [thread for thread in threading.enumerate() if "log-cleaner" in thread.name]


@pytest.mark.parametrize("fault", [KeyError("a mistake"), MemoryError()])
def test_an_error_that_is_not_ours_costs_one_log_and_not_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, fault: Exception
) -> None:
    check = LogCleaner._check

    def fail(cleaner: LogCleaner, log: Log) -> None:
        if log.topic_partition == A:
            raise fault
        check(cleaner, log)

    monkeypatch.setattr(LogCleaner, "_check", fail)
    own = Node(tmp_path, log_cleaner_enable=True, log={**SEGMENT, "cleanup_policy": "compact"})
    with own.running() as manager:
        dirtier = new_log(manager, A, 30)
        new_log(manager, B)
        own.wait(30_000)
        until(lambda: (tmp_path / CLEAN).exists() and checkpoint(tmp_path, CLEAN).get("b-0") == 10)

        assert checkpoint(tmp_path, CLEAN)["b-0"] == 10
        metrics = manager.cleaner.metrics()
        assert metrics["DeadThreadCount"] == 0
        assert metrics["uncleanable-partitions-count"] == 1
        assert metrics["uncleanable-bytes"] == dirtier.size
        assert (
            f"a-0 could not be cleaned, and the next attempt is in an hour: {type(fault).__name__}"
            in caplog.text
        )
        assert manager.cleaner.manager.state(A) is None

        monkeypatch.setattr(LogCleaner, "_check", check)
        own.clock.sleep(3_600_000)
        assert clean(manager)
        assert len(offsets(dirtier)) < 30


def test_an_error_that_is_not_ours_in_deleting_old_segments_costs_one_log_and_not_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path, policy="compact,delete", retention_ms=1000).running() as manager:
        bad, good = new_log(manager, A), new_log(manager, B, timestamp=NOW - 5000)
        monkeypatch.setattr(bad, "delete_old_segments", lambda: {}["a mistake"])

        clean(manager)

        assert good.log_start_offset > 0
        assert manager.cleaner.metrics()["uncleanable-partitions-count"] == 1
        assert manager.cleaner.manager.state(A) is None


def test_an_error_that_is_not_ours_in_choosing_costs_one_log_and_not_the_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path).running() as manager:
        bad, good = new_log(manager, A), new_log(manager, B)

        with monkeypatch.context() as patched:
            patched.setattr(bad, "segments", ())
            assert clean(manager)

        assert len(offsets(good)) < 11
        assert manager.cleaner.manager.is_uncleanable(bad)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_a_fault_has_ended_is_counted_and_its_log_is_given_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(LogCleaner, "_check", fault)
    own = Node(tmp_path, log_cleaner_enable=True, log={**SEGMENT, "cleanup_policy": "compact"})
    with own.running() as manager:
        new_log(manager)
        own.wait(30_000)
        until(lambda: manager.cleaner.metrics()["DeadThreadCount"])

        assert manager.cleaner.metrics()["DeadThreadCount"] == 1
        assert manager.cleaner.manager.state(A) is None


def test_a_cleaner_that_is_held_to_a_rate_waits_and_still_ends_with_the_manager(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(throttling, "CHECK_INTERVAL_S", 0.0)
    own = Node(
        tmp_path,
        log_cleaner_enable=True,
        log_cleaner_io_max_bytes_per_second=0.01,  # the first run of batches takes hours
        log={**SEGMENT, "cleanup_policy": "compact"},
    )
    with own.running() as manager:
        new_log(manager)
        own.wait(30_000)
        until(lambda: manager.cleaner._throttle._lock.locked())  # with which it sleeps
        assert manager.cleaner.manager.state(A) is State.IN_PROGRESS

    assert not [thread for thread in threading.enumerate() if "log-cleaner" in thread.name]
    assert not list(tmp_path.glob("*/*.cleaned"))
    with own.running() as manager:
        assert offsets(manager.get_or_create_log(A)) == list(range(11))


def test_old_segments_go_by_the_schedule(tmp_path: Path) -> None:
    own = node(tmp_path, policy="delete", retention_ms=1000)
    with own.running() as manager:
        log = new_log(manager, count=12, timestamp=NOW - 5000)

        own.wait(30_000)
        assert len(log.segments) == 1
        assert len(list(tmp_path.glob("a-0/*.log.deleted"))) == 3

        own.wait(1000)
        assert not list(tmp_path.glob("a-0/*.deleted"))


def test_the_schedule_keeps_logs_to_their_size(tmp_path: Path) -> None:
    own = node(tmp_path, policy="delete", retention_bytes=10 * SET_SIZE, retention_ms=-1)
    with own.running() as manager:
        log = new_log(manager, count=50)

        own.wait(30_000)

        assert log.size == 10 * SET_SIZE


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_the_schedule_leaves_compacted_logs_to_the_cleaner(tmp_path: Path, policy: str) -> None:
    own = node(tmp_path, policy=policy, retention_ms=1000)
    with own.running() as manager:
        log = new_log(manager, count=12, timestamp=NOW - 5000)

        own.wait(30_000)

        assert len(log.segments) == 3


def test_a_manager_that_was_told_no_settings_deletes_nothing(tmp_path: Path) -> None:
    own = Node(tmp_path)
    manager = LogManager([tmp_path], clock=own.clock, scheduler=own.scheduler)
    manager.startup()
    new_log(manager, count=12, timestamp=10)

    assert not {"kafka-log-retention", "kafka-log-cleaner"} & set(own.wait(30_000))
    manager.shutdown()


def test_consumer_offsets_without_settings_are_spared(tmp_path: Path) -> None:
    key = TopicPartition("__consumer_offsets", 0)
    own = node(tmp_path, policy="delete", retention_ms=1000)
    with own.running() as manager:
        log = new_log(manager, key, count=12, timestamp=NOW - 5000)
        own.wait(30_000)
        assert len(log.segments) == 3

    topics = TopicConfigs(own.server.log, {"__consumer_offsets": {"retention.ms": 1000}})
    with own.running(topics=topics) as manager:
        found = manager.get_log(key)
        assert found is not None
        own.wait(300_000)
        assert len(found.segments) == 1


def test_a_throttle_sleeps_off_what_was_too_fast() -> None:
    now, slept = [0.0], []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    throttle = Throttle(1000, clock=lambda: now[0], sleep=sleep)
    throttle(900)
    assert slept == []  # the window is not over
    now[0] = 0.5
    throttle(600)
    assert slept == [pytest.approx(1.0)]  # 1500 bytes take 1.5 s
    now[0] += 1
    throttle(500)
    assert len(slept) == 1
