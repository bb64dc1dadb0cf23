"""Directories that nobody closed in order are recovered by the start, and served."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stratalog.directory.recovery.progress import Phase
from stratalog.engine.progress import Progress
from stratalog.files.names import TopicPartition
from tests.manager.running import MARKER, ORDERS, Node, append, checkpoint, contents, fixture_copy, values


def epoch_in(directory: Path) -> int:
    epoch: int = json.loads((directory / MARKER).read_text("utf-8"))["brokerEpoch"]
    return epoch


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
