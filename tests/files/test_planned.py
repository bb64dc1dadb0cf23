"""A disk that notes changes: it reads as if they were made, and the files stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.planned import PlannedDisk


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    for name, text in {"a": b"0123456789", "b": b"bb", "c": b"c"}.items():
        (tmp_path / "data" / name).write_bytes(text)
    return tmp_path / "data"


@pytest.fixture
def disk(tmp_path: Path) -> PlannedDisk:
    (tmp_path / "spool").mkdir()
    return PlannedDisk(str(tmp_path / "spool"))


def read_in_all_ways(disk: Disk, path: Path) -> set[bytes]:
    """The result of each way to read a file, when more is requested than it has."""
    found = bytearray(100)
    with disk.open_read(path) as file:
        opened = bytearray(100)
        size = disk.read_into(file, memoryview(opened), 0)
        assert disk.size(file) == size
    whole = disk.read_file(path)
    assert whole is not None
    status = disk.status(path)
    assert status is not None
    assert disk.size(path) == status.size == size
    count = disk.read_into(path, memoryview(found), 0)
    return {whole, disk.read_at(path, 100, 0), bytes(found[:count]), bytes(opened[:size])}


def test_a_file_that_was_cut_ends_there_whichever_way_it_is_read(disk: PlannedDisk, data: Path) -> None:
    disk.truncate(data / "a", 4)

    assert read_in_all_ways(disk, data / "a") == {b"0123"}
    assert disk.read_at(data / "a", 10, 2) == b"23"
    assert disk.list_sizes(data, "a") == {"a": 4, "b": 0, "c": 0}


def test_a_file_that_was_replaced_has_the_new_bytes(disk: PlannedDisk, data: Path) -> None:
    disk.replace(data / "b", b"new bytes")
    disk.replace(data / "d", b"d")

    assert read_in_all_ways(disk, data / "b") == {b"new bytes"}
    assert [(entry.name, entry.size) for entry in disk.list_directory(data)] == [
        ("a", 10),
        ("b", 9),
        ("c", 1),
        ("d", 1),
    ]


def test_a_file_that_was_renamed_is_found_by_its_new_name_only(disk: PlannedDisk, data: Path) -> None:
    disk.truncate(data / "a", 3)
    disk.rename(data / "a", data / "b")

    assert read_in_all_ways(disk, data / "b") == {b"012"}
    assert not disk.exists(data / "a")
    with pytest.raises(DiskError):
        disk.read_at(data / "a", 1, 0)


def test_a_file_that_was_deleted_is_gone(disk: PlannedDisk, data: Path) -> None:
    assert disk.delete(data / "c")
    assert not disk.delete(data / "c")

    assert disk.status(data / "c") is None
    assert disk.read_file(data / "c") is None
    assert [entry.name for entry in disk.list_directory(data)] == ["a", "b"]


def test_the_files_themselves_stay_as_they_are(disk: PlannedDisk, data: Path) -> None:
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.iterdir()}

    disk.truncate(data / "a", 4)
    disk.replace(data / "b", b"new")
    disk.rename(data / "b", data / "d")
    disk.delete(data / "c")
    disk.sync(data / "a")
    disk.sync_directory(data)

    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in data.iterdir()} == before
