"""Directories made with those above them, and removed with all below; on the device when that is promised."""

from __future__ import annotations

from pathlib import Path

from stratalog.files.directories import make_directories, make_unsynced_directories, remove_directory
from stratalog.files.disk import Disk
from stratalog.files.simulated import SimulatedDisk


def test_directories_above_are_made_and_outlast_a_power_cut() -> None:
    disk = SimulatedDisk()

    make_directories(disk, "/a/b/c")

    assert disk.exists("/a/b/c")
    assert all(after.exists("/a/b/c") for after in disk.crash())


def test_who_syncs_later_is_told_what_to_sync() -> None:
    disk = SimulatedDisk()
    make_directories(disk, "/a")

    assert make_unsynced_directories(disk, "/a/b/c") == {"/a", "/a/b"}
    assert not all(after.exists("/a/b/c") for after in disk.crash())
    for changed in ("/a", "/a/b"):
        disk.sync_directory(changed)
    assert all(after.exists("/a/b/c") for after in disk.crash())


def test_a_directory_that_is_there_is_left_alone() -> None:
    disk = SimulatedDisk()
    make_directories(disk, "/a/b")

    assert make_unsynced_directories(disk, "/a/b") == set()


def test_a_directory_is_removed_with_everything_below_it() -> None:
    disk = SimulatedDisk.of({"/a/b/c/file": b"", "/a/b/file": b"", "/a/other": b""})

    assert remove_directory(disk, "/a/b")

    assert all(after.contents().keys() == {"/a/other"} for after in disk.crash())
    assert not remove_directory(disk, "/a/b")


def test_a_link_is_removed_and_not_followed(tmp_path: Path) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    for folder in (outside, inside):
        folder.mkdir()
    (outside / "kept").touch()
    (inside / "link").symlink_to(outside)

    assert remove_directory(Disk(), str(inside))

    assert [path.name for path in tmp_path.rglob("*")] == ["outside", "kept"]
