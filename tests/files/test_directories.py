"""Directories made with those above them, and on the device when that is promised."""

from __future__ import annotations

from stratalog.files.directories import make_directories, make_unsynced_directories
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
