"""The owner and mode of created files."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stratalog.errors import DiskError
from stratalog.files.disk import Disk
from stratalog.files.ownership import who_cannot_give

disk = Disk()
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
STRANGER = 4321


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


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


def test_only_root_and_the_owner_can_give_a_file_to_the_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert who_cannot_give(STRANGER, 0o755) is None
    monkeypatch.setattr(os, "geteuid", lambda: 7)
    assert who_cannot_give(7, 0o755) is None
    assert who_cannot_give(STRANGER, 0o777) == 7
    assert who_cannot_give(STRANGER, 0o1777) is None  # shared, like /tmp
