"""Opening, creating, checkpointing and closing the logs of a node's directories."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest

from stratalog.directory.topic_configs import TopicConfigs
from stratalog.errors import InvalidNameError, LogDirLockedError, TwoNodesError, UsageError
from stratalog.files.lock import is_locked
from stratalog.files.names import TopicPartition
from stratalog.manager.manager import LogManager
from tests.manager.running import (
    MARKER,
    ORDERS,
    Node,
    append,
    checkpoint,
    contents,
    fixture_copy,
    values,
)

RECOVERY_POINTS = "recovery-point-offset-checkpoint"
LOG_STARTS = "log-start-offset-checkpoint"
HIGH_WATERMARKS = "replication-offset-checkpoint"
# Snapshots at the log ends of earlier stops, which belong to no segment: each load removes them, Kafka's too.
OLD_SNAPSHOTS = {
    f"compacted-0/{156:020d}.snapshot",
    f"idempotent-0/{52:020d}.snapshot",
    f"rolled-0/{60:020d}.snapshot",
}


def test_a_broker_s_directory_is_opened_and_left_as_it_was(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data", without_waiting=True)
    # Written in another order: a checkpoint's lines are a hash map's.
    unordered = (RECOVERY_POINTS, HIGH_WATERMARKS)
    # An epoch without records is forgotten by every load, Kafka's too, and comes again with the next leader.
    others = (*unordered, "leader-epoch-checkpoint")
    before = {name: kept for name, kept in contents(data, but=others).items() if name not in OLD_SNAPSHOTS}
    expected = [checkpoint(data, name) for name in unordered]

    with Node(data).running() as manager:
        assert len(manager.all_logs()) == 12
        assert not (data / MARKER).exists()

    assert contents(data, but=others) == before
    assert [checkpoint(data, name) for name in unordered] == expected


def test_a_manager_that_is_closed_when_its_process_ends_leaves_a_clean_directory(tmp_path: Path) -> None:
    program = """if True:
        import atexit
        import sys

        from stratalog.files.names import TopicPartition
        from stratalog.manager.manager import LogManager

        manager = LogManager([sys.argv[1]])
        atexit.register(manager.shutdown)
        manager.startup()
        manager.get_or_create_log(TopicPartition("orders", 0), is_new=True)
    """

    ran = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )

    assert ran.stderr == ""
    assert (tmp_path / MARKER).exists()


def test_marks_come_from_the_checkpoints(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")

    with Node(data).running() as manager:
        trimmed = manager.get_log(TopicPartition("trimmed", 0))
        assert trimmed is not None
        assert (trimmed.log_start_offset, trimmed.high_watermark, trimmed.log_end_offset) == (17, 30, 30)
        assert values(trimmed)[0] == b"trimmed 17 "


@pytest.mark.parametrize(("entry", "expected"), [(20, 20), (5, 17), (99, 30)])
def test_a_high_watermark_is_moved_into_the_log_and_never_raised_to_its_end(
    tmp_path: Path, entry: int, expected: int
) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / HIGH_WATERMARKS).write_text(f"0\n1\ntrimmed 0 {entry}\n")

    with Node(data).running() as manager:
        trimmed = manager.get_log(TopicPartition("trimmed", 0))
        assert trimmed is not None
        assert trimmed.high_watermark == expected

    assert checkpoint(data, HIGH_WATERMARKS)["trimmed-0"] == expected


def test_a_log_without_replicas_can_be_read_to_its_end_at_once(tmp_path: Path) -> None:
    with Node(tmp_path).running(high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        append(log, b"a")
        assert log.high_watermark == 1


def test_topics_have_the_settings_that_the_cluster_s_metadata_says(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")

    with Node(data, log={"index_interval_bytes": 512}).running() as manager:
        rolled = manager.get_log(TopicPartition("rolled", 0))
        assert rolled is not None
        assert (rolled.config.segment_size, rolled.config.index_interval_bytes) == (1500, 512)


def test_settings_that_are_given_go_before_those_of_the_metadata(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    topics = TopicConfigs(overrides={"rolled": {"retention.ms": 5}})

    with Node(data).running(topics=topics) as manager:
        rolled = manager.get_log(TopicPartition("rolled", 0))
        assert rolled is not None
        assert (rolled.config.retention_ms, rolled.config.internal_segment_bytes) == (5, None)


# Create


def test_a_log_is_created_once_and_is_there_again_after_a_restart(tmp_path: Path) -> None:
    node, topic_id = Node(tmp_path / "data"), uuid4()
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True, topic_id=topic_id)
        append(log, b"a", b"b")
        assert manager.get_or_create_log(ORDERS, topic_id=topic_id) is log

    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, topic_id=topic_id)
        assert values(log) == [b"a", b"b"]
    assert (tmp_path / "data" / "orders-0" / "partition.metadata").exists()


def test_a_partition_with_a_negative_number_is_not_created(tmp_path: Path) -> None:
    with Node(tmp_path / "a").running() as manager, pytest.raises(InvalidNameError, match="not negative"):
        manager.get_or_create_log(TopicPartition("orders", -1), is_new=True)

    assert not (tmp_path / "a" / "orders--1").exists()


def test_looking_for_a_log_creates_nothing(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        assert manager.get_log(ORDERS) is None

    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_log_of_another_topic_of_the_same_name_is_refused(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        manager.get_or_create_log(ORDERS, is_new=True, topic_id=uuid4())

        with pytest.raises(UsageError, match="the topic's id is"):
            manager.get_or_create_log(ORDERS, topic_id=uuid4())


def test_new_logs_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "abc"]
    with Node(*directories).running() as manager:
        for partition in range(7):
            manager.get_or_create_log(TopicPartition("orders", partition), is_new=True)

    assert sorted(len(list(path.glob("orders-*"))) for path in directories) == [2, 2, 3]


def test_a_log_goes_where_it_is_wanted(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        manager.set_preferred_log_dir(ORDERS, f"{second}/")
        manager.get_or_create_log(ORDERS, is_new=True)
        other = manager.get_or_create_log(TopicPartition("orders", 1), is_new=True, directory=second)

    assert (second / "orders-0").is_dir()
    assert other.directory == str(second / "orders-1")


def test_a_directory_that_is_not_the_manager_s_is_refused(tmp_path: Path) -> None:
    with (
        Node(tmp_path / "a").running() as manager,
        pytest.raises(UsageError, match="not a directory of this log manager"),
    ):
        manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "b")


@pytest.mark.parametrize("cordoned", ["*", "all", "first"])
def test_a_cordoned_directory_gets_no_new_log_unless_all_are(tmp_path: Path, cordoned: str) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    names = {"*": ("*",), "all": (str(first), str(second)), "first": (f"{first}/",)}[cordoned]
    with Node(first, second, cordoned_log_dirs=names).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)

    assert log.directory == str((second if cordoned == "first" else first) / "orders-0")


# Checkpoints


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


def test_truncation_writes_only_the_recovery_points_of_its_directory(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(first, second).running() as manager:
        for partition, directory in enumerate((first, second)):
            key = TopicPartition("orders", partition)
            append(manager.get_or_create_log(key, is_new=True, directory=directory), b"a", b"b", b"c")
        manager.truncate_to({ORDERS: 1, TopicPartition("orders", 1): 9, TopicPartition("gone", 0): 1})

        assert checkpoint(first, RECOVERY_POINTS) == {"orders-0": 0}
        assert not (second / RECOVERY_POINTS).exists()

        manager.truncate_fully_and_start_at(TopicPartition("orders", 1), 7)
        assert checkpoint(second, RECOVERY_POINTS) == {"orders-1": 0}


def test_a_checkpoint_that_cannot_be_read_is_told_and_written_anew(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / HIGH_WATERMARKS).write_text("1\nnonsense\n")

    with Node(data).running() as manager:
        (problem,) = manager.problems
        assert problem.name == HIGH_WATERMARKS

    assert len(checkpoint(data, HIGH_WATERMARKS)) == 12


# Scheduled work


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


def test_others_join_the_schedule_and_are_stopped_first(tmp_path: Path) -> None:
    node = Node(tmp_path)
    told: list[str] = []
    with node.running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        manager.add_task(
            "kafka-log-retention",
            lambda: told.append("worked"),
            every_ms=300_000,
            stop=lambda: told.append(f"stopped, recovery point {log.recovery_point}"),
        )
        append(log, b"a")
        node.wait(30_000)
        node.wait(300_000)

    assert told == ["worked", "worked", "stopped, recovery point 0"]


def test_a_task_that_fails_comes_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running() as manager:
        tries: list[int] = []

        def fail_once() -> None:
            tries.append(len(tries))
            if len(tries) == 1:
                raise UsageError("not now")

        manager.add_task("work", fail_once, every_ms=1000)
        with pytest.raises(UsageError):
            node.wait(30_000)
        node.wait(1000)

    assert tries == [0, 1]


def test_new_settings_of_a_topic_reach_its_open_logs(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        other = manager.get_or_create_log(TopicPartition("events", 0), is_new=True)

        manager.update_topic_config("orders", {"retention.ms": 7})

        assert (log.config.retention_ms, other.config.retention_ms) == (7, 604_800_000)
        again = manager.get_or_create_log(TopicPartition("orders", 1), is_new=True)
        assert again.config.retention_ms == 7


# Lock and marker


def test_the_lock_is_held_from_start_to_end(tmp_path: Path) -> None:
    node = Node(tmp_path)
    with node.running():
        assert is_locked(tmp_path)
        with pytest.raises(LogDirLockedError):
            Node(tmp_path).start()

    assert not is_locked(tmp_path)
    with node.running():
        pass


def test_one_directory_in_use_lets_go_of_the_others(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with Node(second).running():
        with pytest.raises(LogDirLockedError):
            Node(first, second).start()

        assert not is_locked(first)


def epoch_in(directory: Path) -> int:
    epoch: int = json.loads((directory / MARKER).read_text("utf-8"))["brokerEpoch"]
    return epoch


def test_a_directory_that_was_opened_clean_gets_its_epoch_back(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    expected = (data / MARKER).read_bytes()

    with Node(data).running() as manager:
        log = manager.get_log(TopicPartition("txn", 0))
        assert log is not None
        append(log, b"more")

    assert (data / MARKER).read_bytes() == expected


def test_a_broker_says_its_epoch_in_every_directory(tmp_path: Path) -> None:
    directories = [tmp_path / name for name in "ab"]
    manager = Node(*directories).start()

    manager.shutdown(broker_epoch=42)

    assert [epoch_in(directory) for directory in directories] == [42, 42]
    manager.shutdown(broker_epoch=43)
    assert epoch_in(directories[0]) == 42


def test_a_new_directory_has_no_epoch(tmp_path: Path) -> None:
    with Node(tmp_path / "new").running():
        pass

    assert epoch_in(tmp_path / "new") == -1


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_start_that_finds_directories_of_two_nodes_changes_nothing(tmp_path: Path, state: str) -> None:
    first, second = fixture_copy(state, tmp_path / "a"), tmp_path / "b"
    second.mkdir()
    (second / "meta.properties").write_text("version=1\nnode.id=2\ncluster.id=rHefJaIxR-W46knXddBQhg\n")
    before = contents(first)

    with pytest.raises(TwoNodesError, match="belongs to node 2"):
        Node(first, second).start()

    assert contents(first) == before
    assert not is_locked(first)


@pytest.mark.parametrize("state", ["clean", "killed"])
def test_a_partition_that_is_there_twice_keeps_it_from_starting(tmp_path: Path, state: str) -> None:
    data = fixture_copy(state, tmp_path / "a")
    (tmp_path / "b" / "rolled-0").mkdir(parents=True)
    (tmp_path / "b" / MARKER).touch()
    before = contents(data)

    with pytest.raises(UsageError, match="rolled-0 is also in"):
        Node(tmp_path / "a", tmp_path / "b").start()

    assert contents(data) == before


def test_one_directory_named_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="named twice"):
        Node(tmp_path, tmp_path / "x" / "..").manager()


def test_what_is_no_partition_is_told_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "remote-log-index-cache").mkdir()

    with Node(tmp_path).running() as manager:
        assert [problem.name for problem in manager.problems] == ["lost+found"]

    assert (tmp_path / "remote-log-index-cache").is_dir()


def test_a_relative_directory_is_one_and_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Node(Path("data")).running() as manager:
        manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "data")
        assert manager.live_log_dirs == (str(tmp_path / "data"),)
        manager.checkpoint_log_recovery_offsets()

    assert checkpoint(tmp_path / "data", RECOVERY_POINTS) == {"orders-0": 0}


def test_a_manager_is_used_between_start_and_end(tmp_path: Path) -> None:
    manager = Node(tmp_path).manager()
    with pytest.raises(UsageError, match="not started"):
        manager.get_or_create_log(ORDERS, is_new=True)
    manager.startup()
    with pytest.raises(UsageError, match="already started"):
        manager.startup()
    manager.shutdown()
    with pytest.raises(UsageError, match="shut down"):
        manager.async_delete(ORDERS)
    with pytest.raises(UsageError, match="make another one"):
        manager.startup()


def test_the_name_of_one_directory_is_not_taken_for_a_list_of_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    for one in ("data", Path("data")):
        with pytest.raises(UsageError, match="give a list of them"), LogManager(one):  # type: ignore[arg-type]
            pass

    assert not list(tmp_path.iterdir())
