"""The door to the disk, on a real one."""

from __future__ import annotations

import errno
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk

disk = Disk()
OPEN_FILES = Path("/proc/self/fd")
BYTES = bytes(range(256)) * 40


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(BYTES)
    return path


def test_appending_says_where_it_starts(tmp_path: Path) -> None:
    path = tmp_path / "log"

    assert disk.append(path, b"one") == 0
    assert disk.append(path, memoryview(b"three")) == 3
    assert disk.append(path, b"") == 8
    assert path.read_bytes() == b"onethree"
    assert disk.size(path) == 8


def test_a_disk_travels_to_other_processes(file: Path) -> None:
    assert pickle.loads(pickle.dumps(disk)).size(file) == len(BYTES)


def test_writing_at_a_position_changes_those_bytes_only(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    disk.write_at(path, b"xyz", 4)
    disk.write_at(path, np.frombuffer(b"AB", dtype=np.uint8), 12)

    assert path.read_bytes() == b"0123xyz789\0\0AB"


def test_writing_creates_no_file(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="could not open it") as caught:
        disk.write_at(tmp_path / "gone", b"x", 0)

    assert caught.value.errno == errno.ENOENT
    assert list(tmp_path.iterdir()) == []


def test_what_is_written_is_read_back_through_the_same_door(tmp_path: Path) -> None:
    path = tmp_path / "log"
    disk.create(path)
    disk.read_at(path, 1, 0)
    disk.write_at(path, b"one", 0)
    disk.append(path, b"two")

    assert disk.read_at(path, 10, 0) == b"onetwo"


def test_a_created_file_is_zeros_that_take_no_room(tmp_path: Path) -> None:
    path = tmp_path / "index"
    disk.create(path, 10 << 20)

    assert path.stat().st_size == 10 << 20
    assert path.stat().st_blocks * 512 < 1 << 20
    assert disk.read_at(path, 8, 5 << 20) == bytes(8)


def test_creating_what_is_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"precious")

    with pytest.raises(DiskError) as caught:
        disk.create(path)

    assert caught.value.errno == errno.EEXIST
    assert path.read_bytes() == b"precious"


