"""Directories that fail: they go offline, the others serve on, and no marker says more than is known."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.entries import Path as AnyPath
from stratalog.files.lock import is_locked
from stratalog.files.names import TopicPartition
from stratalog.manager.manager import LogManager
from tests.manager.running import MARKER, ORDERS, Node, append, checkpoint, fixture_copy, values


class BrokenDisk(Disk):
    """A disk that refuses to sync, or to list, what is below a directory, once that is said."""

    def __init__(self) -> None:
        super().__init__()
        self.broken: str | None = None

    def _refuse(self, path: AnyPath) -> None:
        if self.broken is not None and str(path).startswith(self.broken):
            raise DiskError(path, "Input/output error", errno.EIO)

    def sync(self, path: AnyPath) -> None:
        self._refuse(path)
        super().sync(path)

    def replace(self, path: AnyPath, data: bytes) -> None:  # type: ignore[override]
        self._refuse(path)
        super().replace(path, data)

    def make_directory(self, path: AnyPath) -> bool:
        self._refuse(path)
        return super().make_directory(path)

    def rename(self, source: AnyPath, target: AnyPath) -> None:
        self._refuse(source)
        super().rename(source, target)


class Three:
    """Three directories with a log each, on a disk that can break."""

    def __init__(self, root: Path) -> None:
        self.paths = [root / name for name in "abc"]
        self.disk = BrokenDisk()
        self.node = Node(*self.paths, disk=self.disk)
        self.keys = [TopicPartition("orders", number) for number in range(3)]

    def start(self) -> LogManager:
        manager = self.node.start()
        for key, path in zip(self.keys, self.paths, strict=True):
            append(manager.get_or_create_log(key, directory=path, is_new=True), b"a")
        return manager

    def break_first(self) -> None:
        self.disk.broken = str(self.paths[0])

    def epochs(self) -> list[int | None]:
        markers = [path / MARKER for path in self.paths]
        return [json.loads(path.read_text())["brokerEpoch"] if path.exists() else None for path in markers]


@pytest.fixture
def three(tmp_path: Path) -> Three:
    return Three(tmp_path)


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


def test_no_marker_has_an_epoch_when_one_directory_failed(three: Three) -> None:
    manager = three.start()
    three.break_first()

    manager.checkpoint_log_recovery_offsets()
    manager.shutdown(broker_epoch=9)

    assert three.epochs() == [None, -1, -1]


def test_a_log_that_cannot_be_closed_costs_its_directory_the_marker(three: Three) -> None:
    manager = three.start()
    manager.checkpoint_high_watermarks()
    log = manager.get_log(three.keys[0])
    assert log is not None
    three.disk.broken = log.directory

    with pytest.raises(DiskError):
        manager.shutdown(broker_epoch=9)

    assert three.epochs() == [None, -1, -1]
    assert checkpoint(three.paths[1], "recovery-point-offset-checkpoint") == {"orders-1": 1}
    assert not any(is_locked(path) for path in three.paths)


def test_a_marker_that_cannot_be_written_takes_the_epoch_from_the_others(three: Three) -> None:
    manager = three.start()
    three.disk.broken = str(three.paths[2] / MARKER)

    manager.shutdown(broker_epoch=9)  # all records are on the device, so this is no error of the caller's

    assert three.epochs() == [-1, -1, None]
    assert [directory.failure is None for directory in manager.directories] == [True, True, False]


def test_all_is_well_is_what_the_epoch_says(three: Three) -> None:
    three.start().shutdown(broker_epoch=9)

    assert three.epochs() == [9, 9, 9]


def test_a_directory_that_failed_is_not_touched_any_more(three: Three) -> None:
    manager = three.start()
    before = sorted(path.name for path in three.paths[0].rglob("*"))
    manager.handle_log_dir_failure(three.paths[0], DiskError(three.paths[0], "pulled out"))

    manager.checkpoint_log_recovery_offsets()
    manager.checkpoint_log_start_offsets()
    manager.checkpoint_high_watermarks()
    manager.shutdown()

    assert sorted(path.name for path in three.paths[0].rglob("*")) == before


def test_only_new_logs_are_created_while_a_directory_is_offline(three: Three) -> None:
    manager = three.start()
    manager.handle_log_dir_failure(three.paths[0], DiskError(three.paths[0], "pulled out"))

    with pytest.raises(DiskError, match="offline"):
        manager.get_or_create_log(TopicPartition("may-be-there", 0))
    with pytest.raises(DiskError, match="offline"):
        manager.get_or_create_log(three.keys[0])
    with pytest.raises(DiskError, match="offline"):
        manager.get_or_create_log(TopicPartition("new", 0), is_new=True, directory=three.paths[0])
    log = manager.get_or_create_log(TopicPartition("new", 0), is_new=True)
    assert not log.directory.startswith(str(three.paths[0]))
    manager.shutdown()


def test_a_log_that_cannot_be_created_in_one_directory_is_created_in_the_next(tmp_path: Path) -> None:
    disk = BrokenDisk()
    with Node(tmp_path / "a", tmp_path / "b", disk=disk).running() as manager:
        disk.broken = str(tmp_path / "a")

        log = manager.get_or_create_log(ORDERS, is_new=True)

        assert log.directory == str(tmp_path / "b" / "orders-0")
        assert manager.live_log_dirs == (str(tmp_path / "b"),)


def test_a_log_that_can_be_created_nowhere_is_an_error(tmp_path: Path) -> None:
    disk = BrokenDisk()
    manager = Node(tmp_path / "a", tmp_path / "b", disk=disk).start()
    disk.broken = str(tmp_path)

    with pytest.raises(DiskError, match="orders-0 could not be created"):
        manager.get_or_create_log(ORDERS, is_new=True)
    with pytest.raises(DiskError, match="no log directory is online"):
        manager.get_or_create_log(ORDERS, is_new=True)

    manager.shutdown()
    assert not (tmp_path / "a" / MARKER).exists()


def test_a_directory_that_cannot_be_used_is_offline_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "a").touch()  # a file, where a directory should be

    with Node(tmp_path / "a", tmp_path / "b").running() as manager:
        assert manager.live_log_dirs == (str(tmp_path / "b"),)
        manager.get_or_create_log(ORDERS, is_new=True)

    assert json.loads((tmp_path / "b" / MARKER).read_text())["brokerEpoch"] == -1


def test_without_a_directory_that_can_be_used_it_does_not_start(tmp_path: Path) -> None:
    (tmp_path / "a").touch()

    with pytest.raises(DiskError, match="no log directory can be used"):
        Node(tmp_path / "a").start()


def test_a_clean_directory_that_fails_while_it_is_loaded_is_offline(tmp_path: Path) -> None:
    data = fixture_copy("clean", tmp_path / "a")
    (data / "txn-0" / "leader-epoch-checkpoint").write_text("9\n")

    manager = Node(data, tmp_path / "b").start()

    assert manager.live_log_dirs == (str(tmp_path / "b"),)
    assert manager.all_logs() == ()
    assert not is_locked(data)
    manager.shutdown()


def test_a_deletion_that_the_disk_refuses_takes_the_directory_offline(three: Three) -> None:
    manager = three.start()
    three.break_first()

    with pytest.raises(DiskError):
        manager.async_delete(three.keys[0])

    assert manager.metrics()["OfflineLogDirectoryCount"] == 1
    assert (three.paths[0] / "orders-0").is_dir()
    manager.shutdown()


def test_scheduled_work_finds_the_directory_that_failed(three: Three) -> None:
    manager = three.start()
    three.break_first()

    three.node.wait(30_000)

    assert manager.metrics()["OfflineLogDirectoryCount"] == 1
    manager.shutdown()
