"""The periodic work of a manager: flushes, checkpoints, directories that are found to have failed."""

from __future__ import annotations

from pathlib import Path

from stratalog.directory.topic_configs import TopicConfigs
from stratalog.files.names import TopicPartition
from tests.manager.failing import Three
from tests.manager.running import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    ORDERS,
    RECOVERY_POINTS,
    Node,
    append,
    checkpoint,
    fixture_copy,
)


def test_recovery_points_are_written_as_logs_are_flushed(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        for partition in (0, 1):
            log = manager.get_or_create_log(TopicPartition("orders", partition), is_new=True)
            append(log, b"a", b"b", b"c")
        log.flush()
        manager.checkpoint_log_recovery_offsets()

        assert checkpoint(tmp_path, RECOVERY_POINTS) == {"orders-0": 0, "orders-1": 3}
    assert checkpoint(tmp_path, RECOVERY_POINTS) == {"orders-0": 3, "orders-1": 3}


def test_a_start_offset_is_written_while_it_lies_inside_the_first_segment(tmp_path: Path) -> None:
    with Node(tmp_path).running(high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        append(log, b"a", b"b", b"c")
        manager.checkpoint_log_start_offsets()
        assert checkpoint(tmp_path, LOG_STARTS) == {}

        log.delete_records(2)
        manager.checkpoint_log_start_offsets()
        assert checkpoint(tmp_path, LOG_STARTS) == {"orders-0": 2}

        log.truncate_fully_and_start_at(2)
        manager.checkpoint_log_start_offsets()
        assert checkpoint(tmp_path, LOG_STARTS) == {}


def test_the_start_entry_of_a_tiered_topic_stays_as_it_is(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / LOG_STARTS).write_text("0\n2\ntrimmed 0 17\nrolled 0 0\n")
    topics = TopicConfigs(overrides={"rolled": {"remote.storage.enable": True}})

    with Node(data).running(topics=topics):
        pass

    assert checkpoint(data, LOG_STARTS) == {"trimmed-0": 17, "rolled-0": 0}


def test_a_checkpoint_that_cannot_be_read_is_told_and_written_anew(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / HIGH_WATERMARKS).write_text("1\nnonsense\n")

    with Node(data).running() as manager:
        (problem,) = manager.problems
        assert problem.name == HIGH_WATERMARKS

    assert len(checkpoint(data, HIGH_WATERMARKS)) == 12


def test_the_broker_s_work_is_on_the_schedule(tmp_path: Path) -> None:
    node = Node(tmp_path, log_flush_scheduler_interval_ms=1000)
    manager = node.start()

    assert set(node.wait(30_000)) == {
        "kafka-log-flusher",
        "kafka-recovery-point-checkpoint",
        "kafka-log-start-offset-checkpoint",
        "highwatermark-checkpoint",
        "PeriodicProducerExpirationCheck",
        "kafka-log-retention",
        "kafka-log-cleaner",
    }
    assert node.wait(1000) == ["kafka-log-flusher"]
    manager.shutdown()
    node.wait(1_000_000)
    assert node.wait(1_000_000) == []


def test_logs_are_flushed_when_their_time_has_come(tmp_path: Path) -> None:
    node = Node(tmp_path, log_flush_scheduler_interval_ms=1000, log={"flush_ms": 40_000})
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        append(log, b"a")
        node.wait(30_000)
        assert log.recovery_point == 0

        node.wait(10_000)
        assert log.recovery_point == 1


def test_scheduled_work_finds_the_directory_that_failed(three: Three) -> None:
    manager = three.start()
    three.break_first()

    three.node.wait(30_000)

    assert manager.metrics()["OfflineLogDirectoryCount"] == 1
    manager.shutdown()
