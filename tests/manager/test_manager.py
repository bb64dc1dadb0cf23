"""A manager from start to end: what it leaves, how it is used, and directories that fail meanwhile."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError, UsageError
from stratalog.files.lock import is_locked
from stratalog.manager.manager import LogManager
from tests.manager.failing import Three
from tests.manager.running import (
    HIGH_WATERMARKS,
    MARKER,
    ORDERS,
    RECOVERY_POINTS,
    Node,
    append,
    checkpoint,
    contents,
    fixture_copy,
    values,
)

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


def test_looking_for_a_log_creates_nothing(tmp_path: Path) -> None:
    with Node(tmp_path).running() as manager:
        assert manager.get_log(ORDERS) is None

    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_a_relative_directory_is_one_and_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Node(Path("data")).running() as manager:
        manager.get_or_create_log(ORDERS, is_new=True, directory=tmp_path / "data")
        assert manager.live_log_dirs == (str(tmp_path / "data"),)
        manager.checkpoint_log_recovery_offsets()

    assert checkpoint(tmp_path / "data", RECOVERY_POINTS) == {"orders-0": 0}


def test_the_name_of_one_directory_is_not_taken_for_a_list_of_letters(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    for one in ("data", Path("data")):
        with pytest.raises(UsageError, match="give a list of them"), LogManager(one):  # type: ignore[arg-type]
            pass

    assert not list(tmp_path.iterdir())


def test_a_log_that_fails_takes_its_directory_offline_and_the_others_serve_on(three: Three) -> None:
    manager = three.start()
    three.break_first()
    log = manager.get_log(three.keys[0])
    assert log is not None
    with pytest.raises(DiskError):
        log.flush()

    with pytest.raises(DiskError, match="offline after a failure"):
        manager.get_log(three.keys[0])

    assert manager.metrics()["OfflineLogDirectoryCount"] == 1
    assert manager.metrics()["LogDirectoryOffline"] == {
        str(path): int(path == three.paths[0]) for path in three.paths
    }
    assert manager.live_log_dirs == tuple(str(path) for path in three.paths[1:])
    other = manager.get_log(three.keys[1])
    assert other is not None
    append(other, b"b")
    assert values(other) == [b"a", b"b"]
    assert not is_locked(three.paths[0])
    manager.shutdown(broker_epoch=9)


def test_a_directory_that_failed_is_not_touched_any_more(three: Three) -> None:
    manager = three.start()
    before = sorted(path.name for path in three.paths[0].rglob("*"))
    manager.handle_log_dir_failure(three.paths[0], DiskError(three.paths[0], "pulled out"))

    manager.checkpoint_log_recovery_offsets()
    manager.checkpoint_log_start_offsets()
    manager.checkpoint_high_watermarks()
    manager.shutdown()

    assert sorted(path.name for path in three.paths[0].rglob("*")) == before
