"""What changes files: written, cut, renamed, replaced, and to whom they belong afterwards."""

from __future__ import annotations

import errno
import os
import pickle
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from stratalog.errors import DiskError
from stratalog.files import descriptors
from stratalog.files.disk import Disk, EntryKind
from stratalog.files.entries import lasting_id

disk = Disk()
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
STRANGER = 4321


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_reading_at_a_position_ends_where_the_file_does(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"0123456789")

    assert disk.read_at(path, 4, 3) == b"3456"
    assert disk.read_at(path, 100, 7) == b"789"
    assert disk.read_at(path, 4, 10) == b""
    assert disk.read_at(path, 0, 0) == b""


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


def test_the_status_tells_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"12345")
    disk.set_modified(path, 1_700_000_000_123)
    status = disk.status(path)

    assert status is not None
    assert (status.kind, status.size, status.mtime_ms) == (EntryKind.FILE, 5, 1_700_000_000_123)
    assert (lasting_id(status.id), status.mode) == (path.stat().st_ino, mode_of(path))
    assert disk.status(tmp_path / "gone") is None
    assert disk.status(path / "below a file") is None
    assert disk.exists(tmp_path)
    assert not disk.exists(tmp_path / "gone")


def test_syncing_needs_something_to_sync(tmp_path: Path) -> None:
    path = tmp_path / "log"
    disk.create(path)
    disk.sync(path)
    disk.sync_directory(tmp_path)

    with pytest.raises(DiskError):
        disk.sync(tmp_path / "gone")
    with pytest.raises(DiskError, match="sync"):
        disk.sync_directory(path)


@pytest.mark.parametrize(
    ("directory", "file"), [(0o755, 0o644), (0o700, 0o600), (0o770, 0o660), (0o2775, 0o664)]
)
def test_a_new_file_takes_the_mode_of_its_directory(tmp_path: Path, directory: int, file: int) -> None:
    tmp_path.chmod(directory)
    disk.create(tmp_path / "created")
    disk.append(tmp_path / "appended", b"x")
    disk.replace(tmp_path / "replaced", b"x")
    disk.make_directory(tmp_path / "made")

    assert [mode_of(tmp_path / name) for name in ("created", "appended", "replaced")] == [file] * 3
    assert mode_of(tmp_path / "made") == directory


def test_a_replacement_takes_the_mode_of_what_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"old")
    path.chmod(0o604)
    disk.replace(path, b"new")

    assert mode_of(path) == 0o604


def test_a_directory_that_everyone_may_write_to_gives_no_such_right(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    disk.create(tmp_path / "log")

    assert mode_of(tmp_path / "log") & 0o022 == 0


@root_only
def test_what_root_creates_belongs_to_the_owner_of_the_directory(tmp_path: Path) -> None:
    os.chown(tmp_path, STRANGER, STRANGER + 1)
    disk.create(tmp_path / "created")
    disk.append(tmp_path / "appended", b"x")
    disk.replace(tmp_path / "replaced", b"x")
    disk.make_directory(tmp_path / "made")
    os.chown(tmp_path / "replaced", STRANGER + 2, STRANGER + 3)
    disk.replace(tmp_path / "replaced", b"y")

    owners = {path.name: (path.stat().st_uid, path.stat().st_gid) for path in tmp_path.iterdir()}
    assert owners == {
        "created": (STRANGER, STRANGER + 1),
        "appended": (STRANGER, STRANGER + 1),
        "replaced": (STRANGER + 2, STRANGER + 3),
        "made": (STRANGER, STRANGER + 1),
    }


@contextmanager
def as_a_stranger() -> Iterator[None]:
    """Another user, where root runs the tests: root is refused nothing."""
    if os.geteuid() != 0:
        yield
        return
    os.setegid(STRANGER)
    os.seteuid(STRANGER)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that other users reach and may write to, which pytest's own are not."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


@root_only
def test_an_owner_that_cannot_be_given_is_an_error_only_where_it_is_required(open_to_all: Path) -> None:
    with as_a_stranger():
        disk.create(open_to_all / "kept")
        with pytest.raises(DiskError) as caught:
            Disk(require_owner=True).create(open_to_all / "refused")

    assert caught.value.errno == errno.EPERM
    assert [path.name for path in open_to_all.iterdir()] == ["kept"]


def test_a_directory_of_another_user_is_refused_with_advice(open_to_all: Path) -> None:
    open_to_all.chmod(0o555)

    with as_a_stranger(), pytest.raises(DiskError, match="Run as the user that owns") as caught:
        disk.create(open_to_all / "log")

    assert caught.value.errno == errno.EACCES


def test_errors_and_disks_travel_to_other_processes() -> None:
    error = pickle.loads(pickle.dumps(DiskError("a/b", "is full.", errno.ENOSPC)))

    assert (error.path, error.errno, str(error)) == ("a/b", errno.ENOSPC, "a/b: is full.")
    assert isinstance(pickle.loads(pickle.dumps(Disk(require_owner=True))), Disk)


def test_many_files_are_used_through_few_descriptors(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) for number in range(400)]
    for number, path in enumerate(paths):
        disk.create(path)
        disk.write_at(path, number.to_bytes(4, "big"), 0)

    assert [int.from_bytes(disk.read_at(path, 4, 0), "big") for path in paths] == list(range(400))
    assert descriptors.shared.open_count <= descriptors.MAX_OPEN
    disk.close()
    assert descriptors.shared.open_count == 0


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
