"""The logs of a directory are opened: their marks, strays, directories that were not shut down cleanly."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.directory.recovery.progress import Phase
from stratalog.engine.progress import Progress
from stratalog.files.lock import is_locked
from stratalog.files.names import TopicPartition
from stratalog.log.scheduler import ScheduledTask
from tests.log.model import batch
from tests.manager.running import (
    HIGH_WATERMARKS,
    MARKER,
    ORDERS,
    Node,
    append,
    checkpoint,
    contents,
    epoch_in,
    fixture_copy,
    values,
)


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


def test_a_recovery_point_above_the_end_of_a_log_is_lowered_at_the_start(tmp_path: Path) -> None:
    """It would wrongly cover the records appended next: no file shows an end that is inside a batch."""
    with Node(tmp_path).running(high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        append(log, b"a")
        log.append_as_leader(batch(b"b", b"c"), leader_epoch=0)
        manager.truncate_to({ORDERS: 2})
    before = checkpoint(tmp_path, "recovery-point-offset-checkpoint")

    with Node(tmp_path).running(high_watermark_follows_end=True) as manager:
        found = manager.get_log(ORDERS)
        assert found is not None
        assert found.log_end_offset == 1
        after = checkpoint(tmp_path, "recovery-point-offset-checkpoint")

    assert (before, after) == ({"orders-0": 2}, {"orders-0": 1})


def test_a_log_without_replicas_can_be_read_to_its_end_at_once(tmp_path: Path) -> None:
    with Node(tmp_path).running(high_watermark_follows_end=True) as manager:
        log = manager.get_or_create_log(ORDERS, is_new=True)
        append(log, b"a")
        assert log.high_watermark == 1


def test_what_is_no_partition_is_told_and_passed_over(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "remote-log-index-cache").mkdir()

    with Node(tmp_path).running() as manager:
        assert [problem.name for problem in manager.problems] == ["lost+found"]

    assert (tmp_path / "remote-log-index-cache").is_dir()


def test_what_is_not_this_node_s_by_the_metadata_is_set_aside(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "binary-0" / "partition.metadata").unlink()

    with Node(data).running(set_strays_aside=True) as manager:
        assert manager.get_log(TopicPartition("binary", 0)) is None
        (stray,) = manager.strays
        assert Path(stray).name.startswith("binary-0.")
        assert len(manager.all_logs()) == 11

    with Node(data).running(set_strays_aside=True) as manager:
        assert manager.strays == (stray,)
        assert len(manager.all_logs()) == 11
    assert Path(stray).name.endswith("-stray")
    assert (data / MARKER).exists()


def test_nothing_is_set_aside_unless_it_is_asked_for(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "data")
    (data / "binary-0" / "partition.metadata").unlink()

    with Node(data).running() as manager:
        assert manager.get_log(TopicPartition("binary", 0)) is not None
        assert manager.strays == ()


def test_a_clean_directory_that_fails_while_it_is_loaded_is_offline(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "a")
    (data / "txn-0" / "leader-epoch-checkpoint").write_text("9\n")

    manager = Node(data, tmp_path / "b").start()

    assert manager.live_log_dirs == (str(tmp_path / "b"),)
    assert manager.all_logs() == ()
    assert not is_locked(data)
    manager.shutdown()


def test_epoch_files_are_written_only_after_all_logs_are_open(tmp_path: Path) -> None:
    """A leader that has appended nothing leaves an epoch that starts at the log's end."""
    data = fixture_copy("clean", tmp_path / "data")
    file = data / "txn-0" / "leader-epoch-checkpoint"
    with Node(data).running() as manager:
        log = manager.get_log(TopicPartition("txn", 0))
        assert log is not None
        end = log.log_end_offset
    file.write_text(f"0\n2\n0 0\n7 {end}\n")
    node = Node(data)
    loaded: list[int] = []
    schedule = node.scheduler.schedule

    def note(name: str, task: ScheduledTask, delay_ms: int = 0) -> None:
        if name == "leader-epoch-cache-flush":
            loaded.append(len(manager.all_logs()))
        schedule(name, task, delay_ms)

    node.scheduler.schedule = note  # type: ignore[method-assign]
    manager = node.start()
    node.wait(0)

    assert loaded == [len(manager.all_logs())]
    assert file.read_text() == "0\n1\n0 0\n"
    manager.shutdown()


