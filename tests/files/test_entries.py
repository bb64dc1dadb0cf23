"""What a disk says about files."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from stratalog.files.disk import Disk, EntryKind
from stratalog.files.entries import FileId, inode_of, lasting_id
from stratalog.files.reading import DiskReader

disk = Disk()


def test_a_listing_tells_kind_size_id_and_links(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "b").mkdir()
    (tmp_path / "c").symlink_to("a")
    (tmp_path / "d").symlink_to("nowhere")
    os.mkfifo(tmp_path / "e")
    listing = disk.list_directory(tmp_path)

    assert [(entry.name, entry.kind, entry.is_symlink) for entry in listing] == [
        ("a", EntryKind.FILE, False),
        ("b", EntryKind.DIRECTORY, False),
        ("c", EntryKind.FILE, True),
        ("d", EntryKind.OTHER, True),
        ("e", EntryKind.OTHER, False),
    ]
    assert listing[0].size == listing[2].size == 5
    assert listing[0].id == listing[2].id
    assert inode_of(listing[0].id) == (tmp_path / "a").stat().st_ino


def test_the_status_tells_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"12345")
    disk.set_modified(path, 1_700_000_000_123)
    status = disk.status(path)

    assert status is not None
    assert (status.kind, status.size, status.mtime_ms) == (EntryKind.FILE, 5, 1_700_000_000_123)
    assert (inode_of(status.id), status.mode) == (path.stat().st_ino, stat.S_IMODE(path.stat().st_mode))
    assert disk.status(tmp_path / "gone") is None
    assert disk.status(path / "below a file") is None
    assert disk.exists(tmp_path)
    assert not disk.exists(tmp_path / "gone")


def test_what_lasts_of_an_id_is_text(tmp_path: Path) -> None:
    status = Disk().status(tmp_path)
    assert status is not None

    assert lasting_id(status.id) == str(tmp_path.stat().st_ino)
    assert lasting_id(FileId("an object's own id")) == "an object's own id"


def test_a_file_of_zeros_that_were_never_written_takes_no_room(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345" * 10_000)
    with (tmp_path / "b").open("wb") as file:
        file.truncate(10 << 20)
    entries = Disk().list_directory(tmp_path)

    assert [entry.size for entry in entries] == [50_000, 10 << 20]
    assert [entry.disk_size for entry in entries] == [
        path.stat().st_blocks * 512 for path in sorted(tmp_path.iterdir())
    ]
    assert entries[1].disk_size < entries[1].size


def test_advice_that_the_system_refuses_was_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "leader-epoch-checkpoint")

    with DiskReader().open_read(tmp_path / "leader-epoch-checkpoint") as file:
        file.expect_sequential_reads()
        file.expect_read(0, 10)
