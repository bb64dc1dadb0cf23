"""The cleaner of a log manager: what it cleans and deletes, what a failure costs, and who can stop it."""

from __future__ import annotations

import threading
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
from tests.log.model import NOW
from tests.manager.compacting import (
    CLEAN,
    SEGMENT,
    SET_SIZE,
    A,
    B,
    Gate,
    clean,
    new_log,
    node,
    offsets,
    stopping,
)
from tests.manager.running import Node, checkpoint
from tests.waiting import until

# Clean


def test_a_dirty_log_is_cleaned_and_how_far_is_written_down(tmp_path: Path) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager)

        assert clean(manager)

        assert offsets(log) == [9, 10]
        assert checkpoint(tmp_path, CLEAN) == {"a-0": 10}
        assert not clean(manager)


def test_only_compacted_logs_are_cleaned(tmp_path: Path) -> None:
    with node(tmp_path, policy="delete").running() as manager:
        new_log(manager)

        assert not clean(manager)


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
    """A record that is not replicated may still be removed, so it must not replace one that is."""
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


def test_a_log_that_is_being_cleaned_can_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with node(tmp_path).running() as manager:
        new_log(manager)
        gate = Gate(manager, monkeypatch)

        stopping(manager, gate, lambda: manager.async_delete(A))

        assert manager.get_log(A) is None
        assert not list(tmp_path.glob("*/*.cleaned"))


def test_a_topic_that_is_no_longer_compacted_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with node(tmp_path).running() as manager:
        log = new_log(manager)
        gate = Gate(manager, monkeypatch)

        stopping(manager, gate, lambda: manager.update_topic_config("a", {"cleanup.policy": "delete"}))

        assert len(log.segments) == 3
        assert not clean(manager)


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