def test_an_epoch_file_of_a_directory_that_fails_is_left_as_it_is(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "a")
    file = data / "txn-0" / "leader-epoch-checkpoint"
    stale = b"0\n2\n0 0\n7 1000000\n"
    file.write_bytes(stale)
    (data / "zlast-0").mkdir()
    (data / "zlast-0" / "leader-epoch-checkpoint").write_text("9\n")
    node = Node(data, tmp_path / "b")

    manager = node.start()
    node.wait(0)

    assert manager.live_log_dirs == (str(tmp_path / "b"),)
    assert file.read_bytes() == stale
    manager.shutdown()


def test_a_killed_broker_s_directory_is_recovered_and_served(tmp_path: Path) -> None:
    data = fixture_copy("killed", tmp_path / "data")
    told: list[Progress] = []

    with Node(data).running(on_progress=told.append) as manager:
        assert len(manager.all_logs()) == 13
        (directory,) = manager.directories
        assert directory.recovered is not None
        assert manager.get_log(TopicPartition("blocks", 0)) is not None
        assert "remainingLogsToRecover" not in manager.metrics()

    assert told[-1].stage == Phase.DONE
    assert epoch_in(data) == -1


def test_what_remains_to_be_recovered_is_a_gauge_as_long_as_something_does(tmp_path: Path) -> None:
    data = fixture_copy("killed", tmp_path / "data")
    seen: list[object] = []
    manager = Node(data).manager(
        on_progress=lambda _: seen.append(manager.metrics().get("remainingLogsToRecover"))
    )

    manager.startup()

    assert {str(data): 13} in seen
    assert {"remainingLogsToRecover", "remainingSegmentsToRecover"}.isdisjoint(manager.metrics())
    manager.shutdown()


def test_records_that_were_not_closed_over_are_there_again(tmp_path: Path) -> None:
    node = Node(tmp_path)
    crashed = node.start()
    append(crashed.get_or_create_log(ORDERS, is_new=True), b"a", b"b")
    log = crashed.get_log(ORDERS)
    assert log is not None
    crashed._let_go()  # the process dies: nothing is written any more, its locks fall

    with node.running() as manager:
        found = manager.get_log(ORDERS)
        assert found is not None
        assert values(found) == [b"a", b"b"]
        assert found.high_watermark == 0
    assert checkpoint(tmp_path, "recovery-point-offset-checkpoint") == {"orders-0": 2}


def test_a_clean_directory_beside_an_unclean_one_keeps_its_epoch(tmp_path: Path) -> None:
    """The other says none at all: a broker that finds -1 first takes the next epoch for both."""
    clean = fixture_copy("clean", tmp_path / "a")
    epoch = epoch_in(clean)
    node = Node(clean, tmp_path / "b")
    crashed = Node(tmp_path / "b").start()
    append(crashed.get_or_create_log(ORDERS, is_new=True), b"a")
    crashed._let_go()

    with node.running():
        pass

    assert epoch_in(clean) == epoch
    assert (tmp_path / "b" / MARKER).read_text() == '{"version":0}'


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_an_index_that_is_missing_in_a_clean_directory_is_built_again(tmp_path: Path, suffix: str) -> None:
    data = fixture_copy("clean", tmp_path / "data", without_waiting=True)
    epoch = epoch_in(data)
    expected = contents(data / "rolled-0", but=("leader-epoch-checkpoint",))
    if suffix == ".index":
        (data / "rolled-0" / f"{0:020d}{suffix}").unlink()
    else:
        (data / "rolled-0" / f"{0:020d}.index").unlink()
        (data / "rolled-0" / f"{0:020d}{suffix}").unlink()

    with Node(data, log={"index_interval_bytes": 512}).running() as manager:
        assert len(manager.all_logs()) == 12

    found = contents(data / "rolled-0", but=("leader-epoch-checkpoint",))
    assert found[f"{0:020d}{suffix}"] == expected[f"{0:020d}{suffix}"]
    assert epoch_in(data) == epoch


def test_a_new_directory_beside_one_that_is_recovered_is_online(tmp_path: Path) -> None:
    killed = fixture_copy("killed", tmp_path / "killed")

    with Node(killed, tmp_path / "new").running() as manager:
        assert set(manager.live_log_dirs) == {str(killed), str(tmp_path / "new")}