def test_truncating_cuts_or_extends_with_zeros(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")
    disk.truncate(path, 3)
    disk.truncate(path, 5)

    assert path.read_bytes() == b"012\0\0"


def test_a_renamed_file_is_found_under_its_new_name_only(tmp_path: Path) -> None:
    old, new = tmp_path / "a.log", tmp_path / "b.log"
    old.write_bytes(b"moved")
    new.write_bytes(b"replaced")
    assert disk.read_at(old, 5, 0) + disk.read_at(new, 8, 0) == b"movedreplaced"
    disk.rename(old, new)

    assert disk.read_at(new, 8, 0) == b"moved"
    with pytest.raises(DiskError):
        disk.read_at(old, 5, 0)


def test_files_of_a_renamed_directory_are_found_under_its_new_name_only(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "log").write_bytes(b"bytes")
    assert disk.read_at(tmp_path / "t-0" / "log", 5, 0) == b"bytes"
    disk.rename(tmp_path / "t-0", tmp_path / "t-0.x-delete")

    assert disk.read_at(tmp_path / "t-0.x-delete" / "log", 5, 0) == b"bytes"
    with pytest.raises(DiskError):
        disk.read_at(tmp_path / "t-0" / "log", 5, 0)


def test_a_deleted_file_is_gone_although_it_was_open(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"bytes")
    disk.read_at(path, 5, 0)

    assert disk.delete(path) is True
    assert disk.delete(path) is False
    with pytest.raises(DiskError):
        disk.read_at(path, 5, 0)


def test_a_replaced_file_has_the_new_bytes_and_no_trace_is_left(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    disk.replace(path, b"first")
    assert disk.read_at(path, 10, 0) == b"first"
    disk.replace(path, b"2nd")

    assert disk.read_at(path, 10, 0) == b"2nd"
    assert [entry.name for entry in disk.list_directory(tmp_path)] == ["checkpoint"]


def test_a_temporary_file_left_by_a_crash_does_not_stop_the_next_replacement(tmp_path: Path) -> None:
    (tmp_path / "checkpoint.tmp").write_bytes(b"half of someth")
    disk.replace(tmp_path / "checkpoint", b"whole")

    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert (tmp_path / "checkpoint").read_bytes() == b"whole"


def test_several_files_are_replaced_as_if_one_by_one(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in "ab"]
    wanted = {}
    for folder in folders:
        folder.mkdir()
        (folder / "0").write_bytes(b"old")
        (folder / "1.tmp").write_bytes(b"half of someth")
        wanted |= {folder / str(number): b"new %d" % number for number in range(70)}

    disk.replace_all([*wanted.items()])

    assert {path: path.read_bytes() for folder in folders for path in folder.iterdir()} == wanted
    disk.replace_all([])
    disk.replace_all([(folders[0] / "0", b"alone")])
    assert (folders[0] / "0").read_bytes() == b"alone"


def test_if_one_of_several_files_cannot_be_written_none_is_replaced(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(5)]
    with pytest.raises(DiskError, match="missing/file"):
        disk.replace_all([(path, b"new") for path in [*paths, tmp_path / "missing" / "file"]])

    assert {path.suffix for path in tmp_path.iterdir()} == {".tmp"}


def test_files_that_were_written_are_closed_if_another_of_their_run_or_its_sync_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []
    closed: list[int] = []

    def refuse(descriptor: int) -> None:
        raise OSError(errno.EIO, f"no sync of {descriptor}")

    def close(descriptor: int) -> None:
        closed.append(descriptor)
        close_really(descriptor)

    def create(name: str, *others: int) -> int:
        opened.append(open_really(name, *others))
        return opened[-1]

    open_really, close_really = os.open, os.close
    monkeypatch.setattr(os, "open", create)
    monkeypatch.setattr(os, "close", close)
    paths = [tmp_path / str(number) for number in range(140)]

    with pytest.raises(DiskError, match="missing/file"):
        disk.replace_all([(path, b"new") for path in [*paths, tmp_path / "missing" / "file", tmp_path / "z"]])
    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(DiskError, match="no sync"):
        disk.replace_all([(path, b"new") for path in paths])

    assert len(opened) > 140
    assert sorted(closed) == sorted(opened)
    assert {path.suffix for path in tmp_path.iterdir()} == {".tmp"}


def test_every_file_is_on_the_device_before_it_gets_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    unsynced: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_sync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def note_rename(source: str, target: str) -> None:
        if Path(source).stat().st_ino not in synced:
            unsynced.append(target)
        rename(source, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    for name in ("rename", "replace"):
        monkeypatch.setattr(os, name, note_rename)

    disk.replace_all([(tmp_path / str(number), b"new") for number in range(140)])

    assert len([*tmp_path.iterdir()]) == 140
    assert len(synced) > 140
    assert unsynced == []


def test_a_write_that_is_refused_when_the_file_is_closed_is_an_error_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on NFS. The first file that could not be closed left the others open."""
    close = os.close

    def refuse(descriptor: int) -> None:
        file = (OPEN_FILES / str(descriptor)).readlink()
        close(descriptor)
        if file.suffix == ".tmp":
            raise OSError(errno.EDQUOT, "too much")

    opened_before = [*OPEN_FILES.iterdir()]
    monkeypatch.setattr(os, "close", refuse)
    with pytest.raises(DiskError, match="too much"):
        disk.replace_all([(tmp_path / str(number), b"new") for number in range(140)])
    with pytest.raises(DiskError, match="too much"):
        disk.replace(tmp_path / "alone", b"new")
    monkeypatch.undo()

    assert len([*OPEN_FILES.iterdir()]) <= len(opened_before)


def test_work_that_waits_is_done_at_the_same_time_and_its_results_are_in_order() -> None:
    meeting = threading.Barrier(8)

    def work(number: int) -> int:
        meeting.wait(10)  # all eight are at work
        return number * number

    assert disk.together(work, range(8)) == [number * number for number in range(8)]


def test_the_error_of_work_that_waits_is_raised_when_the_rest_is_done() -> None:
    done = []

    def work(number: int) -> None:
        if number == 3:
            raise DiskError("file", "refused", 5)
        done.append(number)

    with pytest.raises(DiskError, match="refused"):
        disk.together(work, range(100))
    assert sorted(done) == [number for number in range(100) if number != 3]


def test_files_and_directories_are_synced_together(tmp_path: Path) -> None:
    (tmp_path / "there").write_bytes(b"")

    disk.sync_all([tmp_path / "there"] * 5, [tmp_path])
    with pytest.raises(DiskError, match="gone"):
        disk.sync_all([tmp_path / "there", tmp_path / "gone", tmp_path / "there"])


def test_a_planted_link_is_not_written_through(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    (tmp_path / "checkpoint.tmp").symlink_to(victim)
    (tmp_path / "log").symlink_to(tmp_path / "elsewhere")
    disk.replace(tmp_path / "checkpoint", b"new")
    with pytest.raises(DiskError):
        disk.create(tmp_path / "log")

    assert victim.read_bytes() == b"precious"
    assert not (tmp_path / "elsewhere").exists()


def test_directories_are_made_and_removed_once(tmp_path: Path) -> None:
    path = tmp_path / "t-0"

    assert disk.make_directory(path) is True
    assert disk.make_directory(path) is False
    assert disk.remove_directory(path) is True
    assert disk.remove_directory(path) is False


def test_a_directory_that_is_not_empty_or_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / "log").write_bytes(b"")

    with pytest.raises(DiskError, match="not empty"):
        disk.remove_directory(tmp_path / "t-0")
    with pytest.raises(DiskError):
        disk.make_directory(tmp_path / "t-0" / "log")


def test_syncing_needs_something_to_sync(tmp_path: Path) -> None:
    path = tmp_path / "log"
    disk.create(path)
    disk.sync(path)
    disk.sync_directory(tmp_path)

    with pytest.raises(DiskError):
        disk.sync(tmp_path / "gone")
    with pytest.raises(DiskError, match="sync"):
        disk.sync_directory(path)


@pytest.mark.parametrize("kind", [bytes, bytearray])
def test_a_system_that_takes_a_few_bytes_at_a_time_gets_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[bytes | bytearray]
) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"....")

    def few(descriptor: int, data: bytes | memoryview, position: int) -> int:
        return os.pwrite(descriptor, data[:3], position)

    monkeypatch.setattr("stratalog.files.disk._write_at", few)
    disk.write_at(file, kind(b"0123456789"), 2)

    assert file.read_bytes() == b"..0123456789"


def test_a_temporary_file_has_no_name_and_keeps_what_is_written(tmp_path: Path) -> None:
    with disk.temporary_file(tmp_path) as file:
        file.write(b"0123456789")
        file.seek(4)

        assert file.read(3) == b"456"
        assert list(tmp_path.iterdir()) == []


def test_a_temporary_file_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(DiskError, match="could not create a temporary file in it") as caught:
        disk.temporary_file(tmp_path / "gone")

    assert caught.value.errno == errno.ENOENT
